"""Launches in virtual time that fail: they end soon, say why once, and leave nothing.

Nothing sleeps in virtual time, so a fault is put into the project's own code: a process
stops in the middle of an epoch while all others wait for its turn.
"""

import os
import re
import signal

import pytest
from integration.launches import (
    edit,
    hold,
    inject,
    let_go,
    messages_of,
    pid_of,
    ranks_of,
    segments_of,
)
from tierscope.core.tables import read_table

FILES, DATABASE = "tiny-60ost-pinning-posix", "tiny-60ost-pinning-lmdbio"
NODE = os.uname().nodename
SLEEP = "__import__('time').sleep(600)"


def put(project, fault, rank=2):
    """Let a rank do something else in the second epoch, before it opens a file."""
    code = f"""
_open = os.open

def _faulty_open(path, *flags, **options):
    if os.environ["PMI_RANK"] == "{rank}" and ".ep1/" in str(path):
        {fault}
    return _open(path, *flags, **options)

os.open = _faulty_open
"""
    inject(project, "benchmark.loaders.posix", code)


def put_into_reader(project, fault):
    """Let the first reader do something else in the second epoch, in its turn."""
    code = f"""
_index = DatabaseLoader._index

def _faulty_index(self, plan):
    if self._rank == 0 and self._log.epoch == 1:
        {fault}
    return _index(self, plan)

DatabaseLoader._index = _faulty_index
"""
    inject(project, "benchmark.loaders.lmdb", code)


def one_message(output):
    (line,) = messages_of(output)
    return line


@pytest.mark.parametrize(
    ("signum", "rank", "words"),
    [
        (signal.SIGKILL, 2, f"tierscope: rank 2 of 4 on {NODE} is gone"),
        (signal.SIGKILL, 0, f"tierscope: rank 0 of 4 on {NODE} is gone"),
        (signal.SIGTERM, 1, f"tierscope: rank 1 of 4 on {NODE} failed"),
        (signal.SIGTERM, None, f"of 4 on {NODE} failed"),
        (signal.SIGINT, None, f"of 4 on {NODE} failed"),
    ],
)
def test_signal_ends_a_launch_whose_processes_wait_for_another(
    emulated, signum, rank, words
):
    put(emulated, SLEEP)
    launch = emulated.launch(FILES, "cache-050/rep-0", "cache-100/rep-0")
    launch.wait_for("epoch 1 of 2")  # all others wait for rank 2, or will
    ranks = ranks_of(emulated.folder)
    os.kill(pid_of(emulated.folder, "mpiexec") if rank is None else ranks[rank], signum)
    output = launch.fail()
    assert words in one_message(output)
    assert "Traceback" not in output


def test_rank_that_ends_while_others_wait_for_it_is_named(emulated):
    put(emulated, "os._exit(1)")
    output = emulated.launch(FILES, "cache-050/rep-0").fail()
    assert f"rank 2 of 4 on {NODE} is gone" in one_message(output)


def test_error_of_one_rank_ends_the_others_with_its_message_alone(emulated):
    put(emulated, "raise OSError(5, 'a fault of this test')")
    line = one_message(emulated.launch(FILES, "cache-050/rep-0").fail())
    assert "tierscope: rank 2 of 4 on" in line
    assert (
        "failed in epoch 2 of 2 at cache rate 50 %: OSError: [Errno 5] a fault" in line
    )


@pytest.mark.parametrize("rank", [0, 2])
def test_no_progress_names_whom_every_actor_waits_for(emulated, rank):
    inject(emulated, "storage.clock", "NO_PROGRESS_S = 3.0\n")
    put(emulated, SLEEP, rank)
    output = emulated.launch(FILES, "cache-050/rep-0").fail()
    assert f"rank {rank} reader: running, at " in output
    assert f"rank {rank} consumer: blocked, waits for batch 1 of its reader" in output
    assert re.search(r"rank 1 reader: waiting for an? .+ of device \d, at ", output)
    assert "tierscope: no progress in virtual time for " in one_message(output)


def test_killed_reader_ends_a_launch_that_waits_for_it(emulated):
    put_into_reader(emulated, "__import__('os').kill(__import__('os').getpid(), 9)")
    output = emulated.launch(DATABASE, "cache-050/rep-0").fail()
    assert f"tierscope: rank 0 of 4 on {NODE} is gone" in one_message(output)
    assert "Traceback" not in output


def test_who_waits_for_a_reader_or_its_token_is_named(emulated):
    inject(emulated, "storage.clock", "NO_PROGRESS_S = 3.0\n")
    put_into_reader(emulated, SLEEP)
    output = emulated.launch(DATABASE, "cache-050/rep-0").fail()
    for words in (
        "rank 0 consumer: running, at ",
        "rank 1 consumer: blocked, waits for the others of group 0, at ",
        "rank 2 consumer: blocked, waits for token 0 of rank 0, at ",
        "rank 3 consumer: blocked, waits for the others of group 1, at ",
    ):
        assert words in output
    assert "tierscope: no progress in virtual time for " in one_message(output)


# ---- policies and peers --------------------------------------------------------------


def scenario_of(policy):
    return f"tiny-60ost-{policy}-posix"


@pytest.fixture(scope="module")
def whole(emulated_storage, tmp_path_factory):
    """Return the tables of launches without a fault, by policy."""
    project = emulated_storage.copied_to(tmp_path_factory.mktemp("whole") / "project")
    tables = {}
    for policy in ("monarch", "adhoc"):
        launch = project.launch(
            scenario_of(policy), "cache-050/rep-0", "cache-100/rep-0"
        )
        launch.finish()
        tables[policy] = launch.tables()
    return tables


FAULT, DIES = "raise ZeroDivisionError('broke')", "os.kill(os.getpid(), 9)"
BROKE = "has ended: ZeroDivisionError: broke"
GONE = f"rank 0 of 4 on {NODE} is gone"
COPIER = (
    "benchmark/placement/copy_threads.py",
    "            now_ns = self._clock.take_turn(role",
)
DECIDER = (
    "benchmark/placement/server.py",
    "        place = self._policy.begin_read(file_id)\n",
)
SERVER = ("benchmark/peers/server.py", "        path = self._path(epoch, file_id)\n")


@pytest.mark.parametrize(
    ("policy", "place", "fault", "words"),
    [
        ("monarch", COPIER, FAULT, f"of node 0 {BROKE}"),
        ("monarch", COPIER, DIES, GONE),
        ("monarch", DECIDER, FAULT, f"of node 0 {BROKE}"),
        ("monarch", DECIDER, DIES, GONE),
        ("adhoc", SERVER, FAULT, f"of node 0 for other nodes {BROKE}"),
        ("adhoc", SERVER, DIES, GONE),
    ],
)
def test_launch_ends_if_who_serves_others_breaks_or_dies_and_the_next_one_finishes(
    emulated, whole, policy, place, fault, words
):
    module, line = place
    indent = line[: len(line) - len(line.lstrip())]
    broken = f"{indent}if os.environ['PMI_RANK'] == '0': {fault}\n{line}"
    edit(emulated, module, line, broken)
    head = "import threading\n"
    edit(emulated, module, head, f"import os\n{head}")
    output = emulated.launch(
        scenario_of(policy), "cache-050/rep-0", "cache-100/rep-0"
    ).fail()
    assert words in one_message(output)
    edit(emulated, module, broken, line)
    again = emulated.launch(scenario_of(policy), "cache-050/rep-0", "cache-100/rep-0")
    again.finish()
    assert again.tables() == whole[policy]


@pytest.mark.parametrize("policy", ["monarch", "adhoc"])
@pytest.mark.parametrize("rank", [0, 3])
def test_point_that_was_finished_before_a_rank_was_killed_is_not_run_again(
    emulated, whole, policy, rank
):
    hold(emulated, 1, cache_rate_percent=100)
    launch = emulated.launch(scenario_of(policy), "cache-050/rep-0", "cache-100/rep-0")
    launch.wait_for("point 2 of 2", "epoch 1 of 2")
    ranks = ranks_of(emulated.folder)
    segments = set().union(*map(segments_of, ranks.values()))
    os.kill(ranks[rank], signal.SIGKILL)
    output = launch.fail()
    assert f"rank {rank} of 4 on {NODE} is gone" in one_message(output)
    assert segments
    assert not segments & set(os.listdir("/dev/shm"))
    let_go(emulated)
    again = emulated.launch(scenario_of(policy), "cache-050/rep-0", "cache-100/rep-0")
    assert "cache rate 50 %" not in again.finish()
    assert again.tables() == whole[policy]
    assert not list(emulated.folder.rglob(".placing-*"))
    for path in again.staging.rglob("epochs.parquet"):
        assert len(read_table(path, "run_epochs")) == 2 * 4
