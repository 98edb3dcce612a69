import os
import platform
import subprocess

import pytest
from descriptions import describe_scenario
from tierscope.benchmark import processes as module
from tierscope.benchmark.processes import Processes, RankGoneError
from tierscope.core.processes.times import start_time
from tierscope.storage.clock import OtherRankFailed

SYSTEM = describe_scenario(
    system={"n_nodes": 1, "processes_per_node": 3, "virtual_nodes": True}
).system


class Communicator:
    """Of three processes, of which this is one and the others are given."""

    size = 3

    def __init__(self, rank, others):
        self.rank, self._others = rank, others
        self.reports = []

    def iprobe(self, source, tag):
        return (source, tag) in self.reports

    def allgather(self, value):
        if not isinstance(value, tuple):
            return [value] * 3
        found = [(platform.node(), pid, start_time(pid)) for pid in self._others]
        return [*found[: self.rank], value, *found[self.rank :]]


@pytest.fixture
def others():
    """Return two processes that go on."""
    children = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    yield children
    for child in children:
        child.kill()
        child.wait()


@pytest.fixture
def make(others, monkeypatch):
    """Return a function that makes a rank's `Processes`; nobody reports a failure."""
    monkeypatch.setattr(Processes, "_raise_reported_failure", lambda self: None)
    pids = [child.pid for child in others]
    return lambda rank: Processes(Communicator(rank, pids), SYSTEM, "test")


def kill(child):
    """Kill a process and leave it a zombie, as a launcher may."""
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def test_living_ranks_are_not_gone(make):
    processes = make(1)
    assert processes.dead_ranks() == []
    processes.raise_if_failed()


def test_killed_rank_is_found_by_a_wait_and_named(make, others):
    processes = make(1)
    kill(others[1])
    with pytest.raises(RankGoneError, match=r"rank 2 of 3 on .* is gone") as raised:
        processes.raise_if_failed()
    assert raised.value.args[1] == [2]
    assert processes.dead_ranks() == [2]


def test_looks_twice_a_second(make, others):
    processes = make(1)
    processes.dead_ranks()
    kill(others[0])
    assert processes.dead_ranks() == []
    processes._next_look_s = 0
    assert processes.dead_ranks() == [0]


def test_first_living_rank_speaks_and_leads(make, others):
    processes = make(1)
    assert not processes.prints_failures
    assert not processes.leads_node
    kill(others[0])
    processes.begin_failing()
    assert processes.leads_node
    assert processes.prints_failures


def test_nodes_leader_that_has_cleaned_up_is_not_waited_for(make, others):
    processes = make(2)
    assert not processes.node_leader_has_released
    processes.comm.reports.append((0, module._TAG_RELEASED))
    assert processes.node_leader_has_released
    kill(others[0])
    processes.begin_failing()
    assert not processes.node_leader_has_released


def test_first_rank_of_a_machine_leads_it_though_it_has_several_nodes(make):
    assert [make(rank).leads_machine for rank in range(3)] == [True, False, False]


def test_report_of_another_rank_comes_before_its_end(make, others, monkeypatch):
    processes = make(1)
    heard = iter([False, True])

    def hear(self):
        if next(heard):
            raise OtherRankFailed(2)

    monkeypatch.setattr(Processes, "_raise_reported_failure", hear)
    kill(others[1])
    with pytest.raises(OtherRankFailed, match="2"):
        processes.raise_if_failed()
