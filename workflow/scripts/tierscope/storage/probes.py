"""Micro-probes of a machine's storage: their calls, and the timing of the calls.

The probes run on both tiers, and `tierscope.model.calibration.fit` fits a model's
parameters to them. They measure the open and close rate of all processes, the read rate
of all processes on opened files, and a single client's times for one open, one small
read, one file and one close. The calling processes time a probe with their own clock
around each call; no tracer is involved.

On real file systems caches disturb a probe. The pages of a file are written back and
dropped before it is read (``posix_fadvise(DONTNEED)``, kinds `directory` and `lustre`;
a tmpfs cannot drop pages). Names and inodes are dropped before files are opened, which
only root can do. So on the GFS each repeat uses other files, if the dataset has enough.
An emulated device charges every call, cached or not.

Of a user's dataset some files are probed, and the same number of bytes of each.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tierscope.core.description import ProbeDescription
from tierscope.core.scenario import Dataset
from tierscope.storage.page_cache import drop_opened

if TYPE_CHECKING:
    import numpy as np

RATE, LATENCY = "rate", "latency"
REPEATS = 7
FILES_PER_CLIENT = 32
FILES_OF_SINGLE_CLIENT = 16
BYTES_PER_CLIENT = 4 * 1024**2
SMALL_READ_BYTES = 4096


@dataclass(frozen=True)
class Probe:
    """Calls of one kind that some processes make at the same time.

    Parameters
    ----------
    name : str
        Name in table `probes`.
    tier : {"gfs", "lfs"}
        Tier of the files.
    operation : {"open", "read", "close"}
        The system call.
    n_clients : int
        Processes that make the calls; 1 means the first process alone.
    files_per_client : int
        Files that each process uses in turn.
    file_bytes : int
        Bytes read of each file, from its start; 0 for opens and closes.
    buffer_bytes : int
        Largest read call.
    """

    name: str
    tier: str
    operation: str
    n_clients: int
    files_per_client: int
    file_bytes: int = 0
    buffer_bytes: int = 0

    @property
    def kind(self) -> str:
        """Return ``rate`` (all processes at once) or ``latency`` (one alone)."""
        return self.name.rsplit("_", 1)[1]

    @property
    def n_operations(self) -> int:
        """Return the number of calls of all processes together."""
        calls = 1
        if self.operation == "read":
            calls = -(-self.file_bytes // self.buffer_bytes)
        return self.n_clients * self.files_per_client * calls

    @property
    def n_bytes(self) -> int:
        """Return the number of bytes that all processes read together."""
        return self.n_clients * self.files_per_client * self.file_bytes


@dataclass(frozen=True)
class ProbedFiles:
    """The files of a user's dataset that probes use.

    Parameters
    ----------
    dataset : Dataset
        As if it were generated: the number of these files, and what is read of each.
    file_ids : ndarray of int, shape (n_files,)
        Number of each of them in the dataset's manifest.
    """

    dataset: Dataset
    file_ids: "np.ndarray"


def choose_files(
    name: str, sizes: "np.ndarray", n_processes: int
) -> ProbedFiles | None:
    """Return the files of a user's dataset that are probed, None if they are too few.

    They are in random order, so files of a folder are seldom neighbours. What is read
    of each is its first bytes: as many as half of the files that are not empty have, or
    as many files as there are processes, but at most `BYTES_PER_CLIENT`.

    Parameters
    ----------
    name : str
        Name of the dataset.
    sizes : ndarray of int, shape (n_files,)
        Bytes of each file.
    n_processes : int
        Processes that probe; each needs a file that is not empty.
    """
    import numpy as np

    largest_first = np.sort(sizes[sizes > 0])[::-1]
    n_files = len(largest_first)
    if n_files < n_processes:
        return None
    size = int(largest_first[max(-(-n_files // 2), n_processes) - 1])
    size = min(size, BYTES_PER_CLIENT)
    file_ids = np.random.default_rng(0).permutation(np.flatnonzero(sizes >= size))
    return ProbedFiles(Dataset(name, len(file_ids), size, 1), file_ids)


def why_not_probed(sizes: "np.ndarray", n_processes: int) -> str:
    """Return why no files of a user's dataset can be probed."""
    return (
        f"got {(sizes > 0).sum()} files that are not empty, expected at least "
        f"{n_processes}, one for each process"
    )


def largest_probed(name: str, n_processes: int) -> Dataset:
    """Return a dataset that needs as much room as the probes of any user's dataset."""
    return Dataset(name, FILES_PER_CLIENT * n_processes, BYTES_PER_CLIENT, 1)


def plan(probed: ProbeDescription) -> list[Probe]:
    """Return the probes of a system and a dataset, in the order of a repeat.

    Parameters
    ----------
    probed : ProbeDescription
        The system and the dataset.
    """
    n_files, file_bytes, n_processes = _sizes(probed)
    buffer_bytes = probed.buffer_bytes or file_bytes
    n_shared = _files_per_client(n_files, n_processes)
    n_single = min(FILES_OF_SINGLE_CLIENT, n_shared)
    n_whole = max(1, min(n_single, BYTES_PER_CLIENT // file_bytes))
    calls_a_file = max(1, BYTES_PER_CLIENT // n_shared // buffer_bytes)
    part_bytes = min(file_bytes, calls_a_file * buffer_bytes)
    small_bytes = min(SMALL_READ_BYTES, file_bytes)
    all_at_once, alone = n_processes, 1
    probes = []
    for tier in ("gfs", "lfs"):
        for name, operation, n_clients, files_per_client, read_bytes in (
            ("open_rate", "open", all_at_once, n_shared, 0),
            ("read_rate", "read", all_at_once, n_shared, part_bytes),
            ("close_rate", "close", all_at_once, n_shared, 0),
            ("open_latency", "open", alone, n_single, 0),
            ("small_read_latency", "read", alone, n_single, small_bytes),
            ("file_read_latency", "read", alone, n_whole, file_bytes),
            ("close_latency", "close", alone, n_single, 0),
        ):
            probes.append(
                Probe(
                    f"{tier}_{name}",
                    tier,
                    operation,
                    n_clients,
                    files_per_client,
                    read_bytes,
                    buffer_bytes,
                )
            )
    return probes


def _sizes(probed: ProbeDescription) -> tuple[int, int, int]:
    """Return the dataset's files, the bytes of each, and the processes."""
    dataset = probed.dataset
    return dataset.n_files, dataset.file_size_bytes, probed.system.n_processes


def _files_per_client(n_files: int, n_processes: int) -> int:
    """Return how many files each process uses when all take part."""
    return min(FILES_PER_CLIENT, n_files // n_processes)


def probe_files(
    probed: ProbeDescription, probe: Probe, rank: int, repeat: int
) -> "np.ndarray":
    """Return the files that a process uses in a probe: int, shape (files_per_client,).

    The processes take the files of a consecutive window in turn, so at any time they
    use many object servers. Each repeat on the GFS uses the next window, and the single
    client the window after that; the LFS holds only the first window.
    """
    import numpy as np

    n_files, _, n_processes = _sizes(probed)
    in_turn = _files_per_client(n_files, n_processes)
    n_windows = n_files // (n_processes * in_turn)
    window = (repeat + (probe.kind == LATENCY)) % n_windows
    first = 0 if probe.tier == "lfs" else window * n_processes * in_turn
    return first + rank + n_processes * np.arange(probe.files_per_client)


def lfs_rate_percent(probed: ProbeDescription) -> int:
    """Return the largest part of the dataset that the probes put on a node's LFS.

    It is rounded up to a whole percent, like a cache rate.
    """
    n_files, _, n_processes = _sizes(probed)
    per_node = probed.system.processes_per_node
    n_held = per_node * _files_per_client(n_files, n_processes)
    return -(-100 * n_held // n_files)


@dataclass
class Timing:
    """One process's timing of a probe: first to last call, calls, bytes.

    `started_s` and `ended_s` are instants of its clock, `call_s` is the sum of the
    times inside the calls.
    """

    started_s: float = 0.0
    ended_s: float = 0.0
    call_s: float = 0.0
    n_operations: int = 0
    n_bytes: int = 0


class Client:
    """The calls of one process on one set of files.

    Parameters
    ----------
    paths : sequence of str
        Files of the process.
    clock : callable
        Seconds since some instant.
    """

    def __init__(
        self, paths: Sequence[str], clock: Callable[[], float] = time.perf_counter
    ):
        self._paths, self._clock, self._descriptors = paths, clock, []

    def run(self, probe: Probe) -> Timing:
        """Make a probe's calls on the files in turn; open first, close last."""
        calls_of = {"open": self._opens, "read": self._reads, "close": self._closes}
        clock = self._clock
        timing = Timing(started_s=clock())
        for call, arguments, n_bytes in calls_of[probe.operation](probe):
            before = clock()
            call(*arguments)
            timing.call_s += clock() - before
            timing.n_operations += 1
            timing.n_bytes += n_bytes
        timing.ended_s = clock()
        return timing

    def _opens(self, probe: Probe) -> Iterator[tuple[Callable, tuple, int]]:
        for path in self._paths[: probe.files_per_client]:
            yield self._open, (path,), 0

    def _open(self, path: str) -> None:
        self._descriptors.append(os.open(path, os.O_RDONLY))

    def _reads(self, probe: Probe) -> Iterator[tuple[Callable, tuple, int]]:
        buffer = memoryview(bytearray(min(probe.buffer_bytes, probe.file_bytes)))
        for descriptor in self._descriptors[: probe.files_per_client]:
            for start in range(0, probe.file_bytes, len(buffer)):
                part = buffer[: probe.file_bytes - start]
                yield _read_exactly, (descriptor, part, start), len(part)

    def _closes(self, _: Probe) -> Iterator[tuple[Callable, tuple, int]]:
        while self._descriptors:
            yield os.close, (self._descriptors.pop(),), 0

    def forget_pages(self) -> None:
        """Write back and drop the pages of the opened files."""
        for descriptor in self._descriptors:
            drop_opened(descriptor)


def _read_exactly(descriptor: int, part: memoryview, start: int) -> None:
    """Read a part of a file in one call; a short read is an error."""
    if (got := os.preadv(descriptor, [part], start)) != len(part):
        raise OSError(
            f"got {got} bytes at {start} of file {descriptor}, expected {len(part)}."
        )


def probe_row(
    probe: Probe, repeat: int, timings: Sequence[Timing], one_clock: bool
) -> dict[str, Any]:
    """Return a repeat of a probe as a row of table `probes`, without its keys.

    Parameters
    ----------
    probe : Probe
        The probe.
    repeat : int
        Number of the repeat.
    timings : sequence of Timing
        Timing of each process.
    one_clock : bool
        Whether the processes share a machine and its clock. If so, the time is that
        from the first start to the last end; otherwise the longest time of a process,
        which excludes late exits from the barrier (about half a millisecond).
    """
    n_operations = sum(timing.n_operations for timing in timings)
    time_s = max(timing.ended_s - timing.started_s for timing in timings)
    if one_clock:
        first_s = min(timing.started_s for timing in timings)
        time_s = max(timing.ended_s for timing in timings) - first_s
    return {
        "probe": probe.name,
        "tier": probe.tier,
        "operation": probe.operation,
        "n_clients": len(timings),
        "repeat": repeat,
        "operations": n_operations,
        "bytes": sum(timing.n_bytes for timing in timings),
        "time_s": time_s,
        "mean_call_s": math.fsum(timing.call_s for timing in timings) / n_operations,
    }
