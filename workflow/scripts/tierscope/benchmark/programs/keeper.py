"""The keeper of a node: it takes what the redirecting library notes, while ranks run.

It also reads what each process has read of devices, as a killed one cannot say it, and
drops a file's pages after its last descriptor was closed, if epochs must be cold.
"""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.programs.page_cache import drop_file
from tierscope.benchmark.programs.table import (
    CLOSED,
    FELL_BACK,
    IO_COUNTS,
    MARKED,
    OPENED_GFS,
    OPENED_LFS,
    WROTE,
    NodeTable,
    own_counts,
)
from tierscope.storage.process_times import start_time

_POLL_S = 0.002
_GRACE_S = 2.0  # for processes that outlive the program
_LOOK_S = 0.25  # between looks at what processes have read
_MOST_ROWS = 1 << 20  # of opens that are not yet added up
_NOTED = ("pid", "ticks", "group", "start_ns", "end_ns", *IO_COUNTS)
TIERS = ("gfs", "lfs")


class NodeKeeper:
    """Takes the events of a node's table.

    Parameters
    ----------
    table : NodeTable
        The table of the node.
    folders : mapping of str to str, optional
        The real folder of each tier, in which pages of closed files are dropped; None
        if epochs need not be cold.
    """

    def __init__(self, table: NodeTable, folders: dict[str, str] | None):
        self._table, self._folders = table, folders
        self._parts: list[np.ndarray] = []  # rows: group, epoch, tier, file, opens
        self._n_rows = 0
        self._marks: list[dict[str, int]] = []
        self._marked: set[int] = set()  # groups
        self._late_opens: Counter[int] = Counter()  # of other groups, by process
        self._is_later = False  # an epoch after the first one has begun
        self._written: set[int] = set()
        self._fallbacks: Counter[int] = Counter()
        self._n_lost = 0
        self._open: Counter[int] = Counter()  # descriptors by file
        # The last epoch in which the pages of each file were dropped.
        self._dropped = np.full(len(table.names), -1, np.int32)
        self._n_reopened = 0
        self._last_io: dict[tuple[int, int], dict[str, int]] = {}
        self._next_look_s = 0.0
        # A thread of its own, so that marks do not wait for it.
        self._dropper = ThreadPoolExecutor(1)

    def step(self) -> None:
        """Take what has come since the last step."""
        self._take()
        if (now_s := time.monotonic()) >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_S
            self._look()
        time.sleep(_POLL_S)

    def _take(self, *, is_last: bool = False) -> None:
        events, n_lost = self._table.drain(is_last=is_last)
        self._n_lost += n_lost
        if not len(events):
            return
        kind, file = events["kind"], events["file_id"]
        is_open = (kind == OPENED_GFS) | (kind == OPENED_LFS)
        opened = events[is_open]
        rows = np.empty((len(opened), 5), np.int64)
        rows[:, 0], rows[:, 1] = opened["group"], opened["epoch"]
        rows[:, 2], rows[:, 3] = opened["kind"] == OPENED_LFS, opened["file_id"]
        rows[:, 4] = 1
        self._parts.append(rows)
        self._n_rows += len(rows)
        if self._n_rows > _MOST_ROWS:
            self._parts = [_added_up(self._parts)]
            self._n_rows = 0
        # A renamed folder has no file here; its files are missed after the run.
        self._written.update(file[(kind == WROTE) & (file >= 0)].tolist())
        self._fallbacks.update(file[kind == FELL_BACK].tolist())
        for mark in events[kind == MARKED]:
            noted = {n: int(mark[n]) for n in ("time_ns", "group", "epoch", "pid")}
            noted["device_bytes"] = self._device_bytes(noted["group"])
            self._marks.append(noted)
        self._count_late(events, is_open)
        if self._folders:
            self._drop(events[is_open | (kind == CLOSED)])

    def _count_late(self, events: np.ndarray, is_open: np.ndarray) -> None:
        """Count opens of groups without a mark after a later epoch has begun."""
        is_mark = events["kind"] == MARKED
        self._marked.update(events["group"][is_mark].tolist())
        if not self._is_later:
            later = np.flatnonzero(is_mark & (events["epoch"] > 0))
            if not len(later):
                return
            self._is_later = True
            events, is_open = events[later[0] :], is_open[later[0] :]
        late = events[is_open & ~np.isin(events["group"], [*self._marked])]
        self._late_opens.update(late["pid"].tolist())

    def _drop(self, events: np.ndarray) -> None:
        """Drop the pages of files that no process of the node has open."""
        for kind, file, epoch in events[["kind", "file_id", "epoch"]].tolist():
            if kind != CLOSED:
                self._open[file] += 1
                self._n_reopened += int(self._dropped[file] == epoch)
                continue
            self._open[file] -= 1
            if self._open[file] <= 0:
                del self._open[file]
                self._dropped[file] = epoch
                name = self._table.names[file]
                for folder in self._folders.values():
                    self._dropper.submit(drop_file, f"{folder}/{name}")

    def _device_bytes(self, group: int) -> int:
        """Return what a group's processes have read of devices, -1 if unknown."""
        if self._table.counts().get("unknown_processes"):
            return -1  # the table had no room for them
        self._look(group)
        processes = self._processes()
        read = processes["read_bytes"][processes["group"] == group]
        return -1 if not len(read) or min(read) < 0 else int(sum(read))

    def _processes(self) -> np.ndarray:
        """Return the processes with their own counts; of killed ones the last seen."""
        return own_counts(self._table.processes(), self._last_io)

    def _running(self, group: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield number and start of the processes that run, or of those of a group."""
        for process in self._table.processes():
            if process["end_ns"] or group not in (None, process["group"]):
                continue
            pid, ticks = int(process["pid"]), int(process["ticks"])
            if start_time(pid) == ticks:
                yield pid, ticks

    def _look(self, group: int | None = None) -> None:
        """Note what the processes that run, or those of a group, have read so far."""
        for pid, ticks in self._running(group):
            with suppress(OSError, ValueError):
                text = Path(f"/proc/{pid}/io").read_text()
                seen = {"seen_ns": time.monotonic_ns()}
                self._last_io[pid, ticks] = _counts(text) | seen

    def finish(self) -> dict[str, Any]:
        """Take the rest, and return all that was noted.

        Processes that outlive the program have some time to end.

        Returns
        -------
        dict
            ``opens`` (n, 5): group, epoch, tier (position in `TIERS`), file, opens;
            ``groups``, ``marks``, ``processes`` (lists of dict), and counts.
        """
        end_s = time.monotonic() + _GRACE_S
        while any(self._running()) and time.monotonic() < end_s:
            self.step()
        self._take(is_last=True)
        self._dropper.shutdown(cancel_futures=True)
        groups = [
            {name: int(group[name]) for name in ("rank", "pid", "epoch")}
            | {"device_bytes": self._device_bytes(number)}
            for number, group in enumerate(self._table.groups())
        ]
        return {
            "opens": _added_up(self._parts),
            "groups": groups,
            "marks": self._marks,
            "late_opens": {str(pid): n for pid, n in self._late_opens.items()},
            "processes": [self._noted(one) for one in self._processes()],
            "written": sorted(self._written),
            "fell_back": {str(file): n for file, n in self._fallbacks.items()},
            "n_lost": self._n_lost,
            "n_reopened": self._n_reopened,
            "n_running": sum(1 for _ in self._running()),
            "counts": self._table.counts(),
            "escaped": self._table.escaped(),
        }

    def _noted(self, process: np.void) -> dict[str, int]:
        """Return what is noted of a process; ``seen_ns``: when it ran at a look."""
        noted = {name: int(process[name]) for name in _NOTED}
        seen = self._last_io.get((noted["pid"], noted["ticks"]), {})
        return noted | {"seen_ns": seen.get("seen_ns", 0)}


def _counts(text: str) -> dict[str, int]:
    """Return the counts of a ``/proc/PID/io``."""
    pairs = (line.split(": ") for line in text.splitlines())
    return {name: int(value) for name, value in pairs}


def _added_up(parts: list[np.ndarray]) -> np.ndarray:
    """Return the sums of opens of equal group, epoch, tier and file; (n, 5)."""
    rows = np.concatenate([np.empty((0, 5), np.int64), *parts])
    keys, place = np.unique(rows[:, :4], axis=0, return_inverse=True)
    opens = np.bincount(place.ravel(), rows[:, 4], len(keys)).astype(np.int64)
    return np.column_stack([keys, opens])
