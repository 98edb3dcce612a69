"""Facts of runs as words, and what of them an anonymous report leaves out."""

import pandas as pd
from tierscope.pages.report.facts import facts, without_identities

TIER = {"kind": "directory", "root": "/nodes/lfs"}
RUN = {
    "source": "measured",
    "system": {
        "name": "one-process",
        "n_nodes": 1,
        "processes_per_node": 1,
        "virtual_nodes": True,
        "gfs": TIER | {"root": "/unused"},
        "lfs": TIER,
    },
    "dataset": {"name": "mine", "path": "/home/me/mine"},
    "training": {"seed": 1, "cold": True},
    "program": {"command": ["/home/me/python", "{dataset}"], "in_place": False},
    "observed": {
        "dataset": "/home/me/mine",
        "escaped": ["/home/me/tool (is linked statically)"],
        "n_files": 2,
        "n_bytes": 2048,
        "epochs_by": "mark",
        "n_epochs": 2,
        "n_evaluations": 0,
        "frameworks": {},
        "loaders": [],
        "n_processes": 1,
    },
    "tracer": {"runtime": "builtin", "library": "/home/me/lib.so", "version": "2"},
    "versions": {"python": "3.11"},
}
KEYS = pd.DataFrame(
    [
        {
            "source": "measured",
            "system": "one-process",
            "dataset": "mine",
            "n_osts": 0,
            "policy": "pinning",
            "loader": "program",
            "cache_rate_percent": 50,
            "repetition": 0,
        }
    ]
)


def facts_of(run):
    """Return the facts of an experiment of one run."""
    return facts("mine", "one machine", [run], KEYS, {})


def test_gfs_of_a_program_is_where_its_dataset_is():
    found = facts_of(RUN)
    assert found["Global file system"]["root"] == "/home/me/mine"
    assert found["Experiment"]["processes"].startswith("1 process on 1 virtual node")


def test_anonymous_facts_of_a_program_have_no_path():
    found = facts_of(without_identities(RUN))
    assert "/home" not in str(found)
    assert found["Program"]["epochs"] == "2, marked by the program"
