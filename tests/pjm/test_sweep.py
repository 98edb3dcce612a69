"""The tiny experiment through PJM's stand-in: documented formats, not Fugaku."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import sessions
from counts import assert_expected_counts_at
from scheduled import ScheduledProject, assert_one_after_the_other
from sessions import HANG_S

BIN = Path(__file__).parent / "bin"
ACTIVE = {"QUE", "RUN"}
JOB = {
    "scheduler": "pjm",
    "estimates": {"start_s": 1170},  # a time limit that a busy machine keeps
    "setup": ['export GREETING="in PJM job $PJM_JOBID"', "echo $GREETING"],
    "resources": {
        "run_benchmark": {
            "pjm_node": "2x1x1:torus",
            "pjm_group": "hp123456",
            "pjm_localtmp_mib": "{lfs_mib}",
        },
        "generate_dataset": {"pjm_group": "hp123456"},
    },
}


class PjmProject(ScheduledProject):
    """A project on a system whose jobs go through the stand-in for PJM."""

    def __init__(self, folder: Path, state: Path):
        super().__init__(folder, "fugaku", JOB, "$PJM_LOCALTMP/tierscope")
        state.mkdir()
        self.state = state
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

    def end_jobs(self) -> None:
        """End what a test that fails has left."""
        sessions.end_all()
        active = [str(job["id"]) for job in self.jobs() if job["state"] in ACTIVE]
        if active:
            subprocess.run(["pjdel", *active], env=self.environment, check=False)
        self.wait_until(lambda: not {job["state"] for job in self.jobs()} & ACTIVE)

    def assert_nothing_left(self) -> None:
        """Assert that no job and no area of one is left."""
        self.wait_until(lambda: {job["state"] for job in self.jobs()} <= {"EXT"})
        assert not [*self.state.glob("localtmp/*")]


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """Return a project whose sweep of two runs has been run once."""
    folder = tmp_path_factory.mktemp("measured")
    project = PjmProject(folder / "project", folder / "state")
    project.sweep(50, 100, epochs=2)
    project.snakemake("results/tiny/tables/io_time.parquet")
    project.assert_nothing_left()
    return project


@pytest.fixture
def project(tmp_path, measured):
    """Return a project that has its dataset, and no runs."""
    project = PjmProject(tmp_path / "project", tmp_path / "state")
    project.take_dataset(measured)
    yield project
    project.end_jobs()


def test_sweep_reads_what_it_reads_elsewhere(measured):
    assert_expected_counts_at(measured.path(), 50, 100)
    runs, jobs = measured.runs(), measured.jobs()
    scheduler_jobs = {run["scheduler_job"] for run in runs}
    assert len(scheduler_jobs) == len(runs) == 2
    assert scheduler_jobs <= {f"PJM {job['id']}" for job in jobs}
    assert len(jobs) == 2 + 1
    log = next(measured.path("logs", "run_benchmark").rglob("*.log")).read_text()
    assert "in PJM job " in log
    assert_one_after_the_other(runs)
    table = "results/tiny/tables/io_time.parquet"
    assert "Nothing to be done" in measured.snakemake(table)


def test_failed_rank_is_named_with_job_and_log(project):
    project.sweep(0, 100, epochs=1)
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
    project.assert_nothing_left()


def test_job_of_a_killed_snakemake_is_watched_on(project):
    project.hold(50)
    running = project.start("audits")
    notes = project.folder / ".snakemake" / "pjm_logs" / "submitted"
    project.wait_until(lambda: [*notes.glob("*.json")], running)
    project.wait_until(project.held_rate, running)
    running.kill()
    running.communicate(timeout=HANG_S)
    again = project.start("audits")
    logs = project.folder / ".snakemake" / "log"
    adopted = "of an earlier start continues as rule run_benchmark"
    project.wait_until(
        lambda: any(adopted in p.read_text() for p in logs.iterdir()), again
    )
    project.go(50)
    output, _ = again.communicate(timeout=HANG_S)
    assert again.returncode == 0, output
    assert [job["name"] for job in project.jobs()] == ["run_benchmark"]
    assert len([*project.path("runs").rglob("audit.json")]) == 1
    project.assert_nothing_left()


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"lfs_gib_per_node": 0.0001}, "of local storage a node"),
        (
            {"scheduler": "slurm"},
            "system tiny: is for slurm (job.scheduler), got a profile for pjm",
        ),
    ],
)
def test_job_that_cannot_be_is_refused_before_submission(tmp_path, job, words):
    project = PjmProject(tmp_path / "project", tmp_path / "state")
    project.change_job(**job)
    project.sweep(100, epochs=1)
    assert words in project.snakemake(expect=1)
    assert project.jobs() == []
