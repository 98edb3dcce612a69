"""What `make chaos` is made of: its list of faults, and the library that makes them."""

import errno
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from chaos import DELETED, EXPERIMENTS, FAULTS, Chaos, Fault, Kept, Plan, faults_of
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


def test_job_is_asked_for_alone_unless_files_of_earlier_ones_are_lost():
    kept = Kept(Chaos(Path(), Path()), "program")
    assert (
        kept.targets("tables", FAULTS["EIO"]) == EXPERIMENTS["program"].jobs["tables"]
    )
    whole = [one for some in EXPERIMENTS["program"].jobs.values() for one in some]
    assert kept.targets("tables", FAULTS[DELETED]) == whole
    assert kept.targets("all", FAULTS["EIO"]) == whole
    assert kept.targets("run", FAULTS[DELETED]) == whole[:1]
