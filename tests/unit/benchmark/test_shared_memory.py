"""What launches leave in shared memory is removed, and nothing else."""

import os
from types import SimpleNamespace

import pytest
from tierscope.benchmark import shared_memory
from tierscope.benchmark.shared_memory import (
    full_memory_words,
    hold_note,
    note_segments,
    remove_what_killed_launches_left,
    segments_in,
)

MAPS = """\
55d0-55d1 r--p 00000000 08:01 131 /usr/bin/python3
7f00-7f01 rw-s 00000000 00:19 77 /dev/shm/mpich_shm_1d26a4bd_0
7f01-7f02 rw-s 00001000 00:19 77 /dev/shm/mpich_shm_1d26a4bd_0
7f02-7f03 rw-s 00000000 00:19 78 /dev/shm/mpich_shm_2e_1 (deleted)
7f03-7f04 rw-s 00000000 00:19 79 /dev/shm/tierscope-0-1-2.state
7f04-7f05 rw-p 00000000 00:00 0
7fff-8000 rw-p 00000000 00:00 0 [stack]
"""
LAUNCH = f"{os.getuid()}-12-abc"


def test_segments_are_those_of_mpich_that_are_still_there():
    assert segments_in(MAPS) == {"/dev/shm/mpich_shm_1d26a4bd_0"}


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """Return a folder in place of the shared memory, in which MPICH has two files."""
    monkeypatch.setattr(shared_memory, "_PREFIX", f"{tmp_path}/mpich_")
    for name in ("mpich_shm_1_0", "mpich_shm_2_0", "mine"):
        (tmp_path / name).touch()
    return tmp_path


def noted(memory, *names, launch=LAUNCH):
    """Note files of a launch; return the note, which is held."""
    note = hold_note(launch, memory)
    note_segments(note, [f"{memory}/{name}" for name in names])
    (memory / f"tierscope-{launch}.printed").touch()
    return note


def test_what_a_killed_launch_left_is_removed_and_nothing_of_others(memory):
    os.close(noted(memory, "mpich_shm_1_0", "mine"))
    remove_what_killed_launches_left(memory)
    assert sorted(os.listdir(memory)) == ["mine", "mpich_shm_2_0"]


def test_what_a_process_holds_stays(memory):
    note = noted(memory, "mpich_shm_1_0")
    before = sorted(os.listdir(memory))
    remove_what_killed_launches_left(memory)
    assert sorted(os.listdir(memory)) == before
    os.close(note)


def test_file_that_another_program_has_made_since_under_the_name_stays(memory):
    os.close(noted(memory, "mpich_shm_1_0"))
    (memory / "new").touch()
    (memory / "new").rename(memory / "mpich_shm_1_0")
    remove_what_killed_launches_left(memory)
    assert sorted(os.listdir(memory)) == ["mine", "mpich_shm_1_0", "mpich_shm_2_0"]


def test_other_users_notes_and_memory_that_cannot_be_written_stay(memory):
    os.close(noted(memory, "mpich_shm_1_0", launch="4711-12-abc"))
    remove_what_killed_launches_left(memory)
    assert (memory / "mpich_shm_1_0").exists()
    assert hold_note(LAUNCH, memory / "absent") is None
    note_segments(None, [f"{memory}/mine"])


@pytest.mark.parametrize(("n_blocks", "is_said"), [(0, True), (5, False)])
def test_full_memory_is_said(tmp_path, monkeypatch, n_blocks, is_said):
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=n_blocks))
    assert full_memory_words(tmp_path).startswith(f"{tmp_path} on ") == is_said
