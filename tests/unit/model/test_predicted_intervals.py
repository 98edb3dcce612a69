"""Intervals of predictions of a tiny scenario with given uncertainties."""

import numpy as np
import pytest
from descriptions import changed, describe_scenario
from tierscope.core.scenario import Point
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


def test_few_simulated_repetitions_scatter(description):
    """Repetitions read other files from the LFS, so class times at 50 % differ."""
    two = changed(description, system={"n_nodes": 2})
    _, alone = intervals_of(description, ())
    points = [Point(50, k) for k in range(4)]
    predicted = predict(two, points, SIMULATION)
    found = predicted_intervals(predicted, two, Uncertainty((), ()))
    totals_s = predicted.groupby(["repetition", "epoch"])["time_s"].sum()
    runs_s = totals_s.groupby("repetition").mean()
    assert runs_s.nunique() > 1
    width_s = found["predicted_io_time_high_s"] - found["predicted_io_time_low_s"]
    error_s = runs_s.std() / 2
    assert width_s.iloc[0] == pytest.approx(2 * 3.182 * error_s, rel=0.1)
    assert alone["predicted_high_s"].equals(alone["predicted_low_s"])
