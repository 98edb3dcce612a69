"""The formulas of claims: each turns tables of scenarios into one number.

Improvements are estimated by the rule, `tierscope.analysis.whatif`.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import slowest_process
from tierscope.analysis.intervals import best_rates
from tierscope.claims.tables import ScenarioTables, n_opens
from tierscope.core.columns import CLASSES, IMPROVEMENTS, SCENARIO
from tierscope.core.io_class import IOClass
from tierscope.core.verdict import (
    HOLDS,
    UNDECIDED,
    UNMEASURABLE,
    Measured,
    NotMeasurable,
)
from tierscope.core.words import short_number

_ROUNDING = 1e-9  # of a time: differences below are none


def _label(io_class: str) -> str:
    """Return the paper's spelling of an I/O class."""
    return IOClass(io_class).label


def defined(values: pd.Series) -> pd.Series:
    """Return quotients, or raise a NotMeasurable if one was divided by zero."""
    if not np.isfinite(values).all():
        raise NotMeasurable("a time of zero leaves the number undefined")
    return values


def _improvement_words(improvement_percent: Mapping[str, int]) -> str:
    """Return an improvement, such as ``GFS-META +50 %``."""
    words = [f"{_label(name)} +{n} %" for name, n in improvement_percent.items()]
    return ", ".join(words)


def _improvement(point: pd.Series) -> dict[str, int]:
    """Return the classes that are improved in a row of estimates, in percent."""
    percents = zip(CLASSES, point[IMPROVEMENTS], strict=True)
    return {name: int(percent) for name, percent in percents if percent}


def best_cache_rate(scenario: ScenarioTables) -> Measured:
    """Return the cache rate with the least I/O time in percent; the lowest if equal.

    Its interval goes to the ends of the set of rates that cannot be told from it.
    """
    times_s = scenario.times_s
    found = best_rates(slowest_process(scenario.one_epoch))
    ends = (found.rates[0], found.rates[-1]) if found.n > 1 else None
    words = f"{short_number(times_s.min())} s; {found.reason}"
    return Measured(times_s.idxmin(), words, ends)


def rates_limited_by(
    scenario: ScenarioTables,
    io_class: str,
    below_percent: float = np.inf,
    above_percent: float = -np.inf,
) -> Measured:
    """Return at how many percent of the cache rates a class is the bottleneck."""
    times_s = scenario.class_times_s
    inside = (times_s.index < below_percent) & (times_s.index > above_percent)
    bottlenecks = times_s[inside].idxmax(axis="columns")
    limited = bottlenecks == io_class
    details = f"{limited.sum()} of {len(limited)} cache rates"
    others = [f"{_label(k)} at {rate} %" for rate, k in bottlenecks[~limited].items()]
    if others:
        shown = others[:2] + (["..."] if len(others) > 2 else [])
        details += f"; {', '.join(shown)}"
    return Measured(100 * limited.mean(), details)


def linear_growth(
    scenario: ScenarioTables, io_class: str, above_percent: float
) -> Measured:
    """Return how much of the variance of a class's time a straight line explains.

    That is R² in percent, over the cache rates above a limit; 0 if the line falls.
    """
    times_s = scenario.class_times_s[io_class]
    times_s = times_s[times_s.index > above_percent]
    slope = np.polyfit(times_s.index, times_s, 1)[0]
    r_squared = np.corrcoef(times_s.index, times_s)[0, 1] ** 2 if slope > 0 else 0.0
    return Measured(100 * r_squared, f"{short_number(10 * slope)} s per 10 points")


def least_share(
    scenario: ScenarioTables, io_classes: Sequence[str], rates_percent: Sequence[int]
) -> Measured:
    """Return the least share of some classes at some cache rates in percent."""
    rates = [scenario.rate(percent) for percent in rates_percent]
    times_s = scenario.class_times_s.loc[rates]
    shares = 100 * times_s[list(io_classes)].div(times_s.sum(axis="columns"), axis=0)
    least = defined(shares.stack())
    rate, io_class = least.idxmin()
    return Measured(least.min(), f"{_label(io_class)} at {rate} %")


def gain_above(scenario: ScenarioTables, at_percent: int) -> Measured:
    """Return by how many percent the best higher cache rate shortens the I/O time."""
    rate = scenario.rate(at_percent)
    above_s = scenario.times_s[scenario.times_s.index > rate]
    value = 100 * (1 - above_s.min() / scenario.times_s[rate])
    return Measured(value, f"{above_s.idxmin()} % instead of {rate} %")


def largest_gain(scenario: ScenarioTables) -> Measured:
    """Return by how many percent the best cache rate shortens the time at 0 %."""
    times_s = scenario.times_s
    value = 100 * (1 - times_s.min() / times_s[scenario.rate(0)])
    return Measured(value, f"best at {times_s.idxmin()} %")


def sufficient_volume(
    scenario: ScenarioTables, dataset_gb: float, within_percent: float
) -> Measured:
    """Return the LFS volume in GB that is enough for about the best I/O time.

    That is the volume at the lowest cache rate with a time within some percent of the
    best.
    """
    times_s = scenario.times_s
    enough = times_s <= times_s.min() * (1 + within_percent / 100)
    rate = times_s.index[enough].min()
    return Measured(dataset_gb * rate / 100, f"{rate} % is enough")


def constant_difference(*scenarios: ScenarioTables) -> Measured:
    """Return how much variance of the execution time I/O time plus a constant explains.

    That is R² in percent, over all epochs and cache rates of a scenario with one
    constant; 0 if the constant is not above 0. The least of the scenarios counts.
    """
    values, constants_s = {}, []
    for scenario in scenarios:
        if scenario.epochs.empty:
            raise NotMeasurable(f"no execution times of {scenario.title}")
        by = ["cache_rate_percent", "epoch", "quantity"]
        times_s = scenario.epoch_times.groupby(by)["time_s"].mean().unstack().dropna()
        if len(times_s) < 2:
            raise NotMeasurable(f"fewer than two execution times of {scenario.title}")
        execution_s = times_s["execution time"]
        if np.allclose(execution_s, execution_s.iloc[0], rtol=_ROUNDING, atol=0):
            raise NotMeasurable(
                f"the execution time of {scenario.title} never varies, so there is no "
                "variance to explain"
            )
        difference_s = execution_s - times_s["I/O time"]
        if np.allclose(execution_s, times_s["I/O time"], rtol=_ROUNDING, atol=0):
            raise NotMeasurable(
                f"the execution time of {scenario.title} equals the I/O time: nothing "
                "else takes time there"
            )
        constants_s.append(difference_s.mean())
        value = 100 * (1 - difference_s.var() / execution_s.var())
        values[scenario.title] = value if constants_s[-1] > 0 else 0.0
    worst = min(values, key=values.get)
    span = [short_number(bound) for bound in (min(constants_s), max(constants_s))]
    details = f"{' to '.join(dict.fromkeys(span))} s longer; least in {worst}"
    return Measured(values[worst], details)


def ratio_of_gains(slow: ScenarioTables, fast: ScenarioTables) -> Measured:
    """Return how much more the LFS shortens the I/O time of the first scenario.

    The gain of a scenario is its time without LFS divided by its least time.
    """
    gains = [s.times_s[s.rate(0)] / s.times_s.min() for s in (slow, fast)]
    words = [f"{short_number(gain)} x" for gain in gains]
    return Measured(gains[0] / gains[1], " against ".join(words))


def _shared_rates(slow: ScenarioTables, fast: ScenarioTables) -> list[int]:
    """Return the cache rates that were measured in both scenarios."""
    if not (rates := [rate for rate in slow.rates if rate in fast.rates]):
        raise NotMeasurable(f"{slow.title} and {fast.title} share no cache rate")
    return rates


def largest_time_ratio(
    slow: ScenarioTables, fast: ScenarioTables, io_class: str, below_percent: float
) -> Measured:
    """Return the largest ratio of a class's times, first over second scenario."""
    rates = [r for r in _shared_rates(slow, fast) if r < below_percent]
    if not rates:
        raise NotMeasurable(
            f"{slow.title} and {fast.title} share no cache rate below {below_percent} %"
        )
    times_s = [s.class_times_s.loc[rates, io_class] for s in (slow, fast)]
    ratios = defined(times_s[0] / times_s[1])
    return Measured(ratios.max(), f"at {ratios.idxmax()} %")


def throughput_ratio(scenario: ScenarioTables) -> Measured:
    """Return the ratio of the throughputs from the GFS alone and from the LFS alone."""
    by = ["cache_rate_percent", "repetition"]
    sums = scenario.one_epoch.groupby(by)["bytes"].sum()
    read_bytes = sums.groupby("cache_rate_percent").mean()
    rates = [scenario.rate(0), scenario.rate(100)]
    gfs, lfs = ((read_bytes / scenario.times_s)[rate] / 2**20 for rate in rates)
    words = f"GFS {short_number(gfs)} MiB/s, LFS {short_number(lfs)} MiB/s"
    return Measured(gfs / lfs, words)


def shift_of_best_rate(
    scenario: ScenarioTables, improvement_percent: Mapping[str, int]
) -> Measured:
    """Return by how many points an improvement moves the best cache rate."""
    before = scenario.times_s.idxmin()
    after = scenario.improved_times_s(improvement_percent).idxmin()
    moved = f"{before} → {after} %" if before != after else f"stays at {before} %"
    return Measured(after - before, moved)


def cut_of_best_time(
    scenario: ScenarioTables, improvement_percent: Mapping[str, int]
) -> Measured:
    """Return by how many percent an improvement cuts the least I/O time."""
    before_s = scenario.times_s.min()
    after_s = scenario.improved_times_s(improvement_percent).min()
    words = f"{short_number(before_s)} → {short_number(after_s)} s"
    return Measured(100 * (1 - after_s / before_s), words)


def goal_s(scenario: ScenarioTables, goal: Mapping[str, Any]) -> float:
    """Return the paper's goal on its system, and a part of the best time elsewhere."""
    if scenario.key("system") == goal["system"]:
        return goal["seconds"]
    return scenario.times_s.min() * (goal["percent_of_best"] / 100)


def least_improvement(
    scenario: ScenarioTables,
    io_class: str,
    others: Sequence[str],
    fixed_percent: Mapping[str, int],
    at_percent: int,
    grid: Mapping[str, int],
    goal: Mapping[str, Any],
) -> Measured:
    """Return the least improvement of a class that meets the goal at a cache rate.

    `others` may improve too, up to the end of the grid, and `fixed_percent` are made in
    any case. The goal is that of `goal_s`.
    """
    rate, limit_s = scenario.rate(at_percent), goal_s(scenario, goal)
    steps = range(0, grid["max_improvement_percent"] + 1, grid["step_percent"])
    classes = [io_class, *others]
    improvements = [
        {**fixed_percent, **dict(zip(classes, percents, strict=True))}
        for percents in itertools.product(steps, repeat=len(classes))
    ]
    points = scenario.points(improvements, [rate])
    met = points[points["io_time_s"] <= limit_s]
    goal_words = f"goal {short_number(limit_s)} s"
    if met.empty:
        return Measured(None, f"not up to +{steps[-1]} %; {goal_words}")
    column = f"{io_class}_improvement_percent"
    least = met.sort_values([column, *IMPROVEMENTS]).iloc[0]
    given = {name: n for name, n in _improvement(least).items() if name != io_class}
    words = f"with {_improvement_words(given)}; {goal_words}" if given else goal_words
    return Measured(least[column], words)


def best_single_improvement(
    scenario: ScenarioTables, max_improvement_percent: int, goal: Mapping[str, Any]
) -> Measured:
    """Return the least I/O time that one improved class reaches, in % of the goal.

    The cache rate is the best one. The details name the fastest point at another rate
    if that point meets the goal and the best rate does not.
    """
    rate, limit_s = scenario.times_s.idxmin(), goal_s(scenario, goal)
    improvements = [{name: max_improvement_percent} for name in CLASSES]
    points = scenario.points(improvements, scenario.rates)
    points = points.sort_values("io_time_s", kind="stable")
    best, fastest = points[points["cache_rate_percent"] == rate].iloc[0], points.iloc[0]
    details = (
        f"{_improvement_words(_improvement(best))} at {rate} %: "
        f"{short_number(best['io_time_s'])} s, goal {short_number(limit_s)} s"
    )
    if fastest["io_time_s"] <= limit_s < best["io_time_s"]:
        details += (
            f"; {_improvement_words(_improvement(fastest))} would meet it at "
            f"{fastest['cache_rate_percent']} %"
        )
    return Measured(100 * best["io_time_s"] / limit_s, details)


def prediction_error(slow: ScenarioTables, fast: ScenarioTables) -> Measured:
    """Return the mean error of I/O time scaled from few OSTs to many, in percent."""
    n_slow, n_fast = (int(scenario.key("n_osts")) for scenario in (slow, fast))
    if n_fast == 0:
        raise NotMeasurable("the fast GFS is a plain directory, without known OSTs")
    more_percent = round(100 * (n_fast / n_slow - 1))
    rates = _shared_rates(slow, fast)
    predicted_s = slow.improved_times_s({"gfs_read": more_percent})[rates]
    measured_s = fast.times_s[rates]
    errors = defined(100 * abs(predicted_s / measured_s - 1))
    rate = errors.idxmax()
    words = [short_number(times_s[rate]) for times_s in (predicted_s, measured_s)]
    details = f"at {rate} %: predicted {words[0]} s, found {words[1]} s"
    return Measured(errors.mean(), details)


def largest_hit_difference(*scenarios: ScenarioTables) -> Measured:
    """Return by how many files the LFS reads of an epoch differ from the cache rate."""
    by = [*SCENARIO, "cache_rate_percent", "repetition", "epoch"]
    counts = pd.concat([n_opens(scenario.io_time, by) for scenario in scenarios])
    rates = counts.index.get_level_values("cache_rate_percent")
    hits = counts["lfs_meta"]
    difference = abs(hits - rates / 100 * counts.sum(axis="columns"))
    return Measured(difference.max(), f"{len(counts)} epochs of all runs")


def claims_that_hold(results: Mapping[str, str], claims: Sequence[str]) -> Measured:
    """Return how many of some claims hold, from the status of each."""
    if missing := [name for name in claims if results[name] == UNMEASURABLE]:
        raise NotMeasurable(f"{' and '.join(missing)} cannot be measured")
    words = [f"{name} {results[name]}" for name in claims]
    n_holding, n_undecided = (
        sum(results[name] == status for name in claims) for status in (HOLDS, UNDECIDED)
    )
    ends = (n_holding, n_holding + n_undecided)
    return Measured(n_holding, ", ".join(words), ends)


FORMULAS: dict[str, Callable[..., Measured]] = {
    formula.__name__: formula
    for formula in (
        best_cache_rate,
        best_single_improvement,
        constant_difference,
        cut_of_best_time,
        gain_above,
        largest_gain,
        largest_hit_difference,
        largest_time_ratio,
        least_improvement,
        least_share,
        linear_growth,
        prediction_error,
        rates_limited_by,
        ratio_of_gains,
        shift_of_best_rate,
        sufficient_volume,
        throughput_ratio,
    )
}
OF_CLAIMS = claims_that_hold.__name__
# These name a bottleneck by its I/O time, which computation may hide.
OF_BOTTLENECKS = {rates_limited_by.__name__}
# Counts of all runs, which no repetition can change.
EXACT = {largest_hit_difference.__name__, OF_CLAIMS}
