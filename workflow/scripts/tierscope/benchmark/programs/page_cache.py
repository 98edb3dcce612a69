"""The page cache of a node on which a program runs: what leaves it, and what stays."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.storage.page_cache import (
    CachedTier,
    Residency,
    drop_names,
    drop_pages,
    evenly,
)

SAMPLE_FILES = 64  # of each tier and node
_LEAST_FILES, _PART = 4, 16  # a program's epoch opens few files more
_N_THREADS = 8  # opening many files on a network is bound by latency
_BLOCK_FILES = 64  # that a thread drops in turn


def drop_file(path: str) -> bool:
    """Drop a file's pages; return whether that was possible, as for one that is gone.

    Pages that a process has mapped stay.
    """
    try:
        drop_pages((path,))
    except OSError:
        return False
    return True


def drop_files(paths: Sequence[str]) -> int:
    """Drop the pages of many files; return of how many that was not possible."""
    blocks = (
        paths[start : start + _BLOCK_FILES]
        for start in range(0, len(paths), _BLOCK_FILES)
    )
    with ThreadPoolExecutor(_N_THREADS) as pool:
        return sum(pool.map(_n_kept, blocks))


def _n_kept(paths: Sequence[str]) -> int:
    return sum(not drop_file(path) for path in paths)


def begin_run(
    roots: Mapping[str, Path], paths: Mapping[str, Sequence[str]], *, cold: bool
) -> dict[str, Any]:
    """Let a node's files leave the page cache before a run, and say what stays in it.

    If a sample shows that no page of a tier is resident, its files are not opened: that
    would bring their names into the node's cache.

    Parameters
    ----------
    roots : mapping of str to Path
        An existing folder of each tier, ``gfs`` and ``lfs``.
    paths : mapping of str to sequence of str
        The files of each tier that the node may read.
    cold : bool
        Whether files must leave the page cache; if not, they are looked at only.

    Returns
    -------
    dict
        Columns of table `run_epochs`: for each tier the percent of a sample's pages
        that is resident, not a number if no page can be looked at; and whether names
        and inodes were dropped, which only root may.
    """

    def is_warm(seen: Residency) -> bool:
        return cold and (isnan(seen.percent) or seen.resident > 0)

    found = {
        tier: CachedTier(root, drop_files).look(paths[tier], SAMPLE_FILES, is_warm)
        for tier, root in roots.items()
    }
    return {
        **{f"{tier}_resident_percent": one.percent for tier, one in found.items()},
        "names_dropped": cold and drop_names(),
    }


def look_at_epoch(
    folders: Mapping[str, str],
    names: Sequence[str],
    on_gfs: np.ndarray,
    on_lfs: np.ndarray,
) -> dict[str, float]:
    """Return how much of a sample of each tier is resident when an epoch begins.

    Parameters
    ----------
    folders : mapping of str to str
        The real folder of each tier, ``gfs`` and ``lfs``.
    names : sequence of str
        Paths of the files below them.
    on_gfs, on_lfs : ndarray of bool, shape (n_files,)
        Which files are read from these tiers, and by no process now.

    Returns
    -------
    dict of str to float
        Percent of the pages, not a number if none can be looked at.
    """
    found = {}
    for tier, is_there in (("gfs", on_gfs), ("lfs", on_lfs)):
        ids = np.flatnonzero(is_there)
        n_files = min(SAMPLE_FILES, max(_LEAST_FILES, len(ids) // _PART))
        paths = [f"{folders[tier]}/{names[i]}" for i in evenly(ids, n_files)]
        found[tier] = CachedTier(folders[tier]).look(paths, n_files).percent
    return found
