"""What a scenario's measurements depend on, as a type and as JSON.

`RunDescription` is the contract between the configuration and everything that measures,
simulates or audits a run. `scenario.json` holds one; its hash tells whether finished
runs are of the same settings. `run.json` holds one, too, and what became of the run.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self, TypeVar

from tierscope.core.machine import Machine, Tier
from tierscope.core.scenario import Dataset, Point, Scenario
from tierscope.core.validation import ConfigError

Section = TypeVar("Section")


@dataclass(frozen=True)
class Training:
    """How the training reads: section `training` of the configuration.

    Parameters
    ----------
    epochs : int
        Epochs of a run.
    shuffle : {"global", "local"}
        Whether files change their process from epoch to epoch.
    seed : int
        Seed of all random numbers.
    compute_time_s : float
        Time that a step computes.
    """

    epochs: int
    shuffle: str
    seed: int
    compute_time_s: float


@dataclass(frozen=True)
class LoaderSettings:
    """How a loader reads: section `loader` of the configuration.

    Parameters
    ----------
    read_threads : int
        Threads of a process that read.
    prefetch_batches : int
        Batches that a loader may hold.
    buffer_bytes : int
        Largest read call; 0 for whole files.
    """

    read_threads: int
    prefetch_batches: int
    buffer_bytes: int


@dataclass(frozen=True)
class LmdbSettings:
    """How a loader of LMDB files reads (`tierscope.data.lmdb.settings`).

    Parameters
    ----------
    order : {"blocks", "records"}
        What the shuffle deals: blocks of records, or records.
    records_per_commit : int
        Records of a transaction when the file is written.
    coalesced_bytes : int
        Size that a coalesced read has at least.
    stagger_size : int
        Readers that read at the same time where they take turns.
    fault_bytes : int
        Bytes that a page fault brings.
    optimisations : sequence of str
        Those of LMDBIO that are on.
    block_records : int
        Contiguous records that are shuffled as one.
    steps_per_fetch : int
        Steps that are read at once.
    """

    order: str
    records_per_commit: int
    coalesced_bytes: int
    stagger_size: int
    fault_bytes: int
    optimisations: Sequence[str]
    block_records: int
    steps_per_fetch: int


@dataclass(frozen=True, kw_only=True)
class RunDescription:
    """All that the measurements of a scenario depend on.

    Parameters
    ----------
    source : {"measured", "emulated", "simulated"}
        What the numbers are.
    system : Machine
        Where the processes run, and the tiers that they read.
    dataset : Dataset
        What they read.
    scenario : Scenario
        Without improvements and number of nodes, which `system` has.
    training : Training
        How often and in which order.
    loader : LoaderSettings
        With which buffers and threads.
    runtime : str
        The Darshan runtime: ``auto``, ``builtin`` or a path.
    policy_options : mapping
        The options of the scenario's policy; empty where it has none.
    lmdb : LmdbSettings, optional
        Where the samples are records of one LMDB file.
    """

    source: str
    system: Machine
    dataset: Dataset
    scenario: Scenario
    training: Training
    loader: LoaderSettings
    runtime: str
    policy_options: Mapping[str, Any] = field(default_factory=dict)
    lmdb: LmdbSettings | None = None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the description that `as_json` has written.

        Raises
        ------
        ConfigError
            If a section or a key is missing or unknown.
        """
        return cls(**_sections(content))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Return the description that a file holds.

        Raises
        ------
        ConfigError
            If the file is not JSON, or a section or a key is missing or unknown.
        """
        try:
            return cls.from_json(json.loads(Path(path).read_text()))
        except ValueError as error:  # also of the JSON
            raise ConfigError(f"{path}: {error}") from error

    def as_json(self) -> dict[str, Any]:
        """Return the content of `scenario.json`, ready for JSON."""
        content = {
            "source": self.source,
            "system": _machine_json(self.system),
            "dataset": asdict(self.dataset),
            "scenario": self.scenario.keys,
            "training": asdict(self.training),
            "loader": asdict(self.loader),
            "darshan": {"runtime": self.runtime},
        }
        if self.policy_options:
            content["policy"] = dict(self.policy_options)
        if self.lmdb:
            content["lmdb"] = asdict(self.lmdb)
        return content

    @property
    def hash(self) -> str:
        """Return a short hash, equal for equal content."""
        return content_hash(self.as_json())


@dataclass(frozen=True, kw_only=True)
class Run(RunDescription):
    """A run: what it depends on, its point, and what its `run.json` says besides.

    Parameters
    ----------
    point : Point
        Cache rate and repetition.
    n_processes : int
        MPI processes that took part.
    tier_roots : mapping of str to sequence of str
        Folders of each tier, as the processes named them.
    background_roots, peer_roots : mapping of str to sequence of str
        Folders under whose names copies and servers opened files, where there are any.
    placement : sequence of mapping
        What each node reports of its copies.
    stage_in_time_s : float, optional
        Time of the stage-in of an ad hoc file system.
    database : mapping, optional
        How the LMDB file was written (`tierscope.data.lmdb.layout.Provenance`).
    emulation : mapping, optional
        The emulated devices, and what they counted.
    """

    point: Point
    n_processes: int
    tier_roots: Mapping[str, Sequence[str]]
    background_roots: Mapping[str, Sequence[str]] = field(default_factory=dict)
    peer_roots: Mapping[str, Sequence[str]] = field(default_factory=dict)
    placement: Sequence[Mapping[str, Any]] = ()
    stage_in_time_s: float | None = None
    database: Mapping[str, Any] | None = None
    emulation: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the run that a `run.json` describes; what it says besides is left out.

        Raises
        ------
        ConfigError
            If something is missing.
        """
        own = {one.name for one in fields(cls)} - {
            one.name for one in fields(RunDescription)
        }
        further = {name: content[name] for name in own if name in content}
        if missing := [name for name in _OF_RUNS if name not in further]:
            raise ConfigError(f"missing key {missing[0]}")
        further["point"] = Point(**content["point"])
        return cls(**_sections(content), **further)


_OF_RUNS = ("point", "n_processes", "tier_roots")


@dataclass(frozen=True, kw_only=True)
class ProbeDescription:
    """All that probes of the storage depend on.

    Parameters
    ----------
    source, system, dataset
        As of `RunDescription`.
    n_osts : int
        OSTs over which the dataset is spread.
    buffer_bytes : int
        Largest read call; 0 for whole files.
    """

    source: str
    system: Machine
    dataset: Dataset
    n_osts: int
    buffer_bytes: int

    @classmethod
    def of(cls, run: RunDescription) -> Self:
        """Return the probes that fit a scenario's runs."""
        return cls(
            source=run.source,
            system=run.system,
            dataset=run.dataset,
            n_osts=run.scenario.n_osts,
            buffer_bytes=run.loader.buffer_bytes,
        )

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Return the description that a file holds.

        Raises
        ------
        ConfigError
            If the file is not JSON, or a section or a key is missing or unknown.
        """
        try:
            content = json.loads(Path(path).read_text())
            return cls(
                source=_section(content, "source"),
                system=_machine(_section(content, "system")),
                dataset=_built(Dataset, content, "dataset"),
                n_osts=_section(content, "scenario")["n_osts"],
                buffer_bytes=_section(content, "loader")["buffer_bytes"],
            )
        except ValueError as error:
            raise ConfigError(f"{path}: {error}") from error

    def as_json(self) -> dict[str, Any]:
        """Return the content of the file, ready for JSON."""
        return {
            "source": self.source,
            "system": _machine_json(self.system),
            "dataset": asdict(self.dataset),
            "scenario": {"n_osts": self.n_osts},
            "loader": {"buffer_bytes": self.buffer_bytes},
        }

    @property
    def hash(self) -> str:
        """Return a short hash, equal for equal content."""
        return content_hash(self.as_json())


def content_hash(content: Mapping[str, Any]) -> str:
    """Return a short hash of what JSON holds, equal for equal content."""
    in_file = json.loads(json.dumps(content))  # where all keys are texts
    text = json.dumps(in_file, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def difference_words(
    old: Mapping[str, Any], new: Mapping[str, Any], most: int = 4
) -> str:
    """Return in a line what differs between two descriptions, the first of it."""
    lines = differences(old, new)
    more = [f"{len(lines) - most} more"] if len(lines) > most else []
    return "; ".join(lines[:most] + more)


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Return what differs among the keys of `new`: ``training.seed 1 (now 2)``."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return [] if old == new else [f"{path} {old!r} (now {new!r})"]
    lines = []
    for key, value in new.items():
        where = f"{path}.{key}".lstrip(".")
        if key not in old and value is not None:
            lines.append(f"without {where} (now {value!r})")
        else:
            lines += differences(old.get(key), value, where)
    return lines


def _sections(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `RunDescription` from its JSON."""
    return {
        "source": _section(content, "source"),
        "system": _machine(_section(content, "system")),
        "dataset": _built(Dataset, content, "dataset"),
        "scenario": _built(Scenario, content, "scenario"),
        "training": _built(Training, content, "training"),
        "loader": _built(LoaderSettings, content, "loader"),
        "runtime": _section(content, "darshan")["runtime"],
        "policy_options": content.get("policy", {}),
        "lmdb": _built(LmdbSettings, content, "lmdb") if "lmdb" in content else None,
    }


def _section(content: Mapping[str, Any], name: str) -> Any:
    """Return a section that must be there."""
    if name not in content:
        raise ConfigError(f"missing key {name}")
    return content[name]


def _built(
    kind: type[Section], content: Mapping[str, Any], name: str, **further: Any
) -> Section:
    """Return a section as its type."""
    try:
        return kind(**_section(content, name), **further)
    except TypeError as error:
        raise ConfigError(f"{name}: {str(error).partition('() ')[2]}") from None


def _machine(content: Mapping[str, Any]) -> Machine:
    """Return the machine that `_machine_json` has written."""
    tiers = {name: _built(Tier, content, name) for name in ("gfs", "lfs")}
    return _built(Machine, {"system": {**content, **tiers}}, "system")


def _machine_json(machine: Machine) -> dict[str, Any]:
    """Return a machine ready for JSON; without improvements if there are none."""
    values = {one.name: getattr(machine, one.name) for one in fields(Machine)}
    values |= {name: asdict(tier) for name, tier in machine.tiers.items()}
    if not machine.improvements:
        del values["improvements"]
    return values
