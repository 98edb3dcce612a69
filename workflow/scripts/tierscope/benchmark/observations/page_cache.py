"""What the page cache holds before an epoch of a launch, and where the reads came from.

Between epochs each process drops the files that it has read. Before an epoch it looks
at a sample of the files that it will read. If their pages are resident all the same,
it drops all of these files and looks again. It does not open all files before each
epoch: that would bring their names into the node's cache, and opening a file is part
of what is measured.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tierscope.benchmark.processes import Processes
from tierscope.core.description import RunDescription
from tierscope.storage.page_cache import (
    CachedTier,
    Residency,
    device_bytes,
    drop_names,
    server_bytes,
    tiers_as_json,
)

SAMPLE_FILES = 8  # of each tier, process and epoch
_COLD_PERCENT = 1.0  # at most resident in the sample of a cold epoch

Paths = Mapping[str, Sequence[str]]


class PageCache:
    """The page cache of a node during the epochs of a launch on real tiers.

    `roots` are the tiers' data directories, which must exist.
    """

    def __init__(
        self,
        description: RunDescription,
        processes: Processes,
        roots: Mapping[str, Any],
    ):
        self._processes = processes
        self._cold = description.training.cold
        self._tiers = {name: CachedTier(root) for name, root in roots.items()}
        self._drops_names = self._cold and names_can_be_dropped(processes)
        self._row: dict[str, Any] = {}
        self._before: dict[str, int | None] = {}

    def begin_epoch(self, paths: Paths) -> None:
        """Make an epoch cold if it must be, and note what the cache holds.

        `paths` are the files of each tier that this process will read, or may read.
        """
        found = {
            name: tier.look(paths.get(name, ()), SAMPLE_FILES, self._is_warm)
            for name, tier in self._tiers.items()
        }
        self._processes.barrier()
        if self._drops_names and self._processes.leads_machine:
            drop_names()
        self._row = {
            **{f"{tier}_resident_percent": one.percent for tier, one in found.items()},
            "names_dropped": self._drops_names,
        }
        self._processes.barrier()
        self._before = self._counters()

    def end_epoch(self, paths: Paths) -> dict[str, Any]:
        """Drop what was read; return the columns of table `epochs` on the cache.

        `paths` are the files of `begin_epoch`, with those that were copied meanwhile.
        """
        after = self._counters()
        counted = {name: _difference(self._before[name], after[name]) for name in after}
        if self._cold:
            for name, read in paths.items():
                self._tiers[name].drop(read)
        return self._row | counted

    def describe(self) -> dict[str, Any]:
        """Return the page cache's part of `run.json`."""
        own = {"cold": self._cold, "sample_files": SAMPLE_FILES}
        return own | tiers_as_json(self._tiers)

    def _is_warm(self, found: Residency) -> bool:
        """Return whether files must leave the cache before an epoch."""
        return self._cold and found.percent > _COLD_PERCENT

    def _counters(self) -> dict[str, int | None]:
        """Return the counters of this process and of the mounts of this machine."""
        counters = {"device_bytes": device_bytes()}
        for name, tier in self._tiers.items():
            counted = server_bytes(tier.mount)  # of the node: one process reports it
            if counted is not None and not self._processes.leads_machine:
                counted = 0
            counters[f"{name}_server_bytes"] = counted
        return counters


def names_can_be_dropped(processes: Processes) -> bool:
    """Return whether names and inodes can be dropped on all machines; drops them."""
    return processes.all_agree(not processes.leads_machine or drop_names())


def _difference(before: int | None, after: int | None) -> float:
    """Return by how much a counter has grown, not a number if there is none."""
    if before is None or after is None:
        return float("nan")
    return float(after - before)


def files_below(folder: str | os.PathLike) -> list[str]:
    """Return the files in a folder in the order of their names, none if it is gone."""
    try:
        with os.scandir(folder) as entries:
            return sorted(one.path for one in entries if one.is_file())
    except FileNotFoundError:
        return []
