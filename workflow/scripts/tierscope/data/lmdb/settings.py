"""How loaders of LMDB files read: order, blocks, steps that are read at once."""

import math
from collections.abc import Mapping
from typing import Any

from tierscope.core.description import LmdbSettings
from tierscope.core.lmdb_loaders import optimisations_of
from tierscope.core.machine import Machine
from tierscope.core.scenario import Dataset


def steps_per_fetch(
    n_records: int,
    record_bytes: int,
    step_records: int,
    n_nodes: int,
    coalesced_bytes: int,
) -> int:
    """Return how many steps of a node are read at once where reads are coalesced.

    As in LMDBIO: enough for the bytes wanted, rounded up to a power of two, and not
    more than there are.

    Parameters
    ----------
    n_records, record_bytes : int
        Size of the dataset and of a record.
    step_records : int
        Records that a node's processes consume in a step.
    n_nodes : int
        Number of nodes.
    coalesced_bytes : int
        Size that a read is to have at least.
    """
    wanted = math.ceil(coalesced_bytes / (step_records * record_bytes))
    power = 1 << max(0, wanted - 1).bit_length()
    return min(power, max(1, n_records // (n_nodes * step_records)))


def lmdb_settings(
    loader: str,
    config: Mapping[str, Any],
    dataset: Dataset,
    system: Machine,
) -> LmdbSettings:
    """Return what a description says about an LMDB loader.

    Parameters
    ----------
    loader : str
        One of `LOADERS`.
    config : mapping
        Section `lmdb` of the configuration.
    dataset, system : Dataset, Machine
        What is read, and where the processes run.

    Returns
    -------
    LmdbSettings
        The section without the switches, and the `optimisations` that are on,
        `block_records` (contiguous records that are shuffled as one) and
        `steps_per_fetch`. Blocks are as large as coalesced reads for all loaders, so
        that all read in the same order.
    """
    settings = {key: value for key, value in config.items() if key != "lmdbio"}
    optimisations = optimisations_of(loader, config["lmdbio"])
    n_records, n_nodes = dataset.n_files, system.n_nodes
    step_records = dataset.batch_size * system.processes_per_node
    coalesced = steps_per_fetch(
        n_records,
        dataset.file_size_bytes,
        step_records,
        n_nodes,
        config["coalesced_bytes"],
    )
    block = min(coalesced * step_records, math.ceil(n_records / n_nodes))
    return LmdbSettings(
        **settings,
        optimisations=list(optimisations),
        block_records=block,
        steps_per_fetch=coalesced if "coal" in optimisations else 1,
    )
