import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tierscope.benchmark.loaders import make_loader
from tierscope.benchmark.preparation import TENSORFLOW_ENVIRONMENT
from tierscope.data.tfrecord import DatasetError, SampleWriter, framed, generate_files
from tierscope.trace.log import read_posix

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
N_FILES, SIZE = 10, 300
READ = """
import sys
from types import SimpleNamespace
from tierscope.benchmark.loaders import make_loader
for kind, time in ("lean", "virtual"), ("usual", "real"):
    some = make_loader(
        "tensorflow", batch_size=4, read_threads=1, prefetch_batches=1,
        buffer_bytes=128, clock=SimpleNamespace(name=time),
    )
    list(some.epoch([f"{kind}/{name}" for name in sys.argv[1:]]))
"""


class Recorded:
    """A feed of known paths that writes down what it is asked and told."""

    def __init__(self, paths):
        self.paths, self.asked, self.contents = paths, [], {}

    def __len__(self):
        return len(self.paths)

    def path(self, index):
        self.asked.append(index)
        return self.paths[index]

    def finished(self, index, content):
        self.contents[index] = content()


@pytest.fixture
def paths(tmp_path):
    names = [f"{i:07d}.tfrecord" for i in range(N_FILES)]
    generate_files(tmp_path, names, range(N_FILES), SIZE)
    return [str(tmp_path / name) for name in names]


def loader(name, prefetch_batches=1, read_threads=1, time="real"):
    return make_loader(
        name,
        batch_size=4,
        read_threads=read_threads,
        prefetch_batches=prefetch_batches,
        buffer_bytes=128,
        clock=SimpleNamespace(name=time),
    )


@pytest.mark.parametrize("read_threads", [1, 3])
@pytest.mark.parametrize("prefetch_batches", [0, 2])
@pytest.mark.parametrize("name", ["posix", "tensorflow"])
def test_fed_epoch_reads_the_same_and_knows_the_bytes_of_every_file(
    paths, name, prefetch_batches, read_threads
):
    some = loader(name, prefetch_batches, read_threads)
    feed = Recorded(paths)
    batches = list(some.fed_epoch(feed))
    assert batches == list(some.epoch(paths)) == [(4, 1200), (4, 1200), (2, 600)]
    assert sorted(feed.asked) == list(range(N_FILES))
    for index, path in enumerate(paths):
        with open(path, "rb") as file:
            assert feed.contents[index] == file.read()


@pytest.mark.parametrize("prefetch_batches", [0, 2])
def test_lean_pipeline_reads_the_same_and_checks_every_file(paths, prefetch_batches):
    lean = loader("tensorflow", prefetch_batches, time="virtual")
    assert type(lean) is not type(loader("tensorflow"))
    assert list(lean.epoch(paths)) == [(4, 1200), (4, 1200), (2, 600)]
    assert list(lean.epoch(paths[:1])) == [(1, 300)]
    assert sum(n for n, _ in lean.fed_epoch(Recorded(paths))) == N_FILES
    with open(paths[5], "r+b") as file:
        file.truncate(SIZE - 1)
    with pytest.raises(Exception, match=r"corrupted|truncated"):
        list(lean.epoch(paths))


def test_lean_pipeline_makes_the_same_calls(tmp_path, monkeypatch):
    names = [f"{i:07d}.tfrecord" for i in range(N_FILES)]
    for kind in ("lean", "usual"):
        (tmp_path / kind).mkdir()
        generate_files(tmp_path / kind, names, range(N_FILES), SIZE)
    monkeypatch.setenv("PYTHONPATH", str(SCRIPTS))
    for name, value in TENSORFLOW_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    trace = ["trace", "--logs", "logs", "--paths", "lean", "usual", "--"]
    command = [sys.executable, SCRIPTS / "tierscope_command.py", *trace]
    command += [sys.executable, "-c", READ, *names]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    (log,) = (tmp_path / "logs").iterdir()
    _, columns, found = read_posix(log)
    calls = {}
    counters = [columns[name].tolist() for name in ("opens", "reads", "bytes_read")]
    for id_, *counts in zip(columns["id"].tolist(), *counters, strict=True):
        path = Path(found.path(found.ids.tolist().index(id_)))
        calls.setdefault(path.parent.name, {})[path.name] = counts
    assert calls["lean"] == calls["usual"]
    assert sorted(calls["lean"]) == names
    assert {opens for opens, _, _ in calls["lean"].values()} == {1}


@pytest.mark.parametrize("name", ["posix", "tensorflow"])
def test_path_is_asked_for_when_the_file_is_about_to_be_opened(paths, name):
    feed = Recorded(paths)
    batches = loader(name, prefetch_batches=0).fed_epoch(feed)
    assert feed.asked == []
    next(batches)
    assert len(feed.asked) <= 5  # a batch, and the one that TensorFlow has in hand
    assert list(batches) == [(4, 1200), (2, 600)]


@pytest.mark.parametrize("name", ["posix", "tensorflow"])
def test_failing_feed_ends_the_epoch_with_its_error(paths, name):
    class Broken(Recorded):
        def path(self, index):
            if index == 6:
                raise DatasetError("no such place")
            return super().path(index)

    with pytest.raises(Exception, match="no such place"):
        list(loader(name).fed_epoch(Broken(paths)))


def test_frame_of_a_payload_is_the_file_that_was_written():
    file = bytes(SampleWriter(SIZE).frame(7))
    assert framed(file[12:-4]) == file
