"""Estimate what faster classes would bring to a job, by the paper's rule.

N % more throughput of a class multiplies its time by 100 / (100 + N) in every process;
then the slowest process is picked (`tierscope.analysis.whatif`). Where the times of the
processes are bounds, so are the estimates.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas as pd

from tierscope.analysis.search import Sufficient, least_of_fourth, least_sufficient
from tierscope.analysis.whatif import Goal, improve, slowest_after, upper_envelope
from tierscope.core.columns import OPERATIONS, RULE, TABLES
from tierscope.core.tables import empty_table
from tierscope.core.words import changes_words, class_label
from tierscope.logs.bounds import (
    ROUNDING,
    ProcessTimes,
    least_maximum,
    or_unbounded,
    slowest_bounds,
    slowest_candidates,
    slowest_class_bounds,
)

PERCENTS = (25, 50, 100, 200)
GRID_PERCENTS = np.arange(0, 401, 25)
# A class with a smaller part of the slowest process's time is not estimated.
LEAST_SHARE = 0.01
# Tiers without a server that could be improved: paths of no tier, and no paths.
NO_TIERS = ("other", "unnamed")
_N_IMPROVED = 4  # classes of a combination
_CELLS_AT_ONCE = 50_000
_META = [operation for operation in OPERATIONS if operation.endswith("meta")]

JobClass = tuple[str, str, str]  # tier, interface, operation


@dataclass(frozen=True)
class ImprovedSlowest:
    """Bounds of the slowest process's seconds after improvements, one entry each.

    What is saved is by how much that is shorter than without the improvement, 0 or
    more. Exact times have equal bounds; an upper bound is infinite if records were
    lost.
    """

    least_s: np.ndarray
    most_s: np.ndarray
    saved_least_s: np.ndarray
    saved_most_s: np.ndarray


def improved_slowest(times: ProcessTimes, percents: np.ndarray) -> ImprovedSlowest:
    """Bound the slowest process's time after each improvement, by the rule.

    Parameters
    ----------
    times : ProcessTimes
        The times of all processes of a job in an epoch.
    percents : ndarray of int, shape (n_improvements, n_classes)
        Improvements in percent, 0 or more, by class.

    Returns
    -------
    ImprovedSlowest
        Valid bounds. Those of a process are sharp for its bounds of classes and total.
        The least of the slowest one also uses the sums over the processes, which are
        known exactly. A larger improvement never has larger bounds of the time.

    Notes
    -----
    What is saved has narrower bounds than the difference of both times. Let P be the
    slowest process after the improvement. Before, the slowest took at least as long as
    P, so at least what P saves is saved. Let Q be the slowest process before. After,
    the slowest takes at least as long as Q, so at most what Q saves is saved.
    """
    if _are_equal(times):
        before_s = slowest_after(times.least_s, np.zeros_like(percents[:1]))[1]
        after_s = slowest_after(times.least_s, percents)[1]
        saved_s = np.maximum(before_s - after_s, 0.0)
        return ImprovedSlowest(after_s, after_s, saved_s, saved_s)
    times = _unbounded(times)
    before = slowest_bounds(times), slowest_candidates(times)
    factors = improve(np.ones(percents.shape), percents)
    rows = [_improved(times, row, *before) for row in factors]
    return ImprovedSlowest(*np.reshape(rows, (-1, 4)).T)


def _improved(
    times: ProcessTimes,
    factors: np.ndarray,
    before_s: tuple[float, float],
    candidates: np.ndarray,
) -> tuple[float, float, float, float]:
    """Return the four bounds of `ImprovedSlowest` for the factors of the classes."""
    least_s, most_s = _weighted(times, factors)
    # With the most of today, a larger improvement never makes this longer.
    slowest_s = least_maximum(
        least_s, times.total_most_s, (factors * times.sum_s).sum()
    )
    slowest_s = min(slowest_s, most_s.max())
    saved_least_s, saved_most_s = _weighted(times, 1 - factors)
    are_slowest = most_s >= (1 - ROUNDING) * slowest_s
    saved_s = min(before_s[1] - slowest_s, saved_most_s[candidates].max())
    surely_saved_s = saved_least_s[are_slowest].min()
    if np.isfinite(most_s.max()):
        surely_saved_s = max(surely_saved_s, before_s[0] - most_s.max())
    saved_s = max(saved_s, 0.0)
    return slowest_s, most_s.max(), min(max(surely_saved_s, 0.0), saved_s), saved_s


def _are_equal(times: ProcessTimes) -> bool:
    """Return whether all bounds are equal to the last bit."""
    return np.array_equal(times.least_s, times.most_s) and np.array_equal(
        times.total_least_s, times.total_most_s
    )


def _unbounded(times: ProcessTimes) -> ProcessTimes:
    """Return times with infinity for bounds that are missing."""
    return replace(
        times,
        most_s=or_unbounded(times.most_s),
        total_most_s=or_unbounded(times.total_most_s),
    )


def _weighted(
    times: ProcessTimes, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bound a weighted sum of the classes of each process.

    `weights` has a number from 0 to 1 by class. The sum is largest if the class with
    the largest weight takes as much time as it can, then the two with the largest
    weights together, and so on; some times attain the bounds of all these sets at once.
    Likewise it is smallest if they take as little as they can.
    """
    least_s, most_s = np.zeros((2, len(times.least_s)))
    levels = np.unique(weights[weights > 0])[::-1]
    for level, lower in itertools.pairwise([*levels, 0.0]):
        least_of_set_s, most_of_set_s = _of_set(times, weights >= level)
        least_s += (level - lower) * least_of_set_s
        most_s += (level - lower) * most_of_set_s
    return np.minimum(least_s, most_s), most_s


def _of_set(times: ProcessTimes, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bound the time of each process in some classes together."""
    others = ~chosen
    least_s = np.maximum(
        times.least_s[:, chosen].sum(axis=1),
        times.total_least_s - times.most_s[:, others].sum(axis=1),
    )
    most_s = np.minimum(
        times.most_s[:, chosen].sum(axis=1),
        times.total_most_s - times.least_s[:, others].sum(axis=1),
    )
    return least_s, most_s


def estimate_job(
    job: str, epoch: int, times: ProcessTimes, classes: Sequence[JobClass]
) -> pd.DataFrame:
    """Estimate what improvements of classes would bring to a job in an epoch.

    Table ``job_estimates``: 25, 50, 100 and 200 % more throughput of each counted class
    with at least 1 % of the slowest process's time, of each pair of these, of all
    metadata of a tier ("metadata server of gfs"), and of everything on a tier. Empty
    without time.
    """
    improvements = _improvements(times, classes)
    percents = np.zeros((len(improvements) * len(PERCENTS), len(classes)), np.int64)
    rows = []
    for (labels, columns), percent in itertools.product(improvements, PERCENTS):
        percents[len(rows), columns] = percent
        rows.append(
            {
                "improvement": changes_words((label, percent) for label in labels),
                "n_classes": len(columns),
                "improvement_percent": percent,
            }
        )
    if not rows:
        return empty_table("job_estimates")
    table = pd.DataFrame(rows).assign(job=job, epoch=epoch, method=RULE)
    estimates = improved_slowest(times, percents)
    for name in ("least_s", "most_s", "saved_least_s", "saved_most_s"):
        table[name] = _or_missing(getattr(estimates, name))
    return table[list(TABLES["job_estimates"])]


def _improvements(
    times: ProcessTimes, classes: Sequence[JobClass]
) -> list[tuple[list[str], list[int]]]:
    """Return the labels and classes (positions) of what is improved together."""
    sizes_s = slowest_sizes(times)
    shown = np.flatnonzero(sizes_s >= LEAST_SHARE * _slowest_size(times))
    shown = [int(i) for i in shown if sizes_s[i] > 0]
    labels = [class_label(*job_class) for job_class in classes]
    found = [([labels[i]], [i]) for i in shown]
    found += [
        ([labels[i], labels[j]], [i, j]) for i, j in itertools.combinations(shown, 2)
    ]
    for tier in dict.fromkeys(tier for tier, _, _ in classes):
        of_tier = [i for i, (name, _, _) in enumerate(classes) if name == tier]
        used = [i for i in of_tier if times.sum_s[i] > 0]
        if not used or tier in NO_TIERS:
            continue
        if meta := [i for i in used if classes[i][2] in _META]:
            found.append(([f"metadata server of {tier}"], meta))
        found.append(([f"everything on {tier}"], used))
    return found


def slowest_sizes(times: ProcessTimes) -> np.ndarray:
    """Return how large each class of the slowest process can be, in seconds.

    It is the least where the most is unknown.
    """
    least_s, most_s = slowest_class_bounds(times)
    return np.where(np.isfinite(most_s), most_s, least_s)


def _slowest_size(times: ProcessTimes) -> float:
    """Return how long the slowest process can take, or the least if unknown."""
    least_s, most_s = slowest_bounds(times)
    return most_s if np.isfinite(most_s) else least_s


def _or_missing(bounds_s: np.ndarray) -> np.ndarray:
    """Return bounds with NaN for those that are infinite."""
    return np.where(np.isfinite(bounds_s), bounds_s, np.nan)


def improved_classes(times: ProcessTimes) -> list[int]:
    """Return the classes that combinations improve: the four largest, ascending.

    A class counts with what it can be in the slowest process; of equal ones, with its
    sum over the processes, since after an improvement another one can be the slowest.
    """
    sizes_s = slowest_sizes(times)
    largest = np.lexsort([-times.sum_s, -sizes_s])[:_N_IMPROVED]
    return sorted(int(i) for i in largest if sizes_s[i] + times.sum_s[i] > 0)


def combinations_for_goal(
    job: str,
    epoch: int,
    times: ProcessTimes,
    classes: Sequence[JobClass],
    goal_s: float,
) -> pd.DataFrame:
    """Find the least improvements of the largest classes that meet a goal.

    Parameters
    ----------
    job : str
        The job's name.
    epoch : int
        The epoch, -1 for no epoch.
    times : ProcessTimes
        The times of all its processes.
    classes : sequence of (tier, interface, operation)
        The counted classes, in the order of `times`.
    goal_s : float
        The largest time of the slowest process that meets the goal, above 0.

    Returns
    -------
    DataFrame, shape (n_combinations, 10)
        Table ``job_combinations``. The four largest classes of the slowest process
        (`improved_classes`) take 0, 25, ... 400 %; the others stay as they are. A
        combination is minimal: with one step less of any class the goal is not met. It
        is certain if the goal is met whatever the processes' times are within their
        bounds. Those that are not are minimal among those that could meet it. Sorted by
        cost, the sum of the improvements in percent; of equal cost, certain ones come
        first. ``position`` counts from 1.

    Raises
    ------
    ValueError
        If the goal is not above 0.
    """
    goal = Goal("io_time", goal_s)
    chosen = improved_classes(times)
    certain, possible = _least_sufficient(_merged(times, chosen), goal)
    percents = tuple(GRID_PERCENTS.tolist())
    minimal = [
        Sufficient((0,), percents, least[np.newaxis]).minimal()
        for least in (certain, possible)
    ]
    minimal = np.unique(np.concatenate(minimal), axis=0)
    minimal = minimal[(minimal[:, len(chosen) :] == 0).all(axis=1)]  # no fillers
    first, second, third, fourth = np.searchsorted(GRID_PERCENTS, minimal.T)
    are_certain = certain[first, second, third] <= fourth
    improvements = np.zeros((len(minimal), len(classes)), np.int64)
    improvements[:, chosen] = minimal[:, : len(chosen)]
    estimates = improved_slowest(times, improvements)
    table = pd.DataFrame(
        {
            "improvement": [_in_words(classes, row) for row in improvements.tolist()],
            "cost": minimal.sum(axis=1).astype(float),
            "certain": are_certain,
            "least_s": estimates.least_s,
            "most_s": _or_missing(estimates.most_s),
        }
    )
    table = table.assign(job=job, epoch=epoch, method=RULE, goal_s=goal.seconds)
    order = ["cost", "certain"]
    table = table.sort_values(order, ascending=[True, False], kind="stable")
    table = table.assign(position=np.arange(1, len(table) + 1))
    return table.reset_index(drop=True)[list(TABLES["job_combinations"])]


def _in_words(classes: Sequence[JobClass], percents: Sequence[int]) -> str:
    """Return improvements of classes in words."""
    return changes_words(
        (class_label(*job_class), percent)
        for job_class, percent in zip(classes, percents, strict=True)
        if percent
    )


def _merged(times: ProcessTimes, chosen: Sequence[int]) -> ProcessTimes:
    """Return times of four classes, and of all others together as a fifth.

    Classes without time fill up the four.
    """
    others = [i for i in range(times.least_s.shape[1]) if i not in set(chosen)]

    def merge(values_s: np.ndarray) -> np.ndarray:
        merged_s = np.zeros((*values_s.shape[:-1], _N_IMPROVED + 1))
        merged_s[..., : len(chosen)] = values_s[..., chosen]
        merged_s[..., -1] = values_s[..., others].sum(axis=-1)
        return merged_s

    return replace(
        times,
        least_s=merge(times.least_s),
        most_s=merge(times.most_s),
        sum_s=merge(times.sum_s),
    )


def _least_sufficient(times: ProcessTimes, goal: Goal) -> tuple[np.ndarray, np.ndarray]:
    """Return which combinations meet a goal certainly, and which could.

    `times` are of `_merged`. Both arrays are as of
    `tierscope.analysis.search.least_sufficient`.
    """
    if _are_equal(times):
        kept_s = times.least_s[upper_envelope(times.least_s)]
        least = least_sufficient([kept_s], goal, GRID_PERCENTS)
        return least, least
    times = _unbounded(times)
    # A process that meets the goal as it is meets it after any improvement.
    _, most_s = _of_all_sets(times, times.total_most_s > goal.seconds)
    least_s, _ = _of_all_sets(times, times.total_least_s > goal.seconds)
    held_s = np.minimum(times.total_most_s, goal.seconds).sum()
    certain = _Bounded(most_s, np.zeros_like(times.sum_s), 0.0, goal)
    possible = _Bounded(least_s, times.sum_s, held_s, goal)
    return certain.search(), possible.search()


def _of_all_sets(times: ProcessTimes, kept: np.ndarray) -> np.ndarray:
    """Return the bounds of some processes in every set of classes.

    Shape (2, n_sets, n_different): least and most; a set is a binary number with a one
    for each of its classes. Equal processes are there once.
    """
    n_classes = times.least_s.shape[1]
    bounds_s = {
        name: getattr(times, name)[kept]
        for name in ("least_s", "most_s", "total_least_s", "total_most_s")
    }
    rows_s = pd.DataFrame(np.column_stack(list(bounds_s.values())))
    different = ~rows_s.duplicated().to_numpy()
    some = replace(times, **{name: of[different] for name, of in bounds_s.items()})
    sets = (np.arange(1 << n_classes)[:, np.newaxis] >> np.arange(n_classes)) & 1
    of_sets_s = np.stack([_of_set(some, chosen == 1) for chosen in sets], axis=1)
    return np.nan_to_num(of_sets_s, posinf=1e300)  # infinity times zero is no number


@dataclass(frozen=True)
class _Bounded:
    """Combinations of improvements of processes whose times are bounds.

    A combination meets the goal if no process exceeds it, and if the time of all
    processes (`sum_s`, by class) is not more than they can hold within the goal.
    `of_sets_s` is a half of `_of_all_sets`.
    """

    of_sets_s: np.ndarray
    sum_s: np.ndarray
    held_s: float
    goal: Goal
    positions: tuple[np.ndarray, ...] = ()

    def search(self) -> np.ndarray:
        """Return the least sufficient improvements (`least_of_fourth`)."""
        pairs_at_once = max(1, _CELLS_AT_ONCE // (self.of_sets_s.shape[1] + 1))
        return least_of_fourth(self.start, len(GRID_PERCENTS), pairs_at_once)

    def start(self, first: np.ndarray, second: np.ndarray) -> Self:
        """Return the combinations with these improvements of two classes."""
        return replace(self, positions=(first, second))

    def keep(self, rows: np.ndarray) -> Self:
        """Return some of them."""
        return replace(self, positions=tuple(part[rows] for part in self.positions))

    def is_met(self, third: np.ndarray, fourth: np.ndarray) -> np.ndarray:
        """Return which of them meet the goal with improvements of the other two."""
        percents = GRID_PERCENTS[np.column_stack([*self.positions, third, fourth])]
        factors = improve(np.ones(percents.shape), percents)
        factors = np.column_stack([factors, np.ones(len(factors))])
        fits = (factors * self.sum_s).sum(axis=1) <= (1 + ROUNDING) * self.held_s
        order = np.argsort(-factors, axis=1, kind="stable")
        descending = np.take_along_axis(factors, order, axis=1)
        steps = descending - np.column_stack([descending[:, 1:], np.zeros(len(order))])
        sets = np.cumsum(1 << order, axis=1)
        times_s = sum(
            steps[:, [i]] * self.of_sets_s[sets[:, i]] for i in range(sets.shape[1])
        )
        slowest_s = times_s.max(axis=1, initial=0.0)
        # Sums in another order must not make more improvement look worse.
        return fits & self.goal.is_met((1 - ROUNDING) * slowest_s)
