"""The files of runs: where they lie, and which of them an experiment has."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tierscope.core.scenario import IDEAL_SWEEP, MAIN_SWEEP, Point, Scenario
from tierscope.core.validation import ConfigError
from tierscope.experiment import launches
from tierscope.experiment.experiment import Experiment
from tierscope.policies import kind_of

FOLDER = "runs/{scenario}/cache-{cache_rate}/rep-{repetition}"
Asked = Callable[[Any], list[str]]  # an input of a rule, for its wildcards


class Runs:
    """The runs of an experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    results : str
        The folder of its results.
    missing : mapping of str to Launch
        The launch of each run that is missing at the start, by the run's folder.
    """

    def __init__(
        self,
        experiment: Experiment,
        results: str,
        missing: Mapping[str, launches.Launch],
    ) -> None:
        self.experiment, self.results, self._missing = experiment, results, missing
        self.has_ideal = IDEAL_SWEEP in experiment.sweeps
        self.points = {one for some in experiment.all_points.values() for one in some}
        self.folder = f"{results}/{FOLDER}"
        self._kinds = list(dict.fromkeys(map(kind_of, experiment.all_points)))
        # Of a run: its log, or the folder of its logs.
        self.log = self._kinds[0].log
        # Files of which simulated runs have none: audits, and what follows.
        self.if_measured = experiment.origin.audited

    def files(
        self,
        name: str,
        sweep: str = MAIN_SWEEP,
        which: Callable[[Scenario], bool] = lambda scenario: True,
    ) -> list[str]:
        """Return a file of every run of a sweep, or of the runs of some scenarios."""
        return [
            f"{self.results}/runs/{scenario.name}/{point.path}/{name}"
            for scenario, points in self.experiment.sweeps.get(sweep, {}).items()
            for point in points
            if which(scenario)
        ]

    def launched(self, files: Iterable[str]) -> list[str]:
        """Return files of runs, in place of missing ones the marker of their launch.

        So the inputs of a job differ from those that Snakemake has noted, which makes
        it plan the job and the launch. After a launch, a checkpoint, it asks again.
        """
        found = {}
        for file in map(Path, files):
            launch = self._missing.get(str(file.parent))
            if launch and launch.leaves(file.name) and not file.exists():
                marker = Path(self.results, launch.marker)
                if not marker.exists():
                    found[str(marker)] = None
                    continue
                launches.wait_until_seen(file)
            found[str(file)] = None
        return list(found)

    def of_launches(self, files: Iterable[str]) -> Asked:
        """Return the function that names these files of launches."""
        return lambda wildcards: self.launched(files)

    def of_sweep(self, name: str, table: str = "") -> Asked:
        """Return the function that names a file of each run of a rule's sweep.

        With a table, of each run that has it.
        """
        which = self._leaves(table) if table else lambda scenario: True
        return lambda wildcards: self.launched(self.files(name, wildcards.sweep, which))

    def of_run(self, name: str) -> Callable[[Any], str]:
        """Return the function that names what a launch leaves of a rule's run."""
        return lambda wildcards: self.launched(
            [f"{self.folder.format(**wildcards)}/{name}"]
        )[0]

    def tables_of_kind(self, scenario: Scenario, runs: Iterable[str]) -> list[str]:
        """Return the tables of a scenario's runs, besides those of every run."""
        names = kind_of(scenario).tables
        return [f"{run}/{name}.parquet" for run in runs for name in names]

    def run_tables(self, wildcards: Any) -> list[str]:
        """Return the tables of a run of this kind, besides those of every run."""
        scenario = self.experiment.scenario(wildcards.scenario)
        run = self.folder.format(**wildcards)
        return self.launched(self.tables_of_kind(scenario, [run]))

    def of_table(self, name: str, table: str, sweep: str) -> list[str]:
        """Return a file of each run of a sweep that has a table."""
        return self.files(name, sweep, self._leaves(table))

    @property
    def sums(self) -> list[str]:
        """The tables that the audit of runs of these kinds makes besides I/O time."""
        found = (name for kind in self._kinds for name in kind.audited)
        return list(dict.fromkeys(found))

    def audits(self) -> list[str]:
        """Return the audits of those runs of the main sweep that have a log."""
        why_no_log = self.experiment.origin.why_no_log
        return self.files("audit.json", which=lambda one: not why_no_log(one))

    def summed(self, *names: str, sweep: str = MAIN_SWEEP) -> list[str]:
        """Return the tables of a sweep that at least one kind of its runs has."""
        scenarios = self.experiment.sweeps.get(sweep, ())
        return [
            f"{self.results}/{sweep}/{name}.parquet"
            for name in names
            if any(map(self._leaves(name), scenarios))
        ]

    def observations(self, sweep: str = MAIN_SWEEP) -> list[str]:
        """Return what real tiers and programs did: sources of reads, and the drift."""
        of_kinds = [name for kind in self._kinds for name in kind.observed]
        names = dict.fromkeys([*self.experiment.origin.observed, *of_kinds])
        return [f"{self.results}/{sweep}/{name}.parquet" for name in names]

    def peer_tables(self) -> list[str]:
        """Return the tables of stage-in and of reads from peers, if any."""
        return self.summed("stage_in", "peers")

    def program_tables(self) -> list[str]:
        """Return the tables of what programs of the user did, if any."""
        tables = self.summed("other_io", "other_time", "statements")
        certificate = f"{self.results}/{MAIN_SWEEP}/certificate.parquet"
        return [*tables, certificate] if tables else []

    @property
    def simulated(self) -> list[str]:
        """A run of each simulated scenario, all of which have the same settings."""
        return [
            f"{self.results}/runs/{scenario.name}/{points[0].path}/run.json"
            for scenario, points in self.experiment.sweep.items()
            if not self.experiment.origin.is_launched
        ]

    def description(self, wildcards: Any) -> dict[str, Any]:
        """Return the settings that determine a scenario's measurements, for JSON."""
        scenario = self.experiment.scenario(wildcards.scenario)
        return self.experiment.description(scenario).as_json()

    def manifest_of(self, scenario: Scenario) -> str:
        """Return the manifest of a scenario's dataset."""
        return f"{self.results}/{launches.manifest_of(scenario)}"

    def manifest(self, wildcards: Any) -> str:
        """Return the manifest of the dataset that a run reads."""
        return self.manifest_of(self.experiment.scenario(wildcards.scenario))

    def logged_manifest(self, wildcards: Any) -> str:
        """Return the manifest of a simulated run.

        Raises
        ------
        ConfigError
            If nobody can write the log of such a run.
        """
        scenario = self.experiment.scenario(wildcards.scenario)
        if reason := self.experiment.origin.why_no_log(scenario):
            raise ConfigError(reason)
        return self.manifest_of(scenario)

    def n_object_servers(self, wildcards: Any) -> int | None:
        """Return the number of servers of an emulated GFS, None for a real one."""
        return self.experiment.system.n_object_servers(int(wildcards.n_osts))

    def _leaves(self, table: str) -> Callable[[Scenario], bool]:
        return lambda one: table in kind_of(one).tables + kind_of(one).sums


def of_runs(runs: Iterable[str], *names: str) -> list[str]:
    """Return the files of these names in each run's folder."""
    return [f"{run}/{name}" for name in names for run in runs]


def point_of(wildcards: Any) -> Point:
    """Return the point of a run."""
    return Point(int(wildcards.cache_rate), int(wildcards.repetition))
