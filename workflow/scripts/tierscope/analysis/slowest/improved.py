"""The slowest process after improvements of classes, by the paper's rule.

N % more throughput of a class multiplies its time by 100 / (100 + N) in every process;
then the slowest process is picked, because an improvement can make another process the
slowest (Fukai et al., Sec. 4.4). Where the times of the processes are bounds, so are
the estimates.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from tierscope.analysis.slowest.times import (
    ROUNDING,
    ProcessTimes,
    of_set,
    slowest_bounds,
    slowest_candidates,
)
from tierscope.core.io_class import total_s

_ROWS_AT_ONCE = 10_000


def improve(
    io_time_s: float | np.ndarray | pd.Series,
    improvement_percent: int | np.ndarray,
) -> float | np.ndarray | pd.Series:
    """Return I/O time after N % more throughput: multiplied by 100 / (100 + N).

    Parameters
    ----------
    io_time_s : float or array
        I/O time of a class in seconds.
    improvement_percent : int or array of int
        Improvement N of the class in percent, 0 or more; it broadcasts.
    """
    percents = np.asarray(improvement_percent)
    if not np.issubdtype(percents.dtype, np.integer) or (percents < 0).any():
        raise ValueError(
            f"improvement in percent: got {improvement_percent}, "
            "expected integers of at least 0."
        )
    return io_time_s * (100 / (100 + percents))


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
    exact, bounds = np.flatnonzero(are_equal), _Bounds.of(times)
    rows = slowest_rows(times, percents[exact], phases[exact])
    after_s = total_s(improve(times.least_s[rows], percents[exact]))
    before_s = times.largest(total_s(times.least_s))[phases[exact]]
    saved_s = np.maximum(before_s - after_s, 0.0)
    bounds_s[:, exact] = after_s, after_s, saved_s, saved_s
    for some in _parts(times, phases, np.flatnonzero(~are_equal)):
        factors = improve(np.ones((len(some), percents.shape[1])), percents[some])
        bounds_s[:, some] = bounds.improved(factors, phases[some])
    return ImprovedSlowest(*bounds_s)


def _parts(
    times: ProcessTimes, phases: np.ndarray, chosen: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the improvements that are chosen, a few rows of processes at once."""
    if len(chosen):
        part = np.cumsum(times.n_processes[phases[chosen]]) // _ROWS_AT_ONCE
        yield from np.split(chosen, np.flatnonzero(np.diff(part)) + 1)


def slowest_rows(
    times: ProcessTimes, percents: np.ndarray, phases: np.ndarray
) -> np.ndarray:
    """Return the slowest process after each improvement, of equal ones the first.

    Parameters are as of `improved_slowest`; the times are known. Classes are added one
    after the other instead of by a matrix product: the libraries behind that round
    differently on different machines.
    """
    slowest = np.zeros(len(percents), np.int64)
    for some in _parts(times, phases, np.arange(len(percents))):
        columns, own = _used(times.sum_s[phases[some]] > 0), phases[some]
        factors = improve(
            np.ones((len(some), len(columns))), percents[some][:, columns]
        )
        taken = times.take(own, columns)
        totals_s = total_s(taken.least_s * np.take(factors.T, taken.phase, axis=1).T)
        are_slowest = totals_s == taken.largest(totals_s)[taken.phase]
        _, first = np.unique(taken.phase[are_slowest], return_index=True)
        slowest[some] = times.rows_of(own)[are_slowest][first]
    return slowest


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
