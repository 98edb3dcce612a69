"""A signal to Snakemake ends its jobs, with a stand-in for Snakemake."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sessions import HANG_S, receive_signals

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"
# It has a job, and waits for it as Snakemake does; then it starts what comes later.
SNAKEMAKE = """\
import signal, subprocess, sys, threading
sys.path.insert(0, {scripts!r})
from tierscope.experiment import ending
ending._TERMINAL_S = ending._POLL_S = 0.01
is_told = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: is_told.set())
ending.Ending({all_run_here}, lambda line: print(line, flush=True)).prepare()
quiet = subprocess.DEVNULL  # who reads what this prints waits for no job
job = subprocess.Popen(["sleep", "1000"], stdout=quiet)
try:
    print("ready", flush=True)
    job.wait()
except KeyboardInterrupt:
    print("interrupted", job.wait(), flush=True)
else:
    is_told.wait()
    print("told", job.returncode, flush=True)
later = subprocess.Popen({later}, stdout=quiet)
print("later", later.wait(), flush=True)
"""
SLEEPS, ENDS = ["sleep", "1000"], ["sleep", "0.1"]


def start(*, all_run_here, later):
    """Start the stand-in, and wait until its job runs."""
    code = SNAKEMAKE.format(
        scripts=str(SCRIPTS), all_run_here=all_run_here, later=later
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=receive_signals,
    )
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_to_snakemake_alone_ends_its_job_and_one_that_it_starts_then(signum):
    child = start(all_run_here=True, later=SLEEPS)
    child.send_signal(signum)
    lines = child.communicate(timeout=HANG_S)[0].splitlines()
    how = "interrupted" if signum == signal.SIGINT else "told"
    assert lines == [
        f"Terminating processes on user request ({signum.name}).",
        f"{how} -15",
        "later -15",
    ]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_what_asks_a_scheduler_after_the_signal_goes_on(signum):
    child = start(all_run_here=False, later=ENDS)
    child.send_signal(signum)
    assert child.communicate(timeout=HANG_S)[0].splitlines()[-1] == "later 0"


def test_second_signal_does_not_disturb_the_end():
    child = start(all_run_here=True, later=SLEEPS)
    for _ in range(3):
        child.send_signal(signal.SIGINT)
    lines = child.communicate(timeout=HANG_S)[0].splitlines()
    assert lines[1:] == ["interrupted -15", "later -15"]
    assert child.returncode == 0
