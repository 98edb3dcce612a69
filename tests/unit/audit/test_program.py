import pandas as pd
import pytest
from descriptions import describe_run
from tierscope.audit.program import ProgramEvidence, audit_program, statements
from tierscope.trace.program_records import BELOW, ELSEWHERE, ProgramRecords

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
    **observed,
):
    """Return the evidence of a run that reads each file once in both epochs.

    `changes` are pairs of a row of both tables, and what is different there.
    """
    system = {"n_nodes": n_nodes, "virtual_nodes": True}
    run = describe_run(
        program={"command": ["train", "{dataset}"], "in_place": in_place},
        system=system,
        point={"cache_rate_percent": 50, "repetition": 0},
        observed=OBSERVED | observed,
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
    other_io = pd.DataFrame({"what": [BELOW, ELSEWHERE], "bytes_read": [unlisted, 9]})
    other = ProgramRecords(seen[~is_written], other_io)
    return ProgramEvidence(run, other, table, epochs, manifest_of(SIZES))


def manifest_of(sizes):
    """Return the manifest of files of these sizes."""
    paths = [f"{number}.bin" for number in range(len(sizes))]
    return pd.DataFrame({"path": paths, "size_bytes": sizes})


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
        "cover": "yes",
        "once": "yes",
        "whole": "yes",
        "time": "yes",
    }
    assert said()["tier"][0] == "yes"


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
        (0, {"mapped_bytes": {0: 100}}, "Files are mapped into memory."),
        (500, {"mapped_bytes": {0: 100}}, "Files are mapped into memory."),
    ],
)
def test_reads_that_are_no_calls_of_ours_are_not_measured(bytes_read, how, words):
    found = evidence([(0, {"bytes_read": bytes_read})])
    vars(found.records).update(how)
    table = statements(found)
    (row,) = table[(table["statement"] == "whole") & (table["epoch"] == 0)].itertuples()
    assert row.answer == "not measured"
    assert row.words.startswith(words)


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
    assert said(changes, written=written)["read only"] == (
        "no",
        f"The program wrote to 1 file of the dataset ({file}.bin): the I/O of "
        "these is in no class.",
    )


def test_reads_of_files_that_came_after_the_listing_are_stated():
    assert "listed" not in said()
    assert said(unlisted=2048)["listed"] == (
        "no",
        "The program read 2 KiB of files below the dataset that were not there when it "
        "was listed: their I/O is in no class.",
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
