"""Estimate what faster classes would bring to a job, by the paper's rule.

N % more throughput of a class multiplies its time by 100 / (100 + N) in every process;
then the slowest process is picked (`tierscope.analysis.whatif`). Where the times of the
processes are bounds, so are the estimates.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np

from tierscope.analysis.whatif import improve
from tierscope.core.columns import OPERATIONS
from tierscope.core.io_class import total_s
from tierscope.core.words import changes_words, class_label
from tierscope.logs.bounds import (
    ROUNDING,
    ProcessTimes,
    slowest_bounds,
    slowest_candidates,
    slowest_class_bounds,
)
from tierscope.logs.joining.texts import Texts

PERCENTS = (25, 50, 100, 200)
# A class with a smaller part of the slowest process's time is not estimated.
LEAST_SHARE = 0.01
# Tiers without a server that could be improved: paths of no tier, and no paths.
NO_TIERS = ("other", "unnamed")
_ROWS_AT_ONCE = 10_000
_META = [operation for operation in OPERATIONS if operation.endswith("meta")]

JobClass = tuple[str, str, str]  # tier, interface, operation


@dataclass(frozen=True)
class ImprovedSlowest:
    """Bounds of the slowest process's seconds after improvements, one entry each.

    What is saved is by how much that is shorter than without the improvement, 0 or
    more. Exact times have equal bounds; an upper bound is infinite if records were
    lost.
    """

    least_s: np.ndarray
    most_s: np.ndarray
    saved_least_s: np.ndarray
    saved_most_s: np.ndarray


@dataclass(frozen=True)
class Improvement:
    """Classes of a phase (positions) that are improved together, and their labels."""

    labels: tuple[str, ...]
    classes: tuple[int, ...]


def improved_slowest(
    times: ProcessTimes, percents: np.ndarray, phases: np.ndarray | None = None
) -> ImprovedSlowest:
    """Bound the slowest process's time after each improvement, by the rule.

    Parameters
    ----------
    times : ProcessTimes
        The times of all processes of some phases.
    percents : ndarray of int, shape (n_improvements, n_classes)
        Improvements in percent, 0 or more, by class; 0 in columns behind those of the
        phase.
    phases : ndarray of int, shape (n_improvements,), optional
        The phase that each improvement is of; by default all are of the first.

    Returns
    -------
    ImprovedSlowest
        Valid bounds. Those of a process are sharp for its bounds of classes and total.
        The least of the slowest one also uses the sums over the processes, which are
        known exactly. A larger improvement never has larger bounds of the time.

    Notes
    -----
    What is saved has narrower bounds than the difference of both times. Let P be the
    slowest process after the improvement. Before, the slowest took at least as long as
    P, so at least what P saves is saved. Let Q be the slowest process before. After,
    the slowest takes at least as long as Q, so at most what Q saves is saved.
    """
    if phases is None:
        phases = np.zeros(len(percents), np.int64)
    bounds_s = np.zeros((4, len(percents)))
    are_equal = times.are_equal[phases]
    for which, bound in ((are_equal, _Exact(times)), (~are_equal, _Bounds.of(times))):
        for some in _parts(times, phases, np.flatnonzero(which)):
            factors = improve(np.ones((len(some), percents.shape[1])), percents[some])
            bounds_s[:, some] = bound.improved(factors, phases[some])
    return ImprovedSlowest(*bounds_s)


def _parts(
    times: ProcessTimes, phases: np.ndarray, chosen: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the improvements that are chosen, a few rows of processes at once."""
    if len(chosen):
        part = np.cumsum(times.n_processes[phases[chosen]]) // _ROWS_AT_ONCE
        yield from np.split(chosen, np.flatnonzero(np.diff(part)) + 1)


@dataclass(frozen=True)
class _Exact:
    """Times of which each phase's bounds are equal."""

    times: ProcessTimes

    def improved(
        self, factors: np.ndarray, phases: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return the four bounds of `ImprovedSlowest` for the factors of classes."""
        columns = _used(self.times.sum_s[phases] > 0)
        times = self.times.take(phases, columns)
        before_s = times.largest(total_s(times.least_s))
        factors = np.take(factors.T[columns], times.phase, axis=1).T
        after_s = times.largest(total_s(times.least_s * factors))
        saved_s = np.maximum(before_s - after_s, 0.0)
        return after_s, after_s, saved_s, saved_s


@dataclass(frozen=True)
class _Bounds:
    """Times that are bounds, and what is known of their slowest processes."""

    times: ProcessTimes
    slowest_s: tuple[np.ndarray, np.ndarray]
    are_candidates: np.ndarray
    have_time: np.ndarray  # classes of a phase that can have any

    @classmethod
    def of(cls, times: ProcessTimes) -> Self:
        """Return times without improvements."""
        times = times.unbounded
        known = slowest_bounds(times), slowest_candidates(times)
        return cls(times, *known, times.largest(times.most_s) > 0)

    def improved(
        self, factors: np.ndarray, phases: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return the four bounds of `ImprovedSlowest` for the factors of classes."""
        have_time = self.have_time[phases]
        columns, rows = (
            _used(have_time),
            self.times.rows_of(phases),
        )
        times, factors = self.times.take(phases, columns), factors[:, columns]
        # Any weight serves a class without time, and 0 needs no set of its own.
        have_time = have_time[:, columns]
        least_s, most_s = _weighted(times, factors * have_time)
        largest_s, sum_s = times.largest(most_s), total_s(factors * times.sum_s)
        filled = self.times.filled
        # With the most of today, a larger improvement never makes this longer.
        levels_s = sum_s[times.phase] - filled.below_s[rows]
        levels_s = times.largest(levels_s / filled.n_above[rows])
        slowest_s = np.maximum(times.largest(least_s), levels_s)
        slowest_s = np.minimum(slowest_s, filled.largest_s[phases])
        slowest_s = np.minimum(slowest_s, largest_s)
        saved_least_s, saved_most_s = _weighted(times, (1 - factors) * have_time)
        are_slowest = most_s >= (1 - ROUNDING) * slowest_s[times.phase]
        before_s, before_most_s = (bound[phases] for bound in self.slowest_s)
        saved_s = np.where(self.are_candidates[rows], saved_most_s, -np.inf)
        saved_s = np.minimum(before_most_s - slowest_s, times.largest(saved_s))
        saved_s = np.maximum(saved_s, 0.0)
        surely_s = times.smallest(np.where(are_slowest, saved_least_s, np.inf))
        is_known = np.isfinite(largest_s)
        known_s = before_s - np.where(is_known, largest_s, np.inf)
        surely_s = np.maximum(np.maximum(surely_s, known_s), 0.0)
        return slowest_s, largest_s, np.minimum(surely_s, saved_s), saved_s


def _used(flags: np.ndarray) -> np.ndarray:
    """Return the classes that some phase uses, but one at least."""
    used = np.flatnonzero(flags.any(axis=0))
    return used if len(used) else np.zeros(1, np.int64)


def _weighted(
    times: ProcessTimes, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bound a weighted sum of the classes of each process.

    `weights` has a number from 0 to 1 by phase and class. The sum is largest if the
    class with the largest weight takes as much time as it can, then the two with the
    largest weights together, and so on; some times attain the bounds of all these sets
    at once. Likewise it is smallest if they take as little as they can.
    """
    least_s, most_s = np.zeros((2, len(times.phase)))
    for level, lower in itertools.pairwise(_levels(weights).T):
        chosen = weights >= level[:, np.newaxis]
        chosen = np.take(chosen.T, times.phase, axis=1).T
        step = (level - lower)[times.phase]
        is_step = step > 0  # some phases have fewer levels
        for sums_s, bounds_s in zip(
            (least_s, most_s), of_set(times, chosen), strict=True
        ):
            np.multiply(step, bounds_s, out=bounds_s, where=is_step)
            np.add(sums_s, bounds_s, out=sums_s, where=is_step)
    return np.minimum(least_s, most_s), most_s


def _levels(weights: np.ndarray) -> np.ndarray:
    """Return the different weights above 0 of each row, descending, and a 0 at least.

    A row with fewer of them has more zeros.
    """
    descending = -np.sort(-weights, axis=1)
    is_new = np.diff(descending, axis=1, prepend=np.inf) != 0
    is_new &= descending > 0
    place = np.cumsum(is_new, axis=1) - 1
    levels = np.zeros((len(weights), is_new.sum(axis=1).max(initial=0) + 1))
    row, column = np.nonzero(is_new)
    levels[row, place[row, column]] = descending[row, column]
    return levels


def of_set(times: ProcessTimes, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bound the time of each process in some classes together.

    `chosen` has a flag for each class, of each process or of all of them.
    """
    least_s, least_of_others_s = _divided(times.least_s, chosen)
    most_s, most_of_others_s = _divided(times.most_s, chosen)
    return (
        np.maximum(least_s, times.total_least_s - most_of_others_s),
        np.minimum(most_s, times.total_most_s - least_of_others_s),
    )


def _divided(values_s: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of the chosen classes and of the others."""
    return (
        total_s(np.where(chosen, values_s, 0.0)),
        total_s(np.where(chosen, 0.0, values_s)),
    )


def estimate_jobs(
    times: ProcessTimes, classes: Sequence[tuple[JobClass, ...]]
) -> dict[str, np.ndarray | Texts]:
    """Estimate what improvements of classes would bring to jobs in epochs.

    Parameters
    ----------
    times : ProcessTimes
        The times of all processes of some phases.
    classes : sequence of tuples of (tier, interface, operation)
        The counted classes of each phase, in the order of `times`.

    Returns
    -------
    dict of ndarray or Texts
        The columns of table ``job_estimates``, with `phase` in place of the job and the
        epoch: 25, 50, 100 and 200 % more throughput of each counted class with at least
        1 % of the slowest process's time, of each pair of these, of all metadata of a
        tier ("metadata server of gfs"), and of everything on a tier. No row is of a
        phase without time.
    """
    phases, improvements = [], []
    sizes_s, slowest_s = slowest_sizes(times), _slowest_size(times)
    shown = (sizes_s >= LEAST_SHARE * slowest_s[:, np.newaxis]) & (sizes_s > 0)
    for phase, (of_phase, *flags) in enumerate(
        zip(classes, shown.tolist(), (times.sum_s > 0).tolist(), strict=True)
    ):
        found = _improvements(of_phase, *map(tuple, flags))
        phases += [phase] * len(found)
        improvements += found
    n_rows = len(improvements) * len(PERCENTS)
    percents = np.zeros((n_rows, times.least_s.shape[1]), np.int16)
    percent = np.tile(PERCENTS, len(improvements))
    n_classes = np.array([len(one.classes) for one in improvements], np.int64)
    row = np.repeat(np.arange(len(improvements)), n_classes)
    column = np.array([i for one in improvements for i in one.classes], np.int64)
    for place, of_all in enumerate(PERCENTS):
        percents[row * len(PERCENTS) + place, column] = of_all
    phase = np.repeat(np.array(phases, np.int64), len(PERCENTS))
    estimates = improved_slowest(times, percents, phase)
    return {
        "phase": phase,
        "improvement": _words_of(improvements),
        "n_classes": np.repeat(n_classes, len(PERCENTS)),
        "improvement_percent": percent,
        **{name: or_missing(bound) for name, bound in vars(estimates).items()},
    }


def _words_of(improvements: Sequence[Improvement]) -> Texts:
    """Return improvements by each of `PERCENTS` in words."""
    number: dict[tuple[str, ...], int] = {}
    codes = [number.setdefault(one.labels, len(number)) for one in improvements]
    words = [
        changes_words((label, percent) for label in labels)
        for labels in number
        for percent in PERCENTS
    ]
    places = np.arange(len(PERCENTS))
    codes = np.array(codes, np.int64)[:, np.newaxis] * len(PERCENTS) + places
    return Texts(words, codes.ravel())


@lru_cache(maxsize=1 << 12)
def _improvements(
    classes: tuple[JobClass, ...], shown: tuple[bool, ...], has_time: tuple[bool, ...]
) -> list[Improvement]:
    """Return what is improved together; flags say which classes count for what."""
    labels = [class_label(*job_class) for job_class in classes]
    kept = [i for i in range(len(classes)) if shown[i]]
    found = [Improvement((labels[i],), (i,)) for i in kept]
    found += [
        Improvement((labels[i], labels[j]), (i, j))
        for i, j in itertools.combinations(kept, 2)
    ]
    for tier in dict.fromkeys(tier for tier, _, _ in classes):
        of_tier = [i for i, (name, _, _) in enumerate(classes) if name == tier]
        used = tuple(i for i in of_tier if has_time[i])
        if not used or tier in NO_TIERS:
            continue
        if meta := tuple(i for i in used if classes[i][2] in _META):
            found.append(Improvement((f"metadata server of {tier}",), meta))
        found.append(Improvement((f"everything on {tier}",), used))
    return found


def slowest_sizes(times: ProcessTimes) -> np.ndarray:
    """Return how large each class of each phase's slowest process can be, in seconds.

    It is the least where the most is unknown.
    """
    least_s, most_s = slowest_class_bounds(times)
    return np.where(np.isfinite(most_s), most_s, least_s)


def _slowest_size(times: ProcessTimes) -> np.ndarray:
    """Return how long the slowest process can take, or the least if unknown."""
    least_s, most_s = slowest_bounds(times)
    return np.where(np.isfinite(most_s), most_s, least_s)


def or_missing(bounds_s: np.ndarray) -> np.ndarray:
    """Return bounds with NaN for those that are infinite."""
    return np.where(np.isfinite(bounds_s), bounds_s, np.nan)
