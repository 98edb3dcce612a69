"""Compare the promised benefit of faster devices with the real benefit.

The paper's rule (Fukai et al., Sec. 4.4) and a model each promise a cut of the slowest
process's I/O time; runs on devices that really are faster give the true cut. Runs of
the same repetition and epoch read the same files in the same order, so each improved
run is compared with the same run on the original devices.
"""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from tierscope.analysis.breakdown import slowest_process
from tierscope.analysis.whatif import estimate
from tierscope.core.columns import IMPROVEMENTS, SCENARIO, TABLES

# The sources of a cut; columns of the tables begin with their names.
ESTIMATORS = ("measured", "rule", "model")
# Two runs of a pair differ by system only; predictions have these keys as well.
_PAIR_KEYS = ["cache_rate_percent", "repetition", "epoch"]
_POINT = [*SCENARIO, "cache_rate_percent", *IMPROVEMENTS]


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
    DataFrame, shape (n_improvements * n_cache_rates, 25)
        Table ``whatif_truth``; improvements in the order given, then by cache rate.
        Times are means over the pairs of runs. Cuts are means over the pairs of each
        pair's cut, so ``measured_cut_se_percent``, their standard deviation over
        the root of their number, is the noise of measurement and shuffle. Errors
        are a promised cut minus the measured one, in percentage points, and have
        standard errors of their own: promise and truth of a pair share its shuffle.

    Raises
    ------
    ValueError
        If not exactly one system is without improvement, a run or a prediction has no
        counterpart, or a cache rate has fewer than two pairs.

    Notes
    -----
    The rule scales every process's time by class, then picks the slowest. The model's
    I/O time in the table is the measured one without improvement times the model's
    ratio of both, so that its cut is the model's own. Epochs of a repetition count as
    separate pairs, although they share the state of the machine, and in simulations
    the servers' slowness. So the standard error is a lower limit.
    """
    pairs = pair_runs(io_time, improvements, predictions)
    for estimator in ESTIMATORS:
        pairs[f"{estimator}_cut"] = 100 * (
            1 - pairs[f"{estimator}_s"] / pairs["base_s"]
        )
        pairs[f"{estimator}_error"] = pairs[f"{estimator}_cut"] - pairs["measured_cut"]
    points = pairs.groupby(_POINT, sort=False)
    counts = points.size()
    if counts.min() < 2:
        point = dict(zip(_POINT, counts.idxmin(), strict=True))
        raise ValueError(
            f"what-if truth: got one pair of runs at cache rate "
            f"{point['cache_rate_percent']} %, expected two or more: with one the "
            "spread is unknown."
        )
    mean, error = points.mean(numeric_only=True), points.sem(numeric_only=True)
    table = pd.DataFrame(
        {
            "n_pairs": counts,
            "base_io_time_s": mean["base_s"],
            "improved_io_time_s": mean["measured_s"],
            "measured_cut_percent": mean["measured_cut"],
            "measured_cut_se_percent": error["measured_cut"],
        }
    )
    for estimator in ("rule", "model"):
        table[f"{estimator}_io_time_s"] = mean[f"{estimator}_s"]
        table[f"{estimator}_cut_percent"] = mean[f"{estimator}_cut"]
        table[f"{estimator}_error_points"] = mean[f"{estimator}_error"]
        table[f"{estimator}_error_se_points"] = error[f"{estimator}_error"]
    table = table.reset_index().assign(model=model, calibration=calibration)
    return table[list(TABLES["whatif_truth"])]


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
        in percent, and I/O time of the slowest process in seconds: ``base_s`` on the
        original devices, ``measured_s`` on faster ones, ``rule_s`` and ``model_s`` as
        promised.
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
            base_s=base_s,
            measured_s=_times_of(slowest, system, keys),
            rule_s=rows["io_time_s"],
            model_s=base_s * model_s[system] / model_s[base[0]],
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
    DataFrame, shape (n_improvements, 30)
        Table ``whatif_truth_summary``, in the order of the table: of rule and model the
        mean absolute error over the cache rates and the largest, signed, with its cache
        rate, in percentage points; beside them ``cut_sd_points`` and ``cut_se_points``,
        the root mean square over the cache rates of the measured cuts' standard
        deviation between the pairs and standard error. The best points are those with
        the least mean I/O time, of equal ones the lowest cache rate;
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
    variance = points["measured_cut_se_percent"] ** 2
    summary = {
        "model": points["model"].iloc[0],
        "calibration": points["calibration"].iloc[0],
        "n_points": len(points),
        "n_pairs": int(points["n_pairs"].sum()),
        "cut_sd_points": math.sqrt((variance * points["n_pairs"]).mean()),
        "cut_se_points": math.sqrt(variance.mean()),
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
    before_s = points["base_io_time_s"]
    summary["base_best_cache_rate_percent"] = before_s.idxmin()
    columns = ("improved_io_time_s", "rule_io_time_s", "model_io_time_s")
    for estimator, column in zip(ESTIMATORS, columns, strict=True):
        after_s = points[column]
        summary[f"{estimator}_best_cache_rate_percent"] = after_s.idxmin()
        cut = 100 * (1 - after_s.min() / before_s.min())
        summary[f"{estimator}_best_cut_percent"] = cut
    return summary
