"""Asymptotic bounds of the I/O time of an epoch (Denning and Buzen 1978).

An epoch takes at least the service time of its busiest station, and at least the time
of a process that never waits. The larger of both is the prediction: all waiting is at
that station. Assumptions: files and hits are spread evenly over processes, object
servers and links; the servers of LFS groups have the quantiles of their spread.
"""

from dataclasses import dataclass

import numpy as np

from tierscope.model.analytic.tiered import mean_groups, slowest_object_server
from tierscope.model.demands import (
    CLASSES_OF,
    KINDS,
    TIERS,
    check_modelled,
    file_demand,
    hit_fraction,
)
from tierscope.storage.queueing_network import Network, Workload


@dataclass(frozen=True)
class EpochBounds:
    """Bounds of an epoch, for each type of group of ranks that share LFS servers.

    Parameters
    ----------
    busy_s : dict of str to ndarray, shape (n_kinds,)
        Service time of the busiest server of each station, such as ``gfs_metadata``.
    without_waiting_s : ndarray, shape (4,)
        Time of a process that never waits, by I/O class.
    idle_s : float
        Time of a process during which it makes no call: it processes samples or, if its
        loader does not read ahead, computes.
    share : ndarray, shape (n_kinds,)
        Part of all ranks in groups of each type.
    """

    busy_s: dict[str, np.ndarray]
    without_waiting_s: np.ndarray
    idle_s: float
    share: np.ndarray

    @property
    def bottleneck(self) -> list[str]:
        """Return the busiest station of each type of group."""
        names = list(self.busy_s)
        return [names[at] for at in self._stacked().argmax(axis=0)]

    @property
    def class_time_s(self) -> np.ndarray:
        """Return the I/O time by class for each type of group, shape (n_kinds, 4).

        Waiting counts in the class of the bottleneck.
        """
        io_s = self.without_waiting_s.sum()
        waiting_s = np.maximum(self._stacked().max(axis=0) - self.idle_s - io_s, 0.0)
        times_s = np.tile(self.without_waiting_s, (len(waiting_s), 1))
        for row, name in enumerate(self.bottleneck):
            tier, kind = name.split("_")
            times_s[row, 2 * TIERS.index(tier) + CLASSES_OF[kind]] += waiting_s[row]
        return times_s

    def _stacked(self) -> np.ndarray:
        """Return all busy times, shape (n_stations, n_kinds)."""
        return np.stack(list(self.busy_s.values()))


def asymptotic_bounds(
    network: Network, workload: Workload, cache_rate_percent: float
) -> EpochBounds:
    """Return the bounds of an epoch at a cache rate.

    Parameters
    ----------
    network, workload
        Machine and what its ranks read.
    cache_rate_percent : float
        Percent of the files that are pinned on the LFS.

    Raises
    ------
    ModelError
        As `tierscope.model.demands.check_modelled`.
    """
    check_modelled(network, workload, cache_rate_percent)
    groups, hits = mean_groups(network), hit_fraction(workload, cache_rate_percent)
    n_files = workload.n_files / network.n_ranks
    idle_s = n_files * network.sample_s
    if workload.prefetch_batches == 0:
        idle_s += n_files / workload.batch_size * workload.compute_time_s
    busy_s, alone_s = {}, []
    for tier_name, part in zip(TIERS, (1 - hits, hits), strict=True):
        tier = getattr(network, tier_name)
        demand = file_demand(tier, workload)
        alone_s.append(part * n_files * demand.without_waiting_s)
        for kind, station in zip(KINDS, demand.stations, strict=True):
            slowness = 1.0
            if kind == "object" and tier_name == "lfs":
                slowness = groups.slowness
            elif kind == "object":
                slowness = slowest_object_server(tier)
            shared = tier_name == "gfs" or kind == "link"
            n_ranks = network.n_ranks if shared else groups.n_ranks
            files = part * n_files * n_ranks / station.n_copies
            busy_s[f"{tier_name}_{kind}"] = np.broadcast_to(
                files * station.queue_s * slowness, groups.share.shape
            )
    return EpochBounds(busy_s, np.concatenate(alone_s), idle_s, groups.share)
