"""Runs traced by the Darshan of a site, for which a stand-in of ours stands here.

Real Snakemake, MPI, TensorFlow and logs; only `libdarshan.so` is not Darshan's.
"""

import hashlib
import json
import os
from pathlib import Path

import pytest
from darshan_sites import (
    CONFIG,
    POSIX,
    TENSORFLOW,
    counts,
    make_project,
    run_folder,
    run_json,
)
from integration.conftest import ROOT
from tierscope.core.tables import read_table
from tierscope.trace.log import read_any_log

# What a module may leave behind, which would switch Darshan off, or let each program
# that a rank starts write a log in the rank's place.
MODULE = "export DARSHAN_ENABLE_NONMPI=1 DARSHAN_DISABLE=1"
# Says who had something preloaded, then becomes the command in whose place it stands.
RECORDER = """#!/bin/bash
name=${0##*/}
echo "$name ${LD_PRELOAD-nothing}" >> "$RECORD"
exec "$(PATH=${PATH#*:} type -P "$name")" "$@"
"""
LOGS = ROOT / "tests" / "data" / "darshan-logs"


def change_job(project, **job):
    """Give the site other settings of its jobs."""
    project.change("resources/systems/site.yaml", {"job": job})


@pytest.fixture(scope="module")
def builtin(tmp_path_factory, standin):
    """Return a project of one launch for all points, hence measured by our tracer."""
    project = make_project(
        tmp_path_factory, {"setup": [f"export LD_LIBRARY_PATH={standin}"]}
    )
    project.change("resources/systems/site.yaml", {"points_per_launch": "all"})
    project.snakemake("audits")
    return project


@pytest.fixture(scope="module")
def measured(tmp_path_factory, standin):
    """Return a project measured on a site whose module shows where its Darshan is."""
    project = make_project(
        tmp_path_factory,
        {
            "setup": [
                'test -z "$NOT_SET${NOT_SET_EITHER}"',
                MODULE,
                f'export LD_LIBRARY_PATH="{standin}:$LD_LIBRARY_PATH"',
                'export RECORD="$PWD/pre\'loaded" && echo "it\'s  set   up"',
                'export PATH="$PWD/bin  dir:$PATH"',
            ]
        },
        sweep=CONFIG["sweep"] | {"loaders": ["posix", "tensorflow"]},
    )
    folder = project.folder / "bin  dir"
    folder.mkdir()
    for name in ("make", "mpiexec"):
        (folder / name).write_text(RECORDER)
        (folder / name).chmod(0o755)
    project.output = project.snakemake("audits")
    return project


@pytest.mark.parametrize("scenario", [POSIX, TENSORFLOW])
def test_runs_are_traced_by_the_library_that_the_setup_shows(
    measured, standin, scenario
):
    tracer = run_json(measured, scenario)["tracer"]
    assert tracer == {
        "runtime": "darshan",
        "library": f"{standin}/libdarshan.so",
        "version": "stand-in",
    }
    digest = hashlib.sha256((standin / "libdarshan.so").read_bytes()).hexdigest()
    loaded = run_json(measured, scenario)["libraries"]
    assert loaded == {"tracer": {"libdarshan.so": digest}, "devices": {}}
    audit = json.loads((run_folder(measured, scenario) / "audit.json").read_text())
    assert audit["passed"]
    path = run_folder(measured, scenario) / "log.darshan"
    log = read_any_log(path)
    assert log.n_processes == 2
    assert log.metadata["lib_ver"] == "stand-in"
    assert log.modules == ("POSIX",)


def test_log_counts_what_the_builtin_tracer_counts(measured, builtin):
    assert counts(measured) == counts(builtin)
    assert len(counts(measured)) == 2 * 32
    tensorflow = read_table(
        run_folder(measured, TENSORFLOW) / "file_records.parquet", "file_records"
    )
    sums = tensorflow.groupby(["epoch", "tier"])[["opens", "bytes_read"]].sum()
    assert sums.to_numpy().tolist() == [[16, 16 * 4096]] * 4


def test_setup_keeps_quotes_and_spaces(measured):
    logs = list(measured.path("logs", "run_benchmark").rglob("*.log"))
    assert logs
    assert all("it's  set   up\n" in log.read_text() for log in logs)


def test_only_the_ranks_interpreters_are_preloaded(measured):
    lines = (measured.folder / "pre'loaded").read_text().splitlines()
    # Neither the launcher nor the shell that it starts preloads anything.
    assert set(lines) == {"make nothing", "mpiexec nothing"}


def test_settings_hold_the_run_and_select_both_tiers(measured):
    staging = measured.path("staging")
    (settings,) = {path.read_text() for path in staging.rglob("darshan-*.conf")}
    assert "MAX_RECORDS 104 POSIX\n" in settings  # 2 x 16, a quarter more, 64 spare
    for tier in ("gfs", "lfs"):
        prefix = f"{measured.scratch}/{tier}/data.ep".replace(".", r"\.")
        assert f"NAME_INCLUDE ^{prefix} *\n" in settings


def test_local_file_systems_are_empty_afterwards(measured):
    assert not (measured.scratch / "lfs").exists()


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """Return a project whose dataset is there, on a site that names its Darshan."""
    project = make_project(tmp_path_factory, {"darshan": "$STANDIN/libdarshan.so"})
    project.snakemake("--until", "generate_dataset")
    return project


def fail(project, fault=""):
    """Run the benchmark, which must fail and leave no run; return our own lines."""
    project.environment["STANDIN_FAULT"] = fault
    output = project.snakemake("audits", expect=1)
    assert "Traceback" not in output
    assert not list(run_folder(project).glob("*"))
    assert not (project.scratch / "lfs").exists()
    return output


def test_setup_that_fails_ends_the_job_with_its_words(failing):
    lines = ["echo first", "module load nothing", "echo never"]
    change_job(failing, setup=lines, darshan="$STANDIN/libdarshan.so")
    output = fail(failing)
    assert "first\n" in output
    assert "module: command not found" in output
    assert "\nnever\n" not in output
    assert "point 1 of 1" not in output


def test_variable_that_the_setup_does_not_set_is_named(failing):
    change_job(failing, darshan="$STANDIN/libdarshan.so")
    output = fail(failing)
    assert "tierscope: darshan.runtime: got '$STANDIN/libdarshan.so', but" in output
    assert "STANDIN is not set here" in output


def test_library_that_is_no_library_is_found_out_at_the_start(failing, tmp_path):
    tmp_path.joinpath("libdarshan.so").write_text("not for this machine")
    setup = [f"export STANDIN={tmp_path}"]
    change_job(failing, setup=setup, darshan="$STANDIN/libdarshan.so")
    output = fail(failing)
    assert "libdarshan.so: cannot be loaded: " in output
    assert "point 1 of 1" not in output


def test_log_that_cannot_be_believed_fails_and_is_measured_again(failing, standin):
    setup = [f"export STANDIN={standin}", MODULE]
    change_job(failing, setup=setup, darshan="$STANDIN/libdarshan.so")
    staged = Path("staging", "*", "cache-050", "rep-0", "log.darshan")
    reasons = {
        "no log": "was not written when MPI ended: ",
        "few records": "is partial: ",
        "truncated": "truncated: got ",
        f"copy {LOGS}/mpi4_small_alias.darshan": "is of 4 processes, expected 2.",
        f"copy {LOGS}/mpi2_small_noreduce.darshan": "is of an earlier run: it ends at ",
    }
    for fault, reason in reasons.items():
        output = fail(failing, fault)
        assert "point 1 of 1" in output  # in spite of the log that the last one left
        (line,) = {line for line in output.splitlines() if line.startswith("tierscope")}
        assert f"/log.darshan: {reason}" in line
        left = list(failing.path().glob(str(staged)))
        assert len(left) == (fault != "no log")
        assert all(str(path.relative_to(failing.folder)) in line for path in left)
    output = fail(failing, "dies")
    assert "point 1 of 1" in output
    failing.environment["STANDIN_FAULT"] = ""
    assert "point 1 of 1" in failing.snakemake("audits")
    assert run_json(failing)["tracer"] == {
        "runtime": "darshan",
        "library": f"{standin}/libdarshan.so",
        "version": "stand-in",
    }
    assert os.stat(run_folder(failing) / "log.darshan").st_mode & 0o777 == 0o400


def test_launch_of_several_points_is_traced_by_ourselves(builtin, standin):
    tracer = run_json(builtin)["tracer"]
    assert tracer["runtime"] == "builtin"
    assert tracer["library"].endswith("/libtierscope_trace.so")
    change_job(builtin, darshan=f"{standin}/libdarshan.so")
    output = builtin.snakemake("audits", expect=1)
    assert "expected auto or builtin with points_per_launch all" in output
