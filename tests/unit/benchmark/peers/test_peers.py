"""Reads from peers with real sockets, threads and files, in plain directories."""

import errno
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from descriptions import changed, describe_scenario
from tierscope.benchmark.loaders import make_loader
from tierscope.benchmark.peers import PeerError
from tierscope.benchmark.peers.client import PeerClient, PeerFeed, PeerReads
from tierscope.benchmark.peers.mount import (
    MountedFiles,
    check_live,
    check_room,
    folder_name,
    remove_left,
)
from tierscope.benchmark.peers.network import listening_address, own_addresses
from tierscope.benchmark.peers.node import NodePeers
from tierscope.benchmark.peers.server import (
    ANSWER,
    REQUEST,
    TOKEN_BYTES,
    Access,
    PeerServer,
)
from tierscope.benchmark.peers.stage_in import stage_in
from tierscope.benchmark.placement.copies import Copier
from tierscope.core.machine import TierError
from tierscope.core.scenario import Dataset, Point
from tierscope.core.tables import check_table
from tierscope.data.shuffle import epoch_files
from tierscope.data.tfrecord import generate_files
from tierscope.policies import AdHoc, Place, file_owners, node_policy
from tierscope.storage.clock import OtherRankFailed, RealClock
from tierscope.storage.lease import Holder
from tierscope.storage.own_folder import FolderError
from tierscope.storage.tier import make_epoch_aliases, peer_alias
from tierscope.trace.peers import sum_peers, sum_stage_in, with_peer_reads

N_FILES, SIZE, EPOCHS, N_NODES = 24, 3000, 2, 3
DATASET = Dataset("set", N_FILES, SIZE, 1)
TOKEN, CLOCK = bytes(range(TOKEN_BYTES)), RealClock(lambda: None)


def name_of(file_id):
    return f"{file_id:07d}.tfrecord"


GOLDEN_OWNERS = [2, 2, 2, 1, 0, 2, 1, 0, 1, 0, 2, 1, 2, 2, 2, 1, 0, 2, 1, 1, 2, 2, 1, 0]
OWNERS = file_owners(N_FILES, N_NODES)


# ---- the policy -----------------------------------------------------------------


def test_owner_is_the_hash_of_the_path_modulo_the_nodes():
    digest = blake2b(b"0000005.tfrecord", digest_size=8).digest()
    assert OWNERS[5] == int.from_bytes(digest, "big") % 3
    # Fixed numbers: another machine or Python must find the same owners.
    assert OWNERS.tolist() == GOLDEN_OWNERS


def test_owners_are_about_even():
    counts = np.bincount(file_owners(6000, 6))
    assert counts.sum() == 6000
    assert (abs(counts - 1000) < 4 * np.sqrt(1000)).all()


def describe(n_nodes=N_NODES, mount=None):
    return describe_scenario(
        **{
            "scenario": {"policy": "adhoc"},
            "dataset": {
                "name": "tiny",
                "n_files": N_FILES,
                "file_size_bytes": SIZE,
                "batch_size": 4,
            },
            "training": {"shuffle": "global", "seed": 1, "epochs": EPOCHS},
            "system": {"n_nodes": n_nodes, "processes_per_node": 1},
            "policy": {"mount": mount, "server_threads": 2},
        }
    )


def policies_of(rate, **options):
    point = Point(rate, 0)
    description = describe(**options)
    n_nodes = description.system.n_nodes
    return [node_policy(description, point, [n], node=n) for n in range(n_nodes)]


@pytest.mark.parametrize("rate", [0, 25, 50, 100])
def test_each_staged_file_is_at_one_node_and_a_peer_of_all_others(rate):
    policies = policies_of(rate)
    files = [policy.files_of(policy.node).tolist() for policy in policies]
    staged = np.flatnonzero(policies[0].staged).tolist()
    assert sorted(itertools.chain(*files)) == staged
    assert sum(map(len, files)) == round(N_FILES * rate / 100)
    for file_id in range(N_FILES):
        places = [policy.begin_read(file_id) for policy in policies]
        if policies[0].staged[file_id]:
            assert sorted(places) == [Place.LFS, Place.PEER, Place.PEER]
            assert places[OWNERS[file_id]] == Place.LFS
        else:
            assert places == [Place.GFS] * 3


def test_one_node_has_no_peers():
    (policy,) = policies_of(100, n_nodes=1)
    assert {policy.begin_read(file_id) for file_id in range(N_FILES)} == {Place.LFS}


def test_higher_cache_rate_only_adds_files():
    less, more = (policies_of(rate)[0].staged for rate in (25, 50))
    assert not (less & ~more).any()


def test_all_that_is_staged_is_read_through_a_mount():
    for policy in policies_of(50, mount="/mnt"):
        places = [policy.begin_read(file_id) for file_id in range(N_FILES)]
        assert places.count(Place.PEER) == 12
        assert places.count(Place.GFS) == 12


# ---- reading --------------------------------------------------------------------


class Cluster:
    """Three nodes of one rank, on plain directories of one machine."""

    def __init__(self, folder, rate=100, **server):
        self.folder, self.policies = folder, policies_of(rate)
        self.gfs = folder / "gfs" / "data"
        (self.gfs / "set").mkdir(parents=True)
        make_epoch_aliases(self.gfs, EPOCHS, background=True)
        names = [name_of(file_id) for file_id in range(N_FILES)]
        generate_files(self.gfs / "set", names, range(N_FILES), SIZE)
        self.lfs = folder / "lfs" / "data"
        self.lfs.mkdir(parents=True)
        make_epoch_aliases(self.lfs, EPOCHS, background=True, peers=True)
        for node, policy in enumerate(self.policies):
            (self.lfs / f"node-{node}" / "set").mkdir(parents=True)
            own = f"node-{node}/set"
            copier = Copier(self.gfs, self.lfs, "set", own, SIZE, name_of)
            names = [name_of(file_id) for file_id in policy.files_of(node)]
            stage_in(lambda name, to=copier: to.copy(name, 0, None), names, node)
        self.opened = []
        self.servers = [self.serve(node, **server) for node in range(N_NODES)]
        self.addresses = {
            node: ("127.0.0.1", server.port) for node, server in enumerate(self.servers)
        }
        self.logs = [PeerReads(rank) for rank in range(N_NODES)]

    def serve(self, node, **options):
        def path(epoch, file_id):
            self.opened.append((epoch, node, file_id))
            root = peer_alias(self.lfs, epoch)
            return f"{root}/node-{node}/set/{name_of(file_id)}"

        settings = {"node": node, "n_threads": 2, "clock": CLOCK}
        settings |= {"access": Access(TOKEN)} | options
        return PeerServer(path, SIZE, 1024, **settings)

    def client(self, **options):
        return PeerClient(
            self.addresses, OWNERS, DATASET, TOKEN, 0, 0, CLOCK, **options
        )

    def feed(self, rank, epoch, client):
        files = epoch_files(
            N_FILES,
            rank,
            N_NODES,
            shuffle="global",
            seed=1,
            repetition=0,
            epoch=epoch,
        )
        folders = {
            Place.GFS: f"{self.gfs}.ep{epoch}/set",
            Place.LFS: f"{self.lfs}.ep{epoch}/node-{rank}/set",
        }
        return PeerFeed(
            self.policies[rank],
            client,
            self.logs[rank],
            epoch,
            files,
            folders,
            name_of,
            CLOCK,
        )

    def stop(self):
        for server in self.servers:
            server.stop()


@pytest.fixture
def cluster(tmp_path):
    clusters = []

    def make(*arguments, **options):
        clusters.append(Cluster(tmp_path, *arguments, **options))
        return clusters[-1]

    yield make
    for one in clusters:
        one.stop()


def of_peer(node):
    """Return a file that the node does not own."""
    return int(np.flatnonzero(node != OWNERS)[0])


@pytest.mark.parametrize("rate", [0, 50, 100])
@pytest.mark.parametrize("read_threads", [1, 3])
def test_all_files_are_read_once_an_epoch_whoever_owns_them(
    cluster, rate, read_threads
):
    one = cluster(rate)
    clients = [one.client(timeout_s=10) for _ in range(N_NODES)]
    for epoch in range(EPOCHS):
        seen, places = [], []

        def read(rank, epoch=epoch, seen=seen, places=places):
            loader = make_loader(
                "posix",
                batch_size=4,
                read_threads=read_threads,
                prefetch_batches=1,
                buffer_bytes=100,
                clock=CLOCK,
            )
            feed = one.feed(rank, epoch, clients[rank])
            seen.extend(loader.fed_epoch(feed))
            places.extend(feed.places)
            assert not feed._in_memory

        threads = [threading.Thread(target=read, args=[n]) for n in range(N_NODES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(n for n, _ in seen) == N_FILES
        assert sum(n for _, n in seen) == N_FILES * SIZE
        assert places.count(Place.GFS) == N_FILES - round(N_FILES * rate / 100)
    tables = [pd.DataFrame(log.columns()) for log in one.logs]
    reads = check_table(pd.concat(tables), "peer_reads")
    made = zip(reads["epoch"], reads["owner"], reads["file_id"], strict=True)
    assert sorted(made) == sorted(one.opened)
    assert (reads["owner"] == OWNERS[reads["file_id"]]).all()
    assert (reads["owner"] != reads["rank"]).all()
    lfs_time_s = reads["lfs_read_time_s"] + reads["lfs_meta_time_s"]
    assert (lfs_time_s > 0).all()
    assert (lfs_time_s < reads["time_s"]).all()


def test_bytes_from_a_peer_are_those_of_the_file(cluster):
    one = cluster()
    content, time_s, read_time_s, meta_time_s = one.client().fetch(1, of_peer(0))
    assert content == (one.gfs / "set" / name_of(of_peer(0))).read_bytes()
    assert read_time_s > 0
    assert meta_time_s > 0
    assert time_s > read_time_s + meta_time_s


def test_file_of_a_peer_is_freed_after_it_was_read(cluster):
    one = cluster()
    feed = one.feed(0, 0, one.client())
    index = next(i for i, f in enumerate(feed._files) if OWNERS[f] != 0)
    path = feed.path(index)
    n_open = len(os.listdir("/proc/self/fd"))
    with open(path, "rb") as file:
        assert len(file.read()) == SIZE
    feed.finished(index, bytes)
    assert len(os.listdir("/proc/self/fd")) == n_open - 1
    assert feed.path(index)
    feed.close()
    assert len(os.listdir("/proc/self/fd")) == n_open - 1


def test_connections_are_used_again(cluster):
    one = cluster()
    client, file_id = one.client(), of_peer(0)
    for epoch in (0, 1, 0, 1):
        client.fetch(epoch, file_id)
    assert len(one.servers[OWNERS[file_id]]._connections) == 1


# ---- faults ---------------------------------------------------------------------


def test_server_that_dies_is_named_with_the_file(cluster):
    one, file_id = cluster(), of_peer(0)
    client, node = one.client(timeout_s=5), int(OWNERS[of_peer(0)])
    client.fetch(0, file_id)
    one.servers[node].stop()
    start = time.monotonic()
    with pytest.raises(PeerError, match=f"node {node}, which has {name_of(file_id)}"):
        client.fetch(0, file_id)
    with pytest.raises(PeerError, match="Connection refused"):
        client.fetch(0, file_id)
    assert time.monotonic() - start < 2
    assert client.error is not None


def test_server_that_breaks_fails_all_its_readers_and_its_own_node(cluster):
    one, file_id = cluster(), of_peer(0)
    server = one.servers[OWNERS[file_id]]
    clients = [one.client(timeout_s=5) for _ in range(2)]
    for client in clients:
        client.fetch(0, file_id)

    def broken(epoch, file_id):
        raise ZeroDivisionError("server broke")

    server._path = broken
    start = time.monotonic()
    for client in clients:
        with pytest.raises(PeerError, match="its server has ended or hangs"):
            client.fetch(0, file_id)
    with pytest.raises(PeerError, match="ended: ZeroDivisionError: server broke"):
        server.check()
    assert time.monotonic() - start < 2


# ---- strangers --------------------------------------------------------------------


def strange(server, content=b"", source="127.0.0.1"):
    """Connect to a server without its token, and return the connection."""
    address = ("127.0.0.1", server.port)
    stranger = socket.create_connection(address, 30, (source, 0))
    stranger.sendall(content)
    return stranger


def is_closed_by(server, stranger):
    """Return whether a server closes a connection."""
    with suppress(ConnectionResetError):
        return stranger.recv(1) == b""
    return True


def test_strangers_that_say_nothing_or_half_a_token_hold_nobody_up(cluster):
    one, file_id = cluster(), of_peer(0)
    server = one.servers[OWNERS[file_id]]
    strangers = [strange(server, TOKEN[: number % 2]) for number in range(12)]
    # Two threads serve. Each would wait for a token for a minute.
    content, *_ = one.client(timeout_s=30).fetch(0, file_id)
    assert len(content) == SIZE
    for stranger in strangers:
        assert is_closed_by(server, stranger)
    assert server._strangers == {}
    one.client(timeout_s=30).fetch(0, file_id)
    server.check()


def test_stranger_with_another_token_is_closed(cluster):
    server = cluster().servers[0]
    wrong = bytes(TOKEN_BYTES) + REQUEST.pack(0, 0, 0)
    assert is_closed_by(server, strange(server, wrong))
    assert server._connections == {}


def test_token_may_come_in_pieces(cluster):
    one, file_id = cluster(), of_peer(0)
    stranger = strange(one.servers[OWNERS[file_id]])
    stranger.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for part in (TOKEN[:5], TOKEN[5:6], TOKEN[6:] + REQUEST.pack(0, file_id, 0)):
        stranger.sendall(part)
        time.sleep(0.01)
    head = stranger.recv(ANSWER.size, socket.MSG_WAITALL)
    assert ANSWER.unpack(head)[:2] == (True, SIZE)


def test_only_machines_of_the_job_are_let_in(cluster):
    one, file_id = cluster(), of_peer(0)
    server = one.servers[OWNERS[file_id]]
    token_and_request = TOKEN + REQUEST.pack(0, file_id, 0)
    assert is_closed_by(server, strange(server, token_and_request, "127.0.0.2"))
    assert one.opened == []


def test_number_of_strangers_is_limited(cluster, monkeypatch):
    monkeypatch.setattr("tierscope.benchmark.peers.server._STRANGERS", 3)
    monkeypatch.setattr("tierscope.benchmark.peers.server._HANDSHAKE_S", 1000)
    server = cluster().servers[0]
    strangers = [strange(server) for _ in range(5)]
    closed = []
    while len(closed) < 2:  # two threads let them in, in an order of their own
        closed, *_ = select.select(strangers, [], [], 30)
        time.sleep(0.01)
    assert [is_closed_by(server, stranger) for stranger in closed] == [True, True]
    for stranger in set(strangers) - set(closed):
        stranger.sendall(TOKEN)  # they are still heard
        stranger.sendall(REQUEST.pack(0, int(np.flatnonzero(OWNERS == 0)[0]), 0))
        assert stranger.recv(1) != b""


def test_token_that_came_while_all_threads_were_busy_is_not_late(cluster, monkeypatch):
    monkeypatch.setattr("tierscope.benchmark.peers.server._HANDSHAKE_S", 0.05)
    one, file_id = cluster(), of_peer(0)
    server = one.servers[OWNERS[file_id]]
    path = server._path

    def slow_path(*of):
        time.sleep(0.1)
        return path(*of)

    server._path = slow_path
    with ThreadPoolExecutor(8) as pool:
        clients = [one.client(timeout_s=30) for _ in range(8)]
        answers = [pool.submit(client.fetch, 0, file_id) for client in clients]
        assert all(len(answer.result()[0]) == SIZE for answer in answers)


def test_strangers_that_come_and_go_do_not_end_the_server(cluster, monkeypatch):
    monkeypatch.setattr("tierscope.benchmark.peers.server._HANDSHAKE_S", 0.004)
    one, file_id = cluster(), of_peer(0)
    server = one.servers[OWNERS[file_id]]

    def bother(number):
        with suppress(OSError):
            stranger = strange(server, TOKEN[:3])
            time.sleep(number % 5 / 1000)
            stranger.sendall(TOKEN[3:4])
            stranger.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(bother, range(400)))
    server.check()
    monkeypatch.setattr("tierscope.benchmark.peers.server._HANDSHAKE_S", 30)
    assert len(one.client(timeout_s=30).fetch(0, file_id)[0]) == SIZE


@pytest.mark.parametrize(
    "error", [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.EPERM]
)
def test_server_survives_errors_of_accept(cluster, error):
    one, file_id = cluster(), of_peer(0)
    server = one.servers[OWNERS[file_id]]

    class Failing:
        """A listener that fails three times."""

        def __init__(self, listener):
            self._listener, self.failures = listener, 0

        def accept(self):
            self.failures += 1
            if self.failures <= 3:
                raise OSError(error, "cannot accept")
            return self._listener.accept()

        def close(self):
            self._listener.close()

    server._listener = Failing(server._listener)
    content, *_ = one.client(timeout_s=30).fetch(0, file_id)
    assert len(content) == SIZE
    assert server._listener.failures >= 4
    server.check()


@pytest.mark.parametrize("n_bytes", [SIZE - 1, SIZE + 1, 1 << 62])
@pytest.mark.parametrize("is_there", [True, False])
def test_size_that_is_not_the_manifests_is_refused_before_memory_is_taken(
    cluster, n_bytes, is_there, monkeypatch
):
    one, file_id = cluster(), of_peer(0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one.addresses[int(OWNERS[file_id])] = listener.getsockname()
        client = one.client(timeout_s=30)

        def answer():
            connection, _ = listener.accept()
            n_asked = TOKEN_BYTES + REQUEST.size
            connection.recv(n_asked, socket.MSG_WAITALL)
            connection.sendall(ANSWER.pack(is_there, n_bytes, 0.0, 0.0))
            connection.close()

        with ThreadPoolExecutor(1) as pool:
            pool.submit(answer)
            words = f"announces {n_bytes} bytes, expected {SIZE}"
            if not is_there and n_bytes < 4096:
                words = "it closed the connection"
            with pytest.raises(PeerError, match=words):
                client.fetch(0, file_id)


def test_addresses_are_those_of_the_interfaces():
    assert own_addresses()["lo"] == "127.0.0.1"


def test_machine_that_is_alone_listens_to_itself_only():
    assert listening_address(None, ["a", "a"], "a") == ("lo", "127.0.0.1")
    assert listening_address("ib0", ["a", "a"], "a") == ("lo", "127.0.0.1")


def test_interface_of_the_system_is_used_and_one_that_is_missing_named():
    assert listening_address("lo", ["a", "b"], "a") == ("lo", "127.0.0.1")
    with pytest.raises(PeerError, match=r"got 'ib7', but a has .*lo.* with an IPv4"):
        listening_address("ib7", ["a", "b"], "a")


def test_else_that_which_leads_to_the_next_machine():
    found = listening_address(None, ["127.0.0.1", "127.0.0.3"], "127.0.0.3")
    assert found == ("lo", "127.0.0.1")
    with pytest.raises(PeerError, match=r"a: found no route to no\.such\.invalid"):
        listening_address(None, ["no.such.invalid", "a"], "a")


def test_token_is_on_no_command_line_and_in_nothing_that_is_kept(
    tmp_path, monkeypatch, capfd
):
    token = "0123456789abcdef" * 2
    monkeypatch.setattr("secrets.token_hex", lambda n_bytes: token)
    description = changed(describe(n_nodes=1), loader={"buffer_bytes": 1024})
    point = Point(100, 0)
    copier = Copier(tmp_path, tmp_path, "set", "set", SIZE, name_of)
    peers = NodePeers(description, point, OneNode(), copier, print, CLOCK)
    try:
        assert peers._transport._token == bytes.fromhex(token)
        said = capfd.readouterr()
        kept = f"{peers.report()} {said}"
        assert token not in kept
        assert not list(tmp_path.rglob("*"))
    finally:
        peers.stop()


# ---- faults of servers ------------------------------------------------------------


def test_server_that_hangs_is_given_up_after_a_time(cluster):
    one, file_id = cluster(), of_peer(0)
    server, free = one.servers[OWNERS[file_id]], threading.Event()
    server._path = lambda epoch, file_id: free.wait(5)
    client = one.client(timeout_s=0.1)
    with pytest.raises(PeerError, match=r"0000.*\.tfrecord.*no answer within 0\.1 s"):
        client.fetch(0, file_id)
    free.set()


_KILLED = """
import sys
sys.path[:0] = {path!r}
from tierscope.benchmark.peers.server import Access, PeerServer
from tierscope.storage.clock import RealClock
import time
clock = RealClock(lambda: None)
access = Access(bytes(range(16)))
server = PeerServer(lambda *_: time.sleep(60), 1, 1, 0, 1, access, clock)
print(server.port, flush=True)
time.sleep(60)
"""


def test_process_that_is_killed_while_it_serves_is_noticed_at_once():
    scripts = [path for path in sys.path if path.endswith("scripts")]
    command = [sys.executable, "-c", _KILLED.format(path=scripts)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        address = ("127.0.0.1", int(process.stdout.readline()))
        client = PeerClient(
            {0: address}, np.zeros(1, int), DATASET, TOKEN, 1, 0, CLOCK, 30
        )
        timer = threading.Timer(0.2, process.kill)
        timer.start()
        start = time.monotonic()
        with pytest.raises(PeerError, match=r"node 0, which has 0000000\.tfrecord"):
            client.fetch(0, 0)
        assert time.monotonic() - start < 5
        timer.join()


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_file_that_the_owner_lacks_is_named_and_the_server_goes_on(cluster, damage):
    one, file_id = cluster(), of_peer(0)
    path = one.lfs / f"node-{OWNERS[file_id]}" / "set" / name_of(file_id)
    whole = path.read_bytes()
    path.unlink() if damage == "missing" else path.write_bytes(b"short")
    reason = {
        "missing": "No such file or directory",
        "short": f"got 5 bytes, expected {SIZE}",
    }
    client = one.client()
    with pytest.raises(PeerError, match=f"cannot read {path.name}.*{reason[damage]}"):
        client.fetch(0, file_id)
    path.write_bytes(whole)
    assert client.fetch(0, file_id)[0] == whole
    one.servers[OWNERS[file_id]].check()


def test_stranger_gets_nothing(cluster):
    one, file_id = cluster(), of_peer(0)
    address = one.addresses[int(OWNERS[file_id])]
    with socket.create_connection(address, timeout=5) as stranger:
        stranger.sendall(bytes(TOKEN_BYTES) + REQUEST.pack(0, file_id, 0))
        with suppress(ConnectionResetError):  # as good as the end
            assert stranger.recv(ANSWER.size) == b""
    assert one.opened == []
    one.client().fetch(0, file_id)


def test_server_closes_every_connection_though_one_was_reset(cluster):
    one, file_id = cluster(), of_peer(0)
    client, server = one.client(), one.servers[int(OWNERS[file_id])]
    client.fetch(0, file_id)
    with socket.socket() as reset:  # shutdown says ENOTCONN, as after a reset
        server._connections = {-1: reset, **server._connections}
        server.stop()
    with pytest.raises(PeerError, match="has ended or hangs"):
        client.fetch(0, file_id)


def test_stage_in_that_fails_names_node_and_file(tmp_path):
    def full(name):
        raise OSError(28, "No space left on device")

    with pytest.raises(TierError, match=r"node 2: cannot stage 0000001\.tfrecord in"):
        stage_in(full, [name_of(1)], node=2)


def test_stage_in_ends_when_another_process_has_failed():
    copied = []

    def look():
        if len(copied) == 2:
            raise OtherRankFailed(1)

    with pytest.raises(OtherRankFailed):
        stage_in(copied.append, ["a", "b", "c"], 0, look)
    assert copied == ["a", "b"]


# ---- a mount --------------------------------------------------------------------


class OneNode:
    """Processes of a system of one node."""

    node = node_rank = rank = 0
    node_size = size = 1
    on_node = (0,)
    hosts = ("here",)

    def gather(self, value):
        return [value]

    def share(self, value):
        return value

    def barrier(self):
        pass

    def raise_if_failed(self):
        pass


def in_mount(mount, name="tierscope-0-launch"):
    """Return the files of a measurement in a mount."""
    return MountedFiles(mount, name, name_of, 1024)


def test_live_mount_is_accepted_and_only_this_user_may_use_the_folder(tmp_path):
    check_live(in_mount(tmp_path), OneNode(), "launch", 1, {})
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == [".tierscope.lease"]


def test_names_of_folders_in_a_mount_cannot_be_foreseen():
    assert folder_name() != folder_name()
    assert len(folder_name().rpartition("-")[2]) == 32


def test_mount_without_what_another_node_wrote_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tierscope.benchmark.peers.mount._LIVE_S", 0.1)
    processes = OneNode()
    processes.hosts = ("here", "there")
    with pytest.raises(TierError, match="does not show what node 1 wrote there: No su"):
        check_live(in_mount(tmp_path), processes, "launch", 1, {})
    assert list(tmp_path.iterdir()) == []


def test_sentinel_of_another_launch_is_not_taken_for_a_node(tmp_path, monkeypatch):
    monkeypatch.setattr("tierscope.benchmark.peers.mount._LIVE_S", 0.1)
    processes, files = OneNode(), in_mount(tmp_path)
    processes.hosts = ("here", "there")
    make = files.make

    def make_with_another_ones_sentinel():
        make()
        (files.folder / ".node-1").write_text("earlier 1\n")

    files.make = make_with_another_ones_sentinel
    with pytest.raises(TierError, match="what node 1 wrote there: other content"):
        check_live(files, processes, "launch", 1, {})


def test_directory_of_a_tier_is_no_mount(tmp_path):
    (tmp_path / "gfs").mkdir()
    tiers = {"LFS": Path("/proc"), "GFS": tmp_path / "gfs"}
    with pytest.raises(TierError, match=r"it is on the file system of the GFS, .*gfs"):
        check_live(in_mount(tmp_path), OneNode(), "launch", 1, tiers)
    assert [path.name for path in tmp_path.iterdir()] == ["gfs"]
    del tiers["GFS"]
    check_live(in_mount(tmp_path), OneNode(), "launch", 1, tiers)


def test_mount_that_is_missing_or_too_small_is_refused(tmp_path):
    missing = tmp_path / "missing"
    with pytest.raises(TierError, match="its free space: No such file or directory"):
        check_live(in_mount(missing), OneNode(), "launch", 1, {})
    assert check_room(tmp_path, 0) is None
    assert check_room(tmp_path, 1 << 62).endswith(f"expected {1 << 62}")


def test_mount_gives_back_what_was_staged_in(tmp_path):
    gfs, mount = tmp_path / "gfs" / "data", tmp_path / "mount"
    (gfs / "set").mkdir(parents=True)
    make_epoch_aliases(gfs, 1, background=True)
    generate_files(gfs / "set", [name_of(7)], [7], SIZE)
    mount.mkdir()
    files = in_mount(mount)
    files.make()
    copier = Copier(gfs, tmp_path, "set", "set", SIZE, name_of)

    def stage(name):
        files.write(name, copier.read(name, 0))

    stage_in(stage, [name_of(7)], 0)
    content, time_s, *lfs_times_s = files.fetch(0, 7)
    assert content == (gfs / "set" / name_of(7)).read_bytes()
    assert time_s > 0
    assert lfs_times_s == [0.0, 0.0]
    with pytest.raises(PeerError, match=r"0000008\.tfrecord: cannot read it: No such"):
        files.fetch(0, 8)
    (gfs / "set" / name_of(8)).write_bytes(bytes(SIZE - 1))
    with pytest.raises(TierError, match=f"got {SIZE - 1} bytes, expected {SIZE}"):
        stage_in(stage, [name_of(8)], 0)
    files.remove()
    assert list(mount.iterdir()) == []


def test_what_cannot_be_removed_from_a_mount_stays(tmp_path):
    files = in_mount(tmp_path)
    files.make()
    (files.folder / "left").mkdir()
    for file_id in range(3):
        files.write(name_of(file_id), b"x")
        assert (files.folder / name_of(file_id)).stat().st_mode & 0o777 == 0o600
    files.remove()
    names = sorted(path.name for path in files.folder.iterdir())
    assert names == [".tierscope.lease", "left"]


def planted(tmp_path):
    """Return a mount, and a folder of this user that holds something precious."""
    (tmp_path / "mount").mkdir()
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    return tmp_path / "mount", victim


def test_planted_link_has_no_folder_emptied(tmp_path):
    mount, victim = planted(tmp_path)
    dead = subprocess.Popen(["true"])
    dead.wait()
    holder = replace(Holder.this_process("a launch", "x"), pid=dead.pid, started=1)
    (victim / ".tierscope.lease").write_text(json.dumps(asdict(holder)))
    (mount / f"tierscope-{os.getuid()}-abc").symlink_to(victim)
    remove_left(mount)
    assert (victim / "file").read_text() == "precious"
    (mount / "tierscope-0-launch").symlink_to(victim)
    with pytest.raises(TierError, match="cannot be written to: File exists"):
        check_live(in_mount(mount), OneNode(), "launch", 1, {})
    assert (victim / "file").read_text() == "precious"


def test_planted_link_is_not_written_through(tmp_path):
    mount, victim = planted(tmp_path)
    files = in_mount(mount)
    files.make()
    for name in (name_of(1), ".node-0"):
        (files.folder / name).symlink_to(victim / "file")
        with pytest.raises(FileExistsError):
            files.write(name, b"x")
        with pytest.raises(OSError, match="symbolic links"):
            files.read(name, 10)
    assert (victim / "file").read_text() == "precious"


def test_folder_that_was_swapped_is_not_emptied_and_named(tmp_path):
    mount, victim = planted(tmp_path)
    files = in_mount(mount)
    files.make()
    files.write(name_of(0), b"x")
    files.folder.rename(mount / "moved")
    victim.rename(files.folder)
    with pytest.raises(TierError, match="launch: was replaced while"):
        files.remove()
    assert (files.folder / "file").exists()


def test_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "tierscope-0-launch").mkdir()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(FolderError, match=f"belongs to user {user}.*, expected"):
        in_mount(tmp_path).open()


def mounted_peers(mount, gfs):
    """Return the peers of a system of one node, in a mount."""
    description = changed(
        describe(n_nodes=1, mount=str(mount)), loader={"buffer_bytes": 1024}
    )
    point = Point(100, 0)
    copier = Copier(gfs, gfs, "set", "set", SIZE, name_of)
    return NodePeers(description, point, OneNode(), copier, print, CLOCK)


@pytest.fixture
def staged(tmp_path, monkeypatch):
    """Return peers that have staged a dataset in a mount, and the mount."""
    monkeypatch.setattr("tierscope.benchmark.peers.mount.check_apart", lambda *_: None)
    gfs, mount = tmp_path / "gfs" / "data", tmp_path / "mount"
    mount.mkdir()
    (gfs / "set").mkdir(parents=True)
    make_epoch_aliases(gfs, EPOCHS, background=True)
    names = [name_of(file_id) for file_id in range(N_FILES)]
    generate_files(gfs / "set", names, range(N_FILES), SIZE)
    peers = mounted_peers(mount, gfs)
    peers.begin()
    yield peers, mount, gfs
    peers.stop()


def test_mount_is_emptied_after_the_last_epoch(staged):
    peers, mount, _ = staged
    (folder,) = mount.iterdir()
    peers.end_epoch(0)
    assert len(list(folder.glob("*.tfrecord"))) == N_FILES
    peers.end_epoch(EPOCHS - 1)
    assert list(mount.iterdir()) == []


def test_launch_that_fails_does_not_touch_the_mount_and_the_next_one_empties_it(
    staged, monkeypatch
):
    peers, mount, gfs = staged
    (folder,) = mount.iterdir()
    peers.stop()
    assert len(list(folder.glob("*.tfrecord"))) == N_FILES
    mounted_peers(mount, gfs).stop()
    assert folder.exists()  # its launch, this process, runs
    monkeypatch.setattr(Holder, "is_dead", True)
    left = []
    monkeypatch.setattr(
        "tierscope.benchmark.peers.mount.check_room",
        lambda mount, n_bytes: left.extend(mount.iterdir()),
    )
    mounted_peers(mount, gfs).stop()
    assert left == []


def test_sentinel_stays_when_another_process_fails_as_the_mount_may_hang(tmp_path):
    processes = OneNode()

    def fail():
        raise OtherRankFailed(1)

    processes.barrier = fail
    with pytest.raises(OtherRankFailed):
        check_live(in_mount(tmp_path), processes, "launch", 1, {})
    (folder,) = tmp_path.iterdir()
    assert (folder / ".node-0").exists()


# ---- tables ---------------------------------------------------------------------


def peer_reads(*rows):
    names = ["rank", "epoch", "file_id", "owner", "bytes", "time_s"]
    names += ["lfs_read_time_s", "lfs_meta_time_s"]
    return pd.DataFrame(list(rows), columns=names)


def test_reads_from_peers_become_records_of_tier_net():
    log = pd.DataFrame(
        {"rank": [1], "epoch": [0], "tier": ["lfs"], "file_id": [3]}
        | {"opens": [1], "reads": [2], "bytes_read": [9]}
        | {"read_time_s": [0.25], "meta_time_s": [0.5]}
    )
    both = with_peer_reads(log, peer_reads((0, 0, 4, 1, 9, 0.75, 0.25, 0.125)))
    assert both["tier"].tolist() == ["net", "lfs"]
    assert both["read_time_s"].tolist() == [0.75, 0.25]
    assert both["opens"].tolist() == [1, 1]
    assert both["reads"].tolist() == [1, 2]
    check_table(both, "file_records")


def test_peers_are_summed_and_the_lfs_is_kept_apart_from_the_network():
    reads = peer_reads(
        (0, 0, 4, 1, 10, 1.0, 0.25, 0.125), (0, 0, 5, 1, 10, 2.0, 0.5, 0.25)
    )
    table = check_table(sum_peers(reads, {0: 0, 1: 1}, [0, 1]), "run_peers")
    assert len(table) == 4
    row = table[(table["rank"] == 0) & (table["epoch"] == 0)].iloc[0]
    assert (row["peer_files"], row["peer_bytes"]) == (2, 20)
    assert row["net_read_time_s"] == 3.0
    assert row["peer_lfs_read_time_s"] == 0.75
    assert row["peer_lfs_meta_time_s"] == 0.375
    assert row["network_time_s"] == 1.875
    assert table["net_read_time_s"].sum() == 3.0


def test_stage_in_is_summed_by_node():
    names = ["rank", "epoch", "tier", "file_id", "opens", "reads", "bytes_read"]
    names += ["writes", "bytes_written"]
    records = pd.DataFrame(
        [
            (0, 0, "gfs", 1, 1, 2, 10, 0, 0),
            (0, 0, "lfs", 1, 1, 0, 0, 1, 10),
            (1, 0, "gfs", 2, 1, 2, 10, 0, 0),
            (1, 0, "lfs", 2, 1, 0, 0, 1, 10),
        ],
        columns=names,
    ).assign(read_time_s=0.5, write_time_s=0.25, meta_time_s=0.125)
    table = sum_stage_in(records, {0: 0, 1: 0, 2: 1, 3: 1}, 1.5)
    check_table(table, "run_stage_in")
    assert table["gfs_bytes"].tolist() == [20, 0]
    assert table["lfs_write_time_s"].tolist() == [0.5, 0.0]
    assert table["stage_in_time_s"].tolist() == [1.5, 1.5]


def test_policy_answers_like_any_other():
    policy = AdHoc(np.array([True, False]), np.array([0, 0]), 0)
    assert policy.start() == []
    assert policy.end_read(0, policy.begin_read(0)) == []
