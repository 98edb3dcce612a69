"""Stall by class: one rank's networks whose epochs one can compute in the head."""

import pytest
from descriptions import changed, describe_scenario
from tierscope.core.columns import CLASSES, TOGETHER
from tierscope.core.scenario import Point
from tierscope.core.tables import check_table
from tierscope.model.stalls import divide_stall, estimate_class_stalls
from tierscope.storage.queueing_network import ModelError

# An open on the GFS takes 1 s, a read 1 s; a read on the LFS 2 s.
DEVICES = {
    "gfs": {
        "open_s": 1.0,
        "close_s": 0.0,
        "metadata_latency_s": 0.0,
        "ost_bandwidth_bytes_per_s": 1e12,
        "read_latency_s": 1.0,
        "link_bytes_per_s": 1e12,
        "request_bytes": 1 << 20,
    },
    "lfs": {
        "request_bytes": 1 << 20,
        "request_s": 2.0,
        "latency_s": 0.0,
        "processes_per_server": 1,
    },
}


def described(compute_time_s=0, prefetch_batches=0, n_ranks=1, n_files=4, **scenario):
    description = describe_scenario(
        system={
            "name": "pencil",
            "processes_per_node": n_ranks,
            "emulation": None,
            "devices": DEVICES,
        },
        dataset={"n_files": n_files, "file_size_bytes": 1, "batch_size": 1},
        training={"epochs": 1, "compute_time_s": compute_time_s},
        loader={"prefetch_batches": prefetch_batches},
    )
    return changed(description, scenario=scenario)


def parts(description, rate=0, repetitions=1):
    """Return the execution time and the parts of the stall, rounded."""
    points = [Point(rate, one) for one in range(repetitions)]
    table = estimate_class_stalls(description, points, 0)
    assert check_table(table, "class_stalls").equals(table)
    assert table["part"].tolist() == [*CLASSES, TOGETHER]
    (execution_s,) = set(table["execution_time_s"].round(6))
    return execution_s, table["stall_s"].round(6).tolist()


def test_without_computation_each_class_is_its_io_time():
    assert parts(described()) == (8, [4, 4, 0, 0, 0])


def test_the_lfs_alone_is_what_all_files_on_it_cost():
    assert parts(described(), rate=100) == (8, [0, 0, 8, 0, 0])


def test_computation_hides_all_but_the_first_read():
    """Of 4 x 2 s of reads, 2 s are before the first of 4 steps of 5 s."""
    assert parts(described(5, prefetch_batches=2)) == (22, [1, 1, 0, 0, 0])


def test_classes_of_which_one_alone_would_do_share_the_stall():
    """Reads take 2 s a file, steps 1.5 s: either class at no cost hides the other.

    Of 4 x 2 + 1.5 s, 4 x 1.5 are computation. Without a class 1 + 4 x 1.5 are left, so
    each would save 2.5 s of a stall of 3.5.
    """
    assert parts(described(1.5, prefetch_batches=2)) == (9.5, [1.75, 1.75, 0, 0, 0])


def test_classes_that_hide_each_other_stall_together():
    """One rank reads from the GFS while the other reads from the LFS, 2 s each.

    With half of two files on the LFS, no matter who reads which.
    """
    execution_s, stalls_s = parts(described(n_ranks=2, n_files=2), rate=50)
    assert (execution_s, stalls_s) == (2, [0, 0, 0, 0, 2])


def test_repetitions_are_averaged():
    one = [
        parts(described(n_files=3, policy="pinning"), rate=50, repetitions=n)
        for n in (1, 3)
    ]
    assert one[0] == one[1]  # one file or two on the LFS, which take equally long


@pytest.mark.parametrize("policy", ["none", "stratified-pinning"])
def test_policies_whose_files_stay_are_divided_too(policy):
    assert parts(described(policy=policy)) == (8, [4, 4, 0, 0, 0])


def test_a_policy_that_moves_files_is_refused():
    with pytest.raises(ModelError, match="lru-posix: expected a loader of files"):
        parts(described(policy="lru"))


def test_no_part_is_negative_where_an_epoch_would_not_be_shorter():
    found = divide_stall(5.0, dict.fromkeys(CLASSES, 6.0), 6.0)
    assert set(found.values()) == {0.0}


@pytest.mark.parametrize(("compute_time_s", "wait_s"), [(0, 0), (1.5, 1.5), (5, 2)])
def test_the_wait_for_the_first_batch_is_told_as_far_as_a_step_would_hide_it(
    compute_time_s, wait_s
):
    description = described(compute_time_s, prefetch_batches=2)
    table = estimate_class_stalls(description, [Point(0, 0)], 0)
    assert set(table["first_wait_s"].round(6)) == {wait_s}
