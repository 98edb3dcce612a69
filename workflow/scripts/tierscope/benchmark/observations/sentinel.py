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
from tierscope.core.files import opened
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
    """The sentinel's reads of this process, of files that no point changes.

    All processes are on one machine. If `cold`, what was read leaves the page cache
    again.
    """

    def __init__(self, processes: Processes, gfs_paths: Sequence[str], cold: bool):
        self._processes, self._cold = processes, cold
        self._paths: dict[str, Sequence[str]] = {"gfs": gfs_paths}

    def place(self, folder: Path, dataset: Dataset) -> None:
        """Write the files of the LFS into a folder of the node.

        If a process finds no room for its files, the LFS has no sentinel at this point.
        All processes call this.
        """
        processes, own = self._processes, folder / FOLDER
        files = sentinel_files(dataset, processes.rank, processes.size)
        names = [dataset.file_name(file_id) for file_id in files]
        paths, is_placed = [str(own / name) for name in names], False
        with suppress(DatasetError, OSError):
            own.mkdir(exist_ok=True)
            generate_files(own, names, files, dataset.file_size_bytes)
            is_placed = True
        if not processes.all_agree(is_placed):
            for path in paths:
                Path(path).unlink(missing_ok=True)
            paths = []
        self._paths["lfs"] = paths

    def measure(self) -> Mapping[str, float] | None:
        """Return the time of the slowest process by tier, in seconds, on rank 0.

        All processes call this, also those without files.
        """
        times_s = [
            {tier: self._read(paths) for tier, paths in self._paths.items()}
            for _ in range(ROUNDS)
        ]
        if self._cold:
            for paths in self._paths.values():
                drop_pages(paths)
        used = [tier for tier, paths in self._paths.items() if paths]
        if (found := self._processes.gather((times_s, used))) is None:
            return None
        tiers = {tier for _, used in found for tier in used}
        found = [rounds for rounds, _ in found]
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
    left = BYTES
    with opened(path, os.O_RDONLY) as descriptor:
        while left > 0 and (part := os.read(descriptor, min(left, _BUFFER_BYTES))):
            left -= len(part)
