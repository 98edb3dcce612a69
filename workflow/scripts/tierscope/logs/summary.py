"""Sum up one log by process, epoch and class: small tables that jobs are made of.

The result holds numbers and texts only, so it can be written as JSON and kept: a log
that was read once is not read again.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from tierscope.core.columns import INTERFACES, OPERATIONS
from tierscope.core.words import as_text, as_utf8
from tierscope.logs.bounds import SharedRecords, shared_bounds
from tierscope.logs.summed_files import (
    costly_folders,
    root_folders,
    sums_by_name,
    top_files,
    top_folders,
)
from tierscope.logs.tiers import (
    AUTO,
    OTHER,
    UNNAMED,
    TierPrefix,
    proposed_tiers,
)
from tierscope.trace.log import LANES, MPI_IO, SHARED, AnyLog, LogError, Records
from tierscope.trace.placing import place_names

FORM = 1  # of `Summary`: another one if code that follows cannot read it
NO_EPOCH = -1
STILL_RUNNING = "still running"  # how a traced process ended, in metadata
EACH_OTHER = -1  # rank of a row for each process that has no row of its own
UNCOUNTED = {"DFS", "DAOS"}  # modules of calls that reach neither POSIX nor STDIO
# What a log may lack.
NO_EXE, CUT_EXE = "command line", "end of command line"
NO_MOUNTS, CUT_MOUNTS = "mount table", "end of mount table"
NO_RUN_TIME = "run time"
LONGEST_RUN_S = 10 * 366 * 86_400  # of a longer one, start or end is missing
_MOST_DIGITS = 18  # of an epoch, which is a 64-bit number
SIZES = ("0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M")
SIZES += ("1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+")
_OF_LOG = ("log_format", "uid", "job_id", "exe", "n_processes")
_OF_LOG += ("started_s", "ended_s", "clock_s", "n_mappings")
_READ, _META, _WRITE, _WRITE_META, _MIXED_META = range(len(OPERATIONS))


@dataclass
class Summary:
    """What an analysis needs of a log; lists have one entry a row.

    Parameters
    ----------
    facts : dict
        What the log says of its job.
    cells : list of (epoch, tier, interface, operation)
        The classes that the log has, by epoch.
    sums : dict of lists, one entry a cell
        ``sum_s``, ``operations``, ``bytes`` of all processes, ``files``.
    file_ids : list of lists of int, or None
        The files of each cell, if the log is of one process: logs of one job may name
        the same file.
    times : dict of lists
        ``rank``, ``cell``, ``least_s`` and ``most_s`` of what is recorded, even if the
        log lost records, ``operations`` and ``bytes`` (None: known of all processes
        together only). A row of rank `EACH_OTHER` stands for each process without a
        row of the same cell (`of_each_process`).
    totals : dict of lists
        ``rank``, ``epoch``, ``least_s``, ``most_s`` of all counted times, likewise.
    files, folders : dict of lists
        The paths with the most time, over all processes.
    sizes : list of (tier, operation, calls by size)
    prefixes : list of (tier, prefix, type of file system)
    """

    facts: dict[str, Any]
    cells: list[tuple[int, str, str, str]]
    sums: dict[str, list]
    file_ids: list[list[int]] | None
    times: dict[str, list]
    totals: dict[str, list]
    files: dict[str, list]
    folders: dict[str, list]
    sizes: list[tuple[str, str, list[int]]]
    prefixes: list[tuple[str, str, str]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the summary for JSON."""
        return vars(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the summary of what `as_json` has returned."""
        return cls(**values)


@dataclass(frozen=True)
class _Places:
    """Tier and epoch of every name, and of records without one (the last entry)."""

    tiers: list[str]  # names, OTHER and UNNAMED last
    tier_of: np.ndarray
    epochs: np.ndarray  # distinct ones
    epoch_of: np.ndarray  # positions in `epochs`
    used: list[TierPrefix]  # with the prefixes that names have


@dataclass(frozen=True)
class _Lanes:
    """The read, write and meta part of some records: arrays (n_records, 3).

    `amounts` are by name: seconds (``time_s``), ``operations`` and ``bytes``.
    """

    cells: np.ndarray
    is_present: np.ndarray
    amounts: dict[str, np.ndarray]


def summarise(
    log: AnyLog, digest: str, tiers: Sequence[TierPrefix] | str, epochs: str | None
) -> Summary:
    """Sum up a log, whose content `digest` identifies.

    `tiers` are given, or ``auto``: those of the log's mount table. The group of
    `epochs` is a file's epoch; a LogError says if it is no number.
    """
    if is_auto := tiers == AUTO:
        tiers = proposed_tiers(log.mounts)
    places = _place(log, tiers, epochs)
    names_of = {kind: _name_positions(log, one) for kind, one in log.records.items()}
    parts = {
        kind: _lanes(places, kind, records, names_of[kind])
        for kind, records in log.records.items()
    }
    codes = np.unique(
        np.concatenate([part.cells[part.is_present] for part in parts.values()])
    )
    cells = [_cell(places, int(code)) for code in codes]
    cell_of = {kind: np.searchsorted(codes, part.cells) for kind, part in parts.items()}
    times, totals = _process_times(log, places, parts, cell_of, cells)
    sums, ids = _sums(log, parts, cell_of, len(cells))
    by_name = sums_by_name(log, names_of)
    tier_of = np.array(places.tiers, object)[places.tier_of]
    folders = top_folders(log.names, by_name, tier_of)
    n_files = int((by_name["opens"][:-1] + by_name["time_s"][:-1] > 0).sum())
    known = {
        "n_files": n_files,
        "root_folders": root_folders(folders, tiers),
        "other_folders": costly_folders(folders, OTHER) if is_auto else [],
        "lacks": _lacks(log, is_auto),
    }
    return Summary(
        facts=_facts(log, digest, names_of) | known,
        cells=cells,
        sums=sums,
        file_ids=ids,
        times=times,
        totals=totals,
        files=top_files(log.names, by_name, tier_of),
        folders=folders,
        sizes=_sizes(log, places, names_of),
        prefixes=[(one.name, as_utf8(one.prefix), one.fs_type) for one in places.used],
    )


def _facts(log: AnyLog, digest: str, names_of: dict) -> dict[str, Any]:
    """Return what the log says of its job, and how it was read."""
    records = log.records.values()
    no_name = len(log.names.ids)
    return {name: getattr(log, name) for name in _OF_LOG} | {
        "digest": digest,
        "metadata": dict(log.metadata),
        "modules": list(log.modules),
        "partial": list(log.partial),
        "hides_calls": _hides_calls(log),
        "mapped_bytes": _mapped_bytes(log),
        "n_records": sum(len(one.ids) for one in records),
        "n_shared_records": sum(int((one.ranks == SHARED).sum()) for one in records),
        "flaws": dict(log.flaws),
        "n_nameless_records": sum(
            int((found == no_name).sum()) for found in names_of.values()
        ),
    }


def _mapped_bytes(log: AnyLog) -> int | None:
    """Return the bytes of files that were mapped; None if the log does not tell."""
    text = log.metadata.get("mapped_bytes", "")
    if text.isdecimal():
        return int(text)
    return None if log.n_mappings else 0


def _lacks(log: AnyLog, is_auto: bool) -> list[str]:
    """Return what a log lacks that results rest on, by names of this module."""
    lacks = {
        NO_EXE: not log.exe,
        CUT_EXE: log.is_exe_cut,
        NO_MOUNTS: is_auto and not log.mounts,
        CUT_MOUNTS: is_auto and log.mounts and log.may_lack_mounts,
        NO_RUN_TIME: not 0 <= log.ended_s - log.started_s <= LONGEST_RUN_S,
    }
    return [name for name, is_lacking in lacks.items() if is_lacking]


def _name_positions(log: AnyLog, records: Records) -> np.ndarray:
    """Return the position of each record's name; the number of names if it has none."""
    ids = log.names.ids
    found = log.names.positions(records.ids)
    if not len(ids):
        return np.zeros(len(records.ids), np.int64)
    return np.where(ids[found] == records.ids, found, len(ids))


def _place(log: AnyLog, tiers: Sequence[TierPrefix], epochs: str | None) -> _Places:
    """Return tier and epoch of every name."""
    names = list(dict.fromkeys(tier.name for tier in tiers))
    tier_names = [*names, OTHER, UNNAMED]
    of_prefix = np.array([names.index(tier.name) for tier in tiers] + [len(names)])
    found = place_names(log.names, [tier.prefix for tier in tiers])
    used = [tiers[one] for one in np.unique(found[found >= 0])]
    tier_of = np.append(of_prefix[found], len(tier_names) - 1)  # -1: the last entry
    found = _epochs_of(log, epochs) if epochs else np.full(len(log.names.ids), NO_EPOCH)
    distinct, epoch_of = np.unique(np.append(found, NO_EPOCH), return_inverse=True)
    return _Places(tier_names, tier_of, distinct, epoch_of, used)


def _epochs_of(log: AnyLog, pattern: str) -> np.ndarray:
    """Return the epoch of each name, `NO_EPOCH` where the pattern finds none."""
    search, epochs = re.compile(pattern).search, []
    for position in range(len(log.names.ids)):
        path = as_text(log.names.raw_path(position))
        match = search(path)
        text = match[1] if match else None
        if text is not None and not (text.isdecimal() and len(text) <= _MOST_DIGITS):
            raise LogError(
                log.path,
                f"epochs: got {text!r} of {path!r}, expected a group of 1 to "
                f"{_MOST_DIGITS} digits.",
            )
        epochs.append(NO_EPOCH if text is None else int(text))
    return np.array(epochs, np.int64)


def _code(places: _Places, interface: str, operation: int, epoch, tier) -> np.ndarray:
    """Return the number of a cell."""
    code = epoch * len(places.tiers) + tier
    code = code * len(INTERFACES) + INTERFACES.index(interface)
    return code * len(OPERATIONS) + operation


def _cell(places: _Places, code: int) -> tuple[int, str, str, str]:
    """Return epoch, tier, interface and operation of a cell."""
    code, operation = divmod(code, len(OPERATIONS))
    code, interface = divmod(code, len(INTERFACES))
    epoch, tier = divmod(code, len(places.tiers))
    return (
        int(places.epochs[epoch]),
        places.tiers[tier],
        INTERFACES[interface],
        OPERATIONS[operation],
    )


def _lanes(
    places: _Places, interface: str, records: Records, names: np.ndarray
) -> _Lanes:
    """Divide the records of an interface into reads, writes and metadata operations.

    A record's metadata time belongs to a class of its own if the file was written, and
    to another one if it was also read: no counter divides it.
    """
    columns = records.columns
    has_read, has_written = (
        (columns[calls] > 0) | (columns[n_bytes] > 0) | (columns[time_s] > 0)
        for calls, n_bytes, time_s in LANES
    )
    meta = np.where(has_written, np.where(has_read, _MIXED_META, _WRITE_META), _META)
    operations = (np.full_like(meta, _READ), np.full_like(meta, _WRITE), meta)
    has_meta = (columns["opens"] > 0) | (columns["meta_time_s"] > 0)
    epoch, tier = places.epoch_of[names], places.tier_of[names]
    cells = [_code(places, interface, one, epoch, tier) for one in operations]
    nothing = np.zeros(len(names), np.int64)
    times_s = [columns[f"{lane}_time_s"] for lane in ("read", "write", "meta")]
    counts = [columns[name] for name in ("reads", "writes", "opens")]
    n_bytes = [columns["bytes_read"], columns["bytes_written"], nothing]
    amounts = {"time_s": times_s, "operations": counts, "bytes": n_bytes}
    return _Lanes(
        np.column_stack(cells),
        np.column_stack([has_read, has_written, has_meta]),
        {name: np.column_stack(values) for name, values in amounts.items()},
    )


def _process_times(
    log: AnyLog,
    places: _Places,
    parts: dict[str, _Lanes],
    cell_of: dict[str, np.ndarray],
    cells: list[tuple],
) -> tuple[dict[str, list], dict[str, list]]:
    """Return the rows of `Summary.times` and `Summary.totals`."""
    processes = _listed_processes(log)
    shape, total_shape = (
        (len(processes), n_columns) for n_columns in (len(cells), len(places.epochs))
    )
    amounts = {name: np.zeros(shape) for name in ("time_s", "operations", "bytes")}
    least, is_used = amounts["time_s"], np.zeros(shape, bool)
    total_least = np.zeros(total_shape)
    extra_most, extra_total = np.zeros(shape), np.zeros(total_shape)
    is_joint = np.zeros(len(cells), bool)
    epoch_of_cell = np.searchsorted(places.epochs, [cell[0] for cell in cells])
    for kind, part in parts.items():
        records = log.records[kind]
        own = (records.ranks != SHARED)[:, np.newaxis] & part.is_present
        row = np.searchsorted(processes, records.ranks)
        rows = np.broadcast_to(row[:, np.newaxis], own.shape)[own]
        where = (rows, cell_of[kind][own])
        for name, values in part.amounts.items():
            np.add.at(amounts[name], where, values[own])
        is_used[where] = True
        if kind != MPI_IO:
            epochs = epoch_of_cell[cell_of[kind][own]]
            np.add.at(total_least, (rows, epochs), part.amounts["time_s"][own])
        shared = (records.ranks == SHARED) & part.is_present.any(axis=1)
        if not shared.any():
            continue
        present, lanes = part.is_present[shared], cell_of[kind][shared]
        first = np.argmax(present, axis=1)[:, np.newaxis]
        epochs = epoch_of_cell[np.take_along_axis(lanes, first, 1)[:, 0]]
        found = shared_bounds(
            _shared_records(records, shared),
            log.n_processes,
            np.where(present, lanes, 0),  # without calls no time, so any cell serves
            len(cells),
            epochs if kind != MPI_IO else np.full(len(epochs), -1),
            len(places.epochs),
            processes,
        )
        least += found.least_s
        extra_most += found.most_s - found.least_s
        total_least += found.total_least_s
        extra_total += found.total_most_s - found.total_least_s
        touched = np.unique(lanes[present])
        is_joint[touched] = True
        is_used[:, touched] = True
    most, total_most = least + extra_most, total_least + extra_total
    cell, times = _rows_of(processes, is_used, {"least_s": least, "most_s": most})
    for name in ("operations", "bytes"):
        counts = np.where(is_joint, np.nan, amounts[name])[is_used].tolist()
        # For JSON, None where they are missing.
        times[name] = [None if count != count else count for count in counts]
    has_time = total_most > 0
    has_time |= has_time[0] & (processes[0] == EACH_OTHER)
    bounds = {"least_s": total_least, "most_s": total_most}
    epoch, totals = _rows_of(processes, has_time, bounds)
    times["cell"], totals["epoch"] = cell.tolist(), places.epochs[epoch].tolist()
    return times, totals


def _rows_of(
    processes: np.ndarray, chosen: np.ndarray, values: dict[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, list]]:
    """Return the column, and in lists rank and values, of the entries chosen.

    All arrays but `processes` have a row for each process.
    """
    at, column = np.nonzero(chosen)
    chosen_values = {name: one[chosen].tolist() for name, one in values.items()}
    return column, {"rank": processes[at].tolist(), **chosen_values}


def _listed_processes(log: AnyLog) -> np.ndarray:
    """Return the processes that records name, ascending.

    `EACH_OTHER` is before them if records name not all. So a log takes as much memory
    as its records need, and not as its processes would.
    """
    found = [np.zeros(0, np.int64)]
    for records in log.records.values():
        shared = records.ranks == SHARED
        found.append(np.unique(records.ranks[~shared]))
        for name in ("slowest_rank", "fastest_rank"):
            ranks = np.unique(records.columns[name][shared])
            found.append(ranks[(ranks >= 0) & (ranks < log.n_processes)])
    listed = np.unique(np.concatenate(found))
    if len(listed) == log.n_processes:
        return listed
    return np.concatenate([[EACH_OTHER], listed])


def of_each_process(
    logs: Sequence[Summary], table: Literal["times", "totals"]
) -> dict[str, np.ndarray]:
    """Return rows of logs with a row of each process instead of `EACH_OTHER`.

    They are sorted by log, rank, and cell or epoch. Beside the columns of
    `Summary.times` or `Summary.totals`, ``log`` is the position of the log. Rank, cell
    and epoch are whole numbers, the others floats with NaN for None.
    """
    key = {"times": "cell", "totals": "epoch"}[table]
    tables = [getattr(log, table) for log in logs]
    n_rows = [len(rows["rank"]) for rows in tables]
    found = {"log": np.repeat(np.arange(len(logs)), n_rows)}
    for name in tables[0] if tables else ():
        kind = np.int64 if name in ("rank", key) else float
        values = itertools.chain.from_iterable(rows[name] for rows in tables)
        found[name] = np.array(list(values), kind)
    n_processes = np.array([log.facts["n_processes"] for log in logs], np.int64)
    take, rank = _expanded(found["log"], found["rank"], found[key], n_processes)
    order = np.lexsort([found[key][take], rank, found["log"][take]])
    found = {name: values[take[order]] for name, values in found.items()}
    return found | {"rank": rank[order]}


def _expanded(
    log: np.ndarray, rank: np.ndarray, key: np.ndarray, n_processes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of each process, which can come from one row, and their ranks.

    A row of `EACH_OTHER` stands for the processes without a row of its log and key.
    `n_processes` has an entry a log.
    """
    kept, others = np.flatnonzero(rank != EACH_OTHER), np.flatnonzero(rank < 0)
    distinct, key = np.unique(key, return_inverse=True)
    pair = log * len(distinct) + key
    others = others[np.argsort(pair[others])]
    n_each = n_processes[log[others]]
    first = np.cumsum(n_each) - n_each
    of_other = np.repeat(np.arange(len(others)), n_each)
    ranks = np.arange(len(of_other)) - first[of_other]
    is_free = np.ones(len(of_other), bool)
    if len(others):
        at = np.searchsorted(pair[others], pair[kept]).clip(max=len(others) - 1)
        listed = pair[others[at]] == pair[kept]
        is_free[first[at[listed]] + rank[kept][listed]] = False
    return (
        np.concatenate([kept, others[of_other[is_free]]]),
        np.concatenate([rank[kept], ranks[is_free]]),
    )


def _hides_calls(log: AnyLog) -> bool:
    """Return whether a log has a file of MPI-IO without the POSIX calls of it."""
    if MPI_IO not in log.records:
        return False
    records = log.records[MPI_IO]
    works = (records.columns["reads"] > 0) | (records.columns["writes"] > 0)
    posix = log.records["POSIX"].ids if "POSIX" in log.records else []
    return not np.isin(records.ids[works], posix).all()


def lossy_interfaces(facts: Mapping[str, Any]) -> set[str]:
    """Return the interfaces of whose calls a log may not count all time.

    `facts` are those of its summary.
    """
    if facts["metadata"].get("end") == STILL_RUNNING:
        return set(INTERFACES)
    return set(INTERFACES) & {*facts["partial"], *facts["flaws"]}


def loses_time(facts: Mapping[str, Any]) -> bool:
    """Return whether processes may have spent more time than a log counts.

    `facts` are those of its summary.
    """
    lost = lossy_interfaces(facts) - {MPI_IO} or UNCOUNTED & set(facts["modules"])
    return facts["hides_calls"] or bool(lost)


def _shared_records(records: Records, shared: np.ndarray) -> SharedRecords:
    """Return what shared records keep of single processes."""
    columns = {name: values[shared] for name, values in records.columns.items()}
    return SharedRecords(
        read_s=columns["read_time_s"],
        write_s=columns["write_time_s"],
        meta_s=columns["meta_time_s"],
        slowest_rank=columns["slowest_rank"],
        slowest_s=columns["slowest_time_s"],
        fastest_rank=columns["fastest_rank"],
        fastest_s=columns["fastest_time_s"],
        variance_s2=columns["time_variance_s2"],
    )


def _sums(
    log: AnyLog, parts: dict[str, _Lanes], cell_of: dict, n_cells: int
) -> tuple[dict[str, list], list[list[int]] | None]:
    """Return the sums of all processes by cell, and the files of one process."""
    sums = {"time_s": np.zeros(n_cells)} | {
        name: np.zeros(n_cells, np.int64) for name in ("operations", "bytes", "files")
    }
    ids: list[list[int]] = [[] for _ in range(n_cells)]
    for kind, part in parts.items():
        present = part.is_present
        cells = cell_of[kind][present]
        for name, values in part.amounts.items():
            np.add.at(sums[name], cells, values[present])
        file_ids = log.records[kind].ids
        repeated = np.broadcast_to(file_ids[:, np.newaxis], present.shape)[present]
        pairs = np.unique(np.rec.fromarrays([cells, repeated]))
        sums["files"] += np.bincount(pairs["f0"], minlength=n_cells)
        if log.n_processes == 1:
            for cell, file_id in pairs.tolist():
                ids[cell].append(file_id)
    sums["sum_s"] = sums.pop("time_s")
    lists = {name: values.tolist() for name, values in sums.items()}
    return lists, ids if log.n_processes == 1 else None


def _sizes(log: AnyLog, places: _Places, names_of: dict) -> list:
    """Return the calls by tier, operation and size."""
    rows = []
    for kind, records in log.records.items():
        if kind == MPI_IO:
            continue
        tier = places.tier_of[names_of[kind]]
        for operation in ("read", "write"):
            sizes = getattr(records, f"{operation}_sizes")
            if sizes is None:
                continue
            sums = np.zeros((len(places.tiers), len(SIZES)), np.int64)
            np.add.at(sums, tier, np.maximum(sizes, 0))
            rows += [
                (places.tiers[one], operation, sums[one].tolist())
                for one in np.flatnonzero(sums.any(axis=1))
            ]
    return rows
