"""What this machine says of its memory and file systems."""

import os
from pathlib import Path

import pytest
from tierscope.core.machine import TierError
from tierscope.storage import room
from tierscope.storage.mounts import Mount
from tierscope.storage.room import (
    FileSystem,
    _disk,
    check_memory,
    check_room,
    file_system,
    memory_bytes,
)


def mount(source, device):
    return Mount("/", "ext4", source, "rw", device)


def test_partitions_of_a_disk_are_the_same_device(tmp_path):
    disk = tmp_path / "devices" / "sda"
    for name in ("sda1", "sda2"):
        (disk / name).mkdir(parents=True)
        (disk / name / "partition").write_text("1\n")
    (tmp_path / "8:1").symlink_to(disk / "sda1")
    (tmp_path / "8:2").symlink_to(disk / "sda2")
    assert _disk(mount("/dev/sda1", (8, 1)), tmp_path) == "/dev/sda"
    assert _disk(mount("/dev/sda2", (8, 2)), tmp_path) == "/dev/sda"
    assert _disk(mount("server:/export", (0, 45)), tmp_path) == "server:/export"


def test_file_system_of_a_directory_that_is_not_there_yet(tmp_path):
    here = file_system(tmp_path / "a" / "b")
    state = os.statvfs(tmp_path)
    assert here.kind == file_system(tmp_path).kind != "unknown"
    assert 0 <= here.free_bytes <= state.f_blocks * state.f_frsize


def test_file_system_without_a_mount_is_unknown(tmp_path, monkeypatch):
    def fail(path):
        raise ValueError(path)

    known = file_system(tmp_path)
    monkeypatch.setattr(room, "mount_of", fail)
    here = file_system(tmp_path)
    assert here.kind == "unknown" != known.kind
    assert here.device == f"device {tmp_path.stat().st_dev}"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs /dev/shm")
def test_tmpfs_is_memory():
    assert file_system(Path("/dev/shm")).is_memory


def test_memory_is_at_most_the_limit_of_the_control_groups(tmp_path):
    machine = memory_bytes(tmp_path / "missing", tmp_path)
    assert machine > 1 << 20
    (tmp_path / "cgroup").write_text("4:memory:/old\n0::/user/job\n")
    job = tmp_path / "user" / "job"
    job.mkdir(parents=True)
    (job / "memory.max").write_text("max\n")
    assert memory_bytes(tmp_path / "cgroup", tmp_path) == machine
    (job.parent / "memory.max").write_text("1048576\n")
    assert memory_bytes(tmp_path / "cgroup", tmp_path) == 1048576


@pytest.mark.parametrize(
    ("kind", "memory", "n_bytes", "words"),
    [
        ("ext4", 4096, 0, r"got a directory on ext4, expected one in memory \(tmpfs\)"),
        ("tmpfs", 4096, 2049, "got room for 2 KiB, expected 2.001 KiB"),
        ("ramfs", 1024, 2048, "got room for 1 KiB, expected 2 KiB"),
        ("tmpfs", 4096, 2048, None),
        ("ramfs", 4096, 0, None),
    ],
)
def test_ideal_runs_need_a_directory_in_memory(
    monkeypatch, kind, memory, n_bytes, words
):
    found = FileSystem(kind, "memory", free_bytes=2048, free_files=9)
    monkeypatch.setattr(room, "file_system", lambda path: found)
    monkeypatch.setattr(room, "memory_bytes", lambda: memory)
    if words is None:
        return check_memory(Path("/m"), n_bytes)
    with pytest.raises(TierError, match=f"^ideal root /m: {words}"):
        check_memory(Path("/m"), n_bytes)


@pytest.mark.parametrize(
    ("free_bytes", "free_files", "fits"),
    [(2048, 100, True), (2047, 100, False), (2048, 99, False)],
)
def test_folder_without_room_for_a_run_is_refused(
    monkeypatch, free_bytes, free_files, fits
):
    found = FileSystem("ext4", "/dev/sda", free_bytes, free_files)
    monkeypatch.setattr(room, "file_system", lambda path: found)
    if fits:
        return check_room(Path("/m"), 2048, "logs")
    with pytest.raises(TierError, match=r"^/m: got room for .* 2 KiB and 100 "):
        check_room(Path("/m"), 2048, "logs")
