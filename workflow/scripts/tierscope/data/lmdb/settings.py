"""Settings of loaders of LMDB files: order, blocks and steps per fetch."""

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
    """Return how many steps of a node one fetch reads if reads are coalesced.

    As in LMDBIO, it is enough for the wanted bytes, rounded up to a power of two, and
    at most the number of steps.

    Parameters
    ----------
    n_records, record_bytes : int
        Size of the dataset and of a record.
    step_records : int
        Records that a node's processes consume in a step.
    n_nodes : int
        Number of nodes.
    coalesced_bytes : int
        Minimum size of a read.
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
    """Return the settings of an LMDB loader for a description.

    Parameters
    ----------
    loader : str
        One of `LOADERS`.
    config : mapping
        Section `lmdb` of the configuration.
    dataset, system : Dataset, Machine
        The dataset, and the machine of the processes.

    Returns
    -------
    LmdbSettings
        The section without the switches, and the enabled `optimisations`,
        `block_records` (contiguous records that are shuffled as one block) and
        `steps_per_fetch`. Blocks have the size of coalesced reads for all loaders, so
        that all of them read in the same order.
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
