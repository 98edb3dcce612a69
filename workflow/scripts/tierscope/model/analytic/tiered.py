"""The machine as a closed network: how long a file takes while all ranks are reading.

Customers are ranks, in one class for each type of LFS group. A cycle is a file: on the
LFS with the probability of a hit, otherwise on the GFS. Mean value analysis solves the
network (`tierscope.model.analytic.fixed_point`). Assumptions besides those of
`tierscope.model.demands`:

- hits come at random, with the given fraction; the order of the files does not matter;
- files and ranks are spread evenly over object servers and links;
- object servers of one LFS group are equally slow; those of the GFS and of different
  groups have the quantiles of their spread;
- processor time of a sample is a delay;
- compute time without prefetching is a delay, and ranks are out of step: if all begin
  their steps together, more of them read at a time, and I/O takes longer;
- compute time with prefetching changes no I/O time: either I/O hides it, or, if it is
  longer than the I/O, ranks read their batches in step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from tierscope.model.analytic.fixed_point import Customers, Stations, solve_fixed_point
from tierscope.model.demands import CLASSES_OF, FileDemand, file_demand
from tierscope.storage.queueing_network import Network, TierModel, Workload

GFS, LFS = 0, 2  # where a tier's classes begin in the order of `IOClass`


@dataclass(frozen=True)
class RankGroups:
    """Types of groups of ranks that share LFS servers.

    Parameters
    ----------
    n_groups : ndarray of int, shape (n_kinds,)
        Groups of each type.
    n_ranks : ndarray of int, shape (n_kinds,)
        Ranks of each such group.
    slowness : ndarray of float, shape (n_kinds,)
        Factor of the service times of its object servers.
    """

    n_groups: np.ndarray
    n_ranks: np.ndarray
    slowness: np.ndarray

    @property
    def share(self) -> np.ndarray:
        """Return the part of all ranks in groups of each type, shape (n_kinds,)."""
        ranks = self.n_groups * self.n_ranks
        return ranks / ranks.sum()


def group_sizes(network: Network) -> np.ndarray:
    """Return the ranks of each LFS group: int, shape (n_groups,)."""
    size = network.lfs.group_size or network.n_ranks
    firsts = np.arange(0, network.n_ranks, size)
    return np.minimum(size, network.n_ranks - firsts)


def mean_groups(network: Network) -> RankGroups:
    """Return the LFS groups with the quantiles of their slowness, by types."""
    sizes = group_sizes(network)
    slowness = np.exp(network.lfs.object_server_spread * normal_quantiles(sizes))
    kinds, counts = np.unique(
        np.column_stack([sizes, slowness]), axis=0, return_counts=True
    )
    return RankGroups(counts, kinds[:, 0].astype(np.int64), kinds[:, 1])


def normal_quantiles(weights: np.ndarray) -> np.ndarray:
    """Return the standard normal quantiles of items in order, at their middles."""
    return ndtri((np.cumsum(weights) - weights / 2) / np.sum(weights))


def slowest_object_server(tier: TierModel) -> float:
    """Return the slowness of the slowest object server, the last quantile."""
    quantiles = normal_quantiles(np.ones(tier.n_object_servers))
    return float(np.exp(tier.object_server_spread * quantiles[-1]))


@dataclass(frozen=True)
class TieredNetwork:
    """A network of queues that can be solved for populations and hit fractions.

    Parameters
    ----------
    stations : Stations
        Queues; a pair is a type of group at a station.
    demand_s : ndarray, shape (n_pairs,)
        Demand of a file of the pair's tier.
    on_lfs : ndarray of bool, shape (n_pairs,)
        Whether that tier is the LFS.
    class_cell : ndarray of int, shape (n_pairs,)
        Type of group times 4 plus I/O class of each pair.
    fixed_s : ndarray, shape (4,)
        Time of a file outside of queues, by I/O class.
    idle_s : float
        Time of a file during which its rank makes no call: it processes or computes.
    groups : RankGroups
        The types of groups.
    """

    stations: Stations
    demand_s: np.ndarray
    on_lfs: np.ndarray
    class_cell: np.ndarray
    fixed_s: np.ndarray
    idle_s: float
    groups: RankGroups

    def no_waiting(self) -> np.ndarray:
        """Return the start value of the first solution, shape (n_pairs,)."""
        return np.ones(len(self.demand_s))

    def solve(
        self, hit_fraction: np.ndarray, n_active: np.ndarray, waiting: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the time of a file on each tier while some ranks are reading.

        Parameters
        ----------
        hit_fraction : ndarray, shape (n_kinds,)
            Part of the files that the LFS serves.
        n_active : ndarray, shape (n_kinds,)
            Mean number of ranks of a group that are reading.
        waiting : ndarray, shape (n_pairs,)
            Start value: `no_waiting`, or the result of a similar solution.

        Returns
        -------
        time_s : ndarray, shape (n_kinds, 4)
            Time of a file that is read from the tier of the I/O class, by class.
        waiting : ndarray, shape (n_pairs,)
            Residence time over demand of each pair.
        """
        missed = 1 - hit_fraction
        kind_of = self.stations.class_of
        part = np.where(self.on_lfs, hit_fraction[kind_of], missed[kind_of])
        think_s = (
            missed * self.fixed_s[:2].sum() + hit_fraction * self.fixed_s[2:].sum()
        )
        customers = Customers(
            n_active * self.groups.n_groups,
            np.minimum(n_active, 1.0),
            think_s + self.idle_s,
        )
        waiting = solve_fixed_point(
            self.stations, customers, self.demand_s * part, waiting
        )
        time_s = np.bincount(
            self.class_cell, self.demand_s * waiting, 4 * len(n_active)
        )
        return time_s.reshape(-1, 4) + self.fixed_s, waiting


def tiered_network(
    network: Network, workload: Workload, groups: RankGroups
) -> TieredNetwork:
    """Return the network of queues of a machine whose ranks are in these groups."""
    demands = [file_demand(tier, workload) for tier in (network.gfs, network.lfs)]
    queues = list(_queues(network, demands, groups))
    n_kinds = len(groups.n_groups)
    kinds, n_rows = np.arange(n_kinds), [len(queue.n_copies) for queue in queues]
    # A shared queue is one station; otherwise each type of group has its own.
    firsts = np.cumsum([0, *n_rows])[:-1]
    pairs = [
        (first + (kinds if rows > 1 else 0 * kinds), queue.demand_s + 0.0 * kinds)
        for first, rows, queue in zip(firsts, n_rows, queues, strict=True)
    ]
    station_of, demand_s = (
        np.concatenate([np.zeros(0), *(pair[at] for pair in pairs)]) for at in (0, 1)
    )
    io_class = np.repeat(
        np.array([queue.io_class for queue in queues], np.int64), n_kinds
    )
    class_of = np.tile(kinds, len(queues))
    idle_s = network.sample_s
    if workload.prefetch_batches == 0:
        idle_s += workload.compute_time_s / workload.batch_size
    return TieredNetwork(
        Stations(
            station_of.astype(np.int64),
            class_of,
            np.concatenate([np.zeros(0), *(queue.n_copies for queue in queues)]),
            np.repeat([float(queue.n_visited) for queue in queues], n_rows),
            np.repeat([float(queue.cv2) for queue in queues], n_rows),
        ),
        demand_s,
        io_class >= 2,
        4 * class_of + io_class,
        np.concatenate([demand.without_queues_s for demand in demands]),
        idle_s,
        groups,
    )


class _Queue(NamedTuple):
    """A queue that all ranks share, or one queue for each type of group."""

    demand_s: float | np.ndarray  # of a file
    n_copies: np.ndarray  # one item, or one for each type
    n_visited: int
    cv2: float
    io_class: int


def _queues(
    network: Network, demands: Sequence[FileDemand], groups: RankGroups
) -> Iterator[_Queue]:
    """Yield the queues of the GFS and the LFS.

    If object servers of the GFS differ, each is a queue. Each type of group has its own
    queues of the LFS, but links are shared.
    """
    for first, demand in zip((GFS, LFS), demands, strict=True):
        for kind, station in demand.queues():
            rest = station.cv2, first + CLASSES_OF[kind]
            if first == LFS and kind != "link":
                slowness = groups.slowness if kind == "object" else 1.0
                n_copies = station.n_copies * groups.n_groups.astype(float)
                own_s = station.queue_s * slowness
                yield _Queue(own_s, n_copies, station.n_copies, *rest)
            elif kind == "object" and network.gfs.object_server_spread:
                quantiles = normal_quantiles(np.ones(station.n_copies))
                for slowness in np.exp(network.gfs.object_server_spread * quantiles):
                    part_s = station.queue_s * slowness / station.n_copies
                    yield _Queue(part_s, np.ones(1), 1, *rest)
            else:
                n_visited = 1 if station.sticks else station.n_copies
                n_copies = np.array([float(station.n_copies)])
                yield _Queue(station.queue_s, n_copies, n_visited, *rest)
