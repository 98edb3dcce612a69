"""Bound the times of the processes behind records that all processes share.

If all processes of a job open a file, Darshan reduces their records to one. It keeps
the sums of the counters and of the read, write and metadata time; the slowest and the
fastest process by total time (read + write + metadata), with their total times; and the
variance of the total times (``darshan-runtime/lib/darshan-posix.c``:
``posix_record_reduction_op``, ``posix_shared_record_variance``). Many jobs could have
left such a record. The bounds of a quantity are its least and its largest value over
all of them.

A bound is *sharp* if some job with the same reduction attains it, and only *valid* if
we know no more than that no job exceeds it. Both hold up to rounding: a sum of times
can be off by about 1e-16 of itself for each process.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from tierscope.core.io_class import total_s

# Times that differ by less than this part of the larger one are equal.
ROUNDING = 1e-9
# Additions of a sum besides those over the processes.
_MORE_ADDITIONS = 8


@dataclass(frozen=True)
class SharedRecords:
    """What the reduction keeps of the times of all processes, by record.

    Parameters
    ----------
    read_s, write_s, meta_s : ndarray of float, shape (n_records,)
        Sums over the processes, in seconds; one below 0, or that is no number,
        counts as 0.
    slowest_rank, fastest_rank : ndarray of int, shape (n_records,)
    slowest_s, fastest_s : ndarray of float, shape (n_records,)
        Their total times (read + write + metadata) in seconds.
    variance_s2 : ndarray of float, shape (n_records,)
        Variance of the total times over the processes (of the population).
    """

    read_s: np.ndarray
    write_s: np.ndarray
    meta_s: np.ndarray
    slowest_rank: np.ndarray
    slowest_s: np.ndarray
    fastest_rank: np.ndarray
    fastest_s: np.ndarray
    variance_s2: np.ndarray

    @property
    def parts_s(self) -> np.ndarray:
        """Return the sums of the three times in seconds, shape (n_records, 3)."""
        return np.fmax(np.column_stack([self.read_s, self.write_s, self.meta_s]), 0.0)

    @property
    def total_s(self) -> np.ndarray:
        """Return the sum of the total times in seconds, shape (n_records,)."""
        return total_s(self.parts_s)

    def are_named(self, n_processes: int) -> np.ndarray:
        """Return which records name two processes, the slowest and the fastest."""
        ranks = np.stack([self.slowest_rank, self.fastest_rank])
        valid = ((ranks >= 0) & (ranks < n_processes)).all(axis=0)
        return valid & (self.slowest_rank != self.fastest_rank)


@dataclass(frozen=True)
class SharedBounds:
    """Bounds of what processes spent in shared records, in seconds.

    Parameters
    ----------
    least_s, most_s : ndarray, shape (n_ranks, n_cells)
    total_least_s, total_most_s : ndarray, shape (n_ranks, n_totals)
    """

    least_s: np.ndarray
    most_s: np.ndarray
    total_least_s: np.ndarray
    total_most_s: np.ndarray


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
    def exact(cls, times_s: np.ndarray) -> Self:
        """Return exact times of one phase: seconds, shape (n_processes, n_classes)."""
        totals_s, sum_s = total_s(times_s), times_s.sum(axis=0, keepdims=True)
        return cls(times_s, times_s, totals_s, totals_s, sum_s, np.zeros(1, np.int64))

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


def other_bounds(
    shared: SharedRecords, n_processes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bound the total time of a process that a shared record does not name.

    Parameters
    ----------
    shared : SharedRecords
        The records.
    n_processes : int
        Number of processes of the job, 1 or more.

    Returns
    -------
    least_s, most_s : ndarray, shape (n_records,)
        Bounds in seconds, the same for all processes that are not named. They are
        sharp if the record names two processes or all have the same time.
    named : ndarray of bool, shape (n_records,)
        Whether the record names two processes, the slowest and the fastest, and tells
        their times. If not, the bounds hold for all processes.

    Notes
    -----
    The `k` times lie between those of the fastest and the slowest process, and their
    sum and their sum of squared deviations `D` from their mean are known. With one time
    `x` above the mean, `D` is least if all others are equal: then it is
    ``(x - mean)**2 * k / (k - 1)``. So `x` is at most ``mean + sqrt(D * (k - 1) / k)``
    (Samuelson). That value is attained if it is at most the slowest process's time. If
    it is more, some arrangement has `x` at the slowest process's time: with the others
    equal, the deviations are too small, and with as many times as possible at both ends
    they are the largest that exist; in between lies one with `D`. The least value
    mirrors it.

    A variance that contradicts the other numbers is not used: libdarshan-util gives 0
    for logs with version 3 of the POSIX module. A record whose sum contradicts its
    slowest and fastest process bounds each time by 0 and the sum only.
    """
    slack = (n_processes + _MORE_ADDITIONS) * np.finfo(float).eps
    low_s, high_s, sum_s = shared.fastest_s, shared.slowest_s, shared.total_s
    named = shared.are_named(n_processes)
    n_others = n_processes - 2 * named
    others_s = np.where(named, sum_s - low_s - high_s, sum_s)
    slack_s = slack * sum_s
    with np.errstate(invalid="ignore", over="ignore"):
        agree = (low_s >= 0) & (low_s <= high_s) & np.isfinite(high_s + sum_s)
        agree &= others_s >= n_others * low_s - slack_s
        agree &= others_s <= n_others * high_s + slack_s
        n_others = np.maximum(n_others, 1)
        spread_s = _largest_deviation(shared, n_processes, named, slack)
        spread_s += slack_s / n_others
        mean_s = others_s / n_others
        least_s = others_s - (n_others - 1) * high_s - slack_s
        least_s = np.maximum(np.maximum(low_s, least_s), mean_s - spread_s)
        most_s = others_s - (n_others - 1) * low_s + slack_s
        most_s = np.minimum(np.minimum(high_s, most_s), mean_s + spread_s)
    most_s = np.where(agree, most_s, sum_s)
    least_s = np.where(agree, np.minimum(least_s, most_s), 0.0)
    return least_s, most_s, named & agree


def _largest_deviation(
    shared: SharedRecords, n_processes: int, named: np.ndarray, slack: float
) -> np.ndarray:
    """Return the most seconds from the mean of those not named; inf: contradictory."""
    low_s, high_s, sum_s = shared.fastest_s, shared.slowest_s, shared.total_s
    n_others = np.maximum(n_processes - 2 * named, 1)
    mean_s = sum_s / n_processes
    others_mean_s = np.where(named, (sum_s - low_s - high_s) / n_others, mean_s)
    is_variance = np.isfinite(shared.variance_s2)
    squares = n_processes * np.where(is_variance, shared.variance_s2, np.nan)
    deviations = n_others * (others_mean_s - mean_s) ** 2
    deviations += (low_s - mean_s) ** 2 + (high_s - mean_s) ** 2
    left = np.where(named, squares - deviations, squares)
    # The reduction adds squares of differences of sums of times up to the slowest.
    # `slack` is the relative error of a sum over the processes.
    error_s = 4 * np.sqrt(n_processes) * slack * high_s
    error = 2 * np.sqrt(squares) * error_s + error_s**2
    spread_s = np.sqrt((np.maximum(left, 0) + error) * (n_others - 1) / n_others)
    # Without two named processes, the slowest and the fastest are still among all.
    least_squares = np.where(named, 0.0, (high_s - low_s) ** 2 / 2)
    return np.where(left >= least_squares - error, spread_s, np.inf)


def shared_bounds(
    shared: SharedRecords,
    n_processes: int,
    cells: np.ndarray,
    n_cells: int,
    totals: np.ndarray,
    n_totals: int,
    ranks: np.ndarray | None = None,
) -> SharedBounds:
    """Bound what each process spent in shared records, by cell and in total.

    Parameters
    ----------
    shared : SharedRecords
        The records.
    n_processes : int
        Number of processes of the job, 1 or more.
    cells : ndarray of int, shape (n_records, 3)
        The cell (class and epoch) of each record's read, write and metadata time; -1:
        in none.
    n_cells : int
        Number of cells.
    totals : ndarray of int, shape (n_records,)
        The total (epoch) that each record belongs to; -1: counts in none.
    n_totals : int
        Number of totals.
    ranks : ndarray of int, optional
        The processes of the result, ascending, with all that records name. One that
        they do not name, such as -1, stands for all others. By default all processes.

    Returns
    -------
    SharedBounds
        Each bound is as sharp as those of `other_bounds`: a process with total time `t`
        in one record spends between ``max(0, t - sums of the other two)`` and
        ``min(sum, t)`` in one of the three (Frechet), and nothing binds the records to
        each other. Two bounds are not always attained by the same job.
    """
    if ranks is None:
        ranks = np.arange(n_processes)
    parts_s = shared.parts_s
    least_s, most_s, named = other_bounds(shared, n_processes)
    none = n_cells + n_totals
    columns = np.column_stack([cells, np.where(totals < 0, -1, n_cells + totals)])
    columns = np.where(columns < 0, none, columns)
    shape = (len(ranks), none + 1)
    bounds = []
    for split, time_s in ((_least_parts, least_s), (_most_parts, most_s)):
        of_others_s = split(parts_s, time_s)
        bound_s = np.tile(_sums(columns, of_others_s, none + 1), (len(ranks), 1))
        for rank, rank_s in (
            (shared.slowest_rank, shared.slowest_s),
            (shared.fastest_rank, shared.fastest_s),
        ):
            own_s = split(parts_s[named], rank_s[named])
            row = np.searchsorted(ranks, rank[named])
            places = row[:, np.newaxis] * (none + 1) + columns[named]
            more_s = _sums(places, own_s - of_others_s[named], bound_s.size)
            bound_s += more_s.reshape(shape)
        bounds.append(np.maximum(bound_s, 0.0))
    least_s, most_s = np.minimum(*bounds), bounds[1]
    return SharedBounds(
        least_s[:, :n_cells],
        most_s[:, :n_cells],
        least_s[:, n_cells:none],
        most_s[:, n_cells:none],
    )


def _least_parts(parts_s: np.ndarray, time_s: np.ndarray) -> np.ndarray:
    """Return the least of a total time that is in each part, and the total itself."""
    of_others_s = parts_s[:, [1, 0, 0]] + parts_s[:, [2, 2, 1]]
    return np.column_stack([np.fmax(time_s[:, np.newaxis] - of_others_s, 0.0), time_s])


def _most_parts(parts_s: np.ndarray, time_s: np.ndarray) -> np.ndarray:
    """Return the most of a total time that is in each part, and the total itself."""
    return np.column_stack([np.minimum(parts_s, time_s[:, np.newaxis]), time_s])


def _sums(places: np.ndarray, values: np.ndarray, n_places: int) -> np.ndarray:
    """Return the sum of the values at each place."""
    return np.bincount(places.ravel(), values.ravel(), minlength=n_places)


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
