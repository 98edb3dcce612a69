"""Paces of epochs of which some steps are known."""

import numpy as np
import pytest
from descriptions import changed, describe_scenario
from tierscope.core.scenario import Point
from tierscope.model.designs.pace import pace_of, ready_times_ns, step_ends_ns
from tierscope.model.simulator.run import simulate_reads, workload_of

NS = 1e9
DEVICES = {
    "gfs": {
        "open_s": 0.01,
        "close_s": 0.02,
        "metadata_latency_s": 0.1,
        "ost_bandwidth_bytes_per_s": 1e3,
        "read_latency_s": 0.05,
        "link_bytes_per_s": 1e12,
        "request_bytes": 60,
    },
    "lfs": {
        "request_bytes": 60,
        "request_s": 0.3,
        "latency_s": 0.0,
        "processes_per_server": 1,
    },
    "processor": {"sample_s": 0.03},
}


def ready(*batches_s):
    return np.array([batches_s]) * NS


def test_a_step_begins_when_the_batch_is_ready_and_the_step_before_has_ended():
    ends_ns, first_ns = step_ends_ns(ready(2, 3, 9), 4 * NS)
    assert (ends_ns / NS).tolist() == [6, 10, 14]
    assert (first_ns / NS).tolist() == [6]


def test_processes_end_each_step_together():
    ends_ns, first_ns = step_ends_ns(np.array([[1, 2], [5, 5]]) * NS, 1 * NS)
    assert (ends_ns / NS).tolist() == [6, 7]
    assert (first_ns / NS).tolist() == [2, 6]


def test_processes_wait_for_the_one_that_computes_longest_in_a_step():
    ready_ns, compute_ns = np.zeros((2, 2)), np.array([[1, 4], [3, 2]]) * NS
    ends_ns, first_ns = step_ends_ns(ready_ns, compute_ns)
    assert (ends_ns / NS).tolist() == [3, 7]
    assert (first_ns / NS).tolist() == [1, 3]
    pace = pace_of(ready_ns, 2, 2, longer_ns=compute_ns - 2 * NS)
    assert pace.later_s == 5  # mean of 6 and 4, in which they compute for 4 and 2
    assert pace.utilisation_percent == pytest.approx((400 / 6 + 200 / 4) / 2)


def test_of_a_whole_epoch_nothing_is_estimated():
    """Steps of 4 s end at 6, 10 and 14: two of them in 8 s after the first."""
    pace = pace_of(ready(2, 3, 9), 4, 3)
    assert (pace.utilisation_percent, pace.later_s) == (100, 8)


def test_what_was_read_ahead_does_not_hide_that_reads_are_slow_later():
    """Five batches are ready at once, others every 2 s, and steps take 1.8 s.

    That is enough for 40 steps, which are known. In the other 960 a step takes 2 s.
    """
    pace = pace_of(ready(0, 0, 0, 0, *range(0, 72, 2)), 1.8, 1000)
    later_s = 39 * 1.8 + 960 * 2
    assert pace.later_s == pytest.approx(later_s)
    assert pace.utilisation_percent == pytest.approx(100 * 999 * 1.8 / later_s)


def test_steps_that_wait_for_computation_go_on_so():
    pace = pace_of(ready(*range(10)), 3, 100)
    assert pace.utilisation_percent == pytest.approx(100)


@pytest.mark.parametrize(("loader", "workers"), [("tensorflow", 0), ("pytorch", 3)])
@pytest.mark.parametrize("compute_time_s", [0.2, 0.9])
def test_steps_that_follow_from_the_reads_are_those_of_the_simulator(
    loader, workers, compute_time_s
):
    description = describe_scenario(
        source="simulated",
        system={"processes_per_node": 3, "devices": DEVICES},
        dataset={"n_files": 72, "file_size_bytes": 100, "batch_size": 2},
        training={"epochs": 1, "compute_time_s": compute_time_s, "synchronise": "step"},
        loader={"prefetch_batches": 2, "workers": workers, "prefetch_factor": 2},
    )
    description = changed(description, scenario={"loader": loader})
    (reads,) = simulate_reads(description, Point(50, 0))
    ready_ns = ready_times_ns(reads.epoch, workload_of(description), 3, 0.03)
    pace = pace_of(ready_ns, compute_time_s, 12)
    wanted = reads.epoch.steps.columns()["utilisation_percent"].mean()
    assert 10 < wanted < 100
    assert pace.utilisation_percent == pytest.approx(wanted, rel=1e-9)


def test_last_batch_of_each_reader_does_not_count():
    """While it is read, other readers have ended, so it is ready too early."""
    busy = list(range(0, 80, 2))
    early = [busy[-1] + 0.5 * i for i in range(1, 5)]
    pace = pace_of(ready(*busy, *early), 1, 1000, n_readers=4)
    assert pace.utilisation_percent == pytest.approx(50, abs=0.5)
    assert pace_of(ready(*busy, *early), 1, 1000).utilisation_percent > 52
