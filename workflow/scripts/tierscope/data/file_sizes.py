"""Which size each file of a dataset has, if sizes vary."""

from functools import lru_cache

import numpy as np

from tierscope.core.description import FileSizes

_STREAM = 6  # of random numbers; shuffle, pinning and the simulator have others


@lru_cache(maxsize=8)
def random_sizes(n_files: int, seed: int) -> np.ndarray:
    """Return which of the sizes (`FileSizes.values`) each file has, drawn at random.

    Equally many files have each size. Nobody may change the result, which is kept.
    """
    generator = np.random.default_rng((seed, _STREAM))
    middles = 2 * np.arange(n_files) + 1  # of equal parts, in halves of a part
    return generator.permutation(middles * FileSizes.N_SIZES // (2 * n_files))
