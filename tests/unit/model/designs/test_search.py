"""Numbers of accelerators on storage that one can compute in the head."""

import math
from dataclasses import replace
from unittest.mock import Mock

import pytest
from descriptions import changed, describe_scenario
from tierscope.core.description import STEP
from tierscope.core.scenario import Point
from tierscope.core.tables import check_table
from tierscope.data.designs import Plan
from tierscope.model.designs import fit
from tierscope.model.designs.feeding import limit_of, simulate_pace
from tierscope.model.designs.search import accelerators_table, find_rows, row_of
from tierscope.model.simulator.run import simulate_reads
from tierscope.storage.queueing_network import ModelError

# The one server of the GFS reads 100 files a second, each LFS 10.
DEVICES = {
    "gfs": {
        "open_s": 0.0,
        "close_s": 0.0,
        "metadata_latency_s": 0.0,
        "n_osts": 1,
        "ost_bandwidth_bytes_per_s": 1e8,
        "read_latency_s": 0.0,
        "link_bytes_per_s": 1e15,
        "request_bytes": 1_000_000,
    },
    "lfs": {
        "request_bytes": 1_000_000,
        "request_s": 0.1,
        "latency_s": 0.0,
        "processes_per_server": 1,
    },
}
POINTS = [Point(0, 0)]


def plan(per_node=1, n_files=8000, compute_time_s=0.1, steps=20):
    """Return accelerators that take 10 files a second each: ten are fed."""
    description = describe_scenario(
        source="simulated",
        system={"n_nodes": 64, "processes_per_node": per_node, "devices": DEVICES},
        dataset={"n_files": n_files, "file_size_bytes": 1_000_000, "batch_size": 1},
        training={
            "epochs": 1,
            "shuffle": "global",
            "seed": 1,
            "compute_time_s": compute_time_s,
            "synchronise": STEP,
        },
        scenario={
            "dataset": "tiny",
            "n_osts": 1,
            "policy": "pinning",
            "loader": "tensorflow",
        },
    )
    return Plan(description, None, False, steps)


def rows_of(found, most, goal=90, points=POINTS):
    return find_rows(
        lambda n: row_of(found, (), n, points, goal),
        lambda n: limit_of(found, n, points),
        found,
        most,
        goal,
    )


def test_a_server_that_is_full_shares_its_rate():
    used = [simulate_pace(plan(), n, POINTS[0]) for n in (1, 5, 10, 20, 40)]
    percents = [one.utilisation_percent for one in used]
    assert percents == pytest.approx([100, 100, 100, 50, 25], rel=0.02)


@pytest.mark.parametrize("loader", ["tensorflow", "pytorch"])
def test_a_computation_that_varies_is_drawn_as_the_simulator_draws_it(loader):
    computes = {"distribution": "normal", "mean_s": 0.1, "stdev_s": 0.04}
    found = plan(n_files=12 * 20, compute_time_s=computes)
    ahead = {"prefetch_batches": 2, "workers": 2, "prefetch_factor": 1}
    described = changed(found.description, scenario={"loader": loader}, loader=ahead)
    found = replace(found, description=described)
    (reads,) = simulate_reads(found.described(12), POINTS[0])
    wanted = reads.epoch.steps.columns()["utilisation_percent"].mean()
    assert 40 < wanted < 80  # where an even computation of ten would use 100 %
    used = simulate_pace(found, 12, POINTS[0]).utilisation_percent
    assert used == pytest.approx(wanted, rel=1e-9)


def test_the_most_that_reach_the_goal_are_found_exactly():
    """At a goal of 90 %, 100 files a second feed 100 / 9 accelerators."""
    rows = rows_of(plan(), 32)
    numbers = [one["n_accelerators"] for one in rows]
    assert {1, 2, 4, 8, 16, 32, 11, 12} <= set(numbers)
    by_number = {one["n_accelerators"]: one for one in rows}
    assert by_number[11]["utilisation_percent"] >= 90
    assert by_number[12]["utilisation_percent"] < 90
    asked = {n: one["limit"] for n, one in by_number.items()}
    assert asked.pop(12) == "gfs_read"
    assert set(asked.values()) == {"not asked"}
    assert by_number[32]["samples_per_second"] == pytest.approx(100, rel=0.02)


def test_between_whole_nodes_there_is_none():
    numbers = [one["n_accelerators"] for one in rows_of(plan(per_node=4), 32)]
    assert numbers == [1, 2, 4, 8, 12, 16, 32]


def test_of_files_on_the_lfs_each_accelerator_has_its_own_server():
    points = [Point(100, 0)]
    fed = rows_of(plan(compute_time_s=0.2), 16, points=points)
    assert all(one["utilisation_percent"] > 99 for one in fed)
    assert {one["limit"] for one in fed} == {"not asked"}
    (starved, *_) = rows_of(plan(compute_time_s=0.05), 4, points=points)
    assert starved["utilisation_percent"] == pytest.approx(50, rel=0.01)
    assert starved["limit"] == "lfs_read"


def test_numbers_end_where_an_epoch_has_fewer_than_two_steps():
    numbers = [one["n_accelerators"] for one in rows_of(plan(n_files=31), 64, 1)]
    assert numbers == [1, 2, 4, 8, 15]


def test_rows_are_a_table():
    table = accelerators_table(rows_of(plan(), 4), plan())
    assert check_table(table, "accelerators").equals(table)
    assert table["utilisation_low_percent"].isna().all()
    two = row_of(plan(), (), 2, [Point(0, 0), Point(0, 1)], 90)
    assert two["utilisation_low_percent"] <= two["utilisation_percent"]
    assert two["n_repetitions"] == 2


def fit_of(
    percent, parameter="gfs.ost_bandwidth_bytes_per_s", deviation=0, say=[].append
):
    given = {
        "parameter": parameter,
        "accelerators": 4,
        "utilisation_percent": percent,
        "deviation_points": deviation,
    }
    return fit.fit_parameter(plan(), given, POINTS, say)


def test_a_rate_is_fitted_to_what_was_measured():
    """Four take 40 files a second; half of that is 20 MB a second."""
    said = []
    fitted = fit_of(50, deviation=5, say=said.append)
    assert said[0].startswith("gfs.ost_bandwidth_bytes_per_s 1e+06 B/s: AU ")
    assert len(said) == len(set(said)) > 10
    assert fitted.value == pytest.approx(2e7, rel=0.03)
    assert fitted.low == pytest.approx(1.8e7, rel=0.03)
    assert fitted.high == pytest.approx(2.2e7, rel=0.03)
    row = row_of(fitted.plan, fitted.ends, 8, POINTS, 90)
    assert row["utilisation_percent"] == pytest.approx(25, rel=0.03)
    assert row["utilisation_low_percent"] == pytest.approx(22.5, rel=0.03)
    assert row["samples_per_second_high"] == pytest.approx(22, rel=0.03)


def test_a_latency_of_each_reader_is_fitted_and_more_readers_are_fed_as_well():
    fitted = fit_of(50, "gfs.read_latency_s")
    assert 0.15 < fitted.value < 0.2
    used = simulate_pace(fitted.plan, 1, POINTS[0]).utilisation_percent
    assert used == pytest.approx(50, rel=0.1)


def test_a_utilisation_that_no_value_gives_is_refused():
    words = (
        "utilisation_percent 50 and deviation_points 2, expected 48 to 52 % between "
        "99.99 and 99.99 %, which lfs.latency_s gives"
    )
    with pytest.raises(ModelError, match=words):
        fit_of(50, "lfs.latency_s", deviation=2)


@pytest.mark.parametrize(("percent", "deviation"), [(5, 4), (99, 2)])
def test_an_end_that_no_value_gives_is_refused_before_a_search(
    monkeypatch, percent, deviation
):
    """The slowest rate feeds 1 of 40 files a second."""
    simulated = Mock(wraps=simulate_pace)
    monkeypatch.setattr(fit, "simulate_pace", simulated)
    with pytest.raises(ModelError, match=f"deviation_points {deviation}, expected"):
        fit_of(percent, deviation=deviation)
    assert simulated.call_count == 2


def test_a_limit_is_the_processor_where_storage_costs_nothing():
    slow = changed_processor(plan(compute_time_s=0.1), 0.2)
    assert limit_of(slow, 1, POINTS) == "computation and processor"
    assert math.isclose(
        simulate_pace(slow, 1, POINTS[0]).utilisation_percent, 50, rel_tol=0.1
    )


def changed_processor(found, sample_s):
    free = {**DEVICES["gfs"], "ost_bandwidth_bytes_per_s": 1e12}
    devices = {**DEVICES, "gfs": free, "processor": {"sample_s": sample_s}}
    described = found.description
    system = replace(described.system, devices=devices)
    return replace(found, description=replace(described, system=system))
