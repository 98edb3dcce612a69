"""Estimates by the model: what was measured, times the change that the model says."""

import numpy as np
import pandas as pd
import pytest
from descriptions import changed, describe_scenario
from tierscope.analysis.breakdown import (
    select_epoch,
    slowest_process,
)
from tierscope.analysis.whatif import select_improvements
from tierscope.core.columns import CLASS_TIMES, CLASSES, IMPROVEMENTS, INTERVAL, POINT
from tierscope.core.io_class import total_s
from tierscope.core.scenario import Point
from tierscope.core.tables import check_table
from tierscope.model.calibration.uncertainty import Source, Uncertainty
from tierscope.model.improve import estimate_by_model, improved_utilisation
from tierscope.model.simulator.run import simulate_reads, tables_of
from tierscope.storage.queueing_network import ModelError

# Four ranks, one metadata server for all: 1 ms an open; an LFS server for two ranks.
DEVICES = {
    "gfs": {
        "open_s": 0.001,
        "close_s": 0.0,
        "metadata_latency_s": 0.0,
        "ost_bandwidth_bytes_per_s": 1e12,
        "read_latency_s": 0.0,
        "link_bytes_per_s": 1e12,
        "request_bytes": 1 << 20,
    },
    "lfs": {
        "request_bytes": 1 << 20,
        "request_s": 0.0005,
        "latency_s": 0.0001,
        "processes_per_server": 2,
    },
}
DESCRIPTION = describe_scenario(
    **{
        "source": "measured",
        "system": {
            "name": "pencil",
            "n_nodes": 2,
            "processes_per_node": 2,
            "emulation": None,
            "devices": DEVICES,
        },
        "dataset": {
            "name": "small",
            "n_files": 40,
            "file_size_bytes": 1000,
            "batch_size": 1,
        },
        "scenario": {
            "dataset": "small",
            "n_osts": 2,
            "policy": "pinning",
            "loader": "posix",
        },
        "training": {"epochs": 3, "shuffle": "global", "seed": 1, "compute_time_s": 0},
        "loader": {"buffer_bytes": 0, "prefetch_batches": 0, "read_threads": 1},
    }
)
POINTS = [Point(rate, repetition) for rate in (0, 50, 100) for repetition in (0, 1)]
LARGE = [{"gfs_meta": 100}, {"lfs_read": 300, "lfs_meta": 300}, {"gfs_read": 50}]


def simulated(points=POINTS, improvements=None):
    """Return the I/O time table of simulated runs."""
    description = changed(DESCRIPTION, system={"improvements": improvements or {}})
    runs = [
        tables_of(description, point, simulate_reads(description, point))[0]
        for point in points
    ]
    return pd.concat(runs, ignore_index=True)


@pytest.fixture(scope="module")
def measured():
    """Return runs that took 1.7 times as long as the model says."""
    io_time = simulated()
    return io_time.assign(time_s=1.7 * io_time["time_s"])


@pytest.fixture(scope="module")
def estimates(measured):
    return estimate_by_model(measured, LARGE, 1, DESCRIPTION)


def test_the_table_keeps_its_contract(estimates):
    assert check_table(estimates, "estimates").equals(estimates)
    assert len(estimates) == len(POINTS) * (1 + len(LARGE))
    assert set(estimates["method"]) == {"model"}


def test_no_improvement_gives_every_bit_of_what_was_measured(measured, estimates):
    as_it_is = select_improvements(estimates, [{}])
    expected = slowest_process(select_epoch(measured, 1))
    assert as_it_is["io_time_s"].equals(expected["io_time_s"])


@pytest.mark.parametrize("improvement", LARGE)
def test_the_estimate_is_what_the_model_takes_then_times_measured_over_model(
    estimates, improvement
):
    """Measured is 1.7 times the model, so the estimate is 1.7 times the model's."""
    then = slowest_process(select_epoch(simulated(improvements=improvement), 1))
    rows = select_improvements(estimates, [improvement])
    assert rows["io_time_s"].tolist() == pytest.approx(1.7 * then["io_time_s"])


def test_the_classes_are_those_of_the_models_slowest_process(estimates):
    assert total_s(estimates[CLASS_TIMES].to_numpy()) == pytest.approx(
        estimates["io_time_s"].to_numpy()
    )
    at_half = select_improvements(estimates, [{"gfs_meta": 100}]).iloc[2]
    point = Point(50, 0)
    io_time = select_epoch(simulated([point], {"gfs_meta": 100}), 1)
    times_s = io_time.pivot(index="rank", columns="io_class", values="time_s")[CLASSES]
    slowest = times_s.loc[times_s.sum(axis=1).idxmax()]
    assert at_half[CLASS_TIMES].tolist() == pytest.approx((1.7 * slowest).tolist())


def test_where_the_metadata_server_is_all_there_is_twice_the_speed_is_half_the_time(
    estimates,
):
    """The paper's rule says the same: there is nowhere else to wait."""
    at_zero = estimates[estimates["cache_rate_percent"] == 0].set_index(IMPROVEMENTS)
    before_s = at_zero.loc[(0, 0, 0, 0), "io_time_s"].to_numpy()
    after_s = at_zero.loc[(0, 100, 0, 0), "io_time_s"].to_numpy()
    np.testing.assert_allclose(after_s, before_s / 2, rtol=1e-4)
    other_s = at_zero.loc[(0, 0, 300, 300), "io_time_s"].to_numpy()
    assert (other_s == before_s).all()


class TestIntervals:
    """What the calibration does not know, in estimates."""

    OPEN = ("gfs.open_s",)
    KNOWN = np.full((1, 1), 0.1**2)

    def interval(self, measured, *sources):
        uncertainty = Uncertainty(self.OPEN, sources)
        found = estimate_by_model(
            measured, LARGE, 1, DESCRIPTION, uncertainty=uncertainty
        )
        assert check_table(found, "estimates").equals(found)
        wide = np.log(found["io_time_high_s"] / found["io_time_low_s"])
        return found.assign(wide=wide).set_index(["cache_rate_percent", *IMPROVEMENTS])

    def test_without_a_calibration_there_is_none(self, estimates):
        assert estimates[INTERVAL].isna().all(axis=None)

    def test_nothing_is_uncertain_without_an_improvement(self, measured):
        source = Source("pure error", self.KNOWN, np.inf)
        found = self.interval(measured, source)
        as_it_is = found.xs((0, 0, 0, 0), level=IMPROVEMENTS)
        np.testing.assert_allclose(as_it_is["wide"], 0, atol=1e-12)

    def test_where_there_is_only_one_class_its_error_cancels_out(self, measured):
        source = Source("pure error", self.KNOWN, np.inf)
        at_zero = self.interval(measured, source).loc[(0, 0, 100, 0, 0)]
        assert (at_zero["wide"] < 0.01).all()

    def test_error_of_a_class_counts_as_its_share_of_the_time_changes(self, measured):
        """The classes share the model's own error by their time."""
        source = Source("structure", np.zeros((1, 1)), np.inf, 0.1)
        found = self.interval(measured, source)
        shares = found[CLASS_TIMES].div(found["io_time_s"], axis=0)
        before, after = (
            shares.loc[(50, *percents)].mean().to_numpy()
            for percents in ((0, 0, 0, 0), (0, 100, 0, 0))
        )
        known = before > 0
        change = ((after - before)[known] ** 2 / before[known]).sum()
        at_half = found.loc[(50, 0, 100, 0, 0)]
        expected = 2 * 1.96 * 0.1 * np.sqrt(change)
        assert at_half["wide"].mean() == pytest.approx(expected, rel=0.1)
        assert (at_half["io_time_low_s"] < at_half["io_time_s"]).all()


def test_only_the_wanted_epoch_is_simulated_and_is_the_same_then():
    point = Point(50, 0)
    _, second, _ = simulate_reads(DESCRIPTION, point)
    (alone,) = simulate_reads(DESCRIPTION, point, [1])
    assert (alone.files == second.files).all()
    assert (alone.epoch.instants_s == second.epoch.instants_s).all()


def test_an_unknown_model_is_refused(measured):
    with pytest.raises(ModelError, match=r"got 'guess', expected simulation or"):
        estimate_by_model(measured, [], 1, DESCRIPTION, "guess")


def test_devices_that_take_no_time_are_refused(measured):
    gfs = DEVICES["gfs"] | {
        "open_s": 0.0,
        "ost_bandwidth_bytes_per_s": float("inf"),
        "link_bytes_per_s": float("inf"),
    }
    lfs = DEVICES["lfs"] | {"request_s": 0.0, "latency_s": 0.0}
    idle = changed(DESCRIPTION, system={"devices": {"gfs": gfs, "lfs": lfs}})
    with pytest.raises(ModelError):
        estimate_by_model(measured, [], 1, idle)


COMPUTING = changed(
    DESCRIPTION, training={"compute_time_s": 0.002}, loader={"prefetch_batches": 2}
)


@pytest.fixture(scope="module")
def trained():
    """Return tables of runs that compute, and took 1.7 times as long as the model."""
    runs = [tables_of(COMPUTING, p, simulate_reads(COMPUTING, p)) for p in POINTS]
    io_time, epochs = (pd.concat(tables) for tables in zip(*runs, strict=True))
    return io_time, epochs.assign(
        execution_time_s=1.7 * epochs["execution_time_s"],
        utilisation_percent=epochs["utilisation_percent"] / 1.7,
    )


def test_training_is_estimated_as_measured_times_the_change_in_the_model(trained):
    io_time, epochs = trained
    estimates = estimate_by_model(io_time, LARGE, 1, COMPUTING, epochs=epochs)
    of_runs = select_epoch(epochs, 1).groupby(POINT)
    for improvement in ({}, LARGE[0]):
        then = changed(COMPUTING, system={"improvements": improvement})
        runs = [next(simulate_reads(then, one, [1])).epoch for one in POINTS]
        rows = select_improvements(estimates, [improvement])
        execution_s = [1.7 * one.execution_time_s for one in runs]
        assert rows["execution_time_s"].tolist() == pytest.approx(execution_s)
        utilisation = [one.steps.columns()["utilisation_percent"] for one in runs]
        expected = [one.mean() / 1.7 for one in utilisation]
        assert rows["utilisation_percent"].tolist() == pytest.approx(expected)
    today = select_improvements(estimates, [{}])
    assert (
        today["execution_time_s"].tolist() == of_runs["execution_time_s"].max().tolist()
    )
    assert expected != pytest.approx(today["utilisation_percent"].tolist())


def test_a_process_takes_no_less_time_than_its_computation():
    """Of 40 % if the model says 50 to 75 %, 60 % are left; 80 % cannot become 120 %."""
    before, after = np.array([50.0, 50.0]), np.array([75.0, 75.0])
    assert improved_utilisation(np.array([40.0, 80.0]), before, after) == (60 + 100) / 2


def test_a_process_with_one_step_has_no_utilisation():
    ranks = np.array([40.0, np.nan])
    assert improved_utilisation(ranks, ranks, ranks) == 40
    assert np.isnan(improved_utilisation(ranks[1:], ranks[1:], ranks[1:]))


def test_without_computation_the_utilisation_stays_0():
    assert improved_utilisation(np.zeros(2), np.zeros(2), np.zeros(2)) == 0
