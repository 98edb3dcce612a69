"""Samples that are files; a policy moves them to the LFS while they are read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.epoch import KnownFiles, run_epoch
from tierscope.benchmark.peers.node import NodePeers
from tierscope.benchmark.placement import PlacementError
from tierscope.benchmark.placement.copies import Copier
from tierscope.benchmark.placement.node import NodePlacement
from tierscope.benchmark.processes import RankGoneError
from tierscope.benchmark.run_folder import write_decisions
from tierscope.benchmark.sources.files import EpochReads, FileSource, LaunchSite
from tierscope.core.output.streams import say
from tierscope.core.scenario import Point
from tierscope.policies import Place
from tierscope.storage.clock import OtherRankFailed, Role


class PlacedSource(FileSource):
    """Files; the loader asks for the path of each one when its turn comes."""

    has_copies = True

    def __init__(self, site: LaunchSite):
        super().__init__(site)
        self.placement: NodePlacement | NodePeers | None = None

    def warm_up(self, paths: Sequence[str]) -> None:
        """Read some files with known paths and some by a feed."""
        super().warm_up(paths)
        run_epoch(self.loader.fed_epoch(KnownFiles(paths)), self.site.real_clock)

    def exchange(self, on_lfs: np.ndarray) -> None:
        """Fill the LFS again for each point: the policy has changed its contents."""
        self.fill(np.flatnonzero(on_lfs))

    def begin(self, point: Point) -> None:
        """Start the node's placement with an empty LFS."""
        self.placement = self.make_placement(point)
        self.placement.begin()

    def make_placement(self, point: Point) -> NodePlacement | NodePeers:
        """Return the node's placement for a run."""
        return NodePlacement(
            self.site.description,
            point,
            self.site.processes,
            self.copier(),
            say=say,
            clock=self.site.devices.clock,
            teller=self.loader.teller,
        )

    def copier(self) -> Copier:
        """Return the copier from the GFS to the node's LFS."""
        return Copier(
            self.site.gfs_root,
            self.site.lfs_root,
            self.folder_name,
            f"{self.site.storage.node_name}/{self.folder_name}",
            self.site.dataset.file_size_bytes,
            self.site.dataset.file_name,
        )

    def epoch(self, point: Point, epoch: int, on_lfs: np.ndarray) -> EpochReads:
        """Return the reads of this process in an epoch; the policy decides places."""
        files = self.samples(point, epoch, on_lfs)
        feed = self.placement.feed(epoch, files, self.folders(epoch))
        return EpochReads(
            self.loader.fed_epoch(feed),
            len(files),
            lambda: (feed.places.count(Place.LFS), feed.places.count(Place.GFS)),
        )

    def paths_of_epoch(
        self, point: Point, epoch: int, on_lfs: np.ndarray
    ) -> dict[str, list[str]]:
        """Return the files that this process may read in an epoch, by tier.

        The policy has not decided yet. So all files count on the GFS, and the processes
        of a node share what its LFS holds.
        """
        paths = super().paths_of_epoch(point, epoch, on_lfs)
        return {**paths, "lfs": self._my_part(self._lfs_folder)}

    @property
    def teller(self) -> Role | None:
        """Return the role that reports ended reads to the policy."""
        return self.loader.teller

    def check(self) -> None:
        """Raise the placement's error, if any."""
        self.placement.check()

    def explain(self, error: Exception, where: str) -> None:
        """Raise the placement's own error if it caused a loader's error."""
        if isinstance(error, (OtherRankFailed, RankGoneError)):
            return  # a consequence, not a cause
        try:
            self.placement.check()
        except PlacementError as reason:
            if reason is error:
                return
            reason.add_note(where)
            raise reason from error

    def end_epoch(self, epoch: int) -> None:
        """Let the placement end the epoch."""
        self.placement.end_epoch(epoch)

    def stop(self) -> None:
        """End the placement."""
        if self.placement:
            self.placement.stop()

    def gather(self) -> list[dict[str, Any] | None] | None:
        """Return on rank 0 the reports of placement, by rank."""
        return self.site.processes.gather(self.placement.report())

    def write_tables(
        self, folder: Path, gathered: Any, tier_roots: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """Write the nodes' decisions, and return their part of `run.json`."""
        return write_decisions(folder, gathered, tier_roots, self.site.say)
