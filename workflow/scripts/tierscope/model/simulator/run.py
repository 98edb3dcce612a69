"""Simulate a run: the epochs of one point, as tables like those of the benchmark.

A run's random numbers depend on the experiment's seed, the repetition and the epoch,
not on the cache rate. So points of one repetition share the order of files, the
servers' slowness and the streams of service times, and differ only in the cache rate.
"""

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import TABLES
from tierscope.core.description import RunDescription, run_keys
from tierscope.core.io_class import ALL_CLASSES, NET_READ, IOClass, NetClass, total_s
from tierscope.core.scenario import Point
from tierscope.core.tables import with_later_columns
from tierscope.data.shuffle import epoch_order
from tierscope.model.simulator.epoch import (
    KnownServers,
    Peers,
    SimulatedEpoch,
    ranks_of_reads,
    simulate_epoch,
)
from tierscope.model.simulator.reader_steps import FROM_LFS, FROM_PEER
from tierscope.model.simulator.stations import NS_PER_S
from tierscope.policies import owners_of, served_files, strata
from tierscope.storage.machine_facts import package_versions
from tierscope.storage.queueing_network import Network, Workload, network_of

# Streams of random numbers; pinning has stream 1.
SLOWNESS, SERVICES, STAGE_IN = 0, 2, 3


@dataclass(frozen=True)
class SimulatedReads:
    """The reads of an epoch in the order of `files`, rank after rank.

    Parameters
    ----------
    files, rank_of : ndarray of int, shape (n_files,)
        File and process of each read.
    on_lfs : ndarray of bool, shape (n_files,)
        Whether the LFS served the read.
    epoch : SimulatedEpoch
        Times of the reads.
    on_peer : ndarray of bool, shape (n_files,), optional
        Whether another node's LFS served the read, for policies that read from peers.
    """

    files: np.ndarray
    rank_of: np.ndarray
    on_lfs: np.ndarray
    epoch: SimulatedEpoch
    on_peer: np.ndarray | None = None

    @property
    def classes(self) -> tuple[IOClass | NetClass, ...]:
        """Return the I/O classes of the reads."""
        return tuple(IOClass) if self.on_peer is None else ALL_CLASSES

    def is_of(self, io_class: IOClass | NetClass) -> np.ndarray:
        """Return whether each read takes time of a class: bool, shape (n_files,)."""
        if io_class.tier == NET_READ.tier:
            return self.on_peer
        if io_class.tier == "lfs":
            return self.on_lfs
        return ~self.on_lfs if self.on_peer is None else ~(self.on_lfs | self.on_peer)


def workload_of(description: RunDescription) -> Workload:
    """Return the workload of the ranks of a scenario in an epoch."""
    dataset, loader = description.dataset, description.loader
    training = description.training
    compute, by_workers = training.compute_time, description.reads_by_workers
    return Workload(
        n_files=dataset.n_files,
        file_size_bytes=dataset.file_size_bytes,
        batch_size=dataset.batch_size,
        buffer_bytes=loader.buffer_bytes,
        prefetch_batches=loader.prefetch_batches,
        compute_time_s=compute.mean_s,
        compute=compute if compute.varies else None,
        workers=loader.workers if by_workers else None,
        prefetch_factor=loader.prefetch_factor,
        in_steps=training.in_steps,
    )


@dataclass(frozen=True)
class PlannedReads:
    """What the ranks read in an epoch, whatever time that takes on the devices.

    Parameters
    ----------
    files, rank_of : ndarray
        As in `SimulatedReads`.
    place : ndarray of int8, shape (n_files,)
        Where each read is served (`simulate_epoch`).
    seeds : tuple of int
        Seed, repetition and epoch: the seeds of all random numbers.
    servers : ndarray of int, shape (n_files,), optional
        Observed server of the GFS of each read (`simulate_epoch`).
    before : PlannedReads, optional
        The epoch before, which may have used up a server's credit; only where the
        devices have a rate limit.
    peers : Peers, optional
        The owners of the files, if the nodes read from each other.
    """

    files: np.ndarray
    rank_of: np.ndarray
    place: np.ndarray
    seeds: tuple[int, int, int]
    servers: np.ndarray | None = None
    before: "PlannedReads | None" = None
    peers: Peers | None = None

    def simulate(
        self,
        network: Network,
        workload: Workload,
        before: SimulatedReads | None = None,
    ) -> SimulatedReads:
        """Simulate the epoch on a network.

        Parameters
        ----------
        network : Network
            Ranks, as many as read here, and stations.
        workload : Workload
            The parts of a read.
        before : SimulatedReads, optional
            The epoch before on this network, if it is known; else it is simulated where
            this epoch depends on it.
        """
        full_ns = None
        if network.gfs.limit_bytes_per_s is not None and self.before is not None:
            before = before or self.before.simulate(network, workload)
            full_ns = before.epoch.full_ns
        epoch = simulate_epoch(
            network,
            workload,
            self.files,
            self.place,
            stream(SERVICES, *self.seeds),
            draw_slowness(network, stream(SLOWNESS, *self.seeds[:2])),
            self.seeds,
            KnownServers(self.servers, full_ns, self.peers),
        )
        return SimulatedReads(
            self.files,
            self.rank_of,
            self.place == FROM_LFS,
            epoch,
            None if self.peers is None else self.place == FROM_PEER,
        )


def simulate_in_turn(
    planned: Iterable[PlannedReads], network: Network, workload: Workload
) -> Iterator[SimulatedReads]:
    """Yield the simulated epochs of a run, which follow each other."""
    last, reads = None, None
    for one in planned:
        reads = one.simulate(network, workload, reads if one.before is last else None)
        last = one
        yield reads


def planned_reads(
    description: RunDescription,
    point: Point,
    epochs: Iterable[int] | None = None,
    servers: np.ndarray | None = None,
) -> Iterator[PlannedReads]:
    """Yield what is read in each epoch of a run whose policy decides before it.

    Parameters
    ----------
    description : RunDescription
        Settings of the scenario (`Experiment.description`).
    point : Point
        Cache rate and repetition.
    epochs : iterable of int, optional
        The epochs, ascending; default: all.
    servers : ndarray of int, shape (n_files,), optional
        Observed server of the GFS that holds each file; default: `description.servers`.
    """
    training, n_files = description.training, description.dataset.n_files
    seed, repetition = training.seed, point.repetition
    policy, n_ranks = description.scenario.policy, description.system.n_processes
    held, peers = served_files(description, point), _peers_of(description)
    rank_of = ranks_of_reads(n_files, n_ranks)
    servers = description.servers if servers is None else servers
    wanted = range(training.epochs) if epochs is None else list(epochs)
    in_turn, before = _depend_on_each_other(description), None
    # An epoch that depends on those before is planned with them.
    for epoch in range(max(wanted) + 1) if in_turn else wanted:
        files = epoch_order(
            n_files,
            n_ranks,
            shuffle=training.shuffle,
            seed=seed,
            repetition=repetition,
            epoch=epoch,
            strata=strata(policy, held),
        )
        planned = PlannedReads(
            files,
            rank_of,
            _places(files, held, rank_of, peers),
            (seed, repetition, epoch),
            None if servers is None else servers[files],
            before,
            peers,
        )
        before = planned if in_turn else None
        if epoch in wanted:
            yield planned


def _peers_of(description: RunDescription) -> Peers | None:
    """Return who has which files, if the nodes read from each other."""
    if (owners := owners_of(description)) is None:
        return None
    threads = description.policy_options["server_threads"]
    return Peers(owners, description.system.n_nodes, threads)


def _places(
    files: np.ndarray, held: np.ndarray, rank_of: np.ndarray, peers: Peers | None
) -> np.ndarray:
    """Return where each read of a rank is served, if some LFS hold these files."""
    place = held[files].view(np.int8)  # GFS or LFS
    if peers is not None:
        nodes = rank_of // ((rank_of[-1] + 1) // peers.n_nodes)
        place[(place == FROM_LFS) & (peers.owners[files] != nodes)] = FROM_PEER
    return place


def _depend_on_each_other(description: RunDescription) -> bool:
    """Return whether the time of an epoch depends on the epochs before."""
    return "limit_bytes_per_s" in (description.system.devices or {}).get("gfs", {})


def simulate_reads(
    description: RunDescription,
    point: Point,
    epochs: Iterable[int] | None = None,
    network: Network | None = None,
    servers: np.ndarray | None = None,
) -> Iterator[SimulatedReads]:
    """Simulate a run whose policy decides before it, and yield its epochs.

    Parameters
    ----------
    description, point, epochs, servers
        As for `planned_reads`.
    network : Network, optional
        The scenario's network (`network_of`), if there is one already.
    """
    if network is None:
        network = network_of(description.system, description.scenario.n_osts)
    planned = planned_reads(description, point, epochs, servers)
    yield from simulate_in_turn(planned, network, workload_of(description))


def stream(number: int, *seeds: int) -> np.random.Generator:
    """Return the generator of a stream, separate from shuffle and pinning."""
    return np.random.default_rng(np.random.SeedSequence(seeds, spawn_key=(number,)))


def draw_slowness(
    network: Network, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors of the object servers of GFS and LFS."""
    gfs = network.gfs.draw_slowness(network.n_ranks, generator)
    return gfs, network.lfs.draw_slowness(network.n_ranks, generator)


def tables_of(
    description: RunDescription,
    point: Point,
    reads: Iterable[SimulatedReads],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables of a simulated run.

    Parameters
    ----------
    description, point
        As for `simulate_reads`.
    reads : iterable of SimulatedReads
        Output of `simulate_reads`.

    Returns
    -------
    io_time, epochs : DataFrame
        The tables of these names. The LFS is not filled: `lfs_fill_time_s` is 0.
    """
    io_time, epochs = [], []
    for one in reads:
        io_time.append(_io_time(description, one))
        epochs.append(_execution_times(description, one))
    tables = run_tables(description, point, io_time, epochs)
    return tables["io_time"], tables["epochs"]


def run_tables(
    description: RunDescription,
    point: Point,
    io_time: Sequence[pd.DataFrame],
    epochs: Sequence[pd.DataFrame],
) -> dict[str, pd.DataFrame]:
    """Return a run's tables `io_time` and `epochs`, joined from those of its epochs."""
    keys = run_keys(description, point)
    tables = {}
    for name, parts in (("io_time", io_time), ("epochs", epochs)):
        parts = [part.assign(epoch=epoch) for epoch, part in enumerate(parts)]
        table = pd.concat(parts, ignore_index=True).assign(**keys)
        tables[name] = with_later_columns(table, name)[list(TABLES[name])]
    return tables


def io_time_table(
    classes: Sequence[IOClass | NetClass],
    time_s: np.ndarray,
    operations: np.ndarray,
    n_bytes: np.ndarray,
) -> pd.DataFrame:
    """Return an epoch's part of `io_time`; arrays of shape (n_ranks, n_classes)."""
    n_ranks = len(time_s)
    return pd.DataFrame(
        {
            "rank": np.repeat(np.arange(n_ranks), len(classes)),
            "io_class": np.tile([str(io_class) for io_class in classes], n_ranks),
            "time_s": time_s.ravel(),
            "operations": operations.ravel(),
            "bytes": n_bytes.ravel(),
        }
    )


def epochs_table(
    description: RunDescription,
    execution_time_s: float,
    sample_bytes: int,
    n_samples: np.ndarray,
    n_lfs: np.ndarray,
    n_gfs: np.ndarray,
) -> pd.DataFrame:
    """Return an epoch's part of `epochs`; arrays of shape (n_ranks,).

    The LFS is not filled, so `lfs_fill_time_s` is 0.
    """
    ranks = np.arange(len(n_samples))
    return pd.DataFrame(
        {
            "rank": ranks,
            "node": description.system.node_of(ranks),
            "execution_time_s": execution_time_s,
            "samples": n_samples,
            "bytes": n_samples * sample_bytes,
            "lfs_files": n_lfs,
            "gfs_files": n_gfs,
            "lfs_fill_time_s": 0.0,
        }
    )


def n_read_calls(workload: Workload) -> int:
    """Return the read calls of a file; the last one finds the end of the file."""
    return len(workload.call_bytes()) + 1


def class_times(reads: SimulatedReads) -> np.ndarray:
    """Return the I/O time of each rank by class: shape (n_ranks, 4), 5 with peers.

    Whole nanoseconds are summed, so equal times give equal numbers of seconds.
    """
    n_ranks, n_tiers = int(reads.rank_of[-1]) + 1, 2 if reads.on_peer is None else 3
    tier = reads.on_lfs.astype(np.int64)  # numbered in the order of the classes
    if reads.on_peer is not None:
        tier[reads.on_peer] = 2
    place = reads.rank_of * n_tiers + tier
    by_kind = [
        np.bincount(place, time_ns, n_ranks * n_tiers).reshape(n_ranks, n_tiers)
        for time_ns in (reads.epoch.read_time_ns, reads.epoch.meta_time_ns)
    ]
    by_class = np.stack(by_kind, axis=2).reshape(n_ranks, 2 * n_tiers)
    return by_class[:, : len(reads.classes)] / NS_PER_S


def slowest_class_times(times_s: np.ndarray) -> np.ndarray:
    """Return the times by class of the slowest of some ranks: shape (4,).

    The first of equally slow ones, as `tierscope.analysis.breakdown.slowest_process`.
    """
    return times_s[total_s(times_s).argmax()]


def _io_time(description: RunDescription, reads: SimulatedReads) -> pd.DataFrame:
    """Return the rank, class, time, operations and bytes of an epoch."""
    workload, time_s = workload_of(description), class_times(reads)
    operations = np.zeros(time_s.shape, np.int64)
    n_bytes = np.zeros_like(operations)
    for column, io_class in enumerate(reads.classes):
        mine = reads.is_of(io_class)
        n_files = np.bincount(reads.rank_of[mine], minlength=len(time_s))
        is_one_call = not io_class.is_read or io_class == NET_READ
        n_calls = 1 if is_one_call else n_read_calls(workload)
        operations[:, column] = n_files * n_calls
        if io_class.is_read:
            n_bytes[:, column] = n_files * workload.file_size_bytes
    return io_time_table(reads.classes, time_s, operations, n_bytes)


def _execution_times(
    description: RunDescription, reads: SimulatedReads
) -> pd.DataFrame:
    """Return the columns of the table `run_epochs` of an epoch, without the epoch."""
    n_files = np.bincount(reads.rank_of)
    n_lfs, n_gfs = (
        np.bincount(reads.rank_of[reads.is_of(one)], minlength=len(n_files))
        for one in (IOClass.LFS_READ, IOClass.GFS_READ)
    )
    time_s = reads.epoch.execution_time_s
    file_bytes = description.dataset.file_size_bytes
    table = epochs_table(description, time_s, file_bytes, n_files, n_lfs, n_gfs)
    return table.assign(**(reads.epoch.steps.columns() if reads.epoch.steps else {}))


def describe(description: RunDescription) -> dict[str, Any]:
    """Return the description of a scenario's simulations, ready for JSON."""
    network = network_of(description.system, description.scenario.n_osts)
    return {
        **description.as_json(),
        "network": asdict(network),
        "workload": asdict(workload_of(description)),
        "versions": software_versions(),
    }


def software_versions() -> dict[str, str]:
    """Return the versions of all software in a simulation."""
    packages = package_versions(("numpy", "numba", "llvmlite"))
    return {"python": platform.python_version(), **packages}
