"""Read many Darshan logs in worker processes.

A worker is a process of its own (`tierscope.logs.worker`), so a log that crashes a
library, or a file system that does not answer, costs one log.
"""

import hashlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

from tierscope.core.imports import digest_of_modules
from tierscope.core.words import number_words
from tierscope.logs import worker
from tierscope.logs.chunks.listing import ListedLog
from tierscope.logs.settings import LOG_TIMEOUT_S, worker_bytes
from tierscope.logs.summary import FORM
from tierscope.logs.tiers import TierPrefix
from tierscope.trace.darshan.inflation import USUAL, Inflation

_PACKAGE_PARENT = Path(__file__).parents[2]
_LOOK_S = 1.0  # how often a worker that does not answer is looked at
_END_S = 1.0  # in which a killed worker ends, unless the system holds it


class ReadingError(RuntimeError):
    """Logs cannot be read, for a reason that is not in the logs."""


class _Blocked(Exception):
    """A worker waits for a file system that does not answer."""


@dataclass(frozen=True)
class ReadLog:
    """A log that was read: the text of its summary, and what tells its job.

    `facts` are the values of `grouping.LogFacts` after the path.
    """

    digest: str
    facts: dict[str, Any]
    summary: str


@dataclass(frozen=True)
class Refusal:
    """Why a log is not used, and whether it may be read later though it is the same."""

    reason: str
    may_pass: bool = False


@dataclass(frozen=True)
class ReadingKey:
    """What summaries depend on besides the log, as digests.

    `settings` is of the settings and of the form of summaries, `code` of the sources.
    """

    settings: str
    code: str


def reading_key(tiers: Sequence[TierPrefix] | str, epochs: str | None) -> ReadingKey:
    """Return the key of what is read now."""
    values = json.dumps([_as_lists(tiers), epochs, FORM])
    code = digest_of_modules(Path(worker.__file__), _PACKAGE_PARENT)
    return ReadingKey(hashlib.sha256(values.encode()).hexdigest(), code)


def read_logs(
    logs: Sequence[ListedLog],
    tiers: Sequence[TierPrefix] | str,
    epochs: str | None,
    *,
    keep: Callable[[str, ReadLog | Refusal], None],
    n_workers: int | None = None,
    timeout_s: float = LOG_TIMEOUT_S,
    inflation: Inflation = USUAL,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Sum up logs in parallel.

    Parameters
    ----------
    logs : sequence of ListedLog
    tiers : sequence of TierPrefix, or ``auto``
    epochs : str, optional
        Regular expression for the epoch of a path.
    keep : callable of (path, ReadLog or Refusal)
        Takes what was read of a log, or why it is refused, as soon as it is known.
    n_workers : int, optional
        Most processes, by default one for each processor that this process may use.
        They are fewer if memory is short.
    timeout_s : float
        A log is refused if its worker neither reads nor computes for so long.
    inflation : Inflation
        A log is refused if its parts inflate to more.
    progress : callable of (logs done, logs)

    Raises
    ------
    ReadingError
        If no worker starts.
    """
    settings = {"tiers": _as_lists(tiers), "epochs": epochs}
    settings["inflation"] = vars(inflation)
    n_workers = n_workers or len(os.sched_getaffinity(0))
    n_workers = workers_for(logs, _available_bytes(), n_workers)
    queue: SimpleQueue[str] = SimpleQueue()
    for log in sorted(logs, key=lambda log: -log.size_bytes):  # the large ones first
        queue.put(log.path)
    lock, n_done = threading.Lock(), itertools.count(1)

    def take(path: str, answer: ReadLog | Refusal) -> None:
        with lock:
            keep(path, answer)
            progress(next(n_done), len(logs))

    with ThreadPoolExecutor(n_workers) as pool:
        working = [
            pool.submit(_work, queue, settings, timeout_s, take)
            for _ in range(min(n_workers, len(logs)))
        ]
        try:
            for done in as_completed(working):
                done.result()
        finally:
            list(_taken(queue))  # so that the others end, too


def workers_for(logs: Iterable[ListedLog], free_bytes: int, most: int) -> int:
    """Return how many workers fit into memory if each reads the largest log."""
    largest = max((log.size_bytes for log in logs), default=0)
    return max(1, min(most, free_bytes // worker_bytes(largest)))


def _as_lists(tiers: Sequence[TierPrefix] | str) -> object:
    """Return tiers for JSON."""
    return tiers if isinstance(tiers, str) else [list(vars(t).values()) for t in tiers]


def _work(
    queue: "SimpleQueue[str]",
    settings: dict[str, object],
    timeout_s: float,
    keep: Callable[[str, ReadLog | Refusal], None],
) -> None:
    """Let one worker read logs until none is left; replace a worker that dies."""
    process = None
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            for path in _taken(queue):
                process = process or _start(settings, errors)
                try:
                    answer = _ask(process, path, timeout_s)
                except _Blocked:
                    answer = Refusal(
                        "its file system does not answer: its reader has waited for "
                        f"{number_words(timeout_s)} s (log_timeout_s).",
                        may_pass=True,
                    )
                    _abandon(process)
                    process = None
                if answer is None:  # one that was killed may pass
                    reason, code = _death(process, errors), -process.returncode
                    is_killed = code in (signal.SIGKILL, signal.SIGTERM)
                    answer, process = Refusal(reason, is_killed), None
                keep(path, answer)
        finally:
            if process:
                process.communicate()


def _taken(queue: "SimpleQueue[str]") -> Iterator[str]:
    """Yield what is taken from a queue until it is empty."""
    with suppress(Empty):
        while True:
            yield queue.get_nowait()


def _ask(
    process: subprocess.Popen, path: str, timeout_s: float
) -> ReadLog | Refusal | None:
    """Return a worker's answer, None if it dies; if it is nonsense, end the worker."""
    try:
        process.stdin.write(json.dumps(path) + "\n")
        process.stdin.flush()
        _wait(process, timeout_s)
        if not (line := process.stdout.readline()):
            return None
        head = json.loads(line)
        if "reason" in head:
            return Refusal(head["reason"], head["may_pass"])
        summary = process.stdout.readline()
        if summary.endswith("\n"):
            return ReadLog(head["digest"], head["facts"], summary.rstrip("\n"))
    except BrokenPipeError:
        pass
    except (ValueError, TypeError, KeyError):
        process.kill()  # it died, or a library of its own wrote, in the middle
    return None


def _wait(process: subprocess.Popen, timeout_s: float) -> None:
    """Wait for an answer; raise _Blocked if the worker does nothing for so long."""
    before, since_s = None, time.monotonic()
    while not select.select([process.stdout], [], [], min(_LOOK_S, timeout_s))[0]:
        state, done = _activity(process.pid)
        if state == "R" or done != before:
            before, since_s = done, time.monotonic()
        elif time.monotonic() - since_s >= timeout_s:
            raise _Blocked


def _activity(pid: int) -> tuple[str, list[str]]:
    """Return the state of a process, its processor times, and the bytes it has read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        fields = text.rpartition(")")[2].split()
        done = fields[11:13]
        with suppress(OSError):
            done += Path(f"/proc/{pid}/io").read_text("utf-8").split("\n", 1)[:1]
        return fields[0], done
    except (OSError, IndexError):
        return "", []


def _abandon(process: subprocess.Popen) -> None:
    """End a worker; it may end only when its file system answers."""
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            pipe.close()


def _start(settings: dict[str, object], errors: IO[str]) -> subprocess.Popen:
    """Start a worker and tell it the settings; its messages go to a file."""
    modules = os.pathsep.join([str(_PACKAGE_PARENT), *filter(None, sys.path)])
    errors.seek(0)
    errors.truncate()  # the words of a worker before it
    process = subprocess.Popen(
        [sys.executable, "-m", worker.__name__],
        env=os.environ | {"PYTHONPATH": modules, "PYTHONSAFEPATH": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        encoding="utf-8",
        errors="surrogateescape",
    )
    if process.stdout.readline() != f"{worker.READY}\n":  # no log is to blame
        raise ReadingError(f"cannot read logs: {_death(process, errors)}")
    process.stdin.write(json.dumps(settings) + "\n")
    return process


def _death(process: subprocess.Popen, errors: IO[str]) -> str:
    """Return why a worker ended while it read a log."""
    process.communicate()
    if process.returncode < 0:
        return f"its reader was ended by signal {-process.returncode}."
    errors.seek(0)
    lines = errors.read().strip().splitlines() or [f"exit {process.returncode}"]
    return f"its reader failed: {lines[-1]}"


def _available_bytes() -> int:
    """Return how much memory new processes can use."""
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 1 << 30
