"""What users meet when something goes wrong: one clear error, nothing lost."""

import os
import signal
import time

import pytest
import yaml
from tierscope.tables import read_table


def processes_in(folder):
    """Return {pid: command line} of the benchmark's processes of this project."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == str(folder):
                with open(f"/proc/{pid}/cmdline") as file:
                    found[int(pid)] = file.read().replace("\0", " ")
        except OSError:
            continue
    return found


def wait_for_text(stream, text):
    """Read lines of a running command until one holds the text; return them."""
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError("".join(lines))


def wait_until_idle(folder, timeout_s=30):
    """Wait until no process works in the folder."""
    end = time.monotonic() + timeout_s
    while processes_in(folder):
        assert time.monotonic() < end, processes_in(folder)
        time.sleep(0.1)


def counts(project):
    """Return everything of the I/O time table that must not depend on time."""
    table = read_table(project.path("tables", "io_time.parquet"), "io_time")
    return table.drop(columns="time_s")


@pytest.mark.parametrize("victim", ["mpiexec", "snakemake"])
def test_killed_job_is_finished_by_the_next_start(fresh, finished, victim):
    running = fresh.start()
    wait_for_text(running.stdout, "point 2 of")
    (pid,) = (
        pid
        for pid, command in processes_in(fresh.folder).items()
        if f"/{victim} " in command.split(" -c ")[0] and "bash" not in command
    )
    os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=60)
    assert running.returncode != 0
    output = fresh.snakemake()
    assert "point 1 of 3: cache rate 0" not in output.split("1ost")[0]
    assert counts(fresh).equals(counts(finished))
    assert not (fresh.folder / "scratch" / "lfs").exists()


def test_terminated_job_empties_the_local_file_systems(fresh):
    running = fresh.start()
    wait_for_text(running.stdout, "point 2 of")
    lfs = fresh.folder / "scratch" / "lfs"
    assert lfs.exists()
    (pid,) = (
        pid
        for pid, command in processes_in(fresh.folder).items()
        if "/mpiexec " in command and "bash" not in command
    )
    os.kill(pid, signal.SIGTERM)
    output, _ = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "Terminated: SIGTERM" in output
    wait_until_idle(fresh.folder)
    assert not lfs.exists()


def test_failing_rank_ends_the_job_with_its_message(fresh):
    fresh.snakemake("--until", "generate_dataset")
    (victim,) = (fresh.folder / "scratch").rglob("*-1ost/0000017.tfrecord")
    victim.unlink()
    output = fresh.snakemake(expect=1)
    assert "failed in epoch 0 of cache rate 0 %" in output
    assert "0000017.tfrecord" in output
    wait_until_idle(fresh.folder)
    assert not (fresh.folder / "scratch" / "lfs").exists()
    assert not list(fresh.path("runs").glob("tiny-1ost*/cache-*/rep-0/*"))


def test_foreign_directory_is_not_used_as_local_file_system(fresh):
    precious = fresh.folder / "scratch" / "lfs" / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    output = fresh.snakemake(expect=1)
    assert "holds 'precious' and no marker" in output
    assert precious.read_text() == "mine"


def test_failed_audit_stops_what_depends_on_the_run(fresh):
    path = fresh.folder / "resources" / "systems" / "tiny.yaml"
    system = yaml.safe_load(path.read_text())
    system["emulation"] |= {"max_lateness_percent": 0, "attempts": 2}
    path.write_text(yaml.safe_dump(system))
    output = fresh.snakemake("fig2", expect=1)
    assert "machine too busy" in output
    assert "audit failed" in output
    assert "expected at most 0 %" in output
    assert not fresh.path("figures").exists()
    assert not fresh.path("tables").exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            "training={epochs: 0}",
            "training.epochs: got 0, expected integer of at least 1",
        ),
        ("darshan={runtime: /no/libdarshan.so}", "/no/libdarshan.so"),
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
    output = fresh.snakemake(expect=1)
    assert "another snakemake is working on this experiment" in output
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=120)
