"""The experiment: a frozen object with scenarios and all their settings."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tierscope.core.columns import MODEL
from tierscope.core.description import (
    PYTORCH,
    LoaderSettings,
    ProbeDescription,
    ProgramSettings,
    RunDescription,
    Training,
    program_training,
)
from tierscope.core.scenario import (
    MAIN_SWEEP,
    CalibrationPlan,
    Dataset,
    Point,
    Scenario,
    Sweep,
    UserDataset,
)
from tierscope.core.validation import ConfigError
from tierscope.data.lmdb.settings import lmdb_settings
from tierscope.experiment.job import BenchmarkJob, ProgramJob, ProgramNeeds
from tierscope.experiment.keys.config import Settings
from tierscope.experiment.sources import SOURCES, Source
from tierscope.experiment.system import System
from tierscope.policies import FILES, PEERS, kind_of, of_kind, policy_options
from tierscope.storage.emulated.scale import not_emulated
from tierscope.storage.probes import largest_probed, lfs_rate_percent
from tierscope.storage.queueing_network import ModelError, network_of

AUTO = "auto"  # what the configuration leaves to tierscope


@dataclass(frozen=True)
class Experiment:
    """A checked experiment: its scenarios and all their settings.

    `sweep` maps each scenario to its points. `studies` holds further sweeps by name;
    they run on request and may share points. `settings` holds the other sections of the
    configuration. `simulated` says whether runs are simulated.
    """

    name: str
    system: System
    datasets: Mapping[str, Dataset | UserDataset]
    sweep: Sweep
    settings: Settings
    simulated: bool = False
    studies: Mapping[str, Sweep] = field(default_factory=dict)

    @property
    def training(self) -> Training:
        """Return the settings of the training."""
        return Training(**self.settings["training"])

    @property
    def loader(self) -> LoaderSettings:
        """Return the settings of the loaders."""
        return LoaderSettings(**self._of_loader(LoaderSettings))

    def _of_loader(self, kind: type) -> dict[str, Any]:
        """Return the keys of section `loader` that a dataclass has."""
        section = self.settings["loader"]
        return {one.name: section[one.name] for one in fields(kind)}

    @property
    def runs_program(self) -> bool:
        """Return whether a program of the user reads, in place of our loaders."""
        return self.settings["loader"]["command"] is not None

    @property
    def needs_pytorch(self) -> bool:
        """Return whether PyTorch itself reads, as it does on real tiers."""
        loaders = {scenario.loader for scenario in self.all_points}
        return self.origin.has_own_devices and PYTORCH in loaders

    @property
    def source(self) -> str:
        """Return the source of the numbers: that of the system, or ``simulated``."""
        return "simulated" if self.simulated else self.system.source

    @property
    def origin(self) -> Source:
        """Return what differs by the source of the numbers."""
        return SOURCES[self.source]

    @property
    def provenance(self) -> str:
        """Return the source of the numbers in words, for figures."""
        return self.origin.words(self.system.devices)

    @property
    def has_utilisation_goal(self) -> bool:
        """Return whether the goal is one of accelerator utilisation."""
        return self.settings["whatif"]["goal"]["of"] == "utilisation"

    @property
    def loaders(self) -> set[str]:
        """Return the loaders of the sweep and the studies."""
        return {scenario.loader for scenario in self.all_points}

    @property
    def read_threads(self) -> int:
        """Return the read threads of the loaders; `pytorch` has none."""
        return 1 if self.loaders == {PYTORCH} else self.loader.read_threads

    @property
    def methods(self) -> tuple[str, ...]:
        """Return the possible ones of the requested methods of estimating.

        Only the model knows what a goal of utilisation asks for.
        """
        wanted = self.settings["figures"]["methods"]
        if self.has_utilisation_goal:
            wanted = [method for method in wanted if method == MODEL]
        if MODEL in wanted and self.why_no_model is not None:
            return tuple(method for method in wanted if method != MODEL)
        return tuple(wanted)

    @property
    def used_calibration(self) -> str | None:
        """Return the calibration that estimates use; simulated devices need none."""
        return self.origin.calibration(self.settings["model"]["calibration"])

    @property
    def why_no_model(self) -> str | None:
        """Return why the model cannot estimate, None if it can."""
        scenario = Scenario(**self.settings["figures"]["scenario"])
        is_simulated = self.settings["model"]["whatif"] == "simulation"
        known = of_kind(FILES) if is_simulated else ("pinning",)
        if kind_of(scenario) is not FILES or scenario.policy not in known:
            return (
                f"config: figures.scenario: got policy {scenario.policy}, loader "
                f"{scenario.loader}; the model knows {', '.join(known)} and loaders of "
                "files"
            )
        if reason := self._why_no_devices(scenario.n_osts):
            return reason
        by_workers = scenario.loader == PYTORCH
        if (threads := self.loader.read_threads) != 1 and not by_workers:
            return f"config: loader.read_threads: got {threads}, the model knows 1"
        training, model = self.training, self.settings["model"]["whatif"]
        needs_steps = training.in_steps or training.compute_time.is_random
        if not is_simulated and (needs_steps or by_workers):
            return (
                f"config: model.whatif: got {model}, expected simulation with loader "
                "pytorch, synchronise step or computation that varies"
            )
        return None

    def _why_no_devices(self, n_osts: int) -> str | None:
        """Return why models know no devices, None if they know them."""
        try:
            if self.origin.is_launched:
                if self.used_calibration is None:
                    return "config: model.calibration: got null"
                self.calibration(self.used_calibration)
            network_of(self.system, n_osts)
        except (ConfigError, ModelError) as error:
            return str(error)
        return None

    @property
    def computes(self) -> bool:
        """Return whether a training computes; not known of a program of the user."""
        return not self.runs_program and self.training.computes

    @property
    def may_hide_io(self) -> bool:
        """Return whether computation may hide I/O time; that of a program may."""
        return self.runs_program or self.training.computes

    @property
    def stalling(self) -> list[Scenario]:
        """Return the scenarios of the sweep whose stall the model can divide."""
        one_thread = self.loader.read_threads == 1
        return [
            one
            for one in self.sweep
            if kind_of(one) is FILES and (one_thread or one.loader == PYTORCH)
        ]

    @property
    def why_no_stalls(self) -> str | None:
        """Return why the model cannot divide the stall by class, None if it can."""
        if MODEL not in self.settings["figures"]["methods"]:
            return f"config: figures.methods: got no {MODEL}"
        if not self.stalling:
            return (
                "sweep: got no scenario whose stall the model can divide, expected a "
                "loader of files with one read thread and one of the policies "
                f"{', '.join(of_kind(FILES))}"
            )
        return self._why_no_devices(self.stalling[0].n_osts)

    @property
    def sweeps(self) -> dict[str, Sweep]:
        """Return the main sweep and those of the studies, by name."""
        return {MAIN_SWEEP: self.sweep, **self.studies}

    @property
    def all_points(self) -> dict[Scenario, tuple[Point, ...]]:
        """Return all points of the sweep and the studies without duplicates."""
        points: dict[Scenario, dict[Point, None]] = {}
        for sweep in self.sweeps.values():
            for scenario, some in sweep.items():
                points.setdefault(scenario, {}).update(dict.fromkeys(some))
        return {scenario: tuple(some) for scenario, some in points.items()}

    def scenario(self, name: str) -> Scenario:
        """Return the scenario of the sweeps that has this name."""
        return next(scenario for scenario in self.all_points if scenario.name == name)

    def launch_of(self, scenario: Scenario, point: Point) -> tuple[Point, ...]:
        """Return the points that share a launch with this one, in their order."""
        launch = next(
            points
            for launched, points in self.launches
            if launched == scenario and point in points
        )
        return self.origin.in_order(scenario, launch, self.training.seed)

    @property
    def launches_several(self) -> bool:
        """Return whether one launch runs several points of a scenario."""
        return self.origin.is_launched and self.system.points_per_launch == "all"

    @property
    def launches(self) -> list[tuple[Scenario, tuple[Point, ...]]]:
        """Return for each launch the points that no earlier launch has run."""
        launches, known = [], set()
        for sweep in self.sweeps.values():
            for scenario, points in sweep.items():
                new = [one for one in points if (scenario, one) not in known]
                known.update((scenario, one) for one in new)
                several = self.launches_several
                parts = self.origin.launches(new, several) if new else []
                launches += [(scenario, part) for part in parts]
        return launches

    def system_of(self, scenario: Scenario) -> System:
        """Return the system with the changes of a scenario."""
        system = self.system.improved(dict(scenario.improvements))
        system = system.on_nodes(scenario.n_nodes)
        return system.ideal() if scenario.is_ideal else system

    def job(
        self,
        scenario: Scenario,
        points: Iterable[Point],
        dataset_bytes: int | None = None,
    ) -> BenchmarkJob:
        """Return the job that runs points of a scenario.

        `dataset_bytes` are those of a listed dataset that a program of the user reads.
        """
        common = (
            self.datasets[scenario.dataset],
            self.system_of(scenario),
            self.training,
            LoaderSettings(**self.loader.used_by(scenario.loader)),
            tuple(points),
            scenario.policy,
        )
        if scenario.runs_program:
            needs = ProgramNeeds(**self._of_loader(ProgramNeeds))
            return ProgramJob(*common, program=needs, dataset_bytes=dataset_bytes)
        section = self.settings["lmdb"] if scenario.reads_database else None
        return BenchmarkJob(*common, section)

    def description(self, scenario: Scenario) -> RunDescription:
        """Return all settings that determine a scenario's measurements."""
        system = self.origin.machine(self.system_of(scenario).machine)
        dataset = self.datasets[scenario.dataset]
        lmdb = None
        if scenario.reads_database:
            section = self.settings["lmdb"]
            lmdb = lmdb_settings(scenario.loader, section, dataset, system)
        readers = {
            "training": self.training,
            "loader": LoaderSettings(**self.loader.used_by(scenario.loader)),
        }
        if scenario.runs_program:
            loader, training = self.settings["loader"], self.training
            readers = program_training(training.seed, training.cold)
            program = ProgramSettings(tuple(loader["command"]), loader["in_place"])
            readers["program"] = program
        return RunDescription(
            source=self.source,
            system=system,
            dataset=dataset,
            scenario=replace(scenario, improvements=(), n_nodes=None, is_ideal=False),
            runtime=self.runtime,
            policy_options=self._policy_options(scenario),
            lmdb=lmdb,
            **readers,
        )

    def model_description(self, scenario: Scenario) -> RunDescription:
        """Return a scenario's description for models, always with the devices."""
        description = self.description(scenario)
        system = replace(description.system, devices=self.system.devices)
        return replace(description, system=system)

    def listed_dataset(self, dataset: str, n_osts: int) -> UserDataset:
        """Return a dataset as a program of the user sees it: any files in a folder."""
        found = self.datasets[dataset]
        if isinstance(found, UserDataset):
            return found
        folder = self.system.gfs.data_root() / found.directory(n_osts)
        return UserDataset(dataset, str(folder))

    def probe_description(self, dataset: str, n_osts: int) -> ProbeDescription:
        """Return all settings that determine probes.

        Of a program, the models take each file for one call.
        """
        found, buffer_bytes = self.datasets[dataset], self.loader.buffer_bytes
        if self.runs_program:
            found, buffer_bytes = self.listed_dataset(dataset, n_osts), 0
        return ProbeDescription(
            source=self.source,
            system=self.origin.machine(self.system.machine),
            dataset=found,
            n_osts=n_osts,
            buffer_bytes=buffer_bytes,
        )

    def probe_job(self, dataset: str, n_osts: int) -> BenchmarkJob:
        """Return the job of the probes, with the needs of a run that reads as much."""
        probed = self.probe_description(dataset, n_osts)
        if self.runs_program:
            largest = largest_probed(dataset, self.system.n_processes)
            probed = replace(probed, dataset=largest)
        return BenchmarkJob(
            probed.dataset,
            self.system,
            self.training,
            self.loader,
            (Point(lfs_rate_percent(probed), 0),),
            "pinning",
        )

    def calibration(self, name: str) -> CalibrationPlan:
        """Return a calibration, checked only here as most experiments need none.

        What the configuration leaves to tierscope is chosen from the sweep.

        Raises
        ------
        ConfigError
            If the system has no devices or lacks a parameter, runs are simulated, or
            the sweep lacks points that the calibration needs.
        """
        where = f"config: model.calibrations.{name}"
        self.origin.refuse_calibration(where, self.system.name)
        if self.system.devices is None:
            raise ConfigError(
                f"{where}: system {self.system.name} has no devices, expected them in "
                "its file: they describe its storage"
            )
        wanted = self._wanted_calibrations[name]
        scenario = self._calibrated_scenario(wanted.get("scenario", {}), where)
        rates = sorted({one.cache_rate_percent for one in self.sweep[scenario]})
        points = self._calibrated_points(wanted, scenario)
        if not points:
            raise ConfigError(f"{where}: got no repetition 0 of {scenario.name}")
        if missing := [one for one in points if one not in self.sweep[scenario]]:
            raise ConfigError(
                f"{where}.cache_rates_percent: got {missing[0].cache_rate_percent}, "
                f"expected some of {rates}, which {scenario.name} runs"
            )
        swept = {one.n_osts for one in self.sweep if one.dataset == scenario.dataset}
        if self.runs_program:  # the models know no other OSTs of its files
            swept = {scenario.n_osts}
        probed = wanted.get("probed_n_osts", AUTO)
        probed = {min(swept), max(swept)} if probed == AUTO else set(probed)
        if unknown := sorted(probed - swept):
            raise ConfigError(
                f"{where}.probed_n_osts: got {unknown[0]}, expected some of "
                f"{sorted(swept)}, on which the sweep has dataset {scenario.dataset}"
            )
        return CalibrationPlan(
            name,
            scenario,
            points,
            tuple(sorted(probed, reverse=True)),
            self._calibrated_parameters(wanted, where),
            wanted.get("structures", AUTO) == AUTO,
        )

    def _calibrated_scenario(self, wanted: Mapping[str, Any], where: str) -> Scenario:
        """Return the modelled scenario with some keys, else most like the figures'."""
        like = self.settings["figures"]["scenario"] | dict(wanted)
        known = [one for one in self.sweep if one.is_modelled]
        fitting = [one for one in known if wanted.items() <= one.keys.items()]
        if not fitting:
            names = ", ".join(one.name for one in known) or "one with policy pinning"
            got = Scenario(**like).name
            raise ConfigError(f"{where}.scenario: got {got}, expected one of {names}")
        return max(fitting, key=lambda one: len(one.keys.items() & like.items()))

    def _calibrated_parameters(
        self, wanted: Mapping[str, Any], where: str
    ) -> tuple[str, ...] | None:
        """Return the parameters that a calibration lists, None if the data choose."""
        if (listed := wanted.get("parameters", AUTO)) == AUTO:
            return None
        of_gfs = [name.removeprefix("gfs.") for name in listed if name[:3] == "gfs"]
        if self.system.emulation is not None and (lacking := not_emulated(of_gfs)):
            raise ConfigError(
                f"{where}.parameters: got gfs.{lacking[0]}, expected parameters of "
                f"emulated devices, as those of system {self.system.name}: only "
                "simulated ones have it"
            )
        return tuple(listed)

    def _calibrated_points(
        self, wanted: Mapping[str, Any], scenario: Scenario
    ) -> tuple[Point, ...]:
        """Return the points whose runs are fitted, sorted by cache rate."""
        rates = wanted.get("cache_rates_percent", AUTO)
        if rates == AUTO:
            first = [one for one in self.sweep[scenario] if one.repetition == 0]
            rates = fitted_rates([one.cache_rate_percent for one in first])
        first = [Point(rate, 0) for rate in sorted(rates)]
        return self.origin.fitted(first, self.sweep[scenario])

    @property
    def _wanted_calibrations(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the configured calibrations; with a program no OSTs are known."""
        wanted = self.settings["model"]["calibrations"]
        if not self.runs_program:
            return wanted
        return {
            name: one
            for name, one in wanted.items()
            if "n_osts" not in one.get("scenario", {})
        }

    @property
    def calibrations(self) -> dict[str, CalibrationPlan]:
        """Return the calibrations for which the sweep has the runs, by name."""
        plans = {}
        for name in self._wanted_calibrations:
            with suppress(ConfigError):
                plans[name] = self.calibration(name)
        return plans

    @property
    def left_out_calibrations(self) -> dict[str, str]:
        """Return why the other calibrations are left out, by name."""
        reasons = {}
        for name in self._wanted_calibrations:
            try:
                self.calibration(name)
            except ConfigError as error:
                reasons[name] = str(error)
        return reasons

    def _policy_options(self, scenario: Scenario) -> dict[str, Any]:
        """Return the options of a scenario's policy, if it has any."""
        options = policy_options(
            scenario.policy,
            self.settings["policies"],
            of_program=scenario.runs_program,
        )
        if kind_of(scenario) is PEERS and self.system.network_interface:
            options = {**options, "interface": self.system.network_interface}
        return options

    @property
    def runtime(self) -> str:
        """Return the Darshan runtime of the configuration, or else of the system.

        A Darshan log covers a whole MPI job, so a launch of several points needs the
        builtin tracer, which writes one log for each. A site's Darshan sees neither the
        clock of emulated tiers nor, under MPI, the workers of a process, which so need
        it too. If both say ``auto``, these cases get the builtin tracer, and programs
        of the user do.
        """
        runtime = self.settings["darshan"]["runtime"]
        if runtime == "auto":
            runtime = self.system.job.darshan
        one_log = self.system.points_per_launch == "all"
        needs_ours = one_log or self.system.source == "emulated" or self.runs_program
        if runtime == "auto" and (needs_ours or self.has_workers):
            return "builtin"
        return runtime

    @property
    def needs_native(self) -> bool:
        """Return whether a launch needs what is compiled of our own sources."""
        return self.runtime in (AUTO, "builtin") or self.source == "emulated"

    @property
    def has_workers(self) -> bool:
        """Return whether workers of PyTorch read for a process."""
        return self.needs_pytorch and self.loader.workers > 0


def fitted_rates(cache_rates_percent: Iterable[int]) -> list[int]:
    """Return the cache rates of a sweep to fit, if the configuration names none.

    They are the lowest, the highest, and the one nearest to two thirds of the way
    between. At least one rate remains for prediction if there are several: of three
    rates the middle one, of two the one that uses a single tier.
    """
    rates = sorted(set(cache_rates_percent))
    if len(rates) <= 1:
        return rates
    if len(rates) == 2:
        return [next((rate for rate in rates if 0 < rate < 100), rates[0])]
    lowest, *between, highest = rates
    if len(between) == 1:
        return [lowest, highest]
    wanted = lowest + (highest - lowest) * 2 / 3
    return [lowest, min(between, key=lambda rate: abs(rate - wanted)), highest]
