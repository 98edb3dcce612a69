"""Copies of a dataset's files while a program reads: a process of its own makes them.

It is traced, so that the log has its reads and writes, under names of background
traffic. It is not redirected.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tierscope.benchmark.placement.actions import CHANGED
from tierscope.benchmark.programs.staging import copy_whole
from tierscope.core.files import named_at_end
from tierscope.core.machine import TierError
from tierscope.core.processes.children import end_with_parent, kill
from tierscope.logs.traced.call import Identity, identity_of
from tierscope.storage.tier import background_alias

if TYPE_CHECKING:
    import pandas as pd

LINKS = "TIERSCOPE_LINKS"  # variable of the process with the folder of the tiers' names
_SCRIPT = Path(__file__).parents[3] / "copy_in_background.py"
_ANSWER_BYTES = 1 << 16


@dataclass(frozen=True)
class Ended:
    """The end of a copy: its file and epoch, and why it failed, if it did."""

    file_id: int
    epoch: int
    error: str | None = None
    number: int = 0  # of the error, or `CHANGED`


class Copier:
    """Orders copies of a process of its own, and takes its answers.

    Parameters
    ----------
    links : path
        Folder of the tiers' names on this node.
    folders : mapping of str to str
        Where copies come from (``gfs``), get their names (``lfs``) and are written
        (``copying``).
    manifest : DataFrame
        Table `user_manifest` of the dataset.
    n_threads : int
        Copies at a time.
    cold : bool
        Whether copies and originals leave the page cache.
    environment : mapping
        Environment of the process: that of a traced one.
    """

    def __init__(
        self,
        links: str | Path,
        folders: Mapping[str, str],
        manifest: "pd.DataFrame",
        n_threads: int,
        *,
        cold: bool,
        environment: Mapping[str, str],
    ):
        self._links, self._folders = Path(links), folders
        columns = ("path", "size_bytes", "mtime_ns")
        self._listed = [manifest[name].tolist() for name in columns]
        self._epochs: set[int] = set()
        self._epoch_of: dict[int, int] = {}  # of copies under way
        self._rest = b""
        words = ["--copies", folders["lfs"], "--threads", n_threads]
        self._process = subprocess.Popen(
            [sys.executable, _SCRIPT, *map(str, words), *["--cold"] * cold],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment) | {LINKS: str(links)},
            preexec_fn=partial(end_with_parent, os.getpid()),
        )
        os.set_blocking(self._process.stdout.fileno(), False)

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid

    @property
    def identity(self) -> Identity:
        """Return what no other process has."""
        return identity_of(self.pid)

    @property
    def n_under_way(self) -> int:
        """Return the number of copies that have not ended."""
        return len(self._epoch_of)

    @property
    def progress(self) -> tuple[int, int]:
        """Return copies under way and the bytes that they have written so far."""
        with os.scandir(self._folders["copying"]) as entries:
            return self.n_under_way, sum(map(_size, entries))

    @property
    def status(self) -> int | None:
        """Return how the process has ended, None while it runs."""
        return self._process.poll()

    def name(self, file_id: int) -> str:
        """Return the path of a file below the dataset."""
        return self._listed[0][file_id]

    def is_copied(self, file_id: int) -> bool:
        """Return whether a file is being copied."""
        return file_id in self._epoch_of

    def order(self, file_id: int, epoch: int) -> None:
        """Order the copy of a file that is not being copied."""
        self._make_links(epoch)
        self._epoch_of[file_id] = epoch
        listed = (column[file_id] for column in self._listed)
        line = json.dumps([file_id, epoch, *listed]) + "\n"
        with suppress(BrokenPipeError):  # `ended` says what is lost
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()

    def _make_links(self, epoch: int) -> None:
        """Make the names of the tiers for copies of an epoch."""
        if epoch in self._epochs:
            return
        self._epochs.add(epoch)
        for tier, folder in (("gfs", "gfs"), ("lfs", "copying")):
            alias = background_alias(self._links / tier, epoch)
            alias.symlink_to(self._folders[folder])

    def remove(self, file_id: int) -> None:
        """Remove a copy; raise an OSError if that cannot be done."""
        os.unlink(f"{self._folders['lfs']}/{self.name(file_id)}")

    def ended(self) -> Iterator[Ended]:
        """Yield the copies that have ended since the last call.

        If the process has ended, all copies under way have failed.
        """
        has_ended = self._process.poll() is not None
        for line in self._answers():
            file_id, error = json.loads(line)
            number, words = error or (0, None)
            yield Ended(file_id, self._epoch_of.pop(file_id), words, number)
        if has_ended:
            for file_id, epoch in list(self._epoch_of.items()):
                del self._epoch_of[file_id]
                yield Ended(file_id, epoch, "the process that copies has ended")

    def _answers(self) -> list[bytes]:
        """Return the whole lines that have come."""
        with suppress(BlockingIOError):
            while chunk := os.read(self._process.stdout.fileno(), _ANSWER_BYTES):
                self._rest += chunk
        *lines, self._rest = self._rest.split(b"\n")
        return lines

    def close(self, patience_s: float = 0.0) -> int:
        """End the process; return its exit status, negative after a signal."""
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            kill(self._process)
        self._process.stdout.close()
        status = self._process.poll()
        return -signal.SIGKILL if status is None else status


def _size(entry: os.DirEntry) -> int:
    """Return the bytes of a copy so far; 0 if it has got its name meanwhile."""
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return 0


# ---- the process ---------------------------------------------------------------------


def serve(links: str, copies: Path, n_threads: int, *, cold: bool) -> None:
    """Carry out the orders of standard input, first come, first served."""
    answering = threading.Lock()

    def carry_out(order: Sequence) -> None:
        error = _copy(links, copies, *order, cold=cold)
        with answering:
            print(json.dumps([order[0], error]), flush=True)

    with ThreadPoolExecutor(n_threads) as pool:
        for line in sys.stdin:
            pool.submit(carry_out, json.loads(line))


def _copy(
    links: str,
    copies: Path,
    file_id: int,
    epoch: int,
    name: str,
    size_bytes: int,
    mtime_ns: int,
    *,
    cold: bool,
) -> tuple[int, str] | None:
    """Copy a file under another name, and rename it; return why that failed."""
    gfs, lfs = (background_alias(Path(links, tier), epoch) for tier in ("gfs", "lfs"))
    copying, target = f"{lfs}/{file_id}", copies / name
    try:
        with named_at_end(copying, str(target)):
            copy_whole(
                f"{gfs}/{name}",
                copying,
                size_bytes,
                mtime_ns,
                cold=cold,
                leaves_memory=cold,
            )
            target.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, TierError) as error:
        if isinstance(error, TierError):
            return CHANGED, str(error)
        return error.errno or 0, error.strerror or str(error)
    return None
