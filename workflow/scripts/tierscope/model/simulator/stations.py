"""The stations of a machine for the event loop: servers and links.

They serve who comes first, so a customer's end is known when it arrives.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import vectorize

from tierscope.model.simulator.compiling import compiled, inlined
from tierscope.storage.queueing_network import (
    DISTRIBUTIONS,
    ModelError,
    Network,
    TierModel,
    Workload,
)

NS_PER_S = 1e9
# Up to this sum, 104 days, nanoseconds are also exact as floats.
MOST_S = (1 << 53) / NS_PER_S
DETERMINISTIC, EXPONENTIAL, LOGNORMAL = range(3)
METADATA_SERVER, LINK = range(2)  # of the servers of a rank on a tier

# What the loop must know of a tier.
STATIONS = np.dtype(
    [
        ("n_metadata_servers", "i8"),
        ("open_s", "f8"),
        ("close_s", "f8"),
        ("open_latency_ns", "i8"),
        ("close_latency_ns", "i8"),
        ("read_latency_ns", "i8"),
        ("n_links", "i8"),
        ("credit_ns", "i8"),
        ("metadata_distribution", "i8"),
        ("metadata_sigma", "f8"),
        ("object_distribution", "i8"),
        ("object_sigma", "f8"),
    ]
)
# What a request takes: mean service time of an object server, and time on a link and of
# a rate limit, 0 without one; whether it is the last of its read.
REQUEST = np.dtype(
    [("service_s", "f8"), ("link_ns", "i8"), ("limit_ns", "i8"), ("is_last", "i8")]
)
# A server: the factor of its service times, when it is free again, the sum of its
# service times, and when its credit is full again, if it has a rate limit.
SERVER = np.dtype(
    [("slowness", "f8"), ("free_ns", "i8"), ("busy_ns", "i8"), ("full_ns", "i8")]
)


class Machine(NamedTuple):
    """GFS and LFS, and what ranks use of them.

    Parameters
    ----------
    stations : ndarray of STATIONS, shape (3,)
        What the loop must know of GFS, LFS, and the network between nodes.
    requests : ndarray of REQUEST, shape (n_requests,)
        What the requests of a read of each kind take, kind after kind.
    homes : ndarray of int, shape (n_ranks, 2, 2)
        First metadata server and link of each rank, on GFS and LFS.
    """

    stations: np.ndarray
    requests: np.ndarray
    homes: np.ndarray


@vectorize
def to_ns(time_s):
    """Return a time as whole nanoseconds, the even ones of two that are as near."""
    return np.int64(np.rint(time_s * NS_PER_S))


@compiled
def draw_service_s(mean_s, distribution, sigma, generator):
    """Return a service time of a mean; `sigma` is lognormal's (of the logarithm)."""
    if distribution == DETERMINISTIC:
        return mean_s
    if distribution == EXPONENTIAL:
        return mean_s * generator.standard_exponential()
    z = generator.standard_normal()
    return mean_s * math.exp(sigma * (z - 0.5 * sigma))


@inlined
def serve(servers, server, arrival_ns, service_ns):
    """Let a server serve one more arrival and return when that is done."""
    one = servers[server]
    one.busy_ns += service_ns
    one.free_ns = max(one.free_ns, arrival_ns) + service_ns
    return one.free_ns


@compiled
def first_free(servers, first, n_servers):
    """Return the server that is free first, of equal ones the first."""
    best = first
    for server in range(first + 1, first + n_servers):
        if servers[server].free_ns < servers[best].free_ns:
            best = server
    return best


@inlined
def pass_metadata(at, is_open, first_server, now_ns, servers, generator):
    """Let a customer open a file, or close it, and return when that is done.

    `first_server` is the first metadata server of the customer's group.
    """
    mean_s = at.open_s if is_open else at.close_s
    service_s = draw_service_s(
        mean_s, at.metadata_distribution, at.metadata_sigma, generator
    )
    server = first_free(servers, first_server, at.n_metadata_servers)
    now_ns = serve(servers, server, now_ns, to_ns(service_s))
    return now_ns + (at.open_latency_ns if is_open else at.close_latency_ns)


@inlined
def pass_object_server(at, request, server, now_ns, servers, generator):
    """Let an object server serve a request and return when that is done."""
    one = servers[server]
    service_s = one.slowness * draw_service_s(
        request.service_s, at.object_distribution, at.object_sigma, generator
    )
    service_ns = to_ns(service_s)
    if request.limit_ns > 0:
        # A token bucket: a request that the credit does not cover waits for the rest.
        start_ns = max(one.free_ns, now_ns)
        one.full_ns = max(one.full_ns, start_ns) + request.limit_ns
        service_ns = max(service_ns, one.full_ns - at.credit_ns - start_ns)
    return serve(servers, server, now_ns, service_ns)


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

    def object_servers(self, ranks: np.ndarray, files: np.ndarray) -> np.ndarray:
        """Return the server that holds a file for a rank."""
        n_servers = self.tier.n_object_servers
        first = self.first_object_server + self._groups(ranks) * n_servers
        return first + files % n_servers

    def homes(self, ranks: np.ndarray) -> np.ndarray:
        """Return the first metadata server and the link of each rank: (n_ranks, 2)."""
        first = self.first + self._groups(ranks) * self.tier.n_metadata_servers
        links = self.first_link + ranks * self.tier.n_links // self.n_ranks
        return np.column_stack([first, links])


def layouts_of(network: Network) -> tuple[Layout, Layout]:
    """Return the numbers of the servers of both tiers."""
    gfs = Layout(network.gfs, network.n_ranks, 0)
    return gfs, Layout(network.lfs, network.n_ranks, gfs.end)


def machine_of(network: Network, requests: np.ndarray) -> Machine:
    """Return a network in the form of the event loop, with requests (`requests_of`)."""
    ranks = np.arange(network.n_ranks)
    homes = [layout.homes(ranks) for layout in layouts_of(network)]
    return Machine(_stations_of(network), requests, np.stack(homes, axis=1))


def _stations_of(network: Network) -> np.ndarray:
    """Return the tiers and the network between nodes, whose calls take no server."""
    stations = np.zeros(3, STATIONS)
    for at, tier in zip(stations, (network.gfs, network.lfs), strict=False):
        for name in ("n_metadata_servers", "open_s", "close_s", "n_links"):
            at[name] = getattr(tier, name)
        for name in ("open_latency", "close_latency", "read_latency"):
            at[f"{name}_ns"] = to_ns(float(getattr(tier, f"{name}_s")))
        at["credit_ns"] = to_ns(tier.credit_s)
        for kind in ("metadata", "object"):
            service = getattr(tier, f"{kind}_service")
            at[f"{kind}_distribution"] = DISTRIBUTIONS.index(service.distribution)
            at[f"{kind}_sigma"] = np.sqrt(np.log1p((service.cv or 0.0) ** 2))
    if network.peers is not None:
        stations[2]["read_latency_ns"] = to_ns(float(network.peers.latency_s))
    return stations


def requests_of(tier: TierModel, sizes: np.ndarray) -> np.ndarray:
    """Return what requests of some sizes take on a tier; the last one ends a read."""
    requests = np.zeros(len(sizes), REQUEST)
    requests["service_s"] = tier.request_service_s(sizes)
    requests["link_ns"] = to_ns(tier.request_link_s(sizes))
    requests["limit_ns"] = to_ns(tier.request_limit_s(sizes))
    requests["is_last"][-1:] = 1
    return requests


def requests_of_reads(
    reads: Sequence[tuple[TierModel, Workload]],
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the requests of several kinds of reads take, and where each begins.

    A kind is a workload's read from a tier.
    """
    parts = [requests_of(tier, one.request_bytes(tier)) for tier, one in reads]
    first = np.cumsum([0, *map(len, parts[:-1])])
    return np.concatenate(parts), first


def idle_servers(
    network: Network,
    slowness: Sequence[np.ndarray] | None,
    full_ns: np.ndarray | None = None,
) -> np.ndarray:
    """Return servers that have served nobody: array of SERVER, shape (n_servers,).

    Parameters
    ----------
    network : Network
        Ranks and stations.
    slowness : pair of ndarray or None
        Factors of the object servers of GFS and LFS; all other factors are 1.
    full_ns : ndarray of int, shape (n_servers,), optional
        When their credit is full again; default: it is.

    Raises
    ------
    ModelError
        If the number of factors differs from that of the object servers.
    """
    layouts = layouts_of(network)
    servers = np.zeros(layouts[-1].end, SERVER)
    servers["slowness"] = 1.0
    if full_ns is not None:
        servers["full_ns"] = full_ns
    if slowness is None:
        return servers
    got = [np.shape(factor) for factor in slowness]
    expected = [(layout.first_link - layout.first_object_server,) for layout in layouts]
    if got != expected:
        raise ModelError(
            f"slowness: got shapes {got}, expected {expected}, one factor for each "
            "object server of GFS and LFS."
        )
    for layout, factor in zip(layouts, slowness, strict=True):
        mine = slice(layout.first_object_server, layout.first_link)
        servers["slowness"][mine] = factor
    return servers


def check_total(total_s: float) -> None:
    """Refuse times of `MOST_S` or longer."""
    if not total_s < MOST_S:
        raise ModelError(
            f"times: got up to {total_s:.2g} s, expected less than {MOST_S:.2g} s: "
            "use smaller service times."
        )
