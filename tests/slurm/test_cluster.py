"""The cluster that the other tests of this folder use works and leaves nothing."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from sessions import HANG_S, processes_in
from slurm.cluster import Job, SlurmCluster, marked_processes, wait_until

NOT_LISTED = Job("", "", "", "", "", 0, "")

KILLED_RUN = """
import os, signal, sys
from slurm.cluster import SlurmCluster
with SlurmCluster(n_nodes=1) as cluster:
    cluster.run("sbatch", "--output=/dev/null", "--wrap", "sleep 600")
    print(cluster.folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_job_spans_two_nodes(slurm_cluster):
    names = slurm_cluster.run(
        "srun",
        "--nodes=2",
        "--ntasks-per-node=1",
        "sh",
        "-c",
        "echo $SLURMD_NODENAME",
    )
    assert len(set(names.split()) & set(slurm_cluster.nodes)) == 2


def test_job_of_a_lost_node_runs_again(slurm_cluster, tmp_path):
    job_id = slurm_cluster.run(
        "sbatch",
        "--parsable",
        "--nodelist=node4",
        "--output=/dev/null",
        "--chdir",
        str(tmp_path),
        "--wrap",
        "sleep 600",
    ).strip()

    def job():
        found = (job for job in slurm_cluster.jobs() if job.id == job_id)
        return next(found, NOT_LISTED)  # a moment after its submission

    assert wait_until(lambda: job().state == "RUNNING")
    slurm_cluster.set_down("node4")
    assert wait_until(lambda: job().state == "PENDING")
    assert slurm_cluster.node_states()["node4"] == "down"
    # Else the node, still ending the old processes, ends the new ones of this job, too.
    assert wait_until(lambda: not processes_in(tmp_path))

    def runs_again():
        with suppress(subprocess.CalledProcessError):  # it is up, or the job has begun
            slurm_cluster.resume("node4")
        with suppress(subprocess.CalledProcessError):
            slurm_cluster.start_now(job_id)  # Slurm puts it off once more if it is late
        return job().state == "RUNNING"

    assert wait_until(runs_again)
    assert job().n_restarts == 1
    slurm_cluster.cancel(job_id)
    assert wait_until(lambda: slurm_cluster.node_states()["node4"] == "idle")


def test_cancelled_job_is_listed(slurm_cluster):
    job_id = slurm_cluster.run(
        "sbatch",
        "--parsable",
        "--comment=mine",
        "--output=/dev/null",
        "--wrap",
        "sleep 600",
    ).strip()
    slurm_cluster.cancel(job_id)

    def job():
        found = (job for job in slurm_cluster.jobs() if job.id == job_id)
        return next(found, NOT_LISTED)  # a moment after its submission

    assert wait_until(lambda: job().state == "CANCELLED")
    assert job().comment == "mine"


@pytest.mark.usefixtures("slurm_cluster")  # skips where there can be none
def test_nothing_is_left_after_a_cluster_with_a_running_job():
    with SlurmCluster(n_nodes=1) as cluster:
        cluster.run("sbatch", "--output=/dev/null", "--wrap", "sleep 600")
        assert wait_until(lambda: cluster.jobs()[0].state == "RUNNING")
        assert wait_until(lambda: len(marked_processes(cluster.folder)) > 4)
    assert marked_processes(cluster.folder) == []
    assert not cluster.folder.exists()


@pytest.mark.usefixtures("slurm_cluster")
def test_next_cluster_clears_up_after_a_killed_run():
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_RUN],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=HANG_S,
        capture_output=True,
        text=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    folder = Path(killed.stdout.strip())
    with SlurmCluster(n_nodes=1):
        assert marked_processes(folder) == []
        assert not folder.exists()
