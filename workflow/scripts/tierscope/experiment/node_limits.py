"""Upper limits of what a node keeps of a dataset on its LFS and in its memory."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tierscope.core.scenario import Dataset
from tierscope.policies import PEERS, Pinning, file_owners, of_kind

if TYPE_CHECKING:
    from tierscope.data.lmdb.layout import Provenance

_PAGE_BYTES = 4096  # of the machine that writes a database; the usual one


def files_on_node(
    dataset: Dataset, policy: str, rate: int, seed: int, repetition: int, n_nodes: int
) -> int:
    """Return how many files a node's LFS must hold.

    Parameters
    ----------
    dataset : Dataset
        The dataset that is read.
    policy : str
        Policies that read from peers spread the files over the nodes, and the node with
        the most files counts. With other policies each node may hold the cache rate.
    rate : int
        Cache rate in percent.
    seed, repetition : int
        Seed of the training and repetition, which decide which files are staged in.
    n_nodes : int
        Number of nodes.
    """
    pinned = Pinning(dataset.n_files, rate, seed, repetition)
    if policy not in of_kind(PEERS) or not pinned.n_on_lfs:
        return pinned.n_on_lfs
    import numpy as np

    staged_owners = file_owners(dataset.n_files, n_nodes)[pinned.on_lfs()]
    return int(np.bincount(staged_owners).max())


def database_bytes(dataset: Dataset, lmdb: Mapping[str, Any], rate: int) -> int:
    """Return the size of a copy of a database's first records: pages without holes.

    Parameters
    ----------
    dataset : Dataset
        The samples.
    lmdb : mapping
        Section `lmdb` of the configuration.
    rate : int
        Cache rate in percent.
    """
    from tierscope.data.lmdb.file import page_ranges
    from tierscope.data.tfrecord import FRAMING_BYTES

    provenance = _provenance(
        dataset.n_files,
        dataset.file_size_bytes - FRAMING_BYTES,
        lmdb["records_per_commit"],
    )
    n_first = Pinning(dataset.n_files, rate, seed=0).n_on_lfs
    return sum(len(range(*one)) for one in page_ranges(provenance, n_first))


@lru_cache
def _provenance(n_records: int, value_bytes: int, per_commit: int) -> "Provenance":
    """Return how a database is written; its layout is computed only once."""
    from tierscope.data.lmdb.layout import Provenance

    return Provenance(n_records, value_bytes, per_commit, _PAGE_BYTES)
