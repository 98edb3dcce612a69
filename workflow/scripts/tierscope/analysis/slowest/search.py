"""Search a grid of improvements of four classes for those that meet a goal.

A larger improvement never makes an estimate longer, because each rounding keeps the
order of the numbers. So a walk along the edge between sufficient and insufficient
combinations finds the same as an evaluation of every combination, to the last bit, with
a thousandth of the evaluations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Self

import numpy as np

from tierscope.analysis.slowest.improved import improve
from tierscope.analysis.slowest.times import ROUNDING, ProcessTimes, of_set
from tierscope.analysis.whatif import Goal
from tierscope.core.columns import CLASSES
from tierscope.core.io_class import total_s

# Few enough that the memory of a block is used again instead of taken anew.
_CELLS_AT_ONCE = 50_000


class Combinations:
    """Combinations of improvements of four classes; some of them meet a goal.

    A larger improvement must not turn a combination that meets the goal into one that
    does not. `n_rows` is the number of values that an answer is found of.
    """

    n_rows = 1

    def start(self, first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
        """Return what `is_met` uses of the first two classes' improvements (positions).

        Each array has a row for each pair of them.
        """
        return [first, second]

    def is_met(
        self, started: Sequence[np.ndarray], third: np.ndarray, fourth: np.ndarray
    ) -> np.ndarray:
        """Return which combinations meet the goal; `started` has rows of `start`."""
        raise NotImplementedError

    def least_of_fourth(self, n_percents: int) -> np.ndarray:
        """Find the least improvement of a fourth class for each of three others.

        For each pair of improvements of the first two classes, walk along the edge: if
        a combination meets the goal, try one step less of the fourth class; otherwise
        one step more of the third.

        Parameters
        ----------
        n_percents : int
            Number of improvements of a class.

        Returns
        -------
        ndarray of int, shape (n_percents, n_percents, n_percents)
            By the improvements of the first three classes; `n_percents` if none meets
            the goal.
        """
        n, pairs_at_once = n_percents, max(1, _CELLS_AT_ONCE // self.n_rows)
        least = np.full((n * n, n), n, dtype=np.int16)
        for begin in range(0, n * n, pairs_at_once):
            pairs = np.arange(begin, min(begin + pairs_at_once, n * n))
            third = np.zeros(len(pairs), dtype=np.int64)
            fourth = np.full(len(pairs), n - 1)
            started = self.start(*np.divmod(pairs, n))
            while len(pairs):
                met = self.is_met(started, third, fourth)
                # The next improvement of the third class needs no more of the fourth.
                fourth = fourth - met
                third = third + ~met
                walking = (fourth >= 0) & (third < n)
                least[pairs[walking], third[walking]] = fourth[walking] + 1
                if not walking.all():
                    for pair, position in zip(
                        pairs[fourth < 0], third[fourth < 0], strict=True
                    ):
                        least[pair, position:] = 0
                    pairs, third, fourth, *started = (
                        rows[walking] for rows in (pairs, third, fourth, *started)
                    )
        return least.reshape(n, n, n)


@dataclass(frozen=True)
class Sufficient:
    """Every combination of a grid that meets a goal at some cache rate.

    Parameters
    ----------
    cache_rates_percent, percents : tuple of int
        Cache rates and improvements of a class, both ascending.
    least : ndarray of int, shape (n_cache_rates, n_percents, n_percents, n_percents)
        For improvements of the first three classes (as positions in `percents`) the
        least improvement of the fourth that meets the goal at that cache rate;
        `len(percents)` if none does.
    """

    cache_rates_percent: tuple[int, ...]
    percents: tuple[int, ...]
    least: np.ndarray

    @property
    def n_combinations(self) -> int:
        """Return the number of combinations of the grid."""
        return len(self.percents) ** len(CLASSES)

    @property
    def n_sufficient(self) -> int:
        """Return the number of combinations that meet the goal at some cache rate."""
        least = self.least.min(axis=0).astype(np.int64)
        return int((len(self.percents) - least).sum())

    def minimal(self) -> np.ndarray:
        """Return the combinations in which no improvement can be one step smaller.

        Returns
        -------
        ndarray of int, shape (n_minimal, 4)
            Improvements in percent by class, in lexicographic order.
        """
        least = self.least.min(axis=0)
        minimal = least < len(self.percents)
        for axis in range(least.ndim):
            step_less = np.take(least, range(least.shape[axis] - 1), axis)
            first = np.full_like(np.take(least, [0], axis), len(self.percents))
            minimal &= least < np.concatenate([first, step_less], axis)
        positions = np.column_stack([*np.nonzero(minimal), least[minimal]])
        return np.array(self.percents, dtype=np.int64)[positions]


def least_sufficient(
    times: ProcessTimes, goal: Goal, percents: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find the least improvement of a fourth class that meets a goal with three others.

    Parameters
    ----------
    times : ProcessTimes
        Times of the processes; each phase is a repetition. The first four classes are
        improved; further ones are not. If they are bounds, there is one phase.
    goal : Goal
        The goal of the mean over the phases of the slowest process's time.
    percents : ndarray of int
        Improvements that each of the four classes can have, ascending.

    Returns
    -------
    certain, possible : ndarray of int, shape (n_percents, n_percents, n_percents)
        As `Sufficient.least` of one cache rate: with the first the goal is met whatever
        the times are, with the second it could be. They are equal if times are known.
    """
    if times.are_equal.all():
        least = _Exact.of(times, goal, percents).least_of_fourth(len(percents))
        return least, least
    times = times.unbounded
    # A process that meets the goal as it is meets it after any improvement.
    _, most_s = _of_all_sets(times, times.total_most_s > goal.seconds)
    least_s, _ = _of_all_sets(times, times.total_least_s > goal.seconds)
    held_s = np.minimum(times.total_most_s, goal.seconds).sum()
    (sum_s,) = times.sum_s
    certain = _Bounded(goal, percents, most_s, np.zeros_like(sum_s), 0.0)
    possible = _Bounded(goal, percents, least_s, sum_s, held_s)
    return tuple(one.least_of_fourth(len(percents)) for one in (certain, possible))


@dataclass(frozen=True)
class _Exact(Combinations):
    """Combinations of improvements of processes whose times are known.

    `improved` and `unchanged` have an entry a repetition: the seconds of the processes
    in each class by its improvement, and in classes that stay as they are.
    """

    goal: Goal
    improved: list[list[np.ndarray]]
    unchanged: list[np.ndarray]

    @classmethod
    def of(cls, times: ProcessTimes, goal: Goal, percents: np.ndarray) -> Self:
        """Return combinations with the improvements of each class."""
        _, times = times.enveloped()
        runs, n_classes = np.split(times.least_s, times.first[1:]), len(CLASSES)
        improved = [
            [improve(run_s[:, k], percents[:, np.newaxis]) for k in range(n_classes)]
            for run_s in runs
        ]
        return cls(goal, improved, [total_s(run_s[:, n_classes:]) for run_s in runs])

    @property
    def n_rows(self) -> int:
        """Return the processes that a combination is asked of."""
        return max(classes[0].shape[1] for classes in self.improved)

    def start(self, first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
        """Return the seconds of the first two classes and the unchanged ones."""
        return [
            classes[0][first] + classes[1][second] + others_s
            for classes, others_s in zip(self.improved, self.unchanged, strict=True)
        ]

    def is_met(
        self, started: Sequence[np.ndarray], third: np.ndarray, fourth: np.ndarray
    ) -> np.ndarray:
        """Return which combinations meet the goal."""
        io_time_s = 0.0
        for classes, sum_s in zip(self.improved, started, strict=True):
            times_s = sum_s + classes[2][third] + classes[3][fourth]
            io_time_s = io_time_s + times_s.max(axis=1)
        return self.goal.is_met(io_time_s / len(started))


def _of_all_sets(times: ProcessTimes, kept: np.ndarray) -> np.ndarray:
    """Return the bounds of some processes in every set of classes.

    Shape (2, n_sets, n_different): least and most; a set is a binary number with a one
    for each of its classes. Equal processes are there once.
    """
    names = ("least_s", "most_s", "total_least_s", "total_most_s")
    bounds_s = np.column_stack([getattr(times, name)[kept] for name in names])
    _, different = np.unique(bounds_s, axis=0, return_index=True)
    rows = np.flatnonzero(kept)[different]
    some = replace(times, **{name: getattr(times, name)[rows] for name in names})
    n_classes = times.least_s.shape[1]
    sets = (np.arange(1 << n_classes)[:, np.newaxis] >> np.arange(n_classes)) & 1
    of_sets_s = np.stack([of_set(some, chosen == 1) for chosen in sets], axis=1)
    return np.nan_to_num(of_sets_s, posinf=1e300)  # infinity times zero is no number


@dataclass(frozen=True)
class _Bounded(Combinations):
    """Combinations of improvements of processes whose times are bounds.

    A combination meets the goal if no process exceeds it, and if the time of all
    processes (`sum_s`, by class) is not more than they can hold within the goal.
    `of_sets_s` is a half of `_of_all_sets`.
    """

    goal: Goal
    percents: np.ndarray
    of_sets_s: np.ndarray
    sum_s: np.ndarray
    held_s: float

    @property
    def n_rows(self) -> int:
        """Return the processes that a combination is asked of, one at least."""
        return self.of_sets_s.shape[1] + 1

    def is_met(
        self, started: Sequence[np.ndarray], third: np.ndarray, fourth: np.ndarray
    ) -> np.ndarray:
        """Return which combinations meet the goal."""
        percents = self.percents[np.column_stack([*started, third, fourth])]
        factors = improve(np.ones(percents.shape), percents)
        factors = np.column_stack([factors, np.ones(len(factors))])
        fits = (factors * self.sum_s).sum(axis=1) <= (1 + ROUNDING) * self.held_s
        order = np.argsort(-factors, axis=1, kind="stable")
        descending = np.take_along_axis(factors, order, axis=1)
        steps = descending - np.column_stack([descending[:, 1:], np.zeros(len(order))])
        sets = np.cumsum(1 << order, axis=1)
        times_s = reduce(
            add,
            (steps[:, [i]] * self.of_sets_s[sets[:, i]] for i in range(sets.shape[1])),
        )
        slowest_s = times_s.max(axis=1, initial=0.0)
        # Sums in another order must not make more improvement look worse.
        return fits & self.goal.is_met((1 - ROUNDING) * slowest_s)
