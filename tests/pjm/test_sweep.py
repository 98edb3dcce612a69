"""The tiny experiment through PJM's stand-in: documented formats, not Fugaku."""

import itertools
import json
import os
import time
from pathlib import Path

import pytest
import yaml
from counts import assert_expected_counts
from integration.conftest import Project

BIN = Path(__file__).parent / "bin"
TINY_SYSTEM = "resources/systems/tiny.yaml"
SITE = {
    "lfs": {"kind": "emulated", "root": "$PJM_LOCALTMP/tierscope"},
    "points_per_launch": 1,
    "job": {
        "scheduler": "pjm",
        "setup": ['export GREETING="in PJM job $PJM_JOBID"', "echo $GREETING"],
        "resources": {
            "run_benchmark": {
                "pjm_node": "2x1x1:torus",
                "pjm_group": "hp123456",
                "pjm_localtmp_mib": "{lfs_mib}",
            },
            "generate_dataset": {"pjm_group": "hp123456"},
        },
    },
}


class PjmProject(Project):
    """A project on a system whose jobs go through the stand-in for PJM."""

    def __init__(self, folder: Path, state: Path):
        super().__init__(folder, "fugaku")
        state.mkdir()
        self.state = state
        self.change(TINY_SYSTEM, SITE)
        self.environment |= {
            "PATH": f"{BIN}{os.pathsep}{self.environment['PATH']}",
            "PJM_STANDIN_DIR": str(state),
            "XDG_CONFIG_HOME": str(state),
        }

    def command(self, *arguments: str) -> list[str]:
        """Return the command line, with status checks every second."""
        return super().command(*arguments, "--seconds-between-status-checks", "1")

    def jobs(self) -> list[dict]:
        """Return all jobs, as the stand-in keeps them."""
        return [json.loads(p.read_text()) for p in self.state.glob("jobs/*.json")]


@pytest.fixture
def project(tmp_path):
    """Return a project in which nothing has been run."""
    folder = tmp_path / "project"
    folder.mkdir()
    return PjmProject(folder, tmp_path / "state")


def test_sweep_reads_what_it_reads_elsewhere(project):
    project.snakemake("tables")
    assert_expected_counts(project.path())
    runs = [json.loads(p.read_text()) for p in project.path("runs").rglob("run.json")]
    jobs = {f"PJM {job['id']}" for job in project.jobs()}
    assert len({run["scheduler_job"] for run in runs}) == len(runs) == 5
    assert {run["scheduler_job"] for run in runs} <= jobs
    assert len(jobs) == 5 + 2
    log = next(project.path("logs", "run_benchmark").rglob("*.log")).read_text()
    assert "in PJM job " in log
    # Runs shared the GFS one after the other, and left nothing behind.
    times = sorted((run["started"], run["finished"]) for run in runs)
    for (_, finished), (started, _) in itertools.pairwise(times):
        assert finished <= started
    assert not [*project.state.glob("localtmp/*")]
    assert "Nothing to be done" in project.snakemake("tables")


def test_failed_rank_is_named_with_job_and_log(project):
    project.snakemake("--until", "generate_dataset")
    for victim in (project.folder / "scratch").rglob("0000017.tfrecord"):
        victim.unlink()
    output = project.snakemake("--keep-going", "audits", expect=1)
    assert "0000017.tfrecord" in output
    assert "its command failed with exit code 1" in output
    assert ".snakemake/pjm_logs/run_benchmark." in output
    # At a cache rate of 100 % the file is read from the LFS.
    (run,) = project.path("runs").glob("*/cache-100/rep-0/audit.json")
    assert json.loads(run.read_text())["passed"]
    assert not [*project.path("runs").glob("*/cache-000/rep-0/*")]


def test_too_much_local_storage_is_refused_before_submission(project):
    system = yaml.safe_load((project.folder / TINY_SYSTEM).read_text())
    job = system["job"] | {"lfs_gib_per_node": 0.0001}
    project.change(TINY_SYSTEM, {"job": job})
    output = project.snakemake(expect=1)
    assert "of local storage a node" in output
    assert project.jobs() == []


def test_job_of_a_killed_snakemake_is_watched_on(project):
    project.use_directories()
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [0],
                "loaders": ["posix"],
                "cache_rates_percent": [0, 100],
            },
            "training": {"epochs": 2, "compute_time_s": 1},
            "figures": {
                "scenario": {"dataset": "tiny", "n_osts": 0, "loader": "posix"}
            },
        },
    )
    running = project.start("audits")
    end = time.monotonic() + 120
    notes = project.folder / ".snakemake" / "pjm_logs" / "submitted"
    while not (
        any(
            job["name"] == "run_benchmark" and job["state"] == "RUN"
            for job in project.jobs()
        )
        and [*notes.glob("*.json")]
    ):
        assert time.monotonic() < end
        time.sleep(0.1)
    running.kill()
    running.communicate(timeout=60)
    project.snakemake("audits")
    names = [job["name"] for job in project.jobs()]
    assert names.count("run_benchmark") == 2
    assert len([*project.path("runs").rglob("audit.json")]) == 2
    assert not [*project.state.glob("localtmp/*")]


def test_system_of_another_scheduler_is_refused(project):
    system = yaml.safe_load((project.folder / TINY_SYSTEM).read_text())
    project.change(TINY_SYSTEM, {"job": system["job"] | {"scheduler": "slurm"}})
    output = project.snakemake(expect=1)
    assert "system tiny: is for slurm (job.scheduler), got a profile for pjm" in output
    assert project.jobs() == []
