"""The keeper of a node: it takes what the redirecting library notes, while ranks run.

It also reads what each process has read of devices, as a killed one cannot say it. It
follows each read from open to close if a policy moves files, which it tells of each
read, or if epochs must be cold. The library drops a file's pages at its last close; the
keeper does that after the last read of a killed process, or where a copy might follow.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.programs.page_cache import drop_file, look_at_epoch
from tierscope.benchmark.programs.placing import Placer
from tierscope.benchmark.programs.reads import OpenReads, Read
from tierscope.benchmark.programs.table import (
    ALTERED,
    CHANGES,
    CLOSED,
    FELL_BACK,
    IO_COUNTS,
    MARKED,
    OPENED_GFS,
    OPENED_LFS,
    OPENED_TO_WRITE,
    REUSED,
    NodeTable,
    own_counts,
)
from tierscope.core.columns import AFTER
from tierscope.core.processes.times import start_time

_POLL_S = 0.002
_GRACE_S = 2.0  # for processes that outlive the program
_SWITCH_NS = 100_000_000  # from when on processes are sure to drop pages themselves
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
        The real folder of each tier, if epochs must be cold.
    """

    def __init__(self, table: NodeTable, folders: dict[str, str] | None):
        self._table, self._folders = table, folders
        self.placer: Placer | None = None  # if a policy moves files
        self._parts: list[np.ndarray] = []  # rows of `finish`, `opens`
        self._n_rows = 0
        self._marks: list[dict[str, int]] = []
        self._marked: set[int] = set()  # groups
        self._late_opens: Counter[int] = Counter()  # of other groups, by process
        self._is_later = False  # an epoch after the first one has begun
        self._written: set[int] = set()
        self._altered: set[int] = set()  # of these, by their names
        self._n_renamed_folders = 0
        self._fallbacks: Counter[int] = Counter()
        self._n_lost = 0
        self._reads = OpenReads()
        # The last epoch in which the pages of each file were dropped.
        self._dropped = np.full(len(table.names), -1, np.int32)
        self._drops_since_ns: dict[str, int] = {}  # by tier, if not from the start
        self._n_reopened = 0
        self._last_epoch = 0  # that began on this node
        self._looks: dict[int, Future[dict[str, float]]] = {}  # by epoch
        self._last_io: dict[tuple[int, int], dict[str, int]] = {}
        self._next_look_s = 0.0
        # Threads of their own: marks wait for none, and looks not for files to drop.
        self._dropper, self._looker = ThreadPoolExecutor(1), ThreadPoolExecutor(1)

    def step(self) -> None:
        """Take what has come since the last step."""
        if (now_s := time.monotonic()) >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_S
            self._look()
            self._take_with_ended()
        else:
            self._take()
        if self.placer:
            for copy in self.placer.step():
                self._dropped[copy.file_id] = copy.epoch
                if self._folders and copy.error is not None:  # else the copier has
                    self._drop(copy.file_id, "gfs")
        time.sleep(_POLL_S)

    def _take_with_ended(self) -> None:
        """Take what has come, and end the reads of processes that have ended before."""
        if not self._reads.pids:
            self._take()
            return
        running = {pid for pid, _ in self._running()}
        known = set(self._table.processes()["pid"].tolist())
        self._take()
        self._end_all(known - running)

    def _end_all(self, pids: Collection[int]) -> None:
        """End the reads of processes that have ended without closing their files."""
        for read in self._reads.end_of(pids):
            self._table.release(read.file_id)
            self._end(read, time.monotonic_ns(), was_closed=False)

    def _take(self, *, is_last: bool = False) -> None:
        events, n_lost = self._table.drain(is_last=is_last)
        self._n_lost += n_lost
        if not len(events):
            return
        kind, file = events["kind"], events["file_id"]
        is_open = (kind == OPENED_GFS) | (kind == OPENED_LFS)
        self._add_opens(events[is_open | (kind == OPENED_TO_WRITE)])
        # A renamed folder has no file here; its files are missed after the run.
        self._written.update(file[np.isin(kind, CHANGES) & (file >= 0)].tolist())
        self._altered.update(file[(kind == ALTERED) & (file >= 0)].tolist())
        self._n_renamed_folders += int(((kind == ALTERED) & (file < 0)).sum())
        for mark in events[kind == MARKED]:
            noted = {n: int(mark[n]) for n in ("time_ns", "group", "epoch", "pid")}
            noted["device_bytes"] = self._device_bytes(noted["group"], mark)
            self._marks.append(noted)
            if noted["epoch"] < AFTER:
                self._look_at_tiers(noted["epoch"])
        self._count_late(events, is_open)
        if self._folders or self.placer:
            self._follow(events)
        else:
            self._fallbacks.update(file[kind == FELL_BACK].tolist())

    def _add_opens(self, opened: np.ndarray) -> None:
        """Count opens, those for writing as well."""
        rows = np.ones((len(opened), 6), np.int64)
        rows[:, 0], rows[:, 1] = opened["group"], opened["epoch"]
        rows[:, 2] = opened["kind"] == OPENED_LFS
        rows[:, 3] = opened["kind"] == OPENED_TO_WRITE
        rows[:, 4] = opened["file_id"]
        self._parts.append(rows)
        self._n_rows += len(rows)
        if self._n_rows > _MOST_ROWS:
            self._parts = [_added_up(self._parts)]
            self._n_rows = 0

    def _look_at_tiers(self, epoch: int) -> None:
        """Look which pages are resident, if an epoch after the first one begins.

        Before the first one the node has looked itself.
        """
        if not self._folders or epoch <= self._last_epoch:
            return
        self._last_epoch = epoch
        is_idle = np.ones(len(self._table.names), bool)
        is_idle[[*self._reads.files]] = False
        names, on_lfs = self._table.names, self._table.on_lfs()
        self._looks[epoch] = self._looker.submit(
            look_at_epoch, self._folders, names, ~on_lfs & is_idle, on_lfs & is_idle
        )

    def _count_late(self, events: np.ndarray, is_open: np.ndarray) -> None:
        """Count opens of groups without a mark after a later epoch has begun."""
        is_mark = events["kind"] == MARKED
        self._marked.update(events["group"][is_mark].tolist())
        if not self._is_later:
            epoch = events["epoch"]
            later = np.flatnonzero(is_mark & (epoch > 0) & (epoch < AFTER))
            if not len(later):
                return
            self._is_later = True
            events, is_open = events[later[0] :], is_open[later[0] :]
        late = events[is_open & ~np.isin(events["group"], [*self._marked])]
        self._late_opens.update(late["pid"].tolist())

    def _follow(self, events: np.ndarray) -> None:
        """Follow reads from open to close, in the order of the events."""
        names = ["time_ns", "file_id", "pid", "epoch", "group", "kind", "was_on_lfs"]
        for time_ns, file, pid, epoch, group, kind, was_on_lfs in events[
            names
        ].tolist():
            if kind in (OPENED_GFS, OPENED_LFS):
                self._begin(Read(file, pid, group, epoch, kind == OPENED_LFS), time_ns)
            elif kind in (CLOSED, REUSED):
                if read := self._reads.end(pid, file, on_lfs=was_on_lfs):
                    self._end(read, time_ns, was_closed=kind == CLOSED)
            elif kind == FELL_BACK:
                if not (self.placer and self.placer.has_removed(file, time_ns)):
                    self._fallbacks[file] += 1
            elif kind in CHANGES and self.placer:
                self.placer.wrote(file)

    def _begin(self, read: Read, decided_ns: int) -> None:
        """Note that a read begins."""
        self._n_reopened += int(self._dropped[read.file_id] == read.epoch)
        self._reads.begin(self.placer.begin(read, decided_ns) if self.placer else read)

    def _end(self, read: Read, ended_ns: int, *, was_closed: bool = True) -> None:
        """Note that a read has ended, and that nobody reads its file any more.

        If its pages are not dropped yet and no copy needs them, they are. Nobody has
        dropped them if `was_closed` is false: the close itself was not seen.
        """
        if self.placer:
            self.placer.end(read, ended_ns, was_closed=was_closed)
            if self._folders and not self.placer.may_copy:
                self._let_processes_drop("gfs")
        if not self._folders or self._reads.is_read(read.file_id):
            return
        if self.placer and self.placer.is_copied(read.file_id):
            return
        self._dropped[read.file_id] = read.epoch
        tier = TIERS[read.on_lfs]
        is_dropped = was_closed and self._table.drops(tier)
        if not is_dropped or ended_ns < self._drops_since_ns.get(tier, 0):
            self._drop(read.file_id, tier)

    def _drop(self, file_id: int, tier: str) -> None:
        """Drop the pages of a file of a tier."""
        path = f"{self._folders[tier]}/{self._table.names[file_id]}"
        self._dropper.submit(drop_file, path)

    def _let_processes_drop(self, tier: str) -> None:
        """Let the library drop pages at last closes; those of before are the keeper's.

        A process that has looked just before may close a little later.
        """
        if not self._table.drops(tier):
            self._table.drop_from_now_on(tier)
            self._drops_since_ns[tier] = time.monotonic_ns() + _SWITCH_NS

    def _device_bytes(self, group: int, mark: np.void | None = None) -> int:
        """Return what a group's processes have read of devices, -1 if unknown.

        With a mark only those that began before count: others may not have been seen
        yet. What marks has told itself what it had read, as it reads on at once.
        """
        if self._table.counts().get("unknown_processes"):
            return -1  # the table had no room for them
        self._look(group)
        processes = self._processes()
        is_meant = processes["group"] == group
        if mark is not None:
            is_meant &= processes["start_ns"] <= mark["time_ns"]
            if mark["device_bytes"] >= 0:
                is_marking = is_meant & (processes["pid"] == mark["pid"])
                processes["read_bytes"][is_marking] = mark["device_bytes"]
        read = processes["read_bytes"][is_meant]
        return -1 if not len(read) or read.min() < 0 else int(read.sum())

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
                text = Path(f"/proc/{pid}/io").read_text(encoding="utf-8")
                seen = {"seen_ns": time.monotonic_ns()}
                self._last_io[pid, ticks] = _counts(text) | seen

    def finish(self) -> dict[str, Any]:
        """Take the rest, and return all that was noted.

        Processes that outlive the program have some time to end.

        Returns
        -------
        dict
            ``opens`` (n, 6): group, epoch, tier (position in `TIERS`), whether for
            writing, file, opens; ``groups``, ``marks``, ``processes`` (lists of dict),
            counts, and ``placing`` (`Placer.finish`).
        """
        end_s = time.monotonic() + _GRACE_S
        while any(self._running()) and time.monotonic() < end_s:
            self.step()
        self._take(is_last=True)
        self._end_all([*self._reads.pids])
        placing = self.placer.finish() if self.placer else None
        for pool in (self._dropper, self._looker):
            pool.shutdown(cancel_futures=True)
        groups = [
            {name: int(group[name]) for name in ("rank", "pid", "epoch")}
            | {"device_bytes": self._device_bytes(number)}
            for number, group in enumerate(self._table.groups())
        ]
        return {
            "opens": _added_up(self._parts),
            "groups": groups,
            "marks": self._marks,
            "placing": placing,
            "late_opens": {str(pid): n for pid, n in self._late_opens.items()},
            "processes": [self._noted(one) for one in self._processes()],
            "written": sorted(self._written),
            "altered": sorted(self._altered),
            "renamed_folders": self._n_renamed_folders,
            "fell_back": {str(file): n for file, n in self._fallbacks.items()},
            "n_lost": self._n_lost,
            "n_reopened": self._n_reopened,
            "resident": {
                str(epoch): look.result()
                for epoch, look in self._looks.items()
                if look.done() and not look.cancelled() and not look.exception()
            },
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
    """Return the sums of opens that are equal but for their number; (n, 6)."""
    rows = np.concatenate([np.empty((0, 6), np.int64), *parts])
    keys, place = np.unique(rows[:, :-1], axis=0, return_inverse=True)
    opens = np.bincount(place.ravel(), rows[:, -1], len(keys)).astype(np.int64)
    return np.column_stack([keys, opens])
