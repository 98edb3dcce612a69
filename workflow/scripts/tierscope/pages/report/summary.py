"""The answers of an epoch for the report, one row per scenario."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tierscope.analysis.breakdown import io_time_spread, select_epoch, sums_of_classes
from tierscope.analysis.comparing.policies import is_reference
from tierscope.analysis.intervals import best_rates, interval
from tierscope.analysis.search import cheapest_combination
from tierscope.analysis.training.limit import (
    Advice,
    advice_on,
    is_plain,
    limited_words,
    limits_of,
    most_time,
    spans_words,
)
from tierscope.analysis.utilisation import goal_of
from tierscope.analysis.whatif import (
    best_point,
    mean_over_repetitions,
    select_improvements,
)
from tierscope.core.columns import CLASSES, IMPROVEMENTS, SCENARIO
from tierscope.core.words import (
    FLAG,
    GOAL_KINDS,
    UNKNOWN,
    UTILISATION_NOTE,
    improvement_words,
    is_utilisation,
    seconds_words,
    ties_words,
)

_CHEAPEST = "Cheapest improvement that meets it"
_NO_LIMIT_WORDS = "none: storage does not limit"
_BY_MODEL = "Best I/O time then by the model (s)"


def summary_table(
    tables: Mapping[str, pd.DataFrame],
    titles: pd.DataFrame,
    epoch: int,
    *,
    is_warming: bool = False,
) -> pd.DataFrame:
    """Return the answers of an epoch, one row per scenario.

    The model's estimate of the cheapest improvement is a column if there is one.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Tables ``breakdown``, ``spread``, ``goals``, ``combinations``, ``limits``, and
        ``estimates`` by the model if there is one. Without a goal of a scenario its
        last columns are empty.
    titles : DataFrame
        What `tierscope.core.words.scenario_titles` returns.
    epoch : int
        The epoch, counted from 0.
    is_warming : bool
        Whether the I/O time of the last epoch is a column, too.
    """
    breakdown, limits = tables["breakdown"], tables["limits"]
    last_epoch = select_epoch(breakdown, breakdown["epoch"].max())
    point_keys = [*SCENARIO, "cache_rate_percent"]
    last = mean_over_repetitions(sums_of_classes(last_epoch)).set_index(point_keys)
    breakdown = select_epoch(breakdown, epoch)
    spread = io_time_spread(tables["spread"], epoch)
    times = sums_of_classes(breakdown)
    best = best_point(times)
    rows = []
    for scenario in titles.to_dict("records"):
        keys = _keys(scenario)
        of_scenario = best[(best[SCENARIO] == keys).all(axis=1)]
        if of_scenario.empty:
            continue
        point = of_scenario.iloc[0]
        in_last = {}
        if is_warming:
            last_s = last["io_time_s"].get(tuple(point[point_keys]), math.nan)
            in_last["In the last epoch (s)"] = seconds_words(last_s)
        rows.append(
            {
                "Scenario": scenario["title"],
                **_limits(breakdown, limits, keys),
                "Best cache rate (%)": _best_words(times, keys),
                "I/O time there (s)": seconds_words(point["io_time_s"])
                + _interval_words(times, point)
                + _flag_words(spread, point),
                **in_last,
                "I/O time without LFS (s)": seconds_words(_without_lfs_s(times, keys)),
            }
            | _advised(
                _purchase(tables, keys, epoch)
                | _purchase_by_model(tables, keys, epoch),
                advice_on(limits_of(limits, scenario)),
            )
        )
    summary = pd.DataFrame(rows)
    if _BY_MODEL in summary and (summary[_BY_MODEL] == UNKNOWN).all():
        return summary.drop(columns=_BY_MODEL)
    return summary


def _without_lfs_s(times: pd.DataFrame, scenario: pd.Series) -> float:
    """Return the I/O time of a scenario's loader without LFS, under any policy."""
    same = [key for key in SCENARIO if key != "policy"]
    rows = times[is_reference(times)]
    return rows.loc[(rows[same] == scenario[same]).all(axis=1), "io_time_s"].mean()


def _best_words(times: pd.DataFrame, scenario: pd.Series) -> str:
    """Return the best cache rates, and why they cannot be told apart."""
    best = best_rates(times[(times[SCENARIO] == scenario).all(axis=1)])
    reason = best.reason.replace("n = ", "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    return f"{best.words.removesuffix(' %')}\n({reason})"


def _interval_words(times: pd.DataFrame, point: pd.Series) -> str:
    """Return a line with the interval of the time of a point, if there is one."""
    keys = [*SCENARIO, "cache_rate_percent"]
    found = interval(times.loc[(times[keys] == point[keys]).all(axis=1), "io_time_s"])
    if not found.is_known:
        return ""
    ends = " to ".join(map(seconds_words, (found.low, found.high)))
    return "\n" + f"({ends})".replace(" ", "\N{NO-BREAK SPACE}")


def _flag_words(spread: pd.DataFrame, point: pd.Series) -> str:
    """Return a line that warns of the spread of a point if it is above the limit."""
    keys = [*SCENARIO, "cache_rate_percent"]
    flagged = spread[(spread[keys] == point[keys]).all(axis=1) & spread["flagged"]]
    if flagged.empty:
        return ""
    row = flagged.iloc[0]
    spread_percent, limit_percent = 100 * row["cv"], row["max_spread_percent"]
    words = f"{FLAG} spread {spread_percent:.0f} %,", f"above {limit_percent} %"
    return "\n" + " ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in words)


def _keys(scenario: Mapping[str, Any]) -> pd.Series:
    """Return the keys of a scenario."""
    return pd.Series({key: scenario[key] for key in SCENARIO})


def _limits(
    breakdown: pd.DataFrame, limits: pd.DataFrame, scenario: pd.Series
) -> dict[str, str]:
    """Return what limits a scenario, and which class has most time if that may hide."""
    words = {"Limited by": limited_words(limits_of(limits, scenario))}
    if is_plain(limits):
        return words
    rows = breakdown[(breakdown[SCENARIO] == scenario).all(axis=1)]
    by_time = most_time(rows).droplevel(SCENARIO)
    return words | {"Most I/O time": spans_words(by_time)}


def _advised(purchase: dict[str, str], advice: Advice) -> dict[str, str]:
    """Return what to buy as far as evidence allows: nothing if storage does not limit.

    The goal stays.
    """
    if not advice.words:
        return purchase
    if advice.is_given:
        words = f"{purchase[_CHEAPEST]}\n({FLAG} only if storage limits: undecided)"
        return purchase | {_CHEAPEST: words}
    names = list(purchase)
    rest = names[names.index(_CHEAPEST) :]
    return purchase | dict.fromkeys(rest, UNKNOWN) | {_CHEAPEST: _NO_LIMIT_WORDS}


def _purchase(
    tables: Mapping[str, pd.DataFrame], scenario: pd.Series, epoch: int
) -> dict[str, str]:
    """Return the goal of a scenario and the cheapest improvement that meets it."""
    goals, combinations = tables["goals"], tables["combinations"]
    kind = goal_kind(goals, epoch)
    of_utilisation = kind == GOAL_KINDS["utilisation"]
    names = [f"Goal (s of {kind})" if kind else "Goal (s)"]
    if of_utilisation:
        names = ["Goal (% AU)", "Highest AU today (%)"]
    names += ["Execution minus I/O time (s)"] * (kind == GOAL_KINDS["execution_time"])
    n_goal = len(names)
    names += [_CHEAPEST]
    names += ["Least cache rate then (%)", "LFS per node then (GiB)"]
    row = dict.fromkeys(names, UNKNOWN)
    goals = goals[(goals[SCENARIO] == scenario).all(axis=1) & (goals["epoch"] == epoch)]
    if goals.empty:
        return row
    goal = goals.iloc[0]
    values = [seconds_words(goal["goal_s"]), seconds_words(goal["difference_s"])]
    if of_utilisation:
        values = [
            f"{goal['goal_percent']:g}",
            f"{goal['best_utilisation_percent']:.1f}",
        ]
    values = values[:n_goal]
    cheapest = cheapest_combination(combinations, goal)
    if cheapest is None:
        values.append("none of those searched")
        return row | dict(zip(names, values, strict=False))
    percents = cheapest[IMPROVEMENTS].to_dict()
    improvement = "none needed"
    if any(percents.values()):
        words = improvement_words(percents).replace(", ", "\n")
        ties = ties_words(cheapest, minimal=True)
        improvement = "\n".join(filter(None, (words, ties)))
    if not cheapest["in_every_repetition"]:
        improvement += f"\n{FLAG} met by the mean, not by every repetition"
    values += [
        improvement,
        str(cheapest["min_cache_rate_percent"]),
        f"{cheapest['lfs_gib_per_node']:.3g}",
    ]
    return dict(zip(names, values, strict=True))


def _purchase_by_model(
    tables: Mapping[str, pd.DataFrame], scenario: pd.Series, epoch: int
) -> dict[str, str]:
    """Return the model's estimate of the cheapest improvement; nothing without a model.

    The estimate is unknown if the model was not asked about this improvement. A goal of
    utilisation is the model's already.
    """
    goals, estimates = tables["goals"], tables.get("estimates")
    if estimates is None or goal_kind(goals, epoch) == GOAL_KINDS["utilisation"]:
        return {}
    goals, estimates = (
        table[(table[SCENARIO] == scenario).all(axis=1) & (table["epoch"] == epoch)]
        for table in (goals, estimates)
    )
    if goals.empty or estimates.empty:
        return {_BY_MODEL: UNKNOWN}
    row = goals.iloc[0]
    cheapest = cheapest_combination(tables["combinations"], row)
    if cheapest is None:
        return {_BY_MODEL: UNKNOWN}
    percents = dict(zip(CLASSES, cheapest[IMPROVEMENTS].tolist(), strict=True))
    asked = select_improvements(estimates, [percents])
    if asked.empty:
        return {_BY_MODEL: UNKNOWN}
    best = best_point(asked).iloc[0]
    verdict = "meets" if goal_of(row).is_met(best["io_time_s"]) else f"{FLAG} misses"
    words = f"{seconds_words(best['io_time_s'])} at {best['cache_rate_percent']} %"
    return {_BY_MODEL: f"{words}\n{verdict} the goal"}


def goal_kind(goals: pd.DataFrame, epoch: int) -> str:
    """Return the quantity of an epoch's goal, such as I/O time; nothing if no goal."""
    kinds = goals.loc[goals["epoch"] == epoch, "goal_of"].unique()
    return " and ".join(sorted(GOAL_KINDS[kind] for kind in kinds))


def utilisation_note_of(goals: pd.DataFrame) -> str:
    """Return what a goal of utilisation is, if the goals are; otherwise nothing."""
    return UTILISATION_NOTE if goals.apply(is_utilisation, axis=1).any() else ""
