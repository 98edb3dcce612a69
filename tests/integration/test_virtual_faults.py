"""Launches in virtual time that fail: they end soon, say why once, and leave nothing.

Nothing sleeps in virtual time, so a fault is put into the project's own code: a process
stops in the middle of an epoch while all others wait for its turn.
"""

import os
import re
import signal
import time

import pytest
from integration.conftest import Project
from integration.test_failures import (
    messages_of,
    pid_of,
    ranks_of,
    shared_memory,
    wait_for_log,
    wait_until_idle,
)
from integration.test_faults import edit
from integration.test_faults import small_lfs as small_lfs

TURN = "            descriptor = os.open(path, os.O_RDONLY)\n"
IN_RANK = "            if os.environ['PMI_RANK'] == '{}' and '.ep1/' in path: "


@pytest.fixture
def tiny(tmp_path):
    """Return a project with a light scenario in virtual time."""
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    project = Project(folder)
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [60],
                "loaders": ["posix"],
                "cache_rates_percent": [50, 100],
            },
            "figures": {"scenario": {"dataset": "tiny", "loader": "posix"}},
        },
    )
    return project


@pytest.fixture
def databases(tiny):
    """Return the project with a loader whose processes wait for readers and turns."""
    pytest.importorskip("lmdb")
    sweep = {"datasets": ["tiny"], "n_osts": [60], "loaders": ["lmdbio"]}
    values = {
        "sweep": sweep | {"cache_rates_percent": [50]},
        "figures": {"scenario": {"dataset": "tiny", "loader": "lmdbio"}},
    }
    tiny.change("config/tiny.yaml", values)
    return tiny


def put_into_reader(project, fault):
    """Let the first reader do something else in the second epoch, in its turn."""
    read = (
        "        tiers = np.concatenate([part.tiers[chosen] for part in plan.parts])\n"
    )
    fault = f"        if self._rank == 0 and self._log.epoch == 1: {fault}\n"
    edit(project, "loaders/lmdb.py", read, fault + read)


def put(project, fault, rank=2):
    """Let a rank do something else in the second epoch, before it opens a file."""
    edit(project, "loaders/posix.py", TURN, f"{IN_RANK.format(rank)}{fault}\n{TURN}")


def assert_nothing_is_left(project, before):
    wait_until_idle(project.folder)
    assert not (project.folder / "scratch" / "lfs").exists()
    # Another launch of this machine removes its own as soon as it has begun.
    end_s = time.monotonic() + 30
    while left := [n for n in shared_memory() - before if n.startswith("tierscope-")]:
        assert time.monotonic() < end_s, left
        time.sleep(0.5)


@pytest.mark.parametrize(
    ("signum", "rank", "words"),
    [
        (signal.SIGKILL, 2, r"tierscope: rank \d of 4 on {} is gone"),
        (signal.SIGKILL, 0, r"tierscope: rank \d of 4 on {} is gone"),
        (signal.SIGTERM, 1, "tierscope: rank 1 of 4 on {} failed"),
        (signal.SIGTERM, None, "of 4 on {} failed"),
        (signal.SIGINT, None, "of 4 on {} failed"),
    ],
)
def test_signal_ends_a_launch_whose_processes_wait_for_another(
    tiny, signum, rank, words
):
    before = shared_memory()
    put(tiny, "__import__('time').sleep(600)")
    running = tiny.start("audits")
    wait_for_log(tiny, "epoch 1 of 2")
    time.sleep(1)  # until all others wait for rank 2, or on the way there: both may be
    victim = (
        pid_of(tiny.folder, "mpiexec") if rank is None else ranks_of(tiny.folder)[rank]
    )
    started_s = time.monotonic()
    os.kill(victim, signum)
    output, _ = running.communicate(timeout=100)
    assert time.monotonic() - started_s < 60  # 10 s, on a busy machine
    assert running.returncode != 0
    (line,) = messages_of(output)
    assert re.search(words.format(os.uname().nodename), line)
    assert "Traceback" not in output
    assert_nothing_is_left(tiny, before)


def test_rank_that_ends_while_others_wait_for_it_is_named(tiny):
    before = shared_memory()
    put(tiny, "os._exit(1)")
    output = tiny.snakemake("audits", expect=1)
    (line,) = messages_of(output)
    # Which one: the launcher kills the others at once, and they may be seen first.
    assert re.search(rf"rank \d of 4 on {os.uname().nodename} is gone", line)
    assert_nothing_is_left(tiny, before)
    edit(tiny, "loaders/posix.py", f"{IN_RANK.format(2)}os._exit(1)\n{TURN}", TURN)
    tiny.snakemake("audits")  # and the next start finishes


def test_error_of_one_rank_ends_the_others_with_its_message_alone(tiny):
    before = shared_memory()
    put(tiny, "raise OSError(5, 'a fault of this test')")
    output = tiny.snakemake("audits", expect=1)
    (line,) = messages_of(output)
    assert "tierscope: rank 2 of 4 on" in line
    assert (
        "failed in epoch 2 of 2 at cache rate 50 %: OSError: [Errno 5] a fault" in line
    )
    assert_nothing_is_left(tiny, before)


@pytest.mark.parametrize("rank", [0, 2])
def test_no_progress_names_whom_every_actor_waits_for(tiny, rank):
    before = shared_memory()
    edit(tiny, "tiers/clock.py", "NO_PROGRESS_S = 60.0", "NO_PROGRESS_S = 3.0")
    put(tiny, "__import__('time').sleep(600)", rank)
    output = tiny.snakemake("audits", expect=1)
    assert f"rank {rank} reader: running, at " in output
    assert f"rank {rank} consumer: blocked, waits for batch 1 of its reader" in output
    assert re.search(r"rank 1 reader: waiting for an? .+ of device \d, at ", output)
    (line,) = messages_of(output)
    assert "tierscope: no progress in virtual time for " in line
    assert_nothing_is_left(tiny, before)


def test_killed_reader_ends_a_launch_that_waits_for_it(databases):
    before = shared_memory()
    put_into_reader(databases, "__import__('os').kill(__import__('os').getpid(), 9)")
    started_s = time.monotonic()
    output = databases.snakemake("audits", expect=1)
    assert time.monotonic() - started_s < 90
    (line,) = messages_of(output)
    assert re.search(rf"rank \d of 4 on {os.uname().nodename} is gone", line)
    assert "Traceback" not in output
    assert_nothing_is_left(databases, before)


def test_who_waits_for_a_reader_or_its_token_is_named(databases):
    before = shared_memory()
    edit(databases, "tiers/clock.py", "NO_PROGRESS_S = 60.0", "NO_PROGRESS_S = 3.0")
    put_into_reader(databases, "__import__('time').sleep(600)")
    output = databases.snakemake("audits", expect=1)
    for words in (
        "rank 0 consumer: running, at ",
        "rank 1 consumer: blocked, waits for the others of group 0, at ",
        "rank 2 consumer: blocked, waits for token 0 of rank 0, at ",
        "rank 3 consumer: blocked, waits for the others of group 1, at ",
    ):
        assert words in output
    (line,) = messages_of(output)
    assert "tierscope: no progress in virtual time for " in line
    assert_nothing_is_left(databases, before)


def test_full_lfs_is_refused_before_the_first_point(tiny, small_lfs):
    lfs = small_lfs()
    output = tiny.snakemake("audits", expect=1)
    (line,) = messages_of(output)
    assert "bytes for the files of 2 nodes on" in line
    assert "point 1 of" not in output
    assert list(lfs.iterdir()) == []


# ---- policies and peers --------------------------------------------------------------


def moving(folder, policy):
    """Return a project that runs a policy which moves files, or an ad hoc one."""
    folder.mkdir()
    project = Project(folder)
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [60],
                "policies": ["pinning", policy],
                "loaders": ["posix"],
                "cache_rates_percent": [50],
            },
            "figures": {"scenario": {"dataset": "tiny", "loader": "posix"}},
        },
    )
    return project


def tables_of(project, policy):
    """Return the bytes of all tables of a policy's run, by name."""
    folder = project.path("runs", f"tiny-60ost-{policy}-posix", "cache-050", "rep-0")
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the tables of runs without a fault."""
    tables = {}
    for policy in ("monarch", "adhoc"):
        project = moving(tmp_path_factory.mktemp("whole") / policy, policy)
        project.snakemake("audits")
        tables[policy] = tables_of(project, policy)
    return tables


FAULT, DIES = "raise ZeroDivisionError('broke')", "os.kill(os.getpid(), 9)"
COPIER = (
    "placement/copy_threads.py",
    "            now_ns = self._clock.take_turn(role",
)
DECIDER = ("placement/server.py", "        place = self._policy.begin_read(file_id)\n")
SERVER = ("peers/server.py", "        path = self._path(epoch, file_id)\n")


@pytest.mark.parametrize(
    ("policy", "place", "fault", "words"),
    [
        ("monarch", COPIER, FAULT, "of node 0 has ended"),
        ("monarch", COPIER, DIES, r"rank \d of 4 on {} is gone"),
        ("monarch", DECIDER, FAULT, "of node 0 has ended"),
        ("monarch", DECIDER, DIES, r"rank \d of 4 on {} is gone"),
        ("adhoc", SERVER, FAULT, "(node 0 for other nodes|its server) has ended"),
        ("adhoc", SERVER, DIES, r"rank \d of 4 on {} is gone"),
    ],
)
def test_launch_ends_if_who_serves_others_breaks_or_dies_and_the_next_one_finishes(
    tmp_path, whole, policy, place, fault, words
):
    before, project = shared_memory(), moving(tmp_path / "project", policy)
    module, line = place
    indent = line[: len(line) - len(line.lstrip())]
    broken = f"{indent}if os.environ['PMI_RANK'] == '0': {fault}\n{line}"
    edit(project, module, line, broken)
    head = "import threading\n"
    edit(project, module, head, f"import os\n{head}")
    started_s = time.monotonic()
    output = project.snakemake("audits", expect=1)
    assert time.monotonic() - started_s < 90
    assert re.search(words.format(os.uname().nodename), output)
    assert_nothing_is_left(project, before)
    edit(project, module, broken, line)
    project.snakemake("audits")
    assert tables_of(project, policy) == whole[policy]
