"""Tables on models: their parameters, their predictions, and how true these are."""

from tierscope.core.columns.column import (
    ANY_NUMBER,
    Columns,
    count,
    ends,
    flag,
    if_known,
    number,
    percent,
    points,
    seconds,
    text,
    whole_percent,
)
from tierscope.core.columns.shared import (
    IMPROVEMENTS,
    SCENARIO_KEYS,
    TOGETHER,
    common,
)
from tierscope.core.io_class import IOClass

_CALIBRATION = text("Name of the calibration that gives the model its parameters.")
_MODEL = text("Name of the model.")
_HELD_OUT = flag("Whether the calibration was not fitted to this cache rate.")
_AT = ", such as `too short in the first epoch at 25 %`; empty if it is not known."
# Who says what an improvement brings; `base` is the time without it.
_ESTIMATORS = {
    "measured": "measured on faster devices",
    "rule": "by the paper's rule",
    "model": "by the model",
}
_TIMES = {"base": "without the improvement"} | _ESTIMATORS


def _errors(name: str, whose: str) -> Columns:
    """Return the columns of the error of a promised cut."""
    error = f"{name}_error_points"
    return {
        error: points(f"{whose} cut minus the measured one.", ANY_NUMBER),
        **ends(f"{name}_error_{{}}_points", f"`{error}`"),
    }


def _error_summary(name: str, whose: str) -> Columns:
    """Return the columns of the errors over the cache rates."""
    return {
        f"{name}_mean_error_points": points(
            f"{whose} absolute error, mean over the cache rates."
        ),
        f"{name}_largest_error_points": points(
            f"{whose} error at the cache rate where it is farthest from 0.", ANY_NUMBER
        ),
        f"{name}_largest_error_cache_rate_percent": whole_percent(
            f"Cache rate of `{name}_largest_error_points`."
        ),
    }


_WHATIF_TRUTH: Columns = {
    **common("n_repetitions"),
    "base_io_time_s": seconds(
        "I/O time of the slowest process on the original devices, mean over epochs "
        "and repetitions."
    ),
    "improved_io_time_s": seconds(
        "I/O time of the slowest process on the faster devices, mean over epochs and "
        "repetitions."
    ),
    "rule_io_time_s": seconds(
        "I/O time that the paper's rule promises for the faster devices."
    ),
    "model_io_time_s": seconds(
        "I/O time on the original devices times the ratio that the model promises."
    ),
    "measured_cut_percent": percent(
        "By how much `improved_io_time_s` is below `base_io_time_s`, as a mean of "
        "pairs of runs.",
        ANY_NUMBER,
    ),
    **ends("measured_cut_{}_percent", "`measured_cut_percent`"),
    "rule_cut_percent": percent(
        "By how much `rule_io_time_s` is below `base_io_time_s`, mean likewise.",
        ANY_NUMBER,
    ),
    "model_cut_percent": percent(
        "By how much `model_io_time_s` is below `base_io_time_s`, mean likewise.",
        ANY_NUMBER,
    ),
    **_errors("rule", "The rule's"),
    **_errors("model", "The model's"),
    **{
        f"{name}_among_best": flag(
            f"Whether this cache rate cannot be told from the best one, {how}."
        )
        for name, how in _TIMES.items()
    },
    "model": _MODEL,
    "calibration": _CALIBRATION,
}

_WHATIF_TRUTH_SUMMARY: Columns = {
    "model": _MODEL,
    "calibration": _CALIBRATION,
    "n_points": count("Number of cache rates."),
    "n_repetitions": count("The smallest number of repetitions of a cache rate."),
    "cut_half_width_points": if_known.points(
        "Half the width of the 95 % confidence interval of the measured cut, median "
        "over the cache rates; missing if there is one repetition."
    ),
    **_error_summary("rule", "The rule's"),
    **_error_summary("model", "The model's"),
    **{
        f"{name}_best_cache_rate_percent": whole_percent(
            f"Cache rate with the least mean I/O time, {how}."
        )
        for name, how in _TIMES.items()
    },
    **{
        f"{name}_best_set_percent": text(
            f"Cache rates that cannot be told from the best one, {how}, in words.",
            unit="%",
        )
        for name, how in _TIMES.items()
    },
    **{
        f"{name}_best_cut_percent": percent(
            f"By how much the least I/O time, {how}, is below the least without the "
            "improvement.",
            ANY_NUMBER,
        )
        for name, how in _ESTIMATORS.items()
    },
}

# Both ends of the interval of a prediction.
_PREDICTED_ENDS: Columns = {
    f"predicted{what}_{end}_s": if_known.seconds(
        f"{word} end of the 95 % interval of the true mean of {of}; missing but for "
        "the simulation with calibrated devices."
    )
    for what, of in (
        ("", "`predicted_s`"),
        ("_io_time", "the sum of `predicted_s` over the classes"),
    )
    for end, word in (("low", "Lower"), ("high", "Upper"))
}

_PREDICTIONS: Columns = {
    "calibration": _CALIBRATION,
    "model": _MODEL,
    **common("cache_rate_percent"),
    "held_out": _HELD_OUT,
    **common("io_class"),
    "predicted_s": seconds(
        "Predicted time of the slowest process in this class, mean over epochs and "
        "repetitions."
    ),
    "measured_s": seconds(
        "Measured time of the slowest process in this class, mean over epochs and "
        "repetitions."
    ),
    **ends("measured_{}_s", "`measured_s`"),
    **ends("measured_io_time_{}_s", "the sum of `measured_s` over the classes"),
    "predicted_execution_s": if_known.seconds(
        "Predicted execution time of an epoch, mean over epochs and repetitions; "
        "missing of models that only know the I/O time."
    ),
    "measured_execution_s": if_known.seconds(
        "Measured execution time of an epoch, that of its slowest process, mean over "
        "epochs and repetitions; missing in older tables."
    ),
    "predicted_utilisation_percent": if_known.percent(
        "Predicted accelerator utilisation (AU), mean over processes, epochs and "
        "repetitions; missing of models that only know the I/O time, and where the "
        "training does not compute."
    ),
    "measured_utilisation_percent": if_known.percent(
        "Measured accelerator utilisation (AU), mean over processes, epochs and "
        "repetitions; missing in older tables, and where it is 0, only a least or not "
        "known."
    ),
    **_PREDICTED_ENDS,
}

_ONLY_LEAST = {"measured": " or only as a least"}
_PREDICTED_EPOCHS: Columns = {
    "calibration": _CALIBRATION,
    "model": _MODEL,
    **common("cache_rate_percent"),
    "held_out": _HELD_OUT,
    **common("epoch"),
    "predicted_s": seconds(
        "Predicted I/O time of the slowest process, mean over repetitions."
    ),
    "measured_s": seconds(
        "Measured I/O time of the slowest process, mean over repetitions."
    ),
    "repeat_cv_percent": if_known.percent(
        "Standard deviation of `measured_s` over the repetitions divided by the mean; "
        "missing if there is one repetition."
    ),
    **{
        f"{whose}_{name}": column
        for whose, word, why in (
            ("predicted", "Predicted", "of models that only know the I/O time"),
            ("measured", "Measured", "where it is not known"),
        )
        for name, column in {
            "execution_s": if_known.seconds(
                f"{word} execution time, mean over repetitions; missing {why}."
            ),
            "warmup_s": if_known.seconds(
                f"Part of it that the first step of a program takes longer than a "
                f"usual one; missing {why}."
            ),
            "utilisation_percent": if_known.percent(
                f"{word} accelerator utilisation (AU), mean over processes and "
                f"repetitions; missing {why}{_ONLY_LEAST.get(whose, '')}, and where "
                "the training does not compute."
            ),
        }.items()
    },
    "execution_repeat_cv_percent": if_known.percent(
        "Standard deviation of `measured_execution_s` over the repetitions divided by "
        "the mean; missing if there is one repetition."
    ),
}

_PREDICTION_ERRORS: Columns = {
    "calibration": _CALIBRATION,
    "model": _MODEL,
    "n_points": count("Number of cache rates that are held out of the calibration."),
    "n_with_interval": count(
        "Number of held-out cache rates with an interval of the measured I/O time."
    ),
    "n_inside": count(
        "Number of held-out cache rates whose predicted I/O time lies in this interval."
    ),
    "n_with_prediction_interval": if_known.number(
        "Number of held-out cache rates whose prediction has an interval."
    ),
    "n_held": if_known.number(
        "Number of those whose measured I/O time lies in the interval of the "
        "prediction."
    ),
    "prediction_interval_percent": if_known.percent(
        "How far the interval of a prediction reaches above it, median over the "
        "held-out cache rates; missing without such intervals."
    ),
    "mape_percent": percent(
        "Absolute error of the predicted I/O time of the slowest process, mean over "
        "the held-out cache rates."
    ),
    "largest_error_percent": percent(
        "The largest absolute error of the predicted I/O time at a held-out cache rate."
    ),
    "mean_error_percent": percent(
        "Error of the predicted I/O time, mean over the held-out cache rates; above 0 "
        "if predicted too long.",
        ANY_NUMBER,
    ),
    "epoch_largest_error_percent": if_known.percent(
        "The largest absolute error of the predicted I/O time in an epoch at a "
        "held-out cache rate; missing in older tables."
    ),
    "epoch_largest_error_at": text(f"Where that error is{_AT}"),
    **{
        f"{one}_share_error_points": points(
            f"Absolute error of the share of {one.label} in the I/O time, mean over "
            "the held-out cache rates."
        )
        for one in IOClass
    },
    "dominant_right_percent": percent(
        "Part of the held-out cache rates at which the class that takes longest is "
        "predicted."
    ),
    "dominant_wrong_at_percent": text(
        "Held-out cache rates at which another class is predicted to take longest, "
        "with commas between.",
        unit="%",
    ),
    "undecided_at_percent": text(
        "Held-out cache rates at which the intervals of the two longest measured "
        "classes overlap, with commas between.",
        unit="%",
    ),
    "best_predicted_percent": whole_percent(
        "Cache rate of the whole sweep with the least predicted I/O time."
    ),
    "best_measured_percent": whole_percent(
        "Cache rate of the whole sweep with the least measured I/O time."
    ),
    "best_measured_set_percent": text(
        "Cache rates that cannot be told from the best measured one, in words.",
        unit="%",
    ),
    "best_in_set": flag(
        "Whether `best_predicted_percent` is in `best_measured_set_percent`."
    ),
    "best_within_one_step": flag(
        "Whether the best predicted and the best measured cache rate are the same, or "
        "neighbours in the sweep."
    ),
    "execution_mape_percent": if_known.percent(
        "Absolute error of the predicted execution time of an epoch, mean over the "
        "held-out cache rates and the epochs; missing of models that only know the I/O "
        "time."
    ),
    "execution_largest_error_percent": if_known.percent(
        "The largest such error, in an epoch at a held-out cache rate."
    ),
    "execution_largest_error_at": text(f"Where that error is{_AT}"),
    "utilisation_error_points": if_known.points(
        "Absolute error of the predicted accelerator utilisation, mean over the "
        "held-out cache rates and the epochs; missing where it is not predicted or not "
        "measured."
    ),
    "utilisation_largest_error_points": if_known.points(
        "The largest such error, in an epoch at a held-out cache rate."
    ),
    "utilisation_largest_error_at": text(
        "Where that error is, such as `too high in the first epoch at 25 %`; empty if "
        "it is not known."
    ),
    "repeat_cv_percent": if_known.percent(
        "Standard deviation of the I/O time over the repetitions divided by the mean, "
        "median over the held-out cache rates and epochs; missing if there is one "
        "repetition."
    ),
    "largest_repeat_cv_percent": if_known.percent(
        "The largest such ratio of a cache rate and epoch; missing if there is one "
        "repetition."
    ),
    "execution_repeat_cv_percent": if_known.percent(
        "The same as `repeat_cv_percent` of the execution time; missing in older "
        "tables as well."
    ),
    "goal_percent": whole_percent("The goal for `mape_percent`."),
    "error_goal_met": flag(
        "Whether `mape_percent` is at most the goal, or at most `repeat_cv_percent`."
    ),
    "dominant_goal_met": flag("Whether `dominant_right_percent` is at least 95."),
}

# What older tables lack: numbers, and words, by table.
LATER: dict[str, tuple[str, ...]] = {
    "calibration": (
        "lack_of_fit_p_value",
        "pure_error_percent",
        "lack_of_fit_percent",
    ),
    "predictions": (
        *_PREDICTED_ENDS,
        "predicted_execution_s",
        "measured_execution_s",
        "predicted_utilisation_percent",
        "measured_utilisation_percent",
    ),
    "prediction_errors": (
        "n_with_prediction_interval",
        "n_held",
        "prediction_interval_percent",
        "execution_mape_percent",
        "execution_largest_error_percent",
        "execution_repeat_cv_percent",
        "epoch_largest_error_percent",
        "utilisation_error_points",
        "utilisation_largest_error_points",
    ),
}
LATER_WORDS = {
    "calibration": ("lack_of_fit",),
    "prediction_errors": tuple(
        f"{one}_largest_error_at" for one in ("epoch", "execution", "utilisation")
    ),
}

_CLASS_STALLS: Columns = {
    **common("cache_rate_percent", "epoch"),
    "part": text(
        "I/O class, or `together`: stall that goes only if several classes cost "
        "nothing at once.",
        words=(*map(str, IOClass), TOGETHER),
    ),
    "stall_s": seconds(
        "By how much the model's epoch is shorter if the devices of the class cost "
        "nothing, mean over the repetitions; scaled if the parts exceed the stall."
    ),
    "execution_time_s": seconds(
        "Execution time of the model's epoch, mean over the repetitions."
    ),
    "first_wait_s": seconds(
        "Longest wait of a process for the first batch of the model's epoch, at most "
        "the computation of its step, which would hide it after another step; mean "
        "over the repetitions."
    ),
}

TABLES: dict[str, Columns] = {
    "calibration": {
        **common("source", "system"),
        "calibration": text("Name of the calibration."),
        **common("parameter", "unit"),
        "value": if_known.number(
            "Value of the parameter, in its unit.", "", ANY_NUMBER
        ),
        "standard_error": if_known.number(
            "Standard error of the value, in its unit; missing if it was not fitted."
        ),
        "status": text(
            "Whether the data tell the value (`fitted`), only together with another "
            "(`joined`), or a limit (`bound`), it is the system file's (`kept`), or "
            "not needed (`left out`).",
            words=("fitted", "joined", "bound", "kept", "left out"),
        ),
        "reason": text("Why the parameter has this status."),
        "lower_bound": number("The least value that the fit may give, in its unit."),
        "upper_bound": number("The largest value that the fit may give, in its unit."),
        "n_observations": count("Number of terms of the fit's sum of squares."),
        "rms_percent": percent(
            "Root of the mean square of the terms: how far model and data differ."
        ),
        "lack_of_fit_p_value": if_known.number(
            "Probability of differences as large as those found if the structure of "
            "the model is right; missing if it cannot be tested."
        ),
        "pure_error_percent": if_known.percent(
            "Root of the mean square of what the scatter of repetitions leaves in the "
            "means of the terms."
        ),
        "lack_of_fit_percent": if_known.percent(
            "The same of what the structure of the model adds."
        ),
        "lack_of_fit": text(
            "What the test of the structure says, with the observations that differ "
            "most; empty in older tables."
        ),
    },
    "whatif_truth": SCENARIO_KEYS
    | common("cache_rate_percent")
    | IMPROVEMENTS
    | _WHATIF_TRUTH,
    "whatif_truth_summary": SCENARIO_KEYS | IMPROVEMENTS | _WHATIF_TRUTH_SUMMARY,
    "predictions": SCENARIO_KEYS | _PREDICTIONS,
    "class_stalls": SCENARIO_KEYS | _CLASS_STALLS,
    "predicted_epochs": SCENARIO_KEYS | _PREDICTED_EPOCHS,
    "prediction_errors": SCENARIO_KEYS | _PREDICTION_ERRORS,
}
