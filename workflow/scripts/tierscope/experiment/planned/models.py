"""What rules ask of models and estimates: calibrations, programs, goals."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tierscope.core.columns import MODEL, RULE
from tierscope.core.provenance import model_words
from tierscope.core.scenario import IDEAL_SWEEP, MAIN_SWEEP, CalibrationPlan, Scenario
from tierscope.core.studies import Pair, holds_out, studied_pairs, written_pairs
from tierscope.core.validation import ConfigError
from tierscope.experiment.checks import require_improvable_devices
from tierscope.experiment.planned.runs import Asked, Runs
from tierscope.policies import kind_of


class Models:
    """The models of an experiment.

    Parameters
    ----------
    runs : Runs
        The runs that they are fitted to.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs, self._experiment = runs, runs.experiment
        self._results, self._settings = runs.results, runs.experiment.settings
        self._tables = f"{runs.results}/{MAIN_SWEEP}"
        self.scenario = Scenario(**self._settings["figures"]["scenario"])
        # A goal of time; one of utilisation is the percent only.
        self.time_goal = dict(self._settings["whatif"]["goal"])
        self.goal_percent = self.time_goal.pop("percent")

    # ---- Estimates

    @property
    def estimates(self) -> list[str]:
        """The tables of estimates, of each method."""
        names = {RULE: "estimates", MODEL: "estimates_model"}
        methods = self._experiment.methods
        return [f"{self._tables}/{names[method]}.parquet" for method in methods]

    @property
    def estimates_by_model(self) -> str | list[str]:
        """The table of estimates by the model, if it estimates."""
        is_wanted = MODEL in self._experiment.methods
        return f"{self._tables}/estimates_model.parquet" if is_wanted else []

    @property
    def words(self) -> str:
        """What the model of estimates is, if one estimates."""
        if not self.estimates_by_model:
            return ""
        used = self._experiment.used_calibration
        return model_words(self._settings["model"]["whatif"], used)

    @property
    def searching_words(self) -> str:
        """The same, if the model searches what meets the goal."""
        return self.words if self._experiment.has_utilisation_goal else ""

    def of_estimates(self, name: str) -> str | list[str]:
        """Return a file of the calibration that estimates by the model use, if any."""
        return self.of_calibration(name) if self.estimates_by_model else []

    def of_calibration(self, name: str) -> str | list[str]:
        """Return a file of the calibration of this experiment, if it uses one."""
        used = self._experiment.used_calibration
        return f"{self._results}/model/{used}/{name}" if used else []

    @property
    def stalls(self) -> str | list[str]:
        """The table of the stall of each class by the model, where it can be told."""
        if self._experiment.why_no_stalls:
            return []
        return f"{self._tables}/class_stalls.parquet"

    @property
    def stalls_of_training(self) -> str | list[str]:
        """The same where computation may hide I/O time, as only there it limits."""
        return self.stalls if self._experiment.computes else []

    @property
    def stalling(self) -> list[dict[str, Any]]:
        """The scenarios whose stall is told, with their points, for JSON."""
        experiment = self._experiment
        return [
            {
                "name": scenario.name,
                "description": self.description(scenario),
                "points": list(map(asdict, experiment.sweep[scenario])),
            }
            for scenario in experiment.stalling
        ]

    def if_goal_of_utilisation(self, name: str) -> str | list[str]:
        """Return a table of the main sweep, if the goal is one of utilisation."""
        if not self._experiment.has_utilisation_goal:
            return []
        return f"{self._tables}/{name}.parquet"

    def description(self, scenario: Scenario) -> dict[str, Any]:
        """Return the settings of a scenario's runs for models, for JSON."""
        return self._experiment.model_description(scenario).as_json()

    def manifest(self, scenario: Scenario) -> str | list[str]:
        """Return the manifest that tells on which server each file lies, if it does."""
        of_our_files = not kind_of(scenario).manifest
        if not (of_our_files and self._experiment.origin.has_own_devices):
            return []
        return self._runs.manifest_of(scenario)

    def manifests(self, scenarios: Iterable[Scenario]) -> list[str]:
        """Return that manifest of each scenario, or none of any."""
        manifests = list(map(self.manifest, scenarios))
        return manifests if all(manifests) else []

    # ---- Programs of users

    def programs(self, *scenarios: Scenario) -> list[str]:
        """Return the files that tell how a program of the user loads, if one reads.

        Raises
        ------
        ConfigError
            If there are no ideal runs, which tell what it computes.
        """
        if not self._experiment.runs_program:
            return []
        if not self._runs.has_ideal:
            raise ConfigError(
                "config: sweep.ideal: got false, expected true (option --ideal of "
                "tierscope sweep): ideal runs tell the models what a program computes"
            )
        folder = f"{self._results}/model/programs"
        return [f"{folder}/{scenario.name}.json" for scenario in scenarios]

    def seen_runs(self, name: str, sweep: str = "predict") -> Asked:
        """Return the function that names a file of the runs that tell what it does."""

        def names(wildcards: Any) -> list[str]:
            dataset = self._experiment.scenario(wildcards.scenario).dataset
            runs = self._runs.files(name, sweep, lambda one: one.dataset == dataset)
            return self._runs.launched(runs)

        return names

    def seen_ideal_runs(self, name: str) -> Asked:
        """Return the same of the ideal runs."""
        return self.seen_runs(name, IDEAL_SWEEP)

    @property
    def workload_files(self) -> list[str]:
        """The files of DLIO with what a program does, one a dataset."""
        names = dict.fromkeys(one.dataset for one in self._experiment.sweep)
        return [f"{self._results}/dlio/workload/{name}.yaml" for name in names]

    def read_runs(self, name: str, sweep: str = MAIN_SWEEP) -> Asked:
        """Return the function that names a file of the runs that read a dataset."""
        return lambda wildcards: self._runs.launched(
            self._runs.files(name, sweep, lambda one: one.dataset == wildcards.dataset)
        )

    def read_manifest(self, wildcards: Any) -> str:
        """Return the manifest of the dataset that these runs read."""
        return next(
            self._runs.manifest_of(one)
            for one in self._experiment.sweep
            if one.dataset == wildcards.dataset
        )

    # ---- Probes and calibrations

    def probe_description(self, wildcards: Any) -> dict[str, Any]:
        """Return the settings that determine the probes of a dataset, for JSON."""
        n_osts = int(wildcards.n_osts)
        return self._experiment.probe_description(wildcards.dataset, n_osts).as_json()

    def probed_manifest(self, wildcards: Any) -> str:
        """Return the manifest of the dataset whose files are probed."""
        kind = "-files" if self._experiment.runs_program else ""
        name = f"{wildcards.dataset}-{wildcards.n_osts}ost{kind}.parquet"
        return f"{self._results}/datasets/{name}"

    def calibration(self, wildcards: Any) -> CalibrationPlan:
        """Return the plan of a calibration; a wrong one is refused only on request."""
        return self._experiment.calibration(wildcards.calibration)

    def fitted_program(self, wildcards: Any) -> list[str]:
        """Return the file that tells how the program of a calibration loads, if any."""
        return self.programs(self.calibration(wildcards).scenario)

    def fitted_manifest(self, wildcards: Any) -> str | list[str]:
        """Return the manifest of what a calibration is fitted to, if models need it."""
        return self.manifest(self.calibration(wildcards).scenario)

    def fitted_description(self, wildcards: Any) -> dict[str, Any]:
        """Return the settings of the runs of a calibration for models, for JSON."""
        return self.description(self.calibration(wildcards).scenario)

    def fitted_runs(self, wildcards: Any) -> list[str]:
        """Return the I/O time of the runs of a calibration."""
        plan = self.calibration(wildcards)
        folder = f"{self._results}/runs/{plan.scenario.name}"
        return [f"{folder}/{point.path}/io_time.parquet" for point in plan.points]

    def fitted_probes(self, wildcards: Any) -> list[str]:
        """Return the tables of all probes of a calibration."""
        plan = self.calibration(wildcards)
        folder = f"{self._results}/probes/{plan.scenario.dataset}"
        return [f"{folder}-{n_osts}ost/probes.parquet" for n_osts in plan.probed_n_osts]

    def fitted_facts(self, wildcards: Any) -> list[str]:
        """Return the descriptions of all runs and probes of a calibration."""
        runs = map(Path, self.fitted_runs(wildcards))
        probes = map(Path, self.fitted_probes(wildcards))
        return [
            *self._runs.launched([str(path.with_name("run.json")) for path in runs]),
            *(str(path.with_suffix(".json")) for path in probes),
        ]

    def calibrated(self, *names: str) -> list[str]:
        """Return files of each calibration that the sweep has the runs for.

        Raises
        ------
        ConfigError
            If there is none; it says why.
        """
        if not (calibrations := list(self._experiment.calibrations)):
            reasons = self._experiment.left_out_calibrations.values()
            raise ConfigError(
                next(iter(reasons), "config: model.calibrations: got none")
            )
        folder = f"{self._results}/model"
        return [f"{folder}/{one}/{name}" for one in calibrations for name in names]

    def fitted(self, wildcards: Any) -> list[str]:
        """Return what is fitted by each calibration that the sweep has the runs for."""
        names = ("calibration.parquet", "devices.yaml", "uncertainty.json")
        return self.calibrated(*names)

    # ---- The study that predicts

    def predicting_devices(self, wildcards: Any) -> list[str]:
        """Return the fitted devices that the study needs; simulated ones are known."""
        return self._predicting("devices.yaml")

    def predicting_judgements(self, wildcards: Any) -> list[str]:
        """Return what else of the calibrations the study needs."""
        return self._predicting("calibration.parquet", "uncertainty.json")

    def _predicting(self, *names: str) -> list[str]:
        return self.calibrated(*names) if self._experiment.origin.is_launched else []

    def predicted_pairs(self) -> list[tuple[Pair, Scenario]]:
        """Return the pairs of the study, each with its scenario.

        Raises
        ------
        ConfigError
            If the calibrations leave nothing to predict.
        """
        sweep = self._experiment.sweeps["predict"]
        scenarios = {tuple(one.keys.values()): one for one in sweep}
        keys = [one.keys for one in scenarios.values()]
        if self._experiment.simulated:
            pairs = written_pairs(keys)
        else:
            main = self._settings["model"]["calibration"]
            pairs = studied_pairs(keys, self._experiment.calibrations, main)
            pairs = [one for one in pairs if holds_out(one, sweep)]
            if not pairs:
                raise ConfigError(
                    "config: sweep.cache_rates_percent: got only rates that the "
                    "calibrations fit, expected others to predict"
                )
        return [(pair, scenarios[tuple(pair.scenario.values())]) for pair in pairs]

    def predicted_programs(self, wildcards: Any) -> list[str]:
        """Return the files that tell how the predicted programs load, if any."""
        return self.programs(*self._experiment.sweeps["predict"])

    def predicted_manifests(self, wildcards: Any) -> list[str]:
        """Return the manifests of what is predicted."""
        return self.manifests(scenario for _, scenario in self.predicted_pairs())

    def predicted_studies(self, wildcards: Any) -> list[dict[str, Any]]:
        """Return the pairs with the descriptions of their scenarios, for JSON."""
        return [
            {"pair": asdict(pair), "description": self.description(scenario)}
            for pair, scenario in self.predicted_pairs()
        ]

    # ---- The study of faster devices

    def refuse_real_devices(self) -> None:
        """Raise a ConfigError if nobody can make the devices faster.

        This is not checked at the start: other targets must work on real storage.
        """
        require_improvable_devices(
            self._experiment.system,
            self._experiment.simulated,
            self._settings["studies"]["whatif_truth"]["improvements"],
        )

    @property
    def improved_descriptions(self) -> list[dict[str, Any]]:
        """The settings of the runs on the original devices and on faster ones."""
        sweep = self._experiment.sweeps["whatif-truth"]
        return [self._experiment.description(one).as_json() for one in sweep]

    @property
    def improved_points(self) -> list[dict[str, Any]]:
        """Their points, which are the same on all devices."""
        sweep = self._experiment.sweeps["whatif-truth"]
        return list(map(asdict, next(iter(sweep.values()), ())))
