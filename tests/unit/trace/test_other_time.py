"""Calls on files of no tier, made up: which of them the training loop waits for."""

import math

import pandas as pd
import pytest
from job_logs import write_job_log
from tierscope.core.columns import AFTER, AFTER_TRAINING
from tierscope.core.tables import check_table
from tierscope.trace.log import read_any_log
from tierscope.trace.other_time import (
    ProcessSums,
    Sum,
    other_time,
    sees_others,
    sums_of,
    unmeasured_time,
)

MOUNTS = {"gfs": {"/data"}, "lfs": {"/data", "/nvme"}}


def process(pid, *sums, rank=0, parents=(), command="train"):
    """Return a process that wrote for these epochs, by these threads, for 1 s each."""
    made = [Sum(*one, "write", "ext4", "/", 1, 10, 1.0) for one in sums]
    return ProcessSums(rank, "host", pid, parents, command, made)


def marks(*marked, what="epoch"):
    """Return table `marks` of pairs of a rank and a process."""
    rows = [{"rank": rank, "pid": pid, "what": what} for rank, pid in marked]
    return pd.DataFrame(rows, columns=["rank", "pid", "what"])


def seconds(table):
    """Return the time by rank, epoch, and whether the loop made the calls."""
    return table.set_index(["rank", "epoch", "in_loop"])["time_s"].to_dict()


def table_of(processes, begun):
    table = other_time(processes, begun, MOUNTS, lambda rank, epoch: epoch)
    return check_table(table, "run_other_time")


def test_the_thread_that_marks_is_the_loop_and_others_are_told_apart():
    one = process(7, (0, "loop"), (0, "beside"), (1, "loop"))
    assert seconds(table_of([one], marks((0, 7)))) == {
        (0, 0, True): 1,
        (0, 0, False): 1,
        (0, 1, True): 1,
    }


def test_what_comes_before_the_first_mark_is_in_no_epoch():
    trainer = process(7, (-1, "main"), (-1, "beside"), (0, "main"), (0, "loop"))
    assert seconds(table_of([trainer], marks((0, 7)))) == {(0, 0, True): 1}


def test_workers_and_children_of_what_marks_are_beside_the_loop():
    trainer = process(7, (0, "loop"))
    child = process(8, (0, "main"), parents=(7,), command="cp a b")
    deeper = process(9, (0, "main"), parents=(8, 7), command="sync")
    found = seconds(table_of([trainer, child, deeper], marks((0, 7))))
    assert found == {(0, 0, True): 1, (0, 0, False): 2}


def test_if_a_command_of_a_script_marks_others_that_it_starts_are_the_loop():
    script = process(7, (1, "main"), command="sh run.sh")
    epochs = [
        process(20 + epoch, (epoch, "main"), parents=(7,), command="python epoch.py")
        for epoch in (0, 1)
    ]
    worker = process(30, (1, "main"), parents=(21, 7), command="python epoch.py")
    found = seconds(table_of([script, *epochs, worker], marks((0, 10), (0, 11))))
    assert found == {(0, 0, True): 1, (0, 1, True): 2, (0, 1, False): 1}


@pytest.mark.parametrize(
    "command", ["train", "python -c from multiprocessing.spawn import spawn_main"]
)
def test_without_marks_all_is_one_phase_and_workers_are_beside(command):
    trainer = process(7, (-1, "main"), (-1, "beside"))
    worker = process(8, (-1, "main"), parents=(7,), command=command)
    found = table_of([trainer, worker], marks((0, 7), what="whole run"))
    assert seconds(found) == {(0, 0, True): 1, (0, 0, False): 2}


def test_of_trainers_of_one_rank_the_slowest_is_the_loop():
    first = process(7, (0, "loop"))
    second = process(8, (0, "loop"), (0, "loop"))
    found = table_of([first, second], marks((0, 7), (0, 8)))
    assert seconds(found) == {(0, 0, True): 2, (0, 0, False): 1}


def test_ranks_are_told_apart():
    ranks = [process(7 + rank, (0, "loop"), rank=rank) for rank in (0, 1)]
    found = table_of(ranks, marks((0, 7), (1, 8)))
    assert seconds(found) == {(0, 0, True): 1, (1, 0, True): 1}


@pytest.mark.parametrize(
    ("mount", "holds"),
    [("/", "none"), ("/data", "gfs and lfs"), ("/nvme", "lfs")],
)
def test_mounts_that_hold_tiers_say_so(mount, holds):
    made = [Sum(0, "loop", "fsync", "xfs", mount, 2, 0, 0.5)]
    found = table_of([ProcessSums(0, "h", 7, (), "a", made)], marks((0, 7)))
    assert found[["mount", "holds", "call"]].to_numpy().tolist() == [
        [mount, holds, "fsync"]
    ]


def test_sums_stand_in_a_log_under_names_that_are_no_paths(tmp_path):
    name = r"2/loop/{}/ext4:/my\040scratch"
    rows = [
        (
            "POSIX",
            0,
            name.format("write"),
            {"writes": 3, "bytes_written": 30, "write_s": 2},
        ),
        ("POSIX", 0, name.format("fsync"), {"writes": 1, "write_s": 4}),
        ("POSIX", 0, name.format("read"), {"reads": 5, "bytes_read": 7, "read_s": 1}),
        ("POSIX", 0, name.format("other"), {"opens": 6, "meta_s": 8}),
        ("POSIX", 0, "/data/2/loop/write/ext4:/", {"opens": 1}),
    ]
    metadata = {"tracer": "a", "pid": "7", "host": "node", "parents": "5,3"}
    write_job_log(tmp_path / "one.darshan", rows, metadata=metadata)
    found = sums_of(read_any_log(tmp_path / "one.darshan"), 1)
    assert (found.rank, found.host, found.pid, found.parents) == (1, "node", 7, (5, 3))
    assert {one.call: one[-3:] for one in found.sums} == {
        "write": (3, 30, 2),
        "fsync": (1, 0, 4),
        "read": (5, 7, 1),
        "other": (6, 0, 8),
    }
    assert {(one.epoch, one.thread, one.fs_type, one.mount) for one in found.sums} == {
        (2, "loop", "ext4", "/my scratch")
    }


def test_no_calls_are_no_rows():
    assert table_of([process(7)], marks((0, 7))).empty


def test_what_no_tracer_has_seen_is_missing_and_not_0():
    epochs = pd.DataFrame({"rank": [0, 1], "epoch": [0, 0]})
    table = check_table(unmeasured_time(epochs), "run_other_time")
    assert table["time_s"].map(math.isnan).all()
    assert table["rank"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("tracer", "sees"),
    [
        ({"runtime": "builtin", "version": "4"}, True),
        ({"runtime": "builtin", "version": "3"}, False),
        ({"runtime": "darshan", "version": "3.5.0"}, False),
        ({}, False),
    ],
)
def test_older_tracers_and_a_sites_darshan_see_no_such_calls(tracer, sees):
    assert sees_others(tracer) == sees


def test_what_follows_training_is_of_one_program_after_the_other():
    first = process(7, (0, "loop"), (AFTER, "loop"), (AFTER, "beside"))
    second = process(8, (1, "loop"), (AFTER + 1, "loop"), (AFTER + 2, "loop"))
    ends = {AFTER: AFTER_TRAINING, AFTER + 1: 1, AFTER + 2: AFTER_TRAINING}
    table = other_time(
        [first, second],
        marks((0, 7), (0, 8)),
        MOUNTS,
        lambda rank, epoch: ends.get(epoch, epoch),
    )
    assert seconds(table) == {
        (0, 0, True): 1,
        (0, 1, True): 2,
        (0, AFTER_TRAINING, True): 2,
        (0, AFTER_TRAINING, False): 1,
    }
