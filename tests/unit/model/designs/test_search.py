"""Numbers of accelerators on storage that one can compute in the head."""

import math
from dataclasses import replace
from unittest.mock import Mock

import pytest
from descriptions import changed
from small_designs import DEVICES, ON_GFS, ON_LFS, plan, simulate, study_of
from tierscope.core.io_class import NET_READ
from tierscope.core.scenario import Point
from tierscope.core.tables import check_table
from tierscope.data.designs import Design, Storage
from tierscope.model.designs import fit
from tierscope.model.designs.evidence import Evidence
from tierscope.model.designs.feeding import Trial, limit_of, simulate_pace
from tierscope.model.designs.study import simulate_study
from tierscope.model.simulator.run import simulate_reads
from tierscope.storage.queueing_network import ModelError


def used_by(found, n, storage=ON_GFS):
    return simulate_pace(Trial(found, Design(n, storage))).utilisation_percent


def rows_of(found, most, **keys):
    table = simulate_study(
        study_of(found, most=most, **keys), simulate, [].append, [].append
    ).designs
    assert check_table(table, "designs").equals(table)
    return table.sort_values("n_accelerators").to_dict("records")


def test_a_server_that_is_full_shares_its_rate():
    percents = [used_by(plan(), n) for n in (1, 5, 10, 20, 40)]
    assert percents == pytest.approx([100, 100, 100, 50, 25], rel=0.02)


@pytest.mark.parametrize("loader", ["tensorflow", "pytorch"])
def test_a_computation_that_varies_is_drawn_as_the_simulator_draws_it(loader):
    computes = {"distribution": "normal", "mean_s": 0.1, "stdev_s": 0.04}
    found = plan(n_files=12 * 20, compute_time_s=computes)
    ahead = {"prefetch_batches": 2, "workers": 2, "prefetch_factor": 1}
    described = changed(found.description, scenario={"loader": loader}, loader=ahead)
    found = replace(found, description=described)
    (reads,) = simulate_reads(found.described(12, ON_GFS), Point(0, 0))
    wanted = reads.epoch.steps.columns()["utilisation_percent"].mean()
    assert 40 < wanted < 80  # where an even computation of ten would use 100 %
    assert used_by(found, 12) == pytest.approx(wanted, rel=1e-9)


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
    fed = rows_of(plan(compute_time_s=0.2), 16, storages=(ON_LFS,))
    assert all(one["utilisation_percent"] > 99 for one in fed)
    assert {one["limit"] for one in fed} == {"not asked"}
    (starved, *_) = rows_of(plan(compute_time_s=0.05), 4, storages=(ON_LFS,))
    assert starved["utilisation_percent"] == pytest.approx(50, rel=0.01)
    assert starved["limit"] == "lfs_read"


def test_numbers_end_where_an_epoch_has_fewer_than_two_steps():
    rows = rows_of(plan(n_files=31), 64, goal=1.0)
    assert [one["n_accelerators"] for one in rows] == [1, 2, 4, 8, 15]


def test_ends_are_those_of_several_repetitions():
    (one,) = rows_of(plan(), 1)
    assert math.isnan(one["utilisation_low_percent"])
    assert (one["n_repetitions"], one["known_by"]) == (1, "simulated")
    (two,) = rows_of(plan(), 1, repetitions=2)
    assert two["utilisation_low_percent"] <= two["utilisation_percent"]
    assert two["n_repetitions"] == 2


def fit_of(
    percent,
    parameter="gfs.ost_bandwidth_bytes_per_s",
    deviation=0,
    say=[].append,
    what=simulate,
):
    given = {
        "parameter": parameter,
        "accelerators": 4,
        "utilisation_percent": percent,
        "deviation_points": deviation,
    }
    return fit.fit_parameter(what, plan(), given, ON_GFS, 1, say)


def test_a_rate_is_fitted_to_what_was_measured():
    """Four take 40 files a second; half of that is 20 MB a second."""
    said = []
    fitted = fit_of(50, deviation=5, say=said.append)
    assert said[0].startswith("gfs.ost_bandwidth_bytes_per_s 1e+06 B/s: AU ")
    assert len(said) == len(set(said)) > 10
    assert fitted.value == pytest.approx(2e7, rel=0.03)
    assert fitted.low == pytest.approx(1.8e7, rel=0.03)
    assert fitted.high == pytest.approx(2.2e7, rel=0.03)
    plans, eight = {"tiny": [fitted.plans]}, Design(8, ON_GFS)
    evidence = Evidence(study_of(plan(), most=8), plans, simulate, [].append)
    evidence.add([("tiny", eight)])
    band = evidence.band("tiny", eight, "utilisation_percent")
    assert band == pytest.approx((25, 22.5, 27.5), rel=0.03)
    band = evidence.band("tiny", eight, "samples_per_second")
    assert band.high == pytest.approx(22, rel=0.03)


def test_a_latency_of_each_reader_is_fitted_and_more_readers_are_fed_as_well():
    fitted = fit_of(50, "gfs.read_latency_s")
    assert 0.15 < fitted.value < 0.2
    assert used_by(fitted.plans[0], 1) == pytest.approx(50, rel=0.1)


def test_a_utilisation_that_no_value_gives_is_refused():
    words = (
        "utilisation_percent 50 and deviation_points 2, expected 48 to 52 % between "
        "99.99 and 99.99 %, which lfs.latency_s gives"
    )
    with pytest.raises(ModelError, match=words):
        fit_of(50, "lfs.latency_s", deviation=2)


@pytest.mark.parametrize(("percent", "deviation"), [(5, 4), (99, 2)])
def test_an_end_that_no_value_gives_is_refused_before_a_search(percent, deviation):
    """The slowest rate feeds 1 of 40 files a second."""
    simulated = Mock(wraps=simulate)
    with pytest.raises(ModelError, match=f"deviation_points {deviation}, expected"):
        fit_of(percent, deviation=deviation, what=simulated)
    assert simulated.call_count == 2


def test_a_limit_is_the_processor_where_storage_costs_nothing():
    slow = changed_processor(plan(compute_time_s=0.1), 0.2)
    limit = limit_of(simulate, slow, Design(1, ON_GFS), 1)
    assert limit == "computation and processor"
    assert used_by(slow, 1) == pytest.approx(50, rel=0.1)


def test_a_limit_is_the_network_where_nodes_read_from_each_other():
    link = {"latency_s": 0.0, "bandwidth_bytes_per_s": 1e6}
    pooled = plan(devices=DEVICES | {"network": link})
    storage = Storage(cache_rate_percent=100, placement="adhoc")
    assert limit_of(simulate, pooled, Design(8, storage), 1) == NET_READ


def changed_processor(found, sample_s):
    free = {**DEVICES["gfs"], "ost_bandwidth_bytes_per_s": 1e12}
    devices = {**DEVICES, "gfs": free, "processor": {"sample_s": sample_s}}
    described = found.description
    system = replace(described.system, devices=devices)
    return replace(found, description=replace(described, system=system))


def test_what_feeds_all_workloads_is_simulated_for_each():
    """One that computes twice as long lets twice as many be fed: 22."""
    study = study_of(plan(), most=32)
    slow = {"slow": plan(compute_time_s=0.2)}
    study = replace(
        study,
        plans=study.plans | slow,
        shares={"tiny": 0.5, "slow": 0.5},
        goals=study.goals | {"slow": study.goals["tiny"]},
    )
    table = simulate_study(study, simulate, [].append, [].append).designs
    both = table[table["verdict"] == "meets"].groupby("n_accelerators").size() == 2
    assert max(both.index[both]) == 11
