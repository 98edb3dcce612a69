"""The settings that determine a scenario's measurements, as a type and as JSON.

`RunDescription` is the contract between the configuration and the code that measures,
simulates or audits a run. `scenario.json` holds one; its hash shows whether finished
runs have the same settings. `run.json` holds one as well, with facts about the run.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from tierscope.core.given.keys import Seconds, from_to, rules
from tierscope.core.given.secrets import command_words
from tierscope.core.machine import Machine, Tier
from tierscope.core.scenario import Dataset, Point, Scenario, UserDataset
from tierscope.core.validation import ConfigError, read_json

if TYPE_CHECKING:
    import numpy as np

Section = TypeVar("Section")

EPOCH, STEP = "epoch", "step"  # where processes wait for each other
PYTORCH = "pytorch"  # the loader whose settings are workers


@dataclass(frozen=True)
class ComputeTime:
    """Compute time of a step.

    Parameters
    ----------
    warmup_s : tuple of float
        What the first step of each epoch takes longer, of a program of the user.
    """

    distribution: Annotated[
        Literal["constant", "normal", "lognormal"],
        "How the time varies from step to step. It is drawn from seed, repetition, "
        "epoch, process and step; a time below 0 counts as 0.",
    ] = "constant"
    mean_s: Annotated[Seconds, "Mean time of a step, in seconds."] = 0.0
    stdev_s: Annotated[Seconds, "Standard deviation, in seconds."] = 0.0
    warmup_s: tuple[float, ...] = ()

    @property
    def is_random(self) -> bool:
        """Return whether steps differ by chance."""
        return self.distribution != "constant" and self.stdev_s > 0

    @property
    def varies(self) -> bool:
        """Return whether steps differ."""
        return self.is_random or any(self.warmup_s)


@dataclass(frozen=True)
class FileSizes:
    """How the sizes of a dataset's files vary.

    They are normally distributed, as DLIO draws them, and at least `least_bytes`. So
    many files have each of `N_SIZES` sizes.

    Parameters
    ----------
    mean_bytes, deviation_bytes : float
        Mean and standard deviation of the normal distribution.
    least_bytes : int
        Smallest size; it replaces smaller ones.
    """

    N_SIZES: ClassVar[int] = 256

    mean_bytes: float
    deviation_bytes: float
    least_bytes: int = 1

    def values(self) -> list[int]:
        """Return the sizes in bytes, ascending: the middles of equally likely parts."""
        parts = [(i + 0.5) / self.N_SIZES for i in range(self.N_SIZES)]
        drawn = NormalDist(self.mean_bytes, self.deviation_bytes)
        return [max(round(drawn.inv_cdf(one)), self.least_bytes) for one in parts]


@dataclass(frozen=True)
class Training:
    """Settings of the training: section `training` of the configuration.

    A `ComputeTime` is held as in the file: a mapping.
    """

    epochs: Annotated[int, from_to(1, 100_000), "Passes over the dataset in a run."]
    shuffle: Annotated[
        Literal["global", "local"],
        "`global` gives the files to other processes every epoch, `local` only "
        "reorders each process's own part.",
    ]
    seed: Annotated[
        int,
        from_to(0, 2**63 - 1),
        "Seed of the shuffle and of the choice of pinned files.",
    ]
    compute_time_s: Annotated[
        float | ComputeTime,
        from_to(0, 86400),
        rules(
            expected="a number from 0 to 86400, or "
            "{distribution: normal, mean_s: 0.3, stdev_s: 0.05}"
        ),
        "Time of a training step, in seconds, or its distribution; on real tiers a "
        "process sleeps for this time.",
    ]
    synchronise: Annotated[
        Literal["epoch", "step"],
        "Where processes wait for each other: at the end of an epoch, or of each step "
        "as with an all-reduce of gradients. In a step those meet that have a batch "
        "for it.",
    ] = EPOCH
    cold: Annotated[
        bool,
        "On real tiers, whether files leave the nodes' page cache after they are "
        "written and between epochs. As root, names and inodes leave it, too.",
    ] = True

    @property
    def compute_time(self) -> ComputeTime:
        """Return the compute time of a step."""
        if isinstance(self.compute_time_s, Mapping):
            fields = dict(self.compute_time_s)
            warmup_s = tuple(fields.pop("warmup_s", ()))  # a list in a file
            return ComputeTime(**fields, warmup_s=warmup_s)
        return ComputeTime(mean_s=self.compute_time_s)

    @property
    def computes(self) -> bool:
        """Return whether any step computes, so that it may hide I/O time."""
        return self.compute_time.mean_s > 0 or self.compute_time.is_random

    @property
    def in_steps(self) -> bool:
        """Return whether a process may have to wait for others in an epoch."""
        return self.synchronise == STEP


@dataclass(frozen=True)
class LoaderSettings:
    """Settings of a loader: of section `loader` of the configuration.

    A loader depends on some of them. With a buffer of 0 bytes it reads whole files.
    """

    read_threads: Annotated[
        int,
        from_to(1, 1024),
        "Files that a process reads at a time; above 1 the I/O time is the sum over "
        "threads.",
    ] = 1
    prefetch_batches: Annotated[
        int,
        from_to(0, 100_000),
        "Batches read ahead; 0 switches prefetching off. `pytorch` has `workers` and "
        "`prefetch_factor` in place of it.",
    ] = 0
    buffer_bytes: Annotated[
        int, from_to(0, 64 << 30), "Read buffer of a file in bytes."
    ] = 0
    workers: Annotated[
        int,
        from_to(0, 1024),
        "`pytorch` only: worker processes of each process (`num_workers` of PyTorch's "
        "`DataLoader`); with 0 the process itself reads. Its I/O time is the sum over "
        "its workers.",
    ] = 0
    prefetch_factor: Annotated[
        int,
        from_to(1, 100_000),
        "`pytorch` only: batches that each worker may read before they are received.",
    ] = 0

    def used_by(self, loader: str) -> dict[str, int]:
        """Return the settings that a loader depends on."""
        unused = {"workers", "prefetch_factor"}
        if loader == PYTORCH:
            unused = {"read_threads", "prefetch_batches"}
        return {name: one for name, one in asdict(self).items() if name not in unused}


@dataclass(frozen=True)
class LmdbSettings:
    """Settings of a loader of LMDB files (`tierscope.data.lmdb.settings`).

    Parameters
    ----------
    optimisations : sequence of str
        Enabled optimisations of LMDBIO.
    block_records : int
        Contiguous records that are shuffled as one block.
    steps_per_fetch : int
        Steps that one fetch reads.
    """

    order: Annotated[
        Literal["blocks", "records"],
        "`blocks` is LMDBIO's order: contiguous blocks, each as large as a coalesced "
        "read, are distributed to the nodes. `records` is the order in which the other "
        "loaders read their files with the same seed.",
    ]
    records_per_commit: Annotated[
        int,
        from_to(1, 100_000),
        "Records per transaction when the file is written.",
    ]
    coalesced_bytes: Annotated[
        int,
        from_to(1, 1 << 40),
        "Least size of a coalesced read of a node, in bytes.",
    ]
    stagger_size: Annotated[
        int,
        from_to(1, 1_000_000),
        "Readers that read at the same time if readers take turns.",
    ]
    fault_bytes: Annotated[
        int,
        from_to(4096, 1 << 30),
        "Emulated tiers only: bytes that a page fault brings into memory. The device "
        "charges one read of this size for a fault, and a read of one page for each "
        "page of the tree. Linux reads ahead 128 KiB by default.",
    ]
    optimisations: Sequence[str]
    block_records: int
    steps_per_fetch: int


@dataclass(frozen=True)
class ProgramSettings:
    """A program of the user: of section `loader` of the configuration.

    If `command` is null there, our loaders read, and none of these is made.
    """

    command: Annotated[
        Sequence[
            Annotated[str, rules(pattern=r"^[^\x00]*\Z", expected="a text without NUL")]
        ]
        | None,
        rules(minItems=1),
        "A program of your own that reads the dataset in place of our loaders, such as "
        '`[python, train.py, --data, "{dataset}"]`; `{dataset}` stands for the path of '
        "the dataset. The sweep then has loader `program` only "
        "([docs/programs.md](../docs/programs.md)).",
    ]
    in_place: Annotated[
        bool,
        "Whether the program gets the dataset's real path. By default it gets a "
        "virtual one, so that opens that tierscope cannot redirect fail instead of "
        "reading the GFS.",
    ]

    def virtual_path(self, dataset: str) -> str | None:
        """Return the path that a dataset has for the program; None if it is real."""
        return None if self.in_place else f"/tierscope/{dataset}"

    def out_of_reach_words(self, dataset: str, escaped: Sequence[str]) -> str:
        """Return what found no virtual path, as the end of a line; empty if nothing.

        `escaped` are the programs that it has started and that are not redirected.
        """
        if self.in_place or not escaped:
            return ""
        return (
            f"; {self.virtual_path(dataset)} does not exist for what it started: "
            f"{', '.join(escaped)}. Let these keep their environment and be linked "
            "dynamically; with loader.in_place: true they read the GFS, unseen"
        )


@dataclass(frozen=True)
class ProbedStorage:
    """What the probes of a program's storage have that its modelled runs have not.

    Parameters
    ----------
    dataset : Dataset
        The probed files (`tierscope.storage.probes.choose_files`).
    processes_per_node : int
        Processes that probe; a program may start others.
    processes_per_lfs_server : int
        How many of them share a server of the LFS.
    """

    dataset: Dataset
    processes_per_node: int
    processes_per_lfs_server: int

    def of(self, system: Machine) -> Machine:
        """Return a modelled system with the processes that probe it."""
        lfs = system.devices["lfs"]
        lfs = {**lfs, "processes_per_server": self.processes_per_lfs_server}
        devices = {**system.devices, "lfs": lfs}
        return replace(
            system, processes_per_node=self.processes_per_node, devices=devices
        )


@dataclass(frozen=True, kw_only=True)
class RunDescription:
    """All settings that determine the measurements of a scenario.

    Parameters
    ----------
    source : {"measured", "emulated", "simulated"}
        Source of the numbers.
    system : Machine
        The machine: processes, nodes and tiers.
    dataset : Dataset or UserDataset
        The dataset that is read.
    scenario : Scenario
        The scenario without improvements, number of nodes and whether it is ideal,
        which `system` has.
    training : Training
        Settings of the training.
    loader : LoaderSettings
        Settings of the loader.
    runtime : str
        The Darshan runtime: ``auto``, ``builtin`` or a path.
    policy_options : mapping
        The options of the scenario's policy; empty if it has none.
    lmdb : LmdbSettings, optional
        Settings of LMDB loaders, if samples are records of one LMDB file.
    program : ProgramSettings, optional
        The program, if one of the user reads. Of `training` it depends on seed and
        `cold` only; `training.epochs` is 0, as the program decides.
    probed : ProbedStorage, optional
        Of a program for models, if its storage can be probed.
    servers : ndarray of int, shape (n_files,), optional
        The object server of each file, for models, where it was observed. It is no
        setting, so it is in no JSON.
    """

    source: str
    system: Machine
    dataset: Dataset | UserDataset
    scenario: Scenario
    training: Training
    loader: LoaderSettings
    runtime: str
    policy_options: Mapping[str, Any] = field(default_factory=dict)
    lmdb: LmdbSettings | None = None
    program: ProgramSettings | None = None
    probed: ProbedStorage | None = None
    servers: "np.ndarray | None" = field(default=None, compare=False, repr=False)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the description from the output of `as_json`.

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
            If the file is damaged, or a section or a key is missing or unknown.
        """
        content = read_json(path)
        try:
            return cls.from_json(content)
        except ValueError as error:
            raise ConfigError(f"{path}: {error}") from error

    def as_json(self) -> dict[str, Any]:
        """Return the content of `scenario.json`, ready for JSON."""
        training = asdict(self.training)
        if self.source != "measured":
            del training["cold"]  # only the page cache of real tiers depends on it
        del training["synchronise"]  # as before it could be chosen
        if self.training.in_steps:
            training["synchronise"] = STEP  # the last key, as in finished runs
        content = {
            "source": self.source,
            "system": _machine_json(self.system),
            "dataset": asdict(self.dataset),
            "scenario": self.scenario.keys,
            "training": training,
            "loader": self.loader.used_by(self.scenario.loader),
            "darshan": {"runtime": self.runtime},
        }
        if self.policy_options:
            content["policy"] = dict(self.policy_options)
        if self.lmdb:
            content["lmdb"] = asdict(self.lmdb)
        if self.probed:
            content["probed"] = asdict(self.probed)
        if self.program:
            content["program"] = asdict(self.program)
            content["training"] = {name: training[name] for name in _OF_PROGRAMS}
            del content["loader"]
        return content

    @property
    def reads_by_workers(self) -> bool:
        """Return whether PyTorch's `DataLoader` reads, with or without workers."""
        return self.scenario.loader == PYTORCH

    @property
    def hash(self) -> str:
        """Return a short hash, equal for equal content."""
        return content_hash(self.as_json())


@dataclass(frozen=True, kw_only=True)
class Run(RunDescription):
    """A run: its settings, its point, and other facts of its `run.json`.

    Parameters
    ----------
    point : Point
        Cache rate and repetition.
    n_processes : int
        MPI processes of the run.
    tier_roots : mapping of str to sequence of str
        Folders of each tier, as named by the processes.
    background_roots, peer_roots : mapping of str to sequence of str
        Folders of the aliases of copies and servers, if any.
    placement : sequence of mapping
        Report of each node on its copies.
    stage_in_time_s : float, optional
        Time of the stage-in of an ad hoc file system.
    database : mapping, optional
        How the LMDB file was written (`tierscope.data.lmdb.layout.Provenance`).
    emulation : mapping, optional
        The emulated devices, and their counts.
    page_cache : mapping, optional
        What tells whether reads of real tiers left the page cache.
    sentinel : mapping, optional
        Times of the sentinel's reads before and after the epochs, on one real machine.
    observed : mapping, optional
        What the launch saw of a program of the user.
    tracer : mapping
        Who traced the run.
    machines : sequence of mapping
        What can change the speed of the nodes.
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
    page_cache: Mapping[str, Any] | None = None
    sentinel: Mapping[str, Any] | None = None
    observed: Mapping[str, Any] | None = None
    tracer: Mapping[str, str] = field(default_factory=dict)
    machines: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the run of a `run.json`, without the other facts of the file.

        Raises
        ------
        ConfigError
            If a section or a key is missing.
        """
        own = {one.name for one in fields(cls)} - {
            one.name for one in fields(RunDescription)
        }
        further = {name: content[name] for name in own if name in content}
        if missing := [name for name in _OF_RUNS if name not in further]:
            raise ConfigError(f"missing key {missing[0]}")
        further["point"] = _built(Point, content, "point")
        return cls(**_sections(content), **further)


_OF_RUNS = ("point", "n_processes", "tier_roots")
_OF_PROGRAMS = ("seed", "cold")  # of `training`


@dataclass(frozen=True, kw_only=True)
class ProbeDescription:
    """All settings that determine probes of the storage.

    Parameters
    ----------
    source, system
        As for `RunDescription`.
    dataset : Dataset or UserDataset
        The dataset; one that programs read is the user's, until its files are chosen.
    n_osts : int
        OSTs over which the dataset is spread.
    buffer_bytes : int
        Largest read call; 0 for whole files.
    servers : ndarray of int, shape (n_files,), optional
        As for `RunDescription`, of a dataset on this OST count.
    """

    source: str
    system: Machine
    dataset: Dataset | UserDataset
    n_osts: int
    buffer_bytes: int
    servers: "np.ndarray | None" = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, run: RunDescription) -> Self:
        """Return the description of the probes for a scenario's runs."""
        probed = run.probed
        return cls(
            source=run.source,
            system=probed.of(run.system) if probed else run.system,
            dataset=probed.dataset if probed else run.dataset,
            n_osts=run.scenario.n_osts,
            buffer_bytes=run.loader.buffer_bytes,
            servers=run.servers,
        )

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Return the description that a file holds.

        Raises
        ------
        ConfigError
            If the file is damaged, or a section or a key is missing or unknown.
        """
        content = read_json(path)
        try:
            return cls(
                source=_section(content, "source"),
                system=_machine(_section(content, "system")),
                dataset=_dataset(content),
                n_osts=_key(content, "scenario", "n_osts"),
                buffer_bytes=_key(content, "loader", "buffer_bytes"),
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


def run_keys(description: RunDescription, point: Point) -> dict[str, Any]:
    """Return the key columns of the tables of a run."""
    return {
        "source": description.source,
        "system": description.system.name,
        **description.scenario.keys,
        **asdict(point),
    }


def content_hash(content: Mapping[str, Any]) -> str:
    """Return a short hash of JSON content, equal for equal content."""
    in_file = json.loads(json.dumps(content))  # converts all keys to text
    text = json.dumps(in_file, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def difference_words(
    old: Mapping[str, Any], new: Mapping[str, Any], most: int = 4
) -> str:
    """Return the first differences between two descriptions in one line."""
    lines = differences(old, new)
    more = [f"{len(lines) - most} more"] if len(lines) > most else []
    return "; ".join(lines[:most] + more)


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Return the differences in keys of `new`, such as ``training.seed 1 (now 2)``."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return [] if old == new else [f"{path} {_shown(old)} (now {_shown(new)})"]
    lines = []
    for key, value in new.items():
        where = f"{path}.{key}".lstrip(".")
        if key not in old and value is not None:
            lines.append(f"no {where} (now {_shown(value)})")
        else:
            lines += differences(old.get(key), value, where)
    return lines


def _shown(value: Any) -> str:
    """Return a value in words; a list of texts is a command."""
    is_command = isinstance(value, list | tuple) and set(map(type, value)) == {str}
    return command_words(value) if is_command else repr(value)


def _sections(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `RunDescription` from its JSON."""
    return {
        "source": _section(content, "source"),
        "system": _machine(_section(content, "system")),
        "dataset": _dataset(content),
        "scenario": _built(Scenario, content, "scenario"),
        "runtime": _key(content, "darshan", "runtime"),
        "policy_options": content.get("policy", {}),
        "lmdb": _built(LmdbSettings, content, "lmdb") if "lmdb" in content else None,
        "probed": _probed(content["probed"]) if "probed" in content else None,
        **_training_sections(content),
    }


def _dataset(content: Mapping[str, Any]) -> Dataset | UserDataset:
    """Return a generated dataset, or one that the user has."""
    has_path = "path" in content.get("dataset", {})
    return _built(UserDataset if has_path else Dataset, content, "dataset")


def _probed(content: Mapping[str, Any]) -> ProbedStorage:
    """Return what the storage of a program is probed with."""
    further = {**content, "dataset": _built(Dataset, content, "dataset")}
    return _built(ProbedStorage, {"probed": further}, "probed")


def _training_sections(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return who trains and how, as fields of `RunDescription`."""
    if "program" in content:
        return {
            "program": _built(ProgramSettings, content, "program"),
            **program_training(**_section(content, "training")),
        }
    return {
        "training": _built(Training, content, "training"),
        "loader": _built(LoaderSettings, content, "loader"),
    }


def program_training(seed: int, cold: bool) -> dict[str, Any]:
    """Return the fields `training` and `loader` of a description with a program."""
    training = Training(epochs=0, shuffle="", seed=seed, compute_time_s=0, cold=cold)
    return {"training": training, "loader": LoaderSettings(1, 0, 0)}


def _key(content: Mapping[str, Any], section: str, name: str) -> Any:
    """Return a key of a section, both of which must exist."""
    if name not in _section(content, section):
        raise ConfigError(f"{section}: missing key {name}")
    return content[section][name]


def _section(content: Mapping[str, Any], name: str) -> Any:
    """Return a section that must exist."""
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
    """Return the machine from the output of `_machine_json`."""
    tiers = {name: _built(Tier, content, name) for name in ("gfs", "lfs")}
    return _built(Machine, {"system": {**content, **tiers}}, "system")


def _machine_json(machine: Machine) -> dict[str, Any]:
    """Return a machine ready for JSON, without changes that it does not have."""
    values = {one.name: getattr(machine, one.name) for one in fields(Machine)}
    values |= {name: asdict(tier) for name, tier in machine.tiers.items()}
    if not machine.improvements:
        del values["improvements"]
    if not machine.is_ideal:
        del values["is_ideal"]
    return values
