"""Which processes of this machine live, and since when."""

from collections.abc import Sequence
from pathlib import Path

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


def gone_text(ranks: Sequence[int], size: int, host: str) -> str:
    """Return the message about ranks that have ended without a word."""
    many = len(ranks) > 1
    names = f"rank{'s' * many} {', '.join(map(str, ranks))}"
    verb = "are" if many else "is"
    return f"{names} of {size} on {host} {verb} gone: killed, or out of memory?"
