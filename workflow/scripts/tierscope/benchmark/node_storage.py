"""The storage of a launch: its dataset, its nodes' LFS, its emulated devices."""

import math
import os
import platform
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tierscope.benchmark.devices.real import RealDevices
from tierscope.benchmark.processes import GRACE_S, Processes
from tierscope.core.files import overlap
from tierscope.core.machine import TierError
from tierscope.core.scenario import Dataset
from tierscope.core.words import printable
from tierscope.data.tfrecord import generate_files
from tierscope.storage.local_folder import LocalStorage
from tierscope.storage.room import check_memory
from tierscope.storage.tier import make_epoch_aliases


def check_is_there(folder: Path) -> None:
    """Refuse a dataset that has a manifest but no folder."""
    if not folder.is_dir():
        raise TierError(
            f"{folder}: no such dataset, but its manifest exists; make it again: "
            "snakemake ... --forcerun generate_dataset --until generate_dataset"
        )


def check_apart(dataset: str | Path, lfs: Path) -> None:
    """Refuse a user's dataset that holds the root of the LFS, or lies in it."""
    if overlap(dataset, lfs):
        raise TierError(
            f"{lfs}: got dataset {printable(str(dataset))}, expected two folders of "
            "which none holds the other."
        )


def check_room(
    processes: Processes,
    storage: LocalStorage,
    parts: Iterable[tuple[int, int]],
    *,
    in_memory: bool = False,
) -> None:
    """Refuse a launch whose files do not fit into the LFS; all processes call this.

    Files that an earlier launch left are removed first. `parts` has number and bytes of
    a node's files for each point. The TierError of the first process says what is
    needed and free on a file system that all its nodes share; with `in_memory` one of
    a node may say that its LFS is not in memory.
    """
    root, claim = storage.data_root.parent, None
    if processes.node_rank == 0:
        storage.claim()
        if in_memory:
            check_memory(root)
    processes.barrier()
    if processes.node_rank == 0:
        state = os.statvfs(root)
        block = state.f_frsize
        n_bytes = max(n * math.ceil(size / block) * block for n, size in parts)
        place = (platform.node(), os.stat(root).st_dev)
        claim = (place, n_bytes, state.f_bavail * block)
    claims = processes.gather(claim)
    if processes.rank == 0 and (reason := why_no_room(filter(None, claims))):
        raise TierError(f"{root}: {reason}")


def why_no_room(claims: Iterable[tuple[tuple[str, int], int, int]]) -> str | None:
    """Return on which file system the LFS does not fit, None if it fits on all.

    A claim of a node: machine and device of its file system, bytes needed, bytes free.
    """
    by_place: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for place, n_bytes, n_free in claims:
        by_place.setdefault(place, []).append((n_bytes, n_free))
    for (machine, _), nodes in by_place.items():
        needed, free = sum(int(n) for n, _ in nodes), min(n for _, n in nodes)
        if needed > free:
            whose = f"{len(nodes)} nodes" if len(nodes) > 1 else "a node"
            return (
                f"needs {needed} bytes for the files of {whose} on {machine}, but only "
                f"{free} are free."
            )
    return None


def claim_storage(
    processes: Processes,
    storage: LocalStorage,
    folder: str,
    *,
    background: bool = False,
    peers: bool = False,
) -> None:
    """Claim every node's LFS and empty it, except for a folder of this name."""
    if processes.node_rank == 0:
        storage.claim()
        (storage.folder / folder).mkdir()
        make_epoch_aliases(
            storage.data_root, storage.n_epochs, background=background, peers=peers
        )
    processes.barrier()


def exchange_files(
    processes: Processes,
    storage: LocalStorage,
    folder: str,
    held: np.ndarray,
    wanted: np.ndarray,
    dataset: Dataset,
) -> None:
    """Change which files every node's LFS holds, without timing.

    Pinned sets of one seed are nested: a higher cache rate adds files to those present.
    `held` and `wanted` say of each file whether the LFS holds and must hold it.
    """
    path, part, n_parts = (
        storage.folder / folder,
        processes.node_rank,
        processes.node_size,
    )
    for file_id in np.flatnonzero(held & ~wanted)[part::n_parts].tolist():
        (path / dataset.file_name(file_id)).unlink()
    missing = np.flatnonzero(wanted & ~held)[part::n_parts]
    names = [dataset.file_name(file_id) for file_id in missing]
    generate_files(path, names, missing, dataset.file_size_bytes)
    processes.barrier()


def release_storage(
    processes: Processes, storage: LocalStorage, devices: RealDevices
) -> None:
    """Remove this node's LFS contents, and the files of emulated devices.

    The node's first process does it, between two barriers. After a failure the first
    live process of the node does it, once the others have stopped.
    """
    if processes.has_failed:
        processes.await_stop()
        storage.release_together(
            lambda: processes.leads_node,
            GRACE_S,
            lambda: processes.node_leader_has_released,
        )
    elif processes.node_rank == 0:
        storage.release()
    if processes.rank == 0:
        devices.remove()
