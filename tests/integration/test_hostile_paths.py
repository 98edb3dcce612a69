"""Folders whose names would like to be shell commands."""

import numpy as np
import pytest
from integration.conftest import TINY_SYSTEM, Project
from tierscope.core.description import Run
from tierscope.core.tables import read_table
from tierscope.data.steps import compute_times_ns

SCENARIO = "tiny-0ost-pinning-posix"
COMPUTE = {"distribution": "normal", "mean_s": 0.05, "stdev_s": 0.03}
NAME = "a; touch pwned $(touch pwned) `touch pwned` & b"


@pytest.mark.parametrize("where", ["project", "tiers"])
def test_hostile_folder_is_only_a_name(tmp_path, where):
    folder = tmp_path / (NAME if where == "project" else "project")
    folder.mkdir()
    project = Project(folder)
    project.use_directories()
    if where == "tiers":
        tiers = {
            tier: {"kind": "directory", "root": f"scratch/{NAME}/{tier}"}
            for tier in ("gfs", "lfs")
        }
        project.change(TINY_SYSTEM, tiers)
    scene = {"dataset": "tiny", "n_osts": 0}
    sweep = {
        "datasets": ["tiny"],
        "n_osts": [0],
        "policies": ["pinning"],
        "loaders": ["posix"],
        "cache_rates_percent": [50],
    }
    figures = {"figures": {"scenario": {**scene, "loader": "posix"}}}
    # Of 34 files, two of four processes read 8, the others 9: they have one step more.
    steps = {
        "datasets": {"tiny": {"n_files": 34}},
        "training": {"epochs": 2, "compute_time_s": COMPUTE, "synchronise": "step"},
    }
    project.change("config/tiny.yaml", {"sweep": sweep, **figures, **steps})
    project.snakemake(*project.audits_of(SCENARIO, 50))
    assert not list(tmp_path.rglob("pwned"))
    check_steps(project.path("runs", SCENARIO, "cache-050", "rep-0"))


def check_steps(folder):
    """Check that real steps took what was drawn, waited for all, and fill the epoch."""
    run = Run.read(folder / "run.json")
    epochs = read_table(folder / "epochs.parquet", "run_epochs")
    parts = epochs[["compute_time_s", "stall_s", "rest_s"]].sum(axis="columns")
    assert parts.to_numpy() == pytest.approx(epochs["execution_time_s"], rel=0.01)
    for row in epochs.to_dict("records"):
        seeds = run.training.seed, 0, row["epoch"]
        drawn = [
            compute_times_ns(run.training.compute_time, 2, seeds, rank) / 1e9
            for rank in range(4)
        ]
        assert row["compute_time_s"] >= drawn[row["rank"]].sum()
        # No rank leaves a step before the slowest one has computed.
        assert row["execution_time_s"] >= np.max(drawn, axis=0).sum()
