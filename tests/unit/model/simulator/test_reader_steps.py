"""Workers, and steps that wait for all: cases that one can follow with a pencil."""

from dataclasses import replace

import numpy as np
import pytest
from tierscope.core.description import ComputeTime
from tierscope.data.steps import compute_times_ns
from tierscope.model.simulator.epoch import simulate_epoch
from tierscope.storage.queueing_network import Network, TierModel, Workload

READ_1 = TierModel(read_latency_s=1)  # a read takes 1 s, and nobody waits
ONE_DISK = TierModel(request_s=1)
S = 1_000_000_000


def simulate(n_files=4, n_ranks=1, gfs=READ_1, seeds=(1, 0, 0), sample_s=0.0, **loads):
    """Simulate an epoch in which all files lie on the GFS."""
    return simulate_epoch(
        Network(n_ranks, gfs, TierModel(), sample_s=sample_s),
        Workload(n_files, 100, **loads),
        np.arange(n_files),
        np.zeros(n_files, bool),
        np.random.default_rng(0),
        seeds=seeds,
    )


def seconds(epoch):
    """Return computation, stall and rest of each rank."""
    steps = epoch.steps
    parts = steps.compute_ns, steps.stall_ns, steps.rest_ns
    return [[int(one) / S for one in part] for part in parts]


@pytest.mark.parametrize(
    ("loads", "begins_s", "finished_s"),
    [
        # Without workers, reading and computing alternate.
        ({"workers": 0}, [0, 4, 8, 12], 16),
        # One batch ahead: it is sent when the one before it is received.
        ({"workers": 1, "prefetch_factor": 1}, [0, 1, 4, 7], 13),
        # Batch 2 is sent with batch 0 received, at 1, and read beside the computation.
        ({"workers": 1, "prefetch_factor": 2}, [0, 1, 2, 4], 13),
        ({"workers": 2, "prefetch_factor": 1}, [0, 0, 1, 4], 13),
        ({"workers": 4, "prefetch_factor": 1}, [0, 0, 0, 0], 13),
    ],
)
def test_batch_is_sent_to_its_worker_when_an_earlier_one_is_received(
    loads, begins_s, finished_s
):
    epoch = simulate(compute_time_s=3, **loads)
    assert epoch.instants_s[:, 0].tolist() == begins_s
    assert epoch.finished_s.tolist() == [finished_s]


def test_worker_closes_its_last_file_before_it_delivers_and_needs_no_place_to_close():
    tier = TierModel(open_s=1, close_s=1)
    epoch = simulate(
        2, gfs=tier, sample_s=5, workers=1, prefetch_factor=1, compute_time_s=100
    )
    # Open 0 to 1, sample to 6, close to 7: received at 7, which sends the second batch.
    assert epoch.instants_s.tolist() == [[0, 1, 1, 6, 7], [7, 8, 8, 13, 14]]
    assert seconds(epoch) == [[200], [7], [0]]
    assert epoch.finished_s.tolist() == [207]


def test_batches_are_received_in_order_though_a_later_one_is_ready_before():
    # The first batch is read from the GFS in 5 s, the second from the LFS in 1 s.
    epoch = simulate_epoch(
        Network(1, TierModel(read_latency_s=5), TierModel(read_latency_s=1)),
        Workload(3, 100, workers=2, prefetch_factor=1),
        np.arange(3),
        np.array([False, True, True]),
        np.random.default_rng(0),
    )
    # Worker 1 holds its batch from 1 to 5. Batch 2 is sent when batch 0 is received.
    assert epoch.instants_s[:, 0].tolist() == [0, 0, 5]
    assert epoch.finished_s.tolist() == [6]


def test_workers_of_all_ranks_queue_in_the_order_of_ranks_then_workers():
    epoch = simulate(8, 2, ONE_DISK, workers=2, prefetch_factor=1)
    ends_s = epoch.instants_s[:, 2].tolist()
    assert [ends_s[i] for i in (0, 1, 4, 5)] == [1, 2, 3, 4]


def test_last_batch_that_is_not_full_is_delivered_as_any_other():
    epoch = simulate(3, batch_size=2, workers=1, prefetch_factor=2, compute_time_s=10)
    assert seconds(epoch) == [[20], [2], [0]]


class TestSteps:
    """All ranks that have a batch for a step wait for the slowest of them."""

    def test_step_ends_when_the_last_of_its_ranks_does(self):
        # Reads of both ranks queue: batches are ready at 1, 3 and at 2, 4.
        epoch = simulate(
            4, 2, ONE_DISK, in_steps=True, compute_time_s=10, prefetch_batches=2
        )
        # Step 0 ends at 11 and 12, so both begin step 1 at 12, and end at 22.
        assert seconds(epoch) == [[20, 20], [1, 2], [1, 0]]
        assert epoch.finished_s.tolist() == [22, 22]

    def test_rank_without_a_batch_for_a_step_is_not_waited_for(self):
        # Three files: rank 0 has one, rank 1 has two.
        epoch = simulate(3, 2, READ_1, in_steps=True, compute_time_s=10, workers=0)
        assert seconds(epoch) == [[10, 20], [1, 2], [11, 0]]

    def test_without_it_ranks_meet_at_the_end_of_the_epoch_only(self):
        epoch = simulate(4, 2, ONE_DISK, workers=0, compute_time_s=10)
        assert seconds(epoch) == [[20, 20], [2, 3], [1, 0]]


@pytest.mark.parametrize("prefetch", [0, 1, 2])
@pytest.mark.parametrize("n_files", [24, 26, 25, 5])
@pytest.mark.parametrize("compute_time_s", [0, 0.02, 0.3])
def test_loop_of_steps_has_the_rule_of_the_loop_of_readers(
    prefetch, n_files, compute_time_s
):
    tier = TierModel(
        open_s=0.003,
        close_s=0.001,
        open_latency_s=0.002,
        request_bytes=40,
        bandwidth_bytes_per_s=1e4,
        n_links=1,
        link_bytes_per_s=3e4,
    )
    lfs = TierModel(group_size=2, request_s=0.004, read_latency_s=0.003)
    network = Network(4, tier, lfs, sample_s=0.002)
    plain = Workload(n_files, 100, 4, 0, prefetch, compute_time_s)
    in_loop_of_steps = replace(plain, compute=ComputeTime(mean_s=compute_time_s))
    files = np.random.default_rng(1).permutation(n_files)
    one, other = (
        simulate_epoch(network, load, files, files % 3 == 0, np.random.default_rng(0))
        for load in (plain, in_loop_of_steps)
    )
    assert one.instants_ns.tolist() == other.instants_ns.tolist()
    assert one.busy_ns.tolist() == other.busy_ns.tolist()
    assert one.finished_ns.tolist() == other.finished_ns.tolist()
    for name, times_ns in vars(one.steps).items():
        assert times_ns.tolist() == getattr(other.steps, name).tolist(), name


def test_random_computation_is_that_of_seed_repetition_epoch_rank_and_step():
    compute = ComputeTime("normal", mean_s=3, stdev_s=1)
    epoch = simulate(8, 2, compute_time_s=3, compute=compute, workers=0)
    drawn = [compute_times_ns(compute, 4, (1, 0, 0), rank) for rank in range(2)]
    assert epoch.steps.compute_ns.tolist() == [one.sum() for one in drawn]
    assert epoch.steps.first_compute_ns.tolist() == [one[0] for one in drawn]


def test_workers_read_ahead_during_the_warmup_of_the_first_step():
    """Four reads of 4 s each; two batches are ready when the first step ends, at 12."""
    warm = ComputeTime(mean_s=1, warmup_s=(7, 0))
    loads = {"workers": 1, "prefetch_factor": 2, "compute": warm}
    slow = TierModel(read_latency_s=4)
    first, later = (simulate(gfs=slow, seeds=(1, 0, one), **loads) for one in (0, 1))
    assert first.finished_s.tolist() == [4 + 8 + 1 + 3 + 1]  # not 17 + 7
    assert later.finished_s.tolist() == [17]


def test_utilisation_leaves_out_the_first_step():
    epoch = simulate(4, workers=0, compute_time_s=3)
    # 16 s in four steps of 4 s; without the first one, 9 s of computation in 12 s.
    assert epoch.steps.columns()["utilisation_percent"].tolist() == [75]
