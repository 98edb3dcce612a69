"""What a program did is kept from its end until its run is written."""

import errno
import os
import re
import shutil
import time

import numpy as np
import pytest
from stops import stopped
from tierscope.benchmark.programs.ended.kept import (
    ended_program,
    mark_begun,
    mark_ended,
    meeting_folder,
    reserved,
)
from tierscope.benchmark.programs.ended.results import read_notes
from tierscope.core.files import write_array, write_text
from tierscope.core.machine import TierError


def test_program_is_kept_from_its_end_on_until_its_folder_is_removed(
    tmp_path, monkeypatch
):
    shared = meeting_folder(tmp_path, "1-name")
    assert ended_program(tmp_path) is None
    shared.mkdir()
    mark_begun(shared, {"started": "now"})
    assert ended_program(tmp_path) is None
    monkeypatch.setattr(time, "time", lambda: 1000.5)
    mark_ended(shared)
    kept = ended_program(tmp_path)
    assert (kept.shared, kept.facts) == (shared, {"started": "now"})
    assert (kept.ended_s, kept.finished) == (1000.5, "1970-01-01T00:16:40+00:00")
    shutil.rmtree(shared)
    assert ended_program(tmp_path) is None


def test_notes_of_an_ended_program_are_whole_wherever_it_stops(tmp_path):
    shared = meeting_folder(tmp_path, "1-name")
    shared.mkdir()

    def run():
        mark_begun(shared, {"started": "now"})
        write_array(shared / "opens-0.npy", np.zeros((2, 6), int))
        write_text(shared / "node-0.json", '{"node": 0, "groups": [{}]}')
        mark_ended(shared)

    n_kept = 0
    for how, has_ended in stopped(tmp_path, run):
        if kept := ended_program(tmp_path):
            assert kept.facts == {"started": "now"}, how
            (note,) = read_notes(shared)
            assert note.opens.shape == (2, 6), how
        assert kept or not has_ended or "early" in how, how
        n_kept += bool(kept)
    assert n_kept == 1


def test_room_is_held_while_the_program_runs_and_free_afterwards(tmp_path):
    path = tmp_path / "room"
    with reserved(path, 1 << 16):
        assert path.stat().st_blocks * 512 >= 1 << 16
    assert not path.exists()


def test_disk_without_the_room_is_named_and_nothing_is_left(tmp_path, monkeypatch):
    def full(fd, offset, n_bytes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    words = f"{tmp_path}: got No space left on device, expected room for 64 KiB for"
    with (
        pytest.raises(TierError, match=re.escape(words)),
        reserved(tmp_path / "room-0", 1 << 16),
    ):
        pytest.fail("the program must not run")
    assert not list(tmp_path.iterdir())
