"""The simulator's network written with SimPy, for comparison: deterministic services.

Each server is a `simpy.Resource`, each rank a process that requests it, holds it for
its service time and waits its latencies; another process takes its batches. Times are
whole nanoseconds. Nothing is shared with our event loop but the order of arrivals in
one nanosecond: by kind, then by rank.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import simpy
from tierscope.data.shuffle import process_share
from tierscope.storage.queueing_network import Network, TierModel, Workload

# Priorities of arrivals; SimPy's own, before all arrivals of an instant, are 0 and 1.
CLOSE, LINK, REQUEST, OPEN = (number << 24 for number in range(1, 5))


def whole_ns(time_s: float) -> int:
    """Return seconds as whole nanoseconds."""
    return round(time_s * 1e9)


class Station:
    """Some servers with one queue."""

    def __init__(self, environment: simpy.Environment, n_servers: int = 1):
        self._environment = environment
        self._servers = simpy.Resource(environment, n_servers)
        self.n_visits = 0

    def visit(self, priority: int, service_ns: int) -> Iterator[simpy.Event]:
        """Arrive in the order of priorities, queue, then be served."""
        self.n_visits += 1
        arrival = simpy.Event(self._environment)
        arrival._ok, arrival._value = True, None
        self._environment.schedule(arrival, priority)
        yield arrival
        with self._servers.request() as turn:
            yield turn
            yield self._environment.timeout(service_ns)


class TierStations:
    """The stations of a tier and a file's way through them."""

    def __init__(
        self,
        environment: simpy.Environment,
        tier: TierModel,
        n_ranks: int,
        sizes: np.ndarray,
        slowness: Sequence[float],
    ):
        self.environment, self.tier, self.n_ranks = environment, tier, n_ranks
        self.slowness = slowness
        self.services_s = tier.request_service_s(sizes).tolist()
        self.links_ns = [whole_ns(one) for one in tier.request_link_s(sizes).tolist()]
        n_groups = tier.n_groups(n_ranks)
        self.metadata = [
            Station(environment, tier.n_metadata_servers) for _ in range(n_groups)
        ]
        self.objects = [
            Station(environment) for _ in range(n_groups * tier.n_object_servers)
        ]
        self.links = [Station(environment) for _ in range(tier.n_links)]

    @property
    def n_visits(self) -> int:
        """Return how often a rank arrived at a station."""
        stations = [*self.metadata, *self.objects, *self.links]
        return sum(station.n_visits for station in stations)

    def _pass_metadata(
        self, rank: int, kind: int, service_s: float, latency_s: float
    ) -> Iterator[simpy.Event]:
        """Open or close a file."""
        group = rank // (self.tier.group_size or self.n_ranks)
        if service_s:
            metadata = self.metadata[group]
            yield from metadata.visit(kind + rank, whole_ns(service_s))
        if latency_s:
            yield self.environment.timeout(whole_ns(latency_s))

    def open(self, rank: int) -> Iterator[simpy.Event]:
        """Open a file."""
        tier = self.tier
        return self._pass_metadata(rank, OPEN, tier.open_s, tier.open_latency_s)

    def close(self, rank: int) -> Iterator[simpy.Event]:
        """Close a file."""
        tier = self.tier
        return self._pass_metadata(rank, CLOSE, tier.close_s, tier.close_latency_s)

    def read(self, rank: int, file_id: int) -> Iterator[simpy.Event]:
        """Read a file to its last byte."""
        tier = self.tier
        group = rank // (tier.group_size or self.n_ranks)
        server = group * tier.n_object_servers + file_id % tier.n_object_servers
        for service_s, link_ns in zip(self.services_s, self.links_ns, strict=True):
            service_ns = whole_ns(self.slowness[server] * service_s)
            yield from self.objects[server].visit(REQUEST + rank, service_ns)
            if tier.n_links:
                link = self.links[rank * tier.n_links // self.n_ranks]
                yield from link.visit(LINK + rank, link_ns)
            if tier.read_latency_s:
                yield self.environment.timeout(whole_ns(tier.read_latency_s))


def simulate_with_simpy(
    network: Network,
    workload: Workload,
    files: np.ndarray,
    on_lfs: np.ndarray,
    slowness: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray, int]:
    """Simulate an epoch; arguments as for `simulate_epoch`.

    Returns
    -------
    instants_ns : ndarray of int, shape (n_reads, 5)
    finished_ns : ndarray of int, shape (n_ranks,)
    n_events : int
        Arrivals at a station.
    """
    environment = simpy.Environment()
    tiers = [
        TierStations(
            environment,
            tier,
            network.n_ranks,
            workload.request_bytes(tier),
            factors.tolist(),
        )
        for tier, factors in zip((network.gfs, network.lfs), slowness, strict=True)
    ]
    instants_ns = np.zeros((len(files), 5), np.int64)
    finished_ns = np.zeros(network.n_ranks, np.int64)
    decided = list(zip(files.tolist(), on_lfs.tolist(), strict=True))
    sample_ns, compute_ns = map(whole_ns, (network.sample_s, workload.compute_time_s))
    batch_size, prefetch = workload.batch_size, workload.prefetch_batches

    def read_files(rank, mine, ready, room):
        """Put every batch that is ready; a full one needs room for the next."""
        for number, read in enumerate(mine, 1):
            file_id, local = decided[read]
            instants = [environment.now]
            yield from tiers[local].open(rank)
            instants.append(environment.now)
            yield from tiers[local].read(rank, file_id)
            instants.append(environment.now)
            if sample_ns:
                yield environment.timeout(sample_ns)
            if number % batch_size == 0:
                yield ready.put(1)
                yield room.get(1)
            instants.append(environment.now)
            yield from tiers[local].close(rank)
            instants_ns[read] = [*instants, environment.now]
        if len(mine) % batch_size:
            yield ready.put(1)

    def train(rank, mine, ready, room, reader):
        """Make room by taking a batch or, if none is read ahead, by asking for it."""
        for _ in range(0, len(mine), batch_size):
            yield ready.get(1)
            if prefetch:
                yield room.put(1)
            if compute_ns:
                yield environment.timeout(compute_ns)
            if not prefetch:
                yield room.put(1)
        yield reader
        finished_ns[rank] = environment.now

    for rank in range(network.n_ranks):
        share = process_share(len(files), rank, network.n_ranks)
        mine = range(share.start, share.stop)
        ready = simpy.Container(environment)
        room = simpy.Container(environment, init=max(prefetch - 1, 0))
        reader = environment.process(read_files(rank, mine, ready, room))
        environment.process(train(rank, mine, ready, room, reader))
    environment.run()
    return instants_ns, finished_ns, sum(tier.n_visits for tier in tiers)
