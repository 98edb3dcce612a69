"""Simulate an epoch: ranks read their files from two tiers, event by event.

The network is closed (see `tierscope.storage.queueing_network`): a rank makes one call
at a time, so while it waits at one station it is absent from the others. Service times
are drawn from the given generator; all else is exact (see
`tierscope.model.simulator.events`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tierscope.core.description import ComputeTime, FileSizes
from tierscope.data.steps import StepTimes, compute_times_ns
from tierscope.model.simulator.events import (
    MOST_RANKS,
    NS_PER_S,
    OPEN,
    READ,
    STATIONS,
    Epoch,
    Loading,
    Reads,
    Servers,
    Tiers,
    run_events,
    to_ns,
)
from tierscope.model.simulator.step_events import (
    Rules,
    Stepped,
    run_steps,
    stepped_epoch,
)
from tierscope.storage.queueing_network import (
    DISTRIBUTIONS,
    MODULO,
    ModelError,
    Network,
    TierModel,
    Workload,
)

# Up to this sum, 104 days, nanoseconds are also exact as floats.
MOST_S = (1 << 53) / NS_PER_S
_PLACES, _SIZES = 5, 6  # streams of random numbers; those of runs have others


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
    """

    instants_ns: np.ndarray
    finished_ns: np.ndarray
    busy_ns: np.ndarray
    n_events: int
    steps: StepTimes | None
    full_ns: np.ndarray

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
        return self.instants_ns[:, READ] - self.instants_ns[:, OPEN]

    @property
    def execution_time_s(self) -> float:
        """Return the time from barrier to barrier in seconds."""
        return float(self.finished_s.max())


def first_reads(n_reads: int, n_ranks: int) -> np.ndarray:
    """Return the start of each rank's part of an order, and the end: (n_ranks + 1,)."""
    return n_reads * np.arange(n_ranks + 1) // n_ranks  # as `process_share`


def ranks_of_reads(n_reads: int, n_ranks: int) -> np.ndarray:
    """Return the process of each read of an order."""
    return np.repeat(np.arange(n_ranks), np.diff(first_reads(n_reads, n_ranks)))


def simulate_epoch(
    network: Network,
    workload: Workload,
    files: np.ndarray,
    on_lfs: np.ndarray,
    generator: np.random.Generator,
    slowness: tuple[np.ndarray, np.ndarray] | None = None,
    seeds: tuple[int, int, int] = (0, 0, 0),
    servers: np.ndarray | None = None,
    full_ns: np.ndarray | None = None,
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
    on_lfs : ndarray of bool, shape (n_files,)
        Whether the LFS serves each read, in the same order. A policy decides by file,
        epoch, rank or position in the order.
    generator : numpy.random.Generator
        Draws service times; not used if all are deterministic.
    slowness : pair of ndarray, optional
        Factors of the object servers of GFS and LFS (`TierModel.draw_slowness`);
        default 1.
    seeds : tuple of int, optional
        Seed, repetition and epoch, of which random compute times are drawn; of the
        seed, sizes of files and random places as well.
    servers : ndarray of int, shape (n_files,), optional
        Object server of the GFS that holds the file of each read, from 0; default:
        `TierModel.placement`.
    full_ns : ndarray of int, optional
        As the epoch before returned it; default: all credit is full.

    Raises
    ------
    ModelError
        If there are fewer files than ranks, arguments have a wrong length or type, or
        the epoch may last for months.
    """
    n_ranks, n_reads = network.n_ranks, workload.n_files
    check_n_files(n_reads, n_ranks)
    if n_ranks > MOST_RANKS:
        raise ModelError(f"n_ranks: got {n_ranks}, expected at most {MOST_RANKS}.")
    _check_reads(n_reads, files, on_lfs)
    layouts = layouts_of(network)
    factors = server_factors(layouts, slowness)
    check_times((network.gfs, network.lfs), workload, factors, network.sample_s)
    first_read = first_reads(n_reads, n_ranks)
    rank_of = ranks_of_reads(n_reads, n_ranks)
    if servers is None:
        servers = _placed(network, files, seeds[0])
    server_of = layouts[0].object_servers(rank_of, servers)
    server_of[on_lfs] = layouts[1].object_servers(rank_of[on_lfs], files[on_lfs])
    instants_ns = np.zeros((n_reads, 5), np.int64)
    row_of = _rows(workload, files, on_lfs, seeds[0])
    reads = Reads(first_read, server_of, layouts[1].first, row_of, instants_ns)
    tiers, queues = _tiers_of(network, workload), idle_servers(factors, full_ns)
    if workload.needs_steps:
        rules = _rules_of(network, workload, np.diff(first_read), seeds)
        stepped = stepped_epoch(reads, tiers, rules, queues)
        n_events = run_steps(stepped, generator)
        finished_ns, steps = stepped.trainings.ended_ns, _times_of(stepped)
    else:
        epoch = Epoch(reads, tiers, loading_of(network, workload), queues)
        n_events = run_events(epoch, generator)
        finished_ns = epoch.loading.finished_ns
        steps = _step_times(np.diff(first_read), epoch.loading)
    left_ns = np.maximum(queues.full_ns - finished_ns.max(), 0)
    return SimulatedEpoch(
        instants_ns, finished_ns, queues.busy_ns, n_events, steps, left_ns
    )


def _placed(network: Network, files: np.ndarray, seed: int) -> np.ndarray:
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
    """Return the row of the requests of each read, those of the GFS's sizes first."""
    if workload.sizes is None:
        return on_lfs.astype(np.int64)
    sizes = _random_sizes(int(files.max()) + 1, seed)[files]
    return sizes + FileSizes.N_SIZES * on_lfs


@lru_cache(maxsize=8)
def _random_sizes(n_files: int, seed: int) -> np.ndarray:
    """Return which of the sizes each file of a dataset has, drawn at random."""
    generator = np.random.default_rng((seed, _SIZES))
    middles = 2 * np.arange(n_files) + 1  # of equal parts, in halves of a part
    return generator.permutation(middles * FileSizes.N_SIZES // (2 * n_files))


def _rules_of(
    network: Network, workload: Workload, n_samples: np.ndarray, seeds: Sequence[int]
) -> Rules:
    """Return how ranks with so many samples load, compute and meet."""
    n_steps = -(-n_samples // workload.batch_size)
    compute = workload.compute or ComputeTime(mean_s=workload.compute_time_s)
    compute_ns = [
        compute_times_ns(compute, n, seeds, rank)
        for rank, n in enumerate(n_steps.tolist())
    ]
    by_batch, depth = workload.workers is not None, workload.prefetch_batches
    if by_batch:
        depth = workload.workers * workload.prefetch_factor
    steps = np.arange(n_steps.max())
    return Rules(
        by_batch,
        max(workload.workers or 0, 1),
        depth,
        workload.batch_size,
        *_step_times_ns(network.sample_s),
        workload.in_steps,
        np.concatenate([[0], np.cumsum(n_steps)]),
        np.concatenate(compute_ns),
        (n_steps > steps[:, np.newaxis]).sum(axis=1),
    )


def _times_of(epoch: Stepped) -> StepTimes:
    """Return what each rank did."""
    rules, trainings = epoch.rules, epoch.trainings
    first = rules.first_step[:-1]
    compute_ns = np.add.reduceat(rules.compute_ns, first)
    return StepTimes(
        compute_ns,
        trainings.stall_ns,
        trainings.ended_ns.max() - trainings.stall_ns - compute_ns,
        trainings.first_taken_ns + rules.compute_ns[first],
        rules.compute_ns[first],
        np.diff(rules.first_step),
    )


def _step_times(n_samples: np.ndarray, loading: Loading) -> StepTimes:
    """Return what each rank did; all steps compute equally long."""
    n_steps = -(-n_samples // loading.batch_size)
    last = (n_steps - 1) % loading.taken_ns.shape[1]
    taken_ns = loading.taken_ns[np.arange(len(n_steps)), last]
    compute_ns = n_steps * loading.compute_ns
    # The last step begins when all batches before have been waited for and computed.
    stall_ns = taken_ns - (compute_ns - loading.compute_ns)
    return StepTimes(
        compute_ns,
        stall_ns,
        loading.finished_ns.max() - stall_ns - compute_ns,
        loading.first_taken_ns + loading.compute_ns,
        np.full(len(n_steps), loading.compute_ns),
        n_steps,
    )


def check_n_files(n_files: int, n_ranks: int) -> None:
    """Refuse fewer files than ranks."""
    if n_files < n_ranks:
        raise ModelError(
            f"n_files: got {n_files}, expected at least one for each of {n_ranks} "
            "ranks."
        )


def _check_reads(n_reads: int, files: np.ndarray, on_lfs: np.ndarray) -> None:
    """Refuse reads with a wrong number or type."""
    if files.shape != (n_reads,) or on_lfs.shape != (n_reads,):
        raise ModelError(
            f"reads: got {files.shape} files and {on_lfs.shape} decisions, expected "
            f"{n_reads} of both."
        )
    if on_lfs.dtype != bool:
        raise ModelError(f"on_lfs: got {on_lfs.dtype}, expected bool, one per read.")


@dataclass(frozen=True)
class Layout:
    """The numbers of a tier's servers among all servers: metadata, object, links.

    Parameters
    ----------
    tier : TierModel
        The tier.
    n_ranks : int
        Ranks of the machine.
    first : int
        Number of the tier's first server.
    """

    tier: TierModel
    n_ranks: int
    first: int

    @property
    def first_object_server(self) -> int:
        """Return the number of the tier's first object server."""
        n_groups = self.tier.n_groups(self.n_ranks)
        return self.first + n_groups * self.tier.n_metadata_servers

    @property
    def first_link(self) -> int:
        """Return the number of the tier's first link."""
        n_groups = self.tier.n_groups(self.n_ranks)
        return self.first_object_server + n_groups * self.tier.n_object_servers

    @property
    def end(self) -> int:
        """Return the number after that of the tier's last server."""
        return self.first_link + self.tier.n_links

    def _groups(self, ranks: np.ndarray) -> np.ndarray:
        return ranks // (self.tier.group_size or self.n_ranks)

    def metadata_servers(self, ranks: np.ndarray) -> np.ndarray:
        """Return the first metadata server of each rank."""
        return self.first + self._groups(ranks) * self.tier.n_metadata_servers

    def object_servers(self, ranks: np.ndarray, files: np.ndarray) -> np.ndarray:
        """Return the server that holds a file for a rank."""
        n_servers = self.tier.n_object_servers
        first = self.first_object_server + self._groups(ranks) * n_servers
        return first + files % n_servers

    def links(self, ranks: np.ndarray) -> np.ndarray:
        """Return the number of the link that each rank's reads pass."""
        return self.first_link + ranks * self.tier.n_links // self.n_ranks


def layouts_of(network: Network) -> tuple[Layout, Layout]:
    """Return the numbers of the servers of both tiers."""
    gfs = Layout(network.gfs, network.n_ranks, 0)
    return gfs, Layout(network.lfs, network.n_ranks, gfs.end)


def metadata_servers_and_links(
    layouts: Sequence[Layout], ranks: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first metadata server and the link of each rank: (n_ranks, 2) each."""
    servers = np.column_stack([layout.metadata_servers(ranks) for layout in layouts])
    return servers, np.column_stack([layout.links(ranks) for layout in layouts])


def loading_of(network: Network, workload: Workload) -> Loading:
    """Return how ranks take samples, with room for when they do."""
    n_kept = max(workload.prefetch_batches, 1)
    return Loading(
        workload.batch_size,
        workload.prefetch_batches,
        *_step_times_ns(workload.compute_time_s, network.sample_s),
        taken_ns=np.zeros((network.n_ranks, n_kept), np.int64),
        first_taken_ns=np.zeros(network.n_ranks, np.int64),
        finished_ns=np.zeros(network.n_ranks, np.int64),
    )


@lru_cache(maxsize=32)
def _step_times_ns(*times_s: float) -> tuple[int, ...]:
    """Return the times of a step in whole nanoseconds."""
    return tuple(to_ns(np.array(times_s, float)).tolist())


def idle_servers(factors: np.ndarray, full_ns: np.ndarray | None = None) -> Servers:
    """Return servers with their factors (`server_factors`) that have served nobody.

    `full_ns` is when their credit is full again; default: it is.
    """
    free_ns, busy_ns, full = np.zeros((3, len(factors)), np.int64)
    return Servers(factors, free_ns, busy_ns, full if full_ns is None else full_ns + 0)


def check_times(
    tiers: tuple[TierModel, TierModel],
    workload: Workload,
    factors: np.ndarray,
    sample_s: float,
) -> None:
    """Refuse times whose sum in whole nanoseconds would not be exact.

    Raises
    ------
    ModelError
        If all reads and steps, one after the other, took `MOST_S` or longer.
    """
    fixed_s, object_s = _file_times_s(tiers, workload)
    file_s = fixed_s + sample_s + float(factors.max()) * object_s
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


def check_total(total_s: float) -> None:
    """Refuse times of `MOST_S` or longer."""
    if not total_s < MOST_S:
        raise ModelError(
            f"times: got up to {total_s:.2g} s, expected less than {MOST_S:.2g} s: "
            "use smaller service times."
        )


def server_factors(
    layouts: Sequence[Layout], slowness: Sequence[np.ndarray] | None
) -> np.ndarray:
    """Return the factor of each server's service times, shape (n_servers,).

    Parameters
    ----------
    layouts : pair of Layout
        Layouts of GFS and LFS (`layouts_of`).
    slowness : pair of ndarray or None
        Factors of the object servers of GFS and LFS; all other factors are 1.

    Raises
    ------
    ModelError
        If the number of factors differs from that of the object servers.
    """
    factors = np.ones(layouts[-1].end)
    if slowness is None:
        return factors
    got = [np.shape(factor) for factor in slowness]
    expected = [(layout.first_link - layout.first_object_server,) for layout in layouts]
    if got != expected:
        raise ModelError(
            f"slowness: got shapes {got}, expected {expected}, one factor for each "
            "object server of GFS and LFS."
        )
    for layout, factor in zip(layouts, slowness, strict=True):
        factors[layout.first_object_server : layout.first_link] = factor
    return factors


@lru_cache(maxsize=32)
def _tiers_of(network: Network, workload: Workload) -> Tiers:
    """Return the tiers in all epochs of a network, which nobody may change.

    They are kept because calibration and what-if simulate many points of one network.
    """
    tiers, ranks = (network.gfs, network.lfs), np.arange(network.n_ranks)
    rows = [(tier, one) for tier in tiers for one in workload.by_size]
    return Tiers(
        stations_of(tiers),
        *request_times(rows),
        *metadata_servers_and_links(layouts_of(network), ranks),
    )


def stations_of(tiers: tuple[TierModel, TierModel]) -> np.ndarray:
    """Return both tiers in the form of the event loop."""
    stations = np.zeros(2, STATIONS)
    for at, tier in zip(stations, tiers, strict=True):
        for name in ("n_metadata_servers", "open_s", "close_s", "n_links"):
            at[name] = getattr(tier, name)
        for name in ("open_latency", "close_latency", "read_latency"):
            at[f"{name}_ns"] = to_ns(float(getattr(tier, f"{name}_s")))
        at["credit_ns"] = to_ns(tier.credit_s)
        for kind in ("metadata", "object"):
            service = getattr(tier, f"{kind}_service")
            at[f"{kind}_distribution"] = DISTRIBUTIONS.index(service.distribution)
            at[f"{kind}_sigma"] = np.sqrt(np.log1p((service.cv or 0.0) ** 2))
    return stations


def request_times(
    rows: Sequence[tuple[TierModel, Workload]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of requests of a file, and the times of each.

    Each row is for a workload's files on a tier: shape (n_rows,), then (n_rows, most
    requests). The times are the mean service time in seconds, as service times are
    drawn, and those on a link and of a rate limit in whole nanoseconds.
    """
    sizes = [workload.request_bytes(tier) for tier, workload in rows]
    n_requests = np.array([len(size) for size in sizes])
    request_s = np.zeros((len(rows), n_requests.max()))
    link_ns, limit_ns = np.zeros((2, *request_s.shape), np.int64)
    for row, ((tier, _), size) in enumerate(zip(rows, sizes, strict=True)):
        request_s[row, : len(size)] = tier.request_service_s(size)
        link_ns[row, : len(size)] = to_ns(tier.request_link_s(size))
        limit_ns[row, : len(size)] = to_ns(tier.request_limit_s(size))
    return n_requests, request_s, link_ns, limit_ns


def refuse_limits(network: Network) -> None:
    """Refuse a rate limit, where credit would have to be carried between epochs."""
    if network.gfs.limit_bytes_per_s is not None:
        raise ModelError(
            f"gfs.limit_bytes_per_s: got {network.gfs.limit_bytes_per_s:g} with a "
            "loader of LMDB, expected a loader of files."
        )
