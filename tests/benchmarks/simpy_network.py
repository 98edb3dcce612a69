"""The simulator's network written with SimPy, for comparison: deterministic services.

Each server is a `simpy.Resource`, each rank a process that requests it, holds it for
its service time and waits its latencies. Nothing is shared with our event loop.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import simpy
from tierscope.model.network import Network, TierModel, Workload
from tierscope.shuffle import process_share


class Station:
    """Some servers with one queue."""

    def __init__(self, environment: simpy.Environment, n_servers: int = 1):
        self._environment = environment
        self._servers = simpy.Resource(environment, n_servers)
        self.n_visits = 0

    def visit(self, service_s: float) -> Iterator[simpy.Event]:
        """Queue, then be served."""
        self.n_visits += 1
        with self._servers.request() as turn:
            yield turn
            yield self._environment.timeout(service_s)


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
        self.links_s = tier.request_link_s(sizes).tolist()
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

    def read(self, rank: int, file_id: int) -> Iterator[simpy.Event]:
        """Open, read and close a file; return the four instants."""
        environment, tier = self.environment, self.tier
        group = rank // (tier.group_size or self.n_ranks)
        server = group * tier.n_object_servers + file_id % tier.n_object_servers
        instants_s = [environment.now]
        if tier.open_s:
            yield from self.metadata[group].visit(tier.open_s)
        if tier.open_latency_s:
            yield environment.timeout(tier.open_latency_s)
        instants_s.append(environment.now)
        for service_s, link_s in zip(self.services_s, self.links_s, strict=True):
            yield from self.objects[server].visit(self.slowness[server] * service_s)
            if tier.n_links:
                link = self.links[rank * tier.n_links // self.n_ranks]
                yield from link.visit(link_s)
            if tier.read_latency_s:
                yield environment.timeout(tier.read_latency_s)
        instants_s.append(environment.now)
        if tier.close_s:
            yield from self.metadata[group].visit(tier.close_s)
        if tier.close_latency_s:
            yield environment.timeout(tier.close_latency_s)
        return [*instants_s, environment.now]


def simulate_with_simpy(
    network: Network,
    workload: Workload,
    files: np.ndarray,
    on_lfs: np.ndarray,
    slowness: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray, int]:
    """Simulate an epoch; arguments as for `tierscope.model.simulate.simulate_epoch`.

    Returns
    -------
    instants_s : ndarray of float, shape (n_reads, 4)
    finished_s : ndarray of float, shape (n_ranks,)
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
    instants_s = np.zeros((len(files), 4))
    finished_s = np.zeros(network.n_ranks)
    decided = list(zip(files.tolist(), on_lfs.tolist(), strict=True))

    def read_batches(rank, mine, ready, room):
        for start in range(mine.start, mine.stop, workload.batch_size):
            yield room.get(1)
            for read in range(start, min(start + workload.batch_size, mine.stop)):
                file_id, local = decided[read]
                instants_s[read] = yield from tiers[local].read(rank, file_id)
            yield ready.put(1)

    def train(rank, mine, ready, room):
        for _ in range(mine.start, mine.stop, workload.batch_size):
            if not workload.prefetch_batches:
                yield room.put(1)
            yield ready.get(1)
            if workload.prefetch_batches:
                yield room.put(1)
            if workload.compute_time_s:
                yield environment.timeout(workload.compute_time_s)
        finished_s[rank] = environment.now

    for rank in range(network.n_ranks):
        mine = process_share(len(files), rank, network.n_ranks)
        ready = simpy.Container(environment)
        room = simpy.Container(environment, init=workload.prefetch_batches)
        environment.process(read_batches(rank, mine, ready, room))
        environment.process(train(rank, mine, ready, room))
    environment.run()
    return instants_s, finished_s, sum(tier.n_visits for tier in tiers)
