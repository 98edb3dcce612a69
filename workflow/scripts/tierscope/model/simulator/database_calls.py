"""The calls of a database's readers to the storage in an epoch.

The calls are those of the loaders (`tierscope.benchmark.loaders.lmdb`): which reader
opens the file, walks its tree, faults or reads, in which order, and which readers wait
for each other. The same functions compute the order of records and their offsets in the
file. Only the order in which explicit reads walk the tree differs: here it is by page
number.
"""

from dataclasses import dataclass

import numpy as np

from tierscope.core.description import LmdbSettings
from tierscope.data.lmdb.layout import Provenance
from tierscope.data.lmdb.pages import META_BYTES
from tierscope.data.lmdb.reads import cut, is_joined, touched_pages
from tierscope.data.record_order import RecordOrder
from tierscope.model.simulator.loop import CLOSE, OPEN, PASS, PAUSE, READ, STEP, WAIT
from tierscope.model.simulator.programs import TIERS, Programs
from tierscope.model.simulator.stations import layouts_of, requests_of, to_ns
from tierscope.storage.queueing_network import Network

# Default stripe size of `lfs setstripe -c`, by which the file is striped.
STRIPE_BYTES = 1 << 20
# Kinds of calls, as in the table `read_calls`.
TREE, FAULT, DATA = range(3)
_GFS, _LFS = range(2)
# Stages of a reader's epoch, and the turns within each fetch.
_OPENING, _WALK, _FETCHES, _CLOSING = range(4)
_BEFORE, _READS, _AFTER, _PAUSE = range(4)

Numbers = np.ndarray | int


@dataclass(frozen=True)
class Calls:
    """The read calls of all readers: arrays of one length.

    Parameters
    ----------
    reader, stage, fetch : ndarray of int
        Number of the reader, and stage and fetch of its epoch.
    kind, tier, offset, n_bytes : ndarray of int
        What is read and where: TREE, FAULT or DATA; GFS 0, LFS 1; the bytes.
    """

    reader: np.ndarray
    stage: np.ndarray
    fetch: np.ndarray
    kind: np.ndarray
    tier: np.ndarray
    offset: np.ndarray
    n_bytes: np.ndarray

    @classmethod
    def of(
        cls,
        reader: Numbers,
        stage: Numbers,
        fetch: Numbers,
        kind: Numbers,
        tier: Numbers,
        offset: Numbers,
        n_bytes: Numbers,
    ) -> "Calls":
        """Return calls; a number means an array of this value."""
        columns = np.broadcast_arrays(reader, stage, fetch, kind, tier, offset, n_bytes)
        return cls(*columns)

    @classmethod
    def joined(cls, parts: "list[Calls]") -> "Calls":
        """Return the calls of all parts, part after part."""
        return cls(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in cls.__dataclass_fields__
            )
        )


class DatabaseEpoch:
    """The calls of all readers in an epoch.

    Parameters
    ----------
    settings : LmdbSettings
        Settings of the loader.
    order : RecordOrder
        Order of the records by process.
    provenance : Provenance
        How the file was written.
    on_lfs : ndarray of bool, shape (n_records,)
        Whether each record is on the LFS, by its number.
    epoch : int
        The epoch.

    Attributes
    ----------
    readers : ndarray of int, shape (n_readers,)
        The process of each reader.
    uses : ndarray of bool, shape (n_readers, 2)
        Whether each reader opens the file on GFS and LFS.
    calls : Calls
        All read calls; those of one reader, stage and fetch are in order.
    records_of_rank : ndarray of int, shape (n_ranks,)
        How many records each process consumes.
    records, rank_of : ndarray of int, shape (n_records,)
        The consumed records, process after process, and their processes.
    on_lfs : ndarray of bool, shape (n_records,)
        Whether each of these records is on the LFS.
    """

    def __init__(
        self,
        settings: LmdbSettings,
        order: RecordOrder,
        provenance: Provenance,
        on_lfs: np.ndarray,
        epoch: int,
    ):
        self._settings, self._on = settings, set(settings.optimisations)
        self._provenance, self._batch_size = provenance, order.batch_size
        per_node = order.processes_per_node
        n_ranks = order.n_nodes * per_node
        self._group_size = per_node if "lmm" in self._on else 1
        self.readers = np.arange(0, n_ranks, self._group_size)
        self._leads_node = self.readers % per_node == 0
        parts = order.of_processes(epoch)
        self.records_of_rank = np.array([len(part) for part in parts])
        self.records = np.concatenate(parts)
        self.on_lfs = on_lfs[self.records]
        self.rank_of = np.repeat(np.arange(n_ranks), self.records_of_rank)
        self.uses = self._uses()
        self._is_direct = not {"lmm", "dio"} & self._on
        # Direct accesses follow the batches, with or without coalescing.
        steps = 1 if self._is_direct else settings.steps_per_fetch
        self._n_places = self._batch_size * steps
        self.calls = Calls.joined([*self._opening(), *self._walk(), self._data()])

    @property
    def _walker(self) -> int:
        """Return the number of the reader that walks the tree for all (DM)."""
        return int(np.flatnonzero(self.uses.any(axis=1))[0])

    def _uses(self) -> np.ndarray:
        """Return which tiers each reader's records are on."""
        reader = self.rank_of // self._group_size
        n_readers = len(self.readers)
        n_lfs = np.bincount(reader[self.on_lfs], minlength=n_readers)
        n_gfs = np.bincount(reader[~self.on_lfs], minlength=n_readers)
        return np.column_stack([n_gfs, n_lfs]) > 0

    def _opening(self) -> list[Calls]:
        """Return the calls that open a mapped file: reads of both metadata pages."""
        if "dio" in self._on:
            return []
        reader, tier = np.nonzero(self.uses)
        reader, tier = np.repeat(reader, 2), np.repeat(tier, 2)
        pages = np.tile([0, self._provenance.page_bytes], len(reader) // 2)
        return [Calls.of(reader, _OPENING, tier, TREE, tier, pages, META_BYTES)]

    def _walk(self) -> list[Calls]:
        """Return the walk of the tree, on the LFS if a reader has the file there.

        A node loads mapped pages into its memory once, so its first process is charged.
        """
        if "prov" in self._on:
            return []
        walks = self.uses.any(axis=1)
        if "dm" in self._on:
            walks &= np.arange(len(walks)) == self._walker
        page_bytes = self._provenance.page_bytes
        pages = self._provenance.layout.tree_pages * page_bytes
        sizes, kind = np.full(len(pages), page_bytes), FAULT
        if "dio" in self._on:
            pages = np.concatenate([[0, page_bytes], pages])
            sizes = np.concatenate([[META_BYTES] * 2, sizes])
            kind = TREE
        else:
            walks &= self._leads_node
        walkers = np.flatnonzero(walks)
        tier = np.where(self.uses[walkers, _LFS], _LFS, _GFS)
        return [
            Calls.of(
                np.repeat(walkers, len(pages)),
                _WALK,
                0,
                kind,
                np.repeat(tier, len(pages)),
                np.tile(pages, len(walkers)),
                np.tile(sizes, len(walkers)),
            )
        ]

    def _places(self) -> np.ndarray:
        """Return the index of each record among those of its process."""
        first = np.cumsum(self.records_of_rank) - self.records_of_rank
        return np.arange(len(self.records)) - np.repeat(first, self.records_of_rank)

    def _data(self) -> Calls:
        """Return the reads of all records."""
        reader = self.rank_of // self._group_size
        fetch = self._places() // self._n_places
        tier, records = self.on_lfs.astype(np.int64), self.records
        offsets = self._provenance.layout.offsets[records]
        if not self._is_direct:  # in file order
            order = np.lexsort([offsets, tier, fetch, reader])
            reader, fetch, tier = reader[order], fetch[order], tier[order]
            records, offsets = records[order], offsets[order]
        if "dio" not in self._on:
            pages = touched_pages(offsets, self._provenance)
            fault_bytes = self._settings.fault_bytes
            record, starts, sizes = cut(*pages, fault_bytes)
            return Calls.of(
                reader[record],
                _FETCHES,
                fetch[record],
                FAULT,
                tier[record],
                starts,
                sizes,
            )
        joined = is_joined(tier, records, offsets, self._provenance)
        joined &= (reader[1:] == reader[:-1]) & (fetch[1:] == fetch[:-1])
        firsts = np.flatnonzero(np.append(True, ~joined))
        lasts = np.append(firsts[1:], len(records)) - 1
        sizes = offsets[lasts] + self._provenance.value_bytes - offsets[firsts]
        return Calls.of(
            reader[firsts],
            _FETCHES,
            fetch[firsts],
            DATA,
            tier[firsts],
            offsets[firsts],
            sizes,
        )

    @property
    def n_fetches(self) -> int:
        """Return the largest number of fetches of any reader."""
        return int(-(-self.records_of_rank.max() // self._n_places))

    def programs(self, network: Network, batch_s: float) -> Programs:
        """Return the readers' programs on a network; computing a batch takes a time."""
        builder = _Builder(len(self.readers), self.n_fetches)
        requests = self._add_requests(builder, network)
        for tier in range(len(TIERS)):
            users = np.flatnonzero(self.uses[:, tier])
            builder.add(users, _OPENING, tier, _BEFORE, OPEN, tier)
            builder.add(users, _CLOSING, tier, _BEFORE, CLOSE, tier)
        self._add_pauses(builder, int(to_ns(float(batch_s))))
        gates = np.zeros(0, np.int64)
        if "dm" in self._on:
            gates = np.ones(1, np.int64)
            builder.add(self._walker, _WALK, 0, _AFTER, PASS)
            others = self.uses.any(axis=1)
            others[self._walker] = False
            builder.add(np.flatnonzero(others), _WALK, 0, _AFTER, WAIT)
        if "stag" in self._on:
            gates = self._add_turns(builder, gates)
        return builder.programs(self.readers, gates, requests)

    def _add_requests(self, builder: "_Builder", network: Network) -> np.ndarray:
        """Cut the calls into requests and add these in the order of the calls.

        Return what the requests of each size take on each tier.
        """
        calls, parts, kinds = self.calls, [], []
        ranks, layouts = self.readers[calls.reader], layouts_of(network)
        for tier, model in enumerate((network.gfs, network.lfs)):
            chosen = np.flatnonzero(calls.tier == tier)
            starts, sizes = calls.offset[chosen], calls.n_bytes[chosen]
            call = np.arange(len(chosen))
            stripes = np.zeros(len(chosen), np.int64)
            if tier == _GFS and model.n_object_servers > 1:
                call, starts, sizes = cut(
                    starts, sizes, STRIPE_BYTES, at_multiples=True
                )
                stripes = starts // STRIPE_BYTES
            piece, _, sizes = cut(starts, sizes, model.request_bytes)
            call, stripes = chosen[call[piece]], stripes[piece]
            servers = layouts[tier].object_servers(ranks[call], stripes)
            seen = np.flatnonzero(np.bincount(sizes))
            first = sum(map(len, kinds))
            kinds.append(requests_of(model, seen))
            parts.append((call, servers, first + np.searchsorted(seen, sizes)))
        call, servers, requests = map(np.concatenate, zip(*parts, strict=True))
        order = np.argsort(call, kind="stable")
        call = call[order]
        builder.add(
            calls.reader[call],
            calls.stage[call],
            calls.fetch[call],
            _READS,
            READ,
            calls.tier[call],
            servers[order],
            requests[order],
        )
        every = np.concatenate(kinds)
        every["is_last"] = 1
        return every

    def _add_pauses(self, builder: "_Builder", batch_ns: int) -> None:
        """Add the compute time after each fetch, of the process with most batches."""
        most = self.records_of_rank.reshape(-1, self._group_size).max(axis=1)
        for fetch in range(self.n_fetches):
            left = np.clip(most - fetch * self._n_places, 0, self._n_places)
            batches = -(-left // self._batch_size)
            users = np.flatnonzero(batches)
            pauses_ns = batch_ns * batches[users]
            builder.add(users, _FETCHES, fetch, _PAUSE, PAUSE, amount=pauses_ns)

    def _add_turns(self, builder: "_Builder", gates: np.ndarray) -> np.ndarray:
        """Add the readers' turns of every fetch; return the gates with new ones."""
        size, n_readers = self._settings.stagger_size, len(self.readers)
        for fetch in range(self.n_fetches):
            followers = np.arange(size, n_readers)
            mine = len(gates) + fetch * n_readers + followers
            builder.add(followers, _FETCHES, fetch, _BEFORE, WAIT, target=mine)
            builder.add(followers - size, _FETCHES, fetch, _AFTER, PASS, target=mine)
        n_turns = self.n_fetches * n_readers
        return np.concatenate([gates, np.ones(n_turns, np.int64)])


class _Builder:
    """Sorts steps, which may be added in any order, into programs.

    Steps of the same reader, stage, fetch and turn keep the order of adding.
    """

    def __init__(self, n_readers: int, n_fetches: int):
        self._n_readers, self._n_fetches = n_readers, max(n_fetches, len(TIERS))
        self._keys: list[np.ndarray] = []
        self._steps: list[np.ndarray] = []

    def add(
        self,
        reader: Numbers,
        stage: Numbers,
        fetch: Numbers,
        turn: int,
        kind: int,
        tier: Numbers = 0,
        target: Numbers = 0,
        amount: Numbers = 0,
    ) -> None:
        """Add steps, one for each of the readers' numbers.

        `stage`, `fetch` and `turn` give the time in the readers' epoch; the rest are
        fields of STEP.
        """
        reader = np.atleast_1d(reader)
        key = ((reader * 4 + stage) * self._n_fetches + fetch) * 4 + turn
        steps = np.zeros(len(reader), STEP)
        steps["kind"], steps["tier"] = kind, tier
        steps["target"], steps["amount"] = target, amount
        self._keys.append(key)
        self._steps.append(steps)

    def programs(
        self, ranks: np.ndarray, gates: np.ndarray, requests: np.ndarray
    ) -> Programs:
        """Return the programs of some processes."""
        keys, steps = np.concatenate(self._keys), np.concatenate(self._steps)
        order = np.argsort(keys, kind="stable")
        reader = keys // (16 * self._n_fetches)
        n_steps = np.bincount(reader, minlength=self._n_readers)
        first = np.concatenate([[0], np.cumsum(n_steps)])
        return Programs(steps[order], first, ranks, gates, requests)
