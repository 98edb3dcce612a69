"""What a program did is kept from its end until its run is written."""

import errno
import os
import re
import shutil
import time

import pytest
from tierscope.benchmark.programs.ended.kept import (
    ended_program,
    mark_begun,
    mark_ended,
    meeting_folder,
    reserved,
)
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
