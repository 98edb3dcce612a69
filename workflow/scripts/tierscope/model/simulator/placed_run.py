"""Simulate a run whose policy fills the LFS while it runs, or reads from other nodes.

It adds tables to `tierscope.model.simulator.run`: copies, stage-in, reads from peers.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from tierscope.audit.decisions import n_broken_rules, n_differences, room_of
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.data.shuffle import epoch_order, process_share
from tierscope.model.simulator.decisions import COUNTS, Placement
from tierscope.model.simulator.epoch import first_reads, ranks_of_reads
from tierscope.model.simulator.placed_epoch import (
    GFS_META,
    GFS_READ,
    LFS_META,
    LFS_WRITE,
    PlacedStorage,
    copies_reads,
)
from tierscope.model.simulator.reader_steps import (
    FROM_LFS,
    STAGED,
    UNDECIDED,
)
from tierscope.model.simulator.run import (
    SERVICES,
    SLOWNESS,
    STAGE_IN,
    SimulatedReads,
    draw_slowness,
    n_read_calls,
    simulate_reads,
    stream,
    workload_of,
)
from tierscope.model.simulator.stations import NS_PER_S
from tierscope.policies import NodePolicy, node_policy
from tierscope.storage.queueing_network import ModelError, Network, Workload, network_of

_MOST_CHECKED_READS = 100_000  # checking their decisions takes about 4 s


class _PlacedRun:
    """The common part of runs with these policies."""

    def __init__(self, description: RunDescription, point: Point):
        self.description, self.point = description, point
        system, training = description.system, description.training
        self.network: Network = network_of(system, description.scenario.n_osts)
        self.workload: Workload = workload_of(description)
        self.n_nodes, self.n_epochs = system.n_nodes, training.epochs
        self._seeds = (training.seed, point.repetition)
        self._slowness = draw_slowness(self.network, stream(SLOWNESS, *self._seeds))
        n_files, n_ranks = self.workload.n_files, self.network.n_ranks
        self._first_read = first_reads(n_files, n_ranks)
        self._rank_of = ranks_of_reads(n_files, n_ranks)

    def order(self, epoch: int) -> np.ndarray:
        """Return the files that all ranks read in an epoch, rank after rank."""
        seed, repetition = self._seeds
        return epoch_order(
            self.workload.n_files,
            self.network.n_ranks,
            shuffle=self.description.training.shuffle,
            seed=seed,
            repetition=repetition,
            epoch=epoch,
        )

    def services(self, epoch: int) -> np.random.Generator:
        """Return the generator of an epoch's service times."""
        return stream(SERVICES, *self._seeds, epoch)


class DynamicRun(_PlacedRun):
    """A run of a policy that decides while it runs.

    Parameters
    ----------
    description, point
        As for `tierscope.model.simulator.runs.simulate_run`.
    with_decisions : bool
        Whether the nodes' decisions are kept (`placement.decisions`).
    """

    def __init__(
        self,
        description: RunDescription,
        point: Point,
        with_decisions: bool = False,
    ):
        super().__init__(description, point)
        n_reads = self.workload.n_files * self.n_epochs
        self._is_checked = with_decisions or n_reads <= _MOST_CHECKED_READS
        options = description.policy_options
        self._storage = PlacedStorage(
            self.network,
            self.workload,
            self.n_nodes,
            options["copy_threads"],
            self.n_epochs,
            self._slowness,
            description.training.seed,
        )
        self._orders = [self.order(epoch) for epoch in range(self.n_epochs)]
        per_node = self._storage.per_node
        self._ranks = [
            range(node * per_node, (node + 1) * per_node)
            for node in range(self.n_nodes)
        ]
        self.placement = Placement(
            [self._policy(node) for node in range(self.n_nodes)],
            self._storage,
            self.n_epochs,
            drain=options["drain"],
            hand_over=options["hand_over"],
            with_decisions=self._is_checked,
        )

    def _policy(self, node: int) -> NodePolicy:
        """Return the policy of a node at the start of the run."""
        ranks = self._ranks[node]
        return node_policy(self.description, self.point, ranks, orders=self._orders)

    def epochs(self) -> Iterator[SimulatedReads]:
        """Simulate and yield the epochs, one after the other."""
        self.placement.begin()
        for epoch, files in enumerate(self._orders):
            self.placement.begin_epoch(epoch)
            place = np.full(len(files), UNDECIDED, np.int8)
            simulated = self._storage.run_epoch(
                files,
                self._first_read,
                place,
                self.services(epoch),
                self.placement,
                self.placement.end_epoch,
            )
            self.placement.note_drain(int(simulated.finished_ns.max()))
            yield SimulatedReads(files, self._rank_of, place == FROM_LFS, simulated)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the table `run_background`, after the last epoch; check decisions."""
        if self._is_checked:
            self.check()
        nodes, epochs = np.divmod(
            np.arange(self.n_nodes * self.n_epochs), self.n_epochs
        )
        counts = dict(zip(COUNTS, self.placement.counts, strict=True))
        placed = counts["placed_files"]
        columns = {
            **counts,
            "failed_files": np.zeros_like(placed),
            **_copies(
                placed - counts["handed_over_files"],
                placed,
                self._storage.copy_s,
                self.workload.file_size_bytes,
            ),
            "drain_time_s": self.placement.drain_s,
        }
        columns = {name: values.ravel() for name, values in columns.items()}
        return {"background": pd.DataFrame({"node": nodes, "epoch": epochs, **columns})}

    def check(self) -> None:
        """Raise a ModelError if decisions break the policy or placement rules."""
        differences = broken = 0
        for node, part in self.placement.decisions().groupby("node"):
            rows = part.to_dict("records")
            differences += n_differences(rows, self._policy(node))
            broken += n_broken_rules(rows, room_of(self.description, self.point))
        if differences or broken:
            raise ModelError(
                f"simulated decisions: got {differences} that the policy would not "
                f"make and {broken} that the contents of the LFS forbid, expected none"
            )


class AdHocRun(_PlacedRun):
    """A run of the ad hoc file system.

    Parameters
    ----------
    description, point
        As for `tierscope.model.simulator.runs.simulate_run`.
    """

    def __init__(self, description: RunDescription, point: Point):
        super().__init__(description, point)
        self.policy = node_policy(description, point, (), node=0)
        self._per_node = description.system.processes_per_node
        self._stage_in = pd.DataFrame()
        self._parts: list[pd.DataFrame] = []

    def epochs(self) -> Iterator[SimulatedReads]:
        """Simulate stage-in, then yield the epochs, one after the other."""
        self._stage_in = self.stage_in()
        simulated = simulate_reads(self.description, self.point, network=self.network)
        for epoch, reads in enumerate(simulated):
            self._parts.append(self._sum_peers(epoch, reads))
            yield reads

    def stage_in(self) -> pd.DataFrame:
        """Simulate the stage-in and return the table `run_stage_in`.

        Each process copies its part of the files of its node, one after the other.
        """
        parts = [
            files[process_share(len(files), rank, self._per_node)]
            for files in map(self.policy.files_of, range(self.n_nodes))
            for rank in range(self._per_node)
        ]
        read = self.workload
        storage = PlacedStorage(
            replace(self.network, sample_s=0.0),
            Workload(
                read.n_files, read.file_size_bytes, buffer_bytes=read.buffer_bytes
            ),
            self.n_nodes,
            0,
            1,
            self._slowness,
            self._seeds[0],
        )
        files = np.concatenate(parts)
        staged = storage.run_epoch(
            files,
            np.cumsum([0, *map(len, parts)]),
            np.full(len(files), STAGED, np.int8),
            stream(STAGE_IN, *self._seeds),
        )
        n_files = np.bincount(self.policy.owners[files], minlength=self.n_nodes)
        return pd.DataFrame(
            {
                "node": np.arange(self.n_nodes),
                **_copies(
                    n_files,
                    n_files,
                    storage.copy_s[:, 0],
                    self.workload.file_size_bytes,
                ),
                "stage_in_time_s": staged.execution_time_s,
            }
        )

    def _sum_peers(self, epoch: int, reads: SimulatedReads) -> pd.DataFrame:
        """Return an epoch's part of the table `run_peers`."""
        n_ranks, at_peer = self.network.n_ranks, reads.on_peer
        ranks = np.arange(n_ranks)
        n_files = np.bincount(reads.rank_of[at_peer], minlength=n_ranks)
        time_ns = np.bincount(
            reads.rank_of[at_peer], reads.epoch.read_time_ns[at_peer], n_ranks
        )
        lfs_read_ns, lfs_meta_ns = reads.epoch.peer_lfs_ns.T
        return pd.DataFrame(
            {
                "rank": ranks,
                "node": ranks // self._per_node,
                "epoch": epoch,
                "peer_files": n_files,
                "peer_bytes": n_files * self.workload.file_size_bytes,
                "net_read_time_s": time_ns / NS_PER_S,
                "peer_lfs_read_time_s": lfs_read_ns / NS_PER_S,
                "peer_lfs_meta_time_s": lfs_meta_ns / NS_PER_S,
                "network_time_s": (time_ns - lfs_read_ns - lfs_meta_ns) / NS_PER_S,
            }
        )

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables `run_stage_in` and `run_peers`, after the last epoch."""
        peers = pd.concat(self._parts, ignore_index=True)
        return {"stage_in": self._stage_in, "peers": peers}


def _copies(
    n_read: np.ndarray,
    n_written: np.ndarray,
    copy_s: np.ndarray,
    file_size_bytes: int,
) -> dict[str, np.ndarray]:
    """Return the columns of a table of copies: calls, bytes, times.

    Numbers of files read and written have any shape; the times have one more axis of 4.
    """
    return {
        "gfs_opens": n_read,
        "gfs_reads": n_read * n_read_calls(copies_reads(file_size_bytes)),
        "gfs_bytes": n_read * file_size_bytes,
        "gfs_read_time_s": copy_s[..., GFS_READ],
        "gfs_meta_time_s": copy_s[..., GFS_META],
        "lfs_opens": n_written,
        "lfs_writes": n_written,
        "lfs_bytes": n_written * file_size_bytes,
        "lfs_write_time_s": copy_s[..., LFS_WRITE],
        "lfs_meta_time_s": copy_s[..., LFS_META],
    }
