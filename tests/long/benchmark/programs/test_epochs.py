"""Processes of a program, the groups of them, and which epoch an open is of."""

import ctypes
import os
import signal
import time

import numpy as np
import pytest
import sessions
from tierscope.benchmark.programs.table import (
    CLOSED,
    MARKED,
    N_EVENTS,
    N_PROCESSES,
    OPENED_GFS,
    OPENED_LFS,
    NodeTable,
    own_counts,
)
from tierscope.core.columns import AFTER

MARK = """
def mark(epoch):
    assert opened(f'{data}/.tierscope-epoch-{epoch}') == 'No such file or directory'
def read(i=2):
    return opened(f'{data}/train/{i}.png')
def fork(act):
    if (pid := os.fork()) == 0:
        act()
        os._exit(0)
    os.waitpid(pid, 0)
def execute():
    import subprocess
    subprocess.run(['cat', f'{data}/train/2.png'], stdout=-3, check=True)
"""
TURNS = f"""{MARK}
def loops(n, explicitly=False):
    first = libc.tierscope_first_epoch()
    for k in range(n):
        mark(first + k) if explicitly else libc.tierscope_epoch(first + k)
        read()
    return first
def start(act, *given):
    go, began = os.pipe(), os.pipe()
    if (pid := os.fork()) == 0:
        os.write(began[1], b'x')
        os.read(go[0], 1)
        act(*given)
        os._exit(0)
    os.read(began[0], 1)
    def end():
        os.write(go[1], b'x')
        os.waitpid(pid, 0)
    return end
"""
TO_EPOCH = [OPENED_GFS, OPENED_LFS]


def epochs(node):
    """Return the epochs of the opens so far, in order."""
    return [epoch for _, _, epoch in node.events(*TO_EPOCH)]


def test_mark_begins_an_epoch_in_any_language(any_node):
    code = f"{MARK}read(); mark(1); read(); libc.tierscope_epoch(2); read(); mark(0)"
    code += "; read(); print(open(f'{data}/train/2.png').read())"
    code += "; stream(f'{data}/.tierscope-epoch-7', 'w'); read()"
    assert any_node.run(code).strip() == "lfs train/2.png"
    assert any_node.events(*TO_EPOCH, MARKED) == [
        *[(OPENED_LFS, "train/2.png", 0), (MARKED, "", 1)],
        *[(OPENED_LFS, "train/2.png", 1), (MARKED, "", 2)],
        *[(OPENED_LFS, "train/2.png", 2), (MARKED, "", 0)],
        *[(OPENED_LFS, "train/2.png", 0)] * 2,
        *[(MARKED, "", 7), (OPENED_LFS, "train/2.png", 7)],
    ]
    assert os.readlink(any_node.folder / "links" / "lfs.ep2") == (
        str(any_node.folder / "lfs")
    )


def test_what_follows_a_loop_has_a_number_of_its_own_until_the_next_one(node):
    code = f"""{TURNS}
end = libc.tierscope_loops_ended
end(); read()  # nothing has begun
loops(1); end(); read(); fork(read); execute()
libc.tierscope_epoch(0); read(); end(); read()
assert libc.tierscope_epoch_under_way() == 0
libc.tierscope_epoch(1); read()
"""
    node.run(code)
    found = [
        (kind == MARKED, epoch) for kind, _, epoch in node.events(*TO_EPOCH, MARKED)
    ]
    assert [epoch for is_mark, epoch in found if is_mark] == [
        *[0, AFTER, 0, AFTER + 1, 1]
    ]
    assert [epoch for is_mark, epoch in found if not is_mark] == [
        *[0, 0, AFTER, AFTER, AFTER, 0, AFTER + 1, 1]
    ]
    assert node.table.counts()["loop_ends"] == 2


def test_program_after_loops_of_another_one_does_not_follow_them(node):
    evaluate = "read(); libc.tierscope_loops_ended(); read()"
    evaluate += "; libc.tierscope_epoch_here(-1); read()"
    node.run(f"{TURNS}loops(2); libc.tierscope_loops_ended(); read()", RANK="0")
    node.run(f"{MARK}{evaluate}", RANK="0")
    node.run(f"{TURNS}loops(1)", RANK="0")
    assert epochs(node) == [0, 1, AFTER, 1, AFTER + 1, 1, 2]


def test_what_is_no_mark_marks_nothing(any_node):
    names = ["x", "", "-1", "1x", "1234567890", "1/2"]
    code = f"{MARK}print({{opened(data + '/.tierscope-epoch-' + n) for n in {names}}})"
    code += "\nos.path.exists(data + '/.tierscope-epoch-3')"
    code += "\nprint(libc.tierscope_epoch(-1))"
    assert any_node.run(code).split("\n")[:2] == ["{'No such file or directory'}", "-1"]
    assert any_node.events(MARKED) == []


def test_children_read_for_the_epoch_of_their_nearest_ancestor_that_marked(node):
    code = f"""{MARK}
fork(execute)              # nobody has marked
mark(5)
fork(execute)              # 5: by its grandparent's
def trainer():
    read()                                   # 5
    mark(8)
    execute()                        # 8: by its parent's
fork(trainer)
read()                                       # 5: the child's group is its own
"""
    node.run(code)
    assert epochs(node) == [0, 5, 5, 8, 5]
    groups = node.table.groups()
    assert groups["epoch"].tolist() == [0, 5, 8]
    assert groups["rank"].tolist() == [-1, -1, -1]
    assert groups["n_marks"].tolist() == [0, 1, 1]


def test_worker_that_began_before_the_mark_follows_it(node):
    code = f"""{MARK}
go, went = os.pipe(), os.pipe()
if os.fork() == 0:
    read()
    os.write(went[1], b'x')
    os.read(go[0], 1)
    read()
    os._exit(0)
os.read(went[0], 1)
mark(3)
os.write(go[1], b'x')
os.wait()
"""
    node.run(code)
    assert epochs(node) == [0, 3]


def test_program_that_becomes_another_keeps_its_group(node):
    code = (
        f"{MARK}mark(4)\nos.execv('/bin/sh', ['sh', '-c', f'cat {{data}}/train/2.png'])"
    )
    assert node.run(code) == "lfs train/2.png"
    assert epochs(node) == [4]
    assert len(node.table.processes()) == 2  # the second one is cat


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"RANK": "3", "PMI_RANK": "1"}, 3),
        ({"SLURM_PROCID": "2", "SLURM_STEP_ID": "0"}, 2),
        ({"SLURM_PROCID": "2"}, -1),
        ({"RANK": "x"}, -1),
    ],
)
def test_processes_of_a_rank_have_their_epochs_together(node, variables, rank):
    node.run(f"{MARK}mark(2)", **variables)
    node.run(f"{MARK}read(); fork(execute)", **variables)
    assert epochs(node) == [2, 2] if rank >= 0 else [0, 0]
    assert node.table.groups()["rank"].tolist()[1:] == [rank]
    assert set(node.table.processes()["group"]) == {1} if rank >= 0 else {0, 1}


def test_ranks_of_a_node_drift_without_harm(node):
    for rank, epoch in ((0, 1), (1, 2)):
        node.run(f"{MARK}mark({epoch})", RANK=str(rank))
    for rank in (0, 1):
        node.run(f"{MARK}read()", RANK=str(rank))
    assert epochs(node) == [1, 2]


def test_rank_that_a_program_sets_itself_counts_from_its_first_mark(node):
    node.run(f"{MARK}os.environ['RANK'] = '6'\nmark(1); read()")
    assert node.table.groups()["rank"].tolist() == [-1, 6]
    assert epochs(node) == [1]


RANKS = pytest.mark.parametrize("rank", [{}, {"RANK": "3"}], ids=["none", "rank"])


@RANKS
@pytest.mark.parametrize("end", ["pass", "os.kill(os.getpid(), 9)"])
def test_loops_go_on_where_those_of_the_program_before_ended(node, rank, end):
    code = f"def train(n):\n  loops(n)\n  {end}\nfork(lambda: train(2))"
    code += "; fork(lambda: train(1)); fork(execute); fork(lambda: train(2))"
    node.run(TURNS + code, **rank)
    assert epochs(node) == [0, 1, 2, 2, 3, 4]
    assert node.table.groups()["rank"].tolist() == [-1, 3 if rank else -1]


@RANKS
def test_programs_that_run_at_the_same_time_count_each_from_the_same_epoch(node, rank):
    code = """
for _ in range(2):
    ends = [start(loops, 2), start(loops, 3)]
    for end in ends:  # the second one begins its loops when the first one has ended
        end()
"""
    node.run(TURNS + code, **rank)
    assert epochs(node) == [0, 1, 0, 1, 2, 3, 4, 3, 4, 5]
    assert set(node.table.groups()["rank"].tolist()[1:]) == {3 if rank else -1}


@RANKS
def test_what_a_program_starts_that_has_marked_begins_with_its_epoch(node, rank):
    code = """
mark(4)
end = start(loops, 2)
mark(5)
end()
fork(lambda: loops(1))
read()
"""
    node.run(TURNS + code, **rank)
    assert epochs(node) == [4, 5, 5, 5]


@pytest.mark.parametrize("rank", [{}, {"RANK": "3"}], ids=["no rank", "rank"])
def test_programs_that_begin_their_loops_at_once_count_each_for_itself(node, rank):
    """Each asks for its first epoch, and reads on, before another one has marked."""
    code = """
fork(lambda: loops(2))
def program(ready, go):
    first = libc.tierscope_first_epoch()
    read()
    os.write(ready, b'x')
    os.read(go, 1)
    for epoch in (first, first + 1):
        libc.tierscope_epoch(epoch)
        read()
begun = []
for _ in range(3):
    ready, go = os.pipe(), os.pipe()
    if (pid := os.fork()) == 0:
        program(ready[1], go[0])
        os._exit(0)
    os.read(ready[0], 1)
    begun.append((go[1], pid))
for go, pid in begun:
    os.write(go, b'x')
    os.waitpid(pid, 0)
"""
    node.run(TURNS + code, **rank)
    events, _ = node.table.drain()
    opens = events[np.isin(events["kind"], TO_EPOCH)]
    assert opens["epoch"].tolist() == [0, 1, 1, 1, 1, *[2, 3] * 3]
    assert len(set(opens["group"][2:5].tolist())) == 3
    assert opens["group"][2:5].tolist() == opens["group"][5::2].tolist()
    groups = node.table.groups()
    assert sorted(groups["n_marks"][groups["n_marks"] > 0]) == [2, 2, 4]
    assert set(groups["rank"][groups["n_marks"] > 0]) == {3 if rank else -1}


def test_tasks_of_a_launcher_that_is_not_known_go_on_by_their_ranks(node):
    """As with two calls of srun: a daemon starts the tasks."""
    for rank, n_epochs in ((0, 2), (1, 1), (0, 1), (1, 1)):
        node.run(f"{TURNS}loops({n_epochs})", RANK=str(rank))
    assert epochs(node) == [0, 1, 0, 2, 1]


def test_mark_of_a_program_that_has_ended_is_of_those_that_begin_then(node):
    code = """
before = start(read)
fork(lambda: mark(1))
fork(read)
fork(lambda: (mark(2), read()))
fork(execute)
before()
read()
"""
    node.run(TURNS + code)
    assert epochs(node) == [1, 2, 2, 0, 0]
    assert node.table.groups()["n_marks"].tolist() == [0, 2]


def test_ranks_that_are_started_again_go_on_together(node):
    code = """
def worker(rank, n):
    os.environ['RANK'] = str(rank)
    loops(n)
    os.kill(os.getpid(), 9)
for _ in range(2):
    for end in [start(worker, 0, 3), start(worker, 1, 2)]:
        end()
fork(read)
"""
    node.run(TURNS + code)
    assert epochs(node) == [0, 1, 2, 0, 1, 3, 4, 5, 3, 4, 5]
    assert node.table.groups()["rank"].tolist() == [-1, 0, 1]


@pytest.mark.parametrize(("explicitly", "expected"), [(False, 2), (True, 1)])
def test_program_that_becomes_another_begins_after_its_loops(
    node, explicitly, expected
):
    """Explicit marks begin an epoch for what is executed then."""
    act = "mark(0); mark(1)" if explicitly else "loops(2)"
    code = f"{TURNS}{act}\nos.execv(sys.executable, [sys.executable, '-ISc', "
    code += "'import ctypes; print(ctypes.CDLL(None).tierscope_first_epoch())'])"
    assert node.run(code) == f"{expected}\n"


def test_program_that_becomes_another_with_a_rank_counts_with_it(node):
    code = f"{MARK}os.environ['RANK'] = '5'\nos.execvp('cat', ['cat', f'{{data}}/"
    node.run(code + "train/2.png'])", PMI_RANK="2")
    assert node.table.groups()[node.table.processes()["group"]]["rank"].tolist() == [5]


def test_evaluation_is_of_the_epoch_under_way(node):
    code = "fork(lambda: loops(3)); print(libc.tierscope_epoch_under_way())"
    code += "; fork(lambda: print(libc.tierscope_epoch_under_way(), flush=True))"
    assert node.run(TURNS + code) == "0\n2\n0\n"


def test_process_alone_reads_for_an_epoch_until_it_follows_its_group_again(node):
    code = f"""{MARK}
mark(1)
def worker():
    for epoch in (2, -1):
        libc.tierscope_epoch_here(epoch)
        read()
fork(worker)
read()
"""
    node.run(code)
    assert epochs(node) == [2, 1, 1]


def test_end_of_a_process_says_what_it_has_read(node):
    node.run("os.environ; fork = os.fork()\nif not fork: os._exit(3)\nos.wait()")
    parent, child = node.table.processes()
    assert parent["start_ns"] < child["start_ns"] < child["end_ns"] < parent["end_ns"]
    assert parent["rchar"] > child["rchar"] > 0
    assert child["read_bytes"] >= 0
    assert [parent["parent"], child["parent"]] == [-1, 0]


def test_what_a_child_has_read_is_not_its_parents(node):
    code = "if os.fork() == 0: os.read(os.open('/dev/zero', 0), 1 << 24); os._exit(0)"
    node.run(f"{code}\nos.wait()")
    found = own_counts(node.table.processes(), {})["rchar"]
    assert node.table.processes()["rchar"][0] > found[1] > 1 << 24 > found[0] > 0


def test_killed_process_has_no_end_and_no_close(make_node):
    node = make_node(wants_closes=True)
    code = f"{MARK}os.open(f'{{data}}/train/2.png', 0)\nos.kill(os.getpid(), 9)"
    assert node.execute(node.command(code), check=False).returncode == -signal.SIGKILL
    assert node.table.processes()["end_ns"].tolist() == [0]
    assert node.events() == [(OPENED_LFS, "train/2.png", 0)]
    assert node.events(CLOSED) == []


@pytest.mark.parametrize("call", ["os.fork()", "libc._Fork()", "libc.syscall(57)"])
def test_child_of_any_fork_is_a_process_of_its_own(node, call):
    if "syscall" in call and os.uname().machine != "x86_64":
        pytest.skip("the number of another machine's system call")
    if "_Fork" in call and not hasattr(ctypes.CDLL(None), "_Fork"):
        pytest.skip("needs glibc 2.34")
    node.run(
        f"{MARK}pid = {call}\nif pid == 0:\n  read(); os._exit(0)\nos.wait(); read()"
    )
    events, _ = node.table.drain(is_last=True)
    processes = node.table.processes()
    opens = events[events["kind"] == OPENED_LFS]
    assert opens["pid"].tolist() == processes["pid"][::-1].tolist()
    assert (processes["end_ns"] > 0).all()


def test_processes_without_a_place_are_counted_and_follow_their_ancestors(make_node):
    node = make_node(room=(N_EVENTS, 1))
    node.run(f"{MARK}mark(2); fork(read); fork(lambda: mark(3)); fork(read)")
    assert epochs(node) == [2, 2]
    assert len(node.table.processes()) == 1
    counts = node.table.counts()
    assert [counts["unknown_processes"], counts["failed_marks"]] == [3, 1]


def test_events_of_many_processes_are_all_there_unless_the_ring_is_full(make_node):
    node = make_node(room=(1 << 12, N_PROCESSES))
    code = f"""{MARK}
for _ in range(4):
    if os.fork() == 0:
        for i in range(250):
            read(i % 6)
        os._exit(0)
for _ in range(4):
    os.wait()
"""
    node.run(code)
    events, n_lost = node.table.drain(is_last=True)
    assert [len(events), n_lost] == [1000, 0]
    assert (events["kind"] == OPENED_LFS).sum() == 4 * 125
    for _ in range(5):
        node.run(code)
    events, n_lost = node.table.drain(is_last=True)
    assert [len(events), n_lost] == [4096, 904]


def test_keeper_sees_the_opens_of_processes_that_run(node):
    process = sessions.start(
        node.command(f"{MARK}import time\nwhile True: read(); time.sleep(0.001)"),
        node.folder,
        env=os.environ | node.environment,
    )
    keeper, n_events = NodeTable(node.table.path), 0
    end_s = time.monotonic() + sessions.HANG_S
    while n_events < 5 and time.monotonic() < end_s:
        events, n_lost = keeper.drain()
        n_events += len(events)
        assert n_lost == 0
        assert set(events["file_id"]) <= {2}
    assert keeper.processes()["pid"].tolist() == [process.pid]
