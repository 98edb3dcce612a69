"""Loaders `lmdb` and `lmdbio`: records of one LMDB file.

A reader (every process, or with LMM one process per node) opens the file once an epoch
on each tier it needs and locates its records. It reads one fetch at a time: the records
that its processes consume in one step, or with COAL in several steps. One call reads
contiguous records of a fetch (DIO), or the reader touches them page by page (mapped).
With LMM the records go to memory that the node's processes share. There each process
checks and consumes its own records.

`epoch` takes `RecordReference` objects and keeps their order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tierscope.benchmark.loaders.readers import ReaderGroup
from tierscope.benchmark.loaders.records import TIERS, ReadLog, RecordReference
from tierscope.benchmark.loaders.stores import CalledStore, MappedStore
from tierscope.core.description import LmdbSettings
from tierscope.data.lmdb.check import check_record
from tierscope.data.lmdb.layout import Provenance
from tierscope.data.lmdb.reads import GAP_PAGES, is_joined
from tierscope.data.tfrecord import DatasetError
from tierscope.storage.clock import Clock, Role


@dataclass(frozen=True)
class _Part:
    """The records of one process in an epoch: tiers (indices of TIERS) and numbers."""

    tiers: np.ndarray
    records: np.ndarray


@dataclass(frozen=True)
class _Plan:
    """What the processes of a group read in an epoch."""

    parts: list[_Part]
    paths: dict[str, str]
    n_fetches: int
    n_places: int  # records of one process in a fetch
    wanted: list[np.ndarray]  # records of each reader (DM)
    buffer: np.ndarray


@dataclass(frozen=True)
class _Stretch:
    """Consecutive records of a fetch that one call reads."""

    tier: str
    offset: int
    n_bytes: int
    first: int


class DatabaseLoader:
    """Reads records of a database, with or without the optimisations of LMDBIO.

    `checksums` are CRC-32C of each record's value, and `emulated` the tiers with
    emulated devices. The thread that asks for batches also reads, so calls take its
    time.
    """

    def __init__(
        self,
        settings: LmdbSettings,
        batch_size: int,
        provenance: Provenance,
        checksums: np.ndarray,
        processes,
        emulated: set[str],
        clock: Clock,
    ):
        self._settings, self._batch_size = settings, batch_size
        self._on = set(settings.optimisations)
        self._provenance, self._checksums = provenance, checksums
        self._emulated, self._clock = emulated, clock
        n_places = provenance.n_records if "dm" in self._on else 0
        self._group = ReaderGroup(processes, "lmm" in self._on, clock, n_places)
        self._is_direct = "lmm" not in self._on and "dio" not in self._on
        self._rank = processes.rank
        self.begin_run()

    def begin_run(self) -> None:
        """Clear the notes of earlier reads: a run begins."""
        self._log = ReadLog(self._rank, self._clock, is_counted=not self._emulated)

    def tables(self) -> dict[str, dict[str, np.ndarray]]:
        """Return this process's part of the run's tables, by table and column."""
        return self._log.tables()

    def close(self) -> None:
        """Free what the processes share (collective)."""
        self._group.close()

    def epoch(self, samples: Sequence[RecordReference]) -> Iterator[tuple[int, int]]:
        """Return an iterator over (records, bytes of values) of each batch.

        Collective: every process calls it for every epoch. The processes of a group
        exchange here the records that they will read, which follow from seeds.
        """
        self._log.begin_epoch()
        return self._as_consumer(self._batches(self._plan(samples)))

    def _plan(self, samples: Sequence[RecordReference]) -> _Plan:
        """Exchange the records to read, and allocate a buffer for them."""
        tiers = np.array([TIERS.index(sample.tier) for sample in samples], np.int8)
        records = np.array([sample.record for sample in samples], np.int64)
        paths = {sample.tier: sample.path for sample in samples}
        answers = self._group.all_of_group((_Part(tiers, records), paths))
        parts = [part for part, _ in answers]
        paths = {tier: path for _, some in answers for tier, path in some.items()}
        n_places = self._batch_size * self._settings.steps_per_fetch
        n_fetches = max(-(-len(part.records) // n_places) for part in parts)
        wanted = []
        if self._group.is_reader:
            n_fetches = self._group.largest(n_fetches)
            if "dm" in self._on:
                mine = np.unique(np.concatenate([part.records for part in parts]))
                wanted = self._group.all_of_readers(mine)
        n_fetches = self._group.all_of_group(n_fetches)[0]
        n_bytes = 0 if self._is_direct else self._buffer_bytes(n_places)
        return _Plan(
            parts, paths, n_fetches, n_places, wanted, self._group.buffer(n_bytes)
        )

    def _buffer_bytes(self, n_places: int) -> int:
        """Return the size of a fetch: its index, and its records with gaps."""
        page_bytes = self._provenance.page_bytes
        pages = -(-self._provenance.value_bytes // page_bytes) + 2 + GAP_PAGES
        return self._group.size * n_places * (8 + pages * page_bytes)

    def _as_consumer(
        self, batches: Iterator[tuple[int, int]]
    ) -> Iterator[tuple[int, int]]:
        """Yield batches, read by the thread that asks for them."""
        while True:
            with self._clock.act(self._rank, Role.CONSUMER):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _batches(self, plan: _Plan) -> Iterator[tuple[int, int]]:
        """Read and consume an epoch, fetch by fetch."""
        stores: dict[str, CalledStore | MappedStore] = {}
        try:
            if self._group.is_reader:
                for tier in TIERS:
                    if tier in plan.paths:
                        stores[tier] = self._open(tier, plan.paths[tier])
                offsets = self._locate(plan, stores)
            else:
                offsets = None
            mine = plan.parts[self._group.rank]
            for fetch in range(plan.n_fetches):
                chosen = slice(fetch * plan.n_places, (fetch + 1) * plan.n_places)
                if self._group.is_reader and not self._is_direct:
                    self._fetch(plan, stores, offsets, chosen)
                self._group.barrier()
                part = _Part(mine.tiers[chosen], mine.records[chosen])
                yield from self._consume(plan, part, stores, offsets)
                self._group.barrier()
        finally:
            for store in stores.values():
                store.close()

    def _open(self, tier: str, path: str) -> CalledStore | MappedStore:
        """Open the file on a tier."""
        if "dio" in self._on:
            return CalledStore(tier, path, self._provenance, self._log)
        fault_bytes = self._settings.fault_bytes if tier in self._emulated else None
        return MappedStore(
            tier,
            path,
            self._provenance,
            self._log,
            fault_bytes,
            self._group.leads_node,
        )

    def _locate(self, plan: _Plan, stores: dict) -> np.ndarray:
        """Return offsets by record: computed (PROV), from a walker (DM), or walked."""
        if "prov" in self._on:
            return self._provenance.layout.offsets
        if "dm" not in self._on:
            # The walk prefers the LFS, because the copy there has the whole tree.
            return self._walk(stores) if stores else np.zeros(0, np.int64)
        walker = next(i for i, records in enumerate(plan.wanted) if len(records))
        if self._group.reader_rank == walker:
            offsets = self._walk(stores)
            self._group.others.send_places(offsets, plan.wanted)
            return offsets
        wanted = plan.wanted[self._group.reader_rank]
        offsets = np.full(self._provenance.n_records, -1)
        offsets[wanted] = self._group.others.receive_places(wanted, walker)
        return offsets

    def _walk(self, stores: dict) -> np.ndarray:
        """Return the offsets of all records from the tree."""
        store = stores.get("lfs") or stores["gfs"]
        offsets = store.walk()
        if len(offsets) != self._provenance.n_records:
            raise DatasetError(
                f"{store.path}: got {len(offsets)} records, expected "
                f"{self._provenance.n_records}."
            )
        return offsets

    def _fetch(
        self, plan: _Plan, stores: dict, offsets: np.ndarray, chosen: slice
    ) -> None:
        """Read a fetch into the buffer in turn, and note the place of each record."""
        if "stag" in self._on:
            self._group.await_turn(self._settings.stagger_size)
        index = self._index(plan)
        tiers = np.concatenate([part.tiers[chosen] for part in plan.parts])
        records = np.concatenate([part.records[chosen] for part in plan.parts])
        order = np.lexsort([offsets[records], tiers])
        places = np.empty(len(records), np.int64)
        at = index.nbytes
        for run, members in self._runs(tiers, records, offsets, order):
            store = stores[run.tier]
            target = plan.buffer[at : at + run.n_bytes]
            if isinstance(store, CalledStore):
                store.read_into(target, run.offset, run.first)
            else:
                target[:] = store.value(run.offset, run.first)
            places[members] = at + offsets[records[members]] - run.offset
            at += run.n_bytes
        start = 0
        for row, part in zip(index, plan.parts, strict=True):
            n_own = len(part.records[chosen])
            row[:n_own] = places[start : start + n_own]
            start += n_own
        if "stag" in self._on:
            self._group.pass_turn(self._settings.stagger_size)

    def _index(self, plan: _Plan) -> np.ndarray:
        """Return the head of the buffer: the places of each process's records."""
        n_bytes = 8 * self._group.size * plan.n_places
        return plan.buffer[:n_bytes].view(np.int64).reshape(self._group.size, -1)

    def _runs(
        self,
        tiers: np.ndarray,
        records: np.ndarray,
        offsets: np.ndarray,
        order: np.ndarray,
    ) -> Iterator[tuple[_Stretch, np.ndarray]]:
        """Yield each read and its records' positions; only explicit reads join some."""
        if not len(order):
            return
        n_bytes = self._provenance.value_bytes
        numbers = records[order]
        joined = is_joined(tiers[order], numbers, offsets[numbers], self._provenance)
        if "dio" not in self._on:
            joined[:] = False
        for members in np.split(order, np.flatnonzero(~joined) + 1):
            first, last = records[members[0]], records[members[-1]]
            start = int(offsets[first])
            length = int(offsets[last]) + n_bytes - start
            yield _Stretch(TIERS[tiers[members[0]]], start, length, int(first)), members

    def _consume(
        self, plan: _Plan, part: _Part, stores: dict, offsets: np.ndarray | None
    ) -> Iterator[tuple[int, int]]:
        """Check this process's records of a fetch and yield its batches."""
        n_bytes = self._provenance.value_bytes
        index = None if self._is_direct else self._index(plan)[self._group.rank]
        for start in range(0, len(part.records), self._batch_size):
            stop = min(start + self._batch_size, len(part.records))
            n_seen = 0
            for i in range(start, stop):
                tier, record = TIERS[part.tiers[i]], int(part.records[i])
                if self._is_direct:
                    value = stores[tier].value(int(offsets[record]), record)
                else:
                    place = int(index[i])
                    value = plan.buffer[place : place + n_bytes]
                check_record(
                    plan.paths[tier], record, value, int(self._checksums[record])
                )
                n_seen += len(value)
                self._log.note_record(tier, record, self._group.reader)
            yield stop - start, n_seen
