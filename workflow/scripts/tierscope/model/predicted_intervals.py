"""Intervals of predictions: what a calibration does not know, at the predicted points.

The interval of a time is that of its true mean at a cache rate, over many repetitions.
It holds the uncertainty of the calibration
(`tierscope.model.calibration.uncertainty.Uncertainty`) and the scatter of the simulated
repetitions, of which there are a few only. Runs differ more than that from each other.
"""

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from tierscope.core.columns import CLASSES
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.model.calibration.uncertainty import RelativeErrors, Uncertainty
from tierscope.model.predict import SIMULATION, predict

_REPETITIONS = 8  # from which the scatter of repetitions is known
_UNUSED = 1000  # number of the first of the further ones
_MOST_READS = 10_000_000  # of these
_ENDS = ("low_s", "high_s")
COLUMNS = [
    "cache_rate_percent",
    "io_class",
    *(f"predicted_{end}" for end in _ENDS),
    *(f"predicted_io_time_{end}" for end in _ENDS),
]


def predicted_intervals(
    predicted: pd.DataFrame,
    description: RunDescription,
    uncertainty: Uncertainty,
) -> pd.DataFrame:
    """Return the intervals of what the simulation predicts.

    Parameters
    ----------
    predicted : DataFrame
        The predictions (`tierscope.model.predict.predict`).
    description : RunDescription
        Their scenario, with calibrated devices.
    uncertainty : Uncertainty
        That of the calibration.

    Returns
    -------
    DataFrame, shape (n_cache_rates * 4, 6)
        `COLUMNS`: by cache rate and class, both ends of the 95 % intervals of the
        slowest process's time in the class and of its I/O time, in seconds.
    """
    points = predicted[["cache_rate_percent", "repetition"]].drop_duplicates()
    firsts = points.groupby("cache_rate_percent")["repetition"].min().items()
    firsts = [Point(int(rate), int(repetition)) for rate, repetition in firsts]
    runs_s = _run_times(predicted)
    errors = uncertainty.errors(
        description,
        lambda changed: _simulated(changed, firsts),
        with_total,
        more=_scatter(predicted, description),
    )
    means_s = runs_s.groupby("cache_rate_percent").mean()
    low_s, high_s = errors.interval(means_s.to_numpy())
    n = len(CLASSES)
    ends = [low_s[:, :n], high_s[:, :n], low_s[:, [n] * n], high_s[:, [n] * n]]
    keys = [np.repeat(means_s.index, n), np.tile(CLASSES, len(means_s))]
    columns = [*keys, *(end.ravel() for end in ends)]
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


def improved_errors(
    improved_s: np.ndarray,
    description: RunDescription,
    uncertainty: Uncertainty,
    times: Callable[[RunDescription], np.ndarray],
) -> RelativeErrors:
    """Return how far an improvement's factor of the I/O time may be wrong.

    The time of a class is taken to be wrong by the same factor with an improvement and
    without. So what matters is by how much the class's share of the I/O time changes,
    and without an improvement nothing is wrong.

    Parameters
    ----------
    improved_s : ndarray of float, shape (n_points, n_improvements, 4)
        Class times of some points with each improvement, by the model, in seconds.
    description : RunDescription
        Their scenario, with calibrated devices.
    uncertainty : Uncertainty
        That of the calibration.
    times : callable
        Class times of a description without improvement: shape (n_points, 4).

    Returns
    -------
    RelativeErrors, shape (n_points, n_improvements)
    """
    as_it_is_s = times(description)[:, np.newaxis]
    factors = np.divide(
        improved_s, as_it_is_s, out=np.zeros_like(improved_s), where=as_it_is_s > 0
    )

    def changed(times_s: np.ndarray) -> np.ndarray:
        improved = (factors * times_s[:, np.newaxis]).sum(axis=-1)
        return improved / times_s.sum(axis=-1, keepdims=True)

    return uncertainty.errors(description, times, changed)


def with_total(times_s: np.ndarray) -> np.ndarray:
    """Return the times by class with their sum as one more column."""
    return np.concatenate([times_s, times_s.sum(axis=-1, keepdims=True)], axis=-1)


def _simulated(description: RunDescription, points: Iterable[Point]) -> np.ndarray:
    """Return the mean class times over the epochs of a run of each rate: (n, 4)."""
    runs_s = _run_times(predict(description, points, SIMULATION))
    return runs_s.to_numpy()[:, : len(CLASSES)]


def _run_times(predicted: pd.DataFrame, *more: str) -> pd.DataFrame:
    """Return mean class times and I/O time (s) by cache rate, repetition and `more`."""
    keys = ["cache_rate_percent", "repetition", *more]
    times_s = predicted.pivot_table(index=keys, columns="io_class", values="time_s")
    return times_s[list(CLASSES)].assign(total=times_s.sum(axis=1))


def _scatter(
    predicted: pd.DataFrame, description: RunDescription
) -> list[tuple[np.ndarray, float]]:
    """Return the relative variance of the predicted means over few repetitions."""
    runs_s = _run_times(predicted)
    counts = runs_s.groupby("cache_rate_percent").size()
    further = [
        Point(int(rate), _UNUSED + k)
        for rate, n in counts.items()
        for k in range(_REPETITIONS - n)
    ]
    epochs = description.training.epochs
    n_reads = len(further) * epochs * description.dataset.n_files
    if 0 < n_reads <= _MOST_READS:
        others_s = _run_times(predict(description, further, SIMULATION))
        runs_s = pd.concat([runs_s, others_s])
    elif counts.min() < 2:  # epochs of one stand for them
        runs_s = _run_times(predicted, "epoch")
        counts = counts * epochs
    groups = runs_s.groupby("cache_rate_percent")
    if (n := int(groups.size().min())) < 2:
        return []
    means_s = groups.mean().to_numpy()
    variance = groups.var(ddof=1).to_numpy() / counts.to_numpy()[:, np.newaxis]
    return [(variance / np.where(means_s > 0, means_s, 1.0) ** 2, n - 1.0)]
