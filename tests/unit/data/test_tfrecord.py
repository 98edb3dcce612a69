import errno
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import tierscope.data.tfrecord
from generate_dataset import generate
from sample_ids import read_sample_ids
from tierscope.benchmark.rank import Terminated
from tierscope.core.machine import Tier
from tierscope.core.scenario import Dataset
from tierscope.data.tfrecord import (
    DatasetError,
    SampleWriter,
    generate_dataset,
    generate_files,
    masked_crc32c,
)
from tierscope.storage.lease import NAME, LeaseError, held

SIZE = 4096
NAMES = [f"{i:07d}.tfrecord" for i in range(10)]


def test_file_is_one_valid_tfrecord_of_the_exact_size(tmp_path):
    path = tmp_path / "a.tfrecord"
    SampleWriter(SIZE).write(str(path), 7)
    content = path.read_bytes()
    assert len(content) == SIZE
    (length,) = struct.unpack("<Q", content[:8])
    assert length == SIZE - 16
    for data, crc in (
        (content[:8], content[8:12]),
        (content[12:-4], content[-4:]),
    ):
        assert struct.unpack("<I", crc)[0] == masked_crc32c(google_crc32c.value(data))


def test_masked_crc_is_tensorflows():
    # RFC 3720 B.4: 32 bytes of zero have CRC-32C 0x8A9136AA; TensorFlow rotates it
    # right by 15 and adds 0xa282ead8.
    crc = google_crc32c.value(bytes(32))
    assert crc == 0x8A9136AA
    assert masked_crc32c(crc) == (0x6D551522 + 0xA282EAD8) % 2**32


def test_every_file_has_its_own_header(tmp_path):
    generate_dataset(tmp_path, NAMES, SIZE, n_workers=2)
    assert read_sample_ids(tmp_path / name for name in NAMES) == list(range(10))
    assert sorted(os.listdir(tmp_path)) == NAMES


def test_generation_goes_on_where_it_stopped(tmp_path):
    generate_dataset(tmp_path, NAMES[:4], SIZE, n_workers=1)
    (tmp_path / ".writing-99-x.tfrecord").write_bytes(b"half")
    before = {name: os.stat(tmp_path / name).st_ino for name in NAMES[:4]}
    reports = []
    generate_dataset(
        tmp_path,
        NAMES,
        SIZE,
        n_workers=1,
        report=lambda *counts: reports.append(counts),
    )
    assert (reports[0], reports[-1]) == ((4, 10), (10, 10))
    assert before == {name: os.stat(tmp_path / name).st_ino for name in NAMES[:4]}
    assert sorted(os.listdir(tmp_path)) == NAMES


def test_what_a_killed_process_began_is_written_anew(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def write_a_part(descriptor, content):
        real(descriptor, memoryview(content)[:100])
        raise Killed

    real = os.write
    generate_files(tmp_path, NAMES[:1], [0], SIZE)
    with monkeypatch.context() as dying:
        dying.setattr(tierscope.data.tfrecord.os, "write", write_a_part)
        dying.setattr(tierscope.data.tfrecord.os, "unlink", lambda path: None)
        with pytest.raises(Killed):
            generate_files(tmp_path, NAMES, range(10), SIZE)
    assert os.stat(tmp_path / NAMES[0]).st_size == 100
    assert len(os.listdir(tmp_path)) == 2  # and the list of what may be unfinished
    generate_dataset(tmp_path, NAMES, SIZE, n_workers=1)
    assert sorted(os.listdir(tmp_path)) == NAMES
    assert read_sample_ids(tmp_path / name for name in NAMES) == list(range(10))


def test_what_a_signal_interrupts_at_any_call_is_written_anew(tmp_path, monkeypatch):
    """Also right after a file was made, where nothing can remove it yet."""

    def interrupted(path, flags, *rest):
        descriptor = opened(path, flags, *rest)
        if str(path).endswith(NAMES[1]):
            os.close(descriptor)
            raise Terminated
        return descriptor

    opened = os.open
    with monkeypatch.context() as only_here:
        only_here.setattr(os, "open", interrupted)
        with pytest.raises(Terminated):
            generate_files(tmp_path, NAMES, range(len(NAMES)), SIZE)
    assert (tmp_path / NAMES[1]).stat().st_size == 0
    generate_dataset(tmp_path, NAMES, SIZE, n_workers=1)
    assert sorted(os.listdir(tmp_path)) == NAMES
    assert (tmp_path / NAMES[1]).stat().st_size == SIZE


def test_content_is_that_of_datasets_made_before(tmp_path):
    SampleWriter(SIZE).write(str(tmp_path / "a.tfrecord"), 3)
    block = np.random.default_rng(0).bytes(SIZE - 48)
    assert (tmp_path / "a.tfrecord").read_bytes()[12:-36] == block


def test_file_of_another_size_is_refused_and_kept(tmp_path):
    (tmp_path / NAMES[2]).write_bytes(b"theirs")
    with pytest.raises(DatasetError, match=r"0000002.tfrecord: got 6 bytes.*4096"):
        generate_dataset(tmp_path, NAMES, SIZE, n_workers=1)
    assert (tmp_path / NAMES[2]).read_bytes() == b"theirs"


def test_full_disk_leaves_no_half_file_and_says_so(tmp_path, monkeypatch):
    real, calls = os.write, []

    def full_after_two(descriptor, content):
        calls.append(descriptor)
        if len(calls) == 3:
            return real(descriptor, b"a part")
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content)

    monkeypatch.setattr(tierscope.data.tfrecord.os, "write", full_after_two)
    with pytest.raises(DatasetError, match=r"0000002.*4096 bytes: No space left"):
        generate_files(tmp_path, NAMES, range(10), SIZE)
    assert sorted(os.listdir(tmp_path)) == NAMES[:2]


def test_short_writes_go_on(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(
        tierscope.data.tfrecord.os,
        "write",
        lambda descriptor, content: real(descriptor, memoryview(content)[:100]),
    )
    SampleWriter(SIZE).write(str(tmp_path / "a.tfrecord"), 3)
    monkeypatch.undo()
    SampleWriter(SIZE).write(str(tmp_path / "b.tfrecord"), 3)
    assert (tmp_path / "a.tfrecord").read_bytes() == (
        tmp_path / "b.tfrecord"
    ).read_bytes()


def test_too_little_space_is_said_before_anything_is_written(tmp_path):
    with pytest.raises(DatasetError, match=r"needs \d+ bytes for 1 files, but only"):
        generate_dataset(tmp_path, ["a.tfrecord"], 10**17, n_workers=1)
    assert os.listdir(tmp_path) == []


def test_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(DatasetError, match=r"data: cannot make it"):
        generate_dataset(tmp_path / "data", NAMES, SIZE, n_workers=1)


def test_file_too_small_for_its_header_is_refused():
    with pytest.raises(DatasetError, match="got 47, expected at least 48"):
        SampleWriter(47)


def test_dataset_that_another_process_writes_is_refused(tmp_path):
    tier = Tier("gfs", "directory", str(tmp_path))
    dataset = Dataset("tiny", n_files=3, file_size_bytes=100, batch_size=1)
    folder = tmp_path / "data" / dataset.directory(0)
    folder.mkdir(parents=True)
    with (
        held(folder / NAME, "the generation of this dataset"),
        pytest.raises(LeaseError, match=r"the generation of this dataset \(process"),
    ):
        generate(dataset, tier, 0, None, n_workers=1)
    assert len(generate(dataset, tier, 0, None, n_workers=1)) == 3
    assert len(list(folder.iterdir())) == 3


def test_workers_end_with_their_parent(tmp_path):
    script = (
        "import os, sys, pathlib\n"
        "from tierscope.data.tfrecord import generate_dataset\n"
        "def report(done, total):\n"
        "    done and os.kill(os.getpid(), 9)\n"
        "names = [f'{i}.tfrecord' for i in range(64)]\n"
        "generate_dataset(pathlib.Path(sys.argv[1]), names, 100, 2, report)\n"
    )
    scripts = Path(__file__).parents[3] / "workflow" / "scripts"
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path],
        env={"PYTHONPATH": str(scripts)},
        capture_output=True,  # until no worker holds it open any more
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL
