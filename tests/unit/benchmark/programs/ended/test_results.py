import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tierscope.benchmark.programs.ended.results import (
    AFTER_LOOPS,
    EPOCH,
    EVALUATION,
    WHOLE_RUN,
    NodeNotes,
    epochs_table,
    hook_faults,
    hook_times,
    marks_table,
    n_marks_back,
    n_unmarked_opens,
    opens_table,
    processes_table,
    read_notes,
    with_steps,
)
from tierscope.core.columns import AFTER
from tierscope.core.tables import TableError, check_table
from tierscope.policies.decisions import ROW

S = 10**9
SIZES = np.array([10, 20, 30])


def process(pid, start_s, end_s, group=0, read_bytes=0):
    """Return a process of a node; no end: it was killed."""
    io = {"rchar": 0, "wchar": 0, "read_bytes": read_bytes, "write_bytes": 0}
    ends = {"start_ns": int(start_s * S), "end_ns": int(end_s * S)}
    return {"pid": pid, "ticks": 1, "group": group} | ends | io


def mark(time_s, epoch, group=1, pid=1, device_bytes=0):
    """Return a mark of a group."""
    times = {"time_ns": int(time_s * S), "device_bytes": device_bytes}
    return {"group": group, "epoch": epoch, "pid": pid} | times


def notes(number=0, ranks=(0,), opens=(), marks=(), processes=(), further=()):
    """Return what a node has noted; it has a group for others and one a rank."""
    groups = [{"rank": rank, "device_bytes": 100} for rank in (-1, *ranks)]
    facts = {"node": number, "ranks": list(ranks), "groups": groups}
    facts |= {"marks": list(marks), "processes": list(processes)}
    rows = np.insert(np.array(list(opens), np.int64).reshape(-1, 5), 3, 0, axis=1)
    return NodeNotes(facts | {"notes": list(further)}, rows)


def test_opens_of_a_group_without_a_rank_are_of_the_nodes_first_rank():
    nodes = [
        notes(0, [0], [(0, 0, 0, 1, 2), (1, 0, 0, 1, 3), (1, 1, 1, 2, 1)]),
        notes(1, [1], [(1, 0, 0, 1, 1)]),
    ]
    table = opens_table(nodes)
    check_table(table, "opens")
    assert table.to_numpy().tolist() == [
        [0, 0, 0, "gfs", 1, 5, False],
        [1, 1, 0, "gfs", 1, 1, False],
        [0, 0, 1, "lfs", 2, 1, False],
    ]


def test_run_without_opens_has_an_empty_table():
    check_table(opens_table([notes()]), "opens")


def test_epoch_lasts_to_the_next_or_to_the_end_of_its_process():
    node = notes(
        marks=[mark(2, 0, device_bytes=10), mark(5, 1, device_bytes=40)],
        processes=[process(1, 1, 9, group=1)],
    )
    table = marks_table([node], {0: 12 * S})
    check_table(table, "marks")
    assert table["began_s"].tolist() == [1, 4]
    assert table["ended_s"].tolist() == [4, 8]
    assert table["device_bytes"].tolist() == [30, 60]
    assert set(table["what"]) == {EPOCH}


def loop(pid, epoch, time_s, evaluation=True):
    """Return a hook's note of a loop that begins."""
    found = {"kind": "begin", "pid": pid, "epoch": epoch, "evaluation": evaluation}
    return found | {"time_ns": int(time_s * S), "rank": None}


def phases(node):
    """Return what each epoch is, its begin and its end, and its device bytes."""
    table = marks_table([node], {0: 99 * S})
    check_table(table, "marks")
    table = table[table["what"] != EVALUATION]
    columns = ["what", "epoch", "pid", "began_s", "ended_s", "device_bytes"]
    return table[columns].to_numpy().tolist()


def test_last_epoch_ends_with_the_last_loop_and_what_follows_is_a_row_of_its_own():
    marks = [
        *[mark(1, 0, device_bytes=5), mark(3, AFTER), mark(4, 1, device_bytes=20)],
        *[mark(6, AFTER + 1, device_bytes=30), mark(7, 1)],  # it evaluates
        mark(8, AFTER + 2, device_bytes=60),
    ]
    further = [loop(1, 1, 7)]
    numbers = [0, AFTER, 1, AFTER + 1, AFTER + 2, AFTER + 2]
    opens = [(1, number, 0, 1, 1) for number in numbers]
    node = notes(0, [0], opens, marks, [process(1, 0, 9, 1)], further)
    assert phases(node) == [
        [EPOCH, 0, 1, 1.0, 4.0, 15.0],
        [EPOCH, 1, 1, 4.0, 8.0, 40.0],
        [AFTER_LOOPS, -1, 1, 8.0, 9.0, 40.0],
    ]
    table = opens_table([node])
    assert table.groupby("epoch")["opens"].sum().to_dict() == {-1: 2, 0: 2, 1: 2}
    epochs = epochs_table(
        table, marks_table([node], {0: 9 * S}), SIZES, {0: {"time_s": 0.5}}
    )
    after = epochs.set_index("epoch").loc[-1]
    assert (after["execution_time_s"], after["samples"], after["bytes"]) == (1, 2, 40)


def test_each_program_of_a_script_has_a_time_after_its_last_loop():
    marks = [mark(1, 0, pid=5), mark(2, AFTER, pid=5)]
    marks += [mark(6, 1, pid=7), mark(8, AFTER + 1, pid=7)]
    processes = [process(5, 0, 3, 1), process(7, 4, 8.5, 1)]
    trained = [loop(5, 0, 1, evaluation=False), loop(7, 1, 6, evaluation=False)]
    node = notes(0, [0], (), marks, processes, trained)
    assert [row[:5] for row in phases(node)] == [
        [EPOCH, 0, 5, 1.0, 2.0],
        [AFTER_LOOPS, -1, 5, 2.0, 3.0],
        [EPOCH, 1, 7, 6.0, 8.0],
        [AFTER_LOOPS, -1, 7, 8.0, 8.5],
    ]
    marks = marks_table([node], {0: 9 * S})
    epochs = epochs_table(opens_table([node]), marks, SIZES, {0: {"time_s": 0.5}})
    assert epochs.set_index("epoch").loc[-1, "execution_time_s"] == 1.5
    marks = [mark(1, 0, pid=5), mark(2, AFTER, pid=5), mark(6, AFTER + 1, pid=7)]
    processes = [process(5, 0, 3, 1), process(7, 4, 9, 1)]
    evaluated = notes(0, [0], (), marks, processes, [loop(7, 0, 5)])
    assert [row[:5] for row in phases(evaluated)] == [
        [EPOCH, 0, 5, 1.0, 6.0],
        [AFTER_LOOPS, -1, 7, 6.0, 9.0],
    ]


def test_evaluation_that_a_program_starts_after_its_training_is_of_the_last_epoch():
    marks = [mark(1, 0, pid=5), mark(2, AFTER, pid=5), mark(4, AFTER + 1, pid=7)]
    processes = [process(5, 0, 9, 1), process(7, 2, 5, 1)]
    opens = [(1, AFTER, 0, 1, 1), (1, 0, 0, 1, 1), (1, AFTER + 1, 0, 1, 1)]
    node = notes(0, [0], opens, marks, processes, [loop(7, 0, 3)])
    assert [row[:5] for row in phases(node)] == [
        [EPOCH, 0, 5, 1.0, 4.0],
        [AFTER_LOOPS, -1, 5, 2.0, 9.0],
        [AFTER_LOOPS, -1, 7, 4.0, 5.0],
    ]
    assert opens_table([node]).groupby("epoch")["opens"].sum().to_dict() == {
        -1: 2,
        0: 1,
    }
    marks = marks_table([node], {0: 9 * S})
    epochs = epochs_table(opens_table([node]), marks, SIZES, {0: {"time_s": 0.5}})
    assert epochs.set_index("epoch").loc[-1, "execution_time_s"] == 7.0


def test_process_that_is_killed_in_a_loop_has_nothing_after_it():
    marks = [mark(1, 0), mark(2, AFTER), mark(3, 1)]
    node = notes(0, [0], (), marks, [process(1, 0, 0, 1) | {"seen_ns": 5 * S}])
    assert [row[:5] for row in phases(node)] == [
        [EPOCH, 0, 1, 1.0, 3.0],
        [EPOCH, 1, 1, 3.0, 5.0],
    ]


def test_mark_of_an_epoch_that_has_begun_is_none():
    marks = [mark(2, 0), mark(3, 0), mark(4, 1), mark(5, 0), mark(6, 2)]
    node = notes(marks=marks, processes=[process(1, 1, 9, group=1)])
    assert marks_table([node], {0: 9 * S})["began_s"].tolist() == [1, 3, 5]


def test_last_epoch_of_a_killed_process_ends_with_its_rank():
    node = notes(marks=[mark(2, 0)], processes=[process(1, 1, 0, group=1)])
    assert marks_table([node], {0: 7 * S})["ended_s"].tolist() == [6]


def begin(pid, epoch, evaluation=False, rank=None):
    """Return the note of a hook on an iteration that begins."""
    note = {"kind": "begin", "evaluation": evaluation, "rank": rank}
    return note | {"pid": pid, "epoch": epoch, "time_ns": 0}


@pytest.mark.parametrize(
    ("killed", "hooked", "ends"),
    [
        (False, True, [3, 5, 12, 19]),
        (True, True, [3, 4, 12, 19]),  # it was seen for the last time at 5 s
        (False, False, [3, 9, 15, 19]),  # such as `cat` of a mark
    ],
)
def test_epoch_ends_with_a_program_after_which_another_one_follows(
    killed, hooked, ends
):
    first = process(1, 1, 0 if killed else 6, group=1) | {"seen_ns": 5 * S}
    node = notes(
        marks=[mark(2, 0), mark(4, 1), mark(10, 2, pid=2), mark(16, 3, pid=3)],
        processes=[
            first,
            process(2, 7, 13, group=1),
            process(3, 14, 20, group=1),
        ],
        further=[begin(pid, 0) for pid in (1, 2, 3) if hooked],
    )
    assert marks_table([node], {0: 30 * S})["ended_s"].tolist() == pytest.approx(ends)


def test_epoch_ends_with_a_program_that_evaluates_after_it():
    node = notes(
        marks=[mark(2, 0), mark(20, 1, pid=3)],
        processes=[
            process(1, 1, 6, group=1),
            process(2, 7, 12, group=1),
            process(3, 15, 30, group=1),
        ],
        further=[begin(1, 0), begin(2, 0, evaluation=True), begin(3, 1)],
    )
    table = marks_table([node], {0: 30 * S})
    epochs = table[table["what"] == EPOCH]
    assert epochs["ended_s"].tolist() == pytest.approx([11, 29])


def test_unknown_device_bytes_are_not_numbers():
    node = notes(
        marks=[mark(2, 0, device_bytes=-1)], processes=[process(1, 1, 9, group=1)]
    )
    assert math.isnan(marks_table([node], {0: 9 * S})["device_bytes"].iloc[0])


def test_count_that_was_looked_at_late_does_not_exceed_that_of_a_later_mark():
    """At the first mark the other process had read on; the second mark told its own."""
    marks = [mark(2, 0, device_bytes=60), mark(4, 1, pid=2, device_bytes=44)]
    node = notes(marks=marks, processes=[process(1, 1, 9, 1), process(2, 1, 9, 1)])
    assert [row[-1] for row in phases(node)] == [0.0, 56.0]


def test_program_without_marks_has_one_phase_a_rank():
    node = notes(
        ranks=[0, 1],
        processes=[
            process(1, 1, 4, group=1, read_bytes=5),
            process(2, 2, 8, group=1, read_bytes=6),
            process(3, 3, 0, group=2, read_bytes=-1),
        ],
    )
    table = marks_table([node], {0: 9 * S, 1: 10 * S})
    check_table(table, "marks")
    assert set(table["what"]) == {WHOLE_RUN}
    assert table["ended_s"].tolist() == [7, 9]
    assert table["device_bytes"].iloc[0] == 11
    assert math.isnan(table["device_bytes"].iloc[1])


def test_launcher_on_a_node_is_not_the_rank_that_reads_on_another_one():
    """As `torchrun` under `srun`: the second one runs as rank 1, and starts rank 2."""
    first = notes(
        0,
        [0, 1],
        opens=[(1, 0, 0, 1, 1), (2, 0, 0, 2, 1)],
        processes=[process(1, 1, 4, group=1), process(2, 2, 5, group=2)],
    )
    second = notes(
        1,
        [1, 2, 3],
        opens=[(2, 0, 0, 1, 1)],
        processes=[process(pid, 1, 9, group=pid) for pid in (1, 2, 3)],
    )
    table = marks_table([first, second], {0: 9 * S, 1: 9 * S})
    found = table[["rank", "node", "ended_s"]].to_numpy().tolist()
    assert found == [[0, 0, 3], [1, 0, 4], [2, 1, 8], [3, 1, 8]]  # rank 3 reads nothing


def test_evaluations_of_a_framework_are_listed_beside_the_epochs():
    begin = {"kind": "begin", "epoch": 0, "pid": 1, "time_ns": 4 * S, "rank": None}
    further = [
        begin | {"evaluation": True},
        begin | {"evaluation": False},
        begin | {"evaluation": True, "time_ns": 5 * S, "rank": 3},
    ]
    node = notes(
        ranks=[2],
        marks=[mark(2, 0)],
        processes=[process(1, 1, 9, group=1)],
        further=further,
    )
    table = marks_table([node], {2: 9 * S})
    assert table["what"].tolist() == [EPOCH, EVALUATION, EVALUATION]
    assert table["began_s"].tolist() == [1, 3, 4]
    assert table["rank"].tolist() == [2, 2, 3]  # without a launcher's: the first one


def test_fault_of_the_hook_is_said_once():
    error = {"kind": "error", "of": "_begin", "text": "KeyError('x')"}
    wrapped = {"kind": "hook", "framework": "pytorch", "version": "3.0", "missing": []}
    begin = {"kind": "begin", "epoch": 0}
    old = wrapped | {"missing": ["_a", "_b"]}
    assert hook_faults([wrapped, begin]) == []
    assert hook_faults([error, old, error, old]) == [
        "The hook failed in _begin: KeyError('x').",
        "The hook does not find _a, _b in pytorch 3.0, so what its workers read ahead "
        "counts to the epoch under way.",
    ]


def marks_of(*rows):
    """Return a table of marks from rank, epoch, begin and end."""
    columns = ["rank", "epoch", "began_s", "ended_s"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(what=EPOCH, node=0, pid=1, device_bytes=0)


def test_epoch_that_two_processes_of_a_rank_begin_lasts_to_the_last_end():
    marks = marks_of((0, 0, 1.0, 3.5), (0, 0, 2.0, 6.0), (0, 1, 3.5, 4.0))
    table = epochs_table(opens_table([notes()]), marks, SIZES, {0: {"time_s": 0.5}})
    assert table[["epoch", "execution_time_s"]].to_numpy().tolist() == [
        [0, 5],
        [1, 0.5],
    ]


def test_begins_that_go_back_are_counted_by_group():
    marks = [mark(1, 0), mark(2, 2), mark(3, 1), mark(4, 2), mark(5, 0, group=0)]
    assert n_marks_back([notes(marks=marks), notes(marks=marks[:2])]) == 1


def test_opens_of_processes_without_an_epoch_are_counted_once_others_have_one():
    node = notes(
        marks=[mark(1, 1, group=1)],
        processes=[process(7, 1, 4, group=0), process(8, 1, 4, group=1)],
    )
    node.facts["late_opens"] = {"7": 3, "8": 20, "9": 1}  # 8 marked later
    assert n_unmarked_opens(node) == 4


def test_samples_of_an_epoch_are_opens_for_reading_with_the_bytes_of_their_files():
    node = notes(opens=[(1, 0, 0, 0, 2), (1, 0, 1, 2, 1), (1, 0, 0, 1, 4)])
    node.opens[2, 3] = True  # for writing
    opens = opens_table([node])
    assert opens["for_writing"].tolist() == [False, True, False]
    marks = marks_of((0, 0, 1.0, 3.5), (0, 1, 3.5, 4.0))
    table = epochs_table(opens, marks, SIZES, {0: {"time_s": 0.5}})
    assert table["execution_time_s"].tolist() == [2.5, 0.5]
    assert table["samples"].tolist() == [3, 0]
    assert table["bytes"].tolist() == [50, 0]
    assert table["gfs_files"].tolist() == [2, 0]
    assert table["lfs_files"].tolist() == [1, 0]
    assert table["lfs_fill_time_s"].tolist() == [0.5, 0.5]


def test_open_of_a_file_that_the_dataset_lacks_is_refused():
    opens = opens_table([notes(opens=[(1, 0, 0, 2, 1)])])
    marks = marks_of((0, 0, 1.0, 3.5))
    filled = {0: {"time_s": 0.5}}
    assert epochs_table(opens, marks, SIZES, filled)["bytes"].tolist() == [30]
    with pytest.raises(TableError, match=r"opens.file_id: got 2 .* below 2\.$"):
        epochs_table(opens, marks, SIZES[:2], filled)


@pytest.mark.parametrize(("end_s", "is_last_seen"), [(3, False), (0, True)])
def test_process_without_an_end_has_what_was_last_seen(end_s, is_last_seen):
    table = processes_table([notes(processes=[process(1, 1, end_s)])])
    check_table(table, "program_processes")
    assert table["io_is_last_seen"].tolist() == [is_last_seen]
    assert math.isnan(table["ended_s"].iloc[0]) == is_last_seen


def test_notes_are_read_by_the_numbers_of_the_nodes(tmp_path):
    for rank, number in ((0, 1), (4, 0)):
        write_notes(tmp_path, rank, number, opens=np.full((1, 6), number))
    found = read_notes(tmp_path)
    assert [one.number for one in found] == [0, 1]
    assert found[1].opens[0, 0] == 1


def write_notes(folder, rank, number, opens, decisions=None):
    """Write what a node with two groups has noted."""
    facts = {"node": number, "groups": [{"rank": -1}, {"rank": 0}]}
    (folder / f"node-{rank}.json").write_text(json.dumps(facts))
    np.save(folder / f"opens-{rank}.npy", opens)
    if decisions is not None:
        np.save(folder / f"decisions-{rank}.npy", decisions)


@pytest.mark.parametrize(
    ("file", "column", "number", "expected"),
    [
        ("opens", 0, 2, "0 to 1"),  # a group
        ("opens", 0, -1, "0 to 1"),
        ("opens", 2, 2, "0 to 1"),  # a tier
        ("decisions", "rank", 2, "-1 to 1"),
        ("decisions", "rank", -2, "-1 to 1"),
    ],
)
def test_notes_with_a_number_of_nothing_are_refused(
    tmp_path, file, column, number, expected
):
    arrays = {"opens": np.zeros((3, 6), int), "decisions": np.zeros(3, ROW)}
    arrays["decisions"]["rank"] = [-1, 0, 1]
    write_notes(tmp_path, 0, 0, **arrays)
    assert len(read_notes(tmp_path)) == 1
    arrays[file].T[column][1] = number
    write_notes(tmp_path, 0, 0, **arrays)
    words = f"{file}-0.npy: column {column}: got {number}, expected {expected}$"
    with pytest.raises(ValueError, match=words):
        read_notes(tmp_path)


LOOP = {"stream": 0, "evaluation": False, "batches": 4, "pid": 1}
LOOP |= {"end_s": 0.0, "left": False, "device": None, "least_because": ""}
TIMES = {"first_wait_s": 2.0, "first_use_s": 1.0, "wait_s": 5.0, "use_s": 4.0}
PARTS = ["compute_time_s", "warmup_s", "stall_s", "loader_end_s", "rest_s"]


def parts_s(row):
    """Return the parts of an epoch in seconds, which are its execution time."""
    parts = [round(row[name], 9) for name in PARTS]
    assert sum(parts) == pytest.approx(row["execution_time_s"])
    return parts


def steps_of(*loops, execution_s=11.0):
    """Return the rows of rank 0, whose epochs have a loop and the same time each."""
    epochs = pd.DataFrame({"epoch": range(len(loops))})
    epochs = epochs.assign(rank=0, execution_time_s=execution_s)
    told = [{"rank": 0, "epoch": i} | LOOP | one for i, one in enumerate(loops)]
    return with_steps(epochs, told, []).to_dict("records")


def test_steps_of_a_loop_are_those_of_its_rank_and_epoch():
    loop = {"kind": "loop", "epoch": 0, **LOOP, **TIMES}
    evaluation = loop | {"evaluation": True, "stream": 1}
    node = notes(0, [3], further=[loop | {"rank": None}, evaluation | {"rank": 3}])
    told = hook_times([node], "loop")
    assert [one["rank"] for one in told] == [3, 3]
    epochs = pd.DataFrame(
        {"rank": [3, 3], "epoch": [0, 1], "execution_time_s": [11.0, 9.0]}
    )
    known, unknown = with_steps(epochs, told, [{"in_steps": False}]).to_dict("records")
    assert (known["compute_time_s"], known["stall_s"], known["rest_s"]) == (4, 5, 2)
    assert known["utilisation_percent"] == pytest.approx(100 * 3 / 6)
    assert all(math.isnan(unknown[name]) for name in ("stall_s", "rest_s"))


def test_of_ranks_that_meet_in_steps_no_computation_is_told():
    epochs = pd.DataFrame({"rank": [0], "epoch": [0], "execution_time_s": [11.0]})
    loop = {"rank": 0, "epoch": 0} | LOOP | TIMES
    (row,) = with_steps(epochs, [loop], [{"in_steps": True}]).to_dict("records")
    assert math.isnan(row["compute_time_s"])


@pytest.mark.parametrize(
    ("loops", "is_known"),
    [([LOOP | TIMES] * 2, False), ([LOOP | TIMES | {"batches": 1}], True)],
)
def test_utilisation_needs_one_loop_of_several_steps(loops, is_known):
    epochs = pd.DataFrame({"rank": [0], "epoch": [0], "execution_time_s": [11.0]})
    loops = [{"rank": 0, "epoch": 0} | loop for loop in loops]
    (row,) = with_steps(epochs, loops, []).to_dict("records")
    assert math.isnan(row["utilisation_percent"])
    assert math.isnan(row["stall_s"]) != is_known


def test_warm_up_and_the_end_of_a_loader_are_parts_of_their_own():
    (row,) = steps_of(TIMES | {"first_use_s": 2.5, "end_s": 0.25})
    assert parts_s(row) == [2.0, 2.0, 5.0, 0.25, 1.75]
    assert row["utilisation_percent"] == pytest.approx(100 * 1.5 / (1.5 + 3))
    assert row["utilisation_percent"] == row["loop_utilisation_percent"]
    assert row["least_because"] == ""
    assert math.isnan(row["device_busy_s"])


DEVICE = {"busy_s": 6.0, "first_busy_s": 3.0, "idle_s": 1.5, "behind_s": 0.5}


def test_utilisation_is_of_the_device_that_was_seen():
    device = {"device": DEVICE, "least_because": "other streams"}
    (row,) = steps_of(TIMES | {"end_s": 0.75} | device)
    # The device ends 0.5 s after the last request, and the loader after 0.75 s.
    assert parts_s(row) == [4.0, 2.0, 3.5, 0.25, 1.25]
    assert row["utilisation_percent"] == pytest.approx(100 * 3 / 4.5)
    assert row["loop_utilisation_percent"] == pytest.approx(100 * 3 / 6)
    assert row["least_because"] == "other streams"
    seen = [row[f"device_{name}_s"] for name in ("busy", "idle", "behind")]
    assert seen == [6.0, 1.5, 0.5]


def test_idle_in_the_first_step_is_stall_and_no_part_of_utilisation():
    device = DEVICE | {"first_idle_s": 0.5}
    (row,) = steps_of(TIMES | {"device": device, "first_idle_s": 1.0})
    assert row["stall_s"] == 3.5
    assert row["utilisation_percent"] == pytest.approx(100 * 3 / (3 + 1.5 - 0.5))
    assert row["loop_utilisation_percent"] == pytest.approx(100 * 3 / (3 + 3 - 1.0))


def test_what_a_device_does_after_an_epoch_is_of_the_next_one():
    # 4 steps of 3 s each, of which the program sees 1: the device is always behind.
    device = {"busy_s": 12.0, "first_busy_s": 3.0, "idle_s": 0.0, "behind_s": 2.0}
    told = TIMES | {"wait_s": 2.0, "use_s": 8.0, "end_s": 1.0, "device": device}
    rows = steps_of(*[told] * 3)
    assert [parts_s(row) for row in rows] == [
        [9.0, 0.0, 2.0, 0.0, 0.0],  # 3 s are left
        [11.0, 0.0, 0.0, 0.0, 0.0],
        [11.0, 0.0, 0.0, 0.0, 0.0],
    ]
    assert {row["utilisation_percent"] for row in rows} == {100.0}


def test_first_steps_of_a_device_may_outlast_their_epoch():
    # Of 5 steps the first takes 4 s, the others 0.25 s; the program waits for none.
    first = {"busy_s": 5.0, "first_busy_s": 4.0, "idle_s": 0.0, "behind_s": 2.0}
    told = {"batches": 5, "first_wait_s": 0.5, "first_use_s": 0.1}
    told |= {"wait_s": 0.75, "use_s": 0.25}
    usual = {"busy_s": 1.25, "first_busy_s": 0.25}
    loops = [told | {"device": one} for one in (first, *[first | usual] * 2)]
    assert [parts_s(row) for row in steps_of(*loops, execution_s=3.0)] == [
        [0.0, 2.5, 0.5, 0.0, 0.0],  # 1.25 s of both are left
        [1.75, 1.25, 0.0, 0.0, 0.0],
        [2.0, 0.0, 0.0, 0.0, 1.0],
    ]


SHORT_S, LONG_S = st.floats(0, 0.8), st.floats(0, 5)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(SHORT_S, SHORT_S, SHORT_S, LONG_S, LONG_S), min_size=1),
    st.integers(2, 9),
)
def test_parts_of_epochs_are_their_execution_time(epochs, n_steps):
    loops = []
    for wait_s, idle_s, use_s, first_busy_s, later_busy_s in epochs:
        busy_s = first_busy_s + later_busy_s
        device = {"busy_s": busy_s, "first_busy_s": first_busy_s, "idle_s": idle_s}
        loop = {"batches": n_steps, "first_wait_s": wait_s, "wait_s": wait_s}
        loop |= {"first_use_s": 0.0, "use_s": use_s, "end_s": 0.1}
        loops.append(loop | {"device": device | {"behind_s": None}})
    for row in steps_of(*loops, execution_s=3.0):
        parts_s(row)
        assert min(row[name] for name in PARTS) >= 0


def test_a_loop_that_was_left_counts_to_its_last_batch_if_there_is_no_whole_one():
    left = TIMES | {"left": True}
    (row,) = steps_of(left)  # 4 batches, of which 3 were used to the next request
    assert parts_s(row) == [4.0, 0.0, 5.0, 0.0, 2.0]
    epochs = pd.DataFrame({"rank": [0], "epoch": [0], "execution_time_s": [11.0]})
    loops = [{"rank": 0, "epoch": 0} | LOOP | one for one in (left, TIMES, left)]
    (row,) = with_steps(epochs, [loops[0] | {"use_s": 1.0}, *loops[1:]], []).to_dict(
        "records"
    )
    assert row["compute_time_s"] == 4.0
    (row,) = with_steps(epochs, loops[::2], []).to_dict("records")
    assert math.isnan(row["compute_time_s"])
    look = loops[0] | {"batches": 1}  # at a sample
    (row,) = with_steps(epochs, [look, loops[0]], []).to_dict("records")
    assert row["compute_time_s"] == 4.0
    (row,) = with_steps(epochs, [look], []).to_dict("records")
    assert math.isnan(row["compute_time_s"])
