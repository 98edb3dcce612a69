"""Compare predictions with measurements epoch by epoch.

A mean over epochs may hide that a first one is predicted too short and later ones too
long. So the execution time is judged by epoch, and so is the worst epoch of the I/O
time. Times are means over the repetitions.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import SCENARIO_KEYS, TABLES
from tierscope.core.studies import WORST_FACTOR
from tierscope.core.words import epoch_words

_EPOCH = ["cache_rate_percent", "epoch"]
RUN_EPOCH = ["cache_rate_percent", "repetition", "epoch"]


def compare_by_epoch(
    predicted: pd.DataFrame,
    breakdown: pd.DataFrame,
    predictions: pd.DataFrame,
    epochs: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Put the predicted epochs of a scenario beside the measured ones.

    Parameters
    ----------
    predicted, breakdown, epochs
        As for `tierscope.analysis.prediction.compare`; the first may have ``warmup_s``.
    predictions : DataFrame
        What that function returned.

    Returns
    -------
    DataFrame, shape (n_cache_rates * n_epochs, 21)
        Table ``predicted_epochs``.
    """
    times_s = io_times(breakdown)
    rows = pd.DataFrame(
        {
            "predicted_s": io_times(predicted).groupby(_EPOCH).mean(),
            "measured_s": times_s.groupby(_EPOCH).mean(),
            "repeat_cv_percent": _cv_percent(times_s),
            "execution_repeat_cv_percent": _cv_percent(execution_times(epochs)),
        }
    )
    for whose, frame in (("predicted", predicted), ("measured", epochs)):
        rows[f"{whose}_execution_s"] = execution_times(frame).groupby(_EPOCH).mean()
        rows[f"{whose}_warmup_s"] = _mean(frame, "warmup_s", _EPOCH)
        rows[f"{whose}_utilisation_percent"] = utilisations_percent(frame, _EPOCH)
    rows = rows.reset_index()
    first = predictions.iloc[0]
    keys = {name: first[name] for name in (*SCENARIO_KEYS, "calibration", "model")}
    is_held_out = predictions.groupby("cache_rate_percent")["held_out"].first()
    held_out = rows["cache_rate_percent"].map(is_held_out)
    return rows.assign(**keys, held_out=held_out)[list(TABLES["predicted_epochs"])]


def io_times(times: pd.DataFrame) -> pd.Series:
    """Return the I/O time of the slowest process by run and epoch, in seconds."""
    return times.groupby(RUN_EPOCH)["time_s"].sum()


def execution_times(frame: pd.DataFrame | None) -> pd.Series:
    """Return the execution time by run and epoch; empty if it is not known.

    It is the longest of the processes.
    """
    if frame is None or "execution_time_s" not in frame:
        levels = pd.MultiIndex.from_arrays([[]] * len(RUN_EPOCH), names=RUN_EPOCH)
        return pd.Series(index=levels, dtype="float64")
    return frame.groupby(RUN_EPOCH)["execution_time_s"].max()


def utilisations_percent(frame: pd.DataFrame | None, by: list[str]) -> pd.Series:
    """Return the mean accelerator utilisation by some columns, empty if not known.

    It is missing where the training does not compute, and where any is only a least.
    """
    used = _mean(frame, "utilisation_percent", by)
    used = used.where(used > 0)
    if used.empty or "least_because" not in frame:
        return used
    is_least = frame.assign(is_least=frame["least_because"] != "").groupby(by)
    return used.mask(is_least["is_least"].any())


def _mean(frame: pd.DataFrame | None, name: str, by: list[str]) -> pd.Series:
    """Return the mean of a column over runs and processes, empty if there is none."""
    if frame is None or name not in frame:
        return pd.Series(dtype="float64")
    return frame.groupby(by)[name].mean()


def _cv_percent(times_s: pd.Series) -> pd.Series:
    """Return standard deviation over mean of the repetitions of each epoch."""
    groups = times_s.groupby(_EPOCH)
    return 100 * groups.std() / groups.mean()


def largest_allowed(goal_percent: float, repeat_cv_percent: float) -> float:
    """Return the largest mean error that meets a goal.

    It is what repetitions vary by, if that is more.
    """
    return max(goal_percent, repeat_cv_percent)  # the goal if that is not known


def epoch_errors(rows: pd.DataFrame, goal_percent: int) -> dict[str, Any]:
    """Sum up the errors of a model in the epochs that are held out.

    Parameters
    ----------
    rows : DataFrame
        Rows of table ``predicted_epochs``.
    goal_percent : int
        The goal for mean errors.

    Returns
    -------
    dict
        Columns of table ``prediction_errors``.
    """
    io_percent, execution_percent = (
        100 * (rows[f"predicted_{of}"] / rows[f"measured_{of}"] - 1)
        for of in ("s", "execution_s")
    )
    used = "utilisation_percent"
    points = rows[f"predicted_{used}"] - rows[f"measured_{used}"]
    return {
        "goal_percent": goal_percent,
        **_largest("epoch_largest_error", "percent", io_percent, rows),
        "repeat_cv_percent": rows["repeat_cv_percent"].median(),
        "largest_repeat_cv_percent": rows["repeat_cv_percent"].max(),
        "execution_mape_percent": execution_percent.abs().mean(),
        **_largest("execution_largest_error", "percent", execution_percent, rows),
        "execution_repeat_cv_percent": rows["execution_repeat_cv_percent"].median(),
        "utilisation_error_points": points.abs().mean(),
        **_largest("utilisation_largest_error", "points", points, rows),
    }


def missed_epochs(row: Mapping[str, Any]) -> list[str]:
    """Return in words which epochs err too much, by a row of ``prediction_errors``.

    An execution time that is not known misses nothing.
    """
    return [
        f"{of} {row[f'{worst}_largest_error_at']}"
        for of, worst, cv in (
            ("I/O time", "epoch", "repeat_cv"),
            ("execution time", "execution", "execution_repeat_cv"),
        )
        if row[f"{worst}_largest_error_percent"]
        > WORST_FACTOR * largest_allowed(row["goal_percent"], row[f"{cv}_percent"])
    ]


def _largest(
    name: str, unit: str, errors: pd.Series, rows: pd.DataFrame
) -> dict[str, Any]:
    """Return the largest absolute error, and in words which it is."""
    largest = errors.abs().max()
    if np.isnan(largest):
        return {f"{name}_{unit}": largest, f"{name}_at": ""}
    at = rows.loc[errors.abs().idxmax()]
    more, less = ("high", "low") if unit == "points" else ("long", "short")
    word = more if errors[at.name] > 0 else less
    epoch = epoch_words(int(at["epoch"]))
    words = f"too {word} in the {epoch} at {at['cache_rate_percent']} %"
    return {f"{name}_{unit}": largest, f"{name}_at": words}


def worst_words(row: Mapping[str, Any]) -> str:
    """Return the largest errors of an epoch: of a row of ``prediction_errors``.

    Empty if it is of an older table, which does not tell.
    """
    worst = {"I/O time": "epoch", "execution time": "execution"}
    found = [
        f"{of} {row[f'{name}_largest_error_percent']:.1f} % "
        f"{row[f'{name}_largest_error_at']}"
        for of, name in worst.items()
        if row[f"{name}_largest_error_at"]
    ]
    return f"worst epoch of the {row['model']}: {', '.join(found)}" if found else ""


def execution_words(row: Mapping[str, Any]) -> str:
    """Return the errors of the execution time: of a row of ``prediction_errors``."""
    words = f"execution time: MAPE {row['execution_mape_percent']:.1f} %"
    if at := row["execution_largest_error_at"]:  # else not by epoch: an older table
        worst = f"{row['execution_largest_error_percent']:.1f} % {at}"
        words = f"by epoch, {words}, worst {worst}"
    if np.isnan(row["execution_repeat_cv_percent"]):
        return words
    return f"{words}; repetitions vary by {row['execution_repeat_cv_percent']:.1f} %"


def utilisation_words(row: Mapping[str, Any]) -> str:
    """Return the same of the accelerator utilisation; empty if it is not known."""
    if np.isnan(row["utilisation_error_points"]):
        return ""
    words = f"accelerator utilisation: {row['utilisation_error_points']:.1f} points off"
    if at := row["utilisation_largest_error_at"]:
        worst = f"{row['utilisation_largest_error_points']:.1f} {at}"
        words = f"by epoch, {words}, worst {worst}"
    return words
