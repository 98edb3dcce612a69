"""Intervals of predictions of a tiny scenario with given uncertainties."""

import numpy as np
import pytest
from descriptions import changed, describe_scenario
from tierscope.core.scenario import Point
from tierscope.model import predicted_intervals as predicted_intervals_module
from tierscope.model.calibration.uncertainty import Source, Uncertainty
from tierscope.model.predict import SIMULATION, predict
from tierscope.model.predicted_intervals import COLUMNS, predicted_intervals

DEVICES = {
    "origin": "drawn",
    "gfs": {
        "n_osts": 1,
        "open_s": 0.0,
        "close_s": 0.0,
        "metadata_latency_s": 1e-3,
        "ost_bandwidth_bytes_per_s": 1e4,
        "read_latency_s": 0.0,
        "link_bytes_per_s": 1e9,
        "request_bytes": 1000,
    },
    "lfs": {
        "request_bytes": 1000,
        "request_s": 2e-3,
        "latency_s": 0.0,
        "processes_per_server": 1,
    },
}


@pytest.fixture
def description():
    return describe_scenario(system={"devices": DEVICES})


def intervals_of(description, sources, repetitions=1):
    points = [Point(rate, k) for rate in (0, 100) for k in range(repetitions)]
    predicted = predict(description, points, SIMULATION)
    one = Uncertainty(("gfs.ost_bandwidth_bytes_per_s",), sources)
    found = predicted_intervals(predicted, description, one)
    return predicted, found.set_index(["cache_rate_percent", "io_class"])


def test_intervals_are_those_of_the_parameter_that_a_rate_depends_on(description):
    known = Source("pure error", np.array([[0.1**2]]), np.inf)
    predicted, found = intervals_of(description, (known,))
    assert found.columns.tolist() == COLUMNS[2:]
    reads = found.loc[0, "gfs_read"]
    predicted_s = 8 * 0.01  # files of 100 bytes at 10 kB/s
    low_s, high_s = reads["predicted_low_s"], reads["predicted_high_s"]
    assert low_s == pytest.approx(predicted_s * np.exp(-1.96 * 0.1), rel=0.01)
    assert high_s == pytest.approx(predicted_s * np.exp(1.96 * 0.1), rel=0.01)
    local = found.loc[100, "lfs_read"]
    assert local["predicted_low_s"] == pytest.approx(local["predicted_high_s"])
    whole = found.loc[0]["predicted_io_time_high_s"]
    assert whole.nunique() == 1
    meta_s = predicted["time_s"][predicted["io_class"] == "gfs_meta"].iloc[0]
    assert whole.iloc[0] < high_s + meta_s + 0.01  # no error of metadata is added
    assert found.loc[100, "gfs_read"]["predicted_high_s"] == 0


@pytest.fixture
def two(description):
    """Return a scenario of two processes, whose reads differ between repetitions."""
    return changed(description, system={"n_nodes": 2})


def widths(predicted, description):
    """Return the widths of the intervals that come from the scatter alone."""
    found = predicted_intervals(predicted, description, Uncertainty((), ()))
    return found["predicted_io_time_high_s"] - found["predicted_io_time_low_s"]


def test_few_simulated_repetitions_scatter(two):
    predicted = predict(two, [Point(50, k) for k in range(8)], SIMULATION)
    totals_s = predicted.groupby(["repetition", "epoch"])["time_s"].sum()
    runs_s = totals_s.groupby("repetition").mean()
    assert runs_s.nunique() > 1
    error_s = runs_s.std() / np.sqrt(8)
    width_s = widths(predicted, two).iloc[0]
    assert width_s == pytest.approx(2 * 2.365 * error_s, rel=0.02)  # t of 7 degrees
    assert widths(predict(two, [Point(100, 0)], SIMULATION), two).iloc[0] == 0


def test_scatter_of_one_repetition_is_that_of_others(two, monkeypatch):
    """One run varies sqrt(8) times as much as the mean of eight."""
    several = predict(two, [Point(50, 1000 + k) for k in range(8)], SIMULATION)
    one = several[several["repetition"] == 1007].assign(repetition=3)
    ratio = widths(one, two).iloc[0] / widths(several, two).iloc[0]
    assert ratio == pytest.approx(np.sqrt(8), rel=0.3)
    monkeypatch.setattr(predicted_intervals_module, "_MOST_READS", 0)
    runs_s = one.groupby("epoch")["time_s"].sum()
    error_s = runs_s.std() / np.sqrt(2)
    expected = 2 * np.sinh(12.706 * error_s / runs_s.mean()) * runs_s.mean()
    assert widths(one, two).iloc[0] == pytest.approx(expected, rel=0.01)
