"""How much of a dataset the nodes have room for, as a placement spreads it."""

from functools import lru_cache
from typing import TYPE_CHECKING

from tierscope.core.description import FileSizes
from tierscope.core.scenario import n_on_lfs
from tierscope.policies import POLICIES
from tierscope.policies.pinning import Pinning, pinned_order

if TYPE_CHECKING:
    import numpy as np


def largest_rate_percent(
    placement: str,
    n_files: int,
    sizes_bytes: tuple[float, ...],
    n_nodes: int,
    room_bytes: float,
    seeds: tuple[int, int] = (0, 0),
) -> int:
    """Return the largest cache rate at which the fullest node has room for its files.

    Parameters
    ----------
    placement : str
        A policy that decides before the first epoch. Each node holds all pinned files,
        or those that it owns. One that holds no file has rate 0 only.
    n_files : int
        Files of the dataset.
    sizes_bytes : tuple of float
        The mean size of a file, or all `FileSizes.values`: then each file has its own,
        as in a simulation.
    n_nodes : int
        Nodes of the machine.
    room_bytes : float
        Room of a node.
    seeds : tuple of int
        Seed and repetition, which decide which files are pinned; the seed, which size
        each has.

    Returns
    -------
    int
        Whole percent of the files, 0 to 100.
    """
    needed = bytes_on_fullest(placement, n_files, sizes_bytes, n_nodes, seeds)
    return int(needed.searchsorted(room_bytes, side="right")) - 1


@lru_cache(maxsize=256)
def bytes_on_fullest(
    placement: str,
    n_files: int,
    sizes_bytes: tuple[float, ...],
    n_nodes: int,
    seeds: tuple[int, int] = (0, 0),
) -> "np.ndarray":
    """Return the bytes on the fullest node at each cache rate from 0 percent on.

    Parameters are those of `largest_rate_percent`. The result is kept, so nobody may
    change it: shape (101,), or (1,) if the placement holds no file at any rate.
    """
    import numpy as np

    from tierscope.data.file_sizes import random_sizes

    policy = POLICIES[placement]
    if not policy.held(Pinning(n_files, 100, *seeds)).any():
        return np.zeros(1)
    order, owners = pinned_order(n_files, *seeds), policy.owners(n_files, n_nodes)
    owner_of = np.zeros(n_files, int) if owners is None else owners[order]
    kinds = random_sizes(n_files, seeds[0])[order]
    sizes = np.array(sizes_bytes)[kinds * len(sizes_bytes) // FileSizes.N_SIZES]
    needed, on_nodes, first = [0.0], np.zeros(n_nodes), 0
    for rate in range(1, 101):
        end = n_on_lfs(n_files, rate)
        on_nodes += np.bincount(owner_of[first:end], sizes[first:end], n_nodes)
        needed.append(on_nodes.max())
        first = end
    return np.array(needed)
