"""Simulate an epoch: ranks read their files from two tiers, event by event.

The network is closed (see `tierscope.storage.queueing_network`): a rank makes one call
at a time, so while it waits at one station it is absent from the others. Service times
are drawn from the given generator; all else is exact (see
`tierscope.model.simulator.loop`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tierscope.core.description import FileSizes
from tierscope.data.file_sizes import random_sizes
from tierscope.data.steps import StepTimes, compute_times_ns
from tierscope.model.simulator.heap import MOST_CUSTOMERS
from tierscope.model.simulator.loop import (
    LAST_BYTE,
    N_EVENTS,
    N_THREADS,
    OPENED,
    begun,
    run,
)
from tierscope.model.simulator.reader_steps import (
    FROM_GFS,
    FROM_LFS,
    FROM_PEER,
    Nodes,
    Reads,
    Rules,
    write_steps,
)
from tierscope.model.simulator.stations import (
    NS_PER_S,
    SERVER,
    Machine,
    check_total,
    idle_servers,
    layouts_of,
    machine_of,
    requests_of_reads,
    to_ns,
)
from tierscope.storage.queueing_network import (
    MODULO,
    ModelError,
    Network,
    TierModel,
    Workload,
)

_PLACES = 5  # stream of random numbers; sizes and runs have others
_NONE, _FIRST = np.zeros(0, np.int64), np.zeros(1, np.int64)
_NO_NODES = Nodes(0, 0, 0, 0, _NONE, _NONE)


@dataclass(frozen=True)
class SimulatedEpoch:
    """The events of an epoch; times count from its start, in whole nanoseconds.

    Parameters
    ----------
    instants_ns : ndarray of int, shape (n_reads, 5)
        Times of each read: start and end of its open, its last byte, start and end of
        its close.
    finished_ns : ndarray of int, shape (n_ranks,)
        End of each rank's last step; the latest one ends the epoch.
    busy_ns : ndarray of int, shape (n_servers,)
        Sum of the service times of each server: the metadata servers, object servers
        and links of the GFS, then those of the LFS, group by group.
    n_events : int
        Arrivals at stations.
    steps : StepTimes or None
        What each rank did, arrays of shape (n_ranks,); None if files move.
    full_ns : ndarray of int, shape (n_servers,)
        When each server's credit is full again, from the end of the epoch on; 0 without
        a rate limit.
    peer_lfs_ns : ndarray of int, shape (n_ranks, 2), optional
        What owners' LFS took for each rank's reads: reading; opening and closing. A
        read from a peer is one call, from its request on.
    """

    instants_ns: np.ndarray
    finished_ns: np.ndarray
    busy_ns: np.ndarray
    n_events: int
    steps: StepTimes | None
    full_ns: np.ndarray
    peer_lfs_ns: np.ndarray | None = None

    @property
    def instants_s(self) -> np.ndarray:
        """Return `instants_ns` in seconds."""
        return self.instants_ns / NS_PER_S

    @property
    def finished_s(self) -> np.ndarray:
        """Return `finished_ns` in seconds."""
        return self.finished_ns / NS_PER_S

    @property
    def meta_time_ns(self) -> np.ndarray:
        """Return the time of open and close of each read, shape (n_reads,)."""
        opened, open_, _, closing, closed = self.instants_ns.T
        return (open_ - opened) + (closed - closing)

    @property
    def read_time_ns(self) -> np.ndarray:
        """Return the time of the read calls of each read, shape (n_reads,)."""
        return self.instants_ns[:, LAST_BYTE] - self.instants_ns[:, OPENED]

    @property
    def execution_time_s(self) -> float:
        """Return the time from barrier to barrier in seconds."""
        return float(self.finished_s.max())


def first_reads(n_reads: int, n_ranks: int) -> np.ndarray:
    """Return the start of each rank's part of an order, and the end: (n_ranks + 1,)."""
    return n_reads * np.arange(n_ranks + 1) // n_ranks  # as `process_share`


def ranks_of(first_read: np.ndarray) -> np.ndarray:
    """Return the process of each read, from where their parts begin."""
    return np.repeat(np.arange(len(first_read) - 1), np.diff(first_read))


def ranks_of_reads(n_reads: int, n_ranks: int) -> np.ndarray:
    """Return the process of each read of an order."""
    return ranks_of(first_reads(n_reads, n_ranks))


@dataclass(frozen=True)
class Peers:
    """The nodes, whose LFS are pooled: each file has one owner.

    Parameters
    ----------
    owners : ndarray of int, shape (n_files,)
        The node that has each file of the dataset.
    n_nodes : int
        Nodes, of equally many ranks.
    server_threads : int
        Requests that a node serves at a time.
    """

    owners: np.ndarray
    n_nodes: int
    server_threads: int


@dataclass(frozen=True)
class KnownServers:
    """What is known of the servers before an epoch.

    Parameters
    ----------
    of_reads : ndarray of int, shape (n_files,), optional
        Object server of the GFS that holds the file of each read, from 0; default:
        `TierModel.placement`.
    full_ns : ndarray of int, optional
        As the epoch before returned it; default: all credit is full.
    peers : Peers, optional
        Who has the files that are read from other nodes.
    """

    of_reads: np.ndarray | None = None
    full_ns: np.ndarray | None = None
    peers: Peers | None = None


def simulate_epoch(
    network: Network,
    workload: Workload,
    files: np.ndarray,
    place: np.ndarray,
    generator: np.random.Generator,
    slowness: tuple[np.ndarray, np.ndarray] | None = None,
    seeds: tuple[int, int, int] = (0, 0, 0),
    known: KnownServers | None = None,
) -> SimulatedEpoch:
    """Simulate one epoch.

    Parameters
    ----------
    network : Network
        Ranks and stations.
    workload : Workload
        The parts of a read.
    files : ndarray of int, shape (n_files,)
        The file of each read: the parts of the ranks (`process_share`) one after the
        other, each in reading order.
    place : ndarray of int8 or bool, shape (n_files,)
        Where each read is served, in the same order: `FROM_GFS`, `FROM_LFS` or
        `FROM_PEER`; a bool: whether the LFS serves it. A policy decides by file, epoch,
        rank or position in the order.
    generator : numpy.random.Generator
        Draws service times; not used if all are deterministic.
    slowness : pair of ndarray, optional
        Factors of the object servers of GFS and LFS (`TierModel.draw_slowness`);
        default 1.
    seeds : tuple of int, optional
        Seed, repetition and epoch, of which random compute times are drawn; of the
        seed, sizes of files and random places as well.
    known : KnownServers, optional
        What is known of the servers; reads from peers need to know their owners.

    Raises
    ------
    ModelError
        If there are fewer files than ranks, arguments have a wrong length or type, the
        epoch may last for months, or reads from other nodes would need a network that
        nobody has described.
    """
    n_ranks, n_reads = network.n_ranks, workload.n_files
    known = known or KnownServers()
    check_n_files(n_reads, n_ranks)
    _check_customers(n_ranks * max(workload.workers or 0, 1))
    _check_reads(n_reads, files, place, known.peers)
    idle = idle_servers(network, slowness, known.full_ns)
    nodes, peer_s = _nodes_of(network, workload, known.peers, len(idle))
    slowest = float(idle["slowness"].max())
    read_s = network.sample_s + peer_s
    check_times((network.gfs, network.lfs), workload, slowest, read_s)
    reads = _reads_of(network, workload, files, place.view(np.int8), known, seeds[0])
    rules = rules_of(network, workload, np.diff(reads.first_read), seeds)
    # Behind the servers of the tiers are the links of the nodes, out and in.
    servers = np.append(idle, np.zeros(2 * nodes.n_nodes, SERVER))
    instants_ns = np.zeros((n_reads, 5), np.int64)
    times_ns = np.zeros((n_ranks, 2, 2), np.int64)
    written = write_steps(reads, rules, nodes)
    machine, _ = _machine_of(network, workload)
    epoch = begun(machine, servers, written, instants_ns, times_ns)
    epoch.control[N_THREADS] = known.peers.server_threads if known.peers else 0
    run(epoch, generator)
    finished_ns = ends_of_ranks(epoch.customers, n_ranks, rules.n_readers)
    servers = servers[: len(idle)]
    return SimulatedEpoch(
        instants_ns,
        finished_ns,
        servers["busy_ns"].copy(),
        int(epoch.control[N_EVENTS]),
        _step_times(epoch.gates["at_ns"], rules, finished_ns.max()),
        np.maximum(servers["full_ns"] - finished_ns.max(), 0),
        times_ns[:, 1, ::-1].copy(),
    )


def _nodes_of(
    network: Network, workload: Workload, peers: Peers | None, n_servers: int
) -> tuple[Nodes, float]:
    """Return the nodes that read from each other; what the largest file then takes.

    These seconds are without waiting and without the owner's LFS.
    """
    if peers is None:
        return _NO_NODES, 0.0
    if network.n_ranks % peers.n_nodes:
        raise ModelError(
            f"n_nodes: got {peers.n_nodes}, expected a divisor of {network.n_ranks} "
            "ranks."
        )
    per_node, links = network.n_ranks // peers.n_nodes, network.peers
    if links is None:
        raise ModelError("network: got none between nodes, expected its numbers.")
    transfer_s = [
        one.file_size_bytes / links.bandwidth_bytes_per_s for one in workload.by_size
    ]
    machine, first = _machine_of(network, workload)
    transfer_ns = np.zeros(len(machine.requests), np.int64)
    transfer_ns[first] = to_ns(np.array(2 * transfer_s))  # of both tiers' reads
    nodes = Nodes(peers.n_nodes, per_node, 0, n_servers, transfer_ns, _NONE)
    return nodes, 2 * (links.latency_s + transfer_s[-1])


def _reads_of(
    network: Network,
    workload: Workload,
    files: np.ndarray,
    place: np.ndarray,
    known: KnownServers,
    seed: int,
) -> Reads:
    """Return what the ranks read, and which servers they ask."""
    first_read = first_reads(len(files), network.n_ranks)
    gfs, lfs = layouts_of(network)
    files = files.astype(np.int32)  # and all that follows: they are many
    holder = rank_of = ranks_of(first_read).astype(np.int32)  # whose LFS it may use
    if (peers := known.peers) is not None:
        owner = peers.owners[files] * (network.n_ranks // peers.n_nodes)
        holder = np.where(place == FROM_PEER, owner, rank_of)
    servers = known.of_reads
    if servers is None:
        servers = placed(network, files, seed)
    server_of, on_lfs = gfs.object_servers(rank_of, servers), place != FROM_GFS
    server_of[on_lfs] = lfs.object_servers(holder[on_lfs], files[on_lfs])
    _, first = _machine_of(network, workload)
    request_of = first.astype(np.int32)[_rows(workload, files, on_lfs, seed)]
    return Reads.of(first_read, place, server_of, request_of, holder)


def placed(network: Network, files: np.ndarray, seed: int) -> np.ndarray:
    """Return the GFS server, or a number with its residue, of the file of each read."""
    if network.gfs.placement == MODULO:
        return files
    n_files = int(files.max()) + 1
    return _random_places(n_files, network.gfs.n_object_servers, seed)[files]


@lru_cache(maxsize=8)
def _random_places(n_files: int, n_servers: int, seed: int) -> np.ndarray:
    """Return the server of each file of a dataset, drawn at random."""
    return np.random.default_rng((seed, _PLACES)).integers(n_servers, size=n_files)


def _rows(
    workload: Workload, files: np.ndarray, on_lfs: np.ndarray, seed: int
) -> np.ndarray:
    """Return the number of the kind of each read: the sizes on the GFS, on the LFS."""
    if workload.sizes is None:
        return on_lfs.astype(np.int32)
    sizes = random_sizes(int(files.max()) + 1, seed)[files]
    return sizes + FileSizes.N_SIZES * on_lfs


def rules_of(
    network: Network,
    workload: Workload,
    n_samples: np.ndarray,
    seeds: Sequence[int] = (),
) -> Rules:
    """Return how ranks with so many samples load, compute and meet.

    `seeds` are needed where computation varies.
    """
    n_steps = -(-n_samples // workload.batch_size)
    by_batch, depth = workload.workers is not None, workload.prefetch_batches
    if by_batch:
        depth = workload.workers * workload.prefetch_factor
    compute_ns, sample_ns = _step_times_ns(workload.compute_time_s, network.sample_s)
    first_step = np.concatenate([_FIRST, np.cumsum(n_steps)])
    if workload.compute is None:
        all_ns = np.full(first_step[-1], compute_ns)
    else:
        all_ns = np.concatenate(
            [
                compute_times_ns(workload.compute, n, seeds, rank)
                for rank, n in enumerate(n_steps.tolist())
            ]
        )
    return Rules(
        by_batch,
        max(workload.workers or 0, 1),
        depth,
        workload.batch_size,
        sample_ns,
        workload.in_steps,
        first_step,
        all_ns,
    )


def ends_of_ranks(customers: np.ndarray, n_ranks: int, n_readers: int) -> np.ndarray:
    """Return when each rank's readers and training have ended: shape (n_ranks,)."""
    readers_ns = customers["now_ns"][: n_ranks * n_readers].reshape(n_ranks, n_readers)
    return np.maximum(readers_ns.max(axis=1), customers["now_ns"][-n_ranks:])


def _step_times(opened_ns: np.ndarray, rules: Rules, end_ns: int) -> StepTimes:
    """Return what each rank did, from when the gates were opened."""
    first, last = rules.first_step[:-1], rules.first_step[1:]
    _, taken_ns, met_ns = np.split(opened_ns, [last[-1], 2 * last[-1]])
    n_steps, ends_ns = last - first, taken_ns + rules.compute_ns
    if rules.in_steps:
        ends_ns = met_ns[np.arange(last[-1]) - np.repeat(first, n_steps)]
    asked_ns = np.append(_FIRST, ends_ns[:-1])
    asked_ns[first] = 0
    compute_ns = np.add.reduceat(rules.compute_ns, first)
    stall_ns = np.add.reduceat(taken_ns - asked_ns, first)
    return StepTimes(
        compute_ns,
        stall_ns,
        end_ns - stall_ns - compute_ns,
        taken_ns[first] + rules.compute_ns[first],
        rules.compute_ns[first],
        n_steps,
    )


def check_n_files(n_files: int, n_ranks: int) -> None:
    """Refuse fewer files than ranks."""
    if n_files < n_ranks:
        raise ModelError(
            f"n_files: got {n_files}, expected at least one for each of {n_ranks} "
            "ranks."
        )


def _check_customers(n_customers: int) -> None:
    """Refuse more readers than the event loop knows."""
    if n_customers > MOST_CUSTOMERS:
        raise ModelError(
            f"n_ranks: got {n_customers} readers, expected at most {MOST_CUSTOMERS}."
        )


def _check_reads(
    n_reads: int, files: np.ndarray, place: np.ndarray, peers: Peers | None
) -> None:
    """Refuse reads with a wrong number, type or place."""
    if files.shape != (n_reads,) or place.shape != (n_reads,):
        raise ModelError(
            f"reads: got {files.shape} files and {place.shape} decisions, expected "
            f"{n_reads} of both."
        )
    if place.dtype not in (bool, np.int8):
        raise ModelError(f"place: got {place.dtype}, expected bool or int8 a read.")
    most = FROM_LFS if peers is None else FROM_PEER
    if (found := place.view(np.int8)).min() < FROM_GFS or found.max() > most:
        raise ModelError(
            f"place: got {found.min()} to {found.max()}, expected {FROM_GFS} to {most}."
        )


@lru_cache(maxsize=32)
def _step_times_ns(*times_s: float) -> tuple[int, ...]:
    """Return the times of a step in whole nanoseconds."""
    return tuple(to_ns(np.array(times_s, float)).tolist())


def check_times(
    tiers: tuple[TierModel, TierModel],
    workload: Workload,
    slowest: float,
    sample_s: float,
) -> None:
    """Refuse times whose sum in whole nanoseconds would not be exact.

    Raises
    ------
    ModelError
        If all reads and steps, one after the other, took `MOST_S` or longer.
    """
    fixed_s, object_s = _file_times_s(tiers, workload)
    file_s = fixed_s + sample_s + slowest * object_s
    check_total(workload.n_files * file_s)


@lru_cache(maxsize=32)
def _file_times_s(
    tiers: tuple[TierModel, TierModel], workload: Workload
) -> tuple[float, float]:
    """Return the time of a file on both tiers: all but object servers, and these."""
    with np.errstate(over="ignore"):
        fixed_s, object_s = workload.compute_time_s, 0.0
        for tier in tiers:
            sizes = workload.largest.request_bytes(tier)
            fixed_s += tier.open_s + tier.open_latency_s
            fixed_s += tier.close_s + tier.close_latency_s
            fixed_s += len(sizes) * tier.read_latency_s
            fixed_s += tier.request_link_s(sizes).sum()
            fixed_s += tier.request_limit_s(sizes).sum()
            object_s += tier.request_service_s(sizes).sum()
    return float(fixed_s), float(object_s)


@lru_cache(maxsize=32)
def _machine_of(network: Network, workload: Workload) -> tuple[Machine, np.ndarray]:
    """Return the machine in all epochs of a network, which nobody may change.

    And the first request of files of each size, those of the GFS first. It is kept
    because calibration and what-if simulate many points of one network.
    """
    tiers = network.gfs, network.lfs
    reads = [(tier, one) for tier in tiers for one in workload.by_size]
    requests, first = requests_of_reads(reads)
    return machine_of(network, requests), first
