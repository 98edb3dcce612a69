"""What leaves the page cache of a node before a program runs, and what stays."""

import math
import os

import numpy as np
import pytest
import tierscope.benchmark.programs.page_cache as page_cache
from tierscope.benchmark.programs.page_cache import begin_run, drop_file, drop_files
from tierscope.core.machine import BLOCK_DEVICE, MEMORY
from tierscope.storage.mounts import mount_of
from tierscope.storage.page_cache import residency, told_by


@pytest.fixture
def paths(tmp_path, monkeypatch):
    """Files on a block device, whose pages are resident."""
    if told_by(mount_of(tmp_path)) != BLOCK_DEVICE:
        pytest.skip("pytest's temporary folder is not on a block device")
    monkeypatch.setattr(page_cache, "drop_names", lambda: True)
    paths = [str(tmp_path / f"{i:03d}") for i in range(100)]
    for path in paths:
        with open(path, "wb") as file:
            file.write(os.urandom(8192))
    return paths


def begin(tmp_path, paths, *, cold):
    files = {"gfs": paths[:50], "lfs": paths[50:]}
    return begin_run({"gfs": tmp_path, "lfs": tmp_path}, files, cold=cold)


def test_cold_run_begins_without_pages(tmp_path, paths):
    assert begin(tmp_path, paths, cold=True) == {
        "gfs_resident_percent": 0,
        "lfs_resident_percent": 0,
        "names_dropped": True,
    }
    assert residency(paths).resident == 0


def test_warm_run_keeps_all_pages(tmp_path, paths):
    assert begin(tmp_path, paths, cold=False) == {
        "gfs_resident_percent": 100,
        "lfs_resident_percent": 100,
        "names_dropped": False,
    }


def test_sample_of_an_epoch_is_of_the_files_of_each_tier(tmp_path, paths):
    names = [os.path.basename(path) for path in paths]
    on_lfs = np.arange(100) >= 50
    folders = {"gfs": str(tmp_path), "lfs": str(tmp_path)}
    drop_files(paths[50:])
    found = page_cache.look_at_epoch(folders, names, ~on_lfs, on_lfs)
    assert found == {"gfs": 100, "lfs": 0}
    none = page_cache.look_at_epoch(folders, names, np.zeros(100, bool), on_lfs)
    assert math.isnan(none["gfs"])


def test_files_that_are_cold_are_not_opened_again(tmp_path, paths, monkeypatch):
    drop_files(paths)
    monkeypatch.setattr(page_cache, "drop_files", lambda paths: pytest.fail("dropped"))
    assert begin(tmp_path, paths, cold=True)["gfs_resident_percent"] == 0


def test_files_whose_pages_nobody_may_look_at_are_dropped(tmp_path, paths, monkeypatch):
    monkeypatch.setattr("tierscope.storage.page_cache.os.geteuid", lambda: -1)
    monkeypatch.setattr("tierscope.storage.page_cache.os.access", lambda *_: False)
    assert math.isnan(begin(tmp_path, paths, cold=True)["lfs_resident_percent"])
    monkeypatch.undo()
    assert residency(paths).resident == 0


def test_files_in_memory_are_not_looked_at(tmp_path, paths, monkeypatch):
    monkeypatch.setattr("tierscope.storage.page_cache.told_by", lambda _: MEMORY)
    monkeypatch.setattr(page_cache, "drop_files", lambda paths: pytest.fail("dropped"))
    assert math.isnan(begin(tmp_path, paths, cold=True)["gfs_resident_percent"])


def test_one_file_is_dropped_by_its_path(paths):
    assert drop_file(paths[0])
    assert residency(paths[:2]).resident == 2
    assert drop_file("/absent")


def test_files_that_cannot_be_opened_are_counted(paths, monkeypatch):
    def refuse(some):
        if some[0] in paths[:3]:
            raise PermissionError(13, "Permission denied", some[0])

    monkeypatch.setattr(page_cache, "drop_pages", refuse)
    assert drop_files(paths) == 3
