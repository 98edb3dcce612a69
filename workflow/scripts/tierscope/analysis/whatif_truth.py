"""Compare the promised benefit of faster devices with the real benefit.

The paper's rule (Fukai et al., Sec. 4.4) and a model each promise a cut of the slowest
process's I/O time; runs on devices that really are faster give the true cut. Runs of
the same repetition and epoch read the same files in the same order, so each improved
run is compared with the same run on the original devices.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import slowest_process
from tierscope.analysis.intervals import best_rates, mean_intervals, rates_words
from tierscope.analysis.whatif import estimate
from tierscope.core.columns import IMPROVEMENTS, SCENARIO, TABLES

# The sources of a cut; columns of the tables begin with their names.
ESTIMATORS = ("measured", "rule", "model")
# Two runs of a pair differ by system only; predictions have these keys as well.
_PAIR_KEYS = ["cache_rate_percent", "repetition", "epoch"]
_POINT = [*SCENARIO, "cache_rate_percent", *IMPROVEMENTS]
_TIMES = {
    "base": "base_io_time_s",
    "measured": "improved_io_time_s",
    "rule": "rule_io_time_s",
    "model": "model_io_time_s",
}
_WITH_INTERVALS = {
    "measured_cut": "percent",
    "rule_error": "points",
    "model_error": "points",
}


def compare(
    io_time: pd.DataFrame,
    improvements: Mapping[str, Mapping[str, int]],
    predictions: pd.DataFrame,
    *,
    model: str,
    calibration: str,
) -> pd.DataFrame:
    """Compare the cut by rule, by model and by measurement at every cache rate.

    Parameters
    ----------
    io_time : DataFrame, shape (n_processes * 4, 14)
        Table ``io_time`` of one scenario's runs on several systems.
    improvements : mapping of str to mapping of str to int
        Improvements of each system, in percent by I/O class; none on one of them.
    predictions : DataFrame
        What `tierscope.model.predict.predict` returns, with column ``system``, for all
        these runs: ``time_s`` in seconds by class, of the predicted slowest process.
    model, calibration : str
        Names of the model and its parameters, for the table.

    Returns
    -------
    DataFrame, shape (n_improvements * n_cache_rates, 32)
        Table ``whatif_truth``; improvements in the order given, then by cache rate.
        Times and cuts are means over the repetitions of the means over their epochs,
        which share the state of the machine. Errors are a promised cut minus the
        measured one, in percentage points. Measured cuts and errors have intervals over
        the repetitions: those of pairs, because before and after, promise and truth
        share their shuffles. ``..._among_best`` says which rates cannot be told from
        the best one (`tierscope.analysis.intervals.best_rates`).

    Raises
    ------
    ValueError
        If not exactly one system is without improvement, or a run or a prediction has
        no counterpart.

    Notes
    -----
    The rule scales every process's time by class, then picks the slowest. The model's
    I/O time in the table is the measured one without improvement times the model's
    ratio of both, so that its cut is the model's own.
    """
    pairs = pair_runs(io_time, improvements, predictions)
    for estimator in ESTIMATORS:
        cut = 100 * (1 - pairs[_TIMES[estimator]] / pairs["base_io_time_s"])
        pairs[f"{estimator}_cut_percent"] = cut
        pairs[f"{estimator}_error_points"] = cut - pairs["measured_cut_percent"]
    by = [*_POINT, "repetition"]
    runs = pairs.groupby(by, sort=False).mean(numeric_only=True).reset_index()
    for name, time in _TIMES.items():
        runs[f"{name}_among_best"] = _among_best(runs, time)
    points = runs.groupby(_POINT, sort=False)
    table = points.mean(numeric_only=True)
    table.insert(0, "n_repetitions", points.size())
    for column, unit in _WITH_INTERVALS.items():
        found = mean_intervals(runs, _POINT, f"{column}_{unit}").reindex(table.index)
        for end in ("low", "high"):
            table[f"{column}_{end}_{unit}"] = found[end]
    flags = dict.fromkeys((f"{name}_among_best" for name in _TIMES), bool)
    table = table.reset_index().astype(flags)
    table = table.assign(model=model, calibration=calibration)
    return table[list(TABLES["whatif_truth"])]


def _among_best(runs: pd.DataFrame, time: str) -> pd.Series:
    """Return which rows of runs have a rate that cannot be told from the best."""
    found = pd.Series(False, index=runs.index)
    for _, part in runs.groupby([*SCENARIO, *IMPROVEMENTS], sort=False):
        best = best_rates(part, time)
        found[part.index] = part["cache_rate_percent"].isin(best.rates)
    return found


def pair_runs(
    io_time: pd.DataFrame,
    improvements: Mapping[str, Mapping[str, int]],
    predictions: pd.DataFrame,
) -> pd.DataFrame:
    """Put every epoch of an improved run beside its counterpart, as for `compare`.

    Returns
    -------
    DataFrame, shape (n_improvements * n_runs * n_epochs, 17)
        Scenario (with the original system), cache rate, repetition, epoch, improvements
        in percent, and I/O time of the slowest process in seconds, as in the table: on
        the original devices, on faster ones, and as promised by rule and model.
    """
    base = [system for system, improvement in improvements.items() if not improvement]
    if len(base) != 1:
        raise ValueError(
            f"what-if truth: got {len(base)} systems without improvement of "
            f"{list(improvements)}, expected one."
        )
    of_base = io_time["system"] == base[0]
    slowest = slowest_process(io_time).set_index(["system", *_PAIR_KEYS])["io_time_s"]
    predicted = predictions.groupby(["system", *_PAIR_KEYS])["time_s"].sum()
    epochs = io_time["epoch"].unique().tolist()
    parts = []
    for system, improvement in improvements.items():
        if not improvement:
            continue
        rows = estimate(io_time[of_base], [improvement], epochs)
        keys = pd.MultiIndex.from_frame(rows[_PAIR_KEYS])
        _check_counterparts(slowest, system, keys)
        model_s = {name: _times_of(predicted, name, keys) for name in (base[0], system)}
        base_s = _times_of(slowest, base[0], keys)
        part = rows[[*SCENARIO, *_PAIR_KEYS, *IMPROVEMENTS]].assign(
            base_io_time_s=base_s,
            improved_io_time_s=_times_of(slowest, system, keys),
            rule_io_time_s=rows["io_time_s"],
            model_io_time_s=base_s * model_s[system] / model_s[base[0]],
        )
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _check_counterparts(slowest: pd.Series, system: str, keys: pd.MultiIndex) -> None:
    """Refuse runs without a counterpart, naming the first."""
    present = slowest.index.get_level_values("system") == system
    present = slowest.index[present].droplevel("system")
    if len(alone := keys.symmetric_difference(present)):
        raise ValueError(
            f"what-if truth: got {_words(alone[0])} on only one system, expected it "
            f"with and without the improvement of {system}."
        )


def _times_of(times_s: pd.Series, system: str, keys: pd.MultiIndex) -> np.ndarray:
    """Return a system's times in the order of the keys."""
    of_system = times_s.loc[times_s.index.get_level_values("system") == system]
    values = of_system.droplevel("system").reindex(keys).to_numpy()
    if np.isnan(values).any():
        where = _words(keys[np.isnan(values)][0])
        raise ValueError(
            f"what-if truth: got no prediction for system {system}, {where}, expected "
            "one of every run and epoch."
        )
    return values


def _words(key: tuple[int, int, int]) -> str:
    """Return the keys of a run and epoch in words."""
    return "cache rate {} %, repetition {}, epoch {}".format(*key)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise how well rule and model predict the cuts of each improvement.

    Parameters
    ----------
    table : DataFrame
        Table ``whatif_truth``.

    Returns
    -------
    DataFrame, shape (n_improvements, 33)
        Table ``whatif_truth_summary``, in the order of the table: of rule and model the
        mean absolute error over the cache rates and the largest, signed, with its cache
        rate, in percentage points; beside them ``cut_half_width_points``, the median
        over the cache rates of half the interval of the measured cut. The best points
        are those with the least mean I/O time, of equal ones the lowest cache rate;
        ``..._best_set_percent`` names all that cannot be told from them;
        ``..._best_cut_percent`` compares the best point after with the best before.
    """
    by = [*SCENARIO, *IMPROVEMENTS]
    groups = table.groupby(by, sort=False)
    rows = [
        dict(zip(by, keys, strict=True)) | _summary_of(points)
        for keys, points in groups
    ]
    return pd.DataFrame(rows)[list(TABLES["whatif_truth_summary"])]


def _summary_of(points: pd.DataFrame) -> dict[str, str | float]:
    """Return the summary of one improvement, without its keys."""
    width = points["measured_cut_high_percent"] - points["measured_cut_low_percent"]
    summary = {
        "model": points["model"].iloc[0],
        "calibration": points["calibration"].iloc[0],
        "n_points": len(points),
        "n_repetitions": int(points["n_repetitions"].min()),
        "cut_half_width_points": width.median() / 2,
    }
    for estimator in ("rule", "model"):
        errors = points.set_index("cache_rate_percent")[f"{estimator}_error_points"]
        rate = errors.abs().idxmax()
        summary |= {
            f"{estimator}_mean_error_points": errors.abs().mean(),
            f"{estimator}_largest_error_points": errors[rate],
            f"{estimator}_largest_error_cache_rate_percent": rate,
        }
    points = points.sort_values("cache_rate_percent").set_index("cache_rate_percent")
    for name in _TIMES:
        among = points.index[points[f"{name}_among_best"]]
        summary[f"{name}_best_set_percent"] = rates_words(among, points.index)
    before_s = points["base_io_time_s"]
    summary["base_best_cache_rate_percent"] = before_s.idxmin()
    for estimator in ESTIMATORS:
        after_s = points[_TIMES[estimator]]
        summary[f"{estimator}_best_cache_rate_percent"] = after_s.idxmin()
        cut = 100 * (1 - after_s.min() / before_s.min())
        summary[f"{estimator}_best_cut_percent"] = cut
    return summary
