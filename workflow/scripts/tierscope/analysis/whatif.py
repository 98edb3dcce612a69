"""Estimate the I/O time of an epoch if some I/O classes were faster.

N % more throughput of a class multiplies its time by 100 / (100 + N). The rule is
applied to every process before the slowest one is picked, because an improvement
can make another process the slowest (Fukai et al., Sec. 4.4).

Estimates are made for each repetition. Functions that summarise them (`best_point`,
`Goal.sufficient`, `make_goal`) first take the mean of the I/O time over the
repetitions. `tierscope.analysis.search` looks for combinations that meet a goal.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import (
    group_numbers,
    process_times,
    select_epoch,
    slowest_process,
    without_peers,
)
from tierscope.analysis.slowest.improved import improve, slowest_rows
from tierscope.analysis.slowest.times import ProcessTimes
from tierscope.core.columns import (
    CLASS_TIMES,
    CLASSES,
    IMPROVEMENTS,
    RULE,
    RUN_EPOCH,
    SCENARIO,
    TABLES,
)
from tierscope.core.io_class import total_s
from tierscope.core.tables import with_later_columns

# Steps along each axis of a map with expensive cells: by the model, or in the explorer.
MAX_MAP_STEPS = 20


@dataclass(frozen=True)
class Goal:
    """A goal for the time of an epoch.

    Parameters
    ----------
    of : {"io_time", "execution_time"}
        The time that must meet the goal; the execution time is estimated as the I/O
        time of the slowest process plus `difference_s`.
    seconds : float
        The largest time that meets the goal, above 0.
    difference_s : float
        Execution time minus I/O time, in seconds; 0 for a goal of I/O time.
    """

    of: str
    seconds: float
    difference_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse an invalid goal."""
        if self.of not in ("io_time", "execution_time"):
            raise ValueError(
                f"goal: got {self.of!r}, expected io_time or execution_time."
            )
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"goal: got {self.seconds} s, expected more than 0 s.")

    @property
    def io_time_s(self) -> float:
        """Return the I/O time that the goal leaves, in seconds (for figures)."""
        return self.seconds - self.difference_s

    def is_met(self, io_time_s: float | np.ndarray) -> bool | np.ndarray:
        """Return whether an I/O time in seconds meets the goal."""
        return io_time_s + self.difference_s <= self.seconds

    @property
    def columns(self) -> dict[str, str | float]:
        """Return the goal as columns of tables."""
        return {"goal_of": self.of, "goal_s": self.seconds, "goal_percent": math.nan}

    def sufficient(self, estimates: pd.DataFrame) -> pd.DataFrame:
        """Return the least cache rate with which each combination meets the goal.

        Parameters
        ----------
        estimates : DataFrame, shape (n_runs * n_epochs * n_improvements, 22)
            Table ``estimates``; if it has both methods, each is evaluated separately.
            The mean over the repetitions is compared.

        Returns
        -------
        DataFrame
            A row for each scenario, epoch, method and combination of improvements,
            sorted: ``sufficient`` says whether any cache rate meets the goal,
            ``min_cache_rate_percent`` (Int64) is the least that does, missing if none,
            and ``in_every_repetition`` whether each repetition meets the goal there.
        """
        points = mean_over_repetitions(estimates)
        points["sufficient"] = self.is_met(points["io_time_s"])
        points["in_every_repetition"] = self.is_met(points["max_io_time_s"])
        return least_sufficient_rates(points)

    def best(self, times: pd.DataFrame) -> pd.DataFrame:
        """Return the best points of times or estimates (`best_point`)."""
        return best_point(times)


def improvement_grid(
    classes: Sequence[str], max_improvement_percent: int, step_percent: int
) -> list[dict[str, int]]:
    """Return every combination of improvements of some classes (`grid_percents`)."""
    percents = grid_percents(max_improvement_percent, step_percent)
    return combinations_of(classes, percents)


def grid_percents(max_improvement_percent: int, step_percent: int) -> range:
    """Return the improvements of a class: 0, one step, two ... up to the largest."""
    if step_percent < 1:
        raise ValueError(f"step in percent: got {step_percent}, expected 1 or more.")
    return range(0, max_improvement_percent + 1, step_percent)


def combinations_of(
    classes: Sequence[str], percents: Iterable[int]
) -> list[dict[str, int]]:
    """Return every combination of some classes' improvements, each of `percents`."""
    combinations = itertools.product(percents, repeat=len(classes))
    return [
        dict(zip(map(str, classes), combination, strict=True))
        for combination in combinations
    ]


def wanted_improvements(
    improvements: Iterable[Mapping[str, int]],
    pairs: Iterable[Sequence[str]],
    percents: Sequence[int],
) -> list[Mapping[str, int]]:
    """Return no improvement, the single ones, and the map of each pair of classes."""
    maps = (combinations_of(pair, percents) for pair in pairs)
    return [{}, *improvements, *itertools.chain.from_iterable(maps)]


def map_step_percent(
    max_improvement_percent: int, step_percent: int, most_steps: int = MAX_MAP_STEPS
) -> int:
    """Return the step of a map: a multiple that makes `most_steps` at most."""
    n_steps = max_improvement_percent // step_percent
    return step_percent * max(1, math.ceil(n_steps / most_steps))


def map_percents(
    max_improvement_percent: int, step_percent: int, most_steps: int = MAX_MAP_STEPS
) -> list[int]:
    """Return the improvements on each axis of a map, in percent.

    The last step is shorter if the experiment's grid is not a multiple of the step.
    """
    end = max_improvement_percent // step_percent * step_percent
    step = map_step_percent(max_improvement_percent, step_percent, most_steps)
    return [*range(0, end, step), end]


def improvement_percents(improvements: Iterable[Mapping[str, int]]) -> np.ndarray:
    """Return checked improvements: int, shape (n_improvements, 4), by `IOClass`."""
    rows = []
    for improvement in improvements:
        if unknown := sorted(set(map(str, improvement)) - set(CLASSES)):
            raise ValueError(
                f"improvement {dict(improvement)}: got I/O classes {unknown}, "
                f"expected some of {CLASSES}."
            )
        for percent in improvement.values():
            whole = isinstance(percent, int | np.integer)
            if not whole or isinstance(percent, bool) or percent < 0:
                raise ValueError(
                    f"improvement {dict(improvement)}: got {percent!r} percent, "
                    "expected an integer of at least 0."
                )
        rows.append([int(improvement.get(name, 0)) for name in CLASSES])
    return np.array(rows, dtype=np.int64).reshape(-1, len(CLASSES))


def estimate(
    io_time: pd.DataFrame,
    improvements: Iterable[Mapping[str, int]],
    epochs: Iterable[int],
) -> pd.DataFrame:
    """Estimate the I/O time of the slowest process after each improvement.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` of any number of runs; those that read from other nodes are
        left out (`tierscope.analysis.breakdown.without_peers`).
    improvements : iterable of mappings of str to int
        Improvements in percent by I/O class, such as ``{"gfs_meta": 50}``; classes
        left out keep their time, ``{}`` is the measured time. One that is given
        twice is estimated once.
    epochs : iterable of int
        Epochs to estimate, counted from 0.

    Returns
    -------
    DataFrame, shape (n_runs * n_epochs * n_improvements, 22)
        Table ``estimates``, sorted by run, epoch and improvement: ``method`` is
        ``rule``, ``io_time_s`` in seconds, ``slowest_rank`` the process that is then
        the slowest (of equally slow ones the lowest rank), and its seconds by class.
        The rule knows neither execution time nor utilisation.

    Raises
    ------
    ValueError
        If a class is unknown, an improvement is not an integer of at least 0, or
        an epoch is not in the table.
    """
    percents = np.unique(improvement_percents(improvements), axis=0)
    epochs = sorted(set(epochs))
    io_time = without_peers(io_time)
    wanted = pd.concat([select_epoch(io_time, epoch) for epoch in epochs])
    processes, times = times_of_runs(wanted)
    kept, times = times.enveloped()
    n_runs = len(times.first)
    run = np.arange(n_runs).repeat(len(percents))
    percents = np.tile(percents, (n_runs, 1))
    slowest = slowest_rows(times, percents, run)
    rows = processes.iloc[kept[slowest]].reset_index(drop=True)
    rows = rows.rename(columns={"rank": "slowest_rank"}).assign(method=RULE)
    rows[IMPROVEMENTS] = percents
    rows[CLASS_TIMES] = improve(times.least_s[slowest], percents)
    rows["io_time_s"] = total_s(rows[CLASS_TIMES].to_numpy())
    return with_later_columns(rows, "estimates")[list(TABLES["estimates"])]


def times_of_runs(io_time: pd.DataFrame) -> tuple[pd.DataFrame, ProcessTimes]:
    """Return `process_times`, the times with a phase for each run and epoch."""
    processes, times_s = process_times(io_time)
    run_epoch = group_numbers(processes, RUN_EPOCH)
    first = np.unique(run_epoch, return_index=True)[1]
    return processes, ProcessTimes.exact(times_s, first)


def estimated_breakdown(
    estimates: pd.DataFrame, improvements: Iterable[Mapping[str, int]]
) -> pd.DataFrame:
    """Return the estimated I/O time by class of the process that is slowest then.

    Parameters
    ----------
    estimates : DataFrame, shape (n_estimates, 22)
        Table ``estimates``, by either method.
    improvements : iterable of mappings of str to int
        Wanted improvements; those in the table are returned in this order.

    Returns
    -------
    DataFrame, shape (n_estimates * 4, 18)
        The run, ``epoch``, ``method``, the improvement of each class in percent,
        ``slowest_rank`` (-1 by the model), ``model_error_percent``, by which the I/O
        time may be longer as far as the model knows (0 if it has no interval),
        ``io_class`` and ``time_s`` in seconds.
    """
    error = 100 * (estimates["io_time_high_s"] / estimates["io_time_s"] - 1)
    estimates = estimates.assign(model_error_percent=error.fillna(0.0))
    keys = [*RUN_EPOCH, "method", *IMPROVEMENTS, "slowest_rank", "model_error_percent"]
    wanted = [
        select_improvements(estimates, [improvement]) for improvement in improvements
    ]
    rows = pd.concat(wanted)
    names = dict(zip(CLASS_TIMES, CLASSES, strict=True))
    rows = rows[[*keys, *CLASS_TIMES]].rename(columns=names)
    return rows.melt(keys, CLASSES, "io_class", "time_s")


def mean_over_repetitions(times: pd.DataFrame) -> pd.DataFrame:
    """Return mean and spread over the repetitions of the I/O time of each point.

    Parameters
    ----------
    times : DataFrame
        Rows with the run, ``epoch``, ``io_time_s`` and possibly improvements, such
        as table ``estimates`` or what `tierscope.analysis.breakdown.slowest_process`
        returns.

    Returns
    -------
    DataFrame
        Scenario, epoch, method and improvements (if any), ``cache_rate_percent``,
        ``io_time_s`` (the mean, in seconds), ``cv``, the standard deviation (n - 1 in
        the denominator) over the mean, missing if there is one repetition, and
        ``max_io_time_s``, the largest; sorted.
    """
    by = [*point_keys(times), "cache_rate_percent"]
    times = times.sort_values("repetition", kind="stable")
    point = group_numbers(times, by)
    first = np.unique(point, return_index=True)[1]
    groups = times["io_time_s"].groupby(point)
    points = times[by].iloc[first].reset_index(drop=True)
    points["max_io_time_s"] = groups.max()
    # Added in the order of the repetitions, so that the sum rises with each of them, as
    # `tierscope.analysis.search` needs. Pandas would compensate for rounding instead.
    points["io_time_s"] = np.bincount(point, times["io_time_s"]) / np.bincount(point)
    sd_s = groups.std()
    points["cv"] = (sd_s / points["io_time_s"]).where(sd_s != 0, 0.0)
    return points[[*by, "io_time_s", "cv", "max_io_time_s"]]


def best_point(times: pd.DataFrame) -> pd.DataFrame:
    """Return the cache rate with the least I/O time; the lowest if several are equal.

    Parameters
    ----------
    times : DataFrame
        As for `mean_over_repetitions`.

    Returns
    -------
    DataFrame
        The row of `mean_over_repetitions` for each scenario, epoch and improvement.
    """
    points = mean_over_repetitions(times)
    ordered = points.sort_values(["io_time_s", "cache_rate_percent"], kind="stable")
    by = point_keys(times)
    return ordered.drop_duplicates(by).sort_values(by, ignore_index=True)


def mean_difference_s(epochs: pd.DataFrame, io_time: pd.DataFrame) -> float:
    """Return execution time minus I/O time of the slowest process, in seconds.

    It is nearly constant over the cache rates (Fukai et al., Sec. 5.2), so its mean
    turns an I/O time into an execution time: the mean over the points, each of which
    counts once, however often it was repeated.

    Parameters
    ----------
    epochs : DataFrame
        Table ``epochs`` with at least the runs of ``io_time``.
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time``; a ValueError says so if a run has no execution time.
    """
    execution_s = epochs.groupby(RUN_EPOCH)["execution_time_s"].max()
    io_time_s = slowest_process(io_time).set_index(RUN_EPOCH)["io_time_s"]
    difference_s = execution_s.reindex(io_time_s.index) - io_time_s
    if n_missing := int(difference_s.isna().sum()):
        raise ValueError(
            f"goal: got no execution time of {n_missing} of {len(io_time_s)} runs and "
            "epochs, expected one of each; simulated runs have none."
        )
    point = [key for key in RUN_EPOCH if key != "repetition"]
    differences_s = [
        math.fsum(some_s) / len(some_s) for _, some_s in difference_s.groupby(point)
    ]
    return math.fsum(differences_s) / len(differences_s)


def make_goal(
    io_time: pd.DataFrame,
    epochs: pd.DataFrame | None = None,
    *,
    of: str = "io_time",
    seconds: float | None = None,
    percent_of_best: float = 50,
) -> Goal:
    """Return the goal of one epoch of one scenario.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` of one epoch of one scenario, else a ValueError.
    epochs : DataFrame, optional
        Table ``epochs``; needed for a goal of execution time only.
    of, seconds, percent_of_best
        As in the configuration: the goal in seconds, or if those are None, in percent
        of the best time over the cache rates, which is the measured I/O time or the
        execution time that is estimated from it. So 100 % is met without improvement.
    """
    best = best_point(slowest_process(io_time))
    if len(best) != 1:
        raise ValueError(
            f"goal: got I/O time of {len(best)} pairs of scenario and epoch, "
            "expected one."
        )
    difference_s = 0.0
    if of == "execution_time":
        if epochs is None:
            raise ValueError("goal: got no execution times, expected table epochs.")
        difference_s = mean_difference_s(epochs, io_time)
    if seconds is None:
        best_s = float(best["io_time_s"].iloc[0]) + difference_s
        # Multiplied by exactly 1 for 100 %.
        seconds = best_s * (percent_of_best / 100)
    return Goal(of, float(seconds), difference_s)


def least_sufficient_rates(points: pd.DataFrame) -> pd.DataFrame:
    """Return the least cache rate that meets a goal, for each combination.

    Parameters
    ----------
    points : DataFrame
        Scenario, epoch, method, improvements and cache rate, sorted by these, with the
        flags ``sufficient`` and ``in_every_repetition``.

    Returns
    -------
    DataFrame
        As from `Goal.sufficient`.
    """
    by = point_keys(points)
    # Sufficient ones first: points are sorted by cache rate already.
    points = points.sort_values("sufficient", ascending=False, kind="stable")
    least = points.drop_duplicates(by).sort_values(by, ignore_index=True)
    rates = least["cache_rate_percent"].astype("Int64").where(least["sufficient"])
    least["min_cache_rate_percent"] = rates
    columns = ["min_cache_rate_percent", "sufficient", "in_every_repetition"]
    return least[[*by, *columns]]


def cheapest_sufficient(
    combinations: pd.DataFrame, cost_per_percent: Mapping[str, float]
) -> pd.Series | None:
    """Return the sufficient combination of least cost, None if there is none.

    Parameters
    ----------
    combinations : DataFrame
        What `Goal.sufficient` returns for one scenario, epoch and method.
    cost_per_percent : mapping of str to float
        Cost of one percent of improvement of each class.

    Returns
    -------
    Series or None
        Its row with ``cost`` and ``n_as_cheap``, the number of other sufficient
        combinations with the same cost, minimal or not. As in
        `tierscope.analysis.search`, if costs are equal to twelve digits, the least
        cache rate decides, then the smallest improvements in the order of the classes.
    """
    rows = combinations[combinations["sufficient"]]
    if rows.empty:
        return None
    rows = rows.assign(cost=costs(rows, cost_per_percent))
    rows["n_as_cheap"] = (rows["cost"] == rows["cost"].min()).sum() - 1
    order = ["cost", "min_cache_rate_percent", *IMPROVEMENTS]
    return rows.sort_values(order, kind="stable").iloc[0]


def costs(
    combinations: pd.DataFrame, cost_per_percent: Mapping[str, float]
) -> list[float]:
    """Return the cost of improvements, to twelve digits: independent of the order."""
    weighted = combinations[IMPROVEMENTS] * [cost_per_percent[name] for name in CLASSES]
    return [
        float(f"{cost:.12g}") for cost in weighted.sum(axis="columns", skipna=False)
    ]


def select_improvements(
    table: pd.DataFrame, improvements: Iterable[Mapping[str, int]]
) -> pd.DataFrame:
    """Return the rows of a table with improvements that are among the given ones."""
    wanted = pd.MultiIndex.from_arrays(improvement_percents(improvements).T)
    present = pd.MultiIndex.from_frame(table[IMPROVEMENTS])
    return table[present.isin(wanted)].reset_index(drop=True)


def point_keys(times: pd.DataFrame) -> list[str]:
    """Return the key columns: scenario, epoch, method and improvement, if any."""
    return [*SCENARIO, "epoch", *(k for k in ("method", *IMPROVEMENTS) if k in times)]
