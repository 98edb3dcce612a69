"""Estimate the I/O time of an epoch if some I/O classes were faster.

N % more throughput of a class multiplies its time by 100 / (100 + N). The rule is
applied to every process before the slowest one is picked, because an improvement
can make another process the slowest (Fukai et al., Sec. 4.4).

Estimates are made for each repetition. What summarises them (`best_point`,
`sufficient_combinations`, `default_goal_s`) takes the mean over the repetitions of
the I/O time first.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from tierscope.breakdown import (
    CLASSES,
    RUN_EPOCH,
    SCENARIO,
    break_down,
    process_times,
    select_epoch,
    total_s,
)
from tierscope.tables import TABLES

IMPROVEMENTS = [f"{io_class}_improvement_percent" for io_class in CLASSES]
_CELLS_AT_ONCE = 4_000_000


def improve(
    io_time_s: float | np.ndarray | pd.Series,
    improvement_percent: int | np.ndarray,
) -> float | np.ndarray | pd.Series:
    """Return I/O time after N % more throughput: multiplied by 100 / (100 + N).

    Parameters
    ----------
    io_time_s : float or array
        I/O time of a class in seconds.
    improvement_percent : int or array of int
        Improvement N of the class in percent, 0 or more; it broadcasts.
    """
    percents = np.asarray(improvement_percent)
    if not np.issubdtype(percents.dtype, np.integer) or (percents < 0).any():
        raise ValueError(
            f"improvement in percent: got {improvement_percent}, "
            "expected integers of at least 0."
        )
    return io_time_s * (100 / (100 + percents))


def improvement_grid(
    classes: Sequence[str], max_improvement_percent: int, step_percent: int
) -> list[dict[str, int]]:
    """Return every combination of improvements of some classes.

    Parameters
    ----------
    classes : sequence of str
        The I/O classes to improve.
    max_improvement_percent, step_percent : int
        Largest improvement and step in percent; each class takes 0, one step,
        two steps, ... up to the largest.
    """
    if step_percent < 1:
        raise ValueError(f"step in percent: got {step_percent}, expected 1 or more.")
    percents = range(0, max_improvement_percent + 1, step_percent)
    combinations = itertools.product(percents, repeat=len(classes))
    return [
        dict(zip(map(str, classes), combination, strict=True))
        for combination in combinations
    ]


def _percents(improvements: Iterable[Mapping[str, int]]) -> np.ndarray:
    """Return checked improvements, shape (n_improvements, 4), in `IOClass` order."""
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


def upper_envelope(times_s: np.ndarray) -> np.ndarray:
    """Return the processes that some improvement could make the slowest.

    A process is left out if another one is at least as slow in all four classes;
    of processes with equal times the first stays. Every improvement multiplies a
    class of all processes by the same factor, so what is left out never wins
    (it can at most tie by rounding, and then its rank is not reported).

    Parameters
    ----------
    times_s : ndarray, shape (n_processes, 4)
        I/O time in seconds, by class.

    Returns
    -------
    ndarray of int
        Rows of the processes that stay, ascending.
    """
    order = np.argsort(-total_s(times_s), kind="stable")
    kept = np.empty_like(times_s)
    rows = []
    for row in order:
        slower = kept[: len(rows)] >= times_s[row]
        if not slower.all(axis=1).any():
            kept[len(rows)] = times_s[row]
            rows.append(row)
    return np.sort(np.array(rows, dtype=np.int64))


def _slowest_after(
    times_s: np.ndarray, percents: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slowest process's row and I/O time for each improvement.

    Classes are added one after the other instead of by a matrix product: the
    libraries behind that round differently on different machines.
    """
    kept = upper_envelope(times_s)
    rows = np.empty(len(percents), dtype=np.int64)
    io_time_s = np.empty(len(percents))
    step = max(1, _CELLS_AT_ONCE // (len(kept) * len(CLASSES)))
    for start in range(0, len(percents), step):
        block = slice(start, start + step)
        totals_s = total_s(improve(times_s[kept, np.newaxis], percents[block]))
        first = totals_s.argmax(axis=0)
        rows[block] = kept[first]
        io_time_s[block] = totals_s[first, np.arange(len(first))]
    return rows, io_time_s


def estimate(
    io_time: pd.DataFrame,
    improvements: Iterable[Mapping[str, int]],
    epochs: Iterable[int],
) -> pd.DataFrame:
    """Estimate the I/O time of the slowest process after each improvement.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` of any number of runs.
    improvements : iterable of mappings of str to int
        Improvements in percent by I/O class, such as ``{"gfs_meta": 50}``; classes
        left out keep their time, ``{}`` is the measured time. One that is given
        twice is estimated once.
    epochs : iterable of int
        Epochs to estimate, counted from 0.

    Returns
    -------
    DataFrame, shape (n_runs * n_epochs * n_improvements, 15)
        Table ``estimates``, sorted by run, epoch and improvement: ``io_time_s`` in
        seconds and ``slowest_rank``, the process that is then the slowest (of
        equally slow ones the lowest rank).

    Raises
    ------
    ValueError
        If a class is unknown, an improvement is not an integer of at least 0, or
        an epoch is not in the table.
    """
    percents = np.unique(_percents(improvements), axis=0)
    epochs = sorted(set(epochs))
    wanted = pd.concat([select_epoch(io_time, epoch) for epoch in epochs])
    processes, times_s = process_times(wanted)
    run_epoch = processes.groupby(RUN_EPOCH, sort=True).ngroup().to_numpy()
    starts = np.unique(run_epoch, return_index=True)[1]
    slowest, io_time_s = [], []
    for start, end in itertools.pairwise([*starts, len(processes)]):
        rows, estimated_s = _slowest_after(times_s[start:end], percents)
        slowest.append(start + rows)
        io_time_s.append(estimated_s)
    rows = processes.iloc[np.concatenate(slowest)].reset_index(drop=True)
    rows = rows.rename(columns={"rank": "slowest_rank"})
    rows[IMPROVEMENTS] = np.tile(percents, (len(starts), 1))
    rows["io_time_s"] = np.concatenate(io_time_s)
    return rows[list(TABLES["estimates"])]


def break_down_improved(
    io_time: pd.DataFrame, improvements: Iterable[Mapping[str, int]]
) -> pd.DataFrame:
    """Break down the I/O time of the process that is slowest after an improvement.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` of any number of runs and epochs.
    improvements : iterable of mappings of str to int
        Improvements in percent by I/O class; ``{}`` is the measured breakdown.

    Returns
    -------
    DataFrame, shape (n_improvements * n_runs * n_epochs * 4, 17)
        Table ``breakdown`` with the improvement of each class in percent, as in
        table ``estimates``; improvements in the order in which they are given.
    """
    code = pd.Index(CLASSES).get_indexer(io_time["io_class"])
    parts = []
    for percents in _percents(improvements):
        time_s = improve(io_time["time_s"], percents[code])
        improved = break_down(io_time.assign(time_s=time_s))
        columns = dict(zip(IMPROVEMENTS, percents.tolist(), strict=True))
        parts.append(improved.assign(**columns))
    return pd.concat(parts, ignore_index=True)


def mean_over_repetitions(times: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over the repetitions of the I/O time of each point.

    Parameters
    ----------
    times : DataFrame
        Rows with the run, ``epoch``, ``io_time_s`` and possibly improvements, such
        as table ``estimates`` or what `tierscope.breakdown.slowest_process` returns.

    Returns
    -------
    DataFrame
        Scenario, epoch, improvements (if any), ``cache_rate_percent`` and
        ``io_time_s`` in seconds, sorted.
    """
    by = [*_point_keys(times), "cache_rate_percent"]
    return times.groupby(by, sort=True)["io_time_s"].mean().reset_index()


def best_point(times: pd.DataFrame) -> pd.DataFrame:
    """Return the cache rate with the least I/O time, of equal ones the lowest.

    Parameters
    ----------
    times : DataFrame
        As for `mean_over_repetitions`.

    Returns
    -------
    DataFrame
        A row for each scenario, epoch and improvement, with ``cache_rate_percent``
        and ``io_time_s``, its mean over the repetitions in seconds.
    """
    points = mean_over_repetitions(times)
    ordered = points.sort_values(["io_time_s", "cache_rate_percent"], kind="stable")
    by = _point_keys(times)
    return ordered.drop_duplicates(by).sort_values(by, ignore_index=True)


def default_goal_s(estimates: pd.DataFrame) -> float:
    """Return half of the best measured I/O time of a scenario's epoch, in seconds.

    The best measured time is the least over the cache rates, of the mean over the
    repetitions. Raises a ValueError unless the table has it for one epoch of one
    scenario.
    """
    measured = estimates[(estimates[IMPROVEMENTS] == 0).all(axis=1)]
    best = best_point(measured)
    if len(best) != 1:
        raise ValueError(
            f"goal: got measured times (improvement 0) of {len(best)} pairs of "
            "scenario and epoch, expected one."
        )
    return float(best["io_time_s"].iloc[0]) / 2


def sufficient_combinations(estimates: pd.DataFrame, goal_s: float) -> pd.DataFrame:
    """Return the least cache rate with which each combination meets a goal.

    Parameters
    ----------
    estimates : DataFrame, shape (n_runs * n_epochs * n_improvements, 15)
        Table ``estimates``.
    goal_s : float
        Largest I/O time of an epoch that meets the goal, in seconds; compared with
        the mean over the repetitions.

    Returns
    -------
    DataFrame
        A row for each scenario, epoch and combination of improvements, sorted:
        ``sufficient`` says whether any cache rate meets the goal,
        ``min_cache_rate_percent`` (Int64) is the least that does, missing if none.
    """
    points = mean_over_repetitions(estimates)
    by = _point_keys(estimates)
    met = (
        points["cache_rate_percent"]
        .astype("Int64")
        .where(points["io_time_s"] <= goal_s)
    )
    least = met.groupby([points[key] for key in by], sort=True).min()
    combinations = least.rename("min_cache_rate_percent").reset_index()
    sufficient = combinations["min_cache_rate_percent"].notna().astype(bool)
    return combinations.assign(sufficient=sufficient)


def select_improvements(
    table: pd.DataFrame, improvements: Iterable[Mapping[str, int]]
) -> pd.DataFrame:
    """Return the rows of a table with improvements that are among the given ones."""
    wanted = pd.MultiIndex.from_arrays(_percents(improvements).T)
    present = pd.MultiIndex.from_frame(table[IMPROVEMENTS])
    return table[present.isin(wanted)].reset_index(drop=True)


def _point_keys(times: pd.DataFrame) -> list[str]:
    """Return the columns that tell scenario, epoch and improvement apart."""
    return [*SCENARIO, "epoch", *(key for key in IMPROVEMENTS if key in times)]
