"""Compare predicted with measured I/O time, to know how far to trust a model.

A model calibrated on a few points predicts the slowest process's time by I/O class at
all points of the sweep; points that it has not seen are held out. Errors are errors of
means: a point's I/O time is the mean over repetitions and epochs, and
`tierscope.analysis.predicted_epochs` compares epoch by epoch. The tables also hold the
interval of what was measured, and the variation between repetitions of a point, because
no prediction can be better than that.

The paper scales its measurements on one OST to more OSTs and finds that this does not
fit (Fukai et al., Sec. 6): here this is model `scaling`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import break_down
from tierscope.analysis.intervals import (
    NO_INTERVAL,
    BestRates,
    best_rates,
    mean_intervals,
)
from tierscope.analysis.predicted_epochs import (
    RUN_EPOCH,
    epoch_errors,
    execution_times,
    execution_words,
    io_times,
    largest_allowed,
    missed_epochs,
    utilisation_words,
    utilisations_percent,
)
from tierscope.core.columns import CLASSES, SCENARIO, TABLES
from tierscope.core.io_class import IOClass
from tierscope.core.studies import Pair
from tierscope.core.tables import with_later_columns
from tierscope.core.words import count_words

SCALING = "scaling"
DOMINANT_GOAL_PERCENT = 95
_NO_INTERVALS = "No intervals of predictions: they need a calibration"

SHARE_ERRORS = [f"{io_class}_share_error_points" for io_class in CLASSES]
_STUDY = [*SCENARIO, "calibration", "model"]
_POINT = [*_STUDY, "cache_rate_percent"]
_RATE_CLASS = ["cache_rate_percent", "io_class"]


def scale_osts(io_time: pd.DataFrame, n_osts: int) -> pd.DataFrame:
    """Return the breakdown that scaling predicts on another number of OSTs.

    GFS-READ of every process is divided by the ratio of the OST counts, everything
    else stays as measured, and the slowest process is picked after that (Fukai et al.,
    Sec. 6).

    Parameters
    ----------
    io_time : DataFrame
        Table ``io_time`` of one scenario.
    n_osts : int
        The OST count to predict.

    Returns
    -------
    DataFrame
        Table ``breakdown``, with `n_osts` OSTs.
    """
    is_read = io_time["io_class"] == IOClass.GFS_READ
    scaled_s = io_time["time_s"] * io_time["n_osts"] / n_osts
    time_s = scaled_s.where(is_read, io_time["time_s"])
    return break_down(io_time.assign(time_s=time_s, n_osts=n_osts))


def compare(
    predicted: pd.DataFrame,
    breakdown: pd.DataFrame,
    *,
    calibration: str,
    model: str,
    calibrated_percent: Iterable[int] = (),
    epochs: pd.DataFrame | None = None,
    intervals: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Put the predictions of a scenario beside its measurements.

    Parameters
    ----------
    predicted : DataFrame
        Rows of a cache rate, repetition, epoch and I/O class with ``time_s``, the
        predicted time of the slowest process in seconds, and perhaps
        ``execution_time_s`` and ``utilisation_percent``
        (`tierscope.model.predict.predict`); other columns are ignored.
    breakdown : DataFrame
        Table ``breakdown`` of the scenario.
    calibration, model : str
        Names of calibration and model of the predictions.
    calibrated_percent : iterable of int
        Cache rates that the calibration was fitted to; all others are held out.
    epochs : DataFrame, optional
        Table ``epochs`` of the scenario; without it no execution time is measured.
    intervals : DataFrame, optional
        Intervals of the predictions
        (`tierscope.model.predicted_intervals.predicted_intervals`); default: none.

    Returns
    -------
    DataFrame, shape (n_cache_rates * 4, 21)
        Table ``predictions``: means over repetitions and epochs, in seconds, with the
        interval of the measured mean over the repetitions, of the class
        (``measured_low_s`` to ``measured_high_s``) and of the sum over the classes
        (``measured_io_time_low_s`` to ``measured_io_time_high_s``); missing where there
        is one repetition.

    Raises
    ------
    ValueError
        If the two do not hold the same cache rates, repetitions and epochs.
    """
    runs = [
        pd.MultiIndex.from_frame(frame[RUN_EPOCH].drop_duplicates()).sort_values()
        for frame in (predicted, breakdown)
    ]
    if not runs[0].equals(runs[1]):
        odd = runs[0].symmetric_difference(runs[1])[0]
        raise ValueError(
            f"model {model}: the predicted points differ from the measured ones: cache "
            f"rate, repetition and epoch {tuple(map(int, odd))} is only in one of them."
        )
    totals = mean_intervals(_run_totals(breakdown), ["cache_rate_percent"], "io_time_s")
    classes_s = breakdown.groupby([*_RATE_CLASS, "repetition"])["time_s"].mean()
    classes = mean_intervals(classes_s.reset_index(), _RATE_CLASS, "time_s")
    measured = breakdown.groupby(_RATE_CLASS)["time_s"]
    rows = pd.DataFrame(
        {
            "predicted_s": predicted.groupby(_RATE_CLASS)["time_s"].mean(),
            "measured_s": measured.mean(),
            "measured_low_s": classes["low"],
            "measured_high_s": classes["high"],
        }
    ).reset_index()
    rates = rows["cache_rate_percent"]
    code = pd.Index(CLASSES).get_indexer(rows["io_class"])
    rows = rows.assign(
        **breakdown[SCENARIO].iloc[0],
        calibration=calibration,
        model=model,
        held_out=~rates.isin(list(calibrated_percent)),
        measured_io_time_low_s=rates.map(totals["low"]),
        measured_io_time_high_s=rates.map(totals["high"]),
    )
    for whose, frame in (("predicted", predicted), ("measured", epochs)):
        execution_s = execution_times(frame).groupby("cache_rate_percent").mean()
        used_percent = utilisations_percent(frame, ["cache_rate_percent"])
        rows[f"{whose}_execution_s"] = rates.map(execution_s)
        rows[f"{whose}_utilisation_percent"] = rates.map(used_percent)
    if intervals is not None:
        rows = rows.merge(intervals, on=_RATE_CLASS, validate="1:1")
    rows = with_later_columns(rows, "predictions")
    return rows.iloc[np.lexsort((code, rates))][list(TABLES["predictions"])]


def _run_totals(breakdown: pd.DataFrame) -> pd.DataFrame:
    """Return the I/O time of each run of a scenario, the mean over its epochs."""
    runs_s = io_times(breakdown).groupby(RUN_EPOCH[:-1]).mean()
    return runs_s.rename("io_time_s").reset_index()


def compare_points(predictions: pd.DataFrame) -> pd.DataFrame:
    """Sum up the classes of each predicted point.

    Parameters
    ----------
    predictions : DataFrame
        Table ``predictions``.

    Returns
    -------
    DataFrame
        One row for each scenario, calibration, model and cache rate: ``held_out``,
        ``predicted_s`` and ``measured_s``, the I/O time of the slowest process in
        seconds, with their intervals ``predicted_low_s`` to ``predicted_high_s`` and
        ``measured_low_s`` to ``measured_high_s``, ``inside``, whether the latter holds
        the prediction, ``held``, whether the interval of the prediction holds the
        measured time, ``error_percent`` (positive:
        predicted too long), ``predicted_class`` and ``measured_class``, which take
        longest, ``undecided``, and a share error in percentage points for each
        class. The two longest classes of a point are undecided if their intervals
        overlap: then chance decides which one is dominant.
    """
    shape = (-1, len(CLASSES))
    points = predictions.iloc[:: len(CLASSES)][[*_POINT, "held_out"]]
    points = points.reset_index(drop=True)
    predicted_s, measured_s, low_s, high_s = (
        predictions[f"{name}_s"].to_numpy().reshape(shape)
        for name in ("predicted", "measured", "measured_low", "measured_high")
    )
    points["predicted_s"] = predicted_s.sum(axis=1)
    points["measured_s"] = measured_s.sum(axis=1)
    for end in ("measured_low", "measured_high", "predicted_low", "predicted_high"):
        ends_s = predictions[f"{end.replace('_', '_io_time_')}_s"].to_numpy()
        points[f"{end}_s"] = ends_s[:: len(CLASSES)]
    for column, of, by in (
        ("inside", "predicted", "measured"),
        ("held", "measured", "predicted"),
    ):
        ends_s = points[f"{by}_low_s"], points[f"{by}_high_s"]
        points[column] = points[f"{of}_s"].between(*ends_s)
    points["error_percent"] = 100 * (points["predicted_s"] / points["measured_s"] - 1)
    names = np.array(CLASSES)
    points["predicted_class"] = names[predicted_s.argmax(axis=1)]
    points["measured_class"] = names[measured_s.argmax(axis=1)]
    longest = np.argsort(measured_s, axis=1)[:, -2:]
    second_s = np.take_along_axis(high_s, longest[:, :1], axis=1)[:, 0]
    first_s = np.take_along_axis(low_s, longest[:, 1:], axis=1)[:, 0]
    points["undecided"] = first_s <= second_s
    shares = [100 * s / s.sum(axis=1, keepdims=True) for s in (predicted_s, measured_s)]
    points[SHARE_ERRORS] = np.abs(shares[0] - shares[1])
    return points


def prediction_errors(
    predictions: pd.DataFrame,
    by_epoch: pd.DataFrame,
    breakdown: pd.DataFrame,
    pairs: Iterable[Pair],
) -> pd.DataFrame:
    """Sum up how well each model predicts the points that are held out.

    Parameters
    ----------
    predictions, by_epoch : DataFrame
        Tables ``predictions`` and ``predicted_epochs``.
    breakdown : DataFrame
        Table ``breakdown`` of the measurements.
    pairs : iterable of Pair
        The studied pairs, which hold the goals.

    Returns
    -------
    DataFrame
        Table ``prediction_errors``, a row for each scenario, calibration and model.
        ``mape_percent``, ``largest_error_percent`` (absolute) and
        ``mean_error_percent`` (with sign) are of the slowest process's I/O time; the
        best cache rate is that with the least I/O time of the whole sweep, and
        ``best_in_set`` says whether the predicted one cannot be told from the measured
        one (`tierscope.analysis.intervals.best_rates`). ``n_inside`` predictions lie in
        the interval of what was measured, of ``n_with_interval`` that have one. The
        goal is met where the mean absolute error is at most ``goal_percent``, or at
        most the median ``repeat_cv_percent`` of the held-out points where that is
        larger. Of single epochs, I/O time and execution time may err twice as much.
    """
    points = compare_points(predictions)
    epochs = dict(iter(by_epoch[by_epoch["held_out"]].groupby(_STUDY)))
    goals = {(pair.calibration, *pair.scenario.values()): pair for pair in pairs}
    rows = []
    for values, study in points.groupby(_STUDY, sort=False):
        keys = dict(zip(_STUDY, values, strict=True))
        held_out = study[study["held_out"]]
        if held_out.empty:
            raise ValueError(
                f"calibration {keys['calibration']}: got a fit to all cache rates of "
                f"{keys['dataset']} on {keys['n_osts']} OSTs, expected some held out."
            )
        scenario = {key: keys[key] for key in SCENARIO}
        names = ("calibration", "dataset", "n_osts", "policy", "loader")
        pair = goals[tuple(keys[name] for name in names)]
        is_mine = (breakdown[SCENARIO] == pd.Series(scenario)).all(axis=1)
        is_mine &= breakdown["cache_rate_percent"].isin(study["cache_rate_percent"])
        best = best_rates(_run_totals(breakdown[is_mine]))
        of_epochs = epoch_errors(epochs[values], pair.goal_percent)
        rows.append(keys | _errors(study, held_out, of_epochs, best))
    return pd.DataFrame(rows)[list(TABLES["prediction_errors"])]


def _errors(
    study: pd.DataFrame,
    held_out: pd.DataFrame,
    of_epochs: Mapping[str, Any],
    best: BestRates,
) -> dict[str, Any]:
    """Return the columns of a row of table ``prediction_errors`` after its keys."""
    error_percent = held_out["error_percent"]
    reach = held_out["predicted_high_s"] / held_out["predicted_s"]
    mape_percent = error_percent.abs().mean()
    rates = study["cache_rate_percent"].tolist()
    predicted, measured = (
        int(study[column].argmin()) for column in ("predicted_s", "measured_s")
    )
    right = held_out["predicted_class"] == held_out["measured_class"]
    dominant_right_percent = 100 * right.mean()
    limit_percent = largest_allowed(
        of_epochs["goal_percent"], of_epochs["repeat_cv_percent"]
    )
    return {
        **of_epochs,
        "n_points": len(held_out),
        "n_with_interval": int(held_out["measured_low_s"].notna().sum()),
        "n_inside": int(held_out["inside"].sum()),
        "n_with_prediction_interval": float(held_out["predicted_low_s"].notna().sum()),
        "n_held": float(held_out["held"].sum()),
        # How far the intervals of predictions reach above these.
        "prediction_interval_percent": float(100 * (reach - 1).median()),
        "mape_percent": mape_percent,
        "largest_error_percent": error_percent.abs().max(),
        "mean_error_percent": error_percent.mean(),
        **held_out[SHARE_ERRORS].mean(),
        "dominant_right_percent": dominant_right_percent,
        "dominant_wrong_at_percent": _list(held_out, ~right),
        "undecided_at_percent": _list(held_out, held_out["undecided"]),
        "best_predicted_percent": rates[predicted],
        "best_measured_percent": rates[measured],
        "best_measured_set_percent": best.words.removesuffix(" %"),
        "best_in_set": rates[predicted] in best.rates,
        "best_within_one_step": abs(predicted - measured) <= 1,
        "error_goal_met": bool(mape_percent <= limit_percent),
        "dominant_goal_met": bool(dominant_right_percent >= DOMINANT_GOAL_PERCENT),
    }


def _list(points: pd.DataFrame, which: pd.Series) -> str:
    """Return the cache rates of some points in a text."""
    return ", ".join(map(str, points.loc[which, "cache_rate_percent"]))


def study_words(study: Mapping[str, Any]) -> str:
    """Return the repeat variation and the goal of a study: a row of the errors."""
    if np.isnan(study["repeat_cv_percent"]):
        repeats = NO_INTERVAL
    else:
        repeats = (
            f"repetitions vary by {study['repeat_cv_percent']:.1f} % (median; at most "
            f"{study['largest_repeat_cv_percent']:.1f} %); "
            f"{study['n_with_interval']} of {study['n_points']} cache rates have "
            "an interval"
        )
    return f"{repeats}, goal {study['goal_percent']} %"


def held_words(study: Mapping[str, Any]) -> str:
    """Return how many points the intervals of a model's predictions hold, if any."""
    n = study["n_with_prediction_interval"]
    if not n > 0:
        return ""
    return (
        f"The intervals of the {study['model']} hold {study['n_held']:.0f} of {n:.0f} "
        "measured points that were held out; they reach "
        f"{study['prediction_interval_percent']:.0f} % up (median)"
    )


def summary(errors: pd.DataFrame) -> str:
    """Return table ``prediction_errors`` in words and columns, for readers.

    Parameters
    ----------
    errors : DataFrame
        Table ``prediction_errors``.
    """
    labels = [io_class.label for io_class in IOClass]
    lines = [
        f"Errors at held-out cache rates ({errors['source'].iloc[0]}, system "
        f"{errors['system'].iloc[0]}): MAPE, largest and mean error of the slowest "
        "process's I/O time in percent,",
        "the largest error of an epoch,",
        f"mean error of the shares of {', '.join(labels)} in points, how often the "
        "dominant class is right in percent,",
        "how many predictions lie in the interval of what was measured (95 % "
        "confidence, Student's t) of those that have one,",
        "and the best cache rate predicted / measured: all that cannot be told apart.",
    ]
    for _, studies in errors.groupby([*SCENARIO, "calibration"], sort=False):
        first = studies.iloc[0]
        lines += [
            "",
            f"{first['dataset']}, n_osts {first['n_osts']}, {first['policy']}, "
            f"{first['loader']}, parameters {first['calibration']}: "
            f"{count_words(first['n_points'], 'cache rate')}, {study_words(first)}",
            f"  {'model':<17}{'MAPE':>7}{'largest':>9}{'mean':>7}{'epoch':>8}"
            f"{'share errors':>24}{'dominant':>10}{'inside':>9}  {'best':>16}",
        ]
        lines += map(_summary_line, studies.to_dict("records"))
        lines += _execution_lines(studies)
        held = filter(None, map(held_words, studies.to_dict("records")))
        lines += [f"  {words}" for words in held] or [f"  {_NO_INTERVALS}"]
        if undecided := first["undecided_at_percent"]:
            lines.append(
                "  measured classes too close to call which one is dominant at "
                f"{undecided} %"
            )
    return "\n".join(lines) + "\n"


def _execution_lines(studies: pd.DataFrame) -> list[str]:
    """Return the errors of execution time and utilisation, of models that know them."""
    known = studies[studies["execution_mape_percent"].notna()]
    return [
        f"  {words} (by {row['model']})"
        for row in known.to_dict("records")
        for words in (execution_words(row), utilisation_words(row))
        if words
    ]


def _summary_line(row: Mapping[str, Any]) -> str:
    """Return the line of a model in the summary."""
    shares = "".join(f"{row[name]:>6.1f}" for name in SHARE_ERRORS)
    best = f"{row['best_predicted_percent']} / {row['best_measured_set_percent']}"
    inside = f"{row['n_inside']} / {row['n_with_interval']}"
    epochs = missed_epochs(row)  # older tables do not tell
    missed = [
        words
        for is_met, words in (
            (row["error_goal_met"], "MAPE"),
            (not epochs, f"worst epoch ({', '.join(epochs)})"),
            (
                row["dominant_goal_met"],
                f"dominant at {row['dominant_wrong_at_percent']} %",
            ),
            (row["best_within_one_step"], "best cache rate"),
        )
        if not is_met
    ]
    largest = row["epoch_largest_error_percent"]
    of_epoch = f"{largest:.1f}" if row["epoch_largest_error_at"] else "\N{EN DASH}"
    verdict = f"missed: {', '.join(missed)}" if missed else "goals met"
    if not missed and row["mape_percent"] > row["goal_percent"]:
        verdict = "undecided: repetitions vary by more than the goal"
    return (
        f"  {row['model']:<17}{row['mape_percent']:>7.1f}"
        f"{row['largest_error_percent']:>9.1f}{row['mean_error_percent']:>+7.1f}"
        f"{of_epoch:>8}{shares}{row['dominant_right_percent']:>10.0f}{inside:>9}"
        f"  {best:>16}  {verdict}"
    )
