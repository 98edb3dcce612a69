"""A sentinel: the same short reads before and after each point, on both tiers.

A machine drifts: other users, backups and full disks change its speed between one point
and the next. The sentinel's reads are always the same, so their time tells drift from
the effect of the cache rate.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tierscope.benchmark.processes import Processes
from tierscope.core.scenario import Dataset
from tierscope.data.tfrecord import DatasetError, generate_files
from tierscope.storage.page_cache import drop_pages

BYTES = 4 << 20  # of each process and tier
MOST_FILES = 16
ROUNDS = 5  # of which the shortest counts: a late wake-up is no drift
FOLDER = "sentinel"
_POLL_S = 0.00005
_BUFFER_BYTES = 1 << 20


def sentinel_files(dataset: Dataset, rank: int, n_processes: int) -> list[int]:
    """Return the files of a dataset that a process reads: the same at all points."""
    most = max(1, min(MOST_FILES, BYTES // dataset.file_size_bytes))
    return list(range(rank, dataset.n_files, n_processes))[:most]


class Sentinel:
    """The sentinel's reads of this process.

    Parameters
    ----------
    processes : Processes
        The MPI processes, all on one machine.
    gfs_paths : sequence of str
        Files on the GFS that no point changes.
    """

    def __init__(self, processes: Processes, gfs_paths: Sequence[str]):
        self._processes = processes
        self._paths: dict[str, Sequence[str]] = {"gfs": gfs_paths}

    def place(self, folder: Path, dataset: Dataset) -> None:
        """Write the files of the LFS into a folder of the node.

        If there is no room for them, the LFS has no sentinel at this point.
        """
        processes = self._processes
        files = sentinel_files(dataset, processes.rank, processes.size)
        names = [dataset.file_name(file_id) for file_id in files]
        self._paths["lfs"] = []
        with suppress(DatasetError, OSError):
            (folder / FOLDER).mkdir(exist_ok=True)
            generate_files(folder / FOLDER, names, files, dataset.file_size_bytes)
            self._paths["lfs"] = [str(folder / FOLDER / name) for name in names]

    def measure(self) -> Mapping[str, float] | None:
        """Return the time of the slowest process by tier, in seconds, on rank 0."""
        times_s = [
            {tier: self._read(paths) for tier, paths in self._paths.items() if paths}
            for _ in range(ROUNDS)
        ]
        if (found := self._processes.gather(times_s)) is None:
            return None
        tiers = set.intersection(*(set(one) for rounds in found for one in rounds))
        return {
            tier: min(
                max(one[tier] for one in of_round)
                for of_round in zip(*found, strict=True)
            )
            for tier in sorted(tiers)
        }

    def _read(self, paths: Sequence[str]) -> float:
        """Return the time that this process takes to read some files, cold."""
        drop_pages(paths)
        self._processes.barrier(_POLL_S)
        started_s = time.perf_counter()
        for path in paths:
            with suppress(FileNotFoundError):  # the epoch will name it
                _read_start(path)
        return time.perf_counter() - started_s


def _read_start(path: str) -> None:
    """Read a file, or the first bytes of a large one."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        left = BYTES
        while left > 0 and (part := os.read(descriptor, min(left, _BUFFER_BYTES))):
            left -= len(part)
    finally:
        os.close(descriptor)
