"""The configuration of target `designs`: read, check, complete."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tierscope.core.validation import ConfigError, check, without_defaults
from tierscope.data.costs import (
    HARDWARE,
    LINK,
    NODE,
    OBJECT_SERVER,
    ROOM,
    Cost,
    Unit,
)
from tierscope.data.designs import MOST_REQUESTS, POOLED, Goal, Plan, Study
from tierscope.experiment.designs.devices import read_devices
from tierscope.experiment.designs.storages import (
    MOST_DESIGNS,
    storages_of,
    values_of,
    within_limits,
)
from tierscope.experiment.designs.workloads import Workload, read_workloads
from tierscope.experiment.system import System, read_system

DESIGNS = "designs"  # the key that makes a configuration one of these
GROWS = "grows"
_AU, _IO_TIME = "utilisation_percent", "io_time_s"
_WHOLE_EPOCH = 1_000_000_000  # steps
_DRAWS = 4  # repetitions with a calibration: one has no interval
# Limits of pieces of hardware; that of LFS devices is of a node.
_PIECES = {f"{kind}s": kind for kind in (OBJECT_SERVER, LINK, NODE)}
_DEFAULTS = {
    "devices": None,
    "compute_time_s": {},
    "choices": {},
    "goal": None,
    "limits": {},
    "cost": {},
    "dataset": GROWS,
    "steps": 50,
    "simulations": 120,
    "seed": 1,
    "fit": None,
}


class DesignStudy(NamedTuple):
    """A checked configuration: a study, its workloads, and where its numbers are from.

    The schema `designs` says what the keys mean.
    """

    study: Study
    workloads: tuple[Workload, ...]
    provenance: str


def is_of_designs(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration is one of designs, and of no experiment."""
    return DESIGNS in config


def read_study(
    config: Mapping[str, Any], defaults: Mapping[str, Any], *resources: str | Path
) -> DesignStudy:
    """Check a configuration of designs, its system and its workloads.

    Parameters
    ----------
    config, defaults : mapping
        What Snakemake has laid over the default experiment, whose other keys mean
        nothing here, and that experiment.
    *resources : path
        Folders with `workloads.yaml` and `systems/`; earlier folders take precedence.

    Raises
    ------
    ConfigError
        One line that names the key path, the value and what was expected.
    """
    own = without_defaults(config, {DESIGNS, "experiment", "system"}, defaults, "study")
    check(own, DESIGNS, "config")
    values = _DEFAULTS | own[DESIGNS]
    system = _system(own["system"], resources)
    devices = read_devices(system.devices, values["devices"])
    values.setdefault("repetitions", 1 if devices.uncertainty is None else _DRAWS)
    system = replace(system, devices=devices.devices)
    given = values["workloads"]
    parts = given if isinstance(given, Mapping) else dict.fromkeys(given, 1)
    workloads = read_workloads(parts, values["compute_time_s"], resources)
    hours = math.fsum(parts.values())
    shares = [part / hours for part in parts.values()]
    names = [one.name for one in workloads]
    plans = [_plan(values, system, one) for one in workloads]
    most, accelerators = _numbers(values, system)
    limits = {
        name: math.fsum(one.values()) if isinstance(one, Mapping) else one
        for name, one in values["limits"].items()
    }
    cost = _cost(values["cost"], limits)
    server = values["cost"].get("object_server", {})
    storages = storages_of(values["choices"])
    study = Study(
        plans=dict(zip(names, plans, strict=True)),
        shares=dict(zip(names, shares, strict=True)),
        goals={one.name: _goal(values, one) for one in workloads},
        storages=within_limits(
            storages, plans[0], limits, server.get("usable_tib", 0.0)
        ),
        accelerators=accelerators,
        most=None if accelerators else most,
        draws=devices.uncertainty,
        cost=cost,
        limits={_PIECES.get(name, name): limit for name, limit in limits.items()},
        **{key: values[key] for key in ("repetitions", "simulations", "fit")},
    )
    for workload in workloads:
        _check_size(study, workload)
    _check_choices(study)
    _check_fit(study)
    provenance = (
        f"simulated, system {system.name} ({system.description}), "
        f"devices: {devices.origin}"
    )
    return DesignStudy(study, workloads, provenance)


def _goal(values: Mapping[str, Any], workload: Workload) -> Goal:
    """Return what a workload has to reach: the given goal, or its utilisation."""
    given = values["goal"] or {_AU: workload.utilisation_percent}
    ((quantity, value),) = given.items()
    return Goal(quantity, float(value))


def _plan(values: Mapping[str, Any], system: System, workload: Workload) -> Plan:
    """Return what any number of accelerators read of a workload."""
    of_io_time = _goal(values, workload).quantity == _IO_TIME
    return Plan(
        workload.description(system.machine, values["seed"]),
        workload.sizes,
        values["dataset"] == GROWS,
        _WHOLE_EPOCH if of_io_time else values["steps"],
        system.job.memory_gib_per_node,
        system.job.lfs_gib_per_node,
        workload.computed,
    )


def _numbers(values: Mapping[str, Any], system: System) -> tuple[int, tuple[int, ...]]:
    """Return the most accelerators that choices and limits allow, and their numbers.

    There are none if the largest number is sought.
    """
    choices, limits = values["choices"], values["limits"]
    given = choices.get("accelerators", {"most": system.n_processes})
    is_search = "most" in given
    numbers = [] if is_search else sorted(values_of("accelerators", given))
    most = given["most"] if is_search else numbers[-1]
    most = min(most, limits.get("nodes", most) * system.processes_per_node)
    n_links = system.devices.get("simulation", {}).get("gfs_links", 1)
    if n_links > 1 and "links" not in choices:  # links come with the nodes
        most = min(most, limits.get("links", most) * system.n_processes // n_links)
    found = tuple(n for n in numbers if n <= most)
    if numbers and not found:
        raise ConfigError(
            f"config: designs.limits: got nodes and links of {most} accelerators, "
            f"expected at least those of {numbers[0]}"
        )
    return most, found


def _system(name: str, resources: Sequence[str | Path]) -> System:
    """Return a system with devices that do not depend on the number of processes."""
    system = read_system(name, *(Path(folder, "systems") for folder in resources))
    where = f"config: system: got {name}"
    if system.emulation is not None:
        raise ConfigError(
            f"{where}, whose emulated devices are scaled to its own number of "
            f"processes, expected the system that it emulates: "
            f"{system.emulation['model_of']}"
        )
    if system.devices is None:
        raise ConfigError(
            f"{where}, which has no devices, expected a system file with section "
            "devices"
        )
    return system


def _cost(given: Mapping[str, Any], limits: Mapping[str, float]) -> Cost:
    """Return what hardware costs; refuse what it does not tell."""
    units = {name: Unit(**given[name]) for name in HARDWARE if name in given}
    others = {name: one for name, one in given.items() if name not in units}
    cost = Cost(units=units, **others)
    if cost.hours is None and cost.accelerator_hour is not None:
        raise ConfigError(
            "config: designs.cost: got accelerator_hour without hours, expected the "
            "hours over which a purchase is written off"
        )
    known = cost.sums(dict.fromkeys((*HARDWARE, ROOM), 1.0))
    for name, limit in limits.items():
        if math.isnan(known.get(name, 0.0)):
            raise ConfigError(
                f"config: designs.limits.{name}: got {limit:g}, expected designs.cost "
                f"to say {name} of some hardware"
            )
    return cost


def _check_choices(study: Study) -> None:
    """Refuse designs of which too little is known, or too many."""
    machine = next(iter(study.plans.values())).machine
    placements = {one.placement for one in study.storages}
    if POOLED in placements and "network" not in machine.devices:
        raise ConfigError(
            f"config: designs.choices.placement: got {POOLED} with system "
            f"{machine.name}, expected its devices to have a network, over which "
            "nodes read from each other"
        )
    n_designs = len(study.storages) * max(len(study.accelerators), 1)
    if n_designs > MOST_DESIGNS:
        raise ConfigError(
            f"config: designs.choices: got {n_designs} designs, expected at most "
            f"{MOST_DESIGNS}"
        )


def _check_fit(study: Study) -> None:
    """Refuse a fit to several curves, a number or a utilisation that none has."""
    if not (fit := study.fit):
        return
    for key, some in (("workloads", study.plans), ("choices", study.storages)):
        if len(some) > 1:
            what = "storages" if key == "choices" else key
            raise ConfigError(
                f"config: designs.{key}: got {len(some)} {what} with designs.fit, "
                "expected one: the measured utilisation is of one"
            )
    (plan,), n = study.plans.values(), fit["accelerators"]
    _check_number(plan, n, "fit.accelerators")
    _check_requests(plan, n, "fit.accelerators")
    percent, points = fit["utilisation_percent"], fit["deviation_points"]
    if not 0 < percent - points <= percent + points <= 100:
        raise ConfigError(
            f"config: designs.fit.deviation_points: got {points:g} with "
            f"utilisation_percent {percent:g}, which is {percent - points:g} to "
            f"{percent + points:g} %, expected both ends above 0 and at most 100 %"
        )


def _check_size(study: Study, workload: Workload) -> None:
    """Refuse a workload of which too little is known, or too much to simulate."""
    plan, goal = study.plans[workload.name], study.goals[workload.name]
    if not workload.compute_time_s and goal.quantity == _AU:
        raise ConfigError(
            f"config: designs.compute_time_s: got none of {workload.name}, expected "
            "that of a step in seconds: its utilisation is 0 if it computes nothing"
        )
    if plan.grows and plan.memory_gib_per_node is None:
        raise ConfigError(
            f"system {plan.machine.name}: missing key job.memory_gib_per_node: the "
            "dataset grows with the memory of the nodes; give it, or set "
            "designs.dataset: fixed"
        )
    least = 2 * (workload.depth + 1)
    if plan.steps < min(least, plan.n_steps(1)):
        raise ConfigError(
            f"config: designs.steps: got {plan.steps}, expected at least {least} "
            f"for {workload.name}, whose loader reads {workload.depth} batches ahead"
        )
    if plan.n_steps(1) < 2:
        raise ConfigError(
            f"workload {workload.name}: got {workload.n_files} files, expected at "
            f"least two batches of {workload.batch_size}"
        )
    for n in study.accelerators:
        _check_number(plan, n, "choices.accelerators")
    most = study.most or study.accelerators[-1]
    _check_requests(plan, most, "choices.accelerators")


def _check_number(plan: Plan, n: int, key: str) -> None:
    """Refuse a number of accelerators that cannot be simulated."""
    if n != plan.whole(n):
        raise ConfigError(
            f"config: designs.{key}: got {n}, expected whole nodes of "
            f"{plan.machine.processes_per_node} processes"
        )
    if not plan.grows and plan.n_steps(n) < 2:
        raise ConfigError(
            f"config: designs.{key}: got {n}, whose epoch of "
            f"{plan.description.dataset.name} has fewer than 2 steps, expected fewer "
            "accelerators"
        )


def _check_requests(plan: Plan, n: int, key: str) -> None:
    """Refuse a number of accelerators that make too many requests to simulate."""
    if (n_requests := plan.n_requests(plan.whole(n))) > MOST_REQUESTS:
        raise ConfigError(
            f"config: designs.{key}: got {n} accelerators of "
            f"{plan.description.dataset.name}, which make {n_requests:.2g} requests in "
            f"{plan.n_simulated_steps(n)} steps, expected at most {MOST_REQUESTS:.2g}: "
            "give fewer accelerators, fewer steps, or larger request_bytes in the "
            "system's devices"
        )
