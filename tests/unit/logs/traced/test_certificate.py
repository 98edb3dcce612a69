"""Where a traced command's bytes came from, by what the kernel counted."""

import numpy as np
import pytest
from tierscope.core.certificate import NO, NOT_MEASURED, YES
from tierscope.core.machine import BLOCK_DEVICE, MEMORY, SERVER
from tierscope.logs.traced.certificate import (
    ProcessReads,
    bytes_by_file_system,
    bytes_statement,
)
from tierscope.storage.mounts import mount_of
from tierscope.storage.page_cache import told_by

DISK, RAM = (BLOCK_DEVICE, "ext4"), (MEMORY, "tmpfs")
NFS, GPFS = (SERVER, "nfs4"), (None, "gpfs")


@pytest.mark.parametrize(
    ("reads", "answer", "verdict"),
    [
        ([({DISK: 100}, 95)], YES, "Device"),
        ([({DISK: 100}, 400)], YES, "Device"),
        ([({DISK: 100}, 94)], NO, "Mixed:"),
        ([({DISK: 100}, 0)], NO, "Page cache"),
        ([({RAM: 100}, 0)], NO, "Page cache"),
        ([({DISK: 50, RAM: 50}, 50)], NO, "Mixed"),
        ([({DISK: 99, RAM: 1}, 99)], YES, "Device"),
        # One process may read ahead for another.
        ([({DISK: 50}, 100), ({DISK: 50}, 0)], YES, "Device"),
        # What devices read for a process without a read on one is of other files.
        ([({DISK: 50}, 0), ({RAM: 50}, 100)], NO, "Page cache"),
        ([({NFS: 100}, 0)], NOT_MEASURED, "Unknown"),
        ([({GPFS: 100}, 100)], NOT_MEASURED, "Unknown"),
        ([({DISK: 50, GPFS: 50}, 0)], NO, "Mixed or page cache"),
        ([({DISK: 50, GPFS: 50}, 50)], NOT_MEASURED, "Unknown"),
        # The kernel counts NFS as if it were a device.
        ([({DISK: 90, NFS: 10}, 90)], NOT_MEASURED, "Unknown"),
        # A killed process does not tell.
        ([({DISK: 98}, 98), ({DISK: 2}, None)], YES, "Device"),
        ([({DISK: 50}, 50), ({DISK: 50}, None)], NOT_MEASURED, "Unknown"),
        ([({DISK: 98}, 0), ({DISK: 2}, None)], NO, "Page cache"),
        # So do page faults of mappings, which are no calls.
        ([({DISK: 100}, 100, 50)], NOT_MEASURED, "Unknown"),
        ([({DISK: 100}, 0, 50)], NO, "Page cache"),
        ([({}, 0)], NOT_MEASURED, "No traced call"),
        ([], NOT_MEASURED, "No traced call"),
    ],
)
def test_verdict_is_what_the_counters_allow(reads, answer, verdict):
    found = bytes_statement([ProcessReads(*one) for one in reads])
    assert found.answer == answer, found.words
    assert found.words.startswith(verdict)


def test_words_say_how_it_was_told():
    reads = [
        ProcessReads({DISK: 2048, RAM: 10, NFS: 1024}, 512, 4096),
        ProcessReads({DISK: 1}, None),
    ]
    assert bytes_statement(reads).words == (
        "Mixed or page cache: 2.001 KiB on ext4, 1 KiB on nfs4 (it has no counter of a "
        "process), 10 B on tmpfs (memory) were read; since the first of these calls, "
        "block devices have read 512 B for the processes. 1 process was killed and "
        "does not tell what devices read. 4 KiB were mapped, whose reads are no calls."
    )


def test_bytes_are_those_of_the_file_system_of_the_folder(tmp_path):
    (tmp_path / "link").symlink_to("/proc")
    paths = [f"{tmp_path}/a", f"{tmp_path}/gone/b", f"{tmp_path}/link/c", "/proc/none"]
    here, proc = (
        (told_by(one), one.fs_type) for one in map(mount_of, (tmp_path, "/proc"))
    )
    found = bytes_by_file_system([*map(str.encode, paths)], np.array([1, 2, 4, 0]))
    assert found == {here: 3, proc: 4}
