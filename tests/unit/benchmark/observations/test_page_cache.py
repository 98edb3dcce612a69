"""The page cache between the epochs of a launch: cold, warm and half dropped."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from descriptions import describe_run
from tierscope.analysis.page_cache import verdicts_of
from tierscope.benchmark.observations.page_cache import (
    SAMPLE_FILES,
    PageCache,
    files_below,
)
from tierscope.core.machine import BLOCK_DEVICE
from tierscope.data.tfrecord import generate_files
from tierscope.storage.mounts import mount_of
from tierscope.storage.page_cache import drop_pages, told_by

N_FILES, SIZE = 64, 128 * 1024


class OneProcess(SimpleNamespace):
    """The only process of a launch, which may not drop names."""

    leads_machine = True

    def barrier(self):
        """Wait for nobody."""

    def all_agree(self, value):
        """Return whether this process agrees."""
        return False


@pytest.fixture
def files(tmp_path):
    """A dataset's files on a block device."""
    if told_by(mount_of(tmp_path)) != BLOCK_DEVICE:
        pytest.skip("pytest's temporary folder is not on a block device")
    names = [f"s_{i:05d}.tfrecord" for i in range(N_FILES)]
    generate_files(tmp_path, names, range(N_FILES), SIZE)
    return files_below(tmp_path)


def epochs_of(files, *, cold: bool, n: int, between=lambda: None):
    """Return the verdicts on epochs that read all files, and the rows of the table."""
    run = describe_run(training={"cold": cold, "epochs": n})
    folder = Path(files[0]).parent
    cache = PageCache(run, OneProcess(), {"gfs": folder, "lfs": folder})
    rows = []
    for epoch in range(n):
        between()
        cache.begin_epoch({"gfs": files})
        for path in files:
            Path(path).read_bytes()
        rows.append({"epoch": epoch, **cache.end_epoch({"gfs": files})})
    run = describe_run(page_cache=cache.describe())
    read = [
        {"epoch": e, "io_class": "gfs_read", "bytes": N_FILES * SIZE} for e in range(n)
    ]
    table = verdicts_of(run, pd.DataFrame(rows), pd.DataFrame(read))
    return table.set_index("epoch"), pd.DataFrame(rows)


def test_cold_epochs_come_from_the_device(files):
    verdicts, rows = epochs_of(files, cold=True, n=3)
    assert (verdicts["verdict"] == "device").all()
    assert verdicts["device_percent"].between(97, 100).all()
    assert (rows["gfs_resident_percent"] == 0).all()


def test_warm_epochs_come_from_the_page_cache(files):
    verdicts, rows = epochs_of(files, cold=False, n=2)
    assert (verdicts["verdict"] == "page cache").all()
    assert verdicts["device_percent"].between(0, 3).all()
    assert (rows["gfs_resident_percent"] == 100).all()


def test_half_of_the_files_dropped_is_mixed(files):
    verdicts, _ = epochs_of(
        files, cold=False, n=2, between=lambda: drop_pages(files[::2])
    )
    assert (verdicts["verdict"] == "mixed").all()
    assert verdicts["device_percent"].between(45, 55).all()


def test_files_that_another_program_has_read_are_dropped_again(files):
    def read_all():
        for path in files:
            Path(path).read_bytes()

    verdicts, _ = epochs_of(files, cold=True, n=2, between=read_all)
    assert verdicts["device_percent"].between(97, 100).all()


def test_only_a_sample_is_opened_before_an_epoch(files, monkeypatch):
    opened = []
    monkeypatch.setattr(
        "tierscope.storage.page_cache.residency",
        lambda paths: opened.extend(paths) or _nothing(),
    )
    run = describe_run(training={"cold": True})
    folder = Path(files[0]).parent
    cache = PageCache(run, OneProcess(), {"gfs": folder, "lfs": folder})
    cache.begin_epoch({"gfs": files})
    assert len(opened) == SAMPLE_FILES
    assert {opened[0], opened[-1]} == {files[0], files[-1]}


def _nothing():
    from tierscope.storage.page_cache import Residency

    return Residency(0, 1)


def test_folder_that_is_gone_has_no_files(tmp_path):
    assert files_below(tmp_path / "absent") == []
