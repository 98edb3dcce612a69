"""The sentinel's files, and what it measures."""

from types import SimpleNamespace

from tierscope.benchmark.observations.sentinel import (
    BYTES,
    MOST_FILES,
    Sentinel,
    sentinel_files,
)
from tierscope.core.scenario import Dataset
from tierscope.data.tfrecord import generate_files

SMALL = Dataset("small", n_files=100, file_size_bytes=4096, batch_size=4)


class OneProcess(SimpleNamespace):
    """The only process of a launch."""

    rank, size = 0, 1

    def barrier(self, poll_s=0.0):
        """Wait for nobody."""

    def gather(self, value):
        """Return this process's value."""
        return [value]

    def all_agree(self, value):
        """Return this process's answer."""
        return value


def test_processes_read_different_files_and_always_the_same():
    mine, other = (sentinel_files(SMALL, rank, 4) for rank in (0, 1))
    assert mine == sentinel_files(SMALL, 0, 4) == [4 * i for i in range(MOST_FILES)]
    assert not set(mine) & set(other)


def test_large_files_are_few():
    large = Dataset("large", n_files=8, file_size_bytes=3 * BYTES, batch_size=1)
    assert sentinel_files(large, 1, 4) == [1]


def test_process_without_a_file_reads_none():
    few = Dataset("few", n_files=2, file_size_bytes=4096, batch_size=1)
    assert sentinel_files(few, 3, 4) == []


def test_both_tiers_are_timed(tmp_path):
    names = [SMALL.file_name(i) for i in sentinel_files(SMALL, 0, 1)]
    gfs, node = tmp_path / "gfs", tmp_path / "node"
    gfs.mkdir()
    node.mkdir()
    generate_files(gfs, names, range(len(names)), SMALL.file_size_bytes)
    sentinel = Sentinel(OneProcess(), [str(gfs / name) for name in names], True)
    assert set(sentinel.measure()) == {"gfs"}
    sentinel.place(node, SMALL)
    times_s = sentinel.measure()
    assert set(times_s) == {"gfs", "lfs"}
    assert all(time_s > 0 for time_s in times_s.values())


def test_lfs_without_room_has_no_sentinel(tmp_path, monkeypatch):
    def no_room(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        "tierscope.benchmark.observations.sentinel.generate_files", no_room
    )
    sentinel = Sentinel(OneProcess(), [], True)
    sentinel.place(tmp_path, SMALL)
    assert sentinel.measure() == {}
