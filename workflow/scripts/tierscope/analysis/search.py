"""Search a grid of improvements of all four I/O classes for those that meet a goal.

A larger improvement never makes an estimate longer, because each rounding keeps the
order of the numbers. So a bisection along one class, or a walk along the edge between
sufficient and insufficient combinations, finds the same as an evaluation of every
combination, to the last bit, with a thousandth of the evaluations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import (
    process_times,
    slowest_process,
)
from tierscope.analysis.whatif import (
    Goal,
    best_point,
    costs,
    estimate,
    improve,
    mean_over_repetitions,
    upper_envelope,
)
from tierscope.core.columns import CLASSES, IMPROVEMENTS, SCENARIO, TABLES
from tierscope.core.io_class import total_s
from tierscope.core.tables import with_later_columns

# Few enough that the memory of a block is used again instead of taken anew.
_CELLS_AT_ONCE = 50_000
_BYTES_PER_GIB = 1 << 30


class Combinations:
    """Combinations of improvements of four classes; some of them meet a goal.

    A larger improvement must not turn a combination that meets the goal into one that
    does not.
    """

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

    def least_of_fourth(self, n_percents: int, pairs_at_once: int) -> np.ndarray:
        """Find the least improvement of a fourth class for each of three others.

        For each pair of improvements of the first two classes, walk along the edge: if
        a combination meets the goal, try one step less of the fourth class; otherwise
        one step more of the third.

        Parameters
        ----------
        n_percents : int
            Number of improvements of a class.
        pairs_at_once : int
            Pairs of the first two classes that are asked for at a time, 1 or more.

        Returns
        -------
        ndarray of int, shape (n_percents, n_percents, n_percents)
            By the improvements of the first three classes; `n_percents` if none meets
            the goal.
        """
        n = n_percents
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

    def min_cache_rate_percent(self, percents: np.ndarray) -> np.ndarray:
        """Return the least cache rate with which combinations meet the goal.

        Parameters
        ----------
        percents : ndarray of int, shape (n, 4)
            Sufficient combinations of the grid: improvements in percent by class.
        """
        a, b, c, d = np.searchsorted(self.percents, percents.T)
        met = self.least[:, a, b, c] <= d
        return np.array(self.cache_rates_percent)[met.argmax(axis=0)]


def find_sufficient(
    io_time: pd.DataFrame, goal: Goal, percents: Sequence[int]
) -> Sufficient:
    """Find all combinations of improvements that meet a goal at some cache rate.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` of one epoch of one scenario; the mean of the I/O time over
        the repetitions is compared with the goal.
    goal : Goal
        The goal.
    percents : sequence of int
        Improvements that each of the four classes can have, ascending.
    """
    processes, times_s = process_times(io_time)
    repetitions: dict[int, list[np.ndarray]] = {}
    for (rate, _), rows in processes.groupby(
        ["cache_rate_percent", "repetition"], sort=True
    ).indices.items():
        envelope = times_s[rows][upper_envelope(times_s[rows])]
        repetitions.setdefault(int(rate), []).append(envelope)
    percents = np.asarray(percents)
    least = [least_sufficient(runs, goal, percents) for runs in repetitions.values()]
    return Sufficient(tuple(repetitions), tuple(percents.tolist()), np.stack(least))


def least_sufficient(
    runs: Sequence[np.ndarray], goal: Goal, percents: np.ndarray
) -> np.ndarray:
    """Find the least improvement of a fourth class that meets a goal with three others.

    Parameters
    ----------
    runs : sequence of ndarray, shape (n_processes, n_classes)
        Times of the processes in seconds, by class, of each repetition. The first four
        classes are improved; further ones are not.
    goal : Goal
        The goal of the mean over the repetitions of the slowest process's time.
    percents : ndarray of int
        Improvements that each of the four classes can have, ascending.

    Returns
    -------
    ndarray of int, shape (n_percents, n_percents, n_percents)
        As `Sufficient.least` of one cache rate.
    """
    improved = [
        [improve(times_s[:, k], percents[:, np.newaxis]) for k in range(len(CLASSES))]
        for times_s in runs
    ]
    unchanged = [total_s(times_s[:, len(CLASSES) :]) for times_s in runs]
    pairs_at_once = max(1, _CELLS_AT_ONCE // max(len(times_s) for times_s in runs))
    combinations = _Exact(improved, unchanged, goal)
    return combinations.least_of_fourth(len(percents), pairs_at_once)


@dataclass(frozen=True)
class _Exact(Combinations):
    """Combinations of improvements of processes whose times are known.

    `improved` and `unchanged` have an entry a repetition: the seconds of the processes
    in each class by its improvement, and in classes that stay as they are.
    """

    improved: list[list[np.ndarray]]
    unchanged: list[np.ndarray]
    goal: Goal

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


def search_combinations(
    io_time: pd.DataFrame,
    goal: Goal,
    *,
    max_improvement_percent: int,
    step_percent: int,
    cost_per_percent: Mapping[str, float],
    dataset_bytes: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Find the minimal and the cheapest combinations that meet a goal.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` of one epoch of one scenario.
    goal : Goal
        The goal.
    max_improvement_percent, step_percent : int
        Each class takes an improvement of 0, one step, ... up to the largest.
    cost_per_percent : mapping of str to float
        Cost of one percent of improvement of each class.
    dataset_bytes : int
        Size of the dataset, for the LFS volume at a cache rate.

    Returns
    -------
    goals : DataFrame, shape (1, 18)
        Table ``goals``.
    combinations : DataFrame, shape (n_minimal, 25)
        Table ``combinations``: the minimal ones in the order of their cost; if costs
        are equal, the least cache rate comes first, then the smallest improvements in
        the order of the classes. The first is the cheapest. ``io_time_s`` and ``cv``
        (its spread over the repetitions) are those at the least cache rate that meets
        the goal, and ``in_every_repetition`` says whether each repetition meets it
        there. Costs are rounded to twelve digits, so that the order of summation does
        not matter.
    """
    percents = range(0, max_improvement_percent + 1, step_percent)
    sufficient = find_sufficient(io_time, goal, percents)
    minimal = sufficient.minimal()
    scenario = io_time[[*SCENARIO, "epoch"]].iloc[0].to_dict()
    scenario |= {"goal_of": goal.of, "goal_s": goal.seconds}
    best = best_point(slowest_process(io_time)).iloc[0]
    goals = pd.DataFrame(
        [
            scenario
            | {
                "difference_s": goal.difference_s,
                "best_cache_rate_percent": best["cache_rate_percent"],
                "best_io_time_s": best["io_time_s"],
                "n_combinations": sufficient.n_combinations,
                "n_sufficient": sufficient.n_sufficient,
                "n_minimal": len(minimal),
            }
        ]
    )
    rows = pd.DataFrame(minimal, columns=IMPROVEMENTS)
    rows["min_cache_rate_percent"] = sufficient.min_cache_rate_percent(minimal)
    estimates = estimate(io_time, as_improvements(rows), [best["epoch"]])
    rows = with_times(with_best_rate(rows, best_point(estimates)), estimates)
    rows["in_every_repetition"] = goal.is_met(rows["max_io_time_s"])
    rows = in_order_of_cost(rows, cost_per_percent, dataset_bytes)
    return with_later_columns(goals, "goals"), with_later_columns(
        rows.assign(**scenario), "combinations"
    )[list(TABLES["combinations"])]


def as_improvements(rows: pd.DataFrame) -> list[dict[str, int]]:
    """Return the improvements of rows as mappings from I/O class to percent."""
    return rows[IMPROVEMENTS].set_axis(CLASSES, axis=1).to_dict("records")


def in_order_of_cost(
    rows: pd.DataFrame, cost_per_percent: Mapping[str, float], dataset_bytes: int
) -> pd.DataFrame:
    """Return combinations with cost and LFS volume, the cheapest first.

    Parameters
    ----------
    rows : DataFrame
        Improvements and ``min_cache_rate_percent``.
    cost_per_percent, dataset_bytes
        As for `search_combinations`.
    """
    rates = rows["min_cache_rate_percent"].astype(np.int64)
    rows = rows.assign(
        cost=costs(rows, cost_per_percent),
        min_cache_rate_percent=rates,
        lfs_gib_per_node=rates * dataset_bytes / (100 * _BYTES_PER_GIB),
    )
    order = ["cost", "min_cache_rate_percent", *IMPROVEMENTS]
    rows = rows.sort_values(order, kind="stable", ignore_index=True)
    return rows.assign(cheapest=rows.index == 0)


def with_best_rate(rows: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """Return combinations with ``best_cache_rate_percent``, the rate in `best`."""
    best = best[[*IMPROVEMENTS, "cache_rate_percent"]]
    best = best.rename(columns={"cache_rate_percent": "best_cache_rate_percent"})
    return rows.merge(best, on=IMPROVEMENTS)


def with_times(rows: pd.DataFrame, estimates: pd.DataFrame) -> pd.DataFrame:
    """Return combinations with their I/O times at the least and the best cache rate.

    `estimates` has all of them at all cache rates.
    """
    means = mean_over_repetitions(estimates)[
        [*IMPROVEMENTS, "cache_rate_percent", "io_time_s", "cv", "max_io_time_s"]
    ]
    least = {"cache_rate_percent": "min_cache_rate_percent"}
    best = {
        "cache_rate_percent": "best_cache_rate_percent",
        "io_time_s": "best_io_time_s",
    }
    rows = rows.merge(means.rename(columns=least))
    return rows.merge(means.drop(columns=["cv", "max_io_time_s"]).rename(columns=best))


def cheapest_combination(
    combinations: pd.DataFrame, goal: pd.Series
) -> pd.Series | None:
    """Return the cheapest of table ``combinations`` for a row of table ``goals``.

    It is None if no combination of the grid meets the goal. ``n_as_cheap`` is the
    number of other minimal combinations with the same cost. If a class costs nothing,
    larger improvements of it cost the same, too, and are not counted.
    """
    keys = [*SCENARIO, "epoch"]
    rows = combinations[(combinations[keys] == goal[keys]).all(axis=1)]
    if rows.empty:
        return None
    rows = rows.assign(n_as_cheap=(rows["cost"] == rows["cost"].min()).sum() - 1)
    return rows[rows["cheapest"]].iloc[0]
