"""Samples that are files; each node owns some and serves them to the others."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.peers.node import NodePeers
from tierscope.benchmark.sources.placed import PlacedSource
from tierscope.core.scenario import Point
from tierscope.policies import node_policy
from tierscope.storage.clock import Role


class PeerSource(PlacedSource):
    """Files of an ad hoc file system, staged in and then read from their owners."""

    has_servers = True

    def room(self, point: Point) -> tuple[int, int]:
        """Return how many files this node owns (none with a mount), and their size."""
        description, node = self.site.description, self.site.processes.node
        policy = node_policy(description, point, [], node=node)
        is_mounted = description.policy_options["mount"] is not None
        n_held = 0 if is_mounted else len(policy.files_of(node))
        return n_held, description.dataset.file_size_bytes

    def reset(self) -> None:
        """Tell the devices how nodes read from each other."""
        if self.site.processes.rank == 0:
            n_threads = self.site.description.policy_options["server_threads"]
            file_bytes = self.site.dataset.file_size_bytes
            self.site.devices.set_network(n_threads, file_bytes)

    def make_placement(self, point: Point) -> NodePeers:
        """Return the node's file system for a run."""
        site = self.site
        return NodePeers(
            site.description,
            point,
            site.processes,
            self.copier(),
            site.say,
            clock=site.devices.clock,
        )

    def paths_of_epoch(
        self, point: Point, epoch: int, on_lfs: np.ndarray
    ) -> dict[str, list[str]]:
        """Return this process's part of the files that the node owns."""
        return {"lfs": self._my_part(self._lfs_folder)}

    @property
    def teller(self) -> Role | None:
        """Return None: no policy waits for the end of a read."""
        return None

    def write_tables(
        self, folder: Path, gathered: Any, tier_roots: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """Write the reads from peers, and return their part of `run.json`."""
        from tierscope.benchmark.peers.report import write_peer_reads  # rank 0 only

        return write_peer_reads(folder, gathered, tier_roots)
