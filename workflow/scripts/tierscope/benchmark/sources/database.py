"""Samples that are records of one LMDB file; the LFS holds the first ones."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.loaders.records import RecordReference
from tierscope.benchmark.run_folder import joined
from tierscope.benchmark.sources.files import EpochReads, FileSource, LaunchSite
from tierscope.core.description import RunDescription
from tierscope.core.machine import TierError
from tierscope.core.scenario import Dataset, Point
from tierscope.data.lmdb.check import check_tree
from tierscope.data.lmdb.file import (
    DATA_FILE,
    copy_ranges,
    make_hollow,
    n_pieces,
    page_ranges,
    read_checksums,
    read_provenance,
)
from tierscope.data.lmdb.layout import Provenance
from tierscope.data.record_order import first_records, order_of
from tierscope.data.shuffle import process_share
from tierscope.data.tfrecord import FRAMING_BYTES
from tierscope.policies import Place


def database_folder(dataset: Dataset, n_osts: int) -> str:
    """Return the name of a database's folder, beside that of the files."""
    return f"{dataset.directory(n_osts)}-lmdb"


class Database:
    """The database of a scenario, whose description has a section `lmdb`."""

    def __init__(self, description: RunDescription):
        self._description = description
        dataset = description.dataset
        self.folder_name = database_folder(dataset, description.scenario.n_osts)

    @property
    def gfs_folder(self) -> Path:
        """Return the database's folder on the GFS."""
        gfs = self._description.system.gfs
        return gfs.data_root() / self.folder_name

    @cached_property
    def provenance(self) -> Provenance:
        """Return how the file was written; a TierError if it is missing or another."""
        folder, dataset = self.gfs_folder, self._description.dataset
        if not (folder / DATA_FILE).is_file():
            raise TierError(
                f"{folder}: no such database, but its manifest exists; make it again: "
                "snakemake ... --forcerun generate_database --until generate_database"
            )
        found = read_provenance(folder)
        wanted = Provenance(
            dataset.n_files,
            dataset.file_size_bytes - FRAMING_BYTES,
            self._description.lmdb.records_per_commit,
            found.page_bytes,
        )
        if found != wanted:
            raise TierError(f"{folder}: was written as {found}, expected {wanted}.")
        return found

    def check(self, processes) -> None:
        """Refuse a damaged database before any read; the first process does so."""
        if processes.rank == 0:
            check_tree(self.gfs_folder / DATA_FILE, self.provenance)
            read_checksums(self.gfs_folder, self.provenance.n_records)
        processes.barrier()

    def check_copy(self, folder: Path, n_first: int) -> None:
        """Refuse a copy on a node's LFS whose tree is damaged."""
        if n_first:
            check_tree(folder / DATA_FILE, self.provenance)


class DatabaseSource(FileSource):
    """The records of a database; the loader reads them by reference."""

    def __init__(self, site: LaunchSite):
        super().__init__(site)
        self.database = Database(site.description)

    @property
    def folder_name(self) -> str:
        """Return the name of the database's folder on either tier."""
        return self.database.folder_name

    def start(self) -> None:
        """Make the loader, which has no lazy start-up."""
        from tierscope.benchmark.loaders.lmdb import DatabaseLoader

        database, description = self.database, self.site.description
        database.check(self.site.processes)
        provenance = database.provenance
        self.loader = DatabaseLoader(
            description.lmdb,
            description.dataset.batch_size,
            provenance,
            read_checksums(database.gfs_folder, provenance.n_records),
            self.site.processes,
            set(description.system.emulated_tiers),
            self.site.devices.clock,
        )

    def end(self) -> None:
        """Close the loader."""
        self.loader.close()

    def on_lfs(self, point: Point) -> np.ndarray:
        """Return whether each record is on the LFS: bool, shape (n_records,)."""
        return first_records(self.site.dataset.n_files, point.cache_rate_percent)

    def room(self, point: Point) -> tuple[int, int]:
        """Return one file and its size without the holes of later records."""
        n_held = int(self.on_lfs(point).sum())
        if not n_held:
            return 1, 0
        ranges = page_ranges(self.database.provenance, n_held)
        return 1, sum(len(range(*one)) for one in ranges)

    def exchange(self, on_lfs: np.ndarray) -> None:
        """Fill the LFS again for each point with a part of the file."""
        self.fill(np.flatnonzero(on_lfs))

    def write(self, folder: Path, held: np.ndarray) -> None:
        """Copy this process's part of the first records to a folder of the LFS.

        The pages keep their offsets, and the metadata and the whole tree are copied as
        well. So the copy is a database in which later records are holes.
        """
        processes, database = self.site.processes, self.database
        ranges = page_ranges(database.provenance, len(held)) if len(held) else []
        target = folder / DATA_FILE
        if ranges and processes.node_rank == 0:
            make_hollow(target, database.provenance.file_bytes)
        processes.barrier()
        n_parts = n_pieces(ranges)
        share = process_share(n_parts, processes.node_rank, processes.node_size)
        if ranges:
            copy_ranges(database.gfs_folder / DATA_FILE, target, ranges, share)

    def check_filled(self, folder: Path, held: np.ndarray) -> None:
        """Refuse a copy with a damaged tree; the node's first process checks it."""
        if self.site.processes.node_rank == 0:
            self.database.check_copy(folder, len(held))

    def reset(self) -> None:
        """Clear the notes of earlier reads."""
        self.loader.begin_run()

    def samples(self, point: Point, epoch: int, on_lfs: np.ndarray) -> np.ndarray:
        """Return the records that this process reads in an epoch, in reading order."""
        processes = self.site.processes
        order = order_of(self.site.description, point.repetition)
        return order.of_process(
            processes.rank, processes.node, processes.node_rank, epoch
        )

    def epoch(self, point: Point, epoch: int, on_lfs: np.ndarray) -> EpochReads:
        """Return what this process reads in an epoch.

        The thread that consumes records also reads them, so virtual time plans no
        reads. As in the simulator, records take no processor time.
        """
        records, folders = self.samples(point, epoch, on_lfs), self.folders(epoch)
        on_gfs, on_node = (
            partial(RecordReference, str(place), f"{folders[place]}/{DATA_FILE}")
            for place in (Place.GFS, Place.LFS)
        )
        references = [(on_node if on_lfs[i] else on_gfs)(i) for i in records.tolist()]
        n_lfs = int(on_lfs[records].sum())
        return EpochReads(
            self.loader.epoch(references),
            0,
            lambda: (n_lfs, len(records) - n_lfs),
        )

    def paths_of_epoch(
        self, point: Point, epoch: int, on_lfs: np.ndarray
    ) -> dict[str, list[str]]:
        """Return the database on each tier for the node's first process, else nothing.

        All processes of a node read the same file.
        """
        if self.site.processes.node_rank:
            return {}
        folders = {"gfs": self._gfs_folder, "lfs": self._lfs_folder}
        return {tier: [f"{folder}/{DATA_FILE}"] for tier, folder in folders.items()}

    def sentinel_paths(self) -> list[str]:
        """Return the database, of which each process reads the start."""
        return [f"{self._gfs_folder}/{DATA_FILE}"]

    def gather(self) -> list[dict[str, dict[str, np.ndarray]]] | None:
        """Return on rank 0 the reads of all processes, by rank."""
        return self.site.processes.gather(self.loader.tables())

    def write_tables(
        self, folder: Path, gathered: Any, tier_roots: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """Write the tables of reads, and return their part of `run.json`."""
        from tierscope.core.tables import write_columns  # only rank 0 loads it

        for name, columns in tables_of(gathered).items():
            write_columns(columns, folder / f"{name}.parquet", name)
        return {"database": asdict(self.database.provenance)}


def tables_of(
    parts: Sequence[Mapping[str, Mapping[str, np.ndarray]]],
) -> dict[str, dict[str, np.ndarray]]:
    """Return the columns of a run's additional tables, from those of all processes."""
    return {name: joined([part[name] for part in parts]) for name in parts[0]}
