from dataclasses import replace

import pandas as pd
import pytest
from descriptions import describe_run
from tierscope.audit.program import ProgramEvidence, audit_program, statements
from tierscope.core.columns import AFTER, AFTER_TRAINING
from tierscope.trace.other_time import ProcessSums, Sum
from tierscope.trace.program_records import (
    BELOW,
    ELSEWHERE,
    HANDED_EPOCH,
    WRITTEN,
    LoopEnds,
    ProgramRecords,
)

SIZES = [100, 100, 200, 0]
OBSERVED = {
    "epochs_by": "mark",
    "n_epochs": 2,
    "hook_faults": [],
    "loaders": [],
    "lost_events": 0,
    "counts": [{"undirected": 0, "failed_marks": 0}],
    "marks_back": 0,
    "unmarked_opens": 0,
    "fell_back": 0,
    "damaged": [],
    "lfs_bytes": [200],
    "reopened_after_drop": 0,
    "escaped": [],
    "written": {},
    "changed": [],
    "logs_are_whole": True,
}


def evidence(
    changes=(),
    *,
    n_nodes=1,
    opens=None,
    records=None,
    in_place=False,
    unlisted=0,
    wrote_bytes=0,
    for_writing=(),
    sums=(),
    version="4",
    **observed,
):
    """Return the evidence of a run that reads each file once in both epochs.

    `changes` are pairs of a row of both tables, and what is different there. The rows
    `for_writing` are also of opens for writing. `sums` are those of the calls of
    process 7, which marks, on files of no tier.
    """
    system = {"n_nodes": n_nodes, "virtual_nodes": True}
    run = describe_run(
        program={"command": ["train", "{dataset}"], "in_place": in_place},
        system=system,
        point={"cache_rate_percent": 50, "repetition": 0},
        observed=OBSERVED | observed,
        tracer={"runtime": "builtin", "version": version},
        machines=[{"mounts": {"gfs": {"point": "/data"}, "lfs": {"point": "/nvme"}}}],
    )
    found = ProgramEvidence(run, None, None, None, manifest_of(SIZES))
    tiers = ["lfs" if one else "gfs" for one in found.on_lfs]
    table = pd.DataFrame(
        {
            "rank": 0,
            "node": 0,
            "epoch": [0] * 4 + [1] * 4,
            "tier": tiers * 2,
            "file_id": [0, 1, 2, 3] * 2,
            "opens": 1,
        }
    )
    seen = table.assign(
        reads=1,
        bytes_read=SIZES * 2,
        read_time_s=0.125,
        meta_time_s=0.125,
    ).drop(columns="node")
    begun = [(rank, epoch) for rank in range(n_nodes) for epoch in (0, 1)]
    epochs = pd.DataFrame(begun, columns=["rank", "epoch"])
    epochs["execution_time_s"] = 2.0
    for row, values in changes:
        for name, value in values.items():
            for one in (table, seen):
                if name in one:
                    one.loc[row, name] = value
    table = opens(table) if opens else table
    seen = records(seen) if records else seen
    is_written = seen["file_id"].map("{}.bin".format).isin(run.observed["written"])
    rows = [(BELOW, unlisted, 0), (ELSEWHERE, 9, 9), (WRITTEN, 9, wrote_bytes)]
    other_io = pd.DataFrame(rows, columns=["what", "bytes_read", "bytes_written"])
    process = ProcessSums(0, "host", 7, (), "train", [Sum(*one) for one in sums])
    other = ProgramRecords(seen[~is_written], other_io, sums=[process])
    marks = pd.DataFrame({"what": "epoch", "rank": [0], "pid": [7]})
    found = ProgramEvidence(run, other, table, epochs, manifest_of(SIZES), marks=marks)
    to_write = [table.iloc[row : row + 1] for row in for_writing]
    return replace(found, opens_to_write=pd.concat([found.opens_to_write, *to_write]))


def manifest_of(sizes):
    """Return the manifest of files of these sizes."""
    paths = [f"{number}.bin" for number in range(len(sizes))]
    return pd.DataFrame({"path": paths, "size_bytes": sizes, "same_as": -1})


def failed(*arguments, **options):
    """Return the names of the checks that fail."""
    checks = audit_program(evidence(*arguments, **options))
    return [check.name for check in checks if not check.passed]


def said(*arguments, epoch=-1, **options):
    """Return answer and words of the statements on an epoch, by their names."""
    table = statements(evidence(*arguments, **options))
    table = table[table["epoch"] == epoch].set_index("statement")
    return {name: tuple(table.loc[name, ["answer", "words"]]) for name in table.index}


def test_run_that_did_what_was_decided_passes():
    assert failed() == []
    assert {name: answer for name, (answer, _) in said(epoch=1).items()} == {
        "other io": "yes",
        "cover": "yes",
        "once": "yes",
        "whole": "yes",
        "time": "yes",
    }
    assert said()["tier"][0] == "yes"


def test_what_the_loop_waits_for_besides_the_dataset_is_said_by_file_system():
    sums = [
        (0, "loop", "write", "ext4", "/data", 4, 400, 0.25),
        (0, "loop", "fsync", "ext4", "/data", 1, 0, 0.5),
        (0, "loop", "read", "xfs", "/home", 1, 9, 0.25),
        (1, "beside", "write", "ext4", "/data", 4, 400, 0.25),
        (1, "loop", "read", "xfs", "/home", 1, 9, 0.015),
    ]
    assert said(sums=sums, epoch=0)["other io"] == (
        "no",
        "The training loop of rank 0 spent 1.00 s in calls on files outside of the "
        "dataset: write 0.250 s and fsync 0.500 s on /data (ext4; holds the GFS); read "
        "0.250 s on /home (xfs).",
    )
    assert said(sums=sums, epoch=1)["other io"] == (
        "yes",
        "Less than 1 % of the epoch are calls of the training loop on files outside of "
        "the dataset. Threads and processes beside it: write 0.250 s on /data (ext4; "
        "holds the GFS).",
    )


def test_dataset_files_opened_for_writing_are_said_to_be_among_other_files():
    sums = [(0, "loop", "map", "ext4", "/data", 1, 300, 0.0)]
    _, words = said(sums=sums, epoch=0, written={"1.bin": [0]})["other io"]
    assert " 300 B of files outside of the dataset or opened for writing into " in words


def test_what_a_loop_reads_through_a_mapping_of_other_files_is_not_measured():
    sums = [
        (-1, "main", "map", "ext4", "/data", 1, 300, 0.0),
        (0, "beside", "map", "ext4", "/data", 1, 9, 0.0),
        (1, "loop", "write", "ext4", "/data", 4, 400, 0.25),
    ]
    answer, words = said(sums=sums, epoch=0)["other io"]
    assert answer == "not measured"
    assert words.startswith(
        "The training loop has mapped 300 B of files outside of the"
    )
    answer, words = said(sums=sums, epoch=1)["other io"]
    assert (answer, "write 0.250 s" in words) == ("no", True)
    assert words.endswith("through a mapping is no call, so its time is not known.")


def test_an_older_tracer_tells_nothing_of_other_files():
    answer, words = said(version="3", epoch=0)["other io"]
    assert answer == "not measured"
    assert "sees no calls on files outside of the dataset" in words
    assert evidence(version="3").other_time["time_s"].isna().all()


def other_tier(table):
    """Return a table in which the first file was read from the other tier."""
    tiers = {"gfs": "lfs", "lfs": "gfs"}
    table.loc[0, "tier"] = tiers[table.loc[0, "tier"]]
    return table


def test_open_on_another_tier_than_decided_fails():
    assert failed(opens=other_tier, records=other_tier) == [
        "opens on the tier that was decided"
    ]


def test_events_and_logs_that_disagree_fail():
    assert failed(records=lambda table: table[1:]) == [
        "files, epochs and tiers with fewer opens in the logs than in the events"
    ]
    assert failed(opens=lambda table: table[1:]) == [
        "files, epochs and tiers that the logs have and the events lack"
    ]


@pytest.mark.parametrize(
    ("bytes_read", "how", "words"),
    [
        (0, {"handed_bytes": 100}, "Open files are handed to other programs"),
        (0, {"mapped_epochs": {0}}, "Files are mapped into memory."),
        (500, {"mapped_epochs": {0}}, "Files are mapped into memory."),
        (0, {"mapped_epochs": {HANDED_EPOCH}}, "Files are mapped into memory."),
    ],
)
def test_reads_that_are_no_calls_of_ours_are_not_measured(bytes_read, how, words):
    found = evidence([(0, {"bytes_read": bytes_read})])
    vars(found.records).update(how)
    table = statements(found)
    (row,) = table[(table["statement"] == "whole") & (table["epoch"] == 0)].itertuples()
    assert row.answer == "not measured"
    assert row.words.startswith(words)


def test_mappings_of_another_epoch_leave_the_bytes_of_this_one_measured():
    found = evidence([(0, {"bytes_read": 0}), (4, {"bytes_read": 0})])
    found.records.mapped_epochs = {1}
    table = statements(found)
    answers = table[table["statement"] == "whole"].set_index("epoch")["answer"]
    assert answers.to_dict() == {0: "no", 1: "not measured"}


def test_opens_of_the_tables_are_those_of_the_events():
    """A log counts duplicated descriptors, and no open in a child of posix_spawn."""
    found = evidence(
        opens=lambda table: table.assign(opens=[3, *[1] * 7]),
        records=lambda table: table.assign(opens=4)[:-1],
    )
    table = found.file_records.set_index(["epoch", "file_id"])
    assert table["opens"].to_dict() == {
        (row.epoch, row.file_id): row.opens for row in found.opens.itertuples()
    }
    assert table["reads"].tolist() == [1] * 7 + [0]
    assert table.loc[(1, 3), "meta_time_s"] == 0


def test_tables_have_no_file_that_the_program_changes():
    name = pinned()
    found = evidence(written={f"{name}.bin": [0]})
    assert set(found.file_records["file_id"]) == {0, 1, 2, 3} - {name}


def test_opens_in_children_of_posix_spawn_are_in_no_log():
    counts = [{"undirected": 0, "failed_marks": 0, "spawned": 1}]
    assert failed(records=lambda table: table[1:], counts=counts) == []
    assert len(failed(records=lambda table: table[2:], counts=counts)) == 1


def test_log_may_count_an_open_twice():
    assert failed(records=lambda table: table.assign(opens=2)) == []


def test_open_by_a_real_name_fails_and_names_the_file():
    found = evidence()
    found.records.originals["1.bin"] = 3
    (check,) = (one for one in audit_program(found) if not one.passed)
    assert check.name == "opens of dataset files by their real names"
    assert check.got == "3 (1.bin)"


@pytest.mark.parametrize(
    ("observed", "name"),
    [
        ({"lost_events": 1}, "events of opens that were lost"),
        (
            {"counts": [{"undirected": 2, "failed_marks": 0}]},
            "opens of dataset files that the library left as they were",
        ),
        ({"logs_are_whole": False}, "logs that are whole"),
        ({"fell_back": 2}, "copies on an LFS that could not be opened"),
    ],
)
def test_fault_that_the_launch_saw_fails(observed, name):
    assert failed(**observed) == [name]


def test_program_that_opens_nothing_fails():
    nothing = {"opens": lambda table: table[:0], "records": lambda table: table[:0]}
    assert failed(**nothing) == ["opens of dataset files"]


def test_rank_that_reads_but_marks_no_epoch_fails():
    assert failed([(0, {"rank": 1})]) == [
        "ranks that open files and begin no epoch, while others do"
    ]


def test_rank_that_reads_on_two_nodes_fails():
    assert failed([(0, {"node": 1})]) == ["ranks that open files on more than one node"]


def pinned():
    """Return the number of a file on the LFS."""
    return evidence().on_lfs.tolist().index(True)


@pytest.mark.parametrize(
    ("writers", "readers", "is_stale"),
    [
        ([], [0], True),  # from outside
        ([0], [0], False),
        ([1], [0], True),
        ([0], [0, 1], True),
        ([0, 1], [0], True),
    ],
)
def test_copy_of_a_changed_file_may_be_read_only_where_it_was_written(
    writers, readers, is_stale
):
    file = pinned()
    name = f"{file}.bin"
    changes = [
        (file + 4 * i, {"node": node, "rank": node}) for i, node in enumerate(readers)
    ]
    written = {name: writers} if writers else {}
    found = failed(changes, n_nodes=2, written=written, changed=[name])
    stale = "files that changed during the run and were read from an LFS"
    assert found == [stale] * is_stale


def test_written_file_is_read_from_the_gfs_and_said_to_be_in_no_class():
    file = pinned()
    written = {f"{file}.bin": [0]}
    changes = [(file + 4, {"tier": "gfs"})]
    assert failed(changes, written=written) == []
    whole = said(changes, written=written, epoch=1)["whole"]
    assert whole == (
        "yes",
        "The bytes read are the sizes of the opened files, without those opened for "
        "writing or changed.",
    )
    answers = said(changes, written=written, for_writing=[file], wrote_bytes=2048)
    assert answers["read only"] == (
        "no",
        f"The program opened for writing 1 file ({file}.bin) of the dataset: the GFS "
        "serves these from then on, and their I/O is in no class. Calls wrote 2 KiB to "
        "them; all are as listed.",
    )


def test_file_that_is_only_renamed_or_touched_is_not_said_to_be_written():
    options = {"written": {"0.bin": [0]}, "altered": ["0.bin"], "changed": ["0.bin"]}
    words = said(**options)["read only"][1]
    assert words.startswith("The program renamed, removed or changed by name 1 file (0")
    assert words.endswith("No call wrote to them; 1 of them is no longer as listed.")
    assert (
        "opened for writing, or changed, 1"
        in said(written={"0.bin": [0]})["read only"][1]
    )


def test_renamed_folder_is_named_beside_the_files_that_miss_it():
    words = [said(changed=["0.bin"], renamed_folders=n)["unchanged"][1] for n in (0, 1)]
    listed = "1 file is no longer as listed (0.bin), and the program "
    assert words == [
        f"{listed}is not known to have changed them.",
        f"{listed}has renamed 1 folder.",
    ]


def test_rate_is_missed_if_the_program_opens_copies_for_writing():
    """Of 400 bytes 200 are pinned, and 100 of these are served by the GFS."""
    answer, words = said(unused_bytes=[100])["rate"]
    assert (answer, said(unused_bytes=[0])["rate"][0]) == ("no", "yes")
    assert words == (
        "Each LFS held what was asked for, to 1 % of the bytes. It served 25.0 % after "
        "the program had opened files of it for writing, or changed them."
    )


def covered(opens, to_write):
    """Return answers and words of `cover` and `once` of epoch 0, for these rows."""
    table = evidence().opens
    found = replace(
        evidence(), opens=table.loc[opens], opens_to_write=table.loc[to_write]
    )
    rows = statements(found).query("epoch == 0").set_index("statement")
    return rows.loc["cover", ["answer", "words"]].tolist(), rows["answer"].get("once")


def test_files_that_are_opened_for_writing_are_opened():
    assert covered([1, 2, 3], [0]) == (
        ["yes", "All 4 files were opened, 1 of them only for writing."],
        "yes",
    )
    assert covered([0, 1, 2, 3], [0])[1] == "no"  # twice
    assert covered([4], [0, 1]) == (
        [
            "no",
            "2 of 4 files were opened, 2 of them only for writing, so this epoch has "
            "no I/O time.",
        ],
        "yes",
    )


def test_names_of_one_file_are_one_file_that_is_opened():
    """Its second name is a link; the program opens one of both."""
    found = evidence(opens=lambda table: table[table["file_id"] != 0])
    linked = found.manifest.assign(same_as=[-1, 0, -1, -1])
    rows = statements(replace(found, manifest=linked)).query("epoch == 0")
    words = rows.set_index("statement")["words"]
    assert words["cover"] == "All 3 files were opened."
    both = statements(replace(evidence(), manifest=linked)).query("epoch == 0")
    assert both.set_index("statement")["answer"]["once"] == "no"


@pytest.mark.parametrize(
    ("for_writing", "escaped", "in_place", "expected"),
    [
        ([], [], False, "at least 1: does the command use {dataset}?"),
        ([0], [], False, "at least 1 for reading; 1 open was for writing, which the"),
        ([], ["cat (env)"], False, "at least 1; /tierscope/mine does not exist for"),
        (
            [],
            ["/b/cat (x)"],
            True,
            "at least 1: does the command use {dataset}? It s",
        ),
    ],
)
def test_run_without_opens_for_reading_says_why(
    for_writing, escaped, in_place, expected
):
    some = evidence(for_writing=for_writing, escaped=escaped, in_place=in_place)
    checks = audit_program(replace(some, opens=some.opens[:0]))
    (check,) = (one for one in checks if one.name == "opens of dataset files")
    assert not check.passed
    assert check.expected.startswith(expected)


def test_reads_of_files_that_came_after_the_listing_are_stated():
    assert "listed" not in said()
    assert said(unlisted=2048)["listed"] == (
        "no",
        "The program read 2 KiB of files below the dataset that are not in its list: "
        "their I/O is in no class.",
    )


def test_files_left_out_and_opened_again_are_counted():
    found = said([(0, {"opens": 3}), (1, {"epoch": 1})], epoch=0)
    assert found["cover"] == ("no", "3 of 4 files were opened.")
    assert found["once"][1].startswith("1 file was opened more than once, at most 3")


def test_bytes_are_compared_file_by_file():
    swapped = [(0, {"bytes_read": 50}), (1, {"bytes_read": 150})]
    answer, words = said(swapped, epoch=0)["whole"]
    assert answer == "no"
    assert "2 of 4 files differ" in words
    assert "1.00 times" in words


@pytest.mark.parametrize(
    ("read", "answer", "words"),
    [
        ((101, 101), "yes", "to 1 % of the bytes: 2 of 4 files differ, by 2 B"),
        ((98, 102), "yes", "2 of 4 files differ, by 4 B together."),
        ((97, 102), "no", "2 of 4 files differ, and all bytes read are 0.998 times"),
        ((100, 105), "no", "1 of 4 files differ, and all bytes read are 1.01 times"),
    ],
)
def test_files_are_read_whole_if_less_than_one_percent_of_the_bytes_differs(
    read, answer, words
):
    found = [(i, {"bytes_read": n_bytes}) for i, n_bytes in enumerate(read)]
    found = said(found, epoch=0)["whole"]
    assert found[0] == answer
    assert words in found[1]


def test_reads_that_no_call_makes_are_not_measured():
    found = said(records=lambda table: table.assign(bytes_read=0), epoch=0)
    assert found["whole"][0] == "not measured"


@pytest.mark.parametrize(("in_place", "answer"), [(False, "yes"), (True, "no")])
def test_programs_that_cannot_be_redirected_are_named(in_place, answer):
    found = said(in_place=in_place, escaped=["/bin/static (is linked statically)"])
    assert found["seen"][0] == answer
    assert "redirected: static (is linked statically)" in found["seen"][1]
    assert ("By its real path" in found["seen"][1]) != in_place


@pytest.mark.parametrize(
    ("observed", "name"),
    [
        ({"counts": [{"undirected": 0, "failed_marks": 1}]}, "that failed"),
        ({"marks_back": 2}, "before the one under way"),
        ({"unmarked_opens": 80}, "nor descend from one that does"),
    ],
)
def test_opens_that_count_to_a_wrong_epoch_fail(observed, name):
    (found,) = failed(**observed)
    assert found.endswith(name)


def test_reads_of_what_outlives_the_program_are_explained():
    found = evidence(still_running=1)
    found.records.originals["0.bin"] = 4
    (check,) = [one for one in audit_program(found) if not one.passed]
    assert check.got == "4 (0.bin); 1 process of the program still ran at its end"


def test_processes_that_outlive_the_program_are_said_to_be_unseen():
    answer, words = said(still_running=2)["seen"]
    assert answer == "no"
    assert words.startswith("2 processes of the program still ran at its end")


def test_fault_of_the_hook_is_said_with_the_epochs():
    assert said(epochs_by="hook")["epochs"][0] == "yes"
    fault = "The hook failed in _begin: KeyError('x')."
    answer, words = said(epochs_by="hook", hook_faults=[fault])["epochs"]
    assert (answer, words) == ("no", f"The framework's loops mark the epochs. {fault}")


def test_sum_over_workers_may_exceed_the_execution_time():
    busy = {"records": lambda table: table.assign(read_time_s=1.0), "epoch": 0}
    assert said(**busy)["time"][0] == "no"  # 4 files of 1.125 s in 2 s
    assert said(**busy, loaders=[{"workers": 3}])["time"][0] == "yes"


def test_epoch_without_opens_has_no_io_time():
    def first(table):
        return table[table["epoch"] == 0]

    both = {"opens": first, "records": first}
    assert evidence(**both).epochs_with_opens == [0]
    assert said(**both, epoch=1)["cover"][0] == "no"
    assert "time" not in said(**both, epoch=1)


WRITE = AFTER, "loop", "write", "ext4", "/", 1, 9, 0.7


def after_training(time_s, opened=(), sums=(), version="4"):
    """Return the evidence of a run that goes on after its training."""
    found = evidence(sums=sums, version=version)
    row = {"rank": 0, "epoch": AFTER_TRAINING, "execution_time_s": time_s}
    rows = [{**found.opens.iloc[i], "epoch": AFTER_TRAINING} for i in opened]
    return replace(
        found,
        epochs=pd.concat([found.epochs, pd.DataFrame([row])]),
        opens=pd.concat([found.opens, pd.DataFrame(rows)]),
        loop_ends=LoopEnds({0: [AFTER_TRAINING]}, {0: 0}),
    )


@pytest.mark.parametrize(
    ("found", "answer", "words"),
    [
        (
            after_training(0.5),  # as each end of Python takes seconds
            "yes",
            "program, 0.500 s passed; the last epoch took 2.00 s. No file of the "
            "dataset was opened, and calls on other files took less than 1 % of an "
            "epoch.",
        ),
        (after_training(0.5, sums=[(*WRITE[:-1], 0.01)]), "yes", "less than 1 %"),
        (after_training(0.5, version="3"), "not measured", "sees no other files"),
        (after_training(0.01, version="3"), "yes", "No file of the dataset"),
        (
            after_training(1.0, sums=[(AFTER, "beside", *WRITE[2:])]),
            "no",
            "Calls beside the loop on files outside of the dataset: write ",
        ),
        (
            after_training(0.01, [0, 1]),
            "no",
            "The program opened 2 files of the dataset",
        ),
        (
            after_training(1.0, sums=[WRITE]),
            "no",
            "Calls on files outside of the dataset: write 0.700 s on / (ext4).",
        ),
    ],
)
def test_what_follows_training_is_said_with_its_time(found, answer, words):
    said = statements(found)
    (row,) = said[said["statement"] == "after"].to_dict("records")
    assert (row["answer"], row["epoch"]) == (answer, -1)
    assert words in row["words"]


def test_what_is_read_after_training_is_in_no_epoch_but_in_the_audit():
    found = after_training(0.5, [0, 1])
    failed = {one.name for one in audit_program(found) if not one.passed}
    assert failed == {
        "files, epochs and tiers with fewer opens in the logs than in the events"
    }
    covers = statements(found).set_index(["statement", "epoch"])["words"]
    assert covers["cover", 1] == "All 4 files were opened."
    assert found.epochs_with_opens == [AFTER_TRAINING, 0, 1]
    assert found.n_epochs == 2


def test_run_of_which_no_end_of_a_loop_is_known_says_nothing_of_what_follows():
    assert "after" not in set(statements(evidence())["statement"])
