"""The size of an experiment on two directories: as large as room and time allow.

The sizes are chosen once and written into a configuration, because a repeated start
must not measure another dataset only because there is less room now.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tierscope.core.io_class import IOClass
from tierscope.core.validation import ConfigError
from tierscope.core.words import size_words
from tierscope.experiment.planned.measurement import LEAST_MEMORIES
from tierscope.storage.room import FileSystem

SYSTEM, DATASET = "laptop", "small"
FILE_BYTES = 128 << 10  # as the paper's small files
BATCH_SIZE = 12
EPOCHS = 2  # figures show the second
CACHE_RATES_PERCENT = (0, 25, 50, 75, 100)
REPETITIONS = 5
LEAST_STEPS = 8  # of a process in an epoch
BUDGET_S = 240.0  # for all measurements together
_LAUNCH_S = 10.0  # until the processes have loaded TensorFlow
_POINT_S = 1.0  # of a point besides its reads and writes
_SAMPLE_S = 0.00015  # of a file besides its reads and writes, all processes together
_MOST_FILES = 9_999_999  # names have seven digits


@dataclass(frozen=True)
class Directory:
    """A directory that will be a tier, and what is known of it.

    Parameters
    ----------
    name : {"GFS", "LFS"}
        Name for the reader.
    path : str
        The directory.
    system : FileSystem
        The file system that holds it.
    write_files_per_s, read_files_per_s : float
        Rates of all processes together on files of `FILE_BYTES`: written to the device,
        and read without the page cache.
    """

    name: str
    path: str
    system: FileSystem
    write_files_per_s: float
    read_files_per_s: float


@dataclass(frozen=True)
class Size:
    """The chosen size.

    Parameters
    ----------
    n_files : int
        Files of the dataset.
    limit : str
        What keeps the dataset from being larger, for the reader.
    measuring_s : float
        About how long all measurements take together.
    """

    n_files: int
    limit: str
    measuring_s: float


def choose_size(
    gfs: Directory, lfs: Directory, n_processes: int, memory_bytes: int
) -> Size:
    """Return the largest dataset for which there is room and time.

    More than five times the memory is never needed. At most half of the free room is
    used, and of file systems in memory a quarter of the memory.

    Parameters
    ----------
    gfs, lfs : Directory
        The two tiers; the LFS must hold the whole dataset, for cache rate 100 %.
    n_processes : int
        Processes that share the files; each makes the same number of whole steps.
    memory_bytes : int
        Memory of this machine.

    Raises
    ------
    ConfigError
        If a directory lacks the room for the smallest dataset.
    """
    step = n_processes * BATCH_SIZE
    least = LEAST_STEPS * step
    shared = 2 if gfs.system.device == lfs.system.device else 1
    rooms = {
        f"the room on the {one.name}": _files_that_fit(one, memory_bytes) // shared
        for one in (gfs, lfs)
    }
    for one, n_fitting in zip((gfs, lfs), rooms.values(), strict=True):
        if n_fitting < least:
            raise ConfigError(_no_room(one, least, shared))
    limits = rooms | {
        "the time": int((BUDGET_S - _fixed_s()) / _file_s(gfs, lfs)),
        f"{LEAST_MEMORIES} times the memory": math.ceil(
            LEAST_MEMORIES * memory_bytes / FILE_BYTES / step
        )
        * step,
        "the length of names": _MOST_FILES,
    }
    limit = min(limits, key=limits.__getitem__)
    n_files = max(least, limits[limit] // step * step)
    if limits[limit] < least:
        limit = f"the time; it is the smallest, {LEAST_STEPS} steps for each process"
    return Size(n_files, limit, _fixed_s() + n_files * _file_s(gfs, lfs))


def _files_that_fit(one: Directory, memory_bytes: int) -> int:
    """Return how many files a directory should hold at most."""
    n_bytes = one.system.free_bytes // 2
    if one.system.is_memory:
        n_bytes = min(n_bytes, memory_bytes // 4)
    return min(n_bytes // FILE_BYTES, one.system.free_files // 2)


def _no_room(one: Directory, least: int, shared: int) -> str:
    """Return why a directory is too small for the smallest dataset."""
    both = " of both directories" if shared > 1 else ""
    n_files = 2 * least * shared
    return (
        f"{one.name}: got {one.path} with {size_words(one.system.free_bytes)} and "
        f"{one.system.free_files} files free, expected at least "
        f"{size_words(n_files * FILE_BYTES)} and {n_files} files, twice the smallest "
        f"content{both}"
    )


def _fixed_s() -> float:
    """Return the time that no dataset shortens."""
    return REPETITIONS * (_LAUNCH_S + len(CACHE_RATES_PERCENT) * _POINT_S)


def _file_s(gfs: Directory, lfs: Directory) -> float:
    """Return the time that each file of the dataset adds to all measurements."""
    generate_s, fill_s = 1 / gfs.write_files_per_s, 1 / lfs.write_files_per_s
    epochs_s = 0.0
    for rate in CACHE_RATES_PERCENT:
        on_lfs = rate / 100
        read_s = (1 - on_lfs) / gfs.read_files_per_s + on_lfs / lfs.read_files_per_s
        epochs_s += EPOCHS * (read_s + _SAMPLE_S)
    # The points of a repetition fill the LFS once, as each adds to the pinned files.
    return generate_s + REPETITIONS * (fill_s + epochs_s)


def sized_config(name: str, roots: Mapping[str, str], size: Size) -> dict[str, Any]:
    """Return the configuration of an experiment on two directories.

    It holds differences from `config/config.yaml`.

    Parameters
    ----------
    name : str
        Name of the experiment.
    roots : mapping
        Directories of the tiers `gfs` and `lfs`.
    size : Size
        The chosen size.
    """
    classes = [str(io_class) for io_class in IOClass]
    return {
        "experiment": name,
        "system": SYSTEM,
        "roots": dict(roots),
        "sweep": {
            "datasets": [DATASET],
            "n_osts": [0],
            "cache_rates_percent": list(CACHE_RATES_PERCENT),
            "repetitions": REPETITIONS,
        },
        "datasets": {
            DATASET: {
                "n_files": size.n_files,
                "file_size_bytes": FILE_BYTES,
                "batch_size": BATCH_SIZE,
            }
        },
        "training": {"epochs": EPOCHS},
        # Nobody knows a number of seconds for directories, nor which class matters.
        "whatif": {"goal": {"seconds": None, "percent_of_best": 80}},
        # Plain directories have no description of their devices.
        "model": {"calibration": None},
        "figures": {
            "scenario": {"dataset": DATASET, "n_osts": 0},
            "improvements": [{io_class: 50} for io_class in classes],
            "pairs": [list(pair) for pair in itertools.pairwise(classes)],
            "methods": ["rule"],
        },
    }
