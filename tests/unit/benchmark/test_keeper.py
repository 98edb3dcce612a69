"""The keeper, with real processes in place of ranks."""

import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tierscope.benchmark.keeper import Keeper, Watch
from tierscope.core.processes.times import gone_text, start_time
from tierscope.storage.local_folder import LocalStorage

SCRIPTS = Path(__file__).parents[3] / "workflow" / "scripts"
RANK = """
import os, sys
from pathlib import Path
from tierscope.benchmark.keeper import Keeper
from tierscope.storage.local_folder import LocalStorage
launch, root, rank, then = sys.argv[1:]
orders = os.fdopen(os.dup(0))
keeper = Keeper(launch)
keeper.introduce(int(rank), 2, LocalStorage(Path(root) / "data", 0, 1, launch))
print("there", flush=True)
orders.readline()
exec(then)
"""


@pytest.fixture
def launch(tmp_path):
    """Return a function that starts a rank, and one that runs a keeper to its end."""
    name = f"test-{os.getpid()}-{time.monotonic_ns()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0tierscope-{os.getuid()}-{name}")
    listener.listen()
    storage = LocalStorage(tmp_path / "lfs" / "data", 0, 1, name)
    storage.claim()
    ranks = []

    def start(then="", n_ranks=2):
        for rank in range(n_ranks):
            arguments = [name, str(tmp_path / "lfs"), str(rank), then]
            one = subprocess.Popen(
                [sys.executable, "-S", "-c", RANK, *arguments],
                env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            ranks.append(one)
        for one in ranks:
            one.stdout.readline()
        return ranks

    watch = Watch(f"{os.getuid()}-{name}", listener, patience_s=0.5)
    thread = threading.Thread(target=watch.run, daemon=True)
    thread.start()
    start.keeper, start.lfs, start.name = thread, tmp_path / "lfs", name
    yield start
    for one in ranks:
        one.kill()
        one.communicate()
    thread.join(10)
    listener.close()


def go_on(rank):
    rank.stdin.write("\n")
    rank.stdin.flush()


def test_first_rank_that_is_gone_is_named_and_what_is_left_is_removed(launch, capsys):
    left = Path("/dev/shm", f"tierscope-{os.getuid()}-{launch.name}.state")
    ranks = launch()
    left.touch()
    for rank in (ranks[1], ranks[0]):
        rank.kill()
        rank.wait()
    launch.keeper.join(10)
    text = gone_text([1], 2, os.uname().nodename)
    assert capsys.readouterr().err == f"tierscope: {text}\n"
    assert not launch.lfs.exists()
    assert not left.exists()


IN_MPI_INIT = """
import mmap, os, signal, sys
from tierscope.benchmark.keeper import Keeper
keeper = Keeper(sys.argv[1])
with open(sys.argv[2], "w+b") as file:
    file.truncate(4096)
    held = mmap.mmap(file.fileno(), 4096)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_memory_of_a_rank_that_dies_while_mpi_starts_is_removed(launch):
    memory = Path(f"/dev/shm/mpich_{launch.name}")
    note = Path("/dev/shm", f"tierscope-{os.getuid()}-{launch.name}.kept")
    rank = subprocess.Popen(
        [sys.executable, "-S", "-c", IN_MPI_INIT, launch.name, memory],
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
    )
    try:
        deadline_s = time.monotonic() + 60
        while str(memory) not in note.read_text():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        rank.kill()
        launch.keeper.join(10)
        assert not memory.exists()
    finally:
        rank.kill()
        rank.wait()
        memory.unlink(missing_ok=True)


def test_rank_begins_when_the_keeper_has_both_its_connections(tmp_path):
    launch = f"test-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0tierscope-{os.getuid()}-{launch}")
        listener.listen()
        rank = subprocess.Popen(
            [sys.executable, "-S", "-c", RANK, launch, str(tmp_path), "0", ""],
            env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        first, _ = listener.accept()
        second, _ = listener.accept()
        assert not select.select([first, rank.stdout], [], [], 0.1)[0]
        second.sendall(b"\n")
        assert rank.stdout.readline() == b"there\n"
        assert b"rank 0 of 2" in first.recv(65536)
        rank.communicate(b"\n")
        first.close()
        second.close()


def test_ranks_that_have_done_their_work_are_left_alone(launch, capsys):
    for rank in launch("keeper.ended()"):
        go_on(rank)
    launch.keeper.join(10)
    assert capsys.readouterr().err == ""
    assert launch.lfs.exists()


def test_rank_that_reports_its_failure_speaks_for_all(launch, capsys):
    ranks = launch("keeper.note_failed(); orders.readline()")
    go_on(ranks[0])
    go_on(ranks[1])
    time.sleep(1)  # twice the patience: it cleans up
    assert [one.poll() for one in ranks] == [None, None]
    for rank in ranks:
        rank.kill()
    launch.keeper.join(10)
    assert capsys.readouterr().err == ""
    assert not launch.lfs.exists()


@pytest.mark.parametrize("tells", [True, False])
def test_keeper_speaks_for_a_rank_that_was_killed_before_it_did(launch, capsys, tells):
    then = "keeper.note_printed()" if tells else "pass"
    first, second = launch(f"keeper.note_failed(); {then}; orders.readline()")
    first.kill()  # and the other one finds it gone
    first.wait()
    time.sleep(0.2)
    go_on(second)
    time.sleep(0.2)
    second.kill()
    launch.keeper.join(10)
    text = gone_text([0], 2, os.uname().nodename)
    assert capsys.readouterr().err == ("" if tells else f"tierscope: {text}\n")
    assert not list(Path("/dev/shm").glob(f"tierscope-*{launch.name}.printed"))


def test_note_that_a_failure_was_printed_is_no_link_and_nobody_elses(launch, tmp_path):
    """Others can put a link or a file of this name into the memory of the node."""
    note = Path("/dev/shm", f"tierscope-{os.getuid()}-{launch.name}.printed")
    told = "print(keeper.was_printed(), flush=True); orders.readline()"
    note.symlink_to(tmp_path / "mine")
    try:
        if os.geteuid() == 0:
            os.chown(note, 4321, 4321, follow_symlinks=False)
        (rank, _) = launch(f"keeper.note_printed(); {told}; keeper.ended()")
        go_on(rank)
        said = rank.stdout.readline()
        assert not (tmp_path / "mine").exists()
        assert said == f"{os.geteuid() != 0}\n"
    finally:
        note.unlink()


def test_rank_that_goes_on_after_a_failure_is_ended(launch, capsys):
    first, second = launch("import os; os._exit(1)")
    go_on(first)
    assert second.wait(timeout=10) == -9
    launch.keeper.join(10)
    assert "rank 0 of 2" in capsys.readouterr().err
    assert not launch.lfs.exists()


def test_first_process_starts_a_keeper_that_imports_nothing_of_its_folder(tmp_path):
    launch = f"test-{os.getpid()}-{time.monotonic_ns()}"
    LocalStorage(tmp_path / "lfs" / "data", 0, 1, launch).claim()
    (tmp_path / "json.py").write_text("raise ImportError")
    rank = [sys.executable, "-P", "-S", "-c", RANK]
    done = subprocess.run(
        [*rank, launch, str(tmp_path / "lfs"), "0", ""],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
        input="\n",
        capture_output=True,  # until the keeper has closed its end, too
        text=True,
        timeout=30,
    )
    text = gone_text([0], 2, os.uname().nodename)
    assert done.stderr == f"tierscope: {text}\n"
    assert not (tmp_path / "lfs").exists()


def test_keeper_of_another_user_is_not_told_anything(monkeypatch):
    launch = f"test-{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setattr(
        "tierscope.benchmark.keeper.process_and_user_of", lambda _: (1, -1)
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0tierscope-{os.getuid()}-{launch}")
        listener.listen()
        with pytest.raises(PermissionError, match="another user's process"):
            Keeper(launch)


def test_rank_without_a_keeper_goes_on():
    keeper = Keeper.__new__(Keeper)
    keeper._socket, other = socket.socketpair()
    other.close()
    keeper.note_failed()


def test_zombie_is_gone_and_a_living_process_is_not():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(child.pid) is None
    child.wait()
    assert start_time(child.pid) is None
    assert start_time(os.getpid()) > 0


@pytest.mark.parametrize(
    ("ranks", "words"), [([3], "rank 3 of 8 on a is gone"), ([1, 3], "ranks 1, 3 of 8")]
)
def test_ranks_that_are_gone_are_named(ranks, words):
    assert gone_text(ranks, 8, "a").startswith(words)
