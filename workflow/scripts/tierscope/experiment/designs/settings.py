"""The configuration of target `accelerators`: read, check, complete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tierscope.core.validation import (
    ConfigError,
    check,
    read_yaml,
    without_defaults,
)
from tierscope.data.designs import MOST_REQUESTS, Plan
from tierscope.experiment.designs.workloads import Workload, read_workloads
from tierscope.experiment.system import System, read_system

ACCELERATORS = "accelerators"  # the key that makes a configuration one of these
GROWS = "grows"
_DEFAULTS = {
    "devices": None,
    "compute_time_s": {},
    "most": None,
    "cache_rates_percent": [0],
    "dataset": GROWS,
    "steps": 50,
    "goal_percent": None,
    "repetitions": 1,
    "seed": 1,
    "fit": None,
}


@dataclass(frozen=True)
class AcceleratorStudy:
    """A checked configuration; the schema `accelerators` says what the keys mean."""

    system: System
    workloads: tuple[Workload, ...]
    most: int
    devices: str | None
    cache_rates_percent: Sequence[int]
    dataset: str
    steps: int
    goal_percent: float | None
    repetitions: int
    seed: int
    fit: Mapping[str, Any] | None

    @property
    def provenance(self) -> str:
        """Return where the numbers come from, in words."""
        origin = self.devices or self.system.devices["origin"]
        return (
            f"simulated, system {self.system.name} ({self.system.description}), "
            f"devices: {origin}"
        )

    def workload(self, name: str) -> Workload:
        """Return a workload by its name."""
        return next(one for one in self.workloads if one.name == name)

    def goal_of(self, name: str) -> float:
        """Return the utilisation that a workload has to reach, in percent."""
        given = self.goal_percent
        return self.workload(name).utilisation_percent if given is None else given

    def plan(self, name: str) -> Plan:
        """Return what any number of accelerators read of a workload."""
        workload, job = self.workload(name), self.system.job
        return Plan(
            workload.description(self.system.machine, self.seed),
            workload.sizes,
            self.dataset == GROWS,
            self.steps,
            job.memory_gib_per_node,
            job.lfs_gib_per_node,
        )


def is_of_accelerators(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration is one of accelerators, and of no experiment."""
    return ACCELERATORS in config


def read_study(
    config: Mapping[str, Any], defaults: Mapping[str, Any], *resources: str | Path
) -> AcceleratorStudy:
    """Check a configuration of accelerators, its system and its workloads.

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
    own = without_defaults(
        config, {ACCELERATORS, "experiment", "system"}, defaults, "study"
    )
    check(own, ACCELERATORS, "config")
    values = _DEFAULTS | own[ACCELERATORS]
    system = _system(own["system"], resources)
    if values["devices"] is not None:
        system = _with_devices(system, values["devices"])
    names, times_s = values.pop("workloads"), values.pop("compute_time_s")
    workloads = read_workloads(names, times_s, resources)
    if values["most"] is None:
        values["most"] = system.n_processes
    study = AcceleratorStudy(system=system, workloads=workloads, **values)
    for workload in workloads:
        _check_size(study, workload)
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


def _with_devices(system: System, path: str) -> System:
    """Return a system with the devices of a file that target `calibrate` wrote."""
    if not Path(path).is_file():
        raise ConfigError(
            f"config: accelerators.devices: got {path!r}, expected a file "
            "devices.yaml that target calibrate wrote"
        )
    content = read_yaml(path)
    check(content, "system", path, "devices")
    return replace(system, devices={**system.devices, **content["devices"]})


def _check_fit(study: AcceleratorStudy) -> None:
    """Refuse a fit to more than one curve, or to a number that is not simulated."""
    if study.fit:
        _check_fitted_number(study.plan(study.workloads[0].name), study.fit)
    for key in ("workloads", "cache_rates_percent"):
        if study.fit and (n := len(getattr(study, key))) > 1:
            raise ConfigError(
                f"config: accelerators.{key}: got {n} with accelerators.fit, expected "
                "one: the measured utilisation is of one"
            )


def _check_fitted_number(plan: Plan, fit: Mapping[str, Any]) -> None:
    """Refuse a number that cannot be simulated, and a utilisation that none has."""
    n = fit["accelerators"]
    if n != plan.whole(n):
        raise ConfigError(
            f"config: accelerators.fit.accelerators: got {n}, expected whole nodes of "
            f"{plan.machine.processes_per_node} processes"
        )
    if not plan.grows and plan.n_steps(n) < 2:
        raise ConfigError(
            f"config: accelerators.fit.accelerators: got {n}, whose epoch has fewer "
            "than 2 steps, expected fewer accelerators"
        )
    _check_requests(plan, n, "fit.accelerators")
    percent, points = fit["utilisation_percent"], fit["deviation_points"]
    if not 0 < percent - points <= percent + points <= 100:
        raise ConfigError(
            f"config: accelerators.fit.deviation_points: got {points:g} with "
            f"utilisation_percent {percent:g}, which is {percent - points:g} to "
            f"{percent + points:g} %, expected both ends above 0 and at most 100 %"
        )


def _check_size(study: AcceleratorStudy, workload: Workload) -> None:
    """Refuse a workload of which too little is known, or too much to simulate."""
    plan = study.plan(workload.name)
    if plan.grows and plan.memory_gib_per_node is None:
        raise ConfigError(
            f"system {study.system.name}: missing key job.memory_gib_per_node: the "
            "dataset grows with the memory of the nodes; give it, or set "
            "accelerators.dataset: fixed"
        )
    least = 2 * (workload.depth + 1)
    if plan.steps < min(least, plan.n_steps(1)):
        raise ConfigError(
            f"config: accelerators.steps: got {plan.steps}, expected at least {least} "
            f"for {workload.name}, whose loader reads {workload.depth} batches ahead"
        )
    if plan.n_steps(1) < 2:
        raise ConfigError(
            f"workload {workload.name}: got {workload.n_files} files, expected at "
            f"least two batches of {workload.batch_size}"
        )
    _check_requests(plan, study.most, "most")


def _check_requests(plan: Plan, n: int, key: str) -> None:
    """Refuse a number of accelerators that make too many requests to simulate."""
    if (n_requests := plan.n_requests(plan.whole(n))) > MOST_REQUESTS:
        raise ConfigError(
            f"config: accelerators.{key}: got {n} accelerators of "
            f"{plan.description.dataset.name}, which make {n_requests:.2g} requests in "
            f"{plan.steps} steps, expected at most {MOST_REQUESTS:.2g}: give fewer "
            "accelerators, fewer steps, or larger request_bytes in the system's devices"
        )
