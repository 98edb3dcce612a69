"""Pinning: a fixed part of the dataset is on every node's LFS (paper Sec. 4.2)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierscope.core.scenario import n_on_lfs

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Pinning:
    """The first ``round(cache rate x n_files)`` files of a seeded order are pinned.

    The order is the same on all nodes and for all cache rates of a repetition, so a
    higher cache rate only adds files. Nothing is evicted; the hit rate equals the cache
    rate.

    Parameters
    ----------
    n_files : int
        Size of the dataset.
    cache_rate_percent : int
        Percent of the files to hold on the LFS, 0 to 100.
    seed, repetition : int
        Seeds of the order; each repetition has its own pinned part and shuffles.
    """

    n_files: int
    cache_rate_percent: int
    seed: int
    repetition: int = 0

    @property
    def n_on_lfs(self) -> int:
        """Return how many files are on every node's LFS."""
        return n_on_lfs(self.n_files, self.cache_rate_percent)

    def on_lfs(self) -> "np.ndarray":
        """Return whether each file is on the LFS: bool, shape (n_files,)."""
        import numpy as np

        order = pinned_order(self.n_files, self.seed, self.repetition)
        mask = np.zeros(self.n_files, bool)
        mask[order[: self.n_on_lfs]] = True
        return mask


def pinned_order(n_files: int, seed: int, repetition: int) -> "np.ndarray":
    """Return the order in which files are pinned: their ids, int, shape (n_files,)."""
    import numpy as np

    # A separate stream: `default_rng(seed)` is that of the first epoch's shuffle.
    stream = np.random.SeedSequence((seed, repetition), spawn_key=(1,))
    return np.random.default_rng(stream).permutation(n_files)
