"""Read many logs in worker processes, and keep what was read.

A worker is a process of its own (`tierscope.logs.worker`), so a log that crashes a
library costs one log. Summaries are kept under the digest of the log's content, of the
settings and of our modules: a log that was read once is not read again.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from tierscope.core.imports import digest_of_modules
from tierscope.logs import worker
from tierscope.logs.summary import Summary
from tierscope.logs.tiers import TierPrefix

# Of a worker that reads a log: what Python and its libraries need, and per byte of log.
_WORKER_BYTES = 200 << 20
_BYTES_PER_LOG_BYTE = 40  # 36 were measured: records of one process compress well
SAME_CONTENT = "has the same content as"
_PACKAGE_PARENT = Path(__file__).parents[2]


class ReadingError(RuntimeError):
    """Logs cannot be read, for a reason that is not in the logs."""


@dataclass
class Reading:
    """What was read: the summary of each log, or why it was refused; by path."""

    summaries: dict[str, Summary] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)


def read_logs(
    paths: Sequence[str],
    tiers: Sequence[TierPrefix] | str,
    epochs: str | None,
    folder: Path,
    *,
    n_workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Reading:
    """Sum up logs in parallel.

    Parameters
    ----------
    paths : sequence of str
        Logs.
    tiers : sequence of TierPrefix, or ``auto``
    epochs : str, optional
        Regular expression for the epoch of a path.
    folder : Path
        Where summaries are kept.
    n_workers : int, optional
        Most processes, by default one for each processor that this process may use.
        They are fewer if memory is short.
    progress : callable of (logs done, logs)

    Returns
    -------
    Reading
        In the order of `paths`. Of logs with equal content only the first is read; the
        others are refused.

    Raises
    ------
    ReadingError
        If no worker starts, or summaries cannot be written.
    """
    listed = (
        tiers if isinstance(tiers, str) else [list(vars(t).values()) for t in tiers]
    )
    settings = {"tiers": listed, "epochs": epochs, "folder": str(folder)}
    settings["key"] = _key(listed, epochs)
    n_workers = n_workers or _n_processors()
    n_workers = workers_for(paths, _available_bytes(), n_workers)
    for _ in range(2):
        answers = _answers(paths, settings, n_workers, progress)
        reading, broken = _gather(answers, folder, settings["key"])
        if not broken:
            return reading
        for path in broken:
            path.unlink(missing_ok=True)
    raise ReadingError(f"{broken[0]}: cannot be read, though it was just written.")


def _answers(
    paths: Sequence[str],
    settings: dict[str, object],
    n_workers: int,
    progress: Callable[[int, int], None],
) -> list[dict[str, str]]:
    """Return what workers answer to each path."""
    answers: dict[str, dict[str, str]] = {}
    queue: SimpleQueue[str] = SimpleQueue()
    for path in sorted(paths, key=_size, reverse=True):  # the large ones first
        queue.put(path)
    lock = threading.Lock()

    def keep(answer: dict[str, str]) -> None:
        with lock:
            answers[answer["log"]] = answer
            progress(len(answers), len(paths))

    with ThreadPoolExecutor(n_workers) as pool:
        working = [
            pool.submit(_work, queue, settings, keep)
            for _ in range(min(n_workers, len(paths)))
        ]
        try:
            for done in as_completed(working):
                done.result()
        finally:
            list(_taken(queue))  # so that the others end, too
    return [answers[path] for path in paths]


def workers_for(paths: Iterable[str], free_bytes: int, most: int) -> int:
    """Return how many workers fit into memory if each reads the largest log."""
    largest = max(map(_size, paths), default=0)
    each = _WORKER_BYTES + _BYTES_PER_LOG_BYTE * largest
    return max(1, min(most, free_bytes // each))


def _key(tiers: object, epochs: str | None) -> str:
    """Return a digest of what summaries depend on besides the log."""
    modules = digest_of_modules(Path(worker.__file__), _PACKAGE_PARENT)
    return hashlib.sha256(json.dumps([tiers, epochs, modules]).encode()).hexdigest()


def _work(
    queue: "SimpleQueue[str]",
    settings: dict[str, object],
    keep: Callable[[dict[str, str]], None],
) -> None:
    """Let one worker read logs until none is left; replace a worker that dies."""
    process = None
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            for path in _taken(queue):
                process = process or _start(settings, errors)
                answer = _ask(process, path)
                if "stop" in answer:
                    raise ReadingError(answer["stop"])
                if "log" not in answer:
                    answer = {"log": path, "reason": _death(process, errors)}
                    process = None
                keep(answer)
        finally:
            if process:
                process.communicate()


def _taken(queue: "SimpleQueue[str]") -> Iterator[str]:
    """Yield what is taken from a queue until it is empty."""
    with suppress(Empty):
        while True:
            yield queue.get_nowait()


def _ask(process: subprocess.Popen, path: str) -> dict[str, str]:
    """Return a worker's answer, empty if it dies; if it is nonsense, end the worker."""
    try:
        process.stdin.write(json.dumps(path) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        answer = json.loads(line) if line else {}
    except BrokenPipeError:
        return {}
    except ValueError:  # it died, or a library of its own wrote, in the middle
        process.kill()
        return {}
    return answer if isinstance(answer, dict) else {}


def _start(settings: dict[str, object], errors: IO[str]) -> subprocess.Popen:
    """Start a worker and tell it the settings; its messages go to a file.

    Raises
    ------
    ReadingError
        If it does not start: then no log is to blame.
    """
    modules = os.pathsep.join([str(_PACKAGE_PARENT), *filter(None, sys.path)])
    errors.seek(0)
    errors.truncate()  # the words of a worker before it
    process = subprocess.Popen(
        [sys.executable, "-m", worker.__name__],
        env=os.environ | {"PYTHONPATH": modules, "PYTHONSAFEPATH": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    if process.stdout.readline() != f"{worker.READY}\n":
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


def _gather(
    answers: list[dict[str, str]], folder: Path, key: str
) -> tuple[Reading, list[Path]]:
    """Return the summaries and the refusals of all logs, and summaries that are broken.

    A machine that stops may leave a broken file under its final name.
    """
    reading, first_with, broken = Reading(), {}, []
    for answer in answers:
        path = answer["log"]
        if "reason" in answer:
            reading.refusals[path] = answer["reason"]
            continue
        first = first_with.setdefault(answer["digest"], path)
        if first != path:
            reading.refusals[path] = f"{SAME_CONTENT} {first}."
            continue
        kept = worker.summary_path(folder, answer["digest"], key)
        try:
            reading.summaries[path] = Summary.from_json(json.loads(kept.read_text()))
        except (ValueError, TypeError):
            broken.append(kept)
    return reading, broken


def _size(path: str) -> int:
    """Return the size of a file, 0 if there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _available_bytes() -> int:
    """Return how much memory new processes can use."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 1 << 30


def _n_processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))
