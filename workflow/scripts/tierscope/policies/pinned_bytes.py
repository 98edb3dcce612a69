"""Pinning by bytes: files of any size are pinned until the next one does not fit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tierscope.core.words import count_words, ranges_of, short_number
from tierscope.policies.pinning import pinned_order

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from tierscope.core.description import RunDescription
    from tierscope.core.scenario import Point

_FEW_FILES = 10  # below it, whole files meet few cache rates
_ROUNDING = 1e-6  # of sums in percent
_MET_POINTS = 1.0  # a rate is met if fewer points are missing
_MOST_RATES = 6  # that a line lists


def quota_of_bytes(size_bytes: "np.ndarray", cache_rate_percent: int) -> int:
    """Return the bytes that an LFS may hold of files of these sizes."""
    # Python's integers: a hundred times the bytes may exceed 64 bits.
    return int(size_bytes.sum()) * cache_rate_percent // 100


def pinned_by_bytes(
    size_bytes: "np.ndarray", cache_rate_percent: int, seed: int, repetition: int
) -> "np.ndarray":
    """Return which files are pinned at a cache rate of bytes.

    Files are taken in the order of `Pinning`, until the next does not fit into that
    part of all bytes. So a higher rate holds all files of a lower one.

    Parameters
    ----------
    size_bytes : ndarray of int, shape (n_files,)
        Size of each file.
    cache_rate_percent : int
        Percent of the bytes to hold at most, 0 to 100: 0 holds no file, 100 all.
    seed, repetition : int
        Seeds of the order.

    Returns
    -------
    ndarray of bool, shape (n_files,)
    """
    import numpy as np

    is_pinned = np.zeros(len(size_bytes), bool)
    if cache_rate_percent:  # 0 holds no empty file either
        order = pinned_order(len(size_bytes), seed, repetition)
        ends = np.cumsum(size_bytes[order])
        most = quota_of_bytes(size_bytes, cache_rate_percent)
        is_pinned[order[: np.searchsorted(ends, most, side="right")]] = True
    return is_pinned


def first_names(manifest: "pd.DataFrame") -> "np.ndarray":
    """Return of each name of table `user_manifest` the first one of the same file."""
    import numpy as np

    same_as = manifest["same_as"].to_numpy()
    return np.where(same_as < 0, np.arange(len(same_as)), same_as)


def own_sizes(manifest: "pd.DataFrame") -> "np.ndarray":
    """Return the bytes of each file by its first name, 0 by further ones."""
    return manifest["size_bytes"].where(manifest["same_as"] < 0, 0).to_numpy()


def held_bytes(manifest: "pd.DataFrame", is_held: "np.ndarray") -> int:
    """Return the bytes of the files of which some name is held, each counted once."""
    import numpy as np

    firsts = np.unique(first_names(manifest)[is_held])
    return int(manifest["size_bytes"].to_numpy()[firsts].sum())


def pinned_names(
    manifest: "pd.DataFrame", cache_rate_percent: int, seed: int, repetition: int
) -> "np.ndarray":
    """Return which files of table `user_manifest` are pinned: bool, (n_files,).

    The names of one file are pinned together, and its bytes count once.
    """
    sizes = own_sizes(manifest)
    pinned = pinned_by_bytes(sizes, cache_rate_percent, seed, repetition)
    return pinned[first_names(manifest)]


def files_at_start(
    description: "RunDescription", point: "Point", manifest: "pd.DataFrame"
) -> "np.ndarray":
    """Return which files each LFS holds before a program runs: bool, (n_files,)."""
    is_pinned = description.scenario.policy == "pinning"
    rate = point.cache_rate_percent if is_pinned else 0
    seed = description.training.seed
    return pinned_names(manifest, rate, seed, point.repetition)


def coarse_rates_line(
    name: str,
    size_bytes: "np.ndarray",
    cache_rates_percent: Sequence[int],
    seed: int,
    n_repetitions: int,
) -> str | None:
    """Return why a dataset cannot meet cache rates as asked, None if it can.

    That is so if it has fewer than ten files, or one with more than half of its bytes.

    Parameters
    ----------
    name : str
        Name of the dataset.
    size_bytes : ndarray of int, shape (n_files,)
        Size of each file.
    cache_rates_percent : sequence of int
        The cache rates of the sweep.
    seed, n_repetitions : int
        Seed and number of the orders in which files are pinned.
    """
    import numpy as np

    n_bytes = sum(size_bytes.tolist())
    largest = int(max(size_bytes, default=0))
    if not n_bytes or (len(size_bytes) >= _FEW_FILES and 2 * largest <= n_bytes):
        return None
    ends = [  # of the files in each order, in percent of the bytes
        np.cumsum(size_bytes[pinned_order(len(size_bytes), seed, repetition)])
        * (100 / n_bytes)
        for repetition in range(n_repetitions)
    ]
    held = {rate: _held_percent(ends, rate) for rate in range(101)}
    met = [rate for rate, some in held.items() if rate - min(some) < _MET_POINTS]
    if not (missed := sorted(set(cache_rates_percent) - set(met))):
        return None
    cases = [f"{rate} % hold {_span_words(held[rate])} %" for rate in missed]
    more = [f"{len(cases) - _MOST_RATES} more"] if len(cases) > _MOST_RATES else []
    part = short_number(100 * largest / n_bytes)
    return (
        f"Dataset {name}: {count_words(len(size_bytes), 'file')}, the largest with "
        f"{part} % of the bytes. The LFS holds whole files, so cache rates of "
        f"{', '.join(cases[:_MOST_RATES] + more)} of the bytes. The dataset can meet "
        f"{_ranges_words(met)} %; smaller files, such as shards, can meet any rate."
    )


def _held_percent(ends: "Sequence[np.ndarray]", rate: int) -> list[float]:
    """Return the percent of the bytes that each order holds at a cache rate."""
    import numpy as np

    numbers = [np.searchsorted(some, rate + _ROUNDING, side="right") for some in ends]
    return [
        float(some[n - 1]) if n else 0.0 for some, n in zip(ends, numbers, strict=True)
    ]


def _span_words(percents: Sequence[float]) -> str:
    """Return the least and the most of some numbers, such as ``10 to 33``."""
    low, high = short_number(min(percents)), short_number(max(percents))
    return low if low == high else f"{low} to {high}"


def _ranges_words(numbers: Sequence[int]) -> str:
    """Return rising whole numbers in words: ``0, 33 to 35 and 100``."""
    words = [" to ".join(map(str, dict.fromkeys(one))) for one in ranges_of(numbers)]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
