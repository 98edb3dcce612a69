"""Configuration: checked once at the door, then frozen parameter objects.

A wrong key, type, unit or range raises a ConfigError of one line that names the key
path, the value and what was expected.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from tierscope.io_class import IOClass
from tierscope.job import (
    RESERVED,
    BenchmarkJob,
    Estimates,
    JobError,
    JobSettings,
    site_resources,
)
from tierscope.job import launcher as launcher_of
from tierscope.lmdb_settings import LOADERS as LMDB_LOADERS
from tierscope.lmdb_settings import lmdb_description
from tierscope.model.network import ModelError, network_of
from tierscope.policies import DYNAMIC, PEERS, policy_options
from tierscope.tables import MODEL
from tierscope.tiers import Tier
from tierscope.tiers.emulated import emulated_gfs
from tierscope.tiers.scale import modelled_machine, scale_gfs, scale_lfs

SCHEMAS = Path(__file__).parents[2] / "schemas"
SCHEDULERS = ("slurm", "pjm")
UNKNOWN_KEY, MISSING_KEY = "additionalProperties", "required"
# Of a system: no run depends on them.
UNMEASURED = ("description", "points_per_launch", "job", "devices_of")
# The four-dimensional grid of the what-if search takes memory and minutes beyond it.
MAX_GRID_STEPS = 100


def _is_integer(_: object, value: object) -> bool:
    """Return whether a value is written as an integer: 3, not 3.0 or true."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_: object, value: object) -> bool:
    """Return whether a value is a finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": _is_integer, "number": _is_number}
    ),
)


class ConfigError(ValueError):
    """A configuration value is wrong; the message names key, value, expectation."""


@dataclass(frozen=True)
class Dataset:
    """A dataset of one-sample TFRecord files, all of one size.

    Parameters
    ----------
    name : str
        Name of the preset.
    n_files, file_size_bytes : int
        Number of files and exact size of each, framing included.
    batch_size : int
        Samples a process reads per step.
    """

    name: str
    n_files: int
    file_size_bytes: int
    batch_size: int

    @property
    def title(self) -> str:
        """Return what figures call the dataset, such as ``128 KiB files``."""
        size, unit = float(self.file_size_bytes), "B"
        for larger in ("KiB", "MiB", "GiB"):
            if size >= 1024:
                size, unit = size / 1024, larger
        return f"{size:.4g} {unit} files"

    def directory(self, n_osts: int) -> str:
        """Return the folder's name; other files or striping mean another folder."""
        return f"{self.name}-{self.n_files}x{self.file_size_bytes}-{n_osts}ost"

    def file_name(self, file_id: int) -> str:
        """Return the name of a file inside the dataset's folder."""
        return f"{file_id:07d}.tfrecord"


@dataclass(frozen=True)
class System:
    """A machine: its nodes, its two tiers and how points are launched.

    `devices` and `emulation` are the checked mappings of the system file;
    `improvements` makes I/O classes of its devices faster, in percent. `devices_of` is
    the system that lends its devices, if one does.
    """

    name: str
    description: str
    n_nodes: int
    processes_per_node: int
    virtual_nodes: bool
    points_per_launch: int | str
    gfs: Tier
    lfs: Tier
    emulation: Mapping | None = None
    devices: Mapping | None = None
    devices_of: str | None = None
    improvements: Mapping[str, int] = field(default_factory=dict)
    job: JobSettings = field(default_factory=JobSettings)

    @property
    def n_processes(self) -> int:
        """Return the number of MPI processes of a run."""
        return self.n_nodes * self.processes_per_node

    def improved(self, improvements: Mapping[str, int]) -> "System":
        """Return the system with faster devices; its name tells which."""
        if not improvements:
            return self
        name = self.name + improvement_suffix(improvements)
        return replace(self, name=name, improvements=dict(improvements))

    def check_executor(self, executor: str) -> None:
        """Refuse to submit through another scheduler than the system's.

        Raises
        ------
        ConfigError
            With the system's name and how to choose another one.
        """
        if executor in SCHEDULERS and executor != self.job.scheduler:
            raise ConfigError(
                f"system {self.name}: is for {self.job.scheduler or 'one machine'} "
                f"(job.scheduler), got a profile for {executor}; choose another system "
                "(key system of your configuration, or --config system=NAME)"
            )

    @property
    def source(self) -> str:
        """Return what numbers from this system are: ``measured`` or ``emulated``."""
        kinds = {self.gfs.kind, self.lfs.kind}
        return "emulated" if "emulated" in kinds else "measured"


def improvement_suffix(improvements: Mapping[str, int]) -> str:
    """Return what names of improved systems end in, such as ``+gfs_meta50``."""
    return "".join(f"+{name}{percent}" for name, percent in improvements.items())


@dataclass(frozen=True)
class Scenario:
    """A run without cache rate and repetition.

    `improvements` are pairs of an I/O class and how much faster its devices are made,
    in percent; they belong to the system that runs the scenario.
    """

    dataset: str
    n_osts: int
    policy: str
    loader: str
    improvements: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """Return the name used in paths."""
        name = f"{self.dataset}-{self.n_osts}ost-{self.policy}-{self.loader}"
        return name + improvement_suffix(dict(self.improvements))

    @property
    def reads_database(self) -> bool:
        """Return whether the samples are records of one LMDB file."""
        return self.loader in LMDB_LOADERS

    @property
    def is_modelled(self) -> bool:
        """Return whether the models know how it reads."""
        return self.policy == "pinning" and not self.reads_database

    @property
    def keys(self) -> dict[str, str | int]:
        """Return the columns of tables that tell scenarios of a system apart."""
        values = asdict(self)
        del values["improvements"]
        return values


@dataclass(frozen=True)
class Point:
    """A cache rate and a repetition of a scenario: one benchmark execution."""

    cache_rate_percent: int
    repetition: int

    @property
    def path(self) -> str:
        """Return the run's folder below its scenario's."""
        return f"cache-{self.cache_rate_percent:03d}/rep-{self.repetition}"


Sweep = Mapping[Scenario, tuple[Point, ...]]


@dataclass(frozen=True)
class CalibrationPlan:
    """What a calibration fits: parameters, the points and the probes it takes.

    Parameters
    ----------
    name : str
        Its name in the configuration.
    scenario : Scenario
        The scenario whose runs are fitted.
    points : tuple of Point
        Those runs.
    probed_n_osts : tuple of int
        OST counts on which the storage is probed.
    parameters : tuple of str
        Keys of the system's devices that are fitted.
    """

    name: str
    scenario: Scenario
    points: tuple[Point, ...]
    probed_n_osts: tuple[int, ...]
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class Experiment:
    """A checked experiment: its scenarios and everything they depend on.

    `sweep` maps each scenario to its points; `studies` holds further sweeps by name,
    which are run when they are asked for and may share points. `settings` holds the
    other sections of the configuration. The runs are `simulated` where the
    configuration says so.
    """

    name: str
    system: System
    datasets: Mapping[str, Dataset]
    sweep: Sweep
    settings: Mapping[str, Any]
    simulated: bool = False
    studies: Mapping[str, Sweep] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Return what the numbers are: those of the system, or ``simulated``."""
        return "simulated" if self.simulated else self.system.source

    @property
    def provenance(self) -> str:
        """Return in words where the numbers come from, for figures."""
        if not self.simulated:
            return self.source
        origin = (self.system.devices or {}).get("origin", "of the emulated devices")
        return f"simulated, parameters {origin}"

    @property
    def methods(self) -> tuple[str, ...]:
        """Return how improvements are estimated: as asked for, where that can be."""
        wanted = self.settings["figures"]["methods"]
        if MODEL in wanted and self.why_no_model is not None:
            return tuple(method for method in wanted if method != MODEL)
        return tuple(wanted)

    @property
    def used_calibration(self) -> str | None:
        """Return the calibration that estimates use; simulated devices need none."""
        return None if self.simulated else self.settings["model"]["calibration"]

    @property
    def why_no_model(self) -> str | None:
        """Return why the model cannot estimate, None if it can."""
        scenario = self.settings["figures"]["scenario"]
        if not Scenario(**scenario).is_modelled:
            return (
                f"config: figures.scenario: got policy {scenario['policy']}, loader "
                f"{scenario['loader']}; the model knows pinning and loaders of files"
            )
        try:
            if not self.simulated:
                if self.used_calibration is None:
                    return "config: model.calibration: got null"
                self.calibration(self.used_calibration)
            network_of(asdict(self.system), scenario["n_osts"])
        except (ConfigError, ModelError) as error:
            return str(error)
        if (threads := self.settings["loader"]["read_threads"]) != 1:
            return f"config: loader.read_threads: got {threads}, the model has 1"
        return None

    @property
    def sweeps(self) -> dict[str, Sweep]:
        """Return the sweep, called `tables`, and those of the studies, by name."""
        return {"tables": self.sweep, **self.studies}

    @property
    def all_points(self) -> dict[Scenario, tuple[Point, ...]]:
        """Return every point of the sweep and of the studies, once."""
        points: dict[Scenario, dict[Point, None]] = {}
        for sweep in self.sweeps.values():
            for scenario, some in sweep.items():
                points.setdefault(scenario, {}).update(dict.fromkeys(some))
        return {scenario: tuple(some) for scenario, some in points.items()}

    def scenario(self, name: str) -> Scenario:
        """Return the scenario of this name."""
        return next(scenario for scenario in self.all_points if scenario.name == name)

    def launched_with(self, scenario: Scenario, point: Point) -> tuple[Point, ...]:
        """Return the points that share a launch with this one: of the same sweep.

        Points that several sweeps have belong to the first of them.
        """
        return next(
            sweep[scenario]
            for sweep in self.sweeps.values()
            if point in sweep.get(scenario, ())
        )

    def job(self, scenario: Scenario, points: Iterable[Point]) -> BenchmarkJob:
        """Return the job that runs points of a scenario."""
        return BenchmarkJob(
            self.datasets[scenario.dataset],
            self.system,
            self.settings["training"],
            self.settings["loader"],
            [point.cache_rate_percent for point in points],
        )

    def description(self, scenario: Scenario) -> dict[str, Any]:
        """Return all that a scenario's measurements depend on, ready for JSON."""
        system = asdict(self.system.improved(dict(scenario.improvements)))
        system = {key: system[key] for key in system if key not in UNMEASURED}
        if not system["improvements"]:
            del system["improvements"]
        if self.source == "measured":
            system["devices"] = None  # of no measurement
        dataset = asdict(self.datasets[scenario.dataset])
        description = {
            "source": self.source,
            "system": system,
            "dataset": dataset,
            "scenario": scenario.keys,
            "training": dict(self.settings["training"]),
            "loader": dict(self.settings["loader"]),
            "darshan": {"runtime": self.runtime},
            **self._policy_options(scenario),
        }
        if scenario.reads_database:
            description["lmdb"] = lmdb_description(
                scenario.loader, self.settings["lmdb"], dataset, system
            )
        return description

    def model_description(self, scenario: Scenario) -> dict[str, Any]:
        """Return a scenario's description for models: always with the devices."""
        description = self.description(scenario)
        description["system"]["devices"] = self.system.devices
        return description

    def probe_description(self, dataset: str, n_osts: int) -> dict[str, Any]:
        """Return all that probes depend on, ready for JSON."""
        scenario = Scenario(dataset, n_osts, policy="", loader="")
        full = self.description(scenario)
        return {
            "source": full["source"],
            "system": full["system"],
            "dataset": full["dataset"],
            "scenario": {"n_osts": n_osts},
            "loader": {"buffer_bytes": full["loader"]["buffer_bytes"]},
        }

    def calibration(self, name: str) -> CalibrationPlan:
        """Return a calibration, checked only here: most experiments ask for none.

        Raises
        ------
        ConfigError
            If the system has no devices, runs are simulated, or the sweep does not run
            what the calibration needs.
        """
        where = f"config: model.calibrations.{name}"
        if self.simulated:
            raise ConfigError(
                f"{where}: got runs that are simulated, expected measured ones: the "
                f"parameters of simulated runs are those of system {self.system.name}"
            )
        if self.system.devices is None:
            raise ConfigError(
                f"{where}: system {self.system.name} has no devices, expected them in "
                "its file: they say how its storage is built"
            )
        wanted = self.settings["model"]["calibrations"][name]
        scenario = Scenario(**wanted["scenario"])
        if scenario not in self.sweep:
            names = ", ".join(scenario.name for scenario in self.sweep)
            raise ConfigError(
                f"{where}.scenario: got {scenario.name}, expected one of {names}"
            )
        rates = [one.cache_rate_percent for one in self.sweep[scenario]]
        points = [Point(rate, 0) for rate in sorted(wanted["cache_rates_percent"])]
        if missing := [one for one in points if one not in self.sweep[scenario]]:
            raise ConfigError(
                f"{where}.cache_rates_percent: got {missing[0].cache_rate_percent}, "
                f"expected some of {sorted(set(rates))}, which {scenario.name} runs"
            )
        swept = {one.n_osts for one in self.sweep if one.dataset == scenario.dataset}
        if unknown := [n for n in wanted["probed_n_osts"] if n not in swept]:
            raise ConfigError(
                f"{where}.probed_n_osts: got {unknown[0]}, expected some of "
                f"{sorted(swept)}, on which the sweep has dataset {scenario.dataset}"
            )
        return CalibrationPlan(
            name,
            scenario,
            tuple(points),
            tuple(sorted(wanted["probed_n_osts"], reverse=True)),
            tuple(wanted["parameters"]),
        )

    def _policy_options(self, scenario: Scenario) -> dict[str, Any]:
        """Return the options of a scenario's policy, if it has any."""
        options = policy_options(scenario.policy, self.settings["policies"])
        return {"policy": options} if options else {}

    @property
    def runtime(self) -> str:
        """Return the Darshan runtime: the configuration's, else the system's.

        A Darshan log covers a whole MPI job, so a launch of several points needs the
        builtin tracer, which writes one for each, and gets it where both say ``auto``.
        """
        runtime = self.settings["darshan"]["runtime"]
        if runtime == "auto":
            runtime = self.system.job.darshan
        if runtime == "auto" and self.system.points_per_launch == "all":
            return "builtin"
        return runtime


def description_hash(description: Mapping[str, Any]) -> str:
    """Return a short hash of a scenario's description, equal for equal content."""
    text = json.dumps(description, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Return what differs among the keys of `new`: ``training.seed 1 (now 2)``."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return [] if old == new else [f"{path} {old!r} (now {new!r})"]
    return [
        line
        for key in new
        for line in differences(old.get(key), new[key], f"{path}.{key}".lstrip("."))
    ]


def read_yaml(path: str | Path) -> Any:
    """Read a YAML file; a missing or malformed one is a ConfigError."""
    try:
        return yaml.safe_load(Path(path).read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from error


def read_schema(name: str) -> dict[str, Any]:
    """Return the schema ``config``, ``datasets``, ``system`` or ``claims``."""
    return read_yaml(SCHEMAS / f"{name}.schema.yaml")


def expectation(schema: Mapping[str, Any]) -> str:
    """Return in words what a schema accepts."""
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    if "oneOf" in schema:
        return " or ".join(expectation(option) for option in schema["oneOf"])
    kinds = schema.get("type", "object")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    words = {"object": "mapping", "array": "list", "string": "text"}
    text = " or ".join(words.get(kind, kind) for kind in kinds)
    if "minimum" in schema and "maximum" in schema:
        text += f" from {schema['minimum']} to {schema['maximum']}"
    elif "minimum" in schema:
        text += f" of at least {schema['minimum']}"
    elif "exclusiveMinimum" in schema:
        text += f" above {schema['exclusiveMinimum']}"
    if "minItems" in schema and schema["minItems"] == schema.get("maxItems"):
        text += f" of {schema['minItems']} items"
    elif "minItems" in schema:
        text += f" of at least {schema['minItems']} items"
    if schema.get("uniqueItems"):
        text += " without duplicates"
    if "pattern" in schema:
        text += f" matching {schema['pattern']}"
    if "items" in schema:
        text += f", each {expectation(schema['items'])}"
    return text


def check(value: Any, schema_name: str, origin: str) -> None:
    """Check a value against one of our schemas.

    Parameters
    ----------
    value : mapping
        What was read.
    schema_name : str
        ``config``, ``datasets``, ``system`` or ``claims``.
    origin : str
        File or thing named in the message.

    Raises
    ------
    ConfigError
        One line: origin, key path, value, expectation.
    """
    schema = read_schema(schema_name)
    validator = _Validator(schema)
    errors = sorted(
        validator.iter_errors(value),
        key=lambda error: list(map(str, error.absolute_path)),
    )
    if errors:
        raise ConfigError(f"{origin}: {_explain(errors[0])}")


def _explain(error: jsonschema.ValidationError) -> str:
    """Return one line for a schema violation."""
    path = ".".join(map(str, error.absolute_path)) or "top level"
    known = list(error.schema.get("properties", {}))
    if error.validator == UNKNOWN_KEY:
        patterns = list(error.schema.get("patternProperties", {}))
        unknown = sorted(set(map(str, error.instance)) - set(known))
        wanted = f"some of {', '.join(known)}" if known else f"names like {patterns[0]}"
        return f"{path}: got unknown key {', '.join(unknown)}, expected {wanted}"
    if error.validator == MISSING_KEY:
        missing = [key for key in error.validator_value if key not in error.instance]
        return f"{path}: missing key {', '.join(missing)}"
    hint = _number_in_text(error.instance) if error.validator == "type" else ""
    return f"{path}: got {error.instance!r}, expected {expectation(error.schema)}{hint}"


def _number_in_text(value: Any) -> str:
    """Return how to write a number that YAML takes for text, such as 1.5e9."""
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return ""
    return f" (to YAML this is text: write {number!r})" if math.isfinite(number) else ""


def read_system(name: str, folder: str | Path) -> System:
    """Read and check ``<folder>/<name>.yaml``."""
    path = Path(folder) / f"{name}.yaml"
    if not path.is_file():
        known = sorted(p.stem for p in Path(folder).glob("*.yaml"))
        raise ConfigError(f"system: got {name!r}, expected one of {', '.join(known)}")
    values = read_yaml(path)
    check(values, "system", str(path))
    for tier in ("gfs", "lfs"):
        values[tier] = Tier(name=tier, **values[tier])
    job = values.get("job", {})
    estimates = Estimates(**job.get("estimates", {}))
    values["job"] = JobSettings(**{**job, "estimates": estimates})
    if model := values.get("devices_of"):
        values["devices"] = _devices_of_nodes(model, values, path)
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
    roots = [system.gfs.root.rstrip("/"), system.lfs.root.rstrip("/")]
    if any(f"{a}/".startswith(f"{b}/") for a, b in (roots, roots[::-1])):
        raise ConfigError(
            f"{path}: lfs.root: got {system.lfs.root!r}, expected a directory apart "
            f"from gfs.root {system.gfs.root!r}"
        )
    _check_sources(system.devices or {}, path)
    if system.source == "emulated":
        if system.emulation is None:
            raise ConfigError(
                f"{path}: top level: missing key emulation, needed by kind emulated"
            )
        values["devices"] = _devices_of(system.emulation["model_of"], path)
        system = System(name=name, **values)
    return system


def _check_sources(devices: Mapping[str, Any], origin: Path) -> None:
    """Refuse the source of a number that is not there."""
    for part, words in devices.get("sources", {}).items():
        present = devices.get(part, {})
        if unknown := sorted(set(words) - set(present)):
            raise ConfigError(
                f"{origin}: devices.sources.{part}: got unknown key "
                f"{', '.join(unknown)}, expected some of {', '.join(present) or '-'}"
            )


def _devices_of_nodes(
    model: str, values: Mapping[str, Any], origin: Path
) -> dict[str, Any]:
    """Return a system's devices for a job of other nodes and processes.

    As many nodes as there share an LFS server, so other numbers of processes.
    """
    there = read_system(model, origin.parent)
    if there.devices is None or there.emulation is not None or "devices" in values:
        raise ConfigError(
            f"{origin}: devices_of: got {model!r}, expected a system with devices of "
            "its own, and none here"
        )
    n_sharing = there.devices["lfs"]["processes_per_server"]
    n_sharing *= values["processes_per_node"] / there.processes_per_node
    if n_sharing != int(n_sharing):
        raise ConfigError(
            f"{origin}: processes_per_node: got {values['processes_per_node']}, "
            f"expected whole processes for each LFS server of system {model}"
        )
    lfs = {**there.devices["lfs"], "processes_per_server": int(n_sharing)}
    return {**there.devices, "lfs": lfs}


def _devices_of(model: str, origin: Path) -> dict[str, Any]:
    """Return the devices of the system that another one emulates."""
    path = origin.with_name(f"{model}.yaml")
    values = read_yaml(path) if path.is_file() else {}
    if "devices" not in values:
        raise ConfigError(
            f"{origin}: emulation.model_of: got {model!r}, expected a system with "
            "devices"
        )
    check(values, "system", str(path))
    n_processes = values["n_nodes"] * values["processes_per_node"]
    tiers = {tier: values["devices"][tier] for tier in ("gfs", "lfs")}
    return dict(tiers, n_processes=n_processes)


def read_experiment(config: Mapping[str, Any], resources: str | Path) -> Experiment:
    """Check a configuration and what it names.

    Parameters
    ----------
    config : mapping
        The merged configuration (schema `config`).
    resources : path
        Folder with `datasets.yaml` and `systems/`.

    Returns
    -------
    Experiment

    Raises
    ------
    ConfigError
        One line that names the key path, the value and what was expected.
    """
    check(config, "config", "config")
    presets = read_yaml(Path(resources) / "datasets.yaml")
    check(presets, "datasets", f"{resources}/datasets.yaml")
    system = read_system(config["system"], Path(resources) / "systems")
    datasets = {
        name: _dataset(name, presets, config["datasets"], system)
        for name in config["sweep"]["datasets"]
    }
    if unknown := sorted(set(config["datasets"]) - set(presets)):
        raise ConfigError(
            f"config: datasets: got unknown key {', '.join(unknown)}, "
            f"expected some of {', '.join(presets)}"
        )
    for n_osts in config["sweep"]["n_osts"]:
        _check_n_osts(n_osts, system, config["simulate"])
    _check_devices(system, config["sweep"]["n_osts"])
    experiment = Experiment(
        name=config["experiment"],
        system=system,
        datasets=datasets,
        sweep=_sweep(config["sweep"]),
        settings={
            key: config[key]
            for key in (
                "policies",
                "training",
                "loader",
                "lmdb",
                "darshan",
                "audit",
                "whatif",
                "model",
                "studies",
                "figures",
            )
        },
        simulated=config["simulate"],
    )
    experiment = replace(experiment, studies=_studies(experiment, config["studies"]))
    if experiment.runtime != "builtin" and system.points_per_launch == "all":
        raise ConfigError(
            f"config: darshan.runtime: got {experiment.runtime!r}, expected auto or "
            f"builtin with points_per_launch all of system {system.name}: a Darshan "
            "log covers a whole MPI job"
        )
    _check_figures(experiment)
    _check_accuracy(config["studies"]["accuracy"])
    _check_whatif(experiment)
    _check_model(experiment)
    _check_databases(experiment)
    if any(scenario.policy in PEERS for scenario in experiment.sweep):
        _check_peers(experiment)
    if experiment.simulated:
        _check_simulation(experiment)
    else:
        _check_jobs(experiment)
    return experiment


def _dataset(name: str, presets: dict, changes: dict, system: System) -> Dataset:
    """Return a preset with the experiment's changes."""
    if name not in presets:
        raise ConfigError(
            f"config: sweep.datasets: got {name!r}, "
            f"expected some of {', '.join(presets)}"
        )
    dataset = Dataset(name=name, **(presets[name] | changes.get(name, {})))
    if dataset.n_files < system.n_processes:
        raise ConfigError(
            f"config: datasets.{name}.n_files: got {dataset.n_files}, expected at "
            f"least one for each of the {system.n_processes} processes of system "
            f"{system.name}"
        )
    return dataset


def _check_devices(system: System, n_osts: list[int]) -> None:
    """Refuse an emulation whose devices cannot be made."""
    if system.source != "emulated":
        return
    speedup = system.emulation["speedup"]
    try:
        for count in n_osts:
            machine = modelled_machine(system.devices, count)
            scale_gfs(machine, system.n_processes, speedup, ["/gfs"])
            scale_lfs(machine, system.n_processes, speedup, lambda _: ["/lfs"])
    except ValueError as error:
        raise ConfigError(f"system {system.name}: emulation: {error}") from error


def _check_n_osts(n_osts: int, system: System, simulated: bool) -> None:
    """Refuse an OST count that the system's GFS cannot have."""
    if simulated:
        if system.devices is None:
            raise ConfigError(
                f"config: simulate: got true, expected false: system {system.name} "
                "has no devices, whose service times a simulation needs"
            )
        available = system.devices["gfs"]["n_osts"]
        wanted, fits = f"1 to {available}", 1 <= n_osts <= available
    elif system.gfs.kind == "directory":
        wanted, fits = "0 (gfs.kind is directory: striping is not ours)", n_osts == 0
    else:
        if system.gfs.kind == "lustre":
            available = system.gfs.n_osts
        else:
            available = system.devices["gfs"]["n_osts"]
        wanted, fits = f"1 to {available}", 1 <= n_osts <= available
    is_striped = system.gfs.kind == "lustre" and not simulated
    if fits and is_striped and n_osts not in (1, available):
        pools = sorted(map(str, system.gfs.pools or {}))
        wanted += f", with an entry in gfs.pools (there now: {', '.join(pools) or '-'})"
        fits = str(n_osts) in pools
    if not fits:
        raise ConfigError(
            f"config: sweep.n_osts: got {n_osts}, expected {wanted} on system "
            f"{system.name}"
        )


def _sweep(sweep: Mapping[str, Any]) -> dict[Scenario, tuple[Point, ...]]:
    """Return the product of the sweep's lists without the excluded points."""
    scenarios = [
        Scenario(*keys)
        for keys in itertools.product(
            sweep["datasets"], sweep["n_osts"], sweep["policies"], sweep["loaders"]
        )
    ]
    rates, repetitions = sweep["cache_rates_percent"], range(sweep["repetitions"])
    points = {
        scenario: _points(rates if scenario.policy != "none" else [0], repetitions)
        for scenario in scenarios
    }
    excluded = {
        (scenario, point): names
        for scenario in scenarios
        for point in points[scenario]
        if (names := list(_matching(sweep["exclude"], scenario, point)))
    }
    used = set(itertools.chain.from_iterable(excluded.values()))
    if idle := sorted(set(sweep["exclude"]) - used):
        raise ConfigError(
            f"config: sweep.exclude.{idle[0]}: got {sweep['exclude'][idle[0]]}, "
            "expected keys that match a point of the sweep"
        )
    kept = {
        scenario: tuple(p for p in points[scenario] if (scenario, p) not in excluded)
        for scenario in scenarios
    }
    kept = {scenario: points for scenario, points in kept.items() if points}
    if not kept:
        raise ConfigError("config: sweep.exclude: leaves no point, expected some")
    return kept


def _studies(experiment: Experiment, studies: Mapping[str, Any]) -> dict[str, Sweep]:
    """Return the sweeps of the studies, each of them longer than the experiment's.

    Only devices that are emulated or simulated can be made faster.
    """
    repetitions = range(studies["predict"]["repetitions"])
    predict = {
        scenario: _points({point.cache_rate_percent for point in points}, repetitions)
        for scenario, points in experiment.sweep.items()
        if scenario.is_modelled
    }
    truth = studies["whatif_truth"]
    wanted = _points(truth["cache_rates_percent"], range(truth["repetitions"]))
    base = Scenario(**experiment.settings["figures"]["scenario"])
    improved = [()] + [
        tuple((str(io_class), one[io_class]) for io_class in IOClass if io_class in one)
        for one in truth["improvements"]
    ]
    whatif_truth = {replace(base, improvements=one): wanted for one in improved}
    if experiment.source == "measured":
        whatif_truth = {}
    return {"predict": predict, "whatif-truth": whatif_truth}


def _points(
    cache_rates_percent: Iterable[int], repetitions: Iterable[int]
) -> tuple[Point, ...]:
    """Return the product of cache rates, ascending, and repetitions."""
    rates = sorted(cache_rates_percent)
    return tuple(Point(*keys) for keys in itertools.product(rates, repetitions))


def _matching(exclude: Mapping, scenario: Scenario, point: Point) -> Iterator[str]:
    """Yield the names of the exclusions that a point falls under."""
    keys = scenario.keys | asdict(point)
    for name, wanted in exclude.items():
        if all(keys[key] in _listed(value) for key, value in wanted.items()):
            yield name


def _listed(value: Any) -> list:
    """Return a value of an exclusion as the list that it may be."""
    return value if isinstance(value, list) else [value]


def _check_jobs(experiment: Experiment) -> None:
    """Refuse jobs that cannot be described or ask for too much."""
    system = experiment.system
    try:
        launcher_of(system, log="log")
        for rule, resources in system.job.resources.items():
            site_resources(system, rule, lfs_mib=1)
            if reserved := sorted(RESERVED & set(resources)):
                raise JobError(f"resources.{rule}: got {reserved[0]}, which is ours")
    except JobError as error:
        raise ConfigError(f"system {system.name}: job: {error}") from error
    for scenario, points in experiment.all_points.items():
        try:
            experiment.job(scenario, points).check()
        except JobError as error:
            rate = max(point.cache_rate_percent for point in points)
            raise ConfigError(
                f"config: sweep.cache_rates_percent: got {rate}, but {scenario.name} "
                f"then {error}"
            ) from error


def _check_simulation(experiment: Experiment) -> None:
    """Refuse what the simulator cannot do."""
    if (threads := experiment.settings["loader"]["read_threads"]) != 1:
        raise ConfigError(
            f"config: loader.read_threads: got {threads}, expected 1 where runs are "
            "simulated"
        )
    for scenario in experiment.sweep:
        if scenario.policy in (*DYNAMIC, *PEERS):
            raise ConfigError(
                f"config: sweep.policies: got {scenario.policy}, expected no "
                f"{', '.join((*DYNAMIC, *PEERS))} where runs are simulated"
            )
        try:
            network_of(asdict(experiment.system), scenario.n_osts)
        except ModelError as error:
            raise ConfigError(f"system {experiment.system.name}: {error}") from error


def _check_databases(experiment: Experiment) -> None:
    """Refuse what the LMDB loaders cannot do."""
    scenarios = [one for one in experiment.all_points if one.reads_database]
    for scenario in scenarios:
        if scenario.policy != "pinning":
            raise ConfigError(
                f"config: sweep.policies: got {scenario.policy}, expected pinning with "
                f"loader {scenario.loader}: the LFS holds the first part of its file"
            )
        system = experiment.system
        if system.gfs.kind == "emulated":
            gfs = emulated_gfs(asdict(system), scenario.n_osts)
            if gfs.n_object_servers > 1:
                raise ConfigError(
                    f"config: sweep.loaders: got {scenario.loader}, but the emulated "
                    f"GFS has {gfs.n_object_servers} object servers for "
                    f"{scenario.n_osts} OSTs and keeps a file on one of them"
                )
    if not scenarios:
        return
    threads = experiment.settings["loader"]["read_threads"]
    if threads != 1:
        raise ConfigError(
            f"config: loader.read_threads: got {threads}, expected 1 with loader "
            f"{scenarios[0].loader}"
        )
    switches = experiment.settings["lmdb"]["lmdbio"]
    if switches["dm"] and switches["prov"]:
        raise ConfigError(
            "config: lmdb.lmdbio.dm: got true, expected false with prov: arithmetic "
            "leaves no tree to walk"
        )


def _check_peers(experiment: Experiment) -> None:
    """Refuse ways to read from peers that are not there or would not be honest."""
    options = experiment.settings["policies"]["adhoc"]
    if options["transport"] == "rma":
        raise ConfigError(
            "config: policies.adhoc.transport: got rma, expected sockets: one-sided "
            "reads over MPI windows are not there yet"
        )
    if (mount := options["mount"]) is not None:
        if not Path(mount).is_absolute():
            raise ConfigError(
                f"config: policies.adhoc.mount: got {mount!r}, expected an absolute "
                "path, the same on all nodes"
            )
        if experiment.system.source == "emulated":
            raise ConfigError(
                f"config: policies.adhoc.mount: got {mount!r}, expected null with the "
                f"emulated devices of system {experiment.system.name}: the mount would "
                "be as fast as it is"
            )
    if (policy := experiment.settings["figures"]["scenario"]["policy"]) in PEERS:
        raise ConfigError(
            f"config: figures.scenario.policy: got {policy}, expected one that reads "
            "from no other node: the what-if knows the paper's four I/O classes"
        )


def _check_figures(experiment: Experiment) -> None:
    """Refuse figures of an epoch or a scenario that is not run."""
    figures = experiment.settings["figures"]
    epochs = experiment.settings["training"]["epochs"]
    if figures["epoch"] >= epochs:
        raise ConfigError(
            f"config: figures.epoch: got {figures['epoch']}, expected 0 to "
            f"{epochs - 1} (training.epochs is {epochs})"
        )
    if Scenario(**figures["scenario"]) not in experiment.sweep:
        names = ", ".join(scenario.name for scenario in experiment.sweep)
        raise ConfigError(
            f"config: figures.scenario: got {Scenario(**figures['scenario']).name}, "
            f"expected one of {names}"
        )


def _check_model(experiment: Experiment) -> None:
    """Refuse a calibration that is not there, and estimates by no model at all."""
    model = experiment.settings["model"]
    if model["calibration"] not in {None, *model["calibrations"]}:
        raise ConfigError(
            f"config: model.calibration: got {model['calibration']!r}, expected null "
            f"or one of {', '.join(model['calibrations'])}"
        )
    if not experiment.methods:
        raise ConfigError(
            "config: figures.methods: got model alone, expected rule, too: "
            f"{experiment.why_no_model}"
        )


def _check_accuracy(study: Mapping[str, Any]) -> None:
    """Refuse trainings that leave files over, or lack a class."""
    step = study["n_processes"] * study["batch_size"]
    if (n_files := study["n_train_files"]) % step:
        raise ConfigError(
            f"config: studies.accuracy.n_train_files: got {n_files}, expected a "
            f"multiple of {step} (n_processes times batch_size)"
        )
    for key in ("n_train_files", "n_test_files"):
        if study[key] < study["n_classes"]:
            raise ConfigError(
                f"config: studies.accuracy.{key}: got {study[key]}, expected at least "
                f"{study['n_classes']} (n_classes)"
            )


def _check_whatif(experiment: Experiment) -> None:
    """Refuse a search that holds nothing or too much, and a goal without meaning."""
    goal, search = (experiment.settings["whatif"][key] for key in ("goal", "search"))
    largest, step = search["max_improvement_percent"], search["step_percent"]
    if not 1 <= largest // step <= MAX_GRID_STEPS:
        raise ConfigError(
            f"config: whatif.search.step_percent: got {step}, expected 1 to "
            f"{MAX_GRID_STEPS} steps up to max_improvement_percent {largest}"
        )
    threads = experiment.settings["loader"]["read_threads"]
    if goal["of"] == "execution_time" and threads > 1:
        raise ConfigError(
            "config: whatif.goal.of: got execution_time, expected io_time with "
            f"loader.read_threads {threads}: I/O time is then thread-seconds"
        )
