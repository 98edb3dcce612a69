import errno
import os
import time

import numpy as np
import pytest
from tierscope.benchmark.programs import keeper as module
from tierscope.benchmark.programs.copier import Ended
from tierscope.benchmark.programs.keeper import NodeKeeper
from tierscope.benchmark.programs.table import (
    ALTERED,
    CLOSED,
    EVENTS,
    FELL_BACK,
    GROUPS,
    MARKED,
    OPENED_GFS,
    OPENED_LFS,
    OPENED_TO_WRITE,
    PROCESSES,
    REUSED,
)
from tierscope.core.columns import AFTER
from tierscope.core.processes.times import start_time

IO = {"rchar": 1, "wchar": 2, "read_bytes": 30, "write_bytes": 4}


class Table:
    """A node's table whose events the test says."""

    names = ("a.bin", "b.bin", "c.bin")

    def __init__(self, events=(), processes=(), n_lost=0):
        self._events, self._n_lost = list(events), n_lost
        self._processes = processes
        self.dropping, self.released = set(), []

    def add(self, *events):
        """Let these events, kind, file, epoch and group, come."""
        self._events += events

    def drain(self, *, is_last=False):
        """Return what has come, as the table does."""
        events = np.zeros(len(self._events), EVENTS)
        for place, (kind, file, *more) in enumerate(self._events):
            epoch, group, n_bytes = [*more, *(0, 0, -1)[len(more) :]]
            events[place] = (place, file, 7, epoch, group, kind, False, n_bytes)
        self._events, n_lost, self._n_lost = [], self._n_lost, 0
        return events, n_lost

    def drops(self, tier):
        """Return whether processes drop the pages of files of a tier."""
        return tier in self.dropping

    def drop_from_now_on(self, tier):
        """Let them do so."""
        self.dropping.add(tier)

    def release(self, file_id):
        """Forget an open."""
        self.released.append(file_id)

    def groups(self):
        """Return two groups."""
        return np.array([(-1, 0, 0, 0), (3, 7, 1, 2)], GROUPS)

    def processes(self):
        """Return the processes."""
        rows = [tuple(row[name] for name in PROCESSES.names) for row in self._processes]
        return np.array(rows, PROCESSES)

    def counts(self):
        """Return no counts."""
        return {}

    def escaped(self):
        """Return a program that escaped."""
        return ["static (is linked statically)"]


def process(pid=1, group=0, end_ns=9, ticks=1, **more):
    """Return a process of a table."""
    known = {"pid": pid, "ticks": ticks, "group": group, "start_ns": 0}
    return known | {"end_ns": end_ns, "parent": -1} | IO | more


def test_opens_are_added_up_by_group_epoch_tier_and_file():
    table = Table([(OPENED_GFS, 2, 0, 1), (OPENED_LFS, 0, 1, 1)])
    keeper = NodeKeeper(table, None)
    keeper.step()
    table.add((OPENED_GFS, 2, 0, 1), (OPENED_GFS, 2, 0, 0), (CLOSED, 2, 0, 1))
    noted = keeper.finish()
    assert noted["opens"].tolist() == [
        [0, 0, 0, 0, 2, 1],
        [1, 0, 0, 0, 2, 2],
        [1, 1, 1, 0, 0, 1],
    ]
    assert noted["groups"] == [
        {"rank": -1, "pid": 0, "epoch": 0, "device_bytes": -1},
        {"rank": 3, "pid": 7, "epoch": 1, "device_bytes": -1},
    ]
    assert noted["escaped"] == ["static (is linked statically)"]


def test_sums_of_many_opens_are_those_of_all(monkeypatch):
    monkeypatch.setattr(module, "_MOST_ROWS", 2)
    table = Table()
    keeper = NodeKeeper(table, None)
    for _ in range(3):
        table.add((OPENED_GFS, 0), (OPENED_GFS, 0), (OPENED_LFS, 1))
        keeper.step()
    sums = keeper.finish()["opens"].tolist()
    assert sums == [[0, 0, 0, 0, 0, 6], [0, 0, 1, 0, 1, 3]]


def test_what_is_rare_is_noted():
    events = [(ALTERED, 2), (OPENED_TO_WRITE, 0, 1), (ALTERED, 2)]
    events += [(FELL_BACK, 1), (FELL_BACK, 1), (ALTERED, -1)]  # a renamed folder
    noted = NodeKeeper(Table(events, n_lost=5), None).finish()
    assert noted["written"] == [0, 2]
    assert (noted["altered"], noted["renamed_folders"]) == ([2], 1)
    assert noted["fell_back"] == {"1": 2}
    assert noted["n_lost"] == 5
    assert noted["opens"].tolist() == [[0, 1, 0, 1, 0, 1]]


def test_mark_knows_what_its_group_has_read_of_devices():
    processes = [process(group=1), process(group=1), process(group=0)]
    noted = NodeKeeper(Table([(MARKED, -1, 2, 1)], processes), None).finish()
    assert noted["marks"] == [
        {"time_ns": 0, "group": 1, "epoch": 2, "pid": 7, "device_bytes": 60}
    ]
    later = process(group=1, start_ns=1, end_ns=0)  # begun after the mark, not seen yet
    noted = NodeKeeper(Table([(MARKED, -1, 2, 1)], [*processes, later]), None).finish()
    assert noted["marks"][0]["device_bytes"] == 60
    unknown = [process(group=1), process(group=1, read_bytes=-1)]
    noted = NodeKeeper(Table([(MARKED, -1, 2, 1)], unknown), None).finish()
    assert noted["marks"][0]["device_bytes"] == -1


def test_what_marks_tells_itself_what_it_has_read_before():
    processes = [process(pid=pid, group=1) for pid in (6, 7)]  # 30 bytes each by now
    table = Table([(MARKED, -1, 1, 1, 10)], processes)
    (mark,) = NodeKeeper(table, None).finish()["marks"]
    assert mark["device_bytes"] == 10 + 30


def test_killed_process_has_what_was_last_seen_of_it(monkeypatch):
    here = process(os.getpid(), end_ns=0, ticks=start_time(os.getpid()))
    other = process(os.getpid(), end_ns=0, ticks=1)  # of an older one
    monkeypatch.setattr(module, "_GRACE_S", 0.01)
    keeper = NodeKeeper(Table(processes=[here, other]), None)
    began_ns = time.monotonic_ns()
    keeper.step()
    noted = keeper.finish()
    assert noted["n_running"] == 1
    seen, unseen = noted["processes"]
    assert seen["rchar"] > 0
    assert seen["end_ns"] == unseen["seen_ns"] == 0
    assert began_ns < seen["seen_ns"] < time.monotonic_ns()
    assert unseen["rchar"] == -1


def test_what_a_child_has_read_is_not_counted_again_as_its_parents():
    processes = [process(rchar=100), process(pid=2, rchar=70, parent=0)]
    noted = NodeKeeper(Table(processes=processes), None).finish()
    assert [one["rchar"] for one in noted["processes"]] == [30, 70]


@pytest.fixture
def dropped(monkeypatch):
    """Return the files whose pages are dropped."""
    found = []
    monkeypatch.setattr(module, "drop_file", found.append)
    return found


@pytest.mark.parametrize(
    ("tiers", "last", "paths"),
    [
        ([], CLOSED, ["/gfs/a.bin"]),
        (["gfs"], CLOSED, []),
        (["gfs"], REUSED, ["/gfs/a.bin"]),
    ],
)
def test_pages_are_dropped_after_the_last_close_unless_it_did_so(
    dropped, tiers, last, paths
):
    opened = [(OPENED_GFS, 0), (OPENED_GFS, 0), (OPENED_LFS, 1), (CLOSED, 0)]
    table = Table(opened)
    table.dropping.update(tiers)
    keeper = NodeKeeper(table, {"gfs": "/gfs", "lfs": "/lfs"})
    keeper.step()
    assert dropped == []
    table.add((last, 0))
    keeper.step()
    keeper._dropper.shutdown()
    assert dropped == paths


def test_pages_are_looked_at_when_an_epoch_begins_on_a_node(monkeypatch):
    looks = []
    monkeypatch.setattr(
        module, "look_at_epoch", lambda *given: looks.append(given) or {}
    )
    marks = [(MARKED, -1, epoch, group) for epoch, group in ((0, 1), (1, 1), (1, 2))]
    marks.insert(0, (OPENED_GFS, 1))
    monkeypatch.setattr(Table, "on_lfs", lambda self: np.zeros(3, bool), raising=False)
    table = Table(marks[:2])
    keeper = NodeKeeper(table, {"gfs": "/gfs", "lfs": "/lfs"})
    keeper.step()
    table.add((MARKED, -1, AFTER, 1), *marks[2:])  # loops have ended
    keeper.step()
    keeper._looker.shutdown()
    ((_, _, on_gfs, on_lfs),) = looks
    assert (on_gfs.tolist(), on_lfs.any()) == ([True, False, True], False)
    assert keeper.finish()["resident"] == {"1": {}}
    warm = NodeKeeper(Table(marks), None)
    assert warm.finish()["resident"] == {}


def test_file_of_a_process_that_was_killed_is_released_and_dropped(dropped):
    table = Table([(OPENED_LFS, 1)])
    table.dropping.update(["gfs", "lfs"])
    keeper = NodeKeeper(table, {"gfs": "/gfs", "lfs": "/lfs"})
    keeper.step()
    keeper._end_all([7])
    keeper._dropper.shutdown()
    assert table.released == [1]
    assert dropped == ["/lfs/b.bin"]


class Moving:
    """A policy that copies some files, and then no more."""

    def __init__(self, copied=()):
        self.copied, self.may_copy = copied, bool(copied)

    def begin(self, read, decided_ns):
        """Take a read."""
        return read

    def end(self, read, ended_ns, *, was_closed=True):
        """Take its end."""

    def is_copied(self, file_id):
        """Return whether a file is being copied."""
        return file_id in self.copied

    def step(self):
        """Return the copies that have ended, a good one and a failed one."""
        return [Ended(0, 1), Ended(2, 1, "is full", errno.ENOSPC)]


@pytest.mark.parametrize(
    ("copied", "paths", "tiers"),
    [([0], ["/gfs/b.bin"], set()), ([], ["/gfs/a.bin"], {"gfs"})],
    ids=["the first file", "no file, which processes know after the first close"],
)
def test_pages_that_a_copy_needs_stay(dropped, monkeypatch, copied, paths, tiers):
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: 0)
    monkeypatch.setattr(module, "_SWITCH_NS", 2)  # the times of events are 0 to 3
    reads = [(OPENED_GFS, 0), (CLOSED, 0), (OPENED_GFS, 1), (CLOSED, 1)]
    table = Table(reads)
    keeper = NodeKeeper(table, {"gfs": "/gfs", "lfs": "/lfs"})
    keeper.placer = Moving(copied)
    keeper.step()
    keeper._dropper.shutdown()
    assert [path for path in dropped if path != "/gfs/c.bin"] == paths
    assert table.dropping == tiers


def test_pages_that_a_failed_copy_has_read_are_dropped(dropped):
    keeper = NodeKeeper(Table(), {"gfs": "/gfs", "lfs": "/lfs"})
    keeper.placer = Moving([0, 2])
    keeper.step()
    keeper._dropper.shutdown()
    assert dropped == ["/gfs/c.bin"]


def test_opens_again_in_the_same_epoch_are_counted(dropped):
    reads = [(OPENED_GFS, 0), (CLOSED, 0)]
    events = [*reads, *reads, (OPENED_GFS, 0, 1), (CLOSED, 0, 1)]
    keeper = NodeKeeper(Table(events), {"gfs": "/gfs"})
    keeper.step()
    assert keeper.finish()["n_reopened"] == 1


def test_opens_without_a_mark_are_late_once_another_group_is_in_a_later_epoch():
    table = Table([(OPENED_GFS, 0), (MARKED, -1, 0, 1), (OPENED_GFS, 1)])
    table.add((MARKED, -1, AFTER, 1), (OPENED_GFS, 1))  # no later epoch
    keeper = NodeKeeper(table, None)
    keeper.step()
    table.add(
        (OPENED_LFS, 2), (MARKED, -1, 1, 1), (OPENED_GFS, 0), (OPENED_LFS, 1, 1, 1)
    )
    assert keeper.finish()["late_opens"] == {"7": 1}


def test_bytes_of_processes_without_a_place_make_those_of_a_rank_unknown(monkeypatch):
    monkeypatch.setattr(Table, "counts", lambda self: {"unknown_processes": 1})
    noted = NodeKeeper(Table(processes=[process(group=1)]), None).finish()
    assert [one["device_bytes"] for one in noted["groups"]] == [-1, -1]
