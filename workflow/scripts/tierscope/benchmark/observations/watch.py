"""What watches the tiers of a launch: page cache and sentinel, or nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tierscope.benchmark.observations.page_cache import PageCache, Paths
from tierscope.benchmark.observations.sentinel import Sentinel
from tierscope.benchmark.processes import Processes
from tierscope.core.description import RunDescription


class Unwatched:
    """Watches nothing: no cache and no other user disturbs emulated devices."""

    def begin_point(self, folder: Path) -> None:
        """Note the speed of the tiers before a point; `folder` is the node's LFS."""

    def begin_epoch(self, paths: Callable[[], Paths]) -> None:
        """Make the caches cold if needed; `paths` returns what will be read."""

    def end_epoch(self, paths: Callable[[], Paths]) -> dict[str, Any]:
        """Return the columns of table `epochs` on the page cache."""
        return {}

    def end_point(self) -> dict[str, Any]:
        """Return the parts of `run.json` on page cache and sentinel (on rank 0)."""
        return {"page_cache": None, "sentinel": None}


class Watch(Unwatched):
    """Watches real tiers; a sentinel reads where all processes are on one machine."""

    def __init__(
        self,
        description: RunDescription,
        processes: Processes,
        sentinel_paths: Callable[[], list[str]],
    ):
        tiers, self._dataset = description.system.tiers, description.dataset
        roots = {name: tier.data_root().parent for name, tier in tiers.items()}
        self._page_cache = PageCache(description, processes, roots)
        self._sentinel: Sentinel | None = None
        if len(set(processes.hosts)) == 1:
            cold = description.training.cold
            self._sentinel = Sentinel(processes, sentinel_paths(), cold)
        self._before = None

    def begin_point(self, folder: Path) -> None:
        """Let the sentinel write its files and read them."""
        if self._sentinel:
            self._sentinel.place(folder, self._dataset)
            self._before = self._sentinel.measure()

    def begin_epoch(self, paths: Callable[[], Paths]) -> None:
        """Let the page cache begin an epoch."""
        self._page_cache.begin_epoch(paths())

    def end_epoch(self, paths: Callable[[], Paths]) -> dict[str, Any]:
        """Let the page cache end an epoch."""
        return self._page_cache.end_epoch(paths())

    def end_point(self) -> dict[str, Any]:
        """Let the sentinel read again."""
        after = self._sentinel and self._sentinel.measure()
        times_s = {"before_s": self._before, "after_s": after}
        return {
            "page_cache": self._page_cache.describe(),
            "sentinel": times_s if self._before else None,
        }
