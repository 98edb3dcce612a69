"""Checks of a whole experiment, which no schema of one value can express."""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tierscope.core.description import PYTORCH
from tierscope.core.files import overlap
from tierscope.core.given.secrets import command_words
from tierscope.core.io_class import IOClass
from tierscope.core.machine import Machine, TierError
from tierscope.core.scenario import (
    PROGRAM_LOADER,
    Dataset,
    Scenario,
    Sweep,
    UserDataset,
)
from tierscope.core.validation import ConfigError
from tierscope.data.record_order import order_of
from tierscope.experiment.experiment import Experiment
from tierscope.experiment.job import RESERVED, JobError, site_resources
from tierscope.experiment.job import launcher as launcher_of
from tierscope.experiment.system import System
from tierscope.experiment.training_checks import (
    check_steps,
    check_utilisation_goal,
    check_workers,
)
from tierscope.policies import (
    DATABASE,
    PEERS,
    PROGRAM_POLICIES,
    kind_of,
    of_kind,
)
from tierscope.storage.clock import MAX_VIRTUAL_PREFETCH, MOST_COPIERS
from tierscope.storage.emulated.scale import emulated_machine, scale_gfs, scale_lfs
from tierscope.storage.queueing_network import ModelError, network_of

# Above it the four-dimensional grid of the what-if search needs memory and minutes.
MAX_GRID_STEPS = 100
MOST_BYTES = 2**63 - 1
MOST_VIRTUAL_S = (2**63 - 1) / 1e9  # nanoseconds are counted in 64 bits
# Options of sbatch that the executor plugin sets itself, and refuses at a submission.
_OPTIONS = """
    --job-name -J --output -o --error -e --parsable --export --comment --workdir -D
    --account -A --partition -p --mem --mem-per-cpu --ntasks -n --ntasks-per-gpu
    --cpus-per-task -c --cpus-per-gpu --time -t --constraint -C --qos --nodes -N
    --clusters --gres --gpus
"""
SET_BY_SLURM_PLUGIN = frozenset(_OPTIONS.split())
# Limit of virtual_time.h: tokens that a reader of a database may give in an epoch
# (MOST_TOKENS).
MAX_VIRTUAL_TOKENS = 4000


def check_devices(system: System, n_osts: list[int]) -> None:
    """Refuse an emulation if its devices cannot be made."""
    if system.source != "emulated":
        return
    try:
        for count in n_osts:
            machine = emulated_machine(system, count)
            scale_gfs(machine, system.n_processes, ["/gfs"])
            scale_lfs(machine, system.n_processes, lambda _: ["/lfs"])
    except ValueError as error:
        raise ConfigError(f"system {system.name}: emulation: {error}") from error


def check_tiers_of_programs(system: System, simulated: bool) -> None:
    """Refuse a program of the user on tiers whose clock cannot know what it does."""
    source = "simulated" if simulated else system.source
    if source != "measured":
        raise ConfigError(
            f"config: loader.command: got a program with {source} tiers of "
            f"system {system.name}, whose clock cannot know when a program reads, "
            "computes and waits; expected a system with real tiers, or loader "
            "tensorflow or posix with datasets of the same shape"
        )


def check_n_osts(n_osts: int, system: System, simulated: bool) -> None:
    """Refuse an OST count that the system's GFS cannot have."""
    if simulated:
        if system.devices is None:
            raise ConfigError(
                f"config: simulate: got true, expected false: system {system.name} has "
                "no devices, and a simulation needs their service times"
            )
        available = system.devices["gfs"]["n_osts"]
        wanted, fits = f"1 to {available}", 1 <= n_osts <= available
    elif system.gfs.kind == "directory":
        available = system.gfs.n_osts or 0
        wanted = f"{available} (gfs.n_osts of a directory, by default 0, not known)"
        fits = n_osts == available
    else:
        if system.gfs.kind == "lustre":
            available = system.gfs.n_osts
        else:
            available = system.devices["gfs"]["n_osts"]
        wanted, fits = f"1 to {available}", 1 <= n_osts <= available
    is_striped = system.gfs.kind == "lustre" and not simulated
    if fits and is_striped and n_osts not in (1, available):
        pools = sorted(map(str, system.gfs.pools or {}))
        wanted += f", with an entry in gfs.pools (present: {', '.join(pools) or '-'})"
        fits = str(n_osts) in pools
    if not fits:
        raise ConfigError(
            f"config: sweep.n_osts: got {n_osts}, expected {wanted} on system "
            f"{system.name}"
        )


_Cases = Iterable[tuple[Any, str]]
# Why a value is refused.
_OF_WORKERS = "with loader pytorch and loader.workers"
_WHOLE_JOB = "a Darshan log covers a whole MPI job"
_UNSEEN_READS = "under MPI a site's Darshan does not see the reads of workers"
_UNSEEN_CLOCK = "a site's Darshan would not see their clock"
_THREADS = "virtual time cannot follow work between the loader's threads"
_MOUNT = "reads from the mount would take real time, not emulated time"
_THREAD_SECONDS = "I/O time is then thread-seconds"
_SUM_OF_WORKERS = "I/O time is a sum over workers"


def _refuse_in(cases: _Cases, where: str, got: Any, expected: str) -> None:
    """Refuse a value of the configuration in the first case that is true.

    Cases are pairs of a condition and what follows `expected` if it holds.
    """
    for is_so, case in cases:
        if is_so:
            raise ConfigError(f"config: {where}: got {got}, expected {expected} {case}")


def check_nodes(experiment: Experiment, n_nodes: list[int]) -> None:
    """Refuse a study of nodes that cannot be made."""
    if not n_nodes:
        return
    where, system = "studies.nodes.n_nodes", experiment.system
    base = Scenario(**experiment.settings["figures"]["scenario"])
    of_files = "in figures.scenario: Monarch needs a loader of files"
    cases = (
        (experiment.simulated, "for simulated runs"),
        (experiment.runs_program, "with a program (loader.command)"),
        (base.reads_database, f"with loader {base.loader} {of_files}"),
    )
    _refuse_in(cases, where, n_nodes, "[]")
    for count in n_nodes:
        if system.n_processes % count:
            raise ConfigError(
                f"config: {where}: got {count}, expected divisors of "
                f"{system.n_processes}, the number of processes of system {system.name}"
            )


def check_experiment(experiment: Experiment) -> None:
    """Refuse sections of a configuration that do not fit each other or the system.

    Raises
    ------
    ConfigError
        One line that names the key path, the value and what was expected.
    """
    _check_programs(experiment)
    check_steps(experiment)
    _check_size(experiment)
    _check_runtime(experiment)
    _check_figures(experiment)
    _check_accuracy(experiment.settings["studies"]["accuracy"])
    _check_whatif(experiment)
    _check_model(experiment)
    kinds = dict.fromkeys(map(kind_of, experiment.all_points))
    for one in (*kinds, experiment.source):
        for check in _CHECKS.get(one, ()):
            check(experiment)
    _check_threads(experiment)


def _check_programs(experiment: Experiment) -> None:
    """Refuse what cannot be done with a program of the user, and loader without one."""
    loaders = experiment.loaders
    command = experiment.settings["loader"]["command"]
    if command is None:
        if PROGRAM_LOADER in loaders:
            raise ConfigError(
                f"config: loader.command: got null, expected the command of loader "
                f"{PROGRAM_LOADER}, such as [python, train.py, --data, "
                '"{dataset}"]'
            )
        return
    if not command[0].strip():
        raise ConfigError(
            f"config: loader.command.0: got {command[0]!r}, expected a program"
        )
    for dataset in experiment.datasets.values():
        _check_place(dataset, experiment.system)
    if others := sorted(loaders - {PROGRAM_LOADER}):
        raise ConfigError(
            f"config: sweep.loaders: got {others[0]} and loader.command, expected "
            f"[{PROGRAM_LOADER}]: the command reads in place of our loaders"
        )
    for scenario in experiment.all_points:
        if scenario.policy not in PROGRAM_POLICIES:
            raise ConfigError(
                f"config: sweep.policies: got {scenario.policy}, expected "
                f"{', '.join(PROGRAM_POLICIES[:-1])} or {PROGRAM_POLICIES[-1]} with a "
                "program of yours: others must know the order of its reads, or serve "
                "them from other nodes"
            )
    if not experiment.settings["loader"]["in_place"] and not any(
        "{dataset}" in word for word in command
    ):
        raise ConfigError(
            f"config: loader.command: got {command_words(command)!r}, expected "
            "{dataset} in it, which stands for the path of the dataset (or "
            "in_place: true)"
        )


def _check_place(dataset: Dataset | UserDataset, system: System) -> None:
    """Refuse a dataset that cannot be listed here, or that overlaps with the LFS."""
    if isinstance(dataset, Dataset):
        try:
            system.gfs.data_root()
        except TierError as error:
            raise ConfigError(
                f"config: sweep.datasets: got {dataset.name} with a program, expected "
                f"a GFS on which its files can be listed here: {error}"
            ) from error
        return
    for name, one in (("LFS", system), ("directory of ideal runs", system.ideal())):
        with suppress(TierError):  # known on a node only, which looks again
            lfs = one.lfs.data_root().parent
            if overlap(dataset.path, lfs):
                raise ConfigError(
                    f"config: datasets.{dataset.name}.path: got {dataset.path!r} and "
                    f"{name} {str(lfs)!r}, expected folders of which none holds the "
                    "other"
                )


def _check_runtime(experiment: Experiment) -> None:
    """Refuse a Darshan log of a whole MPI job where it cannot tell what we ask."""
    system, workers = experiment.system, experiment.loader.workers
    if experiment.runs_program or experiment.runtime == "builtin":
        return
    several = system.points_per_launch == "all"
    emulated = experiment.source == "emulated"
    cases = (
        (several, f"with points_per_launch all of system {system.name}: {_WHOLE_JOB}"),
        (experiment.has_workers, f"{_OF_WORKERS} {workers}: {_UNSEEN_READS}"),
        (emulated, f"on the emulated tiers of {system.name}: {_UNSEEN_CLOCK}"),
    )
    _refuse_in(cases, "darshan.runtime", repr(experiment.runtime), "auto or builtin")


def _check_threads(experiment: Experiment) -> None:
    """Refuse read threads where one reads for a process."""
    threads, system = experiment.read_threads, experiment.system
    databases = (one.loader for one in experiment.all_points if one.reads_database)
    if threads == 1:
        return
    database, emulated = next(databases, None), experiment.source == "emulated"
    cases = (
        (database, f"with loader {database}"),
        (experiment.simulated, "for simulated runs"),
        (emulated, f"on the emulated tiers of system {system.name}: {_THREADS}"),
    )
    _refuse_in(cases, "loader.read_threads", threads, "1")


def _check_emulation(experiment: Experiment) -> None:
    """Refuse settings that emulated tiers do not support."""
    loader, system = experiment.loader, experiment.system
    prefetched, loaders = loader.prefetch_batches, experiment.loaders
    if loaders != {PYTORCH} and prefetched > MAX_VIRTUAL_PREFETCH:
        raise ConfigError(
            f"config: loader.prefetch_batches: got {prefetched}, expected at most "
            f"{MAX_VIRTUAL_PREFETCH} on the emulated tiers of system {system.name}"
        )
    if PYTORCH in loaders:
        check_workers(experiment)
    threads = experiment.settings["policies"]["copy_threads"]
    if threads > MOST_COPIERS:
        raise ConfigError(
            f"config: policies.copy_threads: got {threads}, expected at most "
            f"{MOST_COPIERS} on the emulated tiers of system {system.name}"
        )
    for scenario in experiment.all_points:
        if scenario.reads_database:
            _check_tokens(experiment, scenario)


def _check_tokens(experiment: Experiment, scenario: Scenario) -> None:
    """Refuse readers that give more tokens than virtual time can store."""
    description = experiment.description(scenario)
    if "stag" not in description.lmdb.optimisations:
        return
    order = order_of(description, repetition=0)
    fetch = order.batch_size * description.lmdb.steps_per_fetch
    if (n_tokens := math.ceil(order.most_records / fetch)) > MAX_VIRTUAL_TOKENS:
        raise ConfigError(
            f"config: sweep.loaders: got {scenario.loader}, whose readers give "
            f"{n_tokens} tokens in an epoch of {scenario.dataset}, expected at most "
            f"{MAX_VIRTUAL_TOKENS} on the emulated tiers of {experiment.system.name}"
        )


def _check_jobs(experiment: Experiment) -> None:
    """Refuse jobs that cannot be described or request too much."""
    system = experiment.system
    try:
        launcher_of(system, log="log")
        for rule, resources in system.job.resources.items():
            site_resources(system, rule, lfs_mib=1)
            if reserved := sorted(RESERVED & set(resources)):
                raise JobError(f"resources.{rule}: got {reserved[0]}, set by tierscope")
            if system.job.scheduler == "slurm":
                _check_slurm_options(rule, resources)
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


def _check_slurm_options(rule: str, resources: Mapping[str, Any]) -> None:
    """Refuse options that the executor plugin for Slurm sets, such as ``-Amine``."""
    if rule == "run_benchmark" and "tasks_per_node" in resources:
        raise JobError(
            f"resources.{rule}: got tasks_per_node, expected --ntasks-per-node="
            "{processes_per_node} in slurm_extra: tierscope sets tasks"
        )
    for word in resources.get("slurm_extra", "").split():
        option = word.partition("=")[0] if word.startswith("--") else word[:2]
        if option in SET_BY_SLURM_PLUGIN:
            raise JobError(
                f"resources.{rule}.slurm_extra: got {word!r}, expected a resource for "
                f"it: the executor plugin sets {option}"
            )


def _check_size(experiment: Experiment) -> None:
    """Refuse runs of more reads, bytes or virtual time than can be counted."""
    epochs = experiment.training.epochs
    most = experiment.origin.most_reads
    for dataset in experiment.datasets.values():
        if isinstance(dataset, UserDataset):
            continue
        n_reads = dataset.n_files * epochs
        if n_reads > most:
            raise ConfigError(
                f"config: training.epochs: got {epochs} with {dataset.n_files} files "
                f"of dataset {dataset.name}, expected at most {most} reads in a run "
                f"(epochs times files) that is {experiment.source}"
            )
        if (n_bytes := n_reads * dataset.file_size_bytes) > MOST_BYTES:
            raise ConfigError(
                f"config: datasets.{dataset.name}: got {n_bytes} bytes in {epochs} "
                f"epochs, expected at most {MOST_BYTES}"
            )
        if experiment.source == "measured":
            continue
        if (time_s := _longest_s(experiment, dataset)) > MOST_VIRTUAL_S:
            raise ConfigError(
                f"config: datasets.{dataset.name}: got reads, steps and devices of "
                f"system {experiment.system.name} that may take {time_s:.2g} s in a "
                f"run, expected at most {MOST_VIRTUAL_S:.2g} s"
            )


def _longest_s(experiment: Experiment, dataset: Dataset) -> float:
    """Return the time of a run in which each call waits for all others."""
    parts = [
        part for part in experiment.system.devices.values() if isinstance(part, Mapping)
    ]
    numbers = [(key, one) for part in parts for key, one in part.items()]
    rates = [one for key, one in numbers if key.endswith("bytes_per_s")]
    call_s = math.fsum(
        one for key, one in numbers if key.endswith("_s") and not key.endswith("per_s")
    )
    least = min(one for key, one in numbers if key == "request_bytes")
    n_calls = 1 + math.ceil(dataset.file_size_bytes / least)
    byte_s = math.fsum(1 / one for one in rates)
    read_s = n_calls * call_s + dataset.file_size_bytes * byte_s
    n_files = math.ceil(dataset.n_files / experiment.system.n_processes)
    steps_s = math.ceil(n_files / dataset.batch_size)
    steps_s *= experiment.training.compute_time.mean_s
    return experiment.training.epochs * (dataset.n_files * read_s + steps_s)


def _check_simulation(experiment: Experiment) -> None:
    """Refuse devices that the simulator does not know."""
    for scenario in experiment.sweep:
        try:
            network_of(experiment.system, scenario.n_osts)
        except ModelError as error:
            raise ConfigError(f"system {experiment.system.name}: {error}") from error


def _check_databases(experiment: Experiment) -> None:
    """Refuse settings that the LMDB loaders do not support."""
    for scenario in experiment.all_points:
        if kind_of(scenario) is not DATABASE:
            continue
        if scenario.policy != "pinning":
            raise ConfigError(
                f"config: sweep.policies: got {scenario.policy}, expected pinning with "
                f"loader {scenario.loader}: the LFS holds the first part of its file"
            )
        n_servers = experiment.system.n_object_servers(scenario.n_osts) or 1
        if n_servers > 1:
            raise ConfigError(
                f"config: sweep.loaders: got {scenario.loader}, but the emulated GFS "
                f"has {n_servers} object servers for {scenario.n_osts} OSTs and keeps "
                "a file on one of them"
            )
    switches = experiment.settings["lmdb"]["lmdbio"]
    if switches["dm"] and switches["prov"]:
        raise ConfigError(
            "config: lmdb.lmdbio.dm: got true, expected false with prov: prov "
            "computes the offsets and walks no tree"
        )


def _check_peers(experiment: Experiment) -> None:
    """Refuse reads from peers that are impossible or would give wrong times."""
    system, source = experiment.system, experiment.source
    if source != "measured" and "network" not in (system.devices or {}):
        raise ConfigError(
            f"config: sweep.policies: got adhoc, but the file of system {system.name} "
            f"lacks devices.network, which {source} reads from other nodes need"
        )
    if (mount := experiment.settings["policies"]["adhoc"]["mount"]) is not None:
        if not Path(mount).is_absolute():
            raise ConfigError(
                f"config: policies.adhoc.mount: got {mount!r}, expected an absolute "
                "path, the same on all nodes"
            )
        emulated = system.source == "emulated"
        cases = (
            (emulated, f"with the emulated devices of system {system.name}: {_MOUNT}"),
            (experiment.simulated, "for simulated runs"),
        )
        _refuse_in(cases, "policies.adhoc.mount", repr(mount), "null")
    policy = experiment.settings["figures"]["scenario"]["policy"]
    if policy in of_kind(PEERS):
        raise ConfigError(
            f"config: figures.scenario.policy: got {policy}, expected one that reads "
            "from no other node: the what-if knows only the paper's four I/O classes"
        )


def _check_figures(experiment: Experiment) -> None:
    """Refuse figures of an epoch or a scenario that is not run."""
    figures = experiment.settings["figures"]
    epochs = experiment.training.epochs
    if figures["epoch"] >= epochs and not experiment.runs_program:
        raise ConfigError(
            f"config: figures.epoch: got {figures['epoch']}, expected 0 to "
            f"{epochs - 1} (training.epochs is {epochs})"
        )
    if Scenario(**figures["scenario"]) not in experiment.sweep:
        raise ConfigError(_no_such_scenario(figures["scenario"], experiment.sweep))


def _no_such_scenario(wanted: Mapping[str, Any], sweep: Sweep) -> str:
    """Return the error of a scenario of the figures, with one that fits."""

    def differing(scenario: Scenario) -> dict[str, Any]:
        return {key: one for key, one in scenario.keys.items() if one != wanted[key]}

    fitting = [scenario for scenario in sweep if kind_of(scenario) is not PEERS]
    cached = [
        scenario
        for scenario in fitting
        if any(point.cache_rate_percent for point in sweep[scenario])
    ]
    candidates = cached or fitting or sweep
    nearest = differing(min(candidates, key=lambda one: len(differing(one))))
    got = ", ".join(f"{key} {wanted[key]}" for key in nearest)
    fit = ", ".join(f"{key}: {value}" for key, value in nearest.items())
    return (
        f"config: figures.scenario: got {got}, but the sweep has no such scenario "
        "(keys that your file omits are as in config/config.yaml), expected one of the "
        f"sweep, such as figures: {{scenario: {{{fit}}}}}"
    )


def _check_model(experiment: Experiment) -> None:
    """Refuse an unknown calibration, and estimates without any method."""
    model = experiment.settings["model"]
    if model["calibration"] not in {None, *model["calibrations"]}:
        raise ConfigError(
            f"config: model.calibration: got {model['calibration']!r}, expected null "
            f"or one of {', '.join(model['calibrations'])}"
        )
    if not experiment.methods:
        raise ConfigError(
            "config: figures.methods: got only model, expected rule as well: "
            f"{experiment.why_no_model}"
        )


def _check_accuracy(study: Mapping[str, Any]) -> None:
    """Refuse a training that does not use all files, or lacks a class."""
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
    """Refuse a search with no or too many steps, and a goal without meaning."""
    goal, search = (experiment.settings["whatif"][key] for key in ("goal", "search"))
    largest, step = search["max_improvement_percent"], search["step_percent"]
    if not 1 <= largest // step <= MAX_GRID_STEPS:
        raise ConfigError(
            f"config: whatif.search.step_percent: got {step}, expected 1 to "
            f"{MAX_GRID_STEPS} steps up to max_improvement_percent {largest}"
        )
    if experiment.has_utilisation_goal:
        check_utilisation_goal(experiment)
    elif (percent := goal["percent"]) is not None:
        raise ConfigError(
            f"config: whatif.goal.percent: got {percent:g} with of: {goal['of']}, "
            "expected null, or of: utilisation"
        )
    if goal["of"] != "execution_time":
        return
    threads, workers = experiment.read_threads, experiment.loader.workers
    add_up = PYTORCH in experiment.loaders and workers > 1
    cases = (
        (experiment.runs_program, f"with a program: its {_SUM_OF_WORKERS}"),
        (threads > 1, f"with loader.read_threads {threads}: {_THREAD_SECONDS}"),
        (add_up, f"{_OF_WORKERS} {workers}: I/O time is then a sum over workers"),
    )
    _refuse_in(cases, "whatif.goal.of", goal["of"], "io_time")


def require_improvable_devices(
    system: Machine,
    simulated: bool,
    improvements: Iterable[Mapping[str, int]],
) -> None:
    """Refuse to make real storage faster.

    Parameters
    ----------
    system : Machine
        A checked system.
    simulated : bool
        Whether its runs are simulated; then all its devices can be faster.
    improvements : iterable of mappings of str to int
        Improvements in percent by I/O class.

    Raises
    ------
    ConfigError
        If a tier to improve is neither emulated nor simulated.
    """
    tiers = sorted({IOClass(name).tier for one in improvements for name in one})
    real = [tier for tier in tiers if tier not in system.emulated_tiers]
    if real and not simulated:
        raise ConfigError(
            f"whatif-truth: got system {system.name} with {real[0]}.kind "
            f"{system.tiers[real[0]].kind}, expected emulated (or simulate: true): "
            "the workflow cannot make real storage faster."
        )


# What else is checked for a kind of run, and for a source of the numbers.
_CHECKS = {
    DATABASE: (_check_databases,),
    PEERS: (_check_peers,),
    "measured": (_check_jobs,),
    "emulated": (_check_jobs, _check_emulation),
    "simulated": (_check_simulation,),
}
