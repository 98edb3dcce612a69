"""The slowest of P ranks: how hits are distributed, and how long each rank then takes.

Under pinning and a shuffle over all ranks the hits of a rank are hypergeometric (Fukai
et al., Sec. 4.2: pinning; the count is ours), and so are those of a group of ranks that
share LFS servers. Ranks of a group with many hits wait longer for its servers; a rank
with many files of the slower tier ends later. Towards the end fewer and fewer ranks are
reading, so these wait less. The work of the busiest station counts, and it does not
depend on which ranks cause it.

Assumptions, besides those of `tierscope.model.analytic.tiered`:

- groups have the quantiles of their work: hits times slowness of their servers. The
  normal distribution's conditional means split the work into both factors. So the
  group with the most work has many hits and slow servers, but the extreme of neither;
- within a group ranks are independent, given the group's hits;
- ranks end in the order, and at the relative times, in which they would if no rank
  ended before. Meanwhile the network is in the steady state of the remaining ranks;
- for each rank, the time of a file is its mean. Waiting also varies by chance; this
  averages out over the hundreds of files of a rank, but not over two or three. A
  network of ranks with two files each has no steady state, either: all begin at the
  same servers. Two laws still hold: no rank spends longer at a server than the server
  is busy, and the slowest rank takes at least as long as the asymptotic bounds.

If two types of ranks are about equally slow, the class times of the slowest are a mean
over both types, as over many shuffles; each single shuffle has one or the other.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, ndtr

from tierscope.model.analytic.bounds import EpochBounds, asymptotic_bounds
from tierscope.model.analytic.tiered import (
    RankGroups,
    group_sizes,
    normal_quantiles,
    slowest_object_server,
    tiered_network,
)
from tierscope.model.demands import KINDS, check_modelled, file_demand
from tierscope.policies import Pinning
from tierscope.storage.queueing_network import Network, Workload

_DEVIATIONS = 6  # considered range of a hit count, in standard deviations
_NEVER = 1e-300  # replaces probability 0 in logarithms
# Parts of the ranks that have ended, between which the network is solved.
_ENDED = (*np.linspace(0.04, 0.96, 11), 0.99, 0.998)


@dataclass(frozen=True)
class HitCounts:
    """How many of its files a rank reads from the LFS.

    Parameters
    ----------
    n_files, n_hits : ndarray of int, shape (n_counts,)
        Files of a rank and how many of them are hits, in every combination.
    probability : ndarray, shape (n_kinds, n_counts)
        Part of the ranks of each type of group that have them; rows sum to 1.
    groups : RankGroups
        The types of groups.
    """

    n_files: np.ndarray
    n_hits: np.ndarray
    probability: np.ndarray
    groups: RankGroups


def log_hypergeometric(
    n_hits: np.ndarray, n_files: np.ndarray, n_on_lfs: np.ndarray, n_drawn: np.ndarray
) -> np.ndarray:
    """Return the logarithm of the probability of hit counts; arguments broadcast.

    Like ``scipy.stats.hypergeom.logpmf(n_hits, n_files, n_on_lfs, n_drawn)``, but
    without its checks, which take most of its time.
    """
    missed, others = n_drawn - n_hits, n_files - n_on_lfs
    possible = (n_hits >= 0) & (missed >= 0) & (n_hits <= n_on_lfs) & (missed <= others)
    hits = np.where(possible, n_hits, 0)
    missed = np.where(possible, missed, 0)
    logs = _log_choose(n_on_lfs, hits) + _log_choose(others, missed)
    return np.where(possible, logs - _log_choose(n_files, n_drawn), -np.inf)


def _log_choose(n: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return the logarithm of a binomial coefficient, of 0 if k > n."""
    fits = k <= n
    rest = np.where(fits, n - k, 0)
    return np.where(
        fits, gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(rest + 1.0), -np.inf
    )


def deal_hits(network: Network, n_files: int, cache_rate_percent: float) -> HitCounts:
    """Return how pinned files are distributed over groups and ranks.

    Parameters
    ----------
    network : Network
        Its ranks, LFS groups and their spread.
    n_files : int
        Files of the dataset, at least one for each rank.
    cache_rate_percent : float
        Percent of them that are pinned.
    """
    sizes = tuple(group_sizes(network).tolist())
    return _deal_hits(
        sizes, network.lfs.object_server_spread, n_files, cache_rate_percent
    )


@lru_cache(maxsize=128)
def _deal_hits(
    sizes: tuple[int, ...], spread: float, n_files: int, cache_rate_percent: float
) -> HitCounts:
    """Return the result of `deal_hits`; a grid of improvements repeats the request."""
    n_ranks, n_groups = sum(sizes), len(sizes)
    n_on_lfs = Pinning(n_files, cache_rate_percent, seed=0).n_on_lfs
    ranks = np.array(sizes)
    firsts = n_files * np.concatenate([[0], np.cumsum(ranks)]) // n_ranks
    drawn = np.diff(firsts)
    work = normal_quantiles(ranks)
    # Relative variance of a group's hits, and the parts of both in that of its work.
    hits = n_on_lfs / n_files
    variance = np.zeros(n_groups)
    if 0 < n_on_lfs < n_files:
        variance = (1 - hits) / hits / drawn * (n_files - drawn) / (n_files - 1)
    both = np.sqrt(spread**2 + variance)
    both[both == 0] = 1.0
    slowness = np.exp(spread * spread / both * work)
    group_hits = _hit_quantiles(
        ndtr(np.sqrt(variance) / both * work), n_files, n_on_lfs, drawn
    )
    kinds, counts = np.unique(
        np.column_stack([ranks, slowness, drawn, group_hits]),
        axis=0,
        return_counts=True,
    )
    ranks, drawn, group_hits = (kinds[:, at].astype(np.int64) for at in (0, 2, 3))
    counts_of = _rank_counts(ranks, drawn, group_hits, n_files // n_ranks)
    return HitCounts(*counts_of, RankGroups(counts, ranks, kinds[:, 1]))


def _hit_quantiles(
    probability: np.ndarray, n_files: int, n_on_lfs: int, drawn: np.ndarray
) -> np.ndarray:
    """Return quantiles of the hits of groups that draw some files: int, (n_groups,)."""
    quantiles = np.empty(len(drawn), np.int64)
    for n_drawn in np.unique(drawn):
        window = _window(n_files, n_on_lfs, n_drawn)
        logs = log_hypergeometric(window, n_files, n_on_lfs, n_drawn)
        cumulated = np.cumsum(np.exp(logs))
        mine = drawn == n_drawn
        at = np.searchsorted(cumulated / cumulated[-1], probability[mine])
        quantiles[mine] = window[at]
    return quantiles


def _window(n_files: int, n_on_lfs: int, n_drawn: int) -> np.ndarray:
    """Return the hit counts of a draw that are not too improbable."""
    hits = n_on_lfs / n_files
    reach = _DEVIATIONS * np.sqrt(n_drawn * hits * (1 - hits)) + _DEVIATIONS**2 / 3
    first = max(0, n_drawn - (n_files - n_on_lfs), int(n_drawn * hits - reach))
    last = min(n_drawn, n_on_lfs, int(np.ceil(n_drawn * hits + reach)))
    return np.arange(first, last + 1)


def _rank_counts(
    ranks: np.ndarray, drawn: np.ndarray, group_hits: np.ndarray, least: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return files, hits and probability of a rank of groups with these hits."""
    fraction = group_hits / drawn
    fewest, most = fraction.argmin(), fraction.argmax()
    longer = (drawn - least * ranks) / ranks  # part that reads one file more
    n_files, n_hits, probability = [], [], []
    for n_drawn, part in ((least, 1 - longer), (least + 1, longer)):
        if not part.any():
            continue
        first = _window(drawn[fewest], group_hits[fewest], n_drawn)[0]
        last = _window(drawn[most], group_hits[most], n_drawn)[-1]
        hits = np.arange(first, last + 1)
        chance = np.exp(
            log_hypergeometric(
                hits, drawn[:, np.newaxis], group_hits[:, np.newaxis], n_drawn
            )
        )
        chance *= (part / chance.sum(axis=1))[:, np.newaxis]
        n_files.append(np.full(len(hits), n_drawn))
        n_hits.append(hits)
        probability.append(chance)
    return (
        np.concatenate(n_files),
        np.concatenate(n_hits),
        np.concatenate(probability, axis=1),
    )


def rank_times(
    network: Network, workload: Workload, cache_rate_percent: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of the slowest and the mean rank at a cache rate.

    Both have shape (4,): I/O time by class, in the order of `IOClass`.

    Raises
    ------
    ModelError
        As `tierscope.model.demands.check_modelled`.
    """
    check_modelled(network, workload, cache_rate_percent)
    counts = deal_hits(network, workload.n_files, cache_rate_percent)
    times_s = np.minimum(
        count_times(network, workload, counts),
        _longest_times(network, workload, counts),
    )
    ranks = counts.groups.share[:, np.newaxis] * counts.probability
    slowest = slowest_probability(
        times_s.sum(axis=-1), counts.probability, counts.groups
    )
    bounds = asymptotic_bounds(network, workload, cache_rate_percent)
    slowest_s = _no_less_than_bounds(np.tensordot(slowest, times_s), bounds)
    return slowest_s, np.tensordot(ranks, times_s)


def _longest_times(
    network: Network, workload: Workload, counts: HitCounts
) -> np.ndarray:
    """Return a rank's longest times: while it waits, one of its servers is busy."""
    groups, n_hits = counts.groups, counts.n_hits
    shape = (len(groups.share), len(n_hits))
    classes = []
    for tier, own in (
        (network.gfs, counts.n_files - n_hits),
        (network.lfs, n_hits),
    ):
        demand = file_demand(tier, workload)
        of_group = counts.probability @ own * groups.n_ranks
        of_all = np.full(len(of_group), (of_group * groups.n_groups).sum())
        is_lfs = tier is network.lfs
        slowness = groups.slowness if is_lfs else slowest_object_server(tier)
        read_s, meta_s = (part * own for part in demand.without_queues_s)
        for kind, station in zip(KINDS, demand.stations, strict=True):
            files = of_group if is_lfs and kind != "link" else of_all
            busy_s = files * station.queue_s / station.n_copies
            if kind == "metadata":
                meta_s = meta_s + busy_s[:, np.newaxis]
                continue
            if kind == "object":
                busy_s = busy_s * slowness
            n_visited = 1 if station.sticks else np.minimum(own, station.n_copies)
            read_s = read_s + busy_s[:, np.newaxis] * n_visited
        classes += [np.broadcast_to(one, shape) for one in (read_s, meta_s)]
    return np.stack(classes, axis=-1)  # shape (n_kinds, n_counts, 4)


def _no_less_than_bounds(slowest_s: np.ndarray, bounds: EpochBounds) -> np.ndarray:
    """Raise the slowest rank's time to the bounds, by waiting at the bottleneck."""
    bound_s = bounds.class_time_s
    largest = int(bound_s.sum(axis=1).argmax())
    missing_s = bound_s[largest].sum() - slowest_s.sum()
    if missing_s <= 0:
        return slowest_s
    at = int((bound_s[largest] - bounds.without_waiting_s).argmax())
    return slowest_s + missing_s * (np.arange(len(slowest_s)) == at)


def count_times(network: Network, workload: Workload, counts: HitCounts) -> np.ndarray:
    """Return the I/O time of ranks by their hits.

    Returns
    -------
    ndarray, shape (n_kinds, n_counts, 4)
        Seconds by I/O class.
    """
    model = tiered_network(network, workload, counts.groups)
    n_missed = counts.n_files - counts.n_hits
    files = np.stack([n_missed, n_missed, counts.n_hits, counts.n_hits], axis=-1)
    mean_files = counts.probability @ counts.n_files
    hit_fraction = counts.probability @ counts.n_hits / mean_files
    file_s, waiting = model.solve(
        hit_fraction, counts.groups.n_ranks.astype(float), model.no_waiting()
    )
    ends_s = file_s @ files.T.astype(float) + counts.n_files * model.idle_s
    edges_s = _edges(ends_s, counts)
    # Part of a rank's reading time that lies between two edges.
    spent_s = np.clip(
        ends_s[:, np.newaxis] - edges_s[:-1, np.newaxis],
        0.0,
        np.diff(edges_s)[:, np.newaxis],
    )
    spent = np.divide(
        spent_s, ends_s[:, np.newaxis], out=np.zeros_like(spent_s), where=spent_s > 0
    )
    n_active = np.einsum("get,gt->eg", spent_s, counts.probability)
    n_active *= counts.groups.n_ranks / np.diff(edges_s)[:, np.newaxis]
    read, hit = (
        np.einsum("get,gt->eg", spent, counts.probability * number)
        for number in (counts.n_files, counts.n_hits)
    )
    # If no rank of a type reads any more, its fraction does not matter.
    hit_fractions = np.divide(
        hit, read, out=np.tile(hit_fraction, (len(hit), 1)), where=read > 0
    )
    by_edge_s = np.empty((len(n_active), *file_s.shape))
    for at, active in enumerate(n_active):
        by_edge_s[at], waiting = model.solve(hit_fractions[at], active, waiting)
    return np.einsum("get,egc->gtc", spent, by_edge_s, optimize=True) * files


def _edges(ends_s: np.ndarray, counts: HitCounts) -> np.ndarray:
    """Return times from 0 to the last end; about as many ranks end between any two."""
    met = counts.probability > 1e-12
    order = np.argsort(ends_s[met])
    sorted_s = ends_s[met][order]
    ranks = (counts.groups.share[:, np.newaxis] * counts.probability)[met][order]
    ended = np.cumsum(ranks)
    at = np.searchsorted(ended, ended[-1] * np.array(_ENDED))
    inner_s = sorted_s[np.minimum(at, len(sorted_s) - 1)]
    edges_s = np.unique([0.0, sorted_s[0], *inner_s, sorted_s[-1]])
    return edges_s if len(edges_s) > 1 else np.array([0.0, 1.0])


def slowest_probability(
    time_s: np.ndarray, probability: np.ndarray, groups: RankGroups
) -> np.ndarray:
    """Return the probability of each type of rank to be the slowest of all.

    The maximum over independent ranks: ``P(max <= t)`` is the product of the ranks'
    ``P(time <= t)``.

    Parameters
    ----------
    time_s, probability : ndarray, shape (n_kinds, n_counts)
        Time of a rank and its probability; rows sum to 1.
    groups : RankGroups
        How many ranks each type has.

    Returns
    -------
    ndarray, shape (n_kinds, n_counts)
        Probabilities that sum to 1.
    """
    order = np.argsort(time_s, axis=1, kind="stable")
    below = np.cumsum(np.take_along_axis(probability, order, axis=1), axis=1)
    below /= below[:, -1:]
    n_ranks = (groups.n_groups * groups.n_ranks)[:, np.newaxis]
    logs = np.log(np.maximum(below, _NEVER)) * n_ranks
    start = np.log(_NEVER) * n_ranks
    steps = np.empty_like(logs)
    np.put_along_axis(steps, order, np.diff(logs, axis=1, prepend=start), axis=1)
    everywhere = np.argsort(time_s, axis=None, kind="stable")
    all_below = np.exp(
        np.minimum(start.sum() + np.cumsum(steps.ravel()[everywhere]), 0.0)
    )
    slowest = np.empty(time_s.size)
    slowest[everywhere] = np.diff(all_below, prepend=0.0)
    return slowest.reshape(time_s.shape) / slowest.sum()
