"""The configuration of target `designs`: read, check, complete."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tierscope.core.validation import ConfigError, check, without_defaults
from tierscope.data.costs import HARDWARE, LFS_GIB, Cost, Unit
from tierscope.data.designs import MOST_REQUESTS, POOLED, Goal, Plan, Storage, Study
from tierscope.experiment.designs.devices import StudiedDevices, read_devices
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
_NUMBERS = "accelerators"  # key of `choices`
_AU, _IO_TIME = "utilisation_percent", "io_time_s"
_WHOLE_EPOCH = 1_000_000_000  # steps
_DRAWS = 4  # repetitions with a calibration: one has no interval
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


@dataclass(frozen=True)
class DesignStudy:
    """A checked configuration; the schema `designs` says what the keys mean.

    Parameters
    ----------
    values : mapping
        Section `designs`, with its defaults.
    system : System
        The system, with the devices of the study.
    devices : StudiedDevices
        These, and where they come from.
    workloads : mapping of Workload to float
        What the storage serves, and the part of its hours.
    """

    values: Mapping[str, Any]
    system: System
    devices: StudiedDevices
    workloads: Mapping[Workload, float]

    @property
    def provenance(self) -> str:
        """Return where the numbers come from, in words."""
        return (
            f"simulated, system {self.system.name} ({self.system.description}), "
            f"devices: {self.devices.origin}"
        )

    def goal_of(self, workload: Workload) -> Goal:
        """Return what a workload has to reach: the given goal, or its utilisation."""
        given = self.values["goal"] or {_AU: workload.utilisation_percent}
        ((quantity, value),) = given.items()
        return Goal(quantity, float(value))

    def plan(self, workload: Workload) -> Plan:
        """Return what any number of accelerators read of a workload."""
        job, goal = self.system.job, self.goal_of(workload)
        return Plan(
            workload.description(self.system.machine, self.values["seed"]),
            workload.sizes,
            self.values["dataset"] == GROWS,
            _WHOLE_EPOCH if goal.quantity == _IO_TIME else self.values["steps"],
            job.memory_gib_per_node,
            job.lfs_gib_per_node,
            workload.computed,
        )

    @property
    def most(self) -> int:
        """Return the largest number of accelerators that choices and limits allow."""
        given = self.values["choices"][_NUMBERS]
        most = given["most"] if "most" in given else max(values_of(_NUMBERS, given))
        limits, per_node = self.values["limits"], self.system.processes_per_node
        most = min(most, limits.get("nodes", most) * per_node)
        n_links = self.system.devices.get("simulation", {}).get("gfs_links", 1)
        if n_links == 1 or "links" in self.values["choices"]:
            return most
        # Links come with the nodes.
        return min(most, limits.get("links", most) * self.system.n_processes // n_links)

    @property
    def accelerators(self) -> tuple[int, ...]:
        """Return the numbers of accelerators; none if the largest is sought."""
        given = self.values["choices"][_NUMBERS]
        if "most" in given:
            return ()
        numbers = sorted(values_of(_NUMBERS, given))
        found = tuple(n for n in numbers if n <= self.most)
        if not found:
            raise ConfigError(
                f"config: designs.limits: got nodes and links of {self.most} "
                f"accelerators, expected at least those of {numbers[0]}"
            )
        return found

    @property
    def limits(self) -> dict[str, float]:
        """Return the limits by quantity; of usable room it is the least."""
        return {
            name: math.fsum(most.values()) if isinstance(most, Mapping) else most
            for name, most in self.values["limits"].items()
        }

    @property
    def storages(self) -> tuple[Storage, ...]:
        """Return the storages to choose from, within the limits of pieces and room."""
        servers = self.values["cost"].get("object_server", {})
        return within_limits(
            storages_of(self.values["choices"]),
            self.plan(next(iter(self.workloads))),
            self.limits,
            servers.get("usable_tib", 0.0),
        )

    @property
    def study(self) -> Study:
        """Return all that is needed to simulate the designs."""
        plans = {one.name: self.plan(one) for one in self.workloads}
        hours = math.fsum(self.workloads.values())
        return Study(
            plans=plans,
            shares={one.name: part / hours for one, part in self.workloads.items()},
            goals={one.name: self.goal_of(one) for one in self.workloads},
            storages=self.storages,
            accelerators=self.accelerators,
            most=None if self.accelerators else self.most,
            repetitions=self.values["repetitions"],
            simulations=self.values["simulations"],
            draws=self.devices.uncertainty,
            fit=self.values["fit"],
            cost=self.cost,
            limits=self.limits,
        )

    @property
    def cost(self) -> Cost:
        """Return what hardware costs."""
        given = dict(self.values["cost"])
        units = {name: Unit(**given.pop(name)) for name in HARDWARE if name in given}
        return Cost(units=units, **given)


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
    most = {"most": system.n_processes}
    values["choices"] = {_NUMBERS: most, **values["choices"]}
    devices = read_devices(system.devices, values["devices"])
    values.setdefault("repetitions", 1 if devices.uncertainty is None else _DRAWS)
    system = replace(system, devices=devices.devices)
    given = values["workloads"]
    parts = given if isinstance(given, Mapping) else dict.fromkeys(given, 1)
    workloads = read_workloads(parts, values["compute_time_s"], resources)
    shares = dict(zip(workloads, map(float, parts.values()), strict=True))
    study = DesignStudy(values, system, devices, shares)
    for workload in workloads:
        _check_size(study, workload)
    _check_choices(study)
    _check_fit(study)
    return study


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


def _check_choices(study: DesignStudy) -> None:
    """Refuse designs of which too little is known, or too many."""
    placements = study.values["choices"].get("placement", ())
    if POOLED in placements and "network" not in study.system.devices:
        raise ConfigError(
            f"config: designs.choices.placement: got {POOLED} with system "
            f"{study.system.name}, expected its devices to have a network, over which "
            "nodes read from each other"
        )
    if study.cost.hours is None and study.cost.accelerator_hour is not None:
        raise ConfigError(
            "config: designs.cost: got accelerator_hour without hours, expected the "
            "hours over which a purchase is written off"
        )
    known = study.cost.sums(dict.fromkeys((*HARDWARE, LFS_GIB), 1.0))
    for name, limit in study.limits.items():
        if math.isnan(known.get(name, 0.0)):
            raise ConfigError(
                f"config: designs.limits.{name}: got {limit:g}, expected designs.cost "
                f"to say {name} of some hardware"
            )
    n_designs = len(study.storages) * max(len(study.accelerators), 1)
    if n_designs > MOST_DESIGNS:
        raise ConfigError(
            f"config: designs.choices: got {n_designs} designs, expected at most "
            f"{MOST_DESIGNS}"
        )


def _check_fit(study: DesignStudy) -> None:
    """Refuse a fit to several curves, a number or a utilisation that none has."""
    if not study.values["fit"]:
        return
    for key, some in (("workloads", study.workloads), ("choices", study.storages)):
        if len(some) > 1:
            what = "storages" if key == "choices" else key
            raise ConfigError(
                f"config: designs.{key}: got {len(some)} {what} with designs.fit, "
                "expected one: the measured utilisation is of one"
            )
    (workload,), fit = study.workloads, study.values["fit"]
    _check_number(study.plan(workload), fit["accelerators"], "fit.accelerators")
    _check_requests(study.plan(workload), fit["accelerators"], "fit.accelerators")
    percent, points = fit["utilisation_percent"], fit["deviation_points"]
    if not 0 < percent - points <= percent + points <= 100:
        raise ConfigError(
            f"config: designs.fit.deviation_points: got {points:g} with "
            f"utilisation_percent {percent:g}, which is {percent - points:g} to "
            f"{percent + points:g} %, expected both ends above 0 and at most 100 %"
        )


def _check_size(study: DesignStudy, workload: Workload) -> None:
    """Refuse a workload of which too little is known, or too much to simulate."""
    plan, goal = study.plan(workload), study.goal_of(workload)
    if not workload.compute_time_s and goal.quantity == _AU:
        raise ConfigError(
            f"config: designs.compute_time_s: got none of {workload.name}, expected "
            "that of a step in seconds: its utilisation is 0 if it computes nothing"
        )
    if plan.grows and plan.memory_gib_per_node is None:
        raise ConfigError(
            f"system {study.system.name}: missing key job.memory_gib_per_node: the "
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
    _check_requests(plan, study.most, "choices.accelerators")


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
