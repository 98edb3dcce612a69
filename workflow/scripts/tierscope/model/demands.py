"""The demand of a file at the stations of a tier, for bounds and queueing models.

Stations are those of `tierscope.storage.queueing_network`. A station with one queue for
several kinds of visits (open and close; whole and last requests) has a service time of
mixed mean, whose variation includes the mixture. First come, first served with
different means has no product form. So waiting is computed with the mixed mean and
variation:
this is exact for an open M/G/1 queue and an approximation in a closed network.

A tier's object servers share its reads evenly. Where files lie unequally, the fullest
server has more to do, so times are too short.
"""

import math
from dataclasses import dataclass

import numpy as np

from tierscope.policies import Pinning
from tierscope.storage.queueing_network import (
    ModelError,
    Network,
    Service,
    TierModel,
    Workload,
)

TIERS = ("gfs", "lfs")
KINDS = ("metadata", "object", "link")
READ, META = 0, 1  # a tier's I/O classes, in the order of `IOClass`
CLASSES_OF = {"metadata": META, "object": READ, "link": READ}


@dataclass(frozen=True)
class StationDemand:
    """The demand of a file at one kind of server.

    Parameters
    ----------
    service_s : float
        Service time of a file.
    n_servers : int
        Servers that share a queue.
    n_copies : int
        Queues of this kind per group of ranks, which share the load evenly.
    sticks : bool
        Whether a rank always uses the same queue.
    cv2 : float
        Squared coefficient of variation of the service time of a visit.
    """

    service_s: float
    n_servers: int
    n_copies: int
    sticks: bool
    cv2: float

    @property
    def queue_s(self) -> float:
        """Return the demand of one fast server that replaces several (Seidmann)."""
        return self.service_s / self.n_servers

    @property
    def delay_s(self) -> float:
        """Return the rest of the service time, which delays no other call."""
        return self.service_s - self.queue_s


@dataclass(frozen=True)
class FileDemand:
    """The demand of a file at a tier: stations, in the order of `KINDS`, and latencies.

    `latency_s` holds the latencies of all read requests and of open and close, in the
    order ``read``, ``meta`` of `IOClass`. Latencies occupy no server.
    """

    stations: tuple[StationDemand, StationDemand, StationDemand]
    latency_s: tuple[float, float]

    def queues(self) -> list[tuple[str, StationDemand]]:
        """Return the stations at which files may wait, with their kinds."""
        kinds = zip(KINDS, self.stations, strict=True)
        return [(kind, station) for kind, station in kinds if station.queue_s]

    @property
    def without_waiting_s(self) -> np.ndarray:
        """Return the time of ``read`` and ``meta`` of a file that never waits."""
        return self._with_latencies([one.service_s for one in self.stations])

    @property
    def without_queues_s(self) -> np.ndarray:
        """Return the part of that time that is spent at no queue."""
        return self._with_latencies([one.delay_s for one in self.stations])

    def _with_latencies(self, station_s: list[float]) -> np.ndarray:
        """Return latencies plus times at the stations, by ``read`` and ``meta``."""
        metadata_s, *read_s = station_s
        return np.add(self.latency_s, [math.fsum(read_s), metadata_s])


def file_demand(tier: TierModel, workload: Workload) -> FileDemand:
    """Return the demand of a file at a tier."""
    requests = workload.request_bytes(tier)
    metadata_s = np.array([tier.open_s, tier.close_s])
    link_s = tier.request_link_s(requests) if tier.n_links else np.zeros(1)
    return FileDemand(
        (
            _station(metadata_s, tier.metadata_service, tier.n_metadata_servers),
            _station(
                tier.request_service_s(requests),
                tier.object_service,
                n_copies=tier.n_object_servers,
            ),
            _station(link_s, Service(), n_copies=max(tier.n_links, 1), sticks=True),
        ),
        (
            tier.read_latency_s * len(requests),
            tier.open_latency_s + tier.close_latency_s,
        ),
    )


def _station(
    visits_s: np.ndarray,
    service: Service,
    n_servers: int = 1,
    n_copies: int = 1,
    sticks: bool = False,
) -> StationDemand:
    """Return the demand of visits with these mean service times; 0 is no visit."""
    visits_s = visits_s[visits_s > 0]
    cv2 = 0.0
    if len(visits_s):
        relative = visits_s / visits_s.mean()
        cv2 = float((relative**2).mean() * (1 + squared_cv(service)) - 1)
    return StationDemand(float(visits_s.sum()), n_servers, n_copies, sticks, cv2)


def squared_cv(service: Service) -> float:
    """Return the squared coefficient of variation of a station's service times."""
    if service.distribution == "lognormal":
        return service.cv**2
    return 1.0 if service.distribution == "exponential" else 0.0


def hit_fraction(workload: Workload, cache_rate_percent: float) -> float:
    """Return the fraction of the files that are pinned on the LFS."""
    pinned = Pinning(workload.n_files, cache_rate_percent, seed=0)
    return pinned.n_on_lfs / workload.n_files


def check_modelled(
    network: Network, workload: Workload, cache_rate_percent: float
) -> None:
    """Refuse cases that bounds and queueing models cannot describe.

    Raises
    ------
    ModelError
        If the cache rate is not within 0 to 100 percent, there are more ranks than
        files, the GFS has servers for groups of ranks or limits its rate, or ranks do
        more than read ahead and compute equally long.
    """
    if workload.needs_steps:
        raise ModelError(
            "got workers, steps that wait for all, or computation that varies; only "
            "the simulation knows them."
        )
    if network.gfs.limit_bytes_per_s is not None:
        raise ModelError(
            "devices.gfs.limit_bytes_per_s: got a rate limit, expected none; only the "
            "simulation knows it."
        )
    if not 0 <= cache_rate_percent <= 100:
        raise ModelError(
            f"cache_rate_percent: got {cache_rate_percent}, expected 0 to 100."
        )
    if workload.n_files < network.n_ranks:
        raise ModelError(
            f"n_files: got {workload.n_files}, expected at least one for each of "
            f"{network.n_ranks} ranks."
        )
    if network.gfs.n_groups(network.n_ranks) > 1:
        raise ModelError(
            f"gfs.group_size: got {network.gfs.group_size} of {network.n_ranks} ranks, "
            "expected one group of all."
        )
