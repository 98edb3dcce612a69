"""Copies of a user's files on an LFS: the difference, and nothing half-written."""

import errno
import json
import os
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tierscope.benchmark.programs.staging as staging
from tierscope.benchmark.programs.staging import StagedFiles
from tierscope.core.machine import TierError
from tierscope.data.listing import list_files
from tierscope.storage.lease import Holder
from tierscope.storage.local_folder import LocalStorage
from tierscope.storage.tier import COPYING_PREFIX

NAMES = ["a/1.png", "a/2.png", "b/c/3.png", "empty", "link"]
NONE, ALL = np.zeros(5, bool), np.ones(5, bool)


@pytest.fixture
def root(tmp_path):
    """A dataset of five files, one of them a link to another one elsewhere."""
    root = tmp_path / "gfs"
    for name in NAMES[:3]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "empty").touch()
    (tmp_path / "elsewhere").write_text("behind the link")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "a" / "1.png").chmod(0o440)
    os.utime(root / "a" / "1.png", ns=(5, 1_234_567_890_123_456_789))
    return root


def staged(root, launch="x"):
    manifest = pd.DataFrame(list_files(root, root.parent / "notes").columns())
    storage = LocalStorage(root.parent / "lfs" / "data", 0, 1, launch)
    files = StagedFiles(storage, "mine", root, manifest)
    files.claim()
    return files


def held(files):
    """Return the files that the LFS holds, with what they hold."""
    return {
        str(path.relative_to(files.folder)): path.read_text()
        for path in files.folder.rglob("*")
        if path.is_file()
    }


def left_over(files):
    return os.listdir(files.folder.with_name(f"{COPYING_PREFIX}mine"))


def test_dataset_that_holds_the_lfs_is_not_written_to(root):
    storage = LocalStorage(root / "lfs" / "data", 0, 1, "x")
    manifest = pd.DataFrame(list_files(root, root.parent / "notes").columns())
    before = sorted(os.listdir(root))
    with pytest.raises(TierError, match="expected two folders of which none holds"):
        StagedFiles(storage, "mine", root, manifest).claim()
    assert sorted(os.listdir(root)) == before


def test_wanted_files_are_copied_with_content_mode_and_time(root):
    files, reports = staged(root), []
    filled = files.fill(ALL, cold=True, report=lambda *n: reports.append(n))
    assert held(files) == {name: (root / name).read_text() for name in NAMES}
    assert not (files.folder / "link").is_symlink()
    state = os.stat(files.folder / "a" / "1.png")
    assert state.st_mode & 0o777 == 0o440
    assert state.st_mtime_ns == 1_234_567_890_123_456_789
    n_bytes = sum(len((root / name).read_text()) for name in NAMES)
    assert (filled.copied_files, filled.copied_bytes) == (5, n_bytes)
    assert filled.removed_files == 0
    assert filled.time_s > 0
    assert reports[-1] == (5, 5)
    assert left_over(files) == []


def test_only_the_difference_is_copied_and_removed(root):
    files = staged(root)
    files.fill(np.array([1, 1, 0, 0, 0], bool), cold=False)
    before = os.stat(files.folder / NAMES[1]).st_ino
    filled = files.fill(np.array([0, 1, 1, 0, 0], bool), cold=False)
    assert sorted(held(files)) == NAMES[1:3]
    assert os.stat(files.folder / NAMES[1]).st_ino == before
    assert (filled.copied_files, filled.removed_files) == (1, 1)
    assert files.fill(NONE, cold=False).removed_files == 2
    assert held(files) == {}


def test_copy_that_is_not_as_listed_is_made_again(root):
    files = staged(root)
    files.fill(ALL, cold=False)
    for name in NAMES[1:3]:
        (files.folder / name).write_text("damage!")  # of the same size
        os.utime(files.folder / name, ns=(0, 0))
    only_first_two = np.array([1, 1, 0, 0, 0], bool)
    filled = files.fill(only_first_two, cold=False)
    assert held(files) == {name: name for name in NAMES[:2]}
    assert (filled.copied_files, filled.removed_files) == (1, 3)


def test_lfs_that_keeps_whole_seconds_keeps_its_copies(root, monkeypatch):
    files, real = staged(root), os.utime

    def keep_seconds(path, ns):
        real(path, ns=tuple(one // 10**9 * 10**9 for one in ns))

    monkeypatch.setattr(staging.os, "utime", keep_seconds)
    files.fill(ALL, cold=False)
    assert files.fill(ALL, cold=False).copied_files == 0


def test_process_of_the_same_launch_keeps_the_copies_of_one_that_has_ended(root):
    files = staged(root)
    files.fill(ALL, cold=False)
    end_holder(files)
    again = staged(root)
    assert again.fill(ALL, cold=False).copied_files == 0


def test_other_launch_begins_with_an_empty_folder(root):
    files = staged(root)
    files.fill(ALL, cold=False)
    end_holder(files)
    assert held(staged(root, "y")) == {}


def end_holder(files):
    """Let the process that claimed the folder be one that has ended."""
    child = subprocess.Popen(["true"])
    child.wait()
    lease = files.folder.parents[2] / "node-00000.lease"
    dead = replace(Holder.this_process("launch x", "x"), pid=child.pid, started=1)
    lease.write_text(json.dumps(asdict(dead)))


def test_what_a_killed_process_was_copying_is_removed(root):
    files = staged(root)
    (files.folder.with_name(f"{COPYING_PREFIX}mine") / "3").write_text("half")
    files = staged(root)
    files.fill(ALL, cold=False)
    assert left_over(files) == []


def refusal(files, on_lfs=ALL):
    with pytest.raises(TierError) as error:
        files.fill(on_lfs, cold=False)
    assert "\n" not in str(error.value)
    assert left_over(files) == []
    return str(error.value)


def test_file_that_cannot_be_read_is_named_and_nothing_half_written_stays(
    root, monkeypatch
):
    files, real = staged(root), os.read

    def fail_at_its_end(descriptor, n_bytes):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("2.png"):
            if os.lseek(descriptor, 0, os.SEEK_CUR):
                raise OSError(errno.EIO, "Input/output error")
            return real(descriptor, 3)
        return real(descriptor, n_bytes)

    monkeypatch.setattr(staging.os, "read", fail_at_its_end)
    assert refusal(files) == (
        f"{root}/a/2.png: cannot be copied to {files.folder}/a/2.png: Input/output "
        "error."
    )
    assert "a/2.png" not in held(files)


def test_full_lfs_ends_the_other_copies(root, monkeypatch):
    files = staged(root)

    def refuse(descriptor, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(staging, "write_all", refuse)
    assert refusal(files).endswith(": No space left on device.")
    assert set(held(files)) <= {"empty"}


@pytest.mark.parametrize("change", ["longer", "touched", "replaced", "pipe"])
def test_file_that_has_changed_since_it_was_listed_is_named(root, change):
    files, path = staged(root), root / "a" / "2.png"
    state = os.stat(path)
    if change == "longer":
        path.write_text("longer than before")
        os.utime(path, ns=(0, state.st_mtime_ns))
    elif change == "touched":
        os.utime(path, ns=(0, state.st_mtime_ns - 1))
    else:
        path.unlink()
        path.mkdir() if change == "replaced" else os.mkfifo(path)
    assert refusal(files).startswith(f"{root}/a/2.png: has changed since the dataset")


def test_file_that_is_gone_is_named(root):
    files = staged(root)
    (root / "a" / "2.png").unlink()
    words = refusal(files)
    assert words.startswith(f"{root}/a/2.png: is no longer there since the dataset was")
    assert "take another name" in words


def test_signal_ends_all_copies(root, monkeypatch):
    class Terminated(BaseException):
        pass

    def end(*_):
        raise Terminated

    files = staged(root)
    with pytest.raises(Terminated):
        files.fill(ALL, cold=False, report=end)
    assert left_over(files) == []


def test_too_little_room_is_said_before_anything_is_copied(root, monkeypatch):
    files, real = staged(root), os.statvfs

    def small(path):
        state = list(real(path))
        state[1], state[4] = 4096, 3  # block size, free blocks
        return os.statvfs_result(state)

    monkeypatch.setattr(staging.os, "statvfs", small)
    message = refusal(files)  # four files of a block each
    assert message.startswith(f"{files.folder.parents[2]}: needs 16384 bytes for")
    assert message.endswith("but only 12288 are free.")
    assert held(files) == {}
    files.fill(np.array([1, 1, 1, 1, 0], bool), cold=False)
    assert len(held(files)) == 4


def test_room_of_removed_files_counts(root, monkeypatch):
    files = staged(root)
    files.fill(np.array([1, 1, 0, 0, 0], bool), cold=False)
    block = os.statvfs(files.folder).f_frsize
    difference = files.difference(np.array([0, 0, 1, 1, 0], bool))
    assert difference.copied.tolist() == [2, 3]
    assert difference.removed.tolist() == [0, 1]
    assert difference.claim[1] == -block


def test_too_few_inodes_are_said_before_anything_is_copied(root, monkeypatch):
    files, real = staged(root), staging.file_system
    monkeypatch.setattr(
        staging, "file_system", lambda path: replace(real(path), free_files=4)
    )
    assert "needs 5 files for a node, but only 4 are free." in refusal(files)


def test_names_as_long_as_the_system_allows_are_copied(tmp_path):
    root = tmp_path / "gfs"
    root.mkdir()
    (root / ("n" * 255)).write_text("long")
    files = staged(root)
    files.fill(np.ones(1, bool), cold=False)
    assert held(files) == {"n" * 255: "long"}


def test_dataset_is_only_read(root):
    before = {path: os.lstat(path) for path in sorted(Path(root).rglob("*"))}
    files = staged(root)
    files.fill(ALL, cold=True)
    files.fill(NONE, cold=True)
    after = {path: os.lstat(path) for path in sorted(Path(root).rglob("*"))}
    assert list(after) == list(before)
    assert [s.st_ctime_ns for s in after.values()] == [
        s.st_ctime_ns for s in before.values()
    ]
