"""Which processes of this machine live, since when, and who has started them."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
_DEAD = ("Z", "X", "x")


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks after boot; None if it is gone.

    A zombie is gone. The time tells a process from a later one of the same number.
    """
    try:
        content = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = content[content.rindex(b")") + 1 :].split()  # from the third one on
    return None if fields[0].decode() in _DEAD else int(fields[19])


def start_words(ticks: int) -> str:
    """Return the local time at which a process started, for readers."""
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    began_s = booted_s + ticks / os.sysconf("SC_CLK_TCK")
    return time.strftime(TIME_FORMAT, time.localtime(began_s))


def children_of(pid: int) -> dict[int, int]:
    """Return the start of each process that a process has started and that runs."""
    found: list[str] = []
    with suppress(OSError):  # it has ended
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            found += path.read_text(encoding="utf-8").split()
    began = {child: start_time(child) for child in map(int, found)}
    return {child: ticks for child, ticks in began.items() if ticks is not None}


def descendants(pid: int) -> dict[int, int]:
    """Return the start of each process that comes from a process, directly or not."""
    found = children_of(pid)
    for child in list(found):
        found |= descendants(child)
    return found


def gone_text(ranks: Sequence[int], size: int, host: str) -> str:
    """Return the message about ranks that have ended without a word."""
    many = len(ranks) > 1
    names = f"rank{'s' * many} {', '.join(map(str, ranks))}"
    verb = "are" if many else "is"
    return f"{names} of {size} on {host} {verb} gone: killed, or out of memory?"
