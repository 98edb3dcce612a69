"""Estimate what faster classes would bring to a job, by the paper's rule.

`tierscope.analysis.slowest` has the rule. Here is which improvements are estimated, and
in which words. Where the times of the processes are bounds, so are the estimates.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tierscope.analysis.slowest.improved import improved_slowest
from tierscope.analysis.slowest.times import (
    ProcessTimes,
    slowest_bounds,
    slowest_class_bounds,
)
from tierscope.core.columns import OPERATIONS
from tierscope.core.words import changes_words, class_label
from tierscope.logs.joining.texts import Texts

PERCENTS = (25, 50, 100, 200)
# A class with a smaller part of the slowest process's time is not estimated.
LEAST_SHARE = 0.01
# Tiers without a server that could be improved: paths of no tier, and no paths.
NO_TIERS = ("other", "unnamed")
_META = [operation for operation in OPERATIONS if operation.endswith("meta")]

JobClass = tuple[str, str, str]  # tier, interface, operation


@dataclass(frozen=True)
class Improvement:
    """Classes of a phase (positions) that are improved together, and their labels."""

    labels: tuple[str, ...]
    classes: tuple[int, ...]


def estimate_jobs(
    times: ProcessTimes, classes: Sequence[tuple[JobClass, ...]]
) -> dict[str, np.ndarray | Texts]:
    """Estimate what improvements of classes would bring to jobs in epochs.

    Parameters
    ----------
    times : ProcessTimes
        The times of all processes of some phases.
    classes : sequence of tuples of (tier, interface, operation)
        The counted classes of each phase, in the order of `times`.

    Returns
    -------
    dict of ndarray or Texts
        The columns of table ``job_estimates``, with `phase` in place of the job and the
        epoch: 25, 50, 100 and 200 % more throughput of each counted class with at least
        1 % of the slowest process's time, of each pair of these, of all metadata of a
        tier ("metadata server of gfs"), and of everything on a tier. No row is of a
        phase without time.
    """
    phases, improvements = [], []
    sizes_s, slowest_s = slowest_sizes(times), _slowest_size(times)
    shown = (sizes_s >= LEAST_SHARE * slowest_s[:, np.newaxis]) & (sizes_s > 0)
    for phase, (of_phase, *flags) in enumerate(
        zip(classes, shown.tolist(), (times.sum_s > 0).tolist(), strict=True)
    ):
        found = _improvements(of_phase, *map(tuple, flags))
        phases += [phase] * len(found)
        improvements += found
    n_rows = len(improvements) * len(PERCENTS)
    percents = np.zeros((n_rows, times.least_s.shape[1]), np.int16)
    percent = np.tile(PERCENTS, len(improvements))
    n_classes = np.array([len(one.classes) for one in improvements], np.int64)
    row = np.repeat(np.arange(len(improvements)), n_classes)
    column = np.array([i for one in improvements for i in one.classes], np.int64)
    for place, of_all in enumerate(PERCENTS):
        percents[row * len(PERCENTS) + place, column] = of_all
    phase = np.repeat(np.array(phases, np.int64), len(PERCENTS))
    estimates = improved_slowest(times, percents, phase)
    return {
        "phase": phase,
        "improvement": _words_of(improvements),
        "n_classes": np.repeat(n_classes, len(PERCENTS)),
        "improvement_percent": percent,
        **{name: or_missing(bound) for name, bound in vars(estimates).items()},
    }


def _words_of(improvements: Sequence[Improvement]) -> Texts:
    """Return improvements by each of `PERCENTS` in words."""
    number: dict[tuple[str, ...], int] = {}
    codes = [number.setdefault(one.labels, len(number)) for one in improvements]
    words = [
        changes_words((label, percent) for label in labels)
        for labels in number
        for percent in PERCENTS
    ]
    places = np.arange(len(PERCENTS))
    codes = np.array(codes, np.int64)[:, np.newaxis] * len(PERCENTS) + places
    return Texts(words, codes.ravel())


@lru_cache(maxsize=1 << 12)
def _improvements(
    classes: tuple[JobClass, ...], shown: tuple[bool, ...], has_time: tuple[bool, ...]
) -> list[Improvement]:
    """Return what is improved together; flags say which classes count for what."""
    labels = [class_label(*job_class) for job_class in classes]
    kept = [i for i in range(len(classes)) if shown[i]]
    found = [Improvement((labels[i],), (i,)) for i in kept]
    found += [
        Improvement((labels[i], labels[j]), (i, j))
        for i, j in itertools.combinations(kept, 2)
    ]
    for tier in dict.fromkeys(tier for tier, _, _ in classes):
        of_tier = [i for i, (name, _, _) in enumerate(classes) if name == tier]
        used = tuple(i for i in of_tier if has_time[i])
        if not used or tier in NO_TIERS:
            continue
        if meta := tuple(i for i in used if classes[i][2] in _META):
            found.append(Improvement((f"metadata server of {tier}",), meta))
        found.append(Improvement((f"everything on {tier}",), used))
    return found


def slowest_sizes(times: ProcessTimes) -> np.ndarray:
    """Return how large each class of each phase's slowest process can be, in seconds.

    It is the least where the most is unknown.
    """
    least_s, most_s = slowest_class_bounds(times)
    return np.where(np.isfinite(most_s), most_s, least_s)


def _slowest_size(times: ProcessTimes) -> np.ndarray:
    """Return how long the slowest process can take, or the least if unknown."""
    least_s, most_s = slowest_bounds(times)
    return np.where(np.isfinite(most_s), most_s, least_s)


def or_missing(bounds_s: np.ndarray) -> np.ndarray:
    """Return bounds with NaN for those that are infinite."""
    return np.where(np.isfinite(bounds_s), bounds_s, np.nan)
