"""Answer an experiment in at most three sentences, for those who read nothing else.

What limits the training; what would help, and by how much; how sure that is, or what to
measure. Report and terminal begin with them; all other pages say the same at length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tierscope.analysis.breakdown import sums_of_classes
from tierscope.analysis.comparing.savings import best_policy, best_policy_words
from tierscope.analysis.intervals import (
    LEVEL_PERCENT,
    NO_INTERVAL,
    best_rates,
    interval,
    unit_words,
)
from tierscope.analysis.search import cheapest_combination
from tierscope.analysis.training.limit import advice_on, limit_sentence, limits_of
from tierscope.analysis.training.stalls import NOT_KNOWN, limit_label
from tierscope.core.columns import IMPROVEMENTS, SCENARIO
from tierscope.core.columns.analysis import NOTHING_HIDES
from tierscope.core.words import (
    goal_words,
    improvement_words,
    in_seconds,
    is_utilisation,
)

_POINT = (*SCENARIO, "cache_rate_percent")
_SOURCES = {
    "measured": "measured on this storage",
    "emulated": "emulated, not measured: the devices are a model",
    "simulated": "simulated, not measured: the whole system is a model",
}


@dataclass(frozen=True)
class Evidence:
    """What an answer rests on.

    Parameters
    ----------
    breakdown, limits, goals, combinations : DataFrame
        These tables.
    policy_summary : DataFrame or None
        This table of the scene, if it compares policies.
    storage_time : DataFrame or None
        This table, if there are ideal runs.
    scene : mapping
        Dataset, OST count and loader that are answered for, those of figures 3 to 5.
    epoch : int
        The epoch, counted from 0.
    phase : {"epoch", "run"}, optional
        What a program without epochs has is a run.
    of : {"files", "bytes"}, optional
        What cache rates are percentages of.
    mark : str, optional
        Says that numbers are not those of devices (`Origin.mark`).
    goal_origin : str, optional
        Where the goal comes from.
    """

    breakdown: pd.DataFrame
    limits: pd.DataFrame
    goals: pd.DataFrame
    combinations: pd.DataFrame
    policy_summary: pd.DataFrame | None
    storage_time: pd.DataFrame | None
    scene: Mapping[str, Any]
    epoch: int
    phase: str = "epoch"
    of: str = "files"
    mark: str = ""
    goal_origin: str = ""

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table that are of scene and epoch."""
        wanted = {**self.scene, "epoch": self.epoch}
        return table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]

    @property
    def times(self) -> pd.DataFrame:
        """Return the I/O time of each run: ``io_time_s`` of its slowest process."""
        return sums_of_classes(self.rows(self.breakdown))


def answer(found: Evidence) -> list[str]:
    """Return at most three sentences; none if the sweep has no run of the scene."""
    limits, times = found.rows(found.limits), found.times
    if limits.empty or times.empty:
        return []
    point = _best_point(found, limits, times)
    of_scenario = _is(times, point, SCENARIO)
    return [
        _limit(found, point),
        _help(found, times[of_scenario], limits, point),
        _certainty(found, times[of_scenario], point),
    ]


def _best_point(
    found: Evidence, limits: pd.DataFrame, times: pd.DataFrame
) -> pd.Series:
    """Return the point that a user would choose, a row of table ``limits``.

    That is the policy and rate that save most time. Without one it is the rate with the
    shortest epoch, if ideal runs tell it of one scenario, or else the point with the
    least I/O time.
    """
    summary = found.policy_summary
    if summary is not None:
        best = best_policy(summary)
        known = _is(limits, best)
        if known.any() and best["time_cut_percent"] > 0:
            return limits[known].iloc[0]
    if limits["is_shortest"].sum() == 1:
        return limits[limits["is_shortest"]].iloc[0]
    means_s = times.groupby(list(_POINT))["io_time_s"].mean()
    return limits[_is(limits, pd.Series(means_s.idxmin(), _POINT))].iloc[0]


def _is(table: pd.DataFrame, row: pd.Series, keys: Sequence[str] = _POINT) -> pd.Series:
    """Return which rows of a table have the keys of another row."""
    return (table[list(keys)] == row[list(keys)]).all(axis=1)


def _limit(found: Evidence, row: pd.Series) -> str:
    """Return what limits the training at a point."""
    if words := limit_sentence(row, found.phase):
        return words
    where = f"At cache rate {row['cache_rate_percent']} % (policy {row['policy']})"
    label = limit_label(row["limit"])
    if row["why"] != NOTHING_HIDES:
        costs = found.rows(found.storage_time)
        cost = costs[_is(costs, row)].iloc[0]
        largest = "of which class is not known"
        if row["limit"] != NOT_KNOWN:
            largest = f"its largest class is {label}"
        half = f"\N{PLUS-MINUS SIGN} {in_seconds(cost['storage_interval_s'])}"
        return (
            f"{where} storage takes {in_seconds(cost['storage_s'])} ({half}) of the "
            f"{in_seconds(cost['execution_time_s'])} of the {found.phase}; {largest}."
        )
    parts = found.rows(found.breakdown)
    means_s = parts[_is(parts, row)].groupby("io_class")["time_s"].mean()
    return (
        f"{where} {label} is the largest part of the I/O time of the slowest process: "
        f"{in_seconds(means_s[row['limit']])} of {in_seconds(means_s.sum())}."
    )


def _help(
    found: Evidence, times: pd.DataFrame, limits: pd.DataFrame, point: pd.Series
) -> str:
    """Return what helps: a policy or rate, and what must be faster to meet the goal."""
    words = _policies(found) or _rates(found, times)
    goals = found.rows(found.goals)
    goals = goals[_is(goals, point, SCENARIO)]
    advice = advice_on(limits_of(limits, point))
    if goals.empty or not advice.is_given:
        return f"{words}."
    goal = goals.iloc[0]
    wanted = goal_words(goal).partition(" (")[0]
    wanted += f" ({found.goal_origin})" * bool(found.goal_origin)
    cheapest = cheapest_combination(found.combinations, goal)
    if cheapest is None:
        return f"{words}; no improvement that was searched meets {wanted}."
    percents = cheapest[IMPROVEMENTS].to_dict()
    if not any(percents.values()):
        return f"{words}, which meets {wanted}."
    by = "the model" if is_utilisation(goal) else "the paper's rule"
    needs = f"{wanted} needs {improvement_words(percents)}, the cheapest by {by}"
    needs += " (met by the mean only)" * (not cheapest["in_every_repetition"])
    return f"{words}; {'if storage limits, ' * bool(advice.words)}{needs}."


def _policies(found: Evidence) -> str:
    """Return which policy saves most time, without a stop; nothing without policies."""
    if found.policy_summary is None:
        return ""
    if best_policy(found.policy_summary)["time_cut_percent"] <= 0:
        return f"No policy with {found.of} on the LFS saves time"
    words = best_policy_words(found.policy_summary)
    return words.rstrip(".").replace(". It is undecided", "; it is undecided")


def _rates(found: Evidence, times: pd.DataFrame) -> str:
    """Return what files on the LFS save, without a stop."""
    best = best_rates(times)
    at_s = times.groupby("cache_rate_percent")["io_time_s"].mean()
    if best.swept == (best.best,):
        return f"I/O takes {in_seconds(best.time_s)}"
    first = best.swept[0]
    if best.rates == best.swept:
        return "By their I/O time the cache rates cannot be told apart"
    if best.best == first:
        more = f"than {first} % " if first else ""
        return f"More {found.of} on the LFS {more}do not shorten the I/O time"
    return (
        f"{best.best} % of the {found.of} on the LFS bring the I/O time from "
        f"{in_seconds(at_s[first])} (at {first} %) to {in_seconds(best.time_s)}"
    )


def _certainty(found: Evidence, times: pd.DataFrame, point: pd.Series) -> str:
    """Return how sure that is, and what the numbers are."""
    at_point = times["cache_rate_percent"] == point["cache_rate_percent"]
    runs_s = times.loc[at_point, "io_time_s"]
    source, of_mean = times["source"].iloc[0], interval(runs_s)
    what = _SOURCES[source] + f" ({found.mark})" * bool(found.mark)
    if not of_mean.is_known:
        return f"All this is {what}; {NO_INTERVAL}, so repeat to know how sure it is."
    low, high = map(in_seconds, (max(of_mean.low, 0.0), of_mean.high))
    where = f"cache rate {point['cache_rate_percent']} % (policy {point['policy']})"
    n = f"{of_mean.n} {unit_words([source])}"
    return (
        f"All this is {what}; with {n} the I/O time at {where} is {low} to {high} "
        f"({LEVEL_PERCENT} % confidence)."
    )
