"""Datasets, scenarios, their points, and the plan of a calibration."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Self

from tierscope.core.given.keys import Folder, from_to
from tierscope.core.lmdb_loaders import LOADERS as LMDB_LOADERS
from tierscope.core.words import size_words

PROGRAM_LOADER = "program"  # a program of the user reads (`loader.command`)
IDEAL_SUFFIX = "+ideal"  # of the name of a system whose storage costs nothing


@dataclass(frozen=True)
class Dataset:
    """A dataset of one-sample TFRecord files of one size, named as its preset."""

    name: str
    n_files: Annotated[
        int, from_to(1, 9_999_999), "Number of files; one sample per file."
    ]
    file_size_bytes: Annotated[
        int,
        from_to(64, 1 << 40),
        "Exact size of a file in bytes, TFRecord framing included.",
    ]
    batch_size: Annotated[
        int, from_to(1, 9_999_999), "Samples that a process reads per step."
    ]

    @property
    def title(self) -> str:
        """Return the dataset's title in figures, such as ``128 KiB files``."""
        return f"{size_words(self.file_size_bytes)} files"

    def directory(self, n_osts: int) -> str:
        """Return the folder's name, which depends on files and striping."""
        return f"{self.name}-{self.n_files}x{self.file_size_bytes}-{n_osts}ost"

    @staticmethod
    def file_name(file_id: int) -> str:
        """Return the name of a file inside the dataset's folder."""
        return f"{file_id:07d}.tfrecord"


@dataclass(frozen=True)
class UserDataset:
    """A dataset that the user has: all files below a folder, of any sizes.

    Only programs of the user read it.
    """

    name: str
    path: Annotated[
        Folder,
        "Folder of a dataset that you have: all files below it. tierscope never writes "
        "there.",
    ]

    @property
    def title(self) -> str:
        """Return the dataset's title in figures."""
        return f"dataset {self.name}"


def improvement_suffix(improvements: Mapping[str, int]) -> str:
    """Return the suffix of an improved system's name, such as ``+gfs_meta50``."""
    return "".join(f"+{name}{percent}" for name, percent in improvements.items())


def nodes_suffix(n_nodes: int | None) -> str:
    """Return the name's suffix of a system on another number of nodes: ``+nodes1``."""
    return "" if n_nodes is None else f"+nodes{n_nodes}"


@dataclass(frozen=True)
class Scenario:
    """A run without cache rate and repetition.

    `improvements` are pairs of an I/O class and the improvement of its devices in
    percent. `n_nodes` is the number of nodes for its processes, None for the system's
    own number. `is_ideal` says whether its storage costs nothing. All three belong to
    the system that runs the scenario.
    """

    dataset: str
    n_osts: int
    policy: str
    loader: str
    improvements: tuple[tuple[str, int], ...] = ()
    n_nodes: int | None = None
    is_ideal: bool = False

    @property
    def name(self) -> str:
        """Return the name used in paths."""
        name = f"{self.dataset}-{self.n_osts}ost-{self.policy}-{self.loader}"
        name += improvement_suffix(dict(self.improvements))
        name += nodes_suffix(self.n_nodes)
        return name + IDEAL_SUFFIX * self.is_ideal

    @property
    def reads_database(self) -> bool:
        """Return whether the samples are records of one LMDB file."""
        return self.loader in LMDB_LOADERS

    @property
    def runs_program(self) -> bool:
        """Return whether a program of the user reads the files."""
        return self.loader == PROGRAM_LOADER

    @property
    def is_modelled(self) -> bool:
        """Return whether the models support the scenario's reads.

        Of a program, whether they do is known when its runs have been made.
        """
        return self.policy == "pinning" and not self.reads_database

    @property
    def keys(self) -> dict[str, str | int]:
        """Return the columns of tables that identify a scenario of a system."""
        values = asdict(self)
        del values["improvements"], values["n_nodes"], values["is_ideal"]
        return values


@dataclass(frozen=True, order=True)
class Point:
    """A cache rate and a repetition of a scenario: one benchmark execution."""

    cache_rate_percent: int
    repetition: int

    @property
    def path(self) -> str:
        """Return the run's folder in its scenario's folder: ``cache-065/rep-0``."""
        return f"cache-{self.cache_rate_percent:03d}/rep-{self.repetition}"

    @classmethod
    def parse(cls, path: str) -> Self:
        """Return the point of the folder `path`.

        Raises
        ------
        ValueError
            If the text does not name a run's folder.
        """
        if not (match := re.fullmatch(r"cache-(\d{3})/rep-(\d+)", path)):
            raise ValueError(f"got {path!r}, expected one like cache-065/rep-0")
        return cls(*map(int, match.groups()))


def n_on_lfs(n_files: int, cache_rate_percent: int) -> int:
    """Return how many files or records of a dataset the LFS holds at a cache rate."""
    return round(n_files * cache_rate_percent / 100)


Sweep = Mapping[Scenario, tuple[Point, ...]]
MAIN_SWEEP = "tables"  # the configuration's sweep, and the folder of its tables
IDEAL_SWEEP = "ideal"  # the same with storage that costs nothing


@dataclass(frozen=True)
class CalibrationPlan:
    """The plan of a calibration: its parameters, points and probes.

    Parameters
    ----------
    name : str
        Name in the configuration.
    scenario : Scenario
        The scenario whose runs are fitted.
    points : tuple of Point
        The points of these runs.
    probed_n_osts : tuple of int
        OST counts on which the storage is probed.
    parameters : tuple of str or None
        Keys of the system's devices that are fitted; None: those that the data can
        tell.
    tries_structures : bool
        Whether structures of the GFS are tried, and observed places of files used.
    """

    name: str
    scenario: Scenario
    points: tuple[Point, ...]
    probed_n_osts: tuple[int, ...]
    parameters: tuple[str, ...] | None
    tries_structures: bool = True

    @property
    def calibrated_percent(self) -> tuple[int, ...]:
        """Return the cache rates of the fitted runs."""
        return tuple(sorted({point.cache_rate_percent for point in self.points}))
