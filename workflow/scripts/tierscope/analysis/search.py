"""Find the improvements of all four I/O classes that meet a goal, as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import (
    slowest_process,
)
from tierscope.analysis.slowest.search import Sufficient, least_sufficient
from tierscope.analysis.utilisation import UtilisationGoal, mean_utilisation
from tierscope.analysis.whatif import (
    Goal,
    costs,
    estimate,
    grid_percents,
    mean_over_repetitions,
    times_of_runs,
)
from tierscope.core.columns import CLASSES, IMPROVEMENTS, SCENARIO, TABLES
from tierscope.core.tables import with_later_columns

_BYTES_PER_GIB = 1 << 30
_OF_BEST = ("cache_rate_percent", "io_time_s", "utilisation_percent")


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
    processes, times = times_of_runs(io_time)
    rate_of_run = processes["cache_rate_percent"].to_numpy()[times.first]
    rates, percents = np.unique(rate_of_run), np.asarray(percents)
    classes, least = np.arange(times.least_s.shape[1]), []
    for rate in rates:
        runs = times.take(np.flatnonzero(rate_of_run == rate), classes)
        least.append(least_sufficient(runs, goal, percents)[0])
    found = np.stack(least)
    return Sufficient(tuple(rates.tolist()), tuple(percents.tolist()), found)


@dataclass(frozen=True)
class Search:
    """What is searched, and what it costs.

    Parameters
    ----------
    max_improvement_percent, step_percent : int
        Each class takes an improvement of 0, one step, ... up to the largest.
    cost_per_percent : mapping of str to float
        Cost of one percent of improvement of each class.
    dataset_bytes : int
        Size of the dataset, for the LFS volume at a cache rate.
    """

    max_improvement_percent: int
    step_percent: int
    cost_per_percent: Mapping[str, float]
    dataset_bytes: int

    def in_order(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return combinations with cost and LFS volume, the cheapest first.

        `rows` has improvements and ``min_cache_rate_percent``.
        """
        rates = rows["min_cache_rate_percent"].astype(np.int64)
        rows = rows.assign(
            cost=costs(rows, self.cost_per_percent),
            min_cache_rate_percent=rates,
            lfs_gib_per_node=rates * self.dataset_bytes / (100 * _BYTES_PER_GIB),
        )
        order = ["cost", "min_cache_rate_percent", *IMPROVEMENTS]
        rows = rows.sort_values(order, kind="stable", ignore_index=True)
        return rows.assign(cheapest=rows.index == 0)


def search_combinations(
    io_time: pd.DataFrame, goal: Goal, search: Search
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Find the minimal and the cheapest combinations that meet a goal.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` of one epoch of one scenario.
    goal : Goal
        The goal.
    search : Search
        The grid, and costs.

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
    percents = grid_percents(search.max_improvement_percent, search.step_percent)
    sufficient = find_sufficient(io_time, goal, percents)
    minimal = pd.DataFrame(sufficient.minimal(), columns=IMPROVEMENTS)
    today = slowest_process(io_time)
    epoch = [today["epoch"].iloc[0]]
    estimates = estimate(io_time, as_improvements(minimal), epoch)
    rows = search.in_order(with_times(minimal, estimates, goal))
    return in_tables(today, sufficient, rows, goal)


def in_tables(
    today: pd.DataFrame,
    sufficient: Sufficient,
    rows: pd.DataFrame,
    goal: Goal | UtilisationGoal,
    **more: float,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return tables ``goals`` and ``combinations`` of what a search has found.

    Parameters
    ----------
    today : DataFrame
        Times or estimates without improvement, of one scenario and epoch.
    sufficient : Sufficient
        The combinations that meet the goal.
    rows : DataFrame
        The minimal ones, as `Search.in_order` returns them.
    goal : Goal or UtilisationGoal
        The goal.
    **more : float
        Further columns of table ``goals``.
    """
    scenario = today[[*SCENARIO, "epoch"]].iloc[0].to_dict() | goal.columns
    best = goal.best(today).iloc[0]
    known = [name for name in _OF_BEST if name in best]
    goals = pd.DataFrame(
        [
            scenario
            | {f"best_{name}": best[name] for name in known}
            | {
                "difference_s": goal.difference_s,
                "n_combinations": sufficient.n_combinations,
                "n_sufficient": sufficient.n_sufficient,
                "n_minimal": len(rows),
            }
            | more
        ]
    )
    goals = with_later_columns(goals, "goals")[list(TABLES["goals"])]
    return goals, rows.assign(**scenario)[list(TABLES["combinations"])]


def as_improvements(rows: pd.DataFrame) -> list[dict[str, int]]:
    """Return the improvements of rows as mappings from I/O class to percent."""
    return rows[IMPROVEMENTS].set_axis(CLASSES, axis=1).to_dict("records")


def with_times(
    combinations: pd.DataFrame, estimates: pd.DataFrame, goal: Goal | UtilisationGoal
) -> pd.DataFrame:
    """Return combinations that meet a goal with their least and best cache rates.

    Times, and the AU that the model estimates, are those at these rates. `estimates`
    has all combinations at all cache rates.
    """
    least = goal.sufficient(estimates)
    least = least[least["sufficient"]].astype({"min_cache_rate_percent": np.int64})
    columns = ["min_cache_rate_percent", "in_every_repetition"]
    rows = combinations.merge(least[[*IMPROVEMENTS, *columns]], on=IMPROVEMENTS)
    rate = {"cache_rate_percent": "best_cache_rate_percent"}
    best = goal.best(estimates)[[*IMPROVEMENTS, *rate]].rename(columns=rate)
    means = mean_over_repetitions(estimates)
    # Both have a row for each point, in the same order.
    means["utilisation_percent"] = mean_utilisation(estimates)["utilisation_percent"]
    means = means[[*IMPROVEMENTS, *_OF_BEST, "cv"]]
    at_best = {name: f"best_{name}" for name in _OF_BEST}
    rate = {"cache_rate_percent": "min_cache_rate_percent"}
    rows = rows.merge(best, on=IMPROVEMENTS).merge(means.rename(columns=rate))
    return rows.merge(means.drop(columns="cv").rename(columns=at_best))


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
