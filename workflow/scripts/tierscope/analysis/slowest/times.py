"""Times of processes: the least and the most of each, equal where they are known.

One table holds the processes of runs and of jobs that others started. Of runs we know
the times. Of jobs whose processes share records we know bounds. A bound is *sharp* if
some job with the same logs attains it, and only *valid* if we know no more than that no
job exceeds it. Both hold up to rounding: a sum of times can be off by about 1e-16 of
itself for each process.
"""

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from tierscope.core.io_class import total_s

# Times that differ by less than this part of the larger one are equal.
ROUNDING = 1e-9
# Part of the I/O time: more than rounding, less than any measured difference.
_SURELY_SLOWER = 1e-9


@dataclass(frozen=True)
class ProcessTimes:
    """Bounds of the times of processes, in seconds.

    The processes of many jobs and epochs stand one below the other: a *phase* is a job
    in an epoch, or a whole job, and each phase has a row for each process of its job.

    Parameters
    ----------
    least_s, most_s : ndarray, shape (n_rows, n_classes)
        By counted class; equal if exact. `most_s` is NaN or infinite if records were
        lost. The columns of a phase are its own classes; it can have fewer than others,
        and has no time in the columns behind.
    total_least_s, total_most_s : ndarray, shape (n_rows,)
        Bounds of the sum over the classes. They can be narrower than the sums of the
        bounds of the classes.
    sum_s : ndarray, shape (n_phases, n_classes)
        The sum over the processes that the logs hold. It is exact even where the
        processes share records, and a lower bound if records were lost.
    first : ndarray of int, shape (n_phases,)
        The first row of each phase.
    """

    least_s: np.ndarray
    most_s: np.ndarray
    total_least_s: np.ndarray
    total_most_s: np.ndarray
    sum_s: np.ndarray
    first: np.ndarray

    @classmethod
    def exact(cls, times_s: np.ndarray, first: np.ndarray | None = None) -> Self:
        """Return exact seconds, shape (n_rows, n_classes), one phase by default."""
        if first is None:
            first = np.zeros(1, np.int64)
        totals_s, sum_s = total_s(times_s), np.add.reduceat(times_s, first)
        return cls(times_s, times_s, totals_s, totals_s, sum_s, first)

    @cached_property
    def n_processes(self) -> np.ndarray:
        """The number of processes of each phase."""
        return np.diff(self.first, append=len(self.total_least_s))

    @cached_property
    def phase(self) -> np.ndarray:
        """The phase of each row."""
        return np.repeat(np.arange(len(self.first)), self.n_processes)

    @cached_property
    def rank(self) -> np.ndarray:
        """The process of each row, counted from 0 in each phase."""
        return np.arange(len(self.phase)) - self.first[self.phase]

    def largest(self, values: np.ndarray) -> np.ndarray:
        """Return the largest of the values of each phase; they have an entry a row."""
        return np.maximum.reduceat(values, self.first, axis=0)

    def smallest(self, values: np.ndarray) -> np.ndarray:
        """Return the smallest of the values of each phase."""
        return np.minimum.reduceat(values, self.first, axis=0)

    @property
    def is_exact(self) -> np.ndarray:
        """Return which phases have equal bounds, up to `ROUNDING` of a process's time.

        Their times are known, so they are finite.
        """
        unknown_s = np.column_stack(
            [self.most_s - self.least_s, self.total_most_s - self.total_least_s]
        )
        close = unknown_s.max(axis=1) <= ROUNDING * self.total_most_s
        return self.smallest(np.isfinite(self.total_most_s) & close)

    @property
    def are_equal(self) -> np.ndarray:
        """Return which phases have bounds that are equal to the last bit."""
        equal = (self.least_s == self.most_s).all(axis=1)
        return self.smallest(equal & (self.total_least_s == self.total_most_s))

    @cached_property
    def unbounded(self) -> Self:
        """The same times with infinity for bounds that are missing."""
        return replace(
            self,
            most_s=or_unbounded(self.most_s),
            total_most_s=or_unbounded(self.total_most_s),
        )

    @cached_property
    def filled(self) -> "Filled":
        """The upper bounds of the totals, of which none is NaN."""
        most_s = self.total_most_s
        ascending = most_s[np.lexsort([most_s, self.phase])]
        below_s = sums_before(ascending, self.first)
        n_above = self.n_processes[self.phase] - self.rank
        return Filled(below_s, n_above, self.largest(most_s))

    def enveloped(self) -> tuple[np.ndarray, Self]:
        """Return the rows of each phase's `upper_envelope`, and their exact times."""
        ends = itertools.pairwise([*self.first, len(self.least_s)])
        rows = np.concatenate([a + upper_envelope(self.least_s[a:z]) for a, z in ends])
        first = np.searchsorted(rows, self.first)
        return rows, ProcessTimes.exact(self.least_s[rows], first)

    def rows_of(self, phases: np.ndarray) -> np.ndarray:
        """Return the rows of phases, one after the other; some can be there again."""
        n_rows = self.n_processes[phases]
        first = self.first[phases] - (np.cumsum(n_rows) - n_rows)
        return np.repeat(first, n_rows) + np.arange(n_rows.sum())

    def take(self, phases: np.ndarray, columns: np.ndarray) -> Self:
        """Return some columns of phases, in this order; they can be there again."""
        rows = self.rows_of(phases)
        block = slice(rows.min(), rows.max() + 1)
        rows = rows - block.start

        def of(values: np.ndarray) -> np.ndarray:
            # Each column stands in one piece, so sums over the columns are fast.
            return np.take(values[block].T[columns], rows, axis=1).T

        n_rows = self.n_processes[phases]
        return ProcessTimes(
            of(self.least_s),
            of(self.most_s),
            self.total_least_s[block][rows],
            self.total_most_s[block][rows],
            self.sum_s[phases[:, np.newaxis], columns],
            np.cumsum(n_rows) - n_rows,
        )


@dataclass(frozen=True)
class Filled:
    """Upper bounds of the processes of phases, filled to a level.

    Parameters
    ----------
    below_s : ndarray, shape (n_rows,)
        In each phase the sums of its smallest bounds, without the first, second ...
    n_above : ndarray of int, shape (n_rows,)
        How many bounds are not in the sum.
    largest_s : ndarray, shape (n_phases,)
        The largest bound.
    """

    below_s: np.ndarray
    n_above: np.ndarray
    largest_s: np.ndarray


def sums_before(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the sum of the values before each one in its group, added in their order.

    The result of a group does not depend on the others, not even by rounding. `first`
    has the first position of each group.
    """
    n_values = np.diff(first, append=len(values))
    sums = np.zeros(len(values))
    width = 2
    while (n_values > width // 2).any():
        groups = np.flatnonzero((n_values > width // 2) & (n_values <= width))
        inside = np.arange(width) < n_values[groups, np.newaxis]
        places = (first[groups, np.newaxis] + np.arange(width))[inside]
        block = np.zeros(inside.shape)
        block[inside] = values[places]
        before = np.zeros(inside.shape)
        before[:, 1:] = np.cumsum(block[:, :-1], axis=1)
        sums[places] = before[inside]
        width *= 2
    return sums


def least_maximum(times: ProcessTimes) -> np.ndarray:
    """Return the least that the largest total of each phase can be, in seconds.

    Returns
    -------
    ndarray, shape (n_phases,)
        Sharp: with the totals at ``min(total_most_s, result)``, their sum is reached.
        It is at least the mean. The upper bounds may be infinite.
    """
    filled, sum_s = times.filled, total_s(times.sum_s)
    levels_s = (sum_s[times.phase] - filled.below_s) / filled.n_above
    least_s = np.maximum(times.largest(times.total_least_s), times.largest(levels_s))
    return np.minimum(least_s, filled.largest_s)


def or_unbounded(most_s: np.ndarray) -> np.ndarray:
    """Return upper bounds with infinity where there is none (NaN)."""
    return np.where(np.isnan(most_s), np.inf, most_s)


def slowest_bounds(times: ProcessTimes) -> tuple[np.ndarray, np.ndarray]:
    """Bound the total time of the slowest process of each phase, in seconds.

    Returns
    -------
    least_s, most_s : ndarray, shape (n_phases,)
        The most is sharp if the bounds of the processes are: who attains it is then the
        slowest. The least is valid: it is the largest of the processes' least times, or
        what the slowest must have so that the processes reach their sum, which is at
        least the mean. The most is infinite if records were lost.
    """
    times = times.unbounded
    return least_maximum(times), times.largest(times.total_most_s)


def slowest_candidates(times: ProcessTimes) -> np.ndarray:
    """Return which processes can be the slowest of their phase, shape (n_rows,).

    These are all whose most is at least the least of the slowest. Every possible
    slowest process is among them (valid); not each of them must be possible.
    """
    least_s, _ = slowest_bounds(times)
    most_s = or_unbounded(times.total_most_s)
    return most_s >= (1 - ROUNDING) * least_s[times.phase]


def slowest_class_bounds(times: ProcessTimes) -> tuple[np.ndarray, np.ndarray]:
    """Bound the breakdown of the slowest process of each phase, in seconds.

    Returns
    -------
    least_s, most_s : ndarray, shape (n_phases, n_classes)
        The least and the most over the candidates. A candidate is only the slowest if
        its total is at least the least of the slowest; this raises the least of a
        class to what its other classes cannot hold. Valid.
    """
    are_candidates = slowest_candidates(times)[:, np.newaxis]
    slowest_s, _ = slowest_bounds(times)
    most_s = or_unbounded(times.most_s)
    bounded = np.isfinite(most_s)
    finite_s = np.where(bounded, most_s, 0.0)
    of_others_s = total_s(finite_s)[:, np.newaxis] - finite_s
    others_unbounded = (~bounded).sum(axis=1, keepdims=True) > ~bounded
    of_others_s[others_unbounded] = np.inf
    needed_s = np.minimum(slowest_s[times.phase, np.newaxis] - of_others_s, most_s)
    least_s = np.maximum(times.least_s, needed_s)
    return (
        times.smallest(np.where(are_candidates, least_s, np.inf)),
        times.largest(np.where(are_candidates, most_s, -np.inf)),
    )


def upper_envelope(times_s: np.ndarray) -> np.ndarray:
    """Return the processes that some improvement could make the slowest.

    A process is left out if another one is at least as slow in all classes and
    either has a lower rank or is slower by more than rounding: every improvement
    multiplies a class of all processes by the same factor, so a process that is left
    out is never reported as the slowest. This holds to the last bit for improvements up
    to a million percent, including ties.

    Parameters
    ----------
    times_s : ndarray, shape (n_processes, n_classes)
        I/O time in seconds, by class; ordered by rank.

    Returns
    -------
    ndarray of int
        Rows of the processes that stay, ascending.
    """
    io_time_s = total_s(times_s)
    left = np.argsort(-io_time_s, kind="stable")
    kept = []
    while len(left):
        row, left = left[0], left[1:]
        kept.append(row)
        never_slower = (times_s[left] <= times_s[row]).all(axis=1)
        surely_faster = io_time_s[left] < (1 - _SURELY_SLOWER) * io_time_s[row]
        left = left[~(never_slower & ((left > row) | surely_faster))]
    return np.sort(np.array(kept, dtype=np.int64))


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
