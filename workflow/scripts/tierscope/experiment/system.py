"""The system: a machine with two tiers, read from its file and checked."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from tierscope.core.given.keys import Rate, Seconds, above, from_to, rules
from tierscope.core.machine import Machine, Tier
from tierscope.core.scenario import IDEAL_SUFFIX, improvement_suffix, nodes_suffix
from tierscope.core.validation import ConfigError, check, read_yaml
from tierscope.storage.emulated.library import emulated_gfs

_Scheduler = Literal["slurm", "pjm"]
SCHEDULERS = get_args(_Scheduler)
_NotEmpty = Annotated[str, rules(minLength=1)]
_GIB = above(0, 1_000_000_000)


@dataclass(frozen=True)
class Estimates:
    """The slowest rates for which a job's time limit must suffice."""

    start_s: Annotated[
        Seconds,
        "Time from job start to first point (setup, MPI, loader), in seconds. Default "
        "300.",
    ] = 300
    lfs_fill_bytes_per_s: Annotated[
        Rate, "Filling of a node's LFS, in bytes per second. Default 200000000."
    ] = 200e6
    lfs_fill_files_per_s: Annotated[
        Rate, "Filling of a node's LFS, in files per second. Default 500."
    ] = 500
    read_bytes_per_s: Annotated[
        Rate,
        "Reading by all processes together, in bytes per second. Default 500000000.",
    ] = 500e6
    read_files_per_s: Annotated[
        Rate, "Reading by all processes together, in files per second. Default 2000."
    ] = 2000
    generate_bytes_per_s: Annotated[
        Rate,
        "Generation of a dataset on the GFS, in bytes per second. Default 100000000.",
    ] = 100e6
    generate_files_per_s: Annotated[
        Rate, "Generation of a dataset on the GFS, in files per second. Default 200."
    ] = 200


@dataclass(frozen=True)
class JobSettings:
    """Settings of a site's jobs: the section `job` of a system file.

    Parameters
    ----------
    resources : mapping
        Further resources by rule, named as the executor plugin has them; texts may
        hold ``{nodes}``, ``{processes}``, ``{processes_per_node}`` and, for the
        benchmark, ``{lfs_mib}``.
    """

    scheduler: Annotated[
        _Scheduler | None,
        "Scheduler for which this section is written; a profile for another one is "
        "refused. Default none: jobs run on this machine.",
    ] = None
    launcher: Annotated[
        _NotEmpty,
        "Command that starts the processes; `-n PROCESSES` and the program follow. It "
        "may hold `{nodes}`, `{processes_per_node}` and `{log}` (the job's log file "
        "without suffix). Default `mpiexec`. It is part of a shell line: the author of "
        "this file can run commands as you.",
    ] = "mpiexec"
    setup: Annotated[
        Sequence[_NotEmpty],
        "Shell lines (bash) that run before the launcher, such as `module load "
        "darshan-runtime`; the first line that fails ends the job. The author of this "
        "file can run commands as you. Default none.",
    ] = ()
    darshan: Annotated[
        _NotEmpty,
        "Darshan runtime if the configuration's `darshan.runtime` is `auto`: path of "
        "`libdarshan.so` (`$VARIABLE` is expanded after the setup), `auto` (the one "
        "that is found after the setup, otherwise builtin) or `builtin`. Default "
        "`auto`.",
    ] = "auto"
    retries: Annotated[
        int,
        from_to(0, 1000),
        "How often a failed benchmark job is tried again. Each retry adds the time "
        "limit of the first try once more. Default 0.",
    ] = 0
    lfs_gib_per_node: Annotated[
        float | None,
        _GIB,
        "Largest local storage that a job gets on a node, in GiB; checked before "
        "anything is submitted. Default no limit.",
    ] = None
    memory_gib_per_node: Annotated[
        float | None,
        _GIB,
        "Memory of a node, in GiB. At the start tierscope says whether a dataset "
        "fits into the memory of the nodes, and so into their page caches. Default "
        "the memory of this machine, or unknown with a scheduler.",
    ] = None
    lfs_reserve_percent: Annotated[
        float,
        from_to(0, 1_000_000),
        "Local storage requested beyond the size of the files, in percent. Default 10.",
    ] = 10
    lfs_in_memory: Annotated[
        bool, "Whether the LFS uses the job's memory, as a tmpfs does. Default false."
    ] = False
    estimates: Annotated[
        Estimates,
        "The slowest rates that fit into the time limit of a job; the scheduler kills "
        "a slower job.",
    ] = field(default_factory=Estimates)
    resources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class System(Machine):
    """A machine and its launch settings; no run depends on the latter.

    Parameters
    ----------
    description : str
        Description of the system.
    points_per_launch : {1, "all"}
        How many points of a scenario a launch runs.
    devices_of : str, optional
        Another system whose devices this one uses.
    network_interface : str, optional
        Interface for reads from other nodes; runs of such policies depend on it.
    ideal_root : str, optional
        Directory in memory that holds the dataset in ideal runs.
    job : JobSettings
        Job settings of the site.
    """

    description: str
    points_per_launch: int | str
    devices_of: str | None = None
    network_interface: str | None = None
    ideal_root: str | None = None
    job: JobSettings = field(default_factory=JobSettings)

    @property
    def machine(self) -> Machine:
        """Return the settings that determine measurements on the system."""
        names = [one.name for one in fields(Machine)]
        return Machine(**{name: getattr(self, name) for name in names})

    @property
    def modelled(self) -> str:
        """Name of the system whose devices this one has; its own if they are real."""
        if self.source == "emulated":
            return self.emulation["model_of"]
        return self.devices_of or self.name

    def n_object_servers(self, n_osts: int) -> int | None:
        """Return the number of servers of an emulated GFS, None for a real one."""
        if "gfs" not in self.emulated_tiers:
            return None
        return emulated_gfs(self, n_osts).n_object_servers

    def improved(self, improvements: Mapping[str, int]) -> "System":
        """Return the system with faster devices, named after them."""
        if not improvements:
            return self
        name = self.name + improvement_suffix(improvements)
        return replace(self, name=name, improvements=dict(improvements))

    def on_nodes(self, n_nodes: int | None) -> "System":
        """Return the system with its processes on so many nodes, named after them.

        The number of nodes per emulated LFS server stays the same.
        """
        if n_nodes in (None, self.n_nodes):
            return self
        emulation = self.emulation
        if self.source == "emulated":
            n_sharing = emulation["processes_per_lfs_server"]
            if n_sharing < self.n_processes:
                n_sharing = n_sharing * self.n_nodes // n_nodes
                emulation = {**emulation, "processes_per_lfs_server": n_sharing}
        return replace(
            self,
            name=self.name + nodes_suffix(n_nodes),
            n_nodes=n_nodes,
            processes_per_node=self.n_processes // n_nodes,
            emulation=emulation,
        )

    def ideal(self) -> "System":
        """Return the system whose storage costs nothing, named so.

        Emulated and simulated devices take no time. The LFS of real tiers is in the
        memory that a job asks for.
        """
        system = replace(self, name=self.name + IDEAL_SUFFIX, is_ideal=True)
        if self.source == "emulated" or self.ideal_root is None:
            return system
        lfs = Tier(name="lfs", kind="directory", root=self.ideal_root)
        job = replace(self.job, lfs_in_memory=True, lfs_gib_per_node=None)
        return replace(system, lfs=lfs, job=job)

    def check_executor(self, executor: str) -> None:
        """Refuse any scheduler other than the system's.

        Raises
        ------
        ConfigError
            With the system's name and how to choose another system.
        """
        if executor in SCHEDULERS and executor != self.job.scheduler:
            raise ConfigError(
                f"system {self.name}: is for {self.job.scheduler or 'one machine'} "
                f"(job.scheduler), got a profile for {executor}; choose another system "
                "(key system of your configuration, or --config system=NAME)"
            )

    @property
    def is_one_machine(self) -> bool:
        """Return whether all processes run on the machine where Snakemake starts."""
        return self.job.scheduler is None and (self.virtual_nodes or self.n_nodes == 1)

    @property
    def source(self) -> str:
        """Return the source of the system's numbers: ``measured`` or ``emulated``."""
        kinds = {self.gfs.kind, self.lfs.kind}
        return "emulated" if "emulated" in kinds else "measured"


def read_system(
    name: str, *folders: str | Path, roots: Mapping[str, str | None] | None = None
) -> System:
    """Read and check ``<name>.yaml`` of the first of the folders that has it.

    Parameters
    ----------
    name : str
        Name of the system.
    *folders : path
        Folders with system files; earlier ones take precedence.
    roots : mapping of str to str, optional
        Directories of tiers, and of ideal runs, that replace those in the file.

    Raises
    ------
    ConfigError
        One line that names the file, the value and what was expected.
    """
    path = _system_file(name, folders)
    if path is None:
        known = sorted({p.stem for one in folders for p in Path(one).glob("*.yaml")})
        raise ConfigError(f"system: got {name!r}, expected one of {', '.join(known)}")
    values = read_yaml(path)
    check(values, "system", str(path))
    for tier in ("gfs", "lfs"):
        root = (roots or {}).get(tier) or values[tier]["root"]
        values[tier] = Tier(name=tier, **{**values[tier], "root": root})
    in_file = values.pop("ideal", {}).get("root")
    values["ideal_root"] = (roots or {}).get("ideal") or in_file
    job = values.get("job", {})
    estimates = Estimates(**job.get("estimates", {}))
    values["job"] = JobSettings(**{**job, "estimates": estimates})
    if model := values.get("devices_of"):
        values["devices"] = _devices_of_nodes(model, values, path, folders)
    system = System(name=name, **values)
    if system.lfs.kind == "lustre":
        raise ConfigError(
            f"{path}: lfs.kind: got 'lustre', expected directory or emulated"
        )
    if system.gfs.kind == "lustre" and system.gfs.n_osts is None:
        raise ConfigError(f"{path}: gfs: missing key n_osts, needed by kind lustre")
    for count, osts in (system.gfs.pools or {}).items():
        if isinstance(osts, list) and str(len(osts)) != str(count):
            raise ConfigError(
                f"{path}: gfs.pools.{count}: got {osts}, expected {count} OST indices"
            )
    _check_apart(system, path)
    _check_sources(system.devices or {}, path)
    if system.source == "emulated":
        if system.emulation is None:
            raise ConfigError(
                f"{path}: top level: missing key emulation, needed by kind emulated"
            )
        devices = _devices_of(system.emulation["model_of"], path, folders)
        emulation = _emulation_of(system, devices, path)
        system = replace(system, devices=devices, emulation=emulation)
        n_sharing = emulation["processes_per_lfs_server"]
        if n_sharing % system.processes_per_node and n_sharing < system.n_processes:
            raise ConfigError(
                f"{path}: emulation.processes_per_lfs_server: got {n_sharing}, "
                f"expected a multiple of processes_per_node "
                f"{system.processes_per_node}: a node has one LFS"
            )
    return system


def _check_apart(system: System, origin: Path) -> None:
    """Refuse roots of which one holds another."""
    roots = {"gfs": system.gfs.root, "lfs": system.lfs.root, "ideal": system.ideal_root}
    given = [(name, root) for name, root in roots.items() if root is not None]
    for (first, one), (second, other) in itertools.combinations(given, 2):
        a, b = (f"{root.rstrip('/')}/" for root in (one, other))
        if a.startswith(b) or b.startswith(a):
            raise ConfigError(
                f"{origin}: {second}.root: got {other!r}, expected a directory apart "
                f"from {first}.root {one!r}"
            )


def _system_file(name: str, folders: Sequence[str | Path]) -> Path | None:
    """Return the file of a system, None if no folder has it."""
    files = (Path(folder) / f"{name}.yaml" for folder in folders)
    return next((file for file in files if file.exists()), None)


def _emulation_of(
    system: System, devices: Mapping[str, Any], origin: Path
) -> dict[str, Any]:
    """Return the emulation with its defaults; refuse one that does not fit."""
    for tier in (system.gfs, system.lfs):
        if tier.kind != "emulated":
            raise ConfigError(
                f"{origin}: {tier.name}.kind: got {tier.kind}, expected emulated as "
                "the other tier: a real tier cannot run in virtual time"
            )
    n_sharing = devices["lfs"]["processes_per_server"]
    return {"processes_per_lfs_server": n_sharing, **system.emulation}


def _check_sources(devices: Mapping[str, Any], origin: Path) -> None:
    """Refuse the source of a missing number."""
    for part, words in devices.get("sources", {}).items():
        present = devices.get(part, {})
        if unknown := sorted(set(words) - set(present)):
            raise ConfigError(
                f"{origin}: devices.sources.{part}: got unknown key "
                f"{', '.join(unknown)}, expected some of {', '.join(present) or '-'}"
            )


def _devices_of_nodes(
    model: str,
    values: Mapping[str, Any],
    origin: Path,
    folders: Sequence[str | Path],
) -> dict[str, Any]:
    """Return a system's devices for another job, with as many nodes per LFS server."""
    there = read_system(model, *folders)
    if there.devices is None or there.emulation is not None or "devices" in values:
        raise ConfigError(
            f"{origin}: devices_of: got {model!r}, expected a system with devices of "
            "its own, and no devices in this file"
        )
    n_sharing = there.devices["lfs"]["processes_per_server"]
    n_sharing *= values["processes_per_node"] / there.processes_per_node
    if n_sharing != int(n_sharing):
        raise ConfigError(
            f"{origin}: processes_per_node: got {values['processes_per_node']}, "
            f"expected a number that gives each LFS server of system {model} whole "
            "processes"
        )
    lfs = {**there.devices["lfs"], "processes_per_server": int(n_sharing)}
    return {**there.devices, "lfs": lfs}


def _devices_of(
    model: str, origin: Path, folders: Sequence[str | Path]
) -> dict[str, Any]:
    """Return the devices of the system that another one emulates."""
    path = _system_file(model, folders)
    values = {} if path is None else read_yaml(path)
    if path is not None:
        check(values, "system", str(path))
    if "devices" not in values:
        raise ConfigError(
            f"{origin}: emulation.model_of: got {model!r}, expected a system with "
            "devices"
        )
    n_processes = values["n_nodes"] * values["processes_per_node"]
    devices = values["devices"]
    parts = ("gfs", "lfs", "network", "processor")
    emulated = {part: devices[part] for part in parts if part in devices}
    per_node = values["processes_per_node"]
    return dict(emulated, n_processes=n_processes, processes_per_node=per_node)
