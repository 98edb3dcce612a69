"""Read and check the configuration: an experiment with its sweep and studies."""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tierscope.core.io_class import IOClass
from tierscope.core.scenario import (
    IDEAL_SWEEP,
    PROGRAM_LOADER,
    Dataset,
    Point,
    Scenario,
    Sweep,
    UserDataset,
)
from tierscope.core.validation import ConfigError, check, read_presets
from tierscope.experiment.checks import (
    check_devices,
    check_experiment,
    check_n_osts,
    check_nodes,
    check_tiers_of_programs,
)
from tierscope.experiment.experiment import Experiment
from tierscope.experiment.system import System, read_system
from tierscope.experiment.training_checks import check_ideal

_OF_PROGRAMS_PERCENT = 80  # of the best time: their default goal
MOST_POINTS = 100_000  # of a sweep; Snakemake needs some seconds for a thousand


def changes(
    contents: Sequence[Mapping[str, Any]],
    defaults: Mapping[str, Any],
    config: Mapping[str, Any],
) -> list[Mapping[str, Any]]:
    """Return what the user has configured, as mappings of which later ones decide.

    Parameters
    ----------
    contents : sequence of mapping
        The configuration files, with that of the defaults.
    defaults : mapping
        The defaults.
    config : mapping
        What Snakemake has made of all; of a workflow that imports this one, it has no
        defaults.
    """
    own = [one for one in contents if one != defaults]
    return own if len(own) < len(contents) else [config]


def defaults_of_programs(own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the defaults that differ if a program of the user reads.

    `own` is what the user has configured (`changes`); it may have any faults.
    """
    sections: dict[str, dict] = {"loader": {}, "sweep": {}, "datasets": {}}
    for config in own:
        for name, section in sections.items():
            found = config.get(name)
            section |= found if isinstance(found, Mapping) else {}
    if not sections["loader"].get("command"):
        return {}
    datasets = sections["sweep"].get("datasets") or list(sections["datasets"])
    datasets = datasets or ["small"]
    classes = [str(io_class) for io_class in IOClass]
    return {
        "sweep": {
            "datasets": datasets,
            "n_osts": [0],
            "loaders": [PROGRAM_LOADER],
            "cache_rates_percent": [0, 25, 50, 75, 100],
            "repetitions": 2,
        },
        "whatif": {"goal": {"seconds": None, "percent_of_best": _OF_PROGRAMS_PERCENT}},
        "model": {"calibration": None},
        "figures": {
            "scenario": {
                "dataset": next(iter(datasets)),
                "n_osts": 0,
                "loader": PROGRAM_LOADER,
            },
            "improvements": [{io_class: 50} for io_class in classes],
            "pairs": [list(pair) for pair in itertools.pairwise(classes)],
            "methods": ["rule"],
        },
    }


def goal_origin(own: Sequence[Mapping[str, Any]]) -> str:
    """Return where the goal comes from, in few words; `own` as `changes` returns."""
    sections = [one.get("whatif") for one in own]
    if any(isinstance(one, Mapping) and "goal" in one for one in sections):
        return "whatif.goal of the configuration"
    if defaults_of_programs(own):
        return f"{_OF_PROGRAMS_PERCENT} % of the best, the default"
    return "the paper's, the default"


def with_own_datasets(
    config: Mapping[str, Any], own: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a configuration whose datasets of the user have nothing of a default one.

    Their names may be those of presets. `own` is as for `defaults_of_programs`.
    """
    given: dict[str, dict] = {}
    for one in own:
        found = one.get("datasets")
        for name, dataset in (found if isinstance(found, Mapping) else {}).items():
            if isinstance(dataset, Mapping):
                given.setdefault(name, {}).update(dataset)
    paths = {name: dataset for name, dataset in given.items() if "path" in dataset}
    return {**config, "datasets": config["datasets"] | paths} if paths else {**config}


def read_experiment(config: Mapping[str, Any], *resources: str | Path) -> Experiment:
    """Check a configuration, and the datasets and the system that it names.

    Parameters
    ----------
    config : mapping
        The merged configuration (schema `config`).
    *resources : path
        Folders with `datasets.yaml` and `systems/`; earlier folders take precedence.

    Returns
    -------
    Experiment

    Raises
    ------
    ConfigError
        One line that names the key path, the value and what was expected.
    """
    check(config, "config", "config")
    presets = read_presets(resources, "datasets")
    system = read_system(
        config["system"],
        *(Path(folder, "systems") for folder in resources),
        roots=config["roots"],
    )
    named = {f"exclude.{name}": one for name, one in config["sweep"]["exclude"].items()}
    if not isinstance(config["sweep"]["repetitions"], int):
        repeated = enumerate(config["sweep"]["repetitions"])
        named |= {f"repetitions.{number}": one for number, one in repeated}
    for where, points in named.items():
        for dataset in _listed(points.get("dataset", [])):
            _check_known(
                dataset, presets | config["datasets"], f"sweep.{where}.dataset"
            )
    datasets = _datasets(config, presets, system)
    _check_tiers(config, system, datasets)
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
                "allow_mixed",
                "whatif",
                "model",
                "studies",
                "figures",
                "report",
            )
        },
        simulated=config["simulate"],
    )
    studies = _studies(experiment, config["studies"])
    if config["sweep"]["ideal"]:
        check_ideal(experiment)
        studies[IDEAL_SWEEP] = _ideal_sweep(experiment.sweep)
    experiment = replace(experiment, studies=studies)
    check_experiment(experiment)
    return experiment


def _datasets(
    config: Mapping[str, Any], presets: Mapping[str, Any], system: System
) -> dict[str, Dataset | UserDataset]:
    """Return the datasets of the sweep by name; refuse unknown ones, and others'."""
    datasets = {
        name: _dataset(name, presets, config["datasets"], system)
        for name in config["sweep"]["datasets"]
    }
    own = {name: one for name, one in config["datasets"].items() if "path" in one}
    if own and not config["loader"]["command"]:
        name, one = next(iter(own.items()))
        raise ConfigError(
            f"config: datasets.{name}: got path {one['path']!r}, expected "
            "loader.command: only a program of yours reads a dataset of yours"
        )
    if unknown := sorted(set(config["datasets"]) - set(presets) - set(own)):
        raise ConfigError(
            f"config: datasets: got unknown key {', '.join(unknown)}, "
            f"expected some of {', '.join(presets)}"
        )
    return datasets


def _check_tiers(
    config: Mapping[str, Any],
    system: System,
    datasets: Mapping[str, Dataset | UserDataset],
) -> None:
    """Refuse a program, OST counts and devices that the tiers cannot have."""
    if config["loader"]["command"]:
        check_tiers_of_programs(system, config["simulate"])
    # Where the files of a dataset of the user lie is not known, which is 0.
    is_given = all(isinstance(one, UserDataset) for one in datasets.values())
    counts = [n for n in config["sweep"]["n_osts"] if n or not is_given]
    for n_osts in counts:
        check_n_osts(n_osts, system, config["simulate"])
    check_devices(system, counts)


def _dataset(
    name: str, presets: dict, changes: dict, system: System
) -> Dataset | UserDataset:
    """Return a preset with the experiment's changes, or a dataset of the user."""
    if "path" in (own := changes.get(name, {})):
        if len(own) > 1:
            other = min(set(own) - {"path"})
            raise ConfigError(
                f"config: datasets.{name}: got path and {other}, expected only one of "
                "them: tierscope generates no files below a path of yours"
            )
        return UserDataset(name, _expanded(own["path"], f"datasets.{name}.path"))
    _check_known(name, presets, "sweep.datasets")
    dataset = Dataset(name=name, **(presets[name] | changes.get(name, {})))
    if dataset.n_files < system.n_processes:
        raise ConfigError(
            f"config: datasets.{name}.n_files: got {dataset.n_files}, expected at "
            f"least one for each of the {system.n_processes} processes of system "
            f"{system.name}"
        )
    return dataset


def _expanded(path: str, where: str) -> str:
    """Return an absolute path, with variables filled in unless it exists as written."""
    if os.path.exists(path):
        return os.path.abspath(path)
    expanded = os.path.expandvars(os.path.expanduser(path))
    if (unset := re.search(r"\$\{?(\w+)", expanded)) and not os.path.exists(expanded):
        raise ConfigError(
            f"config: {where}: got {path!r}, but the environment variable "
            f"{unset[1]} is not set here"
        )
    return os.path.abspath(expanded)


def _check_known(dataset: str, presets: Iterable[str], where: str) -> None:
    """Refuse the name of a dataset that has no preset."""
    if dataset not in presets:
        raise ConfigError(
            f"config: {where}: got {dataset!r}, expected some of {', '.join(presets)}"
        )


def _sweep(sweep: Mapping[str, Any]) -> dict[Scenario, tuple[Point, ...]]:
    """Return the product of the sweep's lists without the excluded points."""
    scenarios = [
        Scenario(*keys)
        for keys in itertools.product(
            sweep["datasets"], sweep["n_osts"], sweep["policies"], sweep["loaders"]
        )
    ]
    rates = sweep["cache_rates_percent"]
    n_points = len(scenarios) * len(rates) * _most_repetitions(sweep)
    if n_points > MOST_POINTS:
        raise ConfigError(
            f"config: sweep: got {n_points} points (the product of its lists and "
            f"repetitions), expected at most {MOST_POINTS}"
        )
    points = {
        scenario: _in_order(
            Point(rate, repetition)
            for rate in (rates if scenario.policy != "none" else [0])
            for repetition in range(_n_repetitions(sweep, scenario, rate))
        )
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
        raise ConfigError("config: sweep.exclude: leaves no point, expected at least 1")
    return kept


def _most_repetitions(sweep: Mapping[str, Any]) -> int:
    """Return how often a sweep runs the point that it runs most often."""
    repetitions = sweep["repetitions"]
    if isinstance(repetitions, int):
        return repetitions
    return max(one["n_repetitions"] for one in repetitions)


def _n_repetitions(sweep: Mapping[str, Any], scenario: Scenario, rate: int) -> int:
    """Return how often a sweep runs a scenario at a cache rate."""
    repetitions = sweep["repetitions"]
    if isinstance(repetitions, int):
        return repetitions
    keys = scenario.keys | {"cache_rate_percent": rate}
    fitting = (one for one in repetitions if _fits(keys, one, but="n_repetitions"))
    return max((one["n_repetitions"] for one in fitting), default=1)


def _studies(experiment: Experiment, studies: Mapping[str, Any]) -> dict[str, Sweep]:
    """Return the sweeps of the studies, by name."""
    predict = {
        scenario: points
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
    nodes = _nodes_study(experiment, studies["nodes"])
    return {"predict": predict, "whatif-truth": whatif_truth, "nodes": nodes}


def _ideal_sweep(sweep: Sweep) -> Sweep:
    """Return the sweep of ideal runs; policies share it, as one tier has all files."""
    repetitions: dict[Scenario, set[int]] = {}
    for scenario, points in sweep.items():
        ideal = replace(scenario, policy="pinning", is_ideal=True)
        found = repetitions.setdefault(ideal, set())
        found.update(point.repetition for point in points)
    return {ideal: _points([100], found) for ideal, found in repetitions.items()}


def _nodes_study(experiment: Experiment, study: Mapping[str, Any]) -> Sweep:
    """Return the sweep of the study of nodes: per number no LFS, Monarch and LMDB."""
    check_nodes(experiment, study["n_nodes"])
    base = Scenario(**experiment.settings["figures"]["scenario"])
    system, repetitions = experiment.system, range(study["repetitions"])
    sweep = {}
    for n_nodes in study["n_nodes"]:
        # On the system's own number of nodes, the runs are those of the main sweep.
        here = replace(base, n_nodes=None if n_nodes == system.n_nodes else n_nodes)
        for policy, rate in (("none", 0), ("monarch", study["cache_rate_percent"])):
            sweep[replace(here, policy=policy)] = _points([rate], repetitions)
        for loader in study["loaders"]:
            database = replace(here, policy="pinning", loader=loader)
            sweep[database] = _points([0], repetitions)
    return sweep


def _points(
    cache_rates_percent: Iterable[int], repetitions: Iterable[int]
) -> tuple[Point, ...]:
    """Return the product of cache rates and repetitions, in order."""
    return _in_order(
        itertools.starmap(Point, itertools.product(cache_rates_percent, repetitions))
    )


def _in_order(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return points in launch order: each repetition adds to its pinned part."""
    return tuple(
        sorted(points, key=lambda point: (point.repetition, point.cache_rate_percent))
    )


def _matching(exclude: Mapping, scenario: Scenario, point: Point) -> Iterator[str]:
    """Yield the names of the exclusions that match a point."""
    keys = scenario.keys | asdict(point)
    for name, wanted in exclude.items():
        if _fits(keys, wanted):
            yield name


def _fits(keys: Mapping[str, Any], wanted: Mapping[str, Any], but: str = "") -> bool:
    """Return whether all keys except `but` have the wanted values."""
    pairs = ((key, _listed(value)) for key, value in wanted.items() if key != but)
    return all(keys[key] in values for key, values in pairs)


def _listed(value: Any) -> list:
    """Return a value of an exclusion as a list."""
    return value if isinstance(value, list) else [value]
