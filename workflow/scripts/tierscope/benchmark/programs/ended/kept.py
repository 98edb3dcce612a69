"""What a program did stays until its run is written, by a later launch if need be.

The folder in which the nodes of a run meet says how far the run is. Its last step needs
no room, as the disk may be full.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tierscope.core.files import write_back, write_text
from tierscope.core.machine import TierError
from tierscope.core.validation import read_json
from tierscope.core.words import size_words

_BEGUN, _ENDED = "begun.json", "ended.json"
_NODES = ".nodes-"


@dataclass(frozen=True)
class EndedProgram:
    """A program that has run to its end on all ranks.

    Parameters
    ----------
    shared : Path
        The folder in which its nodes have met.
    facts : mapping
        What its launch knew before: a part of `run.json`.
    ended_s : float
        When it ended, in seconds since 1970.
    """

    shared: Path
    facts: Mapping[str, Any]
    ended_s: float

    @property
    def finished(self) -> str:
        """Return when it ended as `run.json` holds it."""
        return datetime.fromtimestamp(self.ended_s, UTC).isoformat(timespec="seconds")


def meeting_folder(run: Path, launch: str) -> Path:
    """Return where the nodes of a run meet; ranks of a first try know another one.

    They may still be ending on a node that is down.
    """
    return (run / f"{_NODES}{launch}").absolute()


@contextmanager
def reserved(path: Path, n_bytes: int) -> Iterator[None]:
    """Hold room for what is written afterwards: a program may fill the disk.

    A TierError says that there is none.
    """
    try:
        with path.open("wb") as file:
            _hold(file.fileno(), n_bytes, path.parent)
        yield
    finally:
        path.unlink(missing_ok=True)


def _hold(fd: int, n_bytes: int, folder: Path) -> None:
    try:
        os.posix_fallocate(fd, 0, n_bytes)
    except OSError as error:  # which names no file
        raise TierError(
            f"{folder}: got {error.strerror}, expected room for {size_words(n_bytes)} "
            "for the notes of a run"
        ) from error


def mark_begun(shared: Path, facts: Mapping[str, Any]) -> None:
    """Write down what is known before the program starts."""
    write_text(shared / _BEGUN, json.dumps(facts))


def mark_ended(shared: Path) -> None:
    """Say that the program has ended on all ranks, now.

    The file's own time needs no room either, and stays if its rights change.
    """
    now_s = time.time()
    write_back(shared)
    os.utime(shared / _BEGUN, (now_s, now_s))
    (shared / _BEGUN).rename(shared / _ENDED)


def ended_program(run: Path) -> EndedProgram | None:
    """Return the program that has ended in the folder of a run, if its run lacks."""
    for path in sorted(run.glob(f"{_NODES}*/{_ENDED}")):
        facts = read_json(path)
        return EndedProgram(path.parent.absolute(), facts, path.stat().st_mtime)
    return None
