"""Counters of devices and servers, and the pages of this kernel's cache."""

import errno
import math
import os
from pathlib import Path

import pytest
from tierscope.core.files import write_back
from tierscope.core.machine import BLOCK_DEVICE, MEMORY, RESIDENT_PAGES, SERVER
from tierscope.storage.mounts import Mount, mount_of
from tierscope.storage.page_cache import (
    Residency,
    device_bytes,
    drop_pages,
    lustre_bytes,
    nfs_bytes,
    residency,
    told_by,
)

MOUNTSTATS = """\
device /dev/vda mounted on / with fstype ext4
device server:/export mounted on /mnt/data with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\tbytes:\t1000 0 0 0 600 0 3 0
device server:/other mounted on /mnt/other with fstype nfs4 statvers=1.1
\tbytes:\t1 2 3 4 5 6 7 8
"""
OSC = """\
snapshot_time             1700000000.000000000 secs.nsecs
read_bytes                12 samples [bytes] 4096 1048576 {} 99
write_bytes               3 samples [bytes] 1 2 5 9
"""


@pytest.fixture
def on_disk(tmp_path):
    """A folder on a block device."""
    if told_by(mount_of(tmp_path)) != BLOCK_DEVICE:
        pytest.skip("pytest's temporary folder is not on a block device")
    return tmp_path


def file_of(folder: Path, name: str, n_pages: int) -> str:
    path = folder / name
    path.write_bytes(os.urandom(n_pages * os.sysconf("SC_PAGESIZE")))
    return str(path)


@pytest.mark.parametrize(
    ("fs_type", "told"),
    [
        ("ext4", BLOCK_DEVICE),
        ("tmpfs", MEMORY),
        ("nfs4", SERVER),
        ("lustre", SERVER),
        ("fuse.glusterfs", RESIDENT_PAGES),
        ("ceph", RESIDENT_PAGES),
        ("zfs", None),
        ("gpfs", None),
        ("fusectl", None),
    ],
)
def test_file_systems_tell_in_different_ways(fs_type, told):
    assert told_by(Mount("/mnt", fs_type, "source", "rw", (0, 1))) == told


def test_bytes_of_devices_are_those_of_the_kernel():
    text = "rchar: 9\nwchar: 8\nsyscr: 1\nread_bytes: 4096\nwrite_bytes: 0\n"
    assert device_bytes(text) == 4096


def test_bytes_of_an_nfs_server_are_those_of_the_mount():
    assert nfs_bytes(MOUNTSTATS, "/mnt/data") == 600
    assert nfs_bytes(MOUNTSTATS, "/mnt/other") == 5
    assert nfs_bytes(MOUNTSTATS, "/") is None


def test_bytes_of_lustre_are_summed_over_the_osts_of_the_mount(tmp_path):
    for name, n_bytes in (
        ("scratch-OST0000-osc-ffff", 100),
        ("scratch-OST0001-osc-ffff", 20),
        ("home-OST0000-osc-ffff", 7),
    ):
        folder = tmp_path / "osc" / name
        folder.mkdir(parents=True)
        (folder / "stats").write_text(OSC.format(n_bytes))
    assert lustre_bytes(tmp_path, "10.0.0.1@tcp:/scratch") == 120
    assert lustre_bytes(tmp_path, "10.0.0.1@tcp:/absent") is None


def test_residency_follows_reading_and_dropping(on_disk):
    path = file_of(on_disk, "file", 8)
    write_back(on_disk)
    assert residency([path]) == Residency(8, 8)
    drop_pages([path])
    assert residency([path]) == Residency(0, 8)
    Path(path).read_bytes()
    assert residency([path]) == Residency(8, 8)


def test_dropping_writes_back_first(on_disk):
    path = file_of(on_disk, "dirty", 4)
    drop_pages([path])
    assert residency([path]).percent == 0


def test_residency_leaves_out_what_is_gone_or_empty(on_disk):
    (on_disk / "empty").touch()
    found = residency([str(on_disk / "absent"), str(on_disk / "empty")])
    assert math.isnan(found.percent)
    drop_pages([str(on_disk / "absent")])


def test_residencies_add_up():
    assert Residency(1, 4) + Residency(3, 4) == Residency(4, 8)
    assert (Residency(1, 4) + Residency(3, 4)).percent == 50


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EROFS])
def test_file_system_that_writes_nothing_back_drops_all_the_same(
    on_disk, monkeypatch, number
):
    path = file_of(on_disk, "file", 8)
    write_back(on_disk)

    def refuse(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tierscope.storage.page_cache.os.fdatasync", refuse)
    drop_pages([path])
    assert residency([path]) == Residency(0, 8)
