"""Two epochs of two repetitions, predicted at two cache rates."""

import numpy as np
import pandas as pd
import pytest
from tierscope.analysis.breakdown import break_down
from tierscope.analysis.predicted_epochs import (
    compare_by_epoch,
    missed_epochs,
    worst_words,
)
from tierscope.analysis.prediction import compare, prediction_errors, summary
from tierscope.core.studies import Pair
from tierscope.core.tables import check_table
from unit.analysis.test_prediction import KEYS, io_time_of

TIMES_S = {0: (2, 8, 0, 0), 50: (1, 3, 4, 0)}
_POINT = ["cache_rate_percent", "repetition", "epoch"]


def epochs_of(measured, execution_s, utilisation_percent, warmup_s=(0.0, 0.0)):
    """Return epochs of given execution times and utilisations, each of two epochs."""
    epochs = measured[_POINT].drop_duplicates().assign(**KEYS, rank=0)
    return epochs.assign(
        **{
            name: epochs["epoch"].map(dict(enumerate(of_epochs)))
            for name, of_epochs in (
                ("execution_time_s", execution_s),
                ("utilisation_percent", utilisation_percent),
                ("warmup_s", warmup_s),
            )
        }
    )


def errors_of(measured, predicted, epochs, goal_percent=5):
    """Return tables `predicted_epochs` and the row of `prediction_errors`."""
    breakdown = break_down(measured)
    predictions = compare(
        predicted, breakdown, calibration="some", model="simulation", epochs=epochs
    )
    by_epoch = compare_by_epoch(predicted, breakdown, predictions, epochs)
    by_epoch = check_table(by_epoch, "predicted_epochs")
    pair = Pair("some", KEYS, (), goal_percent)
    errors = prediction_errors(predictions, by_epoch, breakdown, [pair])
    return by_epoch, check_table(errors, "prediction_errors").iloc[0]


@pytest.fixture
def measured():
    return io_time_of(TIMES_S, repetitions=2, step_s=0.0)


def predicted_of(measured, epochs):
    """Return predictions of the measured I/O times, and of given epochs."""
    columns = [*_POINT, "execution_time_s", "utilisation_percent", "warmup_s"]
    return break_down(measured).merge(epochs[columns])


def test_mean_over_epochs_does_not_hide_that_all_are_wrong(measured):
    """10 and 2 s are predicted as 6 and 6 s: as a mean that is right."""
    epochs = epochs_of(measured, (10.0, 2.0), (90.0, 40.0), (7.0, 0.0))
    foreseen = epochs_of(measured, (6.0, 6.0), (60.0, 70.0), (3.0, 3.0))
    by_epoch, errors = errors_of(measured, predicted_of(measured, foreseen), epochs)
    assert errors["mape_percent"] == 0
    assert errors["error_goal_met"]
    assert errors["execution_mape_percent"] == pytest.approx((40 + 200) / 2)
    assert errors["execution_largest_error_percent"] == pytest.approx(200)
    assert errors["execution_largest_error_at"] == "too long in the second epoch at 0 %"
    assert errors["utilisation_error_points"] == pytest.approx(30)
    assert errors["utilisation_largest_error_at"] == "too low in the first epoch at 0 %"
    words = summary(errors.to_frame().T)
    assert (
        "by epoch, execution time: MAPE 120.0 %, worst 200.0 % too long in the second "
        "epoch at 0 %; repetitions vary by 0.0 % (by simulation)"
    ) in words
    assert "30.0 points off, worst 30.0 too low in the first epoch at 0 %" in words
    assert (
        "missed: worst epoch (execution time too long in the second epoch at 0 %)"
        in words
    )
    first = by_epoch[by_epoch["epoch"] == 0].iloc[0]
    assert (first["predicted_warmup_s"], first["measured_warmup_s"]) == (3, 7)
    assert (first["predicted_execution_s"], first["measured_execution_s"]) == (6, 10)


@pytest.mark.parametrize(("percent", "is_met"), [(9, True), (11, False)])
def test_worst_epoch_may_err_by_twice_the_goal(measured, percent, is_met):
    epochs = epochs_of(measured, (10.0, 10.0), (90.0, 90.0))
    late = epochs_of(measured, (10.0, 10 * (1 + percent / 100)), (90.0, 90.0))
    _, errors = errors_of(measured, predicted_of(measured, late), epochs)
    assert (not missed_epochs(errors)) == is_met
    assert errors["execution_mape_percent"] == pytest.approx(percent / 2)


def test_worst_epoch_may_err_by_twice_what_repetitions_vary_by(measured):
    epochs = epochs_of(measured, (10.0, 10.0), (90.0, 90.0))
    foreseen = predicted_of(measured, epochs_of(measured, (14.0, 10.0), (90.0, 90.0)))
    # 8 and 12 s: deviation 4 / sqrt(2) of 10, 28 %; the mean stays the same.
    epochs["execution_time_s"] += 4 * (epochs["repetition"] - 0.5)
    _, errors = errors_of(measured, foreseen, epochs)
    assert errors["execution_repeat_cv_percent"] == pytest.approx(100 * 0.4 / 2**0.5)
    assert errors["execution_largest_error_percent"] == pytest.approx(40)
    assert not missed_epochs(errors)


def test_io_time_of_the_worst_epoch_is_judged_as_well(measured):
    foreseen = break_down(measured)
    odd = (foreseen["epoch"] == 1) & (foreseen["cache_rate_percent"] == 50)
    foreseen.loc[odd, "time_s"] *= 0.88
    _, errors = errors_of(measured, foreseen, None)
    assert errors["mape_percent"] == pytest.approx(3)
    assert errors["epoch_largest_error_percent"] == pytest.approx(12)
    assert errors["epoch_largest_error_at"] == "too short in the second epoch at 50 %"
    assert errors["error_goal_met"]
    words = summary(errors.to_frame().T)
    assert (
        "missed: worst epoch (I/O time too short in the second epoch at 50 %)" in words
    )
    assert "execution time" not in words.partition("missed")[2].partition("\n")[2]


def test_repeat_variation_compares_repetitions_of_one_epoch_only():
    breakdown = break_down(io_time_of(TIMES_S, repetitions=2, step_s=2.0))
    slower = breakdown["epoch"] == 1
    breakdown.loc[slower, "time_s"] *= 10  # another epoch is no repetition
    predictions = compare(breakdown, breakdown, calibration="some", model="mva")
    by_epoch = compare_by_epoch(breakdown, breakdown, predictions)
    # 10 and 12 s: deviation 2 / sqrt(2) of 11.
    found = by_epoch[by_epoch["cache_rate_percent"] == 0]["repeat_cv_percent"]
    assert found.tolist() == pytest.approx([100 * np.sqrt(2) / 11] * 2)
    once = break_down(io_time_of(TIMES_S))
    predictions = compare(once, once, calibration="some", model="mva")
    assert compare_by_epoch(once, once, predictions)["repeat_cv_percent"].isna().all()


def test_utilisation_that_is_only_a_least_has_no_error(measured):
    epochs = epochs_of(measured, (10.0, 2.0), (90.0, 40.0))
    foreseen = predicted_of(measured, epochs_of(measured, (10.0, 2.0), (95.0, 40.0)))
    is_least = (epochs["epoch"] == 0) & (epochs["repetition"] == 1)
    epochs["least_because"] = is_least.map({True: "other streams", False: ""})
    by_epoch, errors = errors_of(measured, foreseen, epochs)
    used = by_epoch.groupby("epoch")["measured_utilisation_percent"]
    assert used.count().to_dict() == {0: 0, 1: 2}  # cache rates
    assert errors["utilisation_error_points"] == 0
    epochs["least_because"] = "other streams"
    _, errors = errors_of(measured, foreseen, epochs)
    assert np.isnan(errors["utilisation_error_points"])
    assert "accelerator utilisation" not in summary(errors.to_frame().T)


@pytest.fixture
def old_errors(measured):
    """Return `prediction_errors` as older tables hold it: not by epoch."""
    epochs = epochs_of(measured, (10.0, 2.0), (90.0, 40.0))
    _, errors = errors_of(measured, predicted_of(measured, epochs), epochs)
    later = [name for name in errors.index if "epoch_" in name or name.endswith("_at")]
    old = pd.DataFrame([errors]).drop(columns=[*later, "execution_repeat_cv_percent"])
    assert len(old.columns) == len(errors) - 5
    return check_table(old.infer_objects(), "prediction_errors")


def test_errors_of_older_tables_are_read(old_errors):
    assert old_errors["epoch_largest_error_percent"].isna().all()


def test_errors_of_older_tables_miss_no_goal_that_they_do_not_tell(old_errors):
    words = summary(old_errors)
    assert " nan" not in words
    assert "  goals met\n" in words
    assert "  execution time: MAPE 0.0 % (by simulation)\n" in words
    assert "  accelerator utilisation: 0.0 points off (by simulation)\n" in words
    assert worst_words(old_errors.iloc[0]) == ""


def test_goal_that_only_the_spread_of_repetitions_allows_is_undecided(old_errors):
    vague = old_errors.assign(mape_percent=65.0, repeat_cv_percent=95.0, goal_percent=5)
    assert "undecided: repetitions vary by more than the goal\n" in summary(vague)
