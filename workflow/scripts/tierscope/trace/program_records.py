"""Attribute the records of a program's logs to ranks, epochs, tiers and files.

A program leaves a log a process. Workers count with the rank that the tracer says.
POSIX and STDIO are added up: a stream's calls reach the files of the tiers, too. A
duplicate of a descriptor is no open. What
copies files for a policy leaves a log of its own.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from tierscope.core.columns import AFTER, AFTER_TRAINING, TABLES
from tierscope.core.tables import check_table, empty_table
from tierscope.trace.darshan.inflation import OURS
from tierscope.trace.log import (
    DUPLICATES,
    MAPPINGS,
    SHARED,
    AnyLog,
    LogError,
    read_any_log,
)
from tierscope.trace.other_time import ProcessSums, sums_of

WRITTEN, BELOW, ELSEWHERE = "written", "other below the dataset", "other"
HANDED = "handed"  # in place of an epoch: the copy was open when the program started
HANDED_EPOCH = -2  # nothing says for which one such a file is read
_PID = re.compile(r"_id-?\d+-(\d+)_")  # in the name of a log
_INTERFACES = ("POSIX", "STDIO")
_BACKGROUND = r"\.bg"
_READS = ("opens", "reads", "bytes_read", "read_time_s", "meta_time_s")
_WRITES = ("writes", "bytes_written", "write_time_s")
_ALL = (
    "opens",
    "bytes_read",
    "bytes_written",
    "read_time_s",
    "write_time_s",
    "meta_time_s",
)


@dataclass(frozen=True)
class LoopEnds:
    """Of which epochs opens are that have numbers from `AFTER` on.

    Parameters
    ----------
    epochs : mapping of int to sequence of int
        By node the epoch of each number.
    node_of : mapping of int to int
        Node of each rank.
    """

    epochs: Mapping[int, Sequence[int]] = field(default_factory=dict)
    node_of: Mapping[int, int] = field(default_factory=dict)

    def epoch_of(self, rank: int, number: int) -> int:
        """Return the epoch of a number in a name that a rank has opened."""
        if number < AFTER:
            return number
        known = self.epochs.get(self.node_of.get(rank, 0), ())
        return known[number - AFTER] if number - AFTER < len(known) else AFTER_TRAINING


class _Place(NamedTuple):
    """Tier, epoch and file of a name; it has no epoch if it is on no tier.

    Then the first is one of `WRITTEN`, `BELOW`, `ELSEWHERE`. The file is -1 if it is
    none of the dataset.
    """

    where: str
    epoch: int | None = None
    file: int = -1
    in_background: bool = False


def _no_copies() -> pd.DataFrame:
    """Return the table of background traffic of a run without any."""
    return empty_table("background_records")


@dataclass
class ProgramRecords:
    """What the logs of a program's run say.

    Parameters
    ----------
    file_records : DataFrame
        Table `file_records`: reads of dataset files on a tier that nobody wrote to.
    other_io : DataFrame
        Table `run_other_io`.
    background : DataFrame
        Table `background_records`: of copies to the LFS.
    originals : dict of str to int
        Opens of dataset files by their real names, by file; of files that are only
        read.
    mapped_epochs : set of int
        The epochs for which files were mapped; `HANDED_EPOCH`: files that were open
        when a program started.
    readers : dict of pair of int to int
        How many processes opened files of a tier, by rank and epoch.
    handed_bytes : int
        Bytes that programs read of files that were open when they started, as by
        ``cat < FILE``. Nothing says for which epoch.
    sums : list of ProcessSums
        What processes did on files of no tier, by epoch, where our tracer has seen it.
    """

    file_records: pd.DataFrame
    other_io: pd.DataFrame
    background: pd.DataFrame = field(default_factory=_no_copies)
    originals: dict[str, int] = field(default_factory=dict)
    mapped_epochs: set[int] = field(default_factory=set)
    handed_bytes: int = 0
    readers: dict[tuple[int, int], int] = field(default_factory=dict)
    sums: list[ProcessSums] = field(default_factory=list)


def read_program_records(
    folder: Path,
    tier_roots: Mapping[str, Sequence[str]],
    dataset: str,
    names: Sequence[str],
    written: Iterable[str] = (),
    rank_of_pid: Mapping[int, int] | None = None,
    loop_ends: LoopEnds = LoopEnds(),
) -> ProgramRecords:
    """Read all logs of a run.

    Parameters
    ----------
    folder : Path
        Folder of the logs.
    tier_roots : mapping of str to sequence of str
        Names of each tier in the logs, before ``.ep<N>``.
    dataset : str
        Real folder of the dataset.
    names : sequence of str
        Paths of the files below it, by file id.
    written : iterable of str
        Those that the program is known to have written to.
    rank_of_pid : mapping of int to int, optional
        Rank of each process, for logs of a tracer that does not know it.
    loop_ends : LoopEnds, optional
        The ends of the program's loops.

    Raises
    ------
    LogError
        If a log is partial or damaged, has records that several processes share, an
        unknown name on a tier, or no known rank.
    """
    reader = _Reader(tier_roots, dataset, names, written, loop_ends)
    for path in sorted(folder.glob("*.darshan")):
        log = read_any_log(path, OURS, may_be_empty=True)
        reader.add(log, _rank_of(log, rank_of_pid or {}))
    return reader.result()


def _rank_of(log: AnyLog, rank_of_pid: Mapping[int, int]) -> int:
    """Return the rank with which the process of a log counts."""
    if (own := log.metadata.get("rank")) is not None:
        return int(own)
    if "tracer" in log.metadata:  # ours: no launcher has given it a number
        return 0
    found = _PID.search(log.path.name)
    if not found or (pid := int(found[1])) not in rank_of_pid:
        raise LogError(log.path, "is of no process that is known to have run once.")
    return rank_of_pid[pid]


class _Reader:
    """Adds up logs; arguments as for `read_program_records`."""

    def __init__(
        self,
        tier_roots: Mapping[str, Sequence[str]],
        dataset: str,
        names: Sequence[str],
        written: Iterable[str],
        loop_ends: LoopEnds,
    ):
        self._loop_ends = loop_ends
        self._ids = {name: i for i, name in enumerate(names)}
        self._names, self._dataset = names, dataset.rstrip("/") + "/"
        self._tier_of = {
            one: tier for tier, roots in tier_roots.items() for one in roots
        }
        roots = sorted(self._tier_of, key=len, reverse=True)
        self._alias = re.compile(
            rf"({'|'.join(map(re.escape, roots))})({_BACKGROUND})?"
            rf"\.(?:ep([0-9]+)|{HANDED})(?:/(.*))?",
            re.DOTALL,
        )
        self._written = {self._ids[name] for name in written if name in self._ids}
        self._on_tier: list[pd.DataFrame] = []  # and of copies
        self._readers: Counter[tuple[int, int]] = Counter()
        self._other: dict[tuple[int, str], np.ndarray] = defaultdict(
            lambda: np.zeros(len(_ALL))
        )
        self._by_name: list[tuple[int, int, np.ndarray]] = []  # rank, file, sums
        self._mapped: set[_Place] = set()
        self._sums: list[ProcessSums] = []

    def add(self, log: AnyLog, rank: int) -> None:
        """Add a log of a process of a rank."""
        if lost := sorted(set(log.partial) & set(_INTERFACES)):
            raise LogError(log.path, f"has lost records of {', '.join(lost)}.")
        self._sums.append(sums_of(log, rank))
        places = [self._place(log, i, rank) for i in range(len(log.names.ids))]
        epochs = {
            p.epoch for p in places if p.epoch is not None and not p.in_background
        }
        self._readers.update((rank, epoch) for epoch in epochs)
        for interface in _INTERFACES:
            records = log.records.get(interface)
            if records is None:
                continue
            if log.n_processes > 1 and (records.ranks == SHARED).any():
                raise LogError(log.path, "has records that several processes share.")
            at = log.names.positions(records.ids).tolist()
            found = [places[i] for i in at]
            columns = records.columns
            opens = columns["opens"] - columns.get(DUPLICATES, 0)
            self._add_records(rank, found, columns | {"opens": opens})
            if interface == "POSIX":
                is_mapped = columns.get(MAPPINGS, np.zeros(len(found))) > 0
                self._mapped.update(compress(found, is_mapped))

    def _place(self, log: AnyLog, position: int, rank: int) -> _Place:
        """Return where a name of a log of a rank is."""
        path = log.names.path(position)
        if found := self._alias.fullmatch(path):
            root, background, epoch, name = found.groups()
            if not name:
                return _Place(BELOW)
            tier, in_background = self._tier_of[root], background is not None
            # A copy is written under its number (`benchmark.programs.copier`).
            is_number = in_background and tier == "lfs" and name.isdecimal()
            file = int(name) if is_number else self._ids.get(name, -1)
            if not 0 <= file < len(self._names):
                raise LogError(log.path, f"{path!r} is not in the dataset's manifest.")
            if not epoch:
                return _Place(BELOW, file=file)
            epoch = self._loop_ends.epoch_of(rank, int(epoch))
            return _Place(tier, epoch, file, in_background)
        if path.startswith(self._dataset):
            name = path.removeprefix(self._dataset)
            return _Place(BELOW, file=self._ids.get(name, -1))
        return _Place(ELSEWHERE)

    def _add_records(
        self,
        rank: int,
        places: list[_Place],
        columns: Mapping[str, np.ndarray],
    ) -> None:
        """Add the records of a rank, each with its place."""
        all_columns = np.column_stack([columns[name] for name in _ALL])
        on_tier = []
        for row, (where, epoch, file, _) in enumerate(places):
            if epoch is not None:
                on_tier.append(row)
            elif file >= 0:
                self._by_name.append((rank, file, all_columns[row]))
                if columns["writes"][row]:
                    self._written.add(file)
            else:
                self._other[rank, where] += all_columns[row]
        if not on_tier:
            return
        kept = [places[row] for row in on_tier]
        self._on_tier.append(
            pd.DataFrame(
                {
                    "rank": rank,
                    "epoch": [one.epoch for one in kept],
                    "tier": pd.Series([one.where for one in kept], dtype="str"),
                    "file_id": [one.file for one in kept],
                    "in_background": [one.in_background for one in kept],
                    **{name: columns[name][on_tier] for name in (*_READS, *_WRITES)},
                }
            )
        )

    def result(self) -> ProgramRecords:
        """Return all that was added."""
        keys = ["in_background", "epoch", "rank", "tier", "file_id"]
        columns = [*_READS, *_WRITES]
        if self._on_tier:
            found = (
                pd.concat(self._on_tier).groupby(keys, as_index=False)[columns].sum()
            )
        else:
            found = pd.DataFrame({name: [] for name in keys + columns})
        in_background = found["in_background"].astype(bool)
        found, copies = found[~in_background], found[in_background]
        is_written = found["file_id"].isin(self._written)
        for row in found[is_written].itertuples():
            sums = np.array([getattr(row, name) for name in _ALL])
            self._other[row.rank, WRITTEN] += sums
        originals: dict[str, int] = defaultdict(int)
        handed_bytes = 0
        for rank, file, sums in self._by_name:
            where = WRITTEN if file in self._written else BELOW
            self._other[rank, where] += sums
            if where == BELOW and sums[0]:
                originals[self._names[file]] += int(sums[0])
            elif where == BELOW:
                handed_bytes += int(sums[_ALL.index("bytes_read")])
        return ProgramRecords(
            _as_table(found[~is_written], "file_records"),
            self._other_table(),
            _as_table(copies, "background_records"),
            dict(originals),
            self._mapped_epochs(),
            handed_bytes,
            dict(self._readers),
            self._sums,
        )

    def _mapped_epochs(self) -> set[int]:
        """Return the epochs for which files that are only read were mapped."""
        return {
            HANDED_EPOCH if one.epoch is None else one.epoch
            for one in self._mapped
            if one.file >= 0 and one.file not in self._written and not one.in_background
        }

    def _other_table(self) -> pd.DataFrame:
        """Return the table `run_other_io`."""
        rows = [
            {"rank": rank, "what": what, **dict(zip(_ALL, sums, strict=True))}
            for (rank, what), sums in sorted(self._other.items())
        ]
        table = pd.DataFrame(rows, columns=list(TABLES["run_other_io"]))
        return _as_table(table, "run_other_io")


def _as_table(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return rows as a table of this name."""
    kept = rows[list(TABLES[name])].astype(TABLES[name])
    return check_table(kept.reset_index(drop=True), name)
