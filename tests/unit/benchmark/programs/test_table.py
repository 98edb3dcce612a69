"""The table of redirections, as the node's keeper sees it."""

import os
import time
from dataclasses import fields

import numpy as np
import pytest
from tierscope.benchmark.programs import table as module
from tierscope.benchmark.programs.table import (
    COUNTS,
    MARKED,
    N_PROCESSES,
    OPENED_LFS,
    NodeTable,
    TableFolders,
)
from tierscope.core.validation import ConfigError


@pytest.fixture
def make(tmp_path, redirect_library):
    """Return a function that makes a table of 4 files, two of which are on the LFS."""

    def create(**changes):
        given = {
            "roots": ["/tierscope/set", str(tmp_path / "set")],
            "real": str(tmp_path / "set"),
            "lfs": str(tmp_path / "lfs"),
            "links": str(tmp_path),
            "names": ["a", "b/1", "b/2", "c"],
            "is_link": np.array([False, False, False, True]),
            "on_lfs": np.array([True, False, True, False]),
            "is_virtual": True,
            "wants_closes": False,
            "library": redirect_library,
            "room": (8, N_PROCESSES),
        } | changes
        os.makedirs(os.path.join(given["real"], "b"), exist_ok=True)
        (tmp_path / "set" / "a").touch()
        names = [one.name for one in fields(TableFolders)]
        folders = TableFolders(**{name: given.pop(name) for name in names})
        return NodeTable.create(tmp_path / "table", folders, **given)

    return create


def note(table, position, serial=None, **fields):
    """Note an event as a process does."""
    event = table._ring[position % len(table._ring)]
    for name, value in fields.items():
        event[name] = value
    event["serial"] = position + 1 if serial is None else serial
    table._header["n_noted"] = max(int(table._header["n_noted"]), position + 1)


def slot_of(table, file_id):
    """Return the slot of a file."""
    used = np.flatnonzero(table._slots)
    return next(slot for slot in used if table._ids[slot] == file_id)


def test_table_is_of_this_user_and_says_which_files_are_on_the_lfs(make, tmp_path):
    table = make()
    assert table.on_lfs().tolist() == [True, False, True, False]
    assert (tmp_path / "table").stat().st_mode & 0o777 == 0o600
    assert os.readlink(tmp_path / "gfs.ep0") == str(tmp_path / "set")
    assert os.readlink(tmp_path / "lfs.ep0") == str(tmp_path / "lfs")
    assert NodeTable(tmp_path / "table").on_lfs().sum() == 2
    assert table.groups().tolist() == [(-1, 0, 0, 0)]
    assert not len(table.processes())
    assert set(table.counts().values()) == {0}
    assert table.escaped() == []


def test_program_that_reads_no_data_is_not_said_to_escape(make):
    """PyTorch starts it at its import."""
    table = make()
    table._header["counts"][COUNTS.index("escapes")] = 2
    table._header["escaped"][0] = 1, b"/sbin/ldconfig"
    assert table.counts()["escapes"] == 0
    table._header["escaped"][1] = 1, b"/bin/train"
    assert table.counts()["escapes"] == 2
    assert table.escaped() == ["/bin/train (is linked statically)"]


def test_events_come_once_with_file_ids_in_place_of_slots(make):
    table = make()
    note(table, 0, kind=OPENED_LFS, slot=slot_of(table, 2), epoch=3, group=1, pid=77)
    note(table, 1, kind=MARKED, slot=3, epoch=4, group=1, pid=77, time_ns=5)
    events, n_lost = table.drain()
    assert events["file_id"].tolist() == [2, -1]
    assert events["device_bytes"].tolist() == [-1, 3 * 512]
    assert events["kind"].tolist() == [OPENED_LFS, MARKED]
    assert events["epoch"].tolist() == [3, 4]
    assert events["time_ns"][1] == 5
    assert n_lost == 0
    assert [len(table.drain()[0]), table.drain()[1]] == [0, 0]


def test_events_that_were_overwritten_are_counted_as_lost(make):
    table = make()
    for position in range(11):  # of 8 places
        note(table, position, kind=OPENED_LFS, pid=position)
    events, n_lost = table.drain()
    assert events["pid"].tolist() == list(range(3, 11))
    assert n_lost == 3


def test_event_of_a_process_that_was_killed_holds_up_the_others_for_a_second(
    make, monkeypatch
):
    table, now_s = make(), 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    note(table, 0, kind=OPENED_LFS, pid=0)
    note(table, 1, serial=0)
    note(table, 2, kind=OPENED_LFS, pid=2)
    assert [table.drain()[0]["pid"].tolist(), table.drain()[1]] == [[0], 0]
    now_s += 0.9
    assert not len(table.drain()[0])
    now_s += 0.2
    events, n_lost = table.drain()
    assert [events["pid"].tolist(), n_lost] == [[], 1]
    assert table.drain()[0]["pid"].tolist() == [2]


def test_last_drain_waits_for_nobody(make):
    table = make()
    note(table, 0, serial=0)
    note(table, 1, kind=OPENED_LFS, pid=1)
    events, n_lost = table.drain(is_last=True)
    assert [events["pid"].tolist(), n_lost] == [[1], 1]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"roots": ["/"]}, "/: has 1 bytes, expected 2 to 1023"),
        ({"roots": ["/a/"]}, "/a/: expected an absolute, normalised path"),
        ({"roots": ["a"]}, "a: expected an absolute, normalised path"),
        ({"roots": [f"/{i}" for i in range(4)]}, "expected at most 4 paths of a"),
        ({"lfs": f"/{'x' * 1100}"}, "has 1101 bytes, expected 2 to 1023"),
        ({"roots": ["/a"], "lfs": "/a/lfs"}, "/a/lfs: lies in /a, expected another"),
        ({"names": ["x/" * 2040, "b", "c", "d"]}, "the longest path below it has 4080"),
        ({"names": ["a", "b", "c", "b"]}, "b: stands twice in the list of files"),
    ],
)
def test_what_the_table_cannot_hold_is_one_line(make, tmp_path, changes, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "table").exists()
    assert not list(tmp_path.glob(".table*"))


@pytest.mark.parametrize("content", [b"", b"x" * 100_000])
def test_file_that_is_no_table_is_refused(tmp_path, content):
    (tmp_path / "table").write_bytes(content)
    with pytest.raises(ConfigError, match="redirections"):
        NodeTable(tmp_path / "table")


def test_table_of_the_largest_datasets_has_25_mb():
    header = module._header(1_300_000, module.N_EVENTS, module.N_PROCESSES)
    n_bytes_of_events = module.N_EVENTS * module._EVENT.itemsize
    assert n_bytes_of_events == 8 << 20
    assert header["file_bytes"] - n_bytes_of_events < 25e6


def process(pid, parent=-1, end_ns=0, rchar=0, read_bytes=0):
    """Return a process as the table has it."""
    return (pid, 5, 0, pid, end_ns, rchar, 0, read_bytes, 0, parent)


def test_children_that_a_process_has_waited_for_count_once():
    processes = np.array(
        [
            process(1, end_ns=90, rchar=100, read_bytes=1),
            process(2, parent=0, end_ns=50, rchar=70, read_bytes=2),
            process(3, parent=1, end_ns=40, rchar=30, read_bytes=4),
            process(4, parent=0, end_ns=95, rchar=1000, read_bytes=8),  # outlives it
            process(5, parent=0),  # killed, last seen with what 6 has read
            process(6, parent=4, end_ns=60, rchar=10, read_bytes=16),
            process(7, parent=0),  # of which nothing was seen
        ],
        module.PROCESSES,
    )
    own = module.own_counts(processes, {(5, 5): {"rchar": 13, "read_bytes": 48}})
    assert own["rchar"].tolist() == [17, 40, 30, 1000, 3, 10, -1]
    assert own["read_bytes"].tolist() == [1, 2, 4, 8, 32, 16, -1]
    assert own["wchar"].tolist() == [0, 0, 0, 0, -1, 0, -1]
