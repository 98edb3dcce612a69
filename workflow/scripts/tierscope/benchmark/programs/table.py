"""The table of redirections of a node: which tier has a file, and what was opened.

``workflow/native/redirect/table.h`` has the same layout. All processes of a node map
the file. The library writes to it without a lock; this module only makes and reads it.
"""

import ctypes
import itertools
import mmap
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.core.files import written_whole
from tierscope.core.validation import ConfigError
from tierscope.logs.traced.escapes import HARMLESS, Escape

(
    OPENED_GFS,
    OPENED_LFS,
    FELL_BACK,
    CLOSED,
    MARKED,
    ALTERED,
    OPENED_TO_WRITE,
    REUSED,
) = range(1, 9)
CHANGES = (ALTERED, OPENED_TO_WRITE)  # from then on the GFS has the file
COUNTS = (
    "fallbacks",
    "look_fallbacks",
    "writes",
    "undirected",
    "reached_by_links",
    "failed_marks",
    "unknown_processes",
    "escapes",
    "spawned",
    "loop_ends",
)
IO_COUNTS = ("rchar", "wchar", "read_bytes", "write_bytes")
_WITH_CHILDREN = ("rchar", "wchar")  # as the library notes them
N_EVENTS = 1 << 18
N_PROCESSES = 1 << 14
_MAGIC, _VERSION = b"tierscope-table", 4
_STAGED, _WRITTEN, _IS_LINK, _STATE_BITS = 1, 2, 4, 3
_N_ROOTS, _FOLDER_BYTES, _LONGEST_PATH = 4, 1024, 4095
_FOLDER = f"S{_FOLDER_BYTES}"
_LONGEST_TIER = len("/lfs.ep2147483647/")
_PAGE_BYTES = 4096
_LOAD = 0.75  # most names a slot
_PID_BITS, _RANK_KEY = 22, 1 << 63
_NO_SLOT = 2**32 - 1
_BLOCK_BYTES = 512  # of getrusage
_PATIENCE_S = 1.0  # for a process that has begun to note an event
_IO = [(name, "i8") for name in IO_COUNTS]
_ESCAPED = np.dtype([("reason", "u4"), ("path", "S252")])
_GROUP = np.dtype(
    [
        *[("key", "u8"), ("pid", "i4"), ("epoch", "i4"), ("n_marks", "u4")],
        *[("rank", "u4"), ("ended_ns", "i8"), ("after", "i4"), ("", "u4")],
    ]
)
_PROCESS = np.dtype(
    [
        *[("key", "u8"), ("start_ns", "i8"), ("end_ns", "i8"), *_IO],
        *[("group", "u4"), ("parent", "u4")],
        *[("marked_ns", "i8"), ("marked", "u4"), ("has_loops", "u4")],
    ]
)
_EVENT = np.dtype(
    [
        *[("serial", "u8"), ("time_ns", "u8"), ("slot", "u4"), ("pid", "i4")],
        *[("epoch", "i4"), ("group", "u2"), ("kind", "u1"), ("was_on_lfs", "u1")],
    ]
)
_HEADER = np.dtype(
    [
        *[("magic", "S16"), ("version", "u4"), ("header_bytes", "u4")],
        *[(name, "u8") for name in ("file_bytes", "seed", "n_files", "n_slots")],
        *[(name, "u8") for name in ("n_events", "n_processes", "slots_at", "ids_at")],
        *[(name, "u8") for name in ("readers_at", "events_at", "processes_at")],
        *[("device", "u8"), ("is_virtual", "u4"), ("wants_closes", "u4")],
        *[(name, "u4") for name in ("drops_gfs", "drops_lfs", "n_roots")],
        ("root_bytes", "u4", _N_ROOTS),
        *[(f"{name}_bytes", "u4") for name in ("real", "lfs", "links")],
        ("roots", _FOLDER, _N_ROOTS),
        *[(name, _FOLDER) for name in ("real", "lfs", "links")],
        *[("", "V24"), ("generation", "u8"), ("", "V56"), ("n_noted", "u8")],
        *[("", "V56"), ("counts", "u8", 16)],
        *[("groups", _GROUP, 1024), ("escaped", _ESCAPED, 64)],
    ]
)
EVENTS = np.dtype(
    [
        *[("time_ns", "i8"), ("file_id", "i8"), ("pid", "i4"), ("epoch", "i4")],
        *[("group", "i4"), ("kind", "u1"), ("was_on_lfs", "?"), ("device_bytes", "i8")],
    ]
)
GROUPS = np.dtype([(name, "i8") for name in ("rank", "pid", "epoch", "n_marks")])
PROCESSES = np.dtype(
    [
        *[(name, "i8") for name in ("pid", "ticks", "group", "start_ns", "end_ns")],
        *_IO,
        ("parent", "i8"),
    ]
)


@dataclass(frozen=True)
class TableFolders:
    """The folders between which a table redirects.

    Parameters
    ----------
    roots : sequence of str
        The dataset's paths that a program may use, absolute. The first one is that
        which does not exist, if `is_virtual`.
    real : str
        Real path of the dataset, a folder.
    lfs : str
        Folder of the copies on this node.
    links : str
        Existing local folder of ours, for ``gfs.ep<N>`` and ``lfs.ep<N>``.
    is_virtual : bool
        Whether the program gets a path that does not exist.
    """

    roots: Sequence[str]
    real: str
    lfs: str
    links: str
    is_virtual: bool


class NodeTable:
    """The table of a node, mapped.

    Parameters
    ----------
    path : path
        The file that ``TIERSCOPE_REDIRECT`` names.
    names : sequence of str
        The files' paths below the dataset, by file id, for who asks.
    library : path, optional
        The compiled ``libtierscope_redirect.so``, for who stages files.

    Raises
    ------
    ConfigError
        If the file is no table of this version.
    OSError
        If it cannot be read.
    """

    def __init__(
        self,
        path: str | Path,
        names: Sequence[str] = (),
        library: str | Path | None = None,
    ):
        self.path, self.names, self._library = Path(path), names, library
        with self.path.open("r+b") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes < _HEADER.itemsize:
                raise ConfigError(f"{path}: is no table of redirections.")
            self._map = mmap.mmap(file.fileno(), 0)
        self._header = np.frombuffer(self._map, _HEADER, 1)[0]
        found = tuple(int(self._header[name]) for name in ("version", "file_bytes"))
        if self._header["magic"] != _MAGIC or found != (_VERSION, size_bytes):
            raise ConfigError(
                f"{path}: version and bytes are {found}, expected a table of "
                f"redirections of {(_VERSION, size_bytes)}."
            )
        self._slots = self._part("slots", "u4")
        self._ids = self._part("ids", "u4", "n_slots")
        self._ring = self._part("events", _EVENT)
        self._places = self._part("processes", _PROCESS)
        self._n_drained = 0
        self._waits_since_s: float | None = None

    def _part(self, name: str, dtype: object, count: str = "") -> np.ndarray:
        """Return an array of the file."""
        n = int(self._header[count or f"n_{name}"])
        return np.frombuffer(self._map, dtype, n, int(self._header[f"{name}_at"]))

    @classmethod
    def create(
        cls,
        path: str | Path,
        folders: TableFolders,
        *,
        names: Sequence[str],
        is_link: np.ndarray,
        on_lfs: np.ndarray,
        wants_closes: bool,
        library: str | Path,
        room: tuple[int, int] = (N_EVENTS, N_PROCESSES),
    ) -> "NodeTable":
        """Make a node's table and the links of epoch 0; return it mapped.

        Parameters
        ----------
        path : path
            The file, in memory (``/dev/shm``); only this user may read it.
        folders : TableFolders
            Where files are.
        names : sequence of str
            Paths of the files below the dataset; their positions are the file ids.
        is_link, on_lfs : array of bool, shape (n_files,)
            Which files are symbolic links, and which have a copy on the LFS.
        wants_closes : bool
            Whether closes are noted, too, and files may leave the page cache then
            (`drop_from_now_on`).
        library : path
            The compiled ``libtierscope_redirect.so``.
        room : tuple of int
            For events that nobody has drained (a power of two), and for processes.

        Raises
        ------
        ConfigError
            If a path is not absolute and normal, or too long.
        OSError
            If the file or a link cannot be made.
        """
        real = folders.real
        roots = [*dict.fromkeys(one for one in folders.roots if one != real), real]
        _check_paths(roots, folders, names)
        header = _header(len(names), *room)
        _set_folders(header, roots, folders)
        header["is_virtual"] = folders.is_virtual
        header["wants_closes"] = wants_closes
        first = os.path.join(real, *names[:1])  # may be on another one than its folder
        header["device"] = os.stat(first if os.path.exists(first) else real).st_dev
        states = np.zeros(len(names), np.uint8)
        states[np.asarray(on_lfs, bool)] |= _STAGED
        states[np.asarray(is_link, bool)] |= _IS_LINK
        with written_whole(path) as temporary:
            _write(temporary, header, names, states, Path(library))
            for tier, folder in (("gfs", real), ("lfs", folders.lfs)):
                os.symlink(folder, os.path.join(folders.links, f"{tier}.ep0"))
        return cls(path, names, library)

    def drain(self, *, is_last: bool = False) -> tuple[np.ndarray, int]:
        """Take the events since the last call, in order.

        Parameters
        ----------
        is_last : bool
            Whether all processes have ended, so that no event is still being noted.

        Returns
        -------
        events : structured array, `EVENTS`
            ``file_id`` is -1 if the event is of no known file. ``time_ns`` is on the
            node's monotonic clock; of an open when its tier was decided, just before
            the table was asked. ``was_on_lfs`` is of what was closed. ``device_bytes``
            are what a process that marks has read so far itself, -1: unknown.
        n_lost : int
            Events that were overwritten, or not completed, before they were taken.
        """
        n_noted, n_events = int(self._header["n_noted"]), len(self._ring)
        n_lost = max(0, n_noted - n_events - self._n_drained)
        first = self._n_drained + n_lost
        at = np.arange(first, n_noted)
        is_whole = self._ring["serial"][at % n_events] == at + 1
        taken = self._ring[at % n_events]
        is_whole &= taken["serial"] == at + 1
        end = len(at) if is_last else self._end_of_whole(is_whole)
        # What was overwritten meanwhile may be a mixture of two.
        is_whole &= at >= int(self._header["n_noted"]) - n_events
        taken, n_whole = taken[:end][is_whole[:end]], int(is_whole[:end].sum())
        self._n_drained = first + end
        return self._as_events(taken), n_lost + end - n_whole

    def _end_of_whole(self, is_whole: np.ndarray) -> int:
        """Return how many events to take: none behind one that may be completed yet."""
        missing = np.flatnonzero(~is_whole)
        if not len(missing):
            self._waits_since_s = None
            return len(is_whole)
        now_s = time.monotonic()
        if self._waits_since_s is None or missing[0] > 0:
            self._waits_since_s = now_s
        if now_s - self._waits_since_s < _PATIENCE_S:
            return int(missing[0])
        self._waits_since_s = None
        return int(missing[0]) + 1  # its process was killed

    def _as_events(self, taken: np.ndarray) -> np.ndarray:
        """Return events with file ids in place of slots."""
        events = np.empty(len(taken), EVENTS)
        for name in ("time_ns", "pid", "epoch", "group", "kind", "was_on_lfs"):
            events[name] = taken[name]
        is_known, is_mark = taken["slot"] != _NO_SLOT, taken["kind"] == MARKED
        has_file, has_blocks = is_known & ~is_mark, is_known & is_mark
        events["file_id"] = events["device_bytes"] = -1
        events["file_id"][has_file] = self._ids[taken["slot"][has_file]]
        blocks = taken["slot"][has_blocks].astype(np.int64)
        events["device_bytes"][has_blocks] = blocks * _BLOCK_BYTES
        return events

    def stage(self, file_id: int, *, is_staged: bool) -> None:
        """Let opens of a file take its copy on the LFS from now on, or the GFS."""
        self._stage_slot(int(self._slot_of[file_id]), is_staged)

    def drops(self, tier: str) -> bool:
        """Return whether processes drop the pages of files of a tier themselves."""
        return bool(self._header[f"drops_{tier}"])

    def drop_from_now_on(self, tier: str) -> None:
        """Let processes drop the pages of files of a tier themselves."""
        self._header[f"drops_{tier}"] = True

    def release(self, file_id: int) -> None:
        """Forget an open of a process that has ended without a close."""
        self._release_slot(int(self._slot_of[file_id]))

    @cached_property
    def _release_slot(self) -> Callable[[int], int]:
        """Return the library's function that forgets an open."""
        return self._function("release", ctypes.c_uint64)

    @cached_property
    def _stage_slot(self) -> Callable[[int, bool], None]:
        """Return the library's function that changes a slot of this table."""
        return self._function("stage", ctypes.c_uint64, ctypes.c_bool)

    def _function(self, name: str, *kinds: type) -> Callable[..., Any]:
        """Return a function of the library that changes this table."""
        call = getattr(ctypes.CDLL(str(self._library)), f"tierscope_redirect_{name}")
        call.argtypes = [ctypes.c_void_p, *kinds]
        return partial(call, np.frombuffer(self._map, np.uint8).ctypes.data)

    @cached_property
    def _slot_of(self) -> np.ndarray:
        """Return the slot of each file."""
        used = np.flatnonzero(self._slots)
        slots = np.empty(int(self._header["n_files"]), np.int64)
        slots[self._ids[used]] = used
        return slots

    def on_lfs(self) -> np.ndarray:
        """Return which files are read from the LFS by now, by file id."""
        return self._states() & (_STAGED | _WRITTEN) == _STAGED

    def written(self) -> np.ndarray:
        """Return which files this node's processes have changed, by file id."""
        return self._states() & _WRITTEN > 0

    def _states(self) -> np.ndarray:
        states = np.zeros(int(self._header["n_files"]), np.uint8)
        used = self._slots > 0
        states[self._ids[used]] = self._slots[used] & ((1 << _STATE_BITS) - 1)
        return states

    def groups(self) -> np.ndarray:
        """Return the groups in use, `GROUPS`; the first is of those without another.

        ``rank`` is -1 without one; ``pid`` is of the first that marked, 0 if none did.
        """
        stored = self._header["groups"]
        stored = stored[: 1 + np.argmin(np.append(stored["key"][1:], 0) > 0)]
        groups = np.empty(len(stored), GROUPS)
        for name in ("pid", "epoch", "n_marks"):
            groups[name] = stored[name]
        ranks = (stored["key"] & np.uint64(_RANK_KEY - 1)).astype(np.int64)
        own = stored["rank"].astype(np.int64) - 1  # of a group of one process
        groups["rank"] = np.where(stored["key"] >= _RANK_KEY, ranks, own)
        return groups

    def processes(self) -> np.ndarray:
        """Return the processes so far, `PROCESSES`, in the order of their starts.

        ``group`` is that which a process belongs to by now. ``parent`` is the position
        of its nearest ancestor here, -1 without one. ``end_ns`` is 0 if no end was
        seen. Else the counts are those at its end, -1 if unknown; ``rchar`` and
        ``wchar`` hold those of children, too (see `own_counts`).
        """
        stored = self._places.copy()
        group = stored["group"]
        nearest = stored["parent"].copy()
        while (follows := (group == 0) & (nearest > 0)).any():
            above = nearest[follows] - 1
            group[follows] = stored["group"][above]
            nearest[follows] = stored["parent"][above]
        used = np.flatnonzero((stored["key"] > 0) & (stored["start_ns"] > 0))
        used = used[np.argsort(stored["start_ns"][used], kind="stable")]
        position = np.full(len(stored) + 1, -1)
        position[used + 1] = np.arange(len(used))
        stored = stored[used]
        processes = np.empty(len(stored), PROCESSES)
        for name in ("group", "start_ns", "end_ns", *IO_COUNTS):
            processes[name] = stored[name]
        processes["pid"] = stored["key"] & np.uint64((1 << _PID_BITS) - 1)
        processes["ticks"] = stored["key"] >> np.uint64(_PID_BITS)
        processes["parent"] = position[stored["parent"]]
        return processes

    def counts(self) -> dict[str, int]:
        """Return how often happened what is rare, by `COUNTS`.

        Starts of programs that are all known and harmless are no escapes.
        """
        stored = self._header["counts"]
        found = {name: int(stored[i]) for i, name in enumerate(COUNTS)}
        escaped = self._header["escaped"]
        noted = escaped[escaped["reason"] != 0]
        if len(noted) < len(escaped) and {*map(os.fsdecode, noted["path"])} <= HARMLESS:
            found["escapes"] = 0
        return found

    def escaped(self) -> list[str]:
        """Return the programs that were executed without the library, and why."""
        return [
            str(found)
            for one in self._header["escaped"]
            if (found := Escape.of(os.fsdecode(one["path"]), int(one["reason"])))
        ]


def own_counts(
    processes: np.ndarray, seen: Mapping[tuple[int, int], Mapping[str, int]]
) -> np.ndarray:
    """Return processes with what each has read and written itself, -1 if unknown.

    The kernel adds the counts of a child to its parent's ``/proc/PID/io`` when that
    waits for it, so sums of these would count children again and again.

    Parameters
    ----------
    processes : structured array, `PROCESSES`
        Of `NodeTable.processes`.
    seen : mapping of (pid, ticks) to counts
        ``/proc/PID/io`` as last read, for processes of which no end was seen. If the
        parent has ended, it is taken to have waited for them.
    """
    own = processes.copy()
    ended = processes["end_ns"] > 0
    for name in IO_COUNTS:
        of_children = [0] * len(own)  # that it can have waited for, and theirs
        for i in reversed(range(len(own))):
            process = own[i]
            key = int(process["pid"]), int(process["ticks"])
            alone, others = int(process[name]), of_children[i]
            if not ended[i]:
                alone = seen.get(key, {}).get(name, -1)
            if alone >= 0 and (name in _WITH_CHILDREN or not ended[i]):
                alone = max(0, alone - others)
            process[name] = alone
            parent = int(process["parent"])
            if (
                parent >= 0
                and alone >= 0
                and (
                    own["end_ns"][parent] >= process["end_ns"]
                    if ended[parent]
                    else ended[i]
                )
            ):
                of_children[parent] += alone + others
    return own


def _header(n_files: int, n_events: int, n_processes: int) -> np.ndarray:
    """Return the header of a table of this size, without folders."""
    header = np.zeros((), _HEADER)
    header["magic"], header["version"] = _MAGIC, _VERSION
    header["header_bytes"], header["generation"] = _HEADER.itemsize, 1
    n_slots = int(n_files / _LOAD) + 64
    header["n_files"], header["n_slots"] = n_files, n_slots
    header["n_events"], header["n_processes"] = n_events, n_processes
    end = _HEADER.itemsize
    for part, size_bytes in (
        ("slots", 4 * n_slots),
        ("ids", 4 * n_slots),
        ("readers", 2 * n_slots),
        ("events", _EVENT.itemsize * n_events),
        ("processes", _PROCESS.itemsize * n_processes),
    ):
        header[f"{part}_at"] = end = -(-end // _PAGE_BYTES) * _PAGE_BYTES
        end += size_bytes
    header["file_bytes"] = end
    return header


def _set_folders(
    header: np.ndarray, roots: Sequence[str], folders: TableFolders
) -> None:
    for i, root in enumerate(map(os.fsencode, roots)):
        header["roots"][i], header["root_bytes"][i] = root, len(root)
    for name in ("real", "lfs", "links"):
        text = os.fsencode(getattr(folders, name))
        header[name], header[f"{name}_bytes"] = text, len(text)
    header["n_roots"] = len(roots)


def _check_paths(
    roots: Sequence[str], folders: TableFolders, names: Sequence[str]
) -> None:
    """Refuse folders that have no room in the table, and paths that are too long."""
    lfs, links = folders.lfs, folders.links
    for folder in (*roots, lfs, links):
        if os.path.normpath(folder) != folder or not folder.startswith("/"):
            raise ConfigError(f"{folder}: expected an absolute, normalised path.")
        if folder == "/" or len(os.fsencode(folder)) >= _FOLDER_BYTES:
            raise ConfigError(
                f"{folder}: has {len(os.fsencode(folder))} bytes, expected 2 to "
                f"{_FOLDER_BYTES - 1}."
            )
    if len(roots) > _N_ROOTS:
        raise ConfigError(f"{roots}: expected at most {_N_ROOTS} paths of a dataset.")
    for inside, root in itertools.product((lfs, links), roots):
        if f"{inside}/".startswith(f"{root}/"):
            raise ConfigError(f"{inside}: lies in {root}, expected another place.")
    longest = max(map(len, map(os.fsencode, names)), default=0)
    real = roots[-1]
    above = max(len(os.fsencode(real)), len(os.fsencode(links)) + _LONGEST_TIER)
    if longest + above + 1 > _LONGEST_PATH:
        raise ConfigError(
            f"{real}: the longest path below it has {longest} bytes, expected at most "
            f"{_LONGEST_PATH - above - 1}."
        )


def _write(
    path: Path,
    header: np.ndarray,
    names: Sequence[str],
    states: np.ndarray,
    library: Path,
) -> None:
    """Write a table to a new file."""
    fill = ctypes.CDLL(str(library)).tierscope_redirect_fill
    fill.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    fill.restype = ctypes.c_int64
    texts = os.fsencode("\0".join([*names, ""]))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "r+b") as file:
        size_bytes = int(header["file_bytes"])
        os.posix_fallocate(descriptor, 0, size_bytes)  # not SIGBUS when it is full
        whole = np.frombuffer(mmap.mmap(descriptor, size_bytes), np.uint8)
        ends = int(header["slots_at"]), int(header["events_at"])
        for seed in range(1, 33):  # two names may have one hash in slots side by side
            header["seed"] = seed
            file.seek(0)
            file.write(header.tobytes())
            file.flush()
            whole[slice(*ends)] = 0
            if (twice := fill(whole.ctypes.data, texts, states.ctypes.data)) < 0:
                return
    raise ConfigError(f"{names[twice]}: stands twice in the list of files.")
