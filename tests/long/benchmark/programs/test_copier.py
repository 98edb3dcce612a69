"""The process that copies files while a program reads."""

import errno
import os
import signal
import time
from pathlib import Path

import pandas as pd
import pytest
from sessions import HANG_S
from tierscope.benchmark.placement.actions import CHANGED
from tierscope.benchmark.programs.copier import Copier, Ended


@pytest.fixture
def make(tmp_path):
    """Return a function that makes a copier of three files."""
    folders = {name: tmp_path / name for name in ("gfs", "lfs", "copying", "links")}
    for folder in folders.values():
        folder.mkdir()
    names = ["train/a.bin", "train/bé\n.bin", "c.bin"]
    for name in names:
        path = folders["gfs"] / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name.encode() * 1000)
    states = [(folders["gfs"] / name).stat() for name in names]
    manifest = pd.DataFrame(
        {
            "path": names,
            "size_bytes": [one.st_size for one in states],
            "mtime_ns": [one.st_mtime_ns for one in states],
        }
    )
    made = []

    def make_one(cold=False):
        real = {name: str(folder) for name, folder in folders.items()}
        links = real.pop("links")
        copier = Copier(links, real, manifest, 2, cold=cold, environment=os.environ)
        made.append(copier)
        return copier

    yield make_one
    for copier in made:
        copier.close()


def test_name_of_the_nodes_folder_is_on_no_command_line(make, tmp_path):
    words = Path(f"/proc/{make().pid}/cmdline").read_bytes().split(b"\0")
    assert b"--copies" in words
    assert os.fsencode(tmp_path / "links") not in words


def all_ended(copier):
    """Return what all copies under way have ended with, by file."""
    ended, end_s = {}, time.monotonic() + HANG_S
    while copier.n_under_way and time.monotonic() < end_s:
        ended |= {one.file_id: one for one in copier.ended()}
        time.sleep(0.005)
    return ended


@pytest.mark.parametrize("cold", [False, True])
def test_copies_are_whole_and_named_by_epochs(make, tmp_path, cold):
    copier = make(cold)
    for file_id in range(3):
        copier.order(file_id, file_id % 2)
    assert copier.is_copied(2)
    assert all_ended(copier) == {i: Ended(i, i % 2) for i in range(3)}
    for path in (one for one in (tmp_path / "gfs").rglob("*") if one.is_file()):
        copy = tmp_path / "lfs" / path.relative_to(tmp_path / "gfs")
        assert copy.read_bytes() == path.read_bytes()
        assert copy.stat().st_mtime_ns == path.stat().st_mtime_ns
    links = {one.name: one.readlink().name for one in (tmp_path / "links").iterdir()}
    assert links == {
        f"{tier}.bg.ep{epoch}": {"gfs": "gfs", "lfs": "copying"}[tier]
        for tier in ("gfs", "lfs")
        for epoch in (0, 1)
    }
    copier.remove(0)
    assert not (tmp_path / "lfs" / "train" / "a.bin").exists()
    assert copier.close(HANG_S) == 0


def test_copy_that_fails_says_why_and_leaves_nothing(make, tmp_path):
    copier = make()
    (tmp_path / "gfs" / "c.bin").write_bytes(b"changed")
    (tmp_path / "gfs" / "train" / "a.bin").unlink()
    for file_id in (0, 2):
        copier.order(file_id, 0)
    ended = all_ended(copier)
    assert ended[0] == Ended(0, 0, "No such file or directory", errno.ENOENT)
    assert "has changed since the dataset was listed" in ended[2].error
    assert ended[2].number == CHANGED
    assert not any((tmp_path / "copying").iterdir())


def test_copies_of_a_process_that_was_killed_have_failed(make):
    copier = make()
    os.kill(copier.pid, signal.SIGKILL)
    while copier.status is None:
        time.sleep(0.005)
    copier.order(1, 0)
    assert all_ended(copier) == {1: Ended(1, 0, "the process that copies has ended")}
    assert copier.close() == -signal.SIGKILL


def test_full_file_system_is_told_from_other_errors(make, monkeypatch):
    copier = make()
    answers = [
        b'[0, [28, "No space left on device"]]',
        b'[1, [5, "Input/output error"]]',
    ]
    monkeypatch.setattr(copier, "_answers", lambda: answers)
    copier.order(0, 0)
    copier.order(1, 0)
    assert [one.number for one in copier.ended()] == [errno.ENOSPC, errno.EIO]
