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

import numpy as np

from tierscope.benchmark.processes import Processes
from tierscope.core.description import RunDescription
from tierscope.core.machine import MEMORY
from tierscope.storage.mounts import Mount, mount_of
from tierscope.storage.page_cache import (
    Residency,
    device_bytes,
    drop_names,
    drop_pages,
    residency,
    server_bytes,
    told_by,
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
        self._mounts = {tier: mount_or_unknown(root) for tier, root in roots.items()}
        self._told = {tier: told_by(mount) for tier, mount in self._mounts.items()}
        self._drops_names = self._cold and names_can_be_dropped(processes)
        self._paths: Paths = {}
        self._row: dict[str, Any] = {}
        self._before: dict[str, int | None] = {}

    def begin_epoch(self, paths: Paths) -> None:
        """Make an epoch cold if it must be, and note what the cache holds.

        `paths` are the files of each tier that this process will read, or may read.
        """
        self._paths = paths
        found = {tier: self._look(tier) for tier in self._told}
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
            for tier, read in paths.items():
                self._drop(tier, read)
        return self._row | counted

    def describe(self) -> dict[str, Any]:
        """Return the page cache's part of `run.json`."""
        tiers = {
            tier: {"fs_type": mount.fs_type, "told_by": self._told[tier]}
            for tier, mount in self._mounts.items()
        }
        return {
            "cold": self._cold,
            "sample_files": SAMPLE_FILES,
            "tiers": tiers,
            "one_mount": len({mount.device for mount in self._mounts.values()}) == 1,
        }

    def _look(self, tier: str) -> Residency:
        """Return what a sample of a tier says, once its files are cold if needed."""
        paths = self._paths.get(tier, ())
        sample = evenly(paths, SAMPLE_FILES)
        found = residency(sample) if self._told[tier] != MEMORY else Residency()
        if self._cold and found.percent > _COLD_PERCENT:
            self._drop(tier, paths)
            found = residency(sample)
        return found

    def _drop(self, tier: str, paths: Sequence[str]) -> None:
        """Drop files of a tier, unless they are in memory by nature."""
        if self._told[tier] != MEMORY:
            drop_pages(paths)

    def _counters(self) -> dict[str, int | None]:
        """Return the counters of this process and of the mounts of this machine."""
        counters = {"device_bytes": device_bytes()}
        for tier, mount in self._mounts.items():
            counted = server_bytes(mount)  # of the node: one process reports it
            if counted is not None and not self._processes.leads_machine:
                counted = 0
            counters[f"{tier}_server_bytes"] = counted
        return counters


def mount_or_unknown(root: Any) -> Mount:
    """Return the mount of a tier; of an unknown type if the kernel lists none."""
    try:
        return mount_of(root)
    except ValueError:  # in some chroots
        return Mount("", "an unlisted file system", "", "", (0, 0))


def names_can_be_dropped(processes: Processes) -> bool:
    """Return whether names and inodes can be dropped on all machines; drops them."""
    return processes.all_agree(not processes.leads_machine or drop_names())


def _difference(before: int | None, after: int | None) -> float:
    """Return by how much a counter has grown, not a number if there is none."""
    if before is None or after is None:
        return float("nan")
    return float(after - before)


def evenly(paths: Sequence[str], n: int) -> list[str]:
    """Return up to n of the paths, evenly spaced."""
    if len(paths) <= n:
        return list(paths)
    return [paths[i] for i in np.linspace(0, len(paths) - 1, n).round().astype(int)]


def files_below(folder: str | os.PathLike) -> list[str]:
    """Return the files in a folder in the order of their names, none if it is gone."""
    try:
        with os.scandir(folder) as entries:
            return sorted(one.path for one in entries if one.is_file())
    except FileNotFoundError:
        return []
