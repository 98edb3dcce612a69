"""Checks of what feeds the accelerators: loaders, steps, ideal runs, goals of AU."""

from tierscope.core.columns import MODEL
from tierscope.core.description import PYTORCH, ComputeTime
from tierscope.core.validation import ConfigError
from tierscope.experiment.experiment import Experiment
from tierscope.policies import FILES, PLACED_PROGRAM, PROGRAM, kind_of
from tierscope.storage.clock import MAX_VIRTUAL_PREFETCH, MOST_COPIERS


def check_ideal(experiment: Experiment) -> None:
    """Refuse ideal runs that cannot be made, or say nothing of the other runs."""
    for scenario in experiment.sweep:
        if kind_of(scenario) not in (FILES, PROGRAM, PLACED_PROGRAM):
            raise ConfigError(
                f"config: sweep.ideal: got true with policy {scenario.policy} and "
                f"loader {scenario.loader}, expected policy none, pinning or "
                "stratified-pinning and a loader of files, or a program: others do "
                "more than to read files"
            )
    system = experiment.system
    if experiment.source == "measured" and system.ideal_root is None:
        raise ConfigError(
            f"config: sweep.ideal: got true, but system {system.name} names no "
            "directory in memory, expected roots: {ideal: DIRECTORY}, or ideal: {root: "
            "DIRECTORY} in its file, such as /dev/shm/$USER-tierscope"
        )


def check_steps(experiment: Experiment) -> None:
    """Refuse what only runs know whose files lie on their tiers from the start."""
    training = experiment.training
    if experiment.runs_program:
        return
    _check_compute_time(training.compute_time)
    for scenario in experiment.all_points:
        wanted = "config: sweep.loaders: got pytorch"
        if training.in_steps:
            wanted = "config: training.synchronise: got step"
        elif training.compute_time.is_random:
            wanted = "config: training.compute_time_s: got a distribution"
        elif scenario.loader != PYTORCH:
            continue
        if kind_of(scenario) is not FILES:
            raise ConfigError(
                f"{wanted} with policy {scenario.policy} and loader "
                f"{scenario.loader}, expected policy none, pinning or "
                "stratified-pinning and a loader of files: others move files, or wait "
                "for each other in an epoch"
            )


def _check_compute_time(compute: ComputeTime) -> None:
    """Refuse a deviation that the distribution of compute times cannot have."""
    words = {
        "constant": "expected 0 with distribution constant",
        "lognormal": "expected 0 with distribution lognormal and mean_s 0",
    }
    is_wrong = compute.distribution == "constant" or compute.mean_s == 0
    if compute.stdev_s > 0 and compute.distribution in words and is_wrong:
        raise ConfigError(
            f"config: training.compute_time_s.stdev_s: got {compute.stdev_s:g}, "
            f"{words[compute.distribution]}"
        )


def check_workers(experiment: Experiment) -> None:
    """Refuse more workers, or batches of theirs, than virtual time can store."""
    loader, system = experiment.loader, experiment.system
    where = f"on the emulated tiers of system {system.name}"
    if loader.workers > MOST_COPIERS:
        raise ConfigError(
            f"config: loader.workers: got {loader.workers}, expected at most "
            f"{MOST_COPIERS} {where}"
        )
    if (depth := loader.workers * loader.prefetch_factor) > MAX_VIRTUAL_PREFETCH:
        raise ConfigError(
            f"config: loader.prefetch_factor: got {loader.prefetch_factor} with "
            f"{loader.workers} workers, {depth} batches, expected at most "
            f"{MAX_VIRTUAL_PREFETCH} batches {where}"
        )


def check_utilisation_goal(experiment: Experiment) -> None:
    """Refuse a goal of utilisation that the model cannot ask, or that no run meets."""
    settings = experiment.settings
    where = "config: whatif.goal.of: got utilisation, expected io_time"
    if experiment.runs_program:
        raise ConfigError(
            f"{where} with a program: the model does not know when it computes"
        )
    if settings["whatif"]["goal"]["percent"] is None:
        raise ConfigError(
            "config: whatif.goal.percent: got null, expected the least utilisation in "
            "percent, above 0 and at most 100, with of: utilisation"
        )
    if MODEL not in settings["figures"]["methods"]:
        raise ConfigError(
            "config: figures.methods: got only rule, expected model with whatif.goal "
            "of utilisation: the rule does not know which I/O computation hides"
        )
    if (reason := experiment.why_no_model) is not None:
        why = reason.removeprefix("config: ")
        raise ConfigError(f"{where}, as there is no model: {why}")
    if (model := settings["model"]["whatif"]) != "simulation":
        raise ConfigError(
            f"config: model.whatif: got {model}, expected simulation with "
            "whatif.goal.of utilisation: order statistics know no computation"
        )
    if not experiment.training.computes:
        raise ConfigError(
            "config: training.compute_time_s: got 0, expected more with whatif.goal.of "
            "utilisation: without computation the utilisation is always 0 %"
        )
    _check_two_steps(experiment)


def _check_two_steps(experiment: Experiment) -> None:
    """Refuse a goal of utilisation if a process may have a single step."""
    name = experiment.settings["figures"]["scenario"]["dataset"]
    dataset = experiment.datasets[name]
    n_files = dataset.n_files // experiment.system.n_processes
    if n_files <= dataset.batch_size:
        raise ConfigError(
            f"config: datasets.{name}.batch_size: got {dataset.batch_size} for "
            f"{n_files} files a process, expected at least 2 steps an epoch with "
            "whatif.goal.of utilisation, which leaves out the first"
        )
