"""Slurm jobs that a killed snakemake left, with stand-ins for Slurm's commands."""

import os

import pytest
from tierscope.experiment import slurm
from tierscope.experiment.slurm import (
    SlurmError,
    cancel_forgotten_jobs,
    cancel_left_jobs,
    check_memory_of_ended_jobs,
)


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """Put stand-ins first on the path; return the folder of the queue's jobs."""
    queue, commands = tmp_path / "queue", tmp_path / "bin"
    queue.mkdir()
    commands.mkdir()
    for name, text in {
        "squeue": f"cd '{queue}'; for job in *; do echo \"$job $(cat $job)\"; done",
        "scancel": f'cd "{queue}"; rm "$@"',
        "scontrol": "echo 'MinJobAge               = '$AGE' sec'",
    }.items():
        command = commands / name
        command.write_text(f"#!/bin/sh\n{text}\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    monkeypatch.setattr(slurm, "_POLL_S", 0.01)
    return queue


def test_noted_and_marked_jobs_of_this_folder_are_cancelled(queue, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    for job in ("1", "2", "3"):
        (notes / job).touch()
    for job, folder in {
        "2": os.getcwd(),
        "3": "/elsewhere",
        "4": os.getcwd(),
        "5": os.getcwd(),
    }.items():
        (queue / job).write_text(folder)
    assert cancel_left_jobs(notes, ["4", "None"]) == ["2", "4"]
    assert sorted(os.listdir(queue)) == ["3", "5"]
    assert not list(notes.iterdir())


def test_forgotten_jobs_are_cancelled_and_stay_noted(queue, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    for job, folder in {"1": os.getcwd(), "2": "/elsewhere"}.items():
        (notes / job).touch()
        (queue / job).write_text(folder)
    cancel_forgotten_jobs(notes, [])
    assert os.listdir(queue) == ["2"]
    assert sorted(os.listdir(notes)) == ["1", "2"]


def test_nothing_is_asked_where_nothing_was_left(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert cancel_left_jobs(tmp_path / "none", []) == []


def test_job_that_does_not_end_is_named(queue, tmp_path, monkeypatch):
    (queue / "7").write_text(os.getcwd())
    (queue.parent / "bin" / "scancel").write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setattr(slurm, "_GONE_TIMEOUT_S", 0.1)
    with pytest.raises(
        SlurmError, match=r"Slurm jobs 7 of an earlier start do not end"
    ):
        cancel_left_jobs(tmp_path / "none", ["7"])


def test_slurm_that_cannot_be_asked_is_quoted(queue, tmp_path):
    (queue.parent / "bin" / "squeue").write_text("#!/bin/sh\necho no >&2; exit 3\n")
    with pytest.raises(SlurmError, match=r"squeue .*: exit code 3: no"):
        cancel_left_jobs(tmp_path / "none", ["7"])


def test_job_notes_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    slurm.note_job(str(tmp_path / "notes"))
    assert os.listdir(tmp_path / "notes") == ["12"]


@pytest.mark.parametrize(
    ("age", "fits"), [("300", True), ("180", False), ("60", False)]
)
def test_slurm_that_forgets_jobs_too_soon_is_refused(queue, monkeypatch, age, fits):
    monkeypatch.setenv("AGE", age)
    if fits:
        check_memory_of_ended_jobs()
    else:
        with pytest.raises(SlurmError, match=rf"after {age} s .*sacct"):
            check_memory_of_ended_jobs()
