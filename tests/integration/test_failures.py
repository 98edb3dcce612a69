"""What users meet when something goes wrong: one clear error, nothing lost."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from integration.conftest import Project
from integration.launches import (
    BEFORE_EPOCH,
    hold,
    inject,
    let_go,
    messages_of,
    pid_of,
    ranks_of,
    segments_of,
    wait_for_log,
    wait_for_text,
    wait_until_idle,
)
from sessions import HANG_S
from tierscope.core.tables import read_table
from tierscope.storage.lease import Lease

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
SCENARIO = "tiny-0ost-pinning-posix"
POINTS = tuple(f"cache-{rate:03d}/rep-0" for rate in (0, 50, 100))
NODE = os.uname().nodename


# ---- launches ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signum", "rank", "words"),
    [
        (signal.SIGKILL, 0, f"tierscope: rank 0 of 4 on {NODE} is gone"),
        (signal.SIGKILL, 3, f"tierscope: rank 3 of 4 on {NODE} is gone"),
        (signal.SIGTERM, 2, f"rank 2 of 4 on {NODE} failed: Terminated: SIGTERM"),
        (signal.SIGINT, 0, f"rank 0 of 4 on {NODE} failed: Terminated: SIGINT"),
        (signal.SIGINT, None, f"of 4 on {NODE} failed: Terminated: SIGINT"),
        (signal.SIGTERM, None, f"of 4 on {NODE} failed: Terminated: SIGTERM"),
        (signal.SIGKILL, None, None),  # nobody hears the keeper
    ],
)
def test_killed_rank_or_launcher_ends_the_launch_and_leaves_nothing(
    plain, signum, rank, words
):
    hold(plain, 1, cache_rate_percent=50)
    launch = plain.launch(SCENARIO, *POINTS)
    launch.wait_for("point 2 of 3", "epoch 1 of 2")
    assert (plain.folder / "scratch" / "lfs").exists()
    ranks = ranks_of(plain.folder)
    segments = set().union(*map(segments_of, ranks.values()))
    assert segments
    os.kill(pid_of(plain.folder, "mpiexec") if rank is None else ranks[rank], signum)
    output = launch.fail()
    assert "Traceback" not in output
    if words:
        (line,) = messages_of(output)
        assert words in line
    assert not segments & set(os.listdir("/dev/shm"))


# One of two ranks fails before the other one can hear of it.
FAILS = """
import os, sys
sys.path.insert(0, {scripts!r})
from tierscope.benchmark.rank import ending_launch
from tierscope.core.output.streams import end
with ending_launch():
    if {begun}:
        from mpi4py import MPI
    if os.environ["PMI_RANK"] == "1":
        {fails}
    from mpi4py import MPI
    MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("fails", ["end('tierscope: no')", "raise OSError('no')"])
def test_rank_that_fails_before_it_waits_for_others_ends_the_launch(begun, fails):
    code = FAILS.format(scripts=str(SCRIPTS), begun=begun, fails=fails)
    mpiexec = Path(sys.executable).with_name("mpiexec")
    ended = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ended.returncode == 1


def test_signals_during_the_clean_up_do_not_end_it(plain):
    hold(plain, 1, cache_rate_percent=50)
    launch = plain.launch(SCENARIO, *POINTS)
    launch.wait_for("point 2 of 3", "epoch 1 of 2")
    ranks = ranks_of(plain.folder)
    os.kill(ranks.pop(1), signal.SIGTERM)
    while ranks:  # the others learn of it, clean up and end
        for rank, pid in list(ranks.items()):
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                ranks.pop(rank, None)
            if launch.process.poll() is not None:
                ranks.clear()
    output = launch.fail()
    assert "failed" in output
    assert "Traceback" not in output


END_IN_PHASE = """
import signal

def _ending(phase, work):
    def end_or_work(*arguments):
        if Path("phase").read_text() == phase:
            os.kill(os.getpid(), getattr(signal, Path("signal").read_text()))
        return work(*arguments)
    return end_or_work

Benchmark.gather_facts = _ending("begin", Benchmark.gather_facts)
Benchmark.measure = _ending("filled", Benchmark.measure)
RunWriter.write = _ending("write", RunWriter.write)
"""


def test_job_that_is_queued_again_in_any_phase_finishes(plain):
    inject(plain, "benchmark.driver", f"import os\n{END_IN_PHASE}")
    for phase, signum in (
        ("begin", "SIGKILL"),
        ("filled", "SIGTERM"),
        ("write", "SIGKILL"),
    ):
        (plain.folder / "phase").write_text(phase)
        (plain.folder / "signal").write_text(signum)
        launch = plain.launch(SCENARIO, POINTS[1])
        assert messages_of(launch.fail()), phase
        assert not list(launch.staging.rglob("run.json")), phase
    (plain.folder / "phase").write_text("none")
    launch = plain.launch(SCENARIO, POINTS[1])
    launch.finish()
    assert (launch.staging / POINTS[1] / "run.json").exists()


def test_rank_that_ends_by_itself_is_named_by_the_others(plain):
    # As in the launches of a site whose launcher lets the others go on.
    fault = "if here[:2] == (2, 1): os._exit(1)"
    inject(plain, "benchmark.driver", BEFORE_EPOCH.format(fault=fault))
    options = ["-disable-auto-cleanup"]
    output = plain.launch(SCENARIO, *POINTS, options=options).fail()
    (line,) = messages_of(output)
    assert line.startswith(f"tierscope: rank 2 of 4 on {NODE} is gone")
    assert line.endswith("Found in epoch 2 of 2 at cache rate 0 %.")


def test_foreign_directory_is_not_used_as_local_file_system(plain):
    precious = plain.folder / "scratch" / "lfs" / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    launch = plain.launch(SCENARIO, POINTS[0])
    assert "holds 'precious' but no marker" in launch.end()
    assert launch.process.returncode != 0
    assert precious.read_text() == "mine"


# ---- the command that a user types ---------------------------------------------------


def assert_runs_are_whole(project):
    """Assert that all three runs have read every file once an epoch."""
    runs = sorted(project.path("runs", SCENARIO).rglob("file_records.parquet"))
    assert len(runs) == 3
    for run in runs:
        records = read_table(run, "file_records")
        assert (records.groupby("epoch")["opens"].sum() == 32).all()
        assert (records.groupby("epoch")["bytes_read"].sum() == 32 * 4096).all()
    assert not (project.folder / "scratch" / "lfs").exists()


@pytest.mark.parametrize("victim", ["mpiexec", "snakemake", "everybody"])
def test_killed_job_is_finished_by_the_next_start(plain, victim):
    audits = plain.audits_of(SCENARIO, 0, 50, 100)
    hold(plain, 1, cache_rate_percent=50)
    running = plain.start(*audits)
    wait_for_text(running.stdout, "point 2 of 3")
    if victim == "everybody":  # Ctrl-C reaches all processes of the terminal
        os.killpg(running.pid, signal.SIGINT)
        running.communicate(timeout=HANG_S)
        wait_until_idle(plain.folder)
        assert not (plain.folder / "scratch" / "lfs").exists()
    else:
        os.kill(pid_of(plain.folder, victim), signal.SIGKILL)
    let_go(plain)
    if victim != "snakemake":  # of a killed one, the benchmark is still running
        running.communicate(timeout=HANG_S)
    if victim == "mpiexec":  # the launch has moved what it had finished
        runs = plain.path("runs").rglob("run.json")
        assert [path.parts[-3] for path in runs] == ["cache-000"]
    output = plain.snakemake(*audits)
    running.communicate(timeout=HANG_S)
    assert running.returncode != 0
    assert "cache rate 0 %, repetition 0" not in output
    assert_runs_are_whole(plain)


def test_failing_rank_ends_the_job_with_its_message(plain):
    (victim,) = (plain.folder / "scratch").rglob("0000017.tfrecord")
    victim.unlink()
    output = plain.snakemake(*plain.audits_of(SCENARIO, 0), expect=1)
    assert "failed in epoch 1 of 2 at cache rate 0 %" in output
    assert "0000017.tfrecord" in output
    wait_until_idle(plain.folder)
    assert not (plain.folder / "scratch" / "lfs").exists()
    assert not list(plain.path("runs").glob("*/cache-*/rep-0/*"))


def test_second_snakemake_on_the_same_experiment_is_refused(plain):
    audits = plain.audits_of(SCENARIO, 0)
    running = plain.start(*audits)
    wait_for_log(plain, "point 1 of")
    running.send_signal(signal.SIGSTOP)  # so that it cannot end before
    output = plain.snakemake(*audits, expect=1)
    assert "wait until it has ended" in output
    running.send_signal(signal.SIGTERM)
    running.send_signal(signal.SIGCONT)
    running.communicate(timeout=HANG_S)
    assert running.returncode == 1


def test_second_experiment_on_the_same_gfs_is_told_who_works_there(plain):
    other = Lease(
        plain.folder / "scratch" / "gfs" / ".tierscope.lease",
        "snakemake of experiment other in /elsewhere",
    )
    other.take()
    output = plain.snakemake(*plain.audits_of(SCENARIO, 0), expect=1)
    assert "snakemake of experiment other in /elsewhere (process" in output
    assert "wait until it has ended" in output
    other.give_back()
    plain.snakemake(*plain.audits_of(SCENARIO, 0))
    assert other.holder() is None


def test_terminated_snakemake_ends_while_it_finishes_a_job(plain):
    plain.profile = "none"  # whose log says so
    running = plain.start(*plain.audits_of(SCENARIO, 0), "--cores", "2")
    # The lock of its scheduler is held.
    wait_for_text(running.stdout, "Updating checkpoint dependencies")
    for _ in range(20):
        running.send_signal(signal.SIGTERM)
    running.communicate(timeout=HANG_S)
    assert running.returncode == 1


def test_dry_run_refuses_a_root_that_all_users_may_change_as_a_start_does(plain):
    runs = next(plain.path("runs").iterdir()).name
    targets = plain.audits_of(runs, 0)
    (gfs := plain.folder / "scratch" / "gfs").chmod(0o777)
    line = (
        f"{gfs}: all users may replace what it holds (mode 0777, without sticky bit): "
    )
    for options in (["--dry-run"], []):
        output = plain.snakemake(*targets, *options, expect=1)
        assert f"{line}chmod o-w {gfs}" in output


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            "training={epochs: x}",
            "training.epochs: got 'x', expected integer from 1 to",
        ),
        ("sytem=tiny", "got unknown key sytem, expected some of experiment, system"),
    ],
)
def test_wrong_configuration_stops_before_anything_runs(tmp_path, setting, words):
    project = Project(tmp_path)
    output = project.snakemake("--config", setting, expect=1)
    assert words in output
    assert not (project.folder / "scratch").exists()


def test_darshan_runtime_that_is_not_there_is_named(plain):
    plain.change("config/tiny.yaml", {"darshan": {"runtime": "/no/libdarshan.so"}})
    output = plain.snakemake(*plain.audits_of(SCENARIO, 0), expect=1)
    assert "/no/libdarshan.so" in output
    assert "Traceback" not in output


def test_scratch_that_is_purged_in_part_is_made_again_as_it_was(plain):
    target = "results/tiny/tables/io_time.parquet"
    table = plain.folder / target
    only = {"datasets": ["tiny"], "n_osts": [0], "loaders": ["posix"]}
    sweep = only | {"cache_rates_percent": [0, 50, 100]}
    plain.change("config/tiny.yaml", {"sweep": sweep})
    plain.snakemake(target)
    before, runs = read_table(table, "io_time"), plain.path("runs", SCENARIO)
    kept = {path: path.stat().st_mtime_ns for path in runs.rglob("run.json")}
    purged = [
        table,
        runs / POINTS[0] / "log.darshan",  # of a run that is measured again
        runs / POINTS[1] / "io_time.parquet",
        runs / POINTS[2] / "audit.json",
        *plain.path("logs").rglob("*.log"),
    ]
    for path in purged:
        path.unlink()
    output = plain.snakemake(target)
    assert "1 point to measure" in output
    again = read_table(table, "io_time")
    is_kept = before["cache_rate_percent"] > 0
    assert again[is_kept].equals(before[is_kept])
    assert again["operations"].equals(before["operations"])
    assert all(path.exists() for path in purged[:4])
    changed = {one for one, then in kept.items() if one.stat().st_mtime_ns != then}
    assert changed == {runs / POINTS[0] / "run.json"}


# ---- audits --------------------------------------------------------------------------


@pytest.fixture
def strict(plain):
    """Return a project of one point, and a function that lets its audit fail."""
    plain.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [0],
                "loaders": ["posix"],
                "cache_rates_percent": [50],
            },
        },
    )
    path = plain.folder / "workflow/scripts/tierscope/audit/run.py"
    text = path.read_text()
    limit = '    limit = n_readers * (1 + limits["io_time_tolerance_percent"] / 100)\n'
    assert text.count(limit) == 1

    def be_strict(is_strict):
        path.write_text(text.replace(limit, "    limit = 0\n") if is_strict else text)

    return plain, be_strict


TABLE = "results/tiny/tables/breakdown.parquet"


def test_failed_audit_stops_what_depends_on_it_and_is_not_forgotten(strict):
    project, be_strict = strict
    be_strict(True)
    output = project.snakemake(TABLE, expect=1)
    assert "audit failed" in output
    assert "expected at most 0.000" in output
    assert not project.path("tables").exists()
    be_strict(False)
    project.snakemake(TABLE)
    be_strict(True)
    for _ in range(2):  # of a finished run
        output = project.snakemake(TABLE, expect=1)
        assert "audit failed" in output
        assert "Remove the cause, then the same command continues." in output
    be_strict(False)
    output = project.snakemake(TABLE)
    assert "Measuring" not in output
    assert len(list(project.path("runs").rglob("audit.json"))) == 1


def test_failure_without_our_profile_says_how_to_go_on(strict):
    project, be_strict = strict
    project.profile = "none"
    start = (TABLE, "--cores", "2")
    project.snakemake(*start)
    be_strict(True)
    output = project.snakemake(*start, expect=1)
    assert "Error in rule audit_run_1" in output
    assert "the same command with --rerun-incomplete (the" in output
    be_strict(False)
    output = project.snakemake(*start, "--rerun-incomplete")
    assert "Measuring" not in output
