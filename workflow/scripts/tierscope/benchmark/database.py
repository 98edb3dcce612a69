"""A run's database: the samples of a scenario whose loader reads LMDB.

What the driver asks in place of files: which records are on the LFS, who reads which,
how the LFS is filled, and which tables the run leaves.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.loaders.records import RecordReference
from tierscope.core.description import RunDescription
from tierscope.core.machine import TierError
from tierscope.core.scenario import Dataset
from tierscope.data.lmdb.check import check_records, check_tree
from tierscope.data.lmdb.file import (
    DATA_FILE,
    RECORDS_FILE,
    copy_ranges,
    make_hollow,
    n_pieces,
    page_ranges,
    read_provenance,
    read_records,
)
from tierscope.data.lmdb.layout import Provenance
from tierscope.data.record_order import first_records, order_of
from tierscope.data.shuffle import process_share
from tierscope.data.tfrecord import FRAMING_BYTES
from tierscope.storage.clock import Clock


def database_folder(dataset: Dataset, n_osts: int) -> str:
    """Return the name of a database's folder, beside that of the files."""
    return f"{dataset.directory(n_osts)}-lmdb"


class Database:
    """The database of a scenario.

    Parameters
    ----------
    description : RunDescription
        What the scenario's measurements depend on; has a section `lmdb`.
    """

    def __init__(self, description: RunDescription):
        self._description = description
        dataset = description.dataset
        self._n_records = dataset.n_files
        self.folder_name = database_folder(dataset, description.scenario.n_osts)

    @classmethod
    def of(cls, description: RunDescription) -> "Database | None":
        """Return the database of a scenario, None where it reads files."""
        return cls(description) if description.lmdb else None

    @property
    def gfs_folder(self) -> Path:
        """Return the database's folder on the GFS."""
        gfs = self._description.system.gfs
        return gfs.data_root() / self.folder_name

    @cached_property
    def provenance(self) -> Provenance:
        """Return how the file was written.

        Raises
        ------
        TierError
            If the database is not there or was written otherwise than described.
        """
        folder, dataset = self.gfs_folder, self._description.dataset
        if not (folder / DATA_FILE).is_file():
            raise TierError(
                f"{folder}: no such database, though it has a manifest; make it again: "
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

    def make_loader(self, processes, clock: Clock):
        """Return the loader, which reads by a clock; every process calls this."""
        from tierscope.benchmark.loaders.lmdb import DatabaseLoader

        self.check(processes)
        system = self._description.system
        return DatabaseLoader(
            self._description.lmdb,
            self._description.dataset.batch_size,
            self.provenance,
            read_records(self.gfs_folder)["crc32c"],
            processes,
            set(system.emulated_tiers),
            clock,
        )

    def check(self, processes) -> None:
        """Refuse a damaged database before anybody reads it; the first process looks.

        Raises
        ------
        DatasetError, TierError
            On the first process.
        """
        if processes.rank == 0:
            provenance = self.provenance
            check_tree(self.gfs_folder / DATA_FILE, provenance)
            records = read_records(self.gfs_folder)
            check_records(self.gfs_folder / RECORDS_FILE, records, provenance)
        processes.barrier()

    def check_copy(self, folder: Path, n_first: int) -> None:
        """Refuse a copy on a node's LFS whose tree is damaged."""
        if n_first:
            check_tree(folder / DATA_FILE, self.provenance)

    def on_lfs(self, cache_rate_percent: int) -> np.ndarray:
        """Return whether each record is on the LFS: bool, shape (n_records,)."""
        return first_records(self._n_records, cache_rate_percent)

    def records_of(self, processes, repetition: int, epoch: int) -> np.ndarray:
        """Return the records that a process reads in an epoch, in reading order."""
        order = order_of(self._description, repetition)
        return order.of_process(
            processes.rank, processes.node, processes.node_rank, epoch
        )

    def references(
        self, records: np.ndarray, on_lfs: np.ndarray, gfs: Path, lfs: Path
    ) -> list[RecordReference]:
        """Return records as references below an epoch's names of the folders."""
        on_gfs = partial(RecordReference, "gfs", f"{gfs}/{DATA_FILE}")
        on_node = partial(RecordReference, "lfs", f"{lfs}/{DATA_FILE}")
        return [(on_node if on_lfs[i] else on_gfs)(i) for i in records.tolist()]

    def begin_fill(self, folder: Path, n_first: int) -> None:
        """Make the file in a node's LFS, which takes no space yet."""
        if n_first:
            make_hollow(folder / DATA_FILE, self.provenance.file_bytes)

    def fill(self, folder: Path, n_first: int, part: int, n_parts: int) -> None:
        """Copy one process's part of the first records to the node's LFS.

        Pages of the GFS's file to the same places, with the metadata and the whole
        tree: the copy is a database in which later records are holes.
        """
        ranges = page_ranges(self.provenance, n_first)
        share = process_share(n_pieces(ranges), part, n_parts)
        if n_first:
            copy_ranges(self.gfs_folder / DATA_FILE, folder / DATA_FILE, ranges, share)


def tables_of(
    parts: Sequence[Mapping[str, Mapping[str, np.ndarray]]],
) -> dict[str, Any]:
    """Return a run's further tables from the columns of all processes, by name."""
    import pandas as pd

    from tierscope.core.columns import TABLES

    return {
        name: pd.DataFrame(
            {
                column: _joined([part[name][column] for part in parts])
                for column in TABLES[name]
            }
        )
        for name in parts[0]
    }


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Return a column of all processes; texts come as bytes."""
    column = np.concatenate(parts)
    return np.char.decode(column) if column.dtype.kind == "S" else column
