"""Check what the paper claims against the tables of an experiment.

`resources/paper/claims.yaml` says what is claimed; here each claim's formula turns the
tables into one number. The claim holds if that number lies within the claim's bounds,
does not hold if not, and is not measurable here if the experiment lacks what it needs:
a scenario, a second epoch, cache rates. The rule of what an improvement brings is that
of `tierscope.whatif`.

Times are means over the repetitions, of the epoch of the figures unless said otherwise.
"""

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tierscope.breakdown import (
    CLASSES,
    SCENARIO,
    epoch_times,
    select_epoch,
    select_scenario,
)
from tierscope.io_class import IOClass
from tierscope.plot import scenario_titles
from tierscope.tables import TABLES
from tierscope.validation import ConfigError, check, read_yaml
from tierscope.whatif import IMPROVEMENTS, estimate, mean_over_repetitions

HOLDS, FAILS, UNMEASURABLE = "holds", "does not hold", "not measurable here"
BOUNDS = {
    "at_least": np.greater_equal,
    "at_most": np.less_equal,
    "more_than": np.greater,
}
_HALF_STEP_PERCENT = 2.5  # of the paper's cache rates
_DIGITS = 9  # a bound is met if rounding is all that is missing
_ROUNDING = 1e-9  # of a time: differences below are none


class NotMeasurable(Exception):
    """The experiment lacks what a claim needs; the message says what."""


class Measured(NamedTuple):
    """A claim's number, and what it is made of in words.

    `value` is None if there is no such number, so that the claim does not hold.
    """

    value: float | None
    details: str


@dataclass(frozen=True)
class ScenarioTables:
    """What an experiment measured in one scenario.

    Parameters
    ----------
    io_time, epochs : DataFrame
        The scenario's rows of these tables, all epochs; `epochs` may be empty.
    breakdown : DataFrame
        The scenario's rows of table ``breakdown``, of one epoch.
    epoch : int
        That epoch, counted from 0.
    title : str
        What to call the scenario, such as ``128 KiB files, 60 OSTs``.
    """

    io_time: pd.DataFrame
    breakdown: pd.DataFrame
    epochs: pd.DataFrame
    epoch: int
    title: str

    def key(self, name: str) -> Any:
        """Return one of the keys of the scenario, such as its ``n_osts``."""
        return self.io_time[name].iloc[0]

    @cached_property
    def file_size_bytes(self) -> float:
        """Return the mean size of the files that were read, in bytes."""
        sums = self.io_time.groupby("io_class")[["operations", "bytes"]].sum()
        opens = sums.loc[[IOClass.GFS_META, IOClass.LFS_META], "operations"].sum()
        return sums["bytes"].sum() / opens if opens else 0.0

    def is_of(self, facts: Mapping[str, Any]) -> bool:
        """Return whether keys, number of processes and files an epoch are as given."""
        by = ["cache_rate_percent", "repetition"]
        found = {name: self.key(name) for name in SCENARIO} | {
            "n_processes": self.io_time["rank"].nunique(),
            "n_files": _n_opens(self.one_epoch, by).sum(axis="columns").max(),
        }
        return all(found[name] == value for name, value in facts.items())

    @cached_property
    def n_repetitions(self) -> int:
        """Return how often each cache rate was run at least."""
        by_rate = self.io_time.groupby("cache_rate_percent")["repetition"]
        return int(by_rate.nunique().min())

    @cached_property
    def rates(self) -> list[int]:
        """Return the measured cache rates in percent, ascending."""
        return sorted(self.io_time["cache_rate_percent"].unique().tolist())

    def rate(self, wanted_percent: float) -> int:
        """Return the measured cache rate at or within half a step of one."""
        near = min(self.rates, key=lambda rate: abs(rate - wanted_percent))
        if abs(near - wanted_percent) > _HALF_STEP_PERCENT:
            raise NotMeasurable(
                f"no cache rate of {wanted_percent} % (within {_HALF_STEP_PERCENT} "
                f"points) was measured for {self.title}"
            )
        return near

    @cached_property
    def one_epoch(self) -> pd.DataFrame:
        """Return the rows of ``io_time`` of the epoch."""
        return select_epoch(self.io_time, self.epoch)

    @cached_property
    def times_s(self) -> pd.Series:
        """Return the I/O time of the slowest process in seconds; index: cache rate."""
        return self.improved_times_s({})

    def improved_times_s(self, improvement_percent: Mapping[str, int]) -> pd.Series:
        """Return `times_s` after an improvement."""
        points = self.points([improvement_percent], self.rates)
        return points.set_index("cache_rate_percent")["io_time_s"]

    def points(
        self, improvements_percent: Iterable[Mapping[str, int]], rates: Sequence[int]
    ) -> pd.DataFrame:
        """Return the I/O time after improvements at some of the cache rates."""
        rows = self.one_epoch[self.one_epoch["cache_rate_percent"].isin(rates)]
        return mean_over_repetitions(estimate(rows, improvements_percent, [self.epoch]))

    @cached_property
    def class_times_s(self) -> pd.DataFrame:
        """Return the slowest process's seconds by cache rate (index) and I/O class."""
        by = ["cache_rate_percent", "io_class"]
        return self.breakdown.groupby(by)["time_s"].mean().unstack()[CLASSES]


def number_words(value: float) -> str:
    """Return a number with three digits, such as ``12.8``."""
    text = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("-", "\N{MINUS SIGN}")


def accept_words(accept: Mapping[str, float], unit: str) -> str:
    """Return the bounds of a claim, such as ``60 to 70 %`` or ``at least 10 %``."""
    if {"at_least", "at_most"} <= set(accept):
        bounds = [number_words(accept[name]) for name in ("at_least", "at_most")]
        return f"{' to '.join(dict.fromkeys(bounds))} {unit}"
    return " and ".join(
        f"{name.replace('_', ' ')} {number_words(bound)} {unit}"
        for name, bound in accept.items()
    )


def _label(io_class: str) -> str:
    """Return the paper's spelling of an I/O class."""
    return IOClass(io_class).label


def _defined(values: pd.Series) -> pd.Series:
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
    """Return the cache rate with the least I/O time in percent, of equal the lowest."""
    times_s = scenario.times_s
    return Measured(times_s.idxmin(), f"{number_words(times_s.min())} s")


def rates_limited_by(
    scenario: ScenarioTables,
    io_class: str,
    below_percent: float = np.inf,
    above_percent: float = -np.inf,
) -> Measured:
    """Return the percentage of the cache rates at which a class is the bottleneck."""
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
    """Return how much of a class's time a line over the cache rate explains.

    That is R² in percent, over the cache rates above one; 0 if the line falls.
    """
    times_s = scenario.class_times_s[io_class]
    times_s = times_s[times_s.index > above_percent]
    slope = np.polyfit(times_s.index, times_s, 1)[0]
    r_squared = np.corrcoef(times_s.index, times_s)[0, 1] ** 2 if slope > 0 else 0.0
    return Measured(100 * r_squared, f"{number_words(10 * slope)} s per 10 points")


def least_share(
    scenario: ScenarioTables, io_classes: Sequence[str], rates_percent: Sequence[int]
) -> Measured:
    """Return the least share of some classes at some cache rates in percent."""
    rates = [scenario.rate(percent) for percent in rates_percent]
    times_s = scenario.class_times_s.loc[rates]
    shares = 100 * times_s[list(io_classes)].div(times_s.sum(axis="columns"), axis=0)
    least = _defined(shares.stack())
    rate, io_class = least.idxmin()
    return Measured(least.min(), f"{_label(io_class)} at {rate} %")


def gain_above(scenario: ScenarioTables, at_percent: int) -> Measured:
    """Return by how many percent the best cache rate above one shortens its time."""
    rate = scenario.rate(at_percent)
    above_s = scenario.times_s[scenario.times_s.index > rate]
    value = 100 * (1 - above_s.min() / scenario.times_s[rate])
    return Measured(value, f"{above_s.idxmin()} % instead of {rate} %")


def largest_gain(scenario: ScenarioTables) -> Measured:
    """Return by how many percent the best cache rate shortens the time at none."""
    times_s = scenario.times_s
    value = 100 * (1 - times_s.min() / times_s[scenario.rate(0)])
    return Measured(value, f"best at {times_s.idxmin()} %")


def sufficient_volume(
    scenario: ScenarioTables, dataset_gb: float, within_percent: float
) -> Measured:
    """Return the LFS volume in GB that is enough for about the best I/O time.

    That is the least cache rate with a time within some percent of the best, as a part
    of the dataset.
    """
    times_s = scenario.times_s
    enough = times_s <= times_s.min() * (1 + within_percent / 100)
    rate = times_s.index[enough].min()
    return Measured(dataset_gb * rate / 100, f"{rate} % is enough")


def constant_difference(*scenarios: ScenarioTables) -> Measured:
    """Return how much of the execution time I/O time plus a constant explains.

    That is R² in percent, over all epochs and cache rates with one constant; the least
    of the scenarios; 0 if the constant is not above 0.
    """
    values, constants_s = {}, []
    for scenario in scenarios:
        if scenario.epochs.empty:
            raise NotMeasurable(f"no execution times of {scenario.title}")
        times = epoch_times(scenario.epochs, scenario.io_time)
        by = ["cache_rate_percent", "epoch", "quantity"]
        times_s = times.groupby(by)["time_s"].mean().unstack().dropna()
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
                f"the execution time of {scenario.title} is the I/O time: nothing else "
                "takes time there"
            )
        constants_s.append(difference_s.mean())
        value = 100 * (1 - difference_s.var() / execution_s.var())
        values[scenario.title] = value if constants_s[-1] > 0 else 0.0
    worst = min(values, key=values.get)
    span = [number_words(bound) for bound in (min(constants_s), max(constants_s))]
    details = f"{' to '.join(dict.fromkeys(span))} s longer; least in {worst}"
    return Measured(values[worst], details)


def ratio_of_gains(slow: ScenarioTables, fast: ScenarioTables) -> Measured:
    """Return how much more the LFS shortens the I/O time of the first scenario.

    The gain of a scenario is its time without LFS over its least time.
    """
    gains = [s.times_s[s.rate(0)] / s.times_s.min() for s in (slow, fast)]
    words = [f"{number_words(gain)} x" for gain in gains]
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
    ratios = _defined(times_s[0] / times_s[1])
    return Measured(ratios.max(), f"at {ratios.idxmax()} %")


def throughput_ratio(scenario: ScenarioTables) -> Measured:
    """Return the throughput of all processes from the GFS alone over the LFS alone."""
    by = ["cache_rate_percent", "repetition"]
    sums = scenario.one_epoch.groupby(by)["bytes"].sum()
    read_bytes = sums.groupby("cache_rate_percent").mean()
    rates = [scenario.rate(0), scenario.rate(100)]
    gfs, lfs = ((read_bytes / scenario.times_s)[rate] / 2**20 for rate in rates)
    words = f"GFS {number_words(gfs)} MiB/s, LFS {number_words(lfs)} MiB/s"
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
    words = f"{number_words(before_s)} → {number_words(after_s)} s"
    return Measured(100 * (1 - after_s / before_s), words)


def goal_s(scenario: ScenarioTables, goal: Mapping[str, Any]) -> float:
    """Return the paper's goal on its system, elsewhere a part of the best time."""
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

    Parameters
    ----------
    scenario : ScenarioTables
        The scenario.
    io_class : str
        The class whose improvement in percent is returned.
    others : sequence of str
        Classes that may improve too, as far as the grid goes.
    fixed_percent : mapping of str to int
        Improvements in percent that are there in any case.
    at_percent : int
        The cache rate in percent.
    grid : mapping
        ``max_improvement_percent`` and ``step_percent`` of what is tried.
    goal : mapping
        As for `goal_s`.
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
    goal_words = f"goal {number_words(limit_s)} s"
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

    That is at the best cache rate; the details name the fastest point at another rate
    if that meets the goal and the best rate does not.
    """
    rate, limit_s = scenario.times_s.idxmin(), goal_s(scenario, goal)
    improvements = [{name: max_improvement_percent} for name in CLASSES]
    points = scenario.points(improvements, scenario.rates)
    points = points.sort_values("io_time_s", kind="stable")
    best, fastest = points[points["cache_rate_percent"] == rate].iloc[0], points.iloc[0]
    details = (
        f"{_improvement_words(_improvement(best))} at {rate} %: "
        f"{number_words(best['io_time_s'])} s, goal {number_words(limit_s)} s"
    )
    if fastest["io_time_s"] <= limit_s < best["io_time_s"]:
        details += (
            f"; {_improvement_words(_improvement(fastest))} would do at "
            f"{fastest['cache_rate_percent']} %"
        )
    return Measured(100 * best["io_time_s"] / limit_s, details)


def prediction_error(slow: ScenarioTables, fast: ScenarioTables) -> Measured:
    """Return the mean error of I/O time scaled from few OSTs to many, in percent."""
    n_slow, n_fast = (int(scenario.key("n_osts")) for scenario in (slow, fast))
    if n_fast == 0:
        raise NotMeasurable("the fast GFS is a plain directory, of unknown OSTs")
    more_percent = round(100 * (n_fast / n_slow - 1))
    rates = _shared_rates(slow, fast)
    predicted_s = slow.improved_times_s({"gfs_read": more_percent})[rates]
    measured_s = fast.times_s[rates]
    errors = _defined(100 * abs(predicted_s / measured_s - 1))
    rate = errors.idxmax()
    words = [number_words(times_s[rate]) for times_s in (predicted_s, measured_s)]
    details = f"at {rate} %: predicted {words[0]} s, found {words[1]} s"
    return Measured(errors.mean(), details)


def largest_hit_difference(*scenarios: ScenarioTables) -> Measured:
    """Return by how many files an epoch's LFS reads differ from the cache rate."""
    by = [*SCENARIO, "cache_rate_percent", "repetition", "epoch"]
    counts = pd.concat([_n_opens(scenario.io_time, by) for scenario in scenarios])
    rates = counts.index.get_level_values("cache_rate_percent")
    hits = counts["lfs_meta"]
    difference = abs(hits - rates / 100 * counts.sum(axis="columns"))
    return Measured(difference.max(), f"{len(counts)} epochs of all runs")


def _n_opens(io_time: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the number of opens by some keys (index) and metadata class."""
    opens = io_time[io_time["io_class"].isin([IOClass.GFS_META, IOClass.LFS_META])]
    sums = opens.groupby([*by, "io_class"])["operations"].sum()
    return sums.unstack("io_class")


def claims_that_hold(results: Mapping[str, str], claims: Sequence[str]) -> Measured:
    """Return how many of some claims hold, from the status of each."""
    if missing := [name for name in claims if results[name] == UNMEASURABLE]:
        raise NotMeasurable(f"{' and '.join(missing)} cannot be measured")
    words = [f"{name} {results[name]}" for name in claims]
    return Measured(sum(results[name] == HOLDS for name in claims), ", ".join(words))


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
_OF_CLAIMS = claims_that_hold.__name__


def read_claims(path: str | Path) -> dict[str, Any]:
    """Read and check ``claims.yaml``.

    Raises
    ------
    ConfigError
        One line that names the key path, the value and what was expected.
    """
    paper = read_yaml(path)
    check(paper, "claims", str(path))
    ids = [claim["id"] for claim in paper["claims"]]
    for number, claim in enumerate(paper["claims"]):
        where = f"{path}: claims.{claim['id']}"
        if claim["id"] in ids[:number]:
            raise ConfigError(f"{where}.id: got it twice, expected it once")
        if claim["scenarios"] != "all":
            _check_words(claim["scenarios"], paper["scenarios"], f"{where}.scenarios")
        _check_formula(claim, where)
        if claim["formula"] == _OF_CLAIMS:
            known = ids[:number]
            _check_words(claim["parameters"]["claims"], known, f"{where}.parameters")
    fitted, misses = paper["fitted"], paper["fitted"]["misses"]
    for part in ("targets", "by_hand", "derived"):
        _check_words(fitted[part], ids, f"{path}: fitted.{part}")
    _check_words(misses["why"], ids, f"{path}: fitted.misses.why")
    _check_words(misses["of"], paper["scenarios"], f"{path}: fitted.misses.of")
    for claim in paper["claims"]:
        if claim["id"] in misses["why"]:
            where = f"{path}: fitted.misses.why.{claim['id']}.scenarios"
            scenarios = claim["scenarios"]
            _check_words(
                ["all"] if scenarios == "all" else scenarios, misses["of"], where
            )
    return paper


def _check_formula(claim: Mapping[str, Any], where: str) -> None:
    """Refuse a formula that is not known or cannot take what the claim gives it."""
    _check_words([claim["formula"]], [*FORMULAS, _OF_CLAIMS], f"{where}.formula")
    given = claim.get("parameters", {})
    if claim["formula"] == _OF_CLAIMS:
        formula, arguments = claims_that_hold, [{}]
    else:
        formula = FORMULAS[claim["formula"]]
        arguments = [] if claim["scenarios"] == "all" else claim["scenarios"]
    try:
        inspect.signature(formula).bind(*arguments, **given)
    except TypeError as error:
        raise ConfigError(
            f"{where}: got scenarios {claim['scenarios']} and parameters "
            f"{', '.join(given) or 'none'}, expected what {claim['formula']} takes "
            f"({error})"
        ) from None


def _check_words(words: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse words that are not known."""
    if unknown := [word for word in words if word not in known]:
        raise ConfigError(
            f"{where}: got {', '.join(unknown)}, expected some of {', '.join(known)}"
        )


def score_claims(
    paper: Mapping[str, Any],
    io_time: pd.DataFrame,
    breakdown: pd.DataFrame,
    epochs: pd.DataFrame,
    *,
    epoch: int,
    policy: str,
    loader: str,
    model: str,
    dataset_titles: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Check every claim of a paper against an experiment.

    Parameters
    ----------
    paper : mapping
        What `read_claims` returns.
    io_time, breakdown, epochs : DataFrame
        These tables, of one source and system; `epochs` may lack runs.
    epoch : int
        The epoch that stands for the paper's second, counted from 0.
    policy, loader : str
        Only runs with these count.
    model : str
        The system whose devices were emulated or simulated; of no use if measured.
    dataset_titles : mapping of str to str, optional
        What to call each dataset, as for `tierscope.plot.scenario_titles`.

    Returns
    -------
    DataFrame, shape (n_claims, 17)
        Table ``claims``, in the order of the paper's claims.

    Raises
    ------
    ValueError
        If the tables hold no run of the policy and loader, several sources or systems,
        or not the epoch.
    """
    wanted = {"policy": policy, "loader": loader}
    present = io_time[SCENARIO].drop_duplicates()
    present = present[(present[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    origins = present[["source", "system"]].drop_duplicates().to_dict("records")
    if len(origins) != 1:
        raise ValueError(f"claims: got runs of {origins} with {wanted}, expected one.")
    scenarios = [
        _tables_of(keys, io_time, breakdown, epochs, epoch)
        for keys in scenario_titles(present, dataset_titles).to_dict("records")
    ]
    results: dict[str, str] = {}
    table = []
    for claim in paper["claims"]:
        used, measured, reason = [], Measured(None, ""), ""
        try:
            used = _scenarios_of(claim, paper["scenarios"], scenarios)
            measured = _measure(claim, used, results)
            status = judge(claim["accept"], measured.value)
            stated = judge(claim.get("stated", {}), measured.value)
            if (status, stated) == (HOLDS, FAILS):
                measured = measured._replace(
                    details=f"{measured.details}, within tolerance"
                )
            if status == FAILS:
                reason = _why_missed(claim, paper["fitted"], origins[0], model, used)
        except NotMeasurable as missing:
            status, reason = UNMEASURABLE, str(missing)
        results[claim["id"]] = status
        table.append(
            origins[0]
            | {name: claim[name] for name in ("section", "title", "statement")}
            | {
                "claim": claim["id"],
                "scenarios": "; ".join(scenario.title for scenario in used),
                "n_repetitions": min((s.n_repetitions for s in used), default=0),
                "expected": claim["expected"],
                "accepted": accept_words(claim["accept"], claim["unit"]),
                "tolerance": claim["tolerance"],
                "measured": measured_words(measured, status, claim["unit"]),
                "details": measured.details,
                "value": np.nan if measured.value is None else float(measured.value),
                "status": status,
                "reason": reason,
                "fitted": _fitted(claim["id"], paper["fitted"], origins[0], model),
            }
        )
    return pd.DataFrame(table)[list(TABLES["claims"])]


def _tables_of(
    keys: Mapping[str, Any],
    io_time: pd.DataFrame,
    breakdown: pd.DataFrame,
    epochs: pd.DataFrame,
    epoch: int,
) -> ScenarioTables:
    """Return the tables of one scenario, a row of `scenario_titles`."""
    title = keys["title"]
    keys = {name: keys[name] for name in SCENARIO}
    execution = epochs[(epochs[SCENARIO] == pd.Series(keys)).all(axis=1)]
    return ScenarioTables(
        io_time=select_scenario(io_time, keys),
        breakdown=select_epoch(select_scenario(breakdown, keys), epoch),
        epochs=execution,
        epoch=epoch,
        title=title,
    )


def _scenarios_of(
    claim: Mapping[str, Any],
    roles: Mapping[str, Mapping[str, Any]],
    scenarios: Sequence[ScenarioTables],
) -> list[ScenarioTables]:
    """Return the scenarios that a claim is about, or raise a NotMeasurable."""
    if claim["scenarios"] == "all":
        return list(scenarios)
    return [_find(roles[name], scenarios) for name in claim["scenarios"]]


def _find(
    role: Mapping[str, Any], scenarios: Sequence[ScenarioTables]
) -> ScenarioTables:
    """Return the scenario with a role's file size and speed of the GFS."""
    size = role["file_size_bytes"]
    kib = f"{size / 1024:.10g} KiB" if size < 2**20 else f"{size / 2**20:.10g} MiB"
    slow = role["gfs"] == "slow"
    words = f"{kib} files on {'one OST' if slow else 'the fast GFS'}"
    found = [
        scenario
        for scenario in scenarios
        if scenario.file_size_bytes == size and (scenario.key("n_osts") == 1) == slow
    ]
    if not found:
        present = "; ".join(scenario.title for scenario in scenarios)
        raise NotMeasurable(f"no scenario of {words} (there are: {present})")
    if len({scenario.key("dataset") for scenario in found}) > 1:
        names = "; ".join(scenario.title for scenario in found)
        raise NotMeasurable(f"several scenarios of {words}: {names}")
    return max(found, key=lambda scenario: scenario.key("n_osts"))


def _measure(
    claim: Mapping[str, Any],
    scenarios: Sequence[ScenarioTables],
    results: Mapping[str, str],
) -> Measured:
    """Return a claim's number, or raise a NotMeasurable."""
    for scenario in scenarios:
        if scenario.io_time["epoch"].nunique() < claim["least_epochs"]:
            raise NotMeasurable("one epoch only; the paper looks at the second")
        for rate in claim["cache_rates_percent"]:
            scenario.rate(rate)
    parameters = claim.get("parameters", {})
    if claim["formula"] == _OF_CLAIMS:
        return claims_that_hold(results, **parameters)
    with np.errstate(divide="ignore", invalid="ignore"):
        measured = FORMULAS[claim["formula"]](*scenarios, **parameters)
    if measured.value is not None:
        _defined(pd.Series(measured.value))
    return measured


def judge(accept: Mapping[str, float], value: float | None) -> str:
    """Return whether a number lies within a claim's bounds."""
    if value is None:
        return FAILS
    value = round(float(value), _DIGITS)
    within = all(BOUNDS[name](value, bound) for name, bound in accept.items())
    return HOLDS if within else FAILS


def measured_words(measured: Measured, status: str, unit: str) -> str:
    """Return a claim's number with its unit, ``none``, or nothing if not measurable."""
    if measured.value is None:
        return "" if status == UNMEASURABLE else "none"
    return f"{number_words(round(measured.value, 2))} {unit}"


def _why_missed(
    claim: Mapping[str, Any],
    fitted: Mapping[str, Any],
    origin: Mapping[str, str],
    model: str,
    used: Sequence[ScenarioTables],
) -> str:
    """Return why the fitted model misses a claim; nothing for other numbers."""
    misses = fitted["misses"]
    known = origin["source"] == "simulated" and model == fitted["system"]
    if not known or claim["id"] not in misses["why"]:
        return ""
    of = misses["of"]
    agree = all(
        name in of and scenario.is_of(of[name])
        for name, scenario in zip(claim["scenarios"], used, strict=True)
    )
    return misses["why"][claim["id"]] if agree else ""


def _fitted(
    claim: str, fitted: Mapping[str, Any], origin: Mapping[str, str], model: str
) -> str:
    """Return whether the devices behind the numbers were fitted to a claim."""
    if origin["source"] == "measured" or model != fitted["system"]:
        return "no"
    kinds = {"targets": "target", "by_hand": "by hand", "derived": "derived"}
    return next((kind for key, kind in kinds.items() if claim in fitted[key]), "no")
