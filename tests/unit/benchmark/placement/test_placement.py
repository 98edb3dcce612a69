"""Placement with real threads, sockets and files, in plain directories."""

import errno
import os
import shutil
import subprocess
import threading
import time

import numpy as np
import pytest
from descriptions import describe_scenario
from tierscope.benchmark.loaders import make_loader
from tierscope.benchmark.placement import PlacementError
from tierscope.benchmark.placement.client import NodeFeed, PlacementClient
from tierscope.benchmark.placement.copies import Copier
from tierscope.benchmark.placement.messages import PLACES, REQUEST, Kind
from tierscope.benchmark.placement.server import PlacementServer
from tierscope.benchmark.run_folder import write_decisions
from tierscope.core.scenario import Point
from tierscope.data.shuffle import epoch_files
from tierscope.data.tfrecord import generate_files
from tierscope.policies import Place, node_policy, policy_options
from tierscope.policies.decisions import Decisions
from tierscope.storage.clock import RealClock, Role
from tierscope.storage.tier import COPYING_PREFIX, epoch_alias, make_epoch_aliases

N_FILES, SIZE, EPOCHS = 12, 256, 3
CLOCK = RealClock(lambda: None)
SETTINGS = {"copy_threads": 2, "drain": True, "hand_over": True}


def name_of(file_id):
    return f"{file_id:07d}.tfrecord"


class Node:
    """One node with some ranks that are run in turn, on plain directories."""

    def __init__(self, folder, policy="monarch", cache_rate_percent=50, n_ranks=1):
        self.gfs, self.lfs = folder / "gfs" / "data", folder / "lfs" / "data"
        for root in (self.gfs, self.lfs):
            (root / "set").mkdir(parents=True)
            make_epoch_aliases(root, EPOCHS, background=True)
        names = [name_of(file_id) for file_id in range(N_FILES)]
        generate_files(self.gfs / "set", names, range(N_FILES), SIZE)
        self.storage = Copier(self.gfs, self.lfs, "set", "set", SIZE, name_of)
        self.n_ranks, self.said = n_ranks, []
        description = describe_scenario(
            **{
                "scenario": {"policy": policy},
                "dataset": {"n_files": N_FILES, "file_size_bytes": SIZE},
                "training": {"shuffle": "global", "seed": 1, "epochs": EPOCHS},
                "system": {"n_nodes": 1, "processes_per_node": n_ranks},
                "policy": policy_options(policy, SETTINGS | {"stop": "first-misfit"}),
            }
        )
        point = Point(cache_rate_percent, 0)
        self.policy = node_policy(description, point, range(n_ranks))
        self.server = None

    def start(self, **options):
        options = {"n_copy_threads": 2, "hand_over": True, "say": self.said.append} | (
            options
        )
        self.server = PlacementServer(
            self.policy, self.storage, Decisions(0, 0), clock=CLOCK, **options
        )
        self.clients = [self.client(rank) for rank in range(self.n_ranks)]
        self.server.begin()

    def client(self, rank, timeout_s=5):
        return PlacementClient(
            self.server.address, 0, rank, CLOCK, Role.READER, timeout_s
        )

    def feed(self, rank, epoch):
        files = epoch_files(
            N_FILES,
            rank,
            self.n_ranks,
            shuffle="global",
            seed=1,
            repetition=0,
            epoch=epoch,
        )
        folders = {
            Place.GFS: f"{epoch_alias(self.gfs, epoch)}/set",
            Place.LFS: f"{epoch_alias(self.lfs, epoch)}/set",
        }
        return NodeFeed(self.clients[rank], epoch, files, folders, name_of)

    def read_epoch(self, epoch):
        """Read an epoch with all ranks at once and return the number of LFS reads."""
        loader = make_loader(
            "posix",
            batch_size=4,
            read_threads=1,
            prefetch_batches=1,
            buffer_bytes=100,
            clock=CLOCK,
        )
        feeds = [self.feed(rank, epoch) for rank in range(self.n_ranks)]
        sizes = []
        threads = [
            threading.Thread(target=lambda f=f: sizes.extend(loader.fed_epoch(f)))
            for f in feeds
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(n for n, _ in sizes) == N_FILES
        assert sum(n for _, n in sizes) == N_FILES * SIZE
        return sum(feed.places.count(Place.LFS) for feed in feeds)

    def run(self):
        """Run all epochs, each drained, and return the LFS reads of each."""
        hits = []
        for epoch in range(EPOCHS):
            hits.append(self.read_epoch(epoch))
            self.server.drain()
            self.server.resume(epoch + 1)
        return hits

    def on_lfs(self):
        return sorted(os.listdir(self.lfs / "set"))

    def count(self, event, detail=None):
        log = self.server.decisions.columns()
        wanted = log["event"] == event.encode()
        if detail is not None:
            wanted &= log["detail"] == detail.encode()
        return int(wanted.sum())


@pytest.fixture
def node(tmp_path):
    nodes = []

    def make(*arguments, **options):
        nodes.append(Node(tmp_path, *arguments, **options))
        return nodes[-1]

    yield make
    for one in nodes:
        if one.server:
            one.server.stop()


def test_log_of_decisions_is_whole_and_in_order(node):
    one = node("monarch", 50)
    one.start()
    one.run()
    log = one.server.decisions.columns()
    assert log["step"].tolist() == list(range(len(log["event"])))
    assert (np.diff(log["time_s"]) >= 0).all()
    assert one.count("begin") == one.count("end") == N_FILES * EPOCHS
    assert set(log["place"][log["event"] == b"begin"]) == {b"gfs", b"lfs"}


@pytest.mark.parametrize("hand_over", [True, False])
@pytest.mark.parametrize("n_ranks", [1, 3])
def test_monarch_on_one_node_hits_f_from_the_second_epoch_on(node, hand_over, n_ranks):
    one = node("monarch", 50, n_ranks)
    one.start(hand_over=hand_over)
    assert one.run() == [0, 6, 6]
    assert len(one.on_lfs()) == 6
    for name in one.on_lfs():
        content = (one.lfs / "set" / name).read_bytes()
        assert content == (one.gfs / "set" / name).read_bytes()
    assert one.count("placed", "handed over" if hand_over else "read again") == 6
    assert one.count("placed") == one.count("copy") == 6
    assert one.count("evict") == one.count("failed") == 0


def test_lru_holds_no_more_than_its_quota_and_evicts(node):
    one = node("lru", 50, 2)
    one.start()
    one.run()
    assert len(one.on_lfs()) == 6
    assert one.count("evict") == one.count("placed") - 6 > 0


def test_lru_of_the_whole_dataset_hits_everything_but_the_first_epoch(node):
    one = node("lru", 100)
    one.start()
    assert one.run() == [0, 12, 12]


def test_clairvoyant_fetches_its_files_without_readers(node):
    one = node("clairvoyant", 50)
    one.start()
    for _ in range(6):
        one.server.drain()
        one.server.resume(0)
    assert len(one.on_lfs()) == 6
    assert one.run() == [6, 6, 6]
    assert one.count("placed", "read again") == 6


# ---- faults ---------------------------------------------------------------------


class Failing(Copier):
    """Copies until it has made so many, then fails in a given way."""

    def __init__(self, copier, n_good, error):
        super().__init__(**vars(copier))
        object.__setattr__(self, "left", [n_good])
        object.__setattr__(self, "error", error)

    def copy(self, name, epoch, content):
        if not self.left[0]:
            raise self.error
        self.left[0] -= 1
        super().copy(name, epoch, content)


def test_lfs_that_is_full_ends_placement_and_loses_nothing(node):
    one = node("monarch", 100)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    one.storage = Failing(one.storage, 4, full)
    one.start(n_copy_threads=1)
    assert one.run() == [0, 4, 4]
    assert len(one.on_lfs()) == 4
    assert one.count("failed", "full") >= 1
    assert one.count("failed", "error") == 0
    assert "No space left on device; reads go on from the GFS" in one.said[0]


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of four pages as the folder `lfs`, where that is allowed."""
    folder = tmp_path / "lfs"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(command, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("hand_over", [True, False])
def test_file_system_that_is_full_is_understood_as_such(small_disk, node, hand_over):
    one = node("monarch", 100)
    one.start(hand_over=hand_over, n_copy_threads=1)
    first, *later = one.run()
    assert first == 0
    assert later == [len(one.on_lfs())] * 2
    assert 0 < len(one.on_lfs()) <= 4
    assert one.count("failed", "full") == one.count("failed") > 0
    for name in one.on_lfs():
        assert (one.lfs / "set" / name).stat().st_size == SIZE


def test_failing_copy_leaves_its_file_on_the_gfs_and_is_counted(node):
    one = node("monarch", 50)
    one.storage = Failing(one.storage, 0, RuntimeError("thread broke"))
    one.start()
    assert one.run() == [0, 0, 0]
    assert one.count("failed", "error") == one.server.n_failed == one.count("copy")
    # All files are tried, unless one is read before a failure has given room back.
    assert N_FILES // 2 <= one.server.n_failed <= N_FILES
    assert len(one.said) == 3
    assert "RuntimeError('thread broke')" in one.said[0]
    assert "further failures are counted" in one.said[-1]


def test_failed_removal_is_counted_apart_from_failed_copies(node):
    one = node("lru", 50)

    class Kept(Copier):
        def evict(self, name, epoch):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    one.storage = Kept(**vars(one.storage))
    one.start()
    one.run()
    assert one.count("failed") == one.server.n_failed == 0
    assert one.server.n_not_removed == one.count("evict") > 3
    assert len(one.said) == 3
    assert "busy; it still takes up space" in one.said[0]


def test_run_json_and_lines_tell_failed_copies_from_failed_removals(tmp_path):
    decisions, said = Decisions(0, 0), []
    decisions.add("begin", 0, 1, Place.GFS)
    report = {"failed": 2, "not_removed": 5, "decisions": decisions.columns()}
    written = write_decisions(tmp_path, [report, None], {}, said.append)
    assert written["placement"] == [{"failed": 2, "not_removed": 5}]
    assert "2 copies failed" in said[0]
    assert "5 evicted files could not be removed" in said[1]


def test_truncated_copy_is_removed(node, tmp_path):
    one = node("monarch")
    with pytest.raises(OSError, match="got 3 bytes, expected 256"):
        one.storage.copy(name_of(0), 0, b"abc")
    one.storage = Copier(one.gfs, one.lfs, "set", "missing", SIZE, name_of)
    with pytest.raises(FileNotFoundError):
        one.storage.copy(name_of(0), 0, None)
    assert one.on_lfs() == []


def test_file_appears_on_the_lfs_under_its_name_only_when_it_is_whole(
    node, monkeypatch
):
    one, seen = node("monarch"), []
    rename = os.rename
    monkeypatch.setattr(
        os, "rename", lambda a, b: (seen.append(one.on_lfs()), rename(a, b))
    )
    one.storage.copy(name_of(3), 1, None)
    assert seen == [[COPYING_PREFIX + name_of(3)]]
    assert one.on_lfs() == [name_of(3)]


def test_server_that_dies_fails_all_readers_at_once(node):
    one = node("monarch", 50, 2)
    one.start()

    def broken(file_id):
        raise ZeroDivisionError("policy broke")

    one.policy.begin_read = broken
    start = time.monotonic()
    for client in one.clients:
        with pytest.raises(PlacementError, match="of node 0 has ended or hangs"):
            client.begin(0, 1)
        assert client.error is not None
    with pytest.raises(PlacementError, match="ZeroDivisionError: policy broke"):
        one.server.drain()
    assert time.monotonic() - start < 2


def test_server_that_hangs_is_given_up_after_a_time(node):
    one = node("monarch")
    one.start()
    one.policy.begin_read = lambda file_id: time.sleep(0.5)
    client = one.client(0, timeout_s=0.05)
    with pytest.raises(PlacementError, match=r"no answer within 0\.05 s"):
        client.begin(0, 1)


def test_copies_that_hang_are_given_up_after_a_time(node):
    one = node("monarch")
    wait = threading.Event()
    stuck = {"copy": lambda *_: wait.wait(), "file_size_bytes": SIZE}
    stuck["file_name"] = staticmethod(name_of)
    one.storage = type("Stuck", (), stuck)()
    one.start(timeout_s=0.05)
    one.read_epoch(0)
    with pytest.raises(PlacementError, match=r"copies to the LFS hang"):
        one.server.drain()
    wait.set()


def test_reader_that_dies_does_not_take_the_server_along(node):
    one = node("monarch", 50, 2)
    one.start()
    one.clients[0].begin(0, 1)
    one.clients[0]._connection().close()
    assert one.clients[1].begin(0, 1) == Place.GFS
    one.server.check()


@pytest.mark.parametrize("n_sent", [None, 0, 7])
def test_reader_that_dies_before_it_hands_its_file_over_ends_the_copy(node, n_sent):
    one = node("monarch", 50, 2)
    one.start()
    dying, other = one.clients
    dying.begin(0, 1)
    dying._send(Kind.END, 0, 1, 0, Place.GFS)
    assert dying._answer()  # the bytes are wanted
    if n_sent is not None:
        at = PLACES.index(Place.GFS)
        head = REQUEST.pack(Kind.HAND_OVER, at, 0, 0, 1, 0, SIZE)
        dying._connection().sendall(head + bytes(n_sent))
    dying._connection().close()
    assert one.server.drain() < 5
    assert one.count("copy") == one.count("failed", "error") == 1
    assert one.server.n_failed == 1
    assert "its reader ended before it handed the file over" in one.said[0]
    assert one.policy.store.used_bytes == 0
    assert other.begin(0, 1) == Place.GFS
