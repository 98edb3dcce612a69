"""What `make chaos` is made of: its list of faults, and the library that makes them."""

import errno
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from chaos import (
    DELETED,
    EXPERIMENTS,
    FAULTS,
    FINISHED,
    REFUSED,
    SAID,
    WRONG,
    Chaos,
    Fault,
    Kept,
    Plan,
    faults_of,
    judge_failure,
    judge_values,
)
from native import compile_library
from shared import made_once

SOURCE = Path(__file__).parents[1] / "faults" / "chaos.c"
WRITES = """
import os, sys
for number in range(4):
    try:
        with open(f"results/{number}.new", "wb", buffering=0) as file:
            file.write(b"1234")
        os.rename(f"results/{number}.new", f"results/{number}")
    except OSError as error:
        print(number, error.errno)
open("elsewhere", "w").close()
"""


@dataclass
class Folder:
    """Stands for a project."""

    folder: Path


@pytest.fixture
def run(tmp_path):
    """Return a function that runs `WRITES` under a fault."""
    compiled = partial(compile_library, name="chaos", sources=[SOURCE])
    library = made_once("chaos", compiled) / "libtierscope_chaos.so"
    (tmp_path / "results").mkdir()

    def run(fault, op, nth):
        plan = Plan(tmp_path / "plan", fault, op, nth)
        plan.write(Folder(tmp_path))
        done = subprocess.run(
            [sys.executable, "-c", WRITES],
            cwd=tmp_path,
            env=os.environ | {"LD_PRELOAD": str(library), "CHAOS": str(plan.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, plan.read()

    return run


def test_undisturbed_calls_are_counted_below_the_folders_only(run):
    counts = {"open": 4, "write": 4, "rename": 4}
    assert run(None, "open", 0) == (0, "", (counts, False, ""))


@pytest.mark.parametrize(
    ("op", "goes_on", "told"),
    [("open", False, "1 28\n"), ("write", True, "1 28\n2 28\n3 28\n")],
)
def test_nth_call_fails_alone_or_with_all_later_ones(run, op, goes_on, told):
    code, output, (_, happened, where) = run(Fault(1, (), errno.ENOSPC, goes_on), op, 2)
    assert (code, output, happened) == (0, told, True)
    assert where.endswith("results/1.new")


def test_process_is_killed_before_its_nth_rename(run, tmp_path):
    assert run(FAULTS["kill -9 of the process"], "rename", 3)[0] == -9
    assert sorted(os.listdir(tmp_path / "results")) == ["0", "1", "2.new"]


def test_list_of_faults_is_seeded_and_each_kind_runs_whole_twice():
    kinds = [*EXPERIMENTS]
    found = faults_of(60, 1, kinds)
    assert found == faults_of(60, 1, kinds) != faults_of(60, 2, kinds)
    assert {one.fault for one in found} == {*FAULTS}
    whole = Counter(one.kind for one in found if one.job == "all")
    assert min(whole[kind] for kind in kinds) >= 2
    places = {(kind, job) for kind in kinds for job in EXPERIMENTS[kind].jobs}
    assert places <= {(one.kind, one.job) for one in found}


HOW_TO_GO_ON = "Finished files are kept. Remove the cause, then the same command goes."
DELETE = "results/x/a.json: is damaged (...); delete it and start again, to make it."


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        ([HOW_TO_GO_ON, "Failed: Auditing.", "Log: a.log", DELETE, ""], REFUSED),
        ([".lease: snakemake works here; wait until it has ended."], REFUSED),
        ([".lease: snakemake works here. If it does not run: rm x/.lease"], REFUSED),
        ([DELETE, "Stopped. Finished files are kept; the same command goes."], WRONG),
        ([HOW_TO_GO_ON, "Failed: Auditing.", "OSError: [Errno 28] No space"], WRONG),
        (["Failed: Auditing.", "Log: delete.log", "The job left no message."], WRONG),
        ([HOW_TO_GO_ON], WRONG),
        (["Traceback (most recent call last):", DELETE], WRONG),
        (["Somebody deletes what was given."], WRONG),
        (["hangs"], WRONG),
        ([], WRONG),
    ],
)
def test_start_is_refused_only_if_its_last_line_says_what_to_do(lines, outcome):
    found, words = judge_failure("\n".join(lines))
    assert found == outcome
    assert words == " | ".join(filter(None, lines[:4][-3:]))


COPY_FAILED = "copying a to the LFS failed: No space left on device; reads go on"


@pytest.mark.parametrize(
    ("differences", "fault", "told", "outcome"),
    [
        ([], "ENOSPC", COPY_FAILED, FINISHED),
        ([], "kill -9 of all", "", FINISHED),
        (["column bytes differs"], "ENOSPC", COPY_FAILED, SAID),
        (["column bytes differs"], "EDQUOT", COPY_FAILED, WRONG),  # of another error
        (["column bytes differs"], "ENOSPC", "", WRONG),
        (["column bytes differs"], "kill -9 of all", "Success", WRONG),  # of errno 0
    ],
)
def test_other_values_are_wrong_unless_the_run_said_why(
    differences, fault, told, outcome
):
    assert judge_values(differences, FAULTS[fault], told) == outcome


ROWS = {"rank": [0, 1], "bytes": [8, 9], "time_s": [0.5, 0.25], "path": ["/a", "/b"]}


@pytest.mark.parametrize(
    ("changes", "kind", "differences"),
    [
        ({}, "files", []),
        ({"path": ["/c", "/d"]}, "files", []),  # is of the folder
        ({name: values[::-1] for name, values in ROWS.items()}, "files", []),
        ({"bytes": [8, 8]}, "files", ["a.parquet: column bytes differs"]),
        ({"time_s": [0.5, 0.5]}, "files", ["a.parquet: column time_s differs"]),
        ({"time_s": [0.5, 0.5]}, "program", []),  # is of the run
        ({"bytes": [8, 8]}, "program", ["a.parquet: column bytes differs"]),
        ({"more": [1, 1]}, "files", ["a.parquet: got (2, 5), expected (2, 4)"]),
    ],
)
def test_tables_differ_in_what_is_not_of_a_run(tmp_path, changes, kind, differences):
    kept = kept_state(tmp_path, kind)
    pd.DataFrame(ROWS | changes).to_parquet(tmp_path / "found" / "a.parquet")
    assert [*kept.differences(Results(tmp_path / "found"), "all")] == differences


def test_figure_that_is_torn_or_not_there_differs(tmp_path):
    kept = kept_state(tmp_path, "files")
    (tmp_path / "wanted" / "a.svg").write_text("<svg></svg>")
    (tmp_path / "wanted" / "b.svg").write_text("<svg></svg>")
    shutil.copy(tmp_path / "wanted" / "a.parquet", tmp_path / "found")
    (tmp_path / "found" / "b.svg").write_text("<svg>")
    found = [*kept.differences(Results(tmp_path / "found"), "all")]
    assert found == ["a.svg is missing", "b.svg is torn"]


@dataclass
class Results:
    """Stands for a project of which only the results are asked."""

    folder: Path

    def path(self):
        return self.folder


def kept_state(folder, kind):
    """Return an experiment with the table `ROWS`, and make an empty folder `found`."""
    for name in ("wanted", "found"):
        (folder / name).mkdir()
    pd.DataFrame(ROWS).to_parquet(folder / "wanted" / "a.parquet")
    kept = Kept(Chaos(folder, folder), kind)
    kept.states = {"all": (None, Results(folder / "wanted"), {})}
    return kept


def test_job_is_asked_for_alone_unless_files_of_earlier_ones_are_lost():
    kept = Kept(Chaos(Path(), Path()), "program")
    assert (
        kept.targets("tables", FAULTS["EIO"]) == EXPERIMENTS["program"].jobs["tables"]
    )
    whole = [one for some in EXPERIMENTS["program"].jobs.values() for one in some]
    assert kept.targets("tables", FAULTS[DELETED]) == whole
    assert kept.targets("all", FAULTS["EIO"]) == whole
    assert kept.targets("run", FAULTS[DELETED]) == whole[:1]
