"""What the job of a program's launch makes of the notes of its nodes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from descriptions import describe_scenario
from tierscope.benchmark.programs import launch
from tierscope.benchmark.programs.ended.results import EPOCH, WHOLE_RUN, NodeNotes
from tierscope.benchmark.programs.launch import dataset_folder

PROGRAM = {"command": ["train", "{dataset}"], "in_place": False}
MANIFEST = pd.DataFrame({"path": ["a", "b"], "size_bytes": [10, 20]})


def node(number=0, **facts):
    """Return the notes of a node at whose end nothing special was found."""
    known = {
        "node": number,
        "ranks": [number],
        "notes": [],
        "marks": [],
        "groups": [],
        "late_opens": {},
        "processes": [{"pid": 1, "group": 0}],
        "n_lost": 0,
        "fell_back": {},
        "n_reopened": 0,
        "escaped": [],
        "n_running": 0,
        "counts": {},
        "written": [],
        "altered": [],
        "renamed_folders": 0,
        "filled": {"copied_bytes": 10, "time_s": 0.5},
        "held": {"files": 1, "bytes": 10, "unused_bytes": 0, "damaged": []},
        "tier_roots": {"gfs": f"/links-{number}/gfs", "lfs": f"/links-{number}/lfs"},
        "machine": {"cpu_model": "made-up"},
    }
    return NodeNotes(known | facts, np.empty((0, 6), np.int64))


def observed(*nodes, marks=((EPOCH, 0), (EPOCH, 1)), changed=()):
    """Return what the launch says of the program."""
    table = pd.DataFrame(marks, columns=["what", "epoch"])
    return launch._observed(nodes, MANIFEST, list(changed), table)


def test_dataset_lies_where_the_user_says_or_where_it_is_generated():
    own = describe_scenario(program=PROGRAM, dataset={"path": "/my/../data"})
    assert dataset_folder(own) == Path("/data")
    generated = describe_scenario()
    assert dataset_folder(generated).is_relative_to("/gfs")


def test_counts_of_nodes_are_added_up_and_names_stand_once():
    found = observed(
        node(0, n_lost=1, fell_back={"0": 2, "1": 1}, escaped=["b", "a"], n_reopened=1),
        node(
            1,
            n_lost=2,
            n_running=2,
            fell_back={"1": 1},
            escaped=["a"],
            processes=[{"pid": pid, "group": 0} for pid in (1, 2)],
        ),
        changed=["b"],
    )
    assert (found["lost_events"], found["fell_back"]) == (3, 4)
    assert (found["n_processes"], found["reopened_after_drop"]) == (3, 1)
    assert found["still_running"] == 2
    assert found["escaped"] == ["a", "b"]
    assert (found["n_files"], found["n_bytes"], found["changed"]) == (2, 30, ["b"])


def test_written_files_know_the_nodes_that_wrote():
    found = observed(node(0, written=[1]), node(1, written=[0, 1], altered=[0]))
    assert found["written"] == {"a": [1], "b": [0, 1]}
    assert (found["altered"], found["unused_bytes"]) == (["a"], [0, 0])


@pytest.mark.parametrize(
    ("marks", "kinds", "by"),
    [
        ([(WHOLE_RUN, 0)], [], "nobody"),
        ([(EPOCH, 0)], [], "mark"),
        ([(EPOCH, 0)], ["hook", "begin"], "hook"),
        ([(EPOCH, 0)], ["hook"], "mark"),
        ([(EPOCH, 0)], ["hook", "evaluation"], "mark"),
    ],
)
def test_who_marks_epochs_is_known(marks, kinds, by):
    begin = {"framework": "torch", "evaluation": "evaluation" in kinds}
    notes = [begin | {"kind": kind.replace("evaluation", "begin")} for kind in kinds]
    assert observed(node(notes=notes), marks=marks)["epochs_by"] == by


def test_equal_loaders_of_ranks_are_named_once():
    loader = {"kind": "loader", "framework": "pytorch", "workers": 2}
    notes = [loader | {"pid": 1, "rank": 0}, loader | {"pid": 2, "rank": 1}]
    notes.append({"kind": "hook", "framework": "pytorch", "version": "2.9"})
    found = observed(node(notes=notes))
    assert found["loaders"] == [{"framework": "pytorch", "workers": 2}]
    assert found["frameworks"] == {"pytorch": "2.9"}


def test_equal_machines_are_described_once():
    other = node(2, machine={"cpu_model": "other"})
    found = launch._machines([node(0), node(1), other])
    assert [(one["nodes"], one["cpu_model"]) for one in found] == [
        ("0-1", "made-up"),
        ("2", "other"),
    ]


def test_page_cache_is_told_of_the_epochs_of_which_it_was_seen():
    epochs = pd.DataFrame({"epoch": [0, 0, 1, 1], "node": [0, 1, 0, 1]})
    columns = dict.fromkeys(launch.TABLES["run_epochs"], 0)
    epochs = epochs.assign(**{k: v for k, v in columns.items() if k not in epochs})
    seen = {"gfs_resident_percent": 50.0, "lfs_resident_percent": 0.0}
    later = [{"1": {"gfs": 5.0, "lfs": 6.0}}, {}]
    nodes = [
        node(i, page_cache=seen | {"names_dropped": not i}, resident=later[i])
        for i in (0, 1)
    ]
    found = launch._with_page_cache(epochs, nodes)
    assert found["gfs_resident_percent"].tolist()[:3] == [50, 50, 5]
    assert found["lfs_resident_percent"].tolist()[:3] == [0, 0, 6]
    assert found["gfs_resident_percent"].isna().tolist() == [False] * 3 + [True]
    assert found["names_dropped"].tolist() == [True, False, False, False]


def test_each_node_has_names_of_its_own_in_the_logs():
    assert launch._tier_roots([node(0), node(1)]) == {
        "gfs": ["/links-0/gfs", "/links-1/gfs"],
        "lfs": ["/links-0/lfs", "/links-1/lfs"],
    }
