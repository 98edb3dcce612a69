"""Predictions of a program beside an H200, measured once (`tests/data/h200`)."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from describe_program import seen_run
from predict_io_time import predict_scenario
from tierscope.analysis.breakdown import break_down
from tierscope.analysis.prediction import prediction_errors, summary
from tierscope.core.description import RunDescription
from tierscope.core.studies import Pair
from tierscope.core.tables import check_table, read_table
from tierscope.experiment.system import read_system
from tierscope.model.calibration.fit import as_fitted
from tierscope.model.programs.description import model_program

ROOT = Path(__file__).parents[4]
DATA = ROOT / "tests" / "data" / "h200"
FITTED_PERCENT = (0, 50, 100)


@pytest.fixture(scope="module")
def program():
    """Return the program as the models know it, by its ideal runs."""
    content = json.loads((DATA / "scenario.json").read_text(encoding="utf-8"))
    described = RunDescription.from_json(content)
    devices = read_system("one-process", ROOT / "resources" / "systems").devices
    described = replace(described, system=replace(described.system, devices=devices))
    files = read_table(DATA / "files.parquet", "user_manifest")
    ideal = [seen_run(str(path)) for path in sorted(DATA.glob("ideal/*/run.json"))]
    sizes = files["size_bytes"].to_numpy()
    return model_program(described, ideal, ideal, sizes, np.zeros(0))


def test_computation_is_that_of_usual_steps(program):
    """The H200 computes for 37 to 42 ms a step, and for 4.6 to 4.8 s in the first."""
    compute = program.description.training.compute_time
    assert compute.mean_s == pytest.approx(0.0408, abs=1e-4)
    assert compute.warmup_s == pytest.approx((4.70, 0.035, 0.038), abs=0.01)
    assert "Its first step takes 4.70 s longer in the first epoch" in program.words


def test_execution_time_of_each_epoch_is_predicted_within_10_percent(program):
    """The last epoch holds the end of the process, in ideal runs as in the others."""
    io_time = read_table(DATA / "io_time.parquet", "io_time")
    epochs = read_table(DATA / "epochs.parquet", "epochs")
    scenario = {"dataset": "clips", "n_osts": 0, "policy": "pinning"}
    pair = Pair("all-osts", scenario | {"loader": "program"}, FITTED_PERCENT)
    description = as_fitted(program.description, DATA / "devices.yaml", [])
    ((predictions, by_epoch),) = predict_scenario(
        pair, description, io_time, epochs, ["simulation"], program=program
    )
    by_epoch = check_table(by_epoch, "predicted_epochs")
    assert len(by_epoch) == 4 * 3
    measured_s = by_epoch["measured_execution_s"]
    error_percent = 100 * (by_epoch["predicted_execution_s"] / measured_s - 1)
    assert error_percent.between(-10, 3).all()
    errors = prediction_errors(predictions, by_epoch, break_down(io_time), [pair])
    (row,) = check_table(errors, "prediction_errors").to_dict("records")
    held_out = error_percent[by_epoch["held_out"]]
    assert row["execution_mape_percent"] == pytest.approx(held_out.abs().mean())
    assert row["execution_largest_error_percent"] == pytest.approx(-held_out.min())
    assert row["execution_largest_error_at"] == "too short in the first epoch at 25 %"
    assert row["utilisation_largest_error_points"] < 7
    assert "too short in the first epoch at 25 %" in summary(errors)
