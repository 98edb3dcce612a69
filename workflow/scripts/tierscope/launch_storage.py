"""The storage of a launch: its dataset, its nodes' LFS, its emulated devices."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.database import Database
from tierscope.dataset import generate_files
from tierscope.processes import GRACE_S, Processes
from tierscope.scenario import Dataset
from tierscope.shuffle import process_share
from tierscope.tiers import TierError, make_epoch_aliases
from tierscope.tiers.local_storage import LocalStorage

ATTEMPTS = 6  # to measure with emulated devices that are not too late


def check_is_there(folder: Path) -> None:
    """Refuse a dataset that has a manifest and no folder."""
    if not folder.is_dir():
        raise TierError(
            f"{folder}: no such dataset, though it has a manifest; make it again: "
            "snakemake ... --forcerun generate_dataset --until generate_dataset"
        )


def claim_storage(
    processes: Processes,
    storage: LocalStorage,
    folder: str,
    *,
    background: bool = False,
    peers: bool = False,
) -> None:
    """Make every node's LFS ours and empty but for a folder of this name."""
    if processes.node_rank == 0:
        storage.claim()
        (storage.folder / folder).mkdir()
        make_epoch_aliases(
            storage.data_root, storage.n_epochs, background=background, peers=peers
        )
    processes.barrier()


def fill_storage(
    processes: Processes,
    storage: LocalStorage,
    folder: str,
    held: np.ndarray,
    dataset: Dataset,
    database: Database | None,
    *,
    background: bool,
    peers: bool,
) -> float:
    """Claim every node's LFS, fill it, and return the time that took in seconds.

    As in the paper (Sec. 5.1) files are generated, not copied; a database's first
    records are copied. The processes of a node share the work; nodes fill at the same
    time.

    Parameters
    ----------
    processes, storage : Processes, LocalStorage
        The MPI processes, and this node's part of the LFS.
    folder : str
        Name of the folder that is filled.
    held : ndarray of int, shape (n_held,)
        The samples that the LFS is to hold.
    dataset, database : Dataset, Database or None
        What they are samples of; None where each is a file.
    background, peers : bool
        As for `make_epoch_aliases`.
    """
    processes.barrier()
    start = time.perf_counter()
    claim_storage(processes, storage, folder, background=background, peers=peers)
    path, n_held = storage.folder / folder, len(held)
    part, n_parts = processes.node_rank, processes.node_size
    if database:
        if part == 0:
            database.begin_fill(path, n_held)
        processes.barrier()
        database.fill(path, n_held, part, n_parts)
    else:
        mine = held[process_share(n_held, part, n_parts)]
        names = [dataset.file_name(file_id) for file_id in mine]
        generate_files(path, names, mine, dataset.file_size_bytes)
    processes.barrier()
    fill_time_s = time.perf_counter() - start
    if database and part == 0:
        database.check_copy(path, n_held)
    processes.barrier()
    return fill_time_s


def release_storage(
    processes: Processes, storage: LocalStorage, emulation: Any
) -> None:
    """Remove this node's LFS contents, and the emulated devices if there are any."""
    if processes.node_rank == 0:
        storage.release()
    else:
        storage.wait_until_released(GRACE_S)
    if emulation and processes.rank == 0:
        emulation.remove()


def shared_lateness_percent(processes: Processes, emulation: Any) -> float:
    """Return the share of the emulated waiting that is the machine's lateness."""
    if emulation is None:
        return 0.0
    late = emulation.lateness_percent() if processes.rank == 0 else None
    return processes.share(late)
