"""The tiny experiment on a real Slurm: placement, counts, and everything that fails."""

import itertools
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
import yaml
from counts import assert_expected_counts
from integration.conftest import ROOT, Project
from slurm.cluster import ENDED, SlurmCluster

IMPATIENT = Path(__file__).parent / "impatient_snakemake.py"
TINY_SYSTEM = "resources/systems/tiny.yaml"
# As shipped, but quicker to fail.
CLUSTER = yaml.safe_load((ROOT / "resources/systems/cluster.yaml").read_text())
SITE = CLUSTER["job"] | {"retries": 0, "estimates": {"start_s": 240}}
SLOW = {
    "sweep": {
        "datasets": ["tiny"],
        "n_osts": [0],
        "loaders": ["posix"],
        "cache_rates_percent": [0, 50, 100],
    },
    "training": {"epochs": 2, "compute_time_s": 1},
    "figures": {"scenario": {"dataset": "tiny", "n_osts": 0, "loader": "posix"}},
}


class SlurmProject(Project):
    """A project on a system whose jobs go through a Slurm cluster of the tests."""

    def __init__(self, folder: Path, cluster: SlurmCluster):
        super().__init__(folder, "slurm")
        self.cluster = cluster
        path = self.environment["PATH"]
        self.environment = cluster.environment | {
            "PATH": f"{path}{os.pathsep}{cluster.environment['PATH']}"
        }
        self.change_job()

    def change_job(self, **settings) -> None:
        """Set how the site runs jobs, beside what this cluster needs."""
        values = {"virtual_nodes": False, "points_per_launch": 1}
        values["job"] = SITE | settings
        self.change(TINY_SYSTEM, values)

    def command(self, *arguments: str) -> list[str]:
        """Return the command line, with status checks every other second."""
        _, *words = super().command(*arguments)
        return [
            *(sys.executable, str(IMPATIENT), *words),
            *("--config", "system=tiny"),
            *("--slurm-init-seconds-before-status-checks", "1"),
        ]

    def jobs(self) -> dict[str, list]:
        """Return this project's Slurm jobs by rule and wildcards, in their order."""
        found = {}
        names = {path.name for path in self.folder.rglob(".slurm-jobs/*")}
        for job in self.cluster.jobs():
            if job.id in names or job.state not in ENDED:
                found.setdefault(job.comment, []).append(job)
        return found

    def running_benchmark(self):
        """Wait until a benchmark has reached its first epoch and return its job."""
        self.wait_until(lambda: "epoch 1 of" in self.logs())
        return self.active_jobs()[0]

    def logs(self) -> str:
        """Return what the benchmarks have said."""
        folder = self.path("logs", "run_benchmark")
        return "".join(log.read_text() for log in folder.rglob("*.log"))

    def time_limits(self) -> list[str]:
        """Return the time limits of the benchmark jobs in the order of submission."""
        rows = self.cluster.run(
            *("squeue", "--states=all", "--noheader", "--sort=i"),
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

    def wait_until(self, condition, timeout_s: float = 120) -> None:
        """Wait until something is true."""
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, self.cluster.log_tails()
            time.sleep(0.2)

    def runs(self) -> list[dict]:
        """Return what is said of each finished run."""
        return [
            json.loads(path.read_text())
            for path in sorted(self.path("runs").rglob("run.json"))
        ]

    def assert_nothing_left(self) -> None:
        """Assert that no job, no LFS contents and no half run is left."""
        self.wait_until(lambda: not self.active_jobs(), 30)
        assert not (self.folder / "scratch" / "lfs").exists()
        for folder in self.path("runs").glob("*/cache-*/rep-*"):
            assert {path.name for path in folder.iterdir()} >= {"run.json"} or not [
                *folder.iterdir()
            ]


@pytest.fixture
def project(tmp_path, slurm_cluster):
    """Return a project in which nothing has been run."""
    folder = tmp_path / "project"
    folder.mkdir()
    return SlurmProject(folder, slurm_cluster)


@pytest.fixture
def slow(project):
    """Return a project with one scenario, whose runs take some seconds."""
    project.use_directories()
    project.change("config/tiny.yaml", SLOW)
    return project


def test_sweep_runs_on_two_nodes_and_reads_what_it_reads_elsewhere(project):
    project.snakemake("tables")
    assert_expected_counts(project.path())
    runs = project.runs()
    assert len(runs) == len({run["scheduler_job"] for run in runs}) == 5
    for run in runs:
        assert len(set(run["hosts"])) == 2
        assert set(run["hosts"]) <= set(project.cluster.nodes)
        assert re.fullmatch(r"Slurm \d+", run["scheduler_job"])
    # Runs share the GFS, so they run one after the other.
    times = sorted((run["started"], run["finished"]) for run in runs)
    for (_, finished), (started, _) in itertools.pairwise(times):
        assert finished <= started
    project.assert_nothing_left()


def test_failed_job_is_named_and_the_rest_goes_on(slow):
    slow.snakemake("--until", "generate_dataset")
    for victim in (slow.folder / "scratch").rglob("0000017.tfrecord"):
        victim.unlink()
    output = slow.snakemake("audits", "--keep-going", expect=1)
    assert re.search(r"SLURM-job '\d+' failed, SLURM status is: 'FAILED'", output)
    assert "0000017.tfrecord" in output
    assert re.search(r"slurm_logs/rule_run_benchmark/\S+\.log", output)
    rates = {run["point"]["cache_rate_percent"] for run in slow.runs()}
    assert 100 in rates
    assert 0 not in rates
    slow.assert_nothing_left()


def test_job_out_of_time_gets_more_of_it(slow):
    once = "test -e tried || { touch tried; sleep 600; }"
    setup = [*SITE["setup"], once]
    slow.change_job(setup=setup, estimates={"start_s": 1}, retries=1)
    slow.change("config/tiny.yaml", {"training": {"epochs": 1, "compute_time_s": 0}})
    slow.change("config/tiny.yaml", {"figures": SLOW["figures"] | {"epoch": 0}})
    output = slow.snakemake("audits")
    assert "SLURM status is: 'TIMEOUT'" in output
    assert len(slow.runs()) == 3
    limits = slow.time_limits()
    assert limits[0] == "00:01:00"
    assert limits[1] == "00:02:00"
    slow.assert_nothing_left()


def test_job_on_a_node_that_goes_down_runs_again(slow):
    running = slow.start("audits")
    job = slow.running_benchmark()
    node = slow.cluster.run("scontrol", "show", "hostnames", job.nodes).split()[0]
    slow.cluster.set_down(node)
    slow.wait_until(lambda: [j.n_restarts for j in slow.active_jobs()] == [1])
    slow.cluster.start_now(job.id)  # not after the two minutes that Slurm waits
    output, _ = running.communicate(timeout=300)
    slow.cluster.resume(node)
    assert running.returncode == 0, output
    assert len(slow.runs()) == 3
    slow.assert_nothing_left()


def test_job_cancelled_by_hand_is_named_and_redone_by_the_next_start(slow):
    running = slow.start("audits")
    job = slow.running_benchmark()
    slow.cluster.cancel(job.id)
    output, _ = running.communicate(timeout=120)
    assert running.returncode != 0
    assert f"SLURM-job '{job.id}' failed, SLURM status is: 'CANCELLED'" in output
    slow.assert_nothing_left()
    slow.snakemake("audits")
    assert len(slow.runs()) == 3


def test_interrupted_snakemake_cancels_its_jobs(slow):
    running = slow.start("audits")
    slow.running_benchmark()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=120)
    assert running.returncode != 0
    slow.assert_nothing_left()
    assert not slow.runs()


def test_killed_snakemake_goes_on_where_it_was(slow):
    running = slow.start("audits")
    first = slow.running_benchmark()
    slow.wait_until(lambda: len(slow.runs()) == 1)
    finished = slow.runs()
    slow.wait_until(lambda: {job.id for job in slow.active_jobs()} - {first.id})
    (left,) = (job for job in slow.active_jobs() if job.id != first.id)
    running.kill()
    running.communicate(timeout=60)
    output = slow.snakemake("audits")
    assert f"Cancelled Slurm jobs that an earlier start left: {left.id}." in output
    assert finished[0] in slow.runs()
    assert len(slow.runs()) == 3
    slow.assert_nothing_left()


def test_every_node_has_its_own_local_file_system(slow):
    tiers = {
        "gfs": {"kind": "directory", "root": "scratch/gfs"},
        "lfs": {"kind": "directory", "root": "scratch/lfs-$SLURMD_NODENAME"},
    }
    slow.change(TINY_SYSTEM, tiers)
    slow.change(
        "config/tiny.yaml",
        {
            "sweep": SLOW["sweep"] | {"n_osts": [0], "cache_rates_percent": [50]},
            "training": {"epochs": 1},
            "figures": {"scenario": {"dataset": "tiny", "loader": "posix", "n_osts": 0}}
            | {"epoch": 0},
        },
    )
    slow.snakemake("audits")
    (run,) = slow.runs()
    names = [f"lfs-{host}" for host in run["hosts"]]
    assert [Path(root).parent.name for root in run["tier_roots"]["lfs"]] == names
    assert len(set(names)) == 2
    assert not [*slow.folder.glob("scratch/lfs-*")]
