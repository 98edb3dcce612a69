"""A tiny experiment with loader `pytorch` on two directories, by two MPI processes."""

import json

import pandas as pd
import pytest
from integration.conftest import ROOT, TINY_SYSTEM, Project
from tierscope.trace.log import read_posix

N_FILES, SIZE = 32, 4096  # of dataset `tiny`
SCENARIO = "tiny-0ost-pinning-pytorch"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a project whose experiment was run."""
    project = Project(tmp_path_factory.mktemp("project"))
    (project.folder / ".venv-programs").symlink_to(ROOT / ".venv-programs")
    project.use_directories()
    project.change(TINY_SYSTEM, {"n_nodes": 1})
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [0],
                "loaders": ["pytorch"],
                "cache_rates_percent": [50],
                "repetitions": 1,
            },
            "loader": {"workers": 2, "prefetch_factor": 2, "buffer_bytes": 1024},
            "training": {"epochs": 2, "compute_time_s": 0.002, "synchronise": "step"},
            "figures": {
                "scenario": {"dataset": "tiny", "n_osts": 0, "loader": "pytorch"}
            },
        },
    )
    tables = [f"results/tiny/tables/{name}.parquet" for name in TABLES]
    project.snakemake(*project.audits_of(SCENARIO, 50), *tables)
    return project


TABLES = ("utilisation", "io_time", "verdicts")


def table(project, name):
    return pd.read_parquet(project.path("tables", f"{name}.parquet"))


def test_audit_passes_and_the_run_names_pytorch(finished):
    run = finished.path("runs", SCENARIO, "cache-050", "rep-0")
    assert json.loads((run / "audit.json").read_text())["passed"]
    facts = json.loads((run / "run.json").read_text())
    assert facts["versions"]["torch"]
    assert facts["loader"]["workers"] == 2


def test_log_has_the_reads_of_the_workers_under_their_rank(finished):
    path = finished.path("runs", SCENARIO, "cache-050", "rep-0", "log.darshan")
    job, columns, _ = read_posix(path)
    assert job.n_processes == 2
    assert columns["opens"].tolist() == [1] * 2 * N_FILES
    assert columns["bytes_read"].tolist() == [SIZE] * 2 * N_FILES
    assert sorted(columns["rank"].tolist()) == [0] * N_FILES + [1] * N_FILES
    in_log_s = pd.Series(columns["read_time_s"] + columns["meta_time_s"])
    by_rank_s = in_log_s.groupby(columns["rank"]).sum()
    io_time = table(finished, "io_time").groupby("rank")["time_s"].sum()
    assert io_time.to_numpy() == pytest.approx(by_rank_s.to_numpy())


def test_parts_of_an_epoch_sum_to_its_time(finished):
    rows = table(finished, "utilisation")
    assert len(rows) == 4
    sums_s = rows["compute_time_s"] + rows["stall_s"] + rows["rest_s"]
    assert sums_s.to_numpy() == pytest.approx(rows["execution_time_s"], rel=0.01)
    assert (rows["compute_time_s"] >= 4 * 0.002).all()  # four steps


def test_bytes_of_workers_that_have_ended_are_those_of_their_process(finished):
    rows = table(finished, "verdicts")
    rows = rows[rows["told_by"] == "block device"]
    assert (rows["verdict"] == "device").all()
