"""Simulate 1, 2, 4 ... accelerators, and find the most that reach a goal."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import TABLES
from tierscope.core.columns.accelerators import NOT_ASKED
from tierscope.core.scenario import Point
from tierscope.data.designs import Plan
from tierscope.model.designs.feeding import simulate_pace
from tierscope.model.designs.pace import Pace

Row = Mapping[str, Any]


def between(passing: int, failing: int, plan: Plan) -> int | None:
    """Return a number of accelerators halfway, None if there is none of whole nodes."""
    middle = plan.whole((passing + failing) // 2)
    return middle if passing < middle < failing else None


def find_rows(
    simulate: Callable[[int], Row],
    limit: Callable[[int], str],
    plan: Plan,
    most: int,
    goal_percent: float,
) -> list[Row]:
    """Return the rows of 1, 2, 4 ... accelerators, and of those that find the most.

    Parameters
    ----------
    simulate : callable of int
        Returns the row of a number of accelerators, with ``utilisation_percent``.
    limit : callable of int
        Returns what limits a number; it is asked for the first that misses the goal.
    plan : Plan
        The workload on the machine.
    most : int
        Largest number.
    goal_percent : float
        Utilisation to reach. Between the largest number that reaches it and the next
        one of the rows there is no other of whole nodes.

    Returns
    -------
    list of rows, by number
    """
    rows = {n: simulate(n) for n in plan.numbers(most)}

    def reaches(n: int) -> bool:
        return rows[n]["utilisation_percent"] >= goal_percent

    passing = max(filter(reaches, rows), default=0)
    failing = min((n for n in rows if n > passing), default=None)
    while passing and failing and (n := between(passing, failing, plan)):
        rows[n] = simulate(n)
        passing, failing = (n, failing) if reaches(n) else (passing, n)
    if failing:
        rows[failing] = {**rows[failing], "limit": limit(failing)}
    return [rows[n] for n in sorted(rows)]


def row_of(
    plan: Plan, ends: Sequence[Plan], n: int, points: Sequence[Point], goal: float
) -> Row:
    """Return the row of some accelerators of table ``accelerators``, without keys.

    Parameters
    ----------
    plan : Plan
        The workload on the machine.
    ends : sequence of Plan
        The same with both ends of a fitted parameter, if there is one.
    n : int
        Number of accelerators.
    points : sequence of Point
        Repetitions of a cache rate.
    goal : float
        Utilisation to reach, in percent.
    """
    rate = points[0].cache_rate_percent
    room_percent = plan.lfs_rate_percent(n)
    return {
        "cache_rate_percent": rate,
        "n_accelerators": n,
        "n_nodes": plan.n_nodes(n),
        "n_files": plan.n_files(n),
        "n_steps": plan.n_steps(n),
        "n_simulated_steps": plan.n_simulated_steps(n),
        "n_repetitions": len(points),
        "compute_time_s": plan.description.training.compute_time.mean_s,
        "goal_percent": float(goal),
        **_results(plan, ends, n, points),
        "lfs_rate_percent": np.nan if room_percent is None else room_percent,
        "fits_lfs": room_percent is None or rate <= room_percent,
        "limit": NOT_ASKED,
    }


def _results(
    plan: Plan, ends: Sequence[Plan], n: int, points: Sequence[Point]
) -> dict[str, float]:
    """Return the columns of a row that were simulated; parameters as of `row_of`."""
    paces = [[simulate_pace(one, n, p) for p in points] for one in (plan, *ends)]
    used = _band([[one.utilisation_percent for one in some] for some in paces])
    samples = _band([[_samples_per_s(plan, n, one) for one in some] for some in paces])
    return {
        "utilisation_percent": used[0],
        "utilisation_low_percent": used[1],
        "utilisation_high_percent": used[2],
        "samples_per_second": samples[0],
        "samples_per_second_low": samples[1],
        "samples_per_second_high": samples[2],
        "throughput": samples[0] * plan.mean_file_bytes,
    }


def accelerators_table(rows: Sequence[Row], plan: Plan) -> pd.DataFrame:
    """Return table ``accelerators`` of rows of one workload."""
    keys = {
        "source": plan.description.source,
        "system": plan.machine.name,
        "workload": plan.description.dataset.name,
    }
    return pd.DataFrame(rows).assign(**keys)[list(TABLES["accelerators"])]


def _samples_per_s(plan: Plan, n: int, pace: Pace) -> float:
    """Return the samples a second of all accelerators, without the first step."""
    return n * plan.batch_size * (plan.n_steps(n) - 1) / pace.later_s


def _band(values: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return the mean of the first values, and the ends of all if there are several."""
    everything = [one for some in values for one in some]
    mean = float(np.mean(values[0]))
    if len(everything) == 1:
        return mean, np.nan, np.nan
    return mean, min(everything), max(everything)
