"""Data of the explorer: its start, the points of the sweep, the model's answers.

For every run and epoch the page holds the processes that some position of the sliders
makes the slowest (`slider_envelope`). So it finds the same slowest process as
`tierscope.analysis.whatif.estimate` among all processes. The model's answers are
computed in advance, for the cells of the map (table ``estimates``), because no formula
of the page could compute them.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linprog
from scipy.sparse import block_diag

from tierscope.analysis.breakdown import (
    process_times,
    slowest_process,
)
from tierscope.analysis.intervals import NO_INTERVAL, best_rates, interval
from tierscope.analysis.training.limit import (
    Advice,
    advice_on,
    is_plain,
    limits_of,
    point_words,
)
from tierscope.analysis.training.stalls import stall_words
from tierscope.analysis.utilisation import UtilisationGoal
from tierscope.analysis.whatif import (
    Goal,
    improve,
    map_percents,
    map_step_percent,
    upper_envelope,
)
from tierscope.core.columns import (
    CLASS_TIMES,
    CLASSES,
    IMPROVEMENTS,
    RULE,
    RUN_EPOCH,
    SCENARIO,
)
from tierscope.core.columns.analysis import UNDECIDED
from tierscope.core.io_class import IOClass, total_s
from tierscope.core.provenance import Origin

SIGNIFICANT_DIGITS = 11  # of an embedded time, so it is right within 5e-11 of itself
_FACTORS_TRIED = 3  # of each class
_SOLVER_ERROR = 1e-6  # of the largest time; HiGHS promises a tenth of it
PARTS = 100_000  # of the model's I/O time; its classes are embedded as so many of them


@dataclass(frozen=True)
class Start:
    """What the page shows when it is opened, and the range of its sliders.

    Parameters
    ----------
    scenario : mapping of str to str or int
        The keys of the scenario shown first.
    epoch : int
        The epoch shown first, counted from 0.
    goal : Goal
        The experiment's goal of that scenario and epoch.
    pair : pair of str
        The I/O classes on the x and the y axis of the map.
    max_improvement_percent, step_percent : int
        End of the sliders, and step of the experiment's grid. The step of the map may
        be a multiple of it (`tierscope.analysis.whatif.map_step_percent`).
    cost_per_percent : mapping of str to float
        What one percent of improvement of each class costs.
    method : {"rule", "model"}, optional
        How improvements are estimated, if the page has both.
    labels : mapping of str to str, optional
        What the I/O classes are called; by default as in the paper.
    is_job : bool, optional
        Whether the page shows a job that ran once: nothing on it is about cache rates.
    origin : Origin, optional
        Where the numbers come from: it knows what epochs and cache rates are.
    limits : DataFrame, optional
        Table ``limits``; of a job nobody decides what limits.
    job_advice : Advice, optional
        Whether an improvement may be recommended for a job.
    """

    scenario: Mapping[str, str | int]
    epoch: int
    goal: Goal | UtilisationGoal
    pair: Sequence[str]
    max_improvement_percent: int
    step_percent: int
    cost_per_percent: Mapping[str, float]
    method: str = RULE
    labels: Mapping[str, str] = field(
        default_factory=lambda: {str(one): one.label for one in IOClass}
    )
    is_job: bool = False
    origin: Origin = field(default_factory=lambda: Origin(""))
    limits: pd.DataFrame | None = None
    job_advice: Advice = field(default_factory=Advice)

    @property
    def is_utilisation(self) -> bool:
        """Return whether the goal is one of utilisation: for the model only."""
        return isinstance(self.goal, UtilisationGoal)

    @property
    def is_hidden(self) -> bool:
        """Return whether the class with the most I/O time need not limit."""
        return self.is_job if self.limits is None else not is_plain(self.limits)

    def advice(self, scenario: Mapping[str, Any]) -> Advice:
        """Return whether an improvement may be recommended for a scenario."""
        if self.limits is None:
            return self.job_advice
        return advice_on(limits_of(self.limits, scenario), self.origin.phase)

    @property
    def grid_step_percent(self) -> int:
        """Return the step of the map in percent."""
        return map_step_percent(self.max_improvement_percent, self.step_percent)

    @property
    def grid(self) -> list[int]:
        """Return the improvements on each axis of the map, in percent."""
        return map_percents(self.max_improvement_percent, self.step_percent)


@dataclass(frozen=True)
class ModelAnswers:
    """For what the page has answers of the model; by default for nothing.

    Parameters
    ----------
    pairs : sequence of pairs of str
        Pairs of I/O classes with a map by the model.
    scenes : sequence of str
        Scenarios and epochs (`add_model_answers`).
    words : str
        Pairs and scenes in words.
    """

    pairs: Sequence[Sequence[str]] = ()
    scenes: Sequence[str] = ()
    words: str = ""


def slider_envelope(times_s: np.ndarray, max_improvement_percent: int) -> np.ndarray:
    """Return the processes that some position of the sliders makes the slowest.

    The sliders multiply a class by a factor between 100 / (100 + maximum) and 1. A
    process of the upper envelope is left out if one other process is slower for all
    factors: even if the classes in which the other is slower have the least
    factor, and those in which it is faster have factor 1. It is also left out if for
    all factors some other process is slower: a linear program finds the factors with
    which it comes closest to being the slowest.

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
    least_factor = float(improve(1.0, max_improvement_percent))
    rows = np.arange(len(times_s))
    for row in _slowest_somewhere(times_s, least_factor):
        rows = rows[~_always_slower(times_s[row] - times_s[rows], least_factor)]
    rows = rows[upper_envelope(times_s[rows])]
    stays = [
        not _always_slower(times_s[rows] - times_s[row], least_factor).any()
        for row in rows
    ]
    rows = rows[np.array(stays, dtype=bool)]
    return rows[_has_its_turn(times_s[rows], least_factor)]


def _always_slower(slower_s: np.ndarray, least_factor: float) -> np.ndarray:
    """Return where differences of class times, shape (n, 4), always sum to above 0.

    That is so for all factors if it is so in the worst case, in which only positive
    differences have the least factor.
    """
    least_s = np.where(slower_s > 0, least_factor * slower_s, slower_s)
    return least_s.sum(axis=1) > 0


def _slowest_somewhere(times_s: np.ndarray, least_factor: float) -> np.ndarray:
    """Return the rows of processes that are the slowest on a grid of factors."""
    axis = np.linspace(least_factor, 1, _FACTORS_TRIED)
    factors = itertools.product(axis, repeat=len(CLASSES))
    return np.unique([total_s(times_s * one).argmax() for one in factors])


def _has_its_turn(times_s: np.ndarray, least_factor: float) -> np.ndarray:
    """Return which processes are the slowest with some factors: shape (n_processes,).

    Processes that are the slowest on a grid of factors are kept. For each other process
    the program finds the factors that minimise its distance to the slowest of those; it
    is left out if this distance is more than the solver's error. All programs are
    solved as one.
    """
    slowest = _slowest_somewhere(times_s, least_factor)
    others = np.setdiff1d(np.arange(len(times_s)), slowest)
    kept = np.zeros(len(times_s), dtype=bool)
    kept[slowest] = True
    largest_s = times_s.max(initial=0)
    if not len(others) or not largest_s:
        return kept
    # For each other process: four factors, and its distance to the slowest process.
    slower = (times_s[slowest] - times_s[others, np.newaxis]) / largest_s
    blocks = [np.column_stack([rows, -np.ones(len(rows))]) for rows in slower]
    solution = linprog(
        np.tile([0.0] * len(CLASSES) + [1.0], len(others)),
        A_ub=block_diag(blocks, format="csr"),
        b_ub=np.zeros(slower.shape[0] * slower.shape[1]),
        bounds=([(least_factor, 1)] * len(CLASSES) + [(None, None)]) * len(others),
        method="highs",
    )
    kept[others] = solution.x[len(CLASSES) :: len(CLASSES) + 1] <= _SOLVER_ERROR
    return kept


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
        ``epoch``, ``cache_rate_percent``, ``repetitions`` (their number), `sureness`,
        and by I/O class the seconds of the processes of the slider envelope of each
        repetition.
        All these lists have the same length: processes and repetitions of zeros fill
        them up.
    """
    processes, times_s = process_times(io_time)
    numbers = scenario_numbers(scenarios)
    envelopes: dict[tuple, list[np.ndarray]] = {}
    for keys, rows in processes.groupby(RUN_EPOCH, sort=True).indices.items():
        run = dict(zip(RUN_EPOCH, keys, strict=True))
        envelope = slider_envelope(times_s[rows], max_improvement_percent)
        point = numbers[tuple(run[key] for key in SCENARIO)], run["epoch"]
        point = (*point, run["cache_rate_percent"])
        envelopes.setdefault(point, []).append(times_s[rows][envelope])
    n_repetitions = max(map(len, envelopes.values()))
    n_processes = max(len(run_s) for runs in envelopes.values() for run_s in runs)
    points, sure = [], sureness(io_time, numbers)
    for (scenario, epoch, cache_rate_percent), runs in envelopes.items():
        filled_s = np.zeros((len(CLASSES), n_repetitions, n_processes))
        for repetition, run_s in enumerate(runs):
            filled_s[:, repetition, : len(run_s)] = run_s.T
        points.append(
            {
                "scenario": scenario,
                "epoch": int(epoch),
                "cache_rate_percent": int(cache_rate_percent),
                "repetitions": len(runs),
                **sure[scenario, epoch, cache_rate_percent],
                **{
                    io_class: [[short(time_s) for time_s in run] for run in class_s]
                    for io_class, class_s in zip(
                        CLASSES, filled_s.tolist(), strict=True
                    )
                },
            }
        )
    return points


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


def without_last_zeros(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return an embedded point without the zeros that fill up its lists."""
    short = {
        name: [
            run[: max((n + 1 for n, s in enumerate(run) if s), default=0)]
            for run in point[name]
        ]
        for name in CLASSES
    }
    return {**point, **short}


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
) -> list[str]:
    """Add the model's answers on the maps of some pairs to the embedded points.

    Parameters
    ----------
    points : sequence of dict
        What `embedded_points` returns. Points for which the model was computed get
        ``model``: for each pair ``io_time_s``, the mean over the repetitions for each
        cell of the map, in rows of the first class's improvement, ``error_percent``,
        by which it may be longer as far as the model knows (empty without intervals),
        and ``parts``, the part of this time that each class takes (in units of 1 /
        `PARTS`).
    estimates : DataFrame, shape (n_estimates, 20)
        Table ``estimates`` by the model.
    scenarios : DataFrame
        As for `embedded_points`.
    pairs : sequence of pairs of str
        Pairs of I/O classes; every cell of their maps must be in the table.
    grid : sequence of int
        The improvements on each axis of the map, in percent.

    Returns
    -------
    list of str
        Scenario number and epoch of each combination of the two that has answers, such
        as ``0 1``.

    Raises
    ------
    ValueError
        If a cell of a map is not in the table.
    """
    numbers = scenario_numbers(scenarios)
    keys = [*SCENARIO, "epoch", "cache_rate_percent"]
    answers = {}
    for values, rows in estimates.groupby(keys, sort=True):
        point = dict(zip(keys, values, strict=True))
        key = numbers[tuple(point[name] for name in SCENARIO)], point["epoch"]
        columns = ["io_time_s", "io_time_high_s", *CLASS_TIMES]
        means = rows.groupby(IMPROVEMENTS)[columns].mean()
        answers[(*key, point["cache_rate_percent"])] = [
            _answers(means, pair, grid) for pair in pairs
        ]
    for point in points:
        key = point["scenario"], point["epoch"], point["cache_rate_percent"]
        if key in answers:
            point["model"] = answers[key]
    return list(dict.fromkeys(f"{scenario} {epoch}" for scenario, epoch, _ in answers))


def _answers(
    means: pd.DataFrame, pair: Sequence[str], grid: Sequence[int]
) -> dict[str, list]:
    """Return the model's answers on the map of a pair."""
    means = means.loc[map_cells(means.index, pair, grid)]
    io_time_s = means["io_time_s"].to_numpy()
    parts = PARTS * means[CLASS_TIMES].to_numpy() / io_time_s[:, np.newaxis]
    error = 100 * np.nan_to_num(means["io_time_high_s"].to_numpy() / io_time_s - 1)
    return {
        "io_time_s": [short(time_s) for time_s in io_time_s.tolist()],
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
