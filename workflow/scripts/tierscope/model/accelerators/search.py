"""Simulate 1, 2, 4 ... accelerators, and find the most that reach a goal."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import TABLES
from tierscope.core.columns.accelerators import NOT_ASKED
from tierscope.core.scenario import Point
from tierscope.data.accelerators import Plan
from tierscope.model.accelerators.feeding import simulate_pace
from tierscope.model.accelerators.pace import Pace

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
    paces = [simulate_pace(plan, n, one) for one in points]
    others = [simulate_pace(end, n, one) for end in ends for one in points]
    dataset, rate = plan.description.dataset, points[0].cache_rate_percent
    room_percent = plan.lfs_rate_percent(n)
    used, used_low, used_high = _band(
        [one.utilisation_percent for one in paces],
        [one.utilisation_percent for one in others],
    )
    samples, samples_low, samples_high = _band(
        [_samples_per_s(plan, n, one) for one in paces],
        [_samples_per_s(plan, n, one) for one in others],
    )
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
        "utilisation_percent": used,
        "utilisation_low_percent": used_low,
        "utilisation_high_percent": used_high,
        "samples_per_second": samples,
        "samples_per_second_low": samples_low,
        "samples_per_second_high": samples_high,
        "throughput": samples * dataset.file_size_bytes,
        "lfs_rate_percent": np.nan if room_percent is None else room_percent,
        "fits_lfs": room_percent is None or rate <= room_percent,
        "limit": NOT_ASKED,
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


def _band(
    values: Sequence[float], others: Sequence[float]
) -> tuple[float, float, float]:
    """Return the mean of values, and the least and the largest of all, if several."""
    everything = [*values, *others]
    if len(everything) == 1:
        return values[0], np.nan, np.nan
    return float(np.mean(values)), min(everything), max(everything)
