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
    Filled,
    ProcessTimes,
    slowest_bounds,
    slowest_candidates,
    slowest_class_bounds,
)

PERCENTS = (25, 50, 100, 200)
# A class with a smaller part of the slowest process's time is not estimated.
LEAST_SHARE = 0.01
# Tiers without a server that could be improved: paths of no tier, and no paths.
NO_TIERS = ("other", "unnamed")
_CELLS_AT_ONCE = 50_000
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
    factors = improve(np.ones(percents.shape), percents)
    bounds_s = np.zeros((4, len(percents)))
    are_equal = times.are_equal[phases]
    for which, bound in ((are_equal, _Exact(times)), (~are_equal, _Bounds.of(times))):
        for some in _parts(times, phases, np.flatnonzero(which)):
            bounds_s[:, some] = bound.improved(factors[some], phases[some])
    return ImprovedSlowest(*bounds_s)


def _parts(
    times: ProcessTimes, phases: np.ndarray, chosen: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the improvements that are chosen, a few rows of processes at once."""
    if not len(chosen):
        return
    n_rows = np.cumsum(times.n_processes[phases[chosen]])
    part = n_rows * times.least_s.shape[1] // _CELLS_AT_ONCE
    yield from np.split(chosen, np.flatnonzero(np.diff(part)) + 1)


@dataclass(frozen=True)
class _Rows:
    """The rows of the processes of some phases, which can be there several times."""

    row: np.ndarray
    place: np.ndarray  # of the phase among these
    first: np.ndarray

    @classmethod
    def of(cls, times: ProcessTimes, phases: np.ndarray) -> Self:
        """Return the rows of phases."""
        n_rows = times.n_processes[phases]
        first = np.cumsum(n_rows) - n_rows
        place = np.repeat(np.arange(len(phases)), n_rows)
        row = np.arange(len(place)) + (times.first[phases] - first)[place]
        return cls(row, place, first)

    def largest(self, values: np.ndarray) -> np.ndarray:
        """Return the largest of the values of each phase; they have an entry a row."""
        return np.maximum.reduceat(values, self.first)


@dataclass(frozen=True)
class _Exact:
    """Times of which each phase's bounds are equal."""

    times: ProcessTimes

    def improved(
        self, factors: np.ndarray, phases: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return the four bounds of `ImprovedSlowest` for the factors of classes."""
        rows = _Rows.of(self.times, phases)
        times_s = self.times.least_s[rows.row]
        before_s = rows.largest(total_s(times_s))
        after_s = rows.largest(total_s(times_s * factors[rows.place]))
        saved_s = np.maximum(before_s - after_s, 0.0)
        return after_s, after_s, saved_s, saved_s


@dataclass(frozen=True)
class _Bounds:
    """Times that are bounds, and what is known of their slowest processes."""

    times: ProcessTimes
    filled: Filled
    slowest_s: tuple[np.ndarray, np.ndarray]
    are_candidates: np.ndarray
    have_time: np.ndarray  # classes of a phase that can have any

    @classmethod
    def of(cls, times: ProcessTimes) -> Self:
        """Return times without improvements."""
        times = times.unbounded
        known = slowest_bounds(times), slowest_candidates(times)
        return cls(times, Filled.by(times), *known, times.largest(times.most_s) > 0)

    def improved(
        self, factors: np.ndarray, phases: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return the four bounds of `ImprovedSlowest` for the factors of classes."""
        rows = _Rows.of(self.times, phases)
        # Any weight serves a class without time, and 0 needs no set of its own.
        have_time = self.have_time[phases]
        least_s, most_s = self._weighted(rows, factors * have_time)
        largest_s = rows.largest(most_s)
        slowest_s = np.minimum(
            self._filled(rows, rows.largest(least_s), factors, phases), largest_s
        )
        saved_least_s, saved_most_s = self._weighted(rows, (1 - factors) * have_time)
        are_slowest = most_s >= (1 - ROUNDING) * slowest_s[rows.place]
        saved_s = np.where(self.are_candidates[rows.row], saved_most_s, -np.inf)
        before_s, before_most_s = (bound[phases] for bound in self.slowest_s)
        saved_s = np.minimum(before_most_s - slowest_s, rows.largest(saved_s))
        saved_s = np.maximum(saved_s, 0.0)
        surely_s = -rows.largest(np.where(are_slowest, -saved_least_s, -np.inf))
        surely_s = np.where(
            np.isfinite(largest_s),
            np.maximum(surely_s, before_s - largest_s),
            surely_s,
        )
        surely_s = np.minimum(np.maximum(surely_s, 0.0), saved_s)
        return slowest_s, largest_s, surely_s, saved_s

    def _filled(
        self, rows: _Rows, least_s: np.ndarray, factors: np.ndarray, phases: np.ndarray
    ) -> np.ndarray:
        """Return what the slowest must have at least after improvements.

        With the most of today, a larger improvement never makes this longer.
        """
        sum_s = total_s(factors * self.times.sum_s[phases])
        below_s, n_above = self.filled.below_s[rows.row], self.filled.n_above[rows.row]
        level_s = rows.largest((sum_s[rows.place] - below_s) / n_above)
        return np.minimum(np.maximum(least_s, level_s), self.filled.largest_s[phases])

    def _weighted(
        self, rows: _Rows, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bound a weighted sum of the classes of each process.

        `weights` has a number from 0 to 1 by class. The sum is largest if the class
        with the largest weight takes as much time as it can, then the two with the
        largest weights together, and so on; some times attain the bounds of all these
        sets at once. Likewise it is smallest if they take as little as they can.
        """
        least_s, most_s = np.zeros((2, len(rows.row)))
        levels = _levels(weights)
        for level, lower in itertools.pairwise(levels.T):
            step = (level - lower)[rows.place]
            is_step = np.flatnonzero(step > 0)
            if len(is_step) == len(step):
                is_step = slice(None)
            chosen = weights >= level[:, np.newaxis]
            row, step = rows.row[is_step], step[is_step]
            bounds_s = of_set(self.times, chosen[rows.place[is_step]], row)
            least_s[is_step] += step * bounds_s[0]
            most_s[is_step] += step * bounds_s[1]
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


def of_set(
    times: ProcessTimes, chosen: np.ndarray, rows: np.ndarray | slice = slice(None)
) -> tuple[np.ndarray, np.ndarray]:
    """Bound the time of some processes in some classes together.

    `chosen` has a flag for each class, of each of these rows or of all of them.
    """
    least_s, most_s = times.least_s[rows], times.most_s[rows]
    least_of_others_s = total_s(np.where(chosen, 0.0, least_s))
    most_of_others_s = total_s(np.where(chosen, 0.0, most_s))
    return (
        np.maximum(
            total_s(np.where(chosen, least_s, 0.0)),
            times.total_least_s[rows] - most_of_others_s,
        ),
        np.minimum(
            total_s(np.where(chosen, most_s, 0.0)),
            times.total_most_s[rows] - least_of_others_s,
        ),
    )


def estimate_jobs(
    times: ProcessTimes, classes: Sequence[tuple[JobClass, ...]]
) -> dict[str, np.ndarray | list[str]]:
    """Estimate what improvements of classes would bring to jobs in epochs.

    Parameters
    ----------
    times : ProcessTimes
        The times of all processes of some phases.
    classes : sequence of tuples of (tier, interface, operation)
        The counted classes of each phase, in the order of `times`.

    Returns
    -------
    dict of ndarray or list
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
    percents = np.zeros((n_rows, times.least_s.shape[1]), np.int64)
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
        "improvement": [
            words for one in improvements for words in _words_of(one.labels)
        ],
        "n_classes": np.repeat(n_classes, len(PERCENTS)),
        "improvement_percent": percent,
        **{name: or_missing(bound) for name, bound in vars(estimates).items()},
    }


@lru_cache(maxsize=1 << 12)
def _words_of(labels: tuple[str, ...]) -> list[str]:
    """Return improvements of classes by each of `PERCENTS` in words."""
    return [changes_words((label, percent) for label in labels) for percent in PERCENTS]


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
