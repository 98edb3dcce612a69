"""The tiny experiment on a real Slurm: placement, counts, and everything that fails."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import sessions
import yaml
from counts import assert_expected_counts_at
from integration.conftest import ROOT, TINY_SYSTEM
from scheduled import ScheduledProject, assert_one_after_the_other
from sessions import HANG_S
from slurm.cluster import ENDED, SlurmCluster

HERE = Path(__file__).parent
# As shipped, but failing at once, and with time limits that a busy machine keeps.
CLUSTER = yaml.safe_load((ROOT / "resources/systems/cluster.yaml").read_text())
SITE = CLUSTER["job"] | {"retries": 0, "estimates": {"start_s": 1170}}


class SlurmProject(ScheduledProject):
    """A project on a system whose jobs go through a Slurm cluster of the tests."""

    def __init__(self, folder: Path, cluster: SlurmCluster):
        super().__init__(folder, "slurm", SITE, "scratch/lfs-$SLURMD_NODENAME")
        self.change(TINY_SYSTEM, {"virtual_nodes": False})
        self.cluster = cluster
        path = f"{Path(sys.executable).parent}{os.pathsep}{cluster.environment['PATH']}"
        self.environment = cluster.environment | {"PATH": path}

    def command(self, *arguments: str) -> list[str]:
        """Return the command line, with frequent status checks."""
        _, *words = super().command(*arguments)
        return [
            sys.executable,
            str(HERE / "impatient_snakemake.py"),
            *words,
            "--config",
            "system=tiny",
            "--slurm-init-seconds-before-status-checks",
            "1",
        ]

    def running_benchmark(self, running: subprocess.Popen) -> tuple:
        """Wait until a launch has reached its first epoch; return its job and rate."""
        self.wait_until(lambda: self.held_rate() is not None, running)
        (job,) = (job for job in self.active_jobs() if job.state == "RUNNING")
        return job, self.held_rate()

    def time_limits(self) -> list[str]:
        """Return the time limits of the benchmark jobs in the order of submission."""
        rows = self.cluster.run(
            "squeue",
            "--states=all",
            "--noheader",
            "--sort=i",
            "--Format=TimeLimit:|,Comment:|,WorkDir:|",
        ).splitlines()
        cells = [[cell.strip() for cell in row.split("|")] for row in rows]
        return [
            f"00:{limit.rjust(5, '0')}"
            for limit, comment, folder, *_ in cells
            if "run_benchmark" in comment and folder == str(self.folder)
        ]

    def active_jobs(self) -> list:
        """Return the jobs that wait or run."""
        return [job for job in self.cluster.jobs() if job.state not in ENDED]

    def assert_nothing_left(self) -> None:
        """Assert that no job, no LFS contents and no half run is left."""
        self.wait_until(lambda: not self.active_jobs())
        assert not [*self.folder.glob("scratch/lfs*")]
        for folder in self.path("runs").glob("*/cache-*/rep-*"):
            assert {path.name for path in folder.iterdir()} >= {"run.json"} or not [
                *folder.iterdir()
            ]


@pytest.fixture(scope="session")
def measured(tmp_path_factory, slurm_cluster):
    """Return a project whose sweep of two runs has been run once."""
    project = SlurmProject(tmp_path_factory.mktemp("measured"), slurm_cluster)
    project.sweep(50, 100, epochs=2)
    project.snakemake("results/tiny/tables/io_time.parquet")
    project.assert_nothing_left()
    return project


@pytest.fixture
def project(tmp_path, measured):
    """Return a project that has its dataset, and no runs."""
    project = SlurmProject(tmp_path / "project", measured.cluster)
    project.take_dataset(measured)
    yield project
    sessions.end_all()
    project.cluster.cancel(*(job.id for job in project.active_jobs()))
    project.wait_until(lambda: not project.active_jobs())


def test_sweep_runs_on_two_nodes_and_reads_what_it_reads_elsewhere(measured):
    assert_expected_counts_at(measured.path(), 50, 100)
    runs = measured.runs()
    assert len(runs) == len({run["scheduler_job"] for run in runs}) == 2
    for run in runs:
        assert len(set(run["hosts"])) == 2
        assert set(run["hosts"]) <= set(measured.cluster.nodes)
        assert re.fullmatch(r"Slurm \d+", run["scheduler_job"])
        roots = [Path(root).parent.name for root in run["tier_roots"]["lfs"]]
        assert roots == [f"lfs-{host}" for host in run["hosts"]]
    assert_one_after_the_other(runs)


def test_failed_job_is_named_and_the_rest_goes_on(project):
    project.sweep(0, 100, epochs=1)
    for victim in (project.folder / "scratch").rglob("0000017.tfrecord"):
        victim.unlink()
    output = project.snakemake("audits", "--keep-going", expect=1)
    assert re.search(r"SLURM-job '\d+' failed, SLURM status is: 'FAILED'", output)
    assert "0000017.tfrecord" in output
    assert re.search(r"slurm_logs/rule_run_benchmark/\S+\.log", output)
    assert project.rates() == [100]
    project.assert_nothing_left()


def test_job_out_of_time_gets_more_of_it(project):
    project.hold(50, retries=1)
    running = project.start("audits")
    job, rate = project.running_benchmark(running)
    assert project.time_limits() == ["00:20:00"]
    project.cluster.reach_time_limit(job.id)
    project.wait_until(lambda: job.id not in {job.id for job in project.active_jobs()})
    project.go(rate)
    output, _ = running.communicate(timeout=HANG_S)
    assert running.returncode == 0, output
    assert "SLURM status is: 'TIMEOUT'" in output
    assert project.rates() == [50]
    assert project.time_limits()[1] == "00:40:00"
    project.assert_nothing_left()


def test_job_on_a_node_that_goes_down_runs_again(project):
    # Slurm requeues it; or it fails, if srun is faster, and is submitted again.
    project.hold(50, retries=1)
    running = project.start("audits")
    job, rate = project.running_benchmark(running)
    node = project.cluster.run("scontrol", "show", "hostnames", job.nodes).split()[0]
    ranks = set(project.ranks())

    def begun_again() -> list[str]:
        jobs = project.active_jobs()
        return [one.id for one in jobs if one.n_restarts or one.id != job.id]

    def runs_again() -> bool:
        if job.id in begun_again():  # not after the two minutes that Slurm waits
            with suppress(subprocess.CalledProcessError):  # it has just begun
                project.cluster.start_now(job.id)
        return any(one.state == "RUNNING" for one in project.active_jobs())

    project.cluster.set_down(node)
    try:
        project.wait_until(begun_again, running)
        project.wait_until(lambda: not ranks & set(project.ranks()), running)
        project.go(rate)
        project.wait_until(runs_again, running)
        output, _ = running.communicate(timeout=HANG_S)
    finally:
        project.cluster.resume(node)
    assert running.returncode == 0, output
    assert project.rates() == [50]
    project.assert_nothing_left()


def test_job_cancelled_by_hand_is_named_and_redone_by_the_next_start(project):
    project.hold(50)
    running = project.start("audits")
    job, rate = project.running_benchmark(running)
    project.cluster.cancel(job.id)
    output, _ = running.communicate(timeout=HANG_S)
    assert running.returncode != 0
    assert f"SLURM-job '{job.id}' failed, SLURM status is: 'CANCELLED'" in output
    project.assert_nothing_left()
    project.go(rate)
    project.snakemake("audits")
    assert project.rates() == [50]


@pytest.mark.parametrize("while_it_asks", [False, True])
def test_interrupted_snakemake_cancels_its_jobs(project, while_it_asks):
    project.hold(50)
    running = project.start("audits")
    project.running_benchmark(running)
    if while_it_asks:  # Snakemake itself then forgets the jobs that it asks about
        (project.folder / "answer-slowly").touch()
        project.wait_until((project.folder / "asking").exists, running)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=HANG_S)
    assert running.returncode != 0
    project.assert_nothing_left()
    assert not project.runs()


def test_second_start_leaves_the_jobs_of_the_first_one_alone(project):
    project.hold(50)
    running = project.start("audits")
    job, rate = project.running_benchmark(running)
    output = project.snakemake("audits", expect=1)
    assert "wait until it has ended" in output
    assert [one.id for one in project.active_jobs()] == [job.id]
    project.go(rate)
    output, _ = running.communicate(timeout=HANG_S)
    assert running.returncode == 0, output
    assert project.rates() == [50]


def test_killed_snakemake_goes_on_where_it_was(project):
    project.hold(50, 100)
    running = project.start("audits")
    _, rate = project.running_benchmark(running)
    project.go(rate)
    project.wait_until(project.runs)
    finished = project.runs()
    left, rate = project.running_benchmark(running)
    running.kill()
    running.communicate(timeout=HANG_S)
    again = project.start("audits")
    project.wait_until(lambda: left.id not in {job.id for job in project.active_jobs()})
    project.go(rate)
    output, _ = again.communicate(timeout=HANG_S)
    assert again.returncode == 0, output
    assert f"Cancelled Slurm jobs that an earlier start left: {left.id}." in output
    assert finished[0] in project.runs()
    assert project.rates() == [50, 100]
    project.assert_nothing_left()
