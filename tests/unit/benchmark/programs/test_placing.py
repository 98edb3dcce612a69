import errno

import numpy as np
import pytest
from tierscope.benchmark.placement.actions import CHANGED
from tierscope.benchmark.processes import BenchmarkError
from tierscope.benchmark.programs import placing as module
from tierscope.benchmark.programs.copier import Ended
from tierscope.benchmark.programs.placing import Placer
from tierscope.benchmark.programs.reads import Read
from tierscope.core.columns import AFTER
from tierscope.policies.decisions import NO_GROUP, Decisions
from tierscope.policies.lru import LeastRecentlyUsed
from tierscope.policies.monarch import Monarch
from tierscope.policies.node import Copy, NodeStore


class Copier:
    """Makes no copy; the test says which have ended."""

    pid = 9

    def __init__(self):
        self.orders, self.removed, self._ended = [], [], []
        self.fails_to_remove = False

    @property
    def n_under_way(self):
        """Return the number of copies that have not ended."""
        return len(self.orders) + len(self._ended)

    @property
    def progress(self):
        """Return what shows that copies go on."""
        return self.n_under_way

    def is_copied(self, file_id):
        """Return whether a file is being copied."""
        return any(file_id == one for one, _ in self.orders)

    def name(self, file_id):
        """Return the name of a file."""
        return f"{file_id}.bin"

    def order(self, file_id, epoch):
        """Take an order."""
        self.orders.append((file_id, epoch))

    def end(self, file_id, **error):
        """Let a copy end."""
        order = next(one for one in self.orders if one[0] == file_id)
        self.orders.remove(order)
        self._ended.append(Ended(*order, **error))

    def ended(self):
        """Yield the copies that have ended."""
        while self._ended:
            yield self._ended.pop(0)

    def remove(self, file_id):
        """Remove a copy."""
        if self.fails_to_remove:
            raise PermissionError(13, "Permission denied")
        self.removed.append(file_id)

    def close(self, patience_s=0.0):
        """End."""
        return 0


class Table(dict):
    """Which files the library takes from the LFS."""

    def stage(self, file_id, *, is_staged):
        """Change it."""
        self[file_id] = is_staged


@pytest.fixture
def said():
    """Return what is printed."""
    return []


@pytest.fixture
def make(said):
    """Return a function that makes a placer for three files of one byte."""

    def made(policy=Monarch, quota=2, **options):
        store = NodeStore(np.ones(3, int), quota)
        more = {"stop": "first-misfit"} if policy is Monarch else {}
        decisions = Decisions(0, NO_GROUP)
        return Placer(policy(store, **more), Table(), Copier(), decisions, said.append)

    return made


def read(placer, file_id, on_lfs=False, decided_ns=None, pid=1):
    """Let a process read a file from open to close; return the read."""
    decided_ns = placer.decisions.now_ns + 1 if decided_ns is None else decided_ns
    one = placer.begin(Read(file_id, pid, 3, 1, on_lfs), decided_ns)
    placer.end(one, decided_ns + 1)
    return one


def rows(placer):
    """Return event, file, place and detail of each decision."""
    columns = ["event", "file_id", "place", "detail"]
    return [
        tuple(one.decode() if isinstance(one, bytes) else one for one in row)
        for row in placer.decisions.table()[columns].tolist()
    ]


def test_file_is_copied_after_its_first_read_and_then_serves(make):
    placer = make()
    read(placer, 1)
    copier, table = placer._copier, placer._table
    assert copier.orders == [(1, 1)]
    assert table == {}
    copier.end(1)
    assert [one.file_id for one in placer.step()] == [1]
    assert table == {1: True}
    assert not read(placer, 1, on_lfs=True).is_late
    assert rows(placer) == [
        ("begin", 1, "gfs", ""),
        ("end", 1, "gfs", ""),
        ("copy", 1, "lfs", ""),
        ("placed", 1, "lfs", "read again"),
        ("begin", 1, "lfs", ""),
        ("end", 1, "lfs", ""),
    ]
    assert placer.decisions.table()["rank"].tolist() == [3, 3, -1, -1, 3, 3]


def test_read_that_was_decided_before_its_copy_came_is_late(make):
    placer = make()
    read(placer, 1)
    placer._copier.end(1)
    placer.step()
    assert read(placer, 1, decided_ns=0).is_late
    assert rows(placer)[-2:] == [
        ("begin", 1, "gfs", "late"),
        ("end", 1, "gfs", "late"),
    ]


def test_evicted_file_serves_no_longer_before_it_goes(make):
    placer = make(LeastRecentlyUsed, quota=1)
    for file_id in (0, 1):
        read(placer, file_id)
        placer._copier.end(file_id)
        placer.step()
    assert placer._table == {0: False, 1: True}
    assert placer._copier.removed == [0]
    assert placer.held_files == [1]
    gone_ns = placer.decisions.now_ns
    assert placer.has_removed(0, 1)
    assert not placer.has_removed(0, 2 * gone_ns)
    assert not placer.has_removed(1, 1)
    assert read(placer, 0, on_lfs=True, decided_ns=1).is_late


def test_copy_that_cannot_be_removed_is_counted(make, said):
    placer = make(LeastRecentlyUsed, quota=1)
    placer._copier.fails_to_remove = True
    for file_id in (0, 1):
        read(placer, file_id)
        placer._copier.end(file_id)
        placer.step()
    assert placer.n_not_removed == 1
    line = "removing 0.bin from the LFS failed: Permission denied"
    assert said == [f"{line}; it still takes up space"]


def test_copy_of_a_file_that_has_changed_is_told_from_other_failures(make):
    placer = make()
    for file, how in ((0, {"number": CHANGED}), (1, {})):
        read(placer, file)
        placer._copier.end(file, error="why", **how)
    placer.step()
    details = [row[3] for row in rows(placer) if row[0] == "failed"]
    assert details == ["changed", "error"]


def test_full_lfs_ends_placement_and_is_said(make, said):
    placer = make()
    read(placer, 0)
    placer._copier.end(0, error="No space left on device", number=errno.ENOSPC)
    placer.step()
    read(placer, 1)
    assert placer._copier.orders == []
    assert rows(placer)[3] == ("failed", 0, "gfs", "full")
    line = "copying 0.bin to the LFS failed: No space left on device"
    assert said == [f"{line}; reads go on from the GFS"]
    assert placer.n_failed == 1


def test_file_that_the_program_changes_is_left_alone(make):
    placer = make()
    placer.wrote(1)
    read(placer, 1)
    assert rows(placer) == []
    assert placer._copier.orders == []


def test_copies_under_way_are_awaited_but_not_for_ever(make, monkeypatch):
    monkeypatch.setattr(module, "_MOST_S", 0.01)
    placer = make()
    read(placer, 0)
    with pytest.raises(BenchmarkError, match="1 copies to the LFS hang: none has got"):
        placer.finish()
    placer._copier.end(0)
    finished = placer.finish()
    assert (finished["status"], finished["failed"]) == (0, 0)
    assert placer.held_files == [0]


class InTurn(Monarch):
    """A policy that copies file 1 when file 0 has got its copy."""

    def end_read(self, file_id, place):
        return [Copy(0)] if file_id == 0 else []

    def placed(self, file_id):
        return [Copy(1)] if file_id == 0 else []


def test_what_the_end_of_a_copy_orders_is_of_the_last_epoch_also_after_training(make):
    placer = make()
    placer._policy = InTurn(NodeStore(np.ones(3, int), 2), stop="first-misfit")
    for file_id, epoch in ((2, 1), (0, AFTER)):
        placer.end(placer.begin(Read(file_id, 1, 3, epoch, False), 1), 2)
    placer._copier.end(0)
    placer.step()
    table = placer.decisions.table()
    orders = table[table["event"] == b"copy"]
    assert orders[["file_id", "epoch"]].tolist() == [(0, AFTER), (1, 1)]
