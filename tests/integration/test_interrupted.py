"""Runs of policies that are ended from outside: nothing is left, the next goes on."""

import os
import signal
import time

import pytest
from integration.test_failures import (
    ranks_of,
    wait_for_log,
    wait_for_text,
    wait_until_idle,
)
from integration.test_policies import N_FILES, SIZE, make_project
from sessions import processes_in
from tierscope.tables import read_table

RATES = [25, 50, 100]


def launch_of(folder):
    """Return the name of the launch that runs in a project."""
    command = processes_in(folder)[ranks_of(folder)[0]]
    return command.split("--launch ")[1].split()[0]


@pytest.fixture(params=["monarch", "adhoc"])
def slow(tmp_path, request):
    """Return a project whose launch takes some seconds, on emulated devices."""
    policies = ["none", request.param]
    sweep = {
        "datasets": ["tiny"],
        "n_osts": [60],
        "policies": policies,
        "loaders": ["posix"],
        "cache_rates_percent": RATES,
    }
    project = make_project(
        tmp_path / "project",
        policies,
        kind="emulated",
        sweep=sweep,
        training={"epochs": 3, "compute_time_s": 0.2},
    )
    project.policy = request.param
    return project


@pytest.mark.parametrize("how", ["Ctrl-C", "kill -9 rank 0", "kill -9 rank 3"])
def test_interrupted_run_leaves_nothing_and_is_finished_by_the_next_start(slow, how):
    running = slow.start("audits")
    wait_for_text(running.stdout, "point 2 of 3")
    wait_for_log(slow, "epoch 1 of 3")
    launch = launch_of(slow.folder)
    if how == "Ctrl-C":  # reaches all processes of the terminal
        os.killpg(running.pid, signal.SIGINT)
    else:
        os.kill(ranks_of(slow.folder)[int(how[-1])], signal.SIGKILL)
    running.communicate(timeout=60)
    assert running.returncode != 0
    wait_until_idle(slow.folder)
    assert not [name for name in os.listdir("/dev/shm") if launch in name]
    assert not (slow.folder / "scratch" / "lfs").exists()
    output = slow.snakemake("audits")
    assert "cache rate 25 %, repetition 0" not in output  # it was finished
    runs = sorted(slow.path("runs").rglob("file_records.parquet"))
    assert len(runs) == 1 + len(RATES)
    for run in runs:
        records = read_table(run, "file_records")
        assert (records.groupby("epoch")["opens"].sum() == N_FILES).all()
        assert (records["bytes_read"] == SIZE).all()
    assert not (slow.folder / "scratch" / "lfs").exists()
    assert not list(slow.folder.rglob(".placing-*"))


def test_signal_during_the_clean_up_does_not_end_it(fresh):
    running = fresh.start("audits")
    wait_for_text(running.stdout, "point 2 of 3")
    ranks = ranks_of(fresh.folder)
    os.kill(ranks.pop(1), signal.SIGTERM)
    end = time.monotonic() + 2
    while ranks and time.monotonic() < end:  # the others learn of it and clean up
        time.sleep(0.01)
        for rank, pid in list(ranks.items()):
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                del ranks[rank]
    output, _ = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "failed" in output
    assert "Traceback" not in output
    wait_until_idle(fresh.folder)
    assert not (fresh.folder / "scratch" / "lfs").exists()
