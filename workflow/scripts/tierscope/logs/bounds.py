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

from dataclasses import dataclass

import numpy as np

from tierscope.core.io_class import total_s

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
