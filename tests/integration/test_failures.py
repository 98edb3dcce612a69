"""What users meet when something goes wrong: one clear error, nothing lost."""

import os
import signal
import time
from pathlib import Path

import pytest
import yaml
from sessions import processes_in
from tierscope.tables import read_table

TINY_SYSTEM = "resources/systems/tiny.yaml"


def wait_for_text(stream, text):
    """Read lines of a running command until one holds the text; return them."""
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError("".join(lines))


def wait_for_log(project, text, timeout_s=100):
    """Wait until the log of a launch of a running project holds a text."""
    end = time.monotonic() + timeout_s
    logs = project.path("logs", "run_benchmark")
    while not any(text in log.read_text() for log in logs.rglob("*.log")):
        assert time.monotonic() < end, f"no {text!r} in {logs}"
        time.sleep(0.05)


def wait_until_idle(folder, timeout_s=30):
    """Wait until no process works in the folder."""
    end = time.monotonic() + timeout_s
    while processes_in(folder):
        assert time.monotonic() < end, processes_in(folder)
        time.sleep(0.1)


def pid_of(folder, name):
    """Return the process id of the command of this name that works in a folder."""
    (pid,) = (
        pid
        for pid, command in processes_in(folder).items()
        if name in [os.path.basename(word) for word in command.split()[:2]]
    )
    return pid


@pytest.mark.parametrize("victim", ["mpiexec", "snakemake"])
def test_killed_job_is_finished_by_the_next_start(fresh, victim):
    running = fresh.start("audits")
    wait_for_text(running.stdout, "point 2 of 3")
    os.kill(pid_of(fresh.folder, victim), signal.SIGKILL)
    # At once: of a killed snakemake, the benchmark is still running.
    output = fresh.snakemake("audits")
    running.communicate(timeout=60)
    assert running.returncode != 0
    assert "cache rate 0 %, repetition 0" not in output
    runs = sorted(fresh.path("runs").rglob("file_records.parquet"))
    assert len(runs) == 3
    for run in runs:
        records = read_table(run, "file_records")
        assert (records.groupby("epoch")["opens"].sum() == 32).all()
        assert (records.groupby("epoch")["bytes_read"].sum() == 32 * 4096).all()
    assert not (fresh.folder / "scratch" / "lfs").exists()


def test_terminated_job_empties_the_local_file_systems(fresh):
    running = fresh.start("audits")
    wait_for_text(running.stdout, "point 2 of 3")
    lfs = fresh.folder / "scratch" / "lfs"
    assert lfs.exists()
    os.kill(pid_of(fresh.folder, "mpiexec"), signal.SIGTERM)
    output, _ = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "Terminated: SIGTERM" in output
    assert "Traceback" not in output
    wait_until_idle(fresh.folder)
    assert not lfs.exists()


def ranks_of(folder):
    """Return {rank: pid} of the benchmark's processes of a project."""
    found = {}
    for pid, command in processes_in(folder).items():
        if "run_benchmark.py" not in command or "python" not in command.split()[0]:
            continue
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        for variable in variables:
            if variable.startswith(b"PMI_RANK="):
                found[int(variable.split(b"=")[1])] = pid
    return found


def messages_of(output):
    """Return our messages, of which Snakemake shows the log again."""
    lines = map(str.strip, output.splitlines())
    return {line for line in lines if line.startswith("tierscope:")}


def shared_memory():
    """Return what a launch of this project or MPI may leave in shared memory."""
    prefixes = ("tierscope-", "mpich_")
    return {name for name in os.listdir("/dev/shm") if name.startswith(prefixes)}


def segments_of(pid):
    """Return the shared memory that a process has mapped."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return {name for name in shared_memory() if f"/dev/shm/{name}" in maps}


@pytest.mark.parametrize(
    ("signum", "rank", "words"),
    [
        (signal.SIGKILL, 0, "tierscope: rank 0 of 4 on {} is gone"),
        (signal.SIGKILL, 3, "tierscope: rank 3 of 4 on {} is gone"),
        (signal.SIGTERM, 2, "tierscope: rank 2 of 4 on {} failed: Terminated: SIGTERM"),
        (signal.SIGINT, 0, "tierscope: rank 0 of 4 on {} failed: Terminated: SIGINT"),
        (signal.SIGINT, None, "of 4 on {} failed: Terminated: SIGINT"),
        (signal.SIGKILL, None, None),  # nobody hears the keeper
    ],
)
def test_killed_rank_or_launcher_ends_the_launch_and_leaves_nothing(
    fresh, signum, rank, words
):
    running = fresh.start("audits")
    wait_for_text(running.stdout, "point 2 of 3")
    wait_for_log(fresh, "epoch 1 of 2")
    ranks = ranks_of(fresh.folder)
    segments = set().union(*map(segments_of, ranks.values()))
    assert segments
    victim = pid_of(fresh.folder, "mpiexec") if rank is None else ranks[rank]
    start = time.monotonic()
    os.kill(victim, signum)
    output, _ = running.communicate(timeout=60)
    wait_until_idle(fresh.folder)
    assert time.monotonic() - start < 30  # 10 s, on a busy machine
    assert running.returncode != 0
    assert "Traceback" not in output
    if words:
        (line,) = messages_of(output)
        assert words.format(os.uname().nodename) in line
    assert not (fresh.folder / "scratch" / "lfs").exists()
    assert not segments & shared_memory()


def test_rank_that_ends_by_itself_is_named_by_the_others(fresh):
    # As in the launches of a site whose launcher lets the others go on.
    system = yaml.safe_load((fresh.folder / TINY_SYSTEM).read_text())
    job = {"launcher": "mpiexec -disable-auto-cleanup"}
    fresh.change(TINY_SYSTEM, {"job": system.get("job", {}) | job})
    epoch = fresh.folder / "workflow/scripts/tierscope/driver.py"
    text = epoch.read_text()
    called = "        files = self._files(point, epoch, on_lfs)\n"
    assert text.count(called) == 1
    ends = "        if epoch and self.processes.rank == 2: os._exit(1)\n"
    epoch.write_text(text.replace(called, ends + called))
    output = fresh.snakemake("audits", expect=1)
    name = f"rank 2 of 4 on {os.uname().nodename} is gone"
    (line,) = messages_of(output)
    assert line.startswith(f"tierscope: {name}")
    assert line.endswith("Found in epoch 2 of 2 at cache rate 0 %.")
    wait_until_idle(fresh.folder)
    assert not (fresh.folder / "scratch" / "lfs").exists()


def test_failing_rank_ends_the_job_with_its_message(fresh):
    fresh.snakemake("--until", "generate_dataset")
    (victim,) = (fresh.folder / "scratch").rglob("0000017.tfrecord")
    victim.unlink()
    output = fresh.snakemake(expect=1)
    assert "failed in epoch 1 of 2 at cache rate 0 %" in output
    assert "0000017.tfrecord" in output
    wait_until_idle(fresh.folder)
    assert not (fresh.folder / "scratch" / "lfs").exists()
    assert not list(fresh.path("runs").glob("*/cache-*/rep-0/*"))


def test_foreign_directory_is_not_used_as_local_file_system(fresh):
    precious = fresh.folder / "scratch" / "lfs" / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    output = fresh.snakemake(expect=1)
    assert "holds 'precious' and no marker" in output
    assert precious.read_text() == "mine"


@pytest.fixture
def strict(fresh):
    """Return a function that lets all audits fail, or pass again."""
    path = fresh.folder / "workflow/scripts/tierscope/audit.py"
    text = path.read_text()
    limit = '    limit = 1 + limits["io_time_tolerance_percent"] / 100\n'
    assert text.count(limit) == 1

    def be_strict(is_strict):
        path.write_text(text.replace(limit, "    limit = 0\n") if is_strict else text)

    return be_strict


def test_failed_audit_stops_what_depends_on_the_run(fresh, strict):
    strict(True)
    output = fresh.snakemake("fig2", expect=1)
    assert "audit failed" in output
    assert "expected at most 0.000" in output
    assert not fresh.path("figures").exists()
    assert not fresh.path("tables").exists()


def test_failed_audit_of_finished_runs_is_not_forgotten(fresh, strict):
    fresh.snakemake("fig2")
    strict(True)
    for _ in range(2):
        output = fresh.snakemake("fig2", expect=1)
        assert "audit failed" in output
        assert "Remove the cause, then the same command goes on." in output
    strict(False)
    output = fresh.snakemake("fig2")
    assert "Measuring" not in output
    assert len(list(fresh.path("runs").rglob("audit.json"))) == 3


def test_failure_without_our_profile_says_how_to_go_on(fresh, strict):
    fresh.profile = "none"
    start = ("fig2", "--cores", "2")
    fresh.snakemake(*start)
    strict(True)
    output = fresh.snakemake(*start, expect=1)
    assert "Error in rule audit_run" in output
    assert "the same command with --rerun-incomplete (the" in output
    output = fresh.snakemake(*start, "--rerun-incomplete", expect=1)
    assert "Error in rule audit_run" in output
    strict(False)
    output = fresh.snakemake(*start, "--rerun-incomplete")
    assert "Measuring" not in output


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            "training={epochs: x}",
            "training.epochs: got 'x', expected integer of at least 1",
        ),
        ("sytem=tiny", "got unknown key sytem, expected some of experiment, system"),
    ],
)
def test_wrong_configuration_stops_before_anything_runs(fresh, setting, words):
    output = fresh.snakemake("--config", setting, expect=1)
    assert words in output
    assert not (fresh.folder / "scratch").exists()


def test_second_snakemake_on_the_same_experiment_is_refused(fresh):
    running = fresh.start()
    wait_for_text(running.stdout, "point 1 of")
    running.send_signal(signal.SIGSTOP)  # so that it cannot end before
    output = fresh.snakemake(expect=1)
    assert "another snakemake is working on this experiment" in output
    running.send_signal(signal.SIGTERM)
    running.send_signal(signal.SIGCONT)
    running.communicate(timeout=300)
    assert running.returncode == 1


def test_terminated_snakemake_ends_while_it_finishes_a_job(fresh):
    fresh.profile = "none"  # whose log says so
    running = fresh.start("--cores", "2")
    wait_for_text(running.stdout, "Write-protecting")  # its scheduler's lock is held
    for _ in range(20):
        running.send_signal(signal.SIGTERM)
        time.sleep(0.001)
    running.communicate(timeout=300)
    assert running.returncode == 1


def test_darshan_runtime_that_is_not_there_is_named(fresh):
    fresh.change("config/tiny.yaml", {"darshan": {"runtime": "/no/libdarshan.so"}})
    output = fresh.snakemake("audits", expect=1)
    assert "/no/libdarshan.so" in output
    assert "Traceback" not in output
