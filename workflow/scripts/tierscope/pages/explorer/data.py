"""Data of the explorer: the points of the sweep, the model's answers, what limits.

For every run and epoch the page holds the processes that some position of the sliders
can make the slowest (`slider_envelope`). So it finds the same slowest process as
`tierscope.analysis.whatif.estimate` among all processes. The model's answers are
computed in advance, for the cells of the map (table ``estimates``), because no formula
of the page could compute them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import process_times, slowest_process
from tierscope.analysis.intervals import NO_INTERVAL, best_rates, interval
from tierscope.analysis.slowest.improved import improve
from tierscope.analysis.slowest.times import upper_envelope
from tierscope.analysis.training.limit import point_words
from tierscope.analysis.training.stalls import stall_words
from tierscope.core.columns import (
    CLASS_TIMES,
    IMPROVEMENTS,
    RUN_EPOCH,
    SCENARIO,
)
from tierscope.core.columns.analysis import UNDECIDED

SIGNIFICANT_DIGITS = 11  # of an embedded time, so it is right within 5e-11 of itself
PARTS = 100_000  # of the model's I/O time; its classes are embedded as so many of them


def slider_envelope(times_s: np.ndarray, max_improvement_percent: int) -> np.ndarray:
    """Return the processes that some position of the sliders can make the slowest.

    The sliders multiply a class by a factor between 100 / (100 + maximum) and 1. A
    process of the upper envelope is left out if one other process is slower for all
    factors: even if the classes in which the other is slower have the least
    factor, and those in which it is faster have factor 1.

    Parameters
    ----------
    times_s : ndarray, shape (n_processes, 4)
        I/O time in seconds, by class; ordered by rank.
    max_improvement_percent : int
        End of the four sliders.

    Returns
    -------
    ndarray of int
        Rows of the processes that stay, ascending.
    """
    rows = upper_envelope(times_s)
    least_factor = float(improve(1.0, max_improvement_percent))
    stays = []
    for row in rows:
        slower_s = times_s[rows] - times_s[row]
        least_s = np.where(slower_s > 0, least_factor * slower_s, slower_s)
        stays.append(not (least_s.sum(axis=1) > 0).any())
    return rows[np.array(stays, dtype=bool)]


def embedded_points(
    io_time: pd.DataFrame, scenarios: pd.DataFrame, max_improvement_percent: int
) -> list[dict[str, Any]]:
    """Return what the page holds of every point of the sweep.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time``.
    scenarios : DataFrame
        Its scenarios, as made by `tierscope.core.words.scenario_titles`.
    max_improvement_percent : int
        End of the sliders.

    Returns
    -------
    list of dict
        For each scenario, epoch and cache rate ``scenario`` (a row of the scenarios),
        ``epoch``, ``cache_rate_percent``, `sureness`, and ``runs_s``: for each
        repetition the seconds by class of each process of the slider envelope.
    """
    processes, times_s = process_times(io_time)
    numbers = scenario_numbers(scenarios)
    points: dict[tuple, dict[str, Any]] = {}
    sure = sureness(io_time, numbers)
    for keys, rows in processes.groupby(RUN_EPOCH, sort=True).indices.items():
        run = dict(zip(RUN_EPOCH, keys, strict=True))
        place = numbers[tuple(run[key] for key in SCENARIO)], int(run["epoch"])
        place = (*place, int(run["cache_rate_percent"]))
        names = ("scenario", "epoch", "cache_rate_percent")
        new = dict(zip(names, place, strict=True)) | sure[place] | {"runs_s": []}
        run_s = times_s[rows][slider_envelope(times_s[rows], max_improvement_percent)]
        shortened = [list(map(short, process_s)) for process_s in run_s.tolist()]
        points.setdefault(place, new)["runs_s"].append(shortened)
    return list(points.values())


def add_limits(
    points: Sequence[dict[str, Any]],
    limits: pd.DataFrame,
    stalls: pd.DataFrame | None,
    scenarios: pd.DataFrame,
) -> None:
    """Add ``stall`` to embedded points: their stall and what limits them, in words.

    Parameters
    ----------
    points : sequence of dict
        What `embedded_points` returns, or points of a goal of utilisation.
    limits : DataFrame
        Table ``limits`` of one epoch; points that it lacks stay as they are.
    stalls : DataFrame or None
        Table ``class_stalls`` of this epoch, if a model tells the stall.
    scenarios : DataFrame
        As for `embedded_points`.
    """
    stalled = {} if stalls is None else stall_words(stalls).to_dict()
    keys = list(scenario_numbers(scenarios))
    words = {
        (*(row[key] for key in SCENARIO), row["cache_rate_percent"], row["epoch"]): row
        for row in limits.to_dict("records")
    }
    for point in points:
        place = (*keys[point["scenario"]], point["cache_rate_percent"])
        if row := words.get((*place, point["epoch"])):
            limit = f"limited by {point_words(row)}"
            if row["storage"] == UNDECIDED:
                limit = f"what limits is {point_words(row)}"
            point["stall"] = "; ".join(filter(None, [stalled.get(place), limit]))


def sureness(
    io_time: pd.DataFrame, numbers: Mapping[tuple, int]
) -> dict[tuple[int, int, int], dict[str, str]]:
    """Return how sure the time of each point is today, in words.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time``.
    numbers : mapping
        What `scenario_numbers` returns.

    Returns
    -------
    dict of tuple to dict of str to str
        For each scenario number, epoch and cache rate ``interval``, such as ``8.31 to
        8.69 s at n = 5``, and ``best_set``, the best cache rates of all.
    """
    found = {}
    times = slowest_process(io_time)
    for keys, runs in times.groupby([*SCENARIO, "epoch"], sort=False):
        best = best_rates(runs)
        words = f"{best.words} ({best.reason})"
        for rate, some in runs.groupby("cache_rate_percent"):
            one = interval(some["io_time_s"])
            ends = f"{one.low:#.3g} to {one.high:#.3g} s at n = {one.n}"
            found[numbers[keys[:-1]], keys[-1], rate] = {
                "interval": ends if one.is_known else NO_INTERVAL,
                "best_set": words,
            }
    return found


def scenario_numbers(scenarios: pd.DataFrame) -> dict[tuple, int]:
    """Return the row number of each scenario by its keys."""
    rows = scenarios[SCENARIO].itertuples(index=False, name=None)
    return {row: number for number, row in enumerate(rows)}


def add_model_answers(
    points: Sequence[dict[str, Any]],
    estimates: pd.DataFrame,
    scenarios: pd.DataFrame,
    pairs: Sequence[Sequence[str]],
    grid: Sequence[int],
) -> None:
    """Add the model's answers on the maps of some pairs to the embedded points.

    Parameters
    ----------
    points : sequence of dict
        What `embedded_points` returns. Points for which the model was computed get
        ``answers``: for each pair the `time_answers`, means over the repetitions.
    estimates : DataFrame, shape (n_estimates, 22)
        Table ``estimates`` by the model.
    scenarios : DataFrame
        As for `embedded_points`.
    pairs : sequence of pairs of str
        Pairs of I/O classes; every cell of their maps must be in the table.
    grid : sequence of int
        The improvements on each axis of the map, in percent.

    Raises
    ------
    ValueError
        If a cell of a map is not in the table.
    """
    numbers = scenario_numbers(scenarios)
    keys = [*SCENARIO, "epoch", "cache_rate_percent"]
    answers = {}
    for values, rows in estimates.groupby(keys, sort=True):
        columns = ["io_time_s", "io_time_high_s", *CLASS_TIMES]
        means = rows.groupby(IMPROVEMENTS)[columns].mean()
        answers[(numbers[values[:-2]], *values[-2:])] = [
            time_answers(means.loc[map_cells(means.index, pair, grid)])
            for pair in pairs
        ]
    for point in points:
        key = point["scenario"], point["epoch"], point["cache_rate_percent"]
        if key in answers:
            point["answers"] = answers[key]


def time_answers(means: pd.DataFrame) -> dict[str, list]:
    """Return the model's answers for the cells of a map, in the order of its rows.

    ``values`` are seconds, ``error_percent`` is by how much they may be longer as far
    as the model knows (empty without intervals), and ``parts`` is the part of this time
    that each class takes (in units of 1 / `PARTS`).
    """
    io_time_s = means["io_time_s"].to_numpy()
    parts = PARTS * means[CLASS_TIMES].to_numpy() / io_time_s[:, np.newaxis]
    error = 100 * np.nan_to_num(means["io_time_high_s"].to_numpy() / io_time_s - 1)
    return {
        "values": list(map(short, io_time_s.tolist())),
        "error_percent": np.round(error, 1).tolist() if error.any() else [],
        "parts": np.rint(parts.T).astype(int).tolist(),
    }


def map_cells(
    known: pd.MultiIndex, pair: Sequence[str], grid: Sequence[int]
) -> pd.MultiIndex:
    """Return the improvements of the cells of a pair's map, in rows of the first class.

    A ValueError says which of them is not among the known ones.
    """
    cells = pd.MultiIndex.from_product([grid, grid])
    percents = pd.DataFrame(0, index=range(len(cells)), columns=IMPROVEMENTS)
    for level, io_class in enumerate(pair):
        percents[f"{io_class}_improvement_percent"] = cells.get_level_values(level)
    wanted = pd.MultiIndex.from_frame(percents)
    if len(missing := wanted.difference(known)):
        raise ValueError(
            f"explorer: got no estimate by the model of improvements {missing[0]}, "
            f"expected every cell of the map of {' and '.join(map(str, pair))}."
        )
    return wanted


def short(time_s: float) -> float:
    """Return a time rounded to the significant digits."""
    rounded_s = float(f"{time_s:.{SIGNIFICANT_DIGITS}g}")
    return int(rounded_s) if rounded_s.is_integer() else rounded_s
