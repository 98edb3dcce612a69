"""The storage of a launch: its dataset, its nodes' LFS, its emulated devices."""

from pathlib import Path
from typing import Any

from tierscope.processes import GRACE_S, Processes
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
