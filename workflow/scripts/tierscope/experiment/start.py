"""A start of Snakemake: checks before the first job, and what follows the last one."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tierscope.core.columns import MODEL
from tierscope.core.description import content_hash, difference_words
from tierscope.core.files import is_torn, remove_left
from tierscope.core.imports import digest_of_modules, imported_packages
from tierscope.core.machine import TierError
from tierscope.core.output.declared import declared_figures
from tierscope.core.scenario import IDEAL_SWEEP, MAIN_SWEEP, Scenario, Sweep
from tierscope.core.validation import ConfigError, read_json
from tierscope.core.words import count_words
from tierscope.experiment import slurm
from tierscope.experiment.ending import Ending
from tierscope.experiment.experiment import Experiment
from tierscope.experiment.launches import listed_bytes, missing_launches, run_folder
from tierscope.experiment.planned.measurement import (
    check_ideal_memory,
    check_places,
    plan_lines,
)
from tierscope.experiment.snakemake_internals import (
    InterfaceError,
    SnakemakeInternals,
    SnakemakeJob,
    after_failure,
    refuse_unquoted_interpreter,
    try_to,
)
from tierscope.storage.lease import NAME, LeaseError, hold_lease
from tierscope.storage.own_folder import FolderError
from tierscope.storage.packages import refuse_missing
from tierscope.storage.pytorch import find_pytorch

_SCRIPTS = Path(__file__).parents[2]
_PLACES = {
    "Report": "report.html",
    "Summary": "summary.txt",
    "Figures": "figures",
    "Tables": "tables",
    "Policies": "policies",
    "Nodes": "nodes",
    "Ideal runs": IDEAL_SWEEP,
    "Accuracy": "accuracy",
    "Predictions": "predict",
    "What-if truth": "whatif-truth",
    "Calibrations": "model",
}
_REFUSALS = (
    ConfigError,
    FolderError,
    LeaseError,
    TierError,
    InterfaceError,
    slurm.SlurmError,
)


class StartError(RuntimeError):
    """Snakemake must not start; the message is one line for the user."""


@contextmanager
def _one_line() -> Iterator[None]:
    """Raise one kind of error for all reasons not to start."""
    try:
        yield
    except _REFUSALS as error:
        raise StartError(str(error)) from error
    except OSError as error:
        words = f"{error.filename}: cannot be written: {error.strerror}."
        raise StartError(words) from error


def start_alone(
    snakemake: SnakemakeInternals, results: Path, what: str, tell: Callable[[str], Any]
) -> str:
    """Refuse a second start on a folder of results; return the name of this one.

    `what` names what is started. It is called before the first job. From then on a
    signal ends Snakemake and its jobs. What killed processes have left is removed.

    Raises
    ------
    StartError
        If another start uses the results, or they cannot be written.
    """
    me = f"snakemake of {what} in {Path.cwd()}"
    mark = partial(_mark_out_of_date, snakemake, tell)
    with _one_line():
        Ending(snakemake.executor() == "local", tell).prepare()
        try_to(partial(snakemake.when_a_job_fails, mark), tell, None)
        hold_lease(results / ".lease", me)
        if n_removed := remove_left(results):
            files = count_words(n_removed, "unfinished file")
            tell(f"Removed {files} of killed processes.")
    return me


def make_torn_again(
    snakemake: SnakemakeInternals,
    workflow: Path,
    tell: Callable[[str], Any],
    warn: Callable[[str], Any],
) -> None:
    """Let a start make figures, pages and tables again that lack their ends.

    Snakemake takes them for made. `workflow` is the folder of our rules.
    """

    def look() -> None:
        for one in try_to(lambda: snakemake.make_again(workflow, is_torn), warn, []):
            tell(f"{one}: is damaged; a start makes it again.")

    try_to(lambda: snakemake.when_planned(look), warn)


def start_logs(
    snakemake: SnakemakeInternals, results: Path, what: str, tell: Callable[[str], Any]
) -> None:
    """Make the checks of an analysis of logs before its first job.

    Raises
    ------
    StartError
        As `start_alone` does, or if a package is missing that a step imports.
    """
    start_alone(snakemake, results, what, tell)
    with _one_line():
        names = try_to(snakemake.scripts_of_rules, tell, set())
        _refuse_missing_packages(names, "logs")


def _mark_out_of_date(
    snakemake: SnakemakeInternals, tell: Callable[[str], Any], failed: SnakemakeJob
) -> None:
    """Let the next start repeat all jobs that depend on a failed one.

    Snakemake records a failed job as finished, so those after it seem up to date.
    """
    try:
        for unfinished in snakemake.jobs_after(failed):
            if "mpi" not in unfinished.resources:  # launches are not repeated
                snakemake.mark_unfinished(unfinished)
    except (InterfaceError, OSError) as error:
        tell(f"Could not mark what depends on a failed job: {error}")


def _refuse_missing_packages(scripts: Iterable[str], subject: str) -> None:
    """Refuse to start if scripts of steps, or what draws figures, lack packages."""
    paths = [_SCRIPTS / name for name in scripts]
    if _SCRIPTS / "plot.py" in paths:  # imports the module of a figure by its name
        paths += [one.path for one in declared_figures(subject)]
    refuse_missing(imported_packages(paths, _SCRIPTS))


@dataclass(frozen=True)
class Start:
    """A start of Snakemake on an experiment.

    Parameters
    ----------
    experiment : Experiment
        A checked experiment.
    results : Path
        The folder of its results.
    snakemake : SnakemakeInternals
        The Snakemake that starts.
    tell, warn : callables of str
        Receive lines for the user.
    """

    experiment: Experiment
    results: Path
    snakemake: SnakemakeInternals
    tell: Callable[[str], Any]
    warn: Callable[[str], Any]

    def check_configuration(self, is_job: bool) -> None:
        """Check what the configuration asks for, while Snakemake reads the rules.

        Nothing is written. A job only compares the settings of finished runs.

        Raises
        ------
        StartError
            If finished runs have other settings, or a dry run finds a bad tier.
        """
        if self.experiment.simulated:  # simulated runs are repeated instead
            return
        with _one_line():
            if not is_job and self._lacks_runs():
                self._check_plan()
            changed = filter(self._is_described_otherwise, self.experiment.all_points)
            self._refuse_other_settings(changed)

    def before_jobs(self) -> None:
        """Make the checks that a dry run cannot make, before the first job.

        Raises
        ------
        StartError
            If another start uses the results or the GFS, finished runs have other
            settings, or a tier or the scheduler cannot be used.
        """
        what = f"experiment {self.experiment.name}"
        me = start_alone(self.snakemake, self.results, what, self.tell)
        with _one_line():
            if self.experiment.simulated:  # submits nothing, reads no file of the tiers
                return
            executor = self.snakemake.executor()
            self._refuse_other_settings(self.experiment.all_points)
            system = self.experiment.system
            system.check_executor(executor)
            if "gfs" in self.snakemake.resources_in_use():
                self._warn_of_other_modules()
                self._check_places()
                self._check_packages()
                # Only our own: jobs of another killed snakemake may still run.
                gfs = system.gfs.data_root().parent
                hold_lease(gfs / NAME, me, only_own=True)
            if executor == "slurm":
                refuse_unquoted_interpreter(str(sys.executable))
                self._check_slurm()
            self._tell_points()

    def after_success(self) -> None:
        """Remove what is left of launches, and say where to look."""
        self._remove_staging_folders()
        made = try_to(self.snakemake.made_files, self.warn, set())
        texts = ("answer.txt", "summary.txt", f"{IDEAL_SWEEP}/summary.txt")
        lines = [
            *self._text(made, *texts),
            *self._why_no_estimates_by_the_model(made),
            *self._left_out_calibrations(made),
            "  ".join(self._made_places(made)),
        ]
        self.tell("\n".join(lines))

    def after_failure(self) -> None:
        """Cancel what runs in vain, and say how to continue."""
        steps = {"cancel the remaining batch jobs": self._end_batch_jobs}
        after_failure(self.snakemake, steps, self.warn, self.tell)

    @property
    def batch_jobs(self) -> Path:
        """Return the folder in which batch jobs note their ids."""
        return batch_jobs(self.results)

    def _runs(self, sweep: Sweep) -> list[Path]:
        """Return `run.json` of each run of a sweep."""
        return [
            run_folder(self.results, scenario, point) / "run.json"
            for scenario, points in sweep.items()
            for point in points
        ]

    def _lacks_runs(self) -> bool:
        """Return whether runs of the main sweep are missing."""
        return not all(run.exists() for run in self._runs(self.experiment.sweep))

    def _check_plan(self) -> None:
        """Make the checks of a start that need no plan, and say what to expect."""
        if try_to(self.snakemake.is_dry_run, self.warn, False):
            self._warn_of_other_modules()
            try:
                self._check_places()
            except (TierError, ConfigError) as error:  # it may be run elsewhere
                self.warn(str(error))
        with suppress(OSError, TierError):  # the start says why a tier cannot be used
            cold = self.experiment.training.cold
            for line in plan_lines(self.experiment, cold=cold):
                self.tell(line)

    def _check_places(self) -> None:
        """Refuse roots of tiers and missing ideal runs, and to do without PyTorch."""
        experiment = self.experiment
        check_places(experiment.system)
        if experiment.needs_pytorch and not experiment.system.job.scheduler:
            find_pytorch()  # elsewhere a launch looks on its own node
        ideal = experiment.sweeps.get(IDEAL_SWEEP, {})
        if experiment.source != "measured" or all(map(Path.exists, self._runs(ideal))):
            return
        for scenario in ideal:
            listed = listed_bytes(self.results, scenario) or 0
            dataset = experiment.datasets[scenario.dataset]
            check_ideal_memory(experiment.system, dataset, listed)

    def _check_packages(self) -> None:
        """Refuse to measure if the steps that follow lack what they import."""
        names = try_to(self.snakemake.scripts_after_launches, self.warn, set())
        _refuse_missing_packages(names, "experiment")

    def _settings_of(self, scenario: Scenario) -> Any:
        """Return the settings that determine a scenario's runs, as read from JSON."""
        return json.loads(json.dumps(self.experiment.description(scenario).as_json()))

    def _is_described_otherwise(self, scenario: Scenario) -> bool:
        """Return whether a scenario had other settings; a dry run asks only this."""
        path = self.results / "runs" / scenario.name / "scenario.json"
        try:
            return json.loads(path.read_text()) != self._settings_of(scenario)
        except FileNotFoundError:
            return False
        except ValueError:  # incomplete file: check the runs themselves
            return True

    def _refuse_other_settings(self, scenarios: Iterable[Scenario]) -> None:
        """Refuse finished runs that were measured with other settings."""
        for scenario in scenarios:
            wanted = self._settings_of(scenario)
            points = self.experiment.all_points[scenario]
            for path in filter(Path.is_file, self._runs({scenario: points})):
                run = read_run(path)
                if run["hash"] != content_hash(wanted):
                    raise ConfigError(
                        f"{path}: was measured with {difference_words(run, wanted)}; "
                        "give the experiment a new name, or delete its runs to measure "
                        "again."
                    )

    def _warn_of_other_modules(self) -> None:
        """Warn before a launch, not hours later, if runs cannot join finished ones."""
        if "modules" in self.experiment.settings["allow_mixed"]:
            return
        script = "run_program" if self.experiment.runs_program else "run_benchmark"
        present = digest_of_modules(_SCRIPTS / f"{script}.py")
        for sweep in self.experiment.sweeps.values():
            runs = self._runs(sweep)
            finished = list(filter(Path.exists, runs))
            if len(finished) == len(runs):
                continue
            for path in finished:
                modules = read_run(path).get("modules")
                if modules != present:
                    self.warn(
                        f"{path.parent}: was measured with modules "
                        f"{(modules or 'unknown')[:12]}, but new runs are measured "
                        f"with {present[:12]}: they cannot be joined into one table. "
                        "Delete the runs made before to measure them again, or set "
                        "allow_mixed: [modules]."
                    )
                    return

    def _tell_points(self) -> None:
        """Say how many points the launches of this start measure."""
        made = try_to(self.snakemake.files_to_make, self.warn, set())
        missing = missing_launches(self.experiment, self.results).values()
        launches = {
            marker: launch
            for launch in missing
            if (marker := str(self.results / launch.marker)) in made
        }
        if n_points := sum(len(launch.missing) for launch in launches.values()):
            self.tell(f"Points to measure: {n_points}, in launches: {len(launches)}.")

    def _check_slurm(self) -> None:
        """Check Slurm, and cancel jobs of a killed snakemake, which will run again."""
        if self.snakemake.status_command() == "squeue":
            slurm.check_memory_of_ended_jobs()
        marked = self.snakemake.batch_job_ids()
        if cancelled := slurm.cancel_left_jobs(self.batch_jobs, marked):
            ids = ", ".join(cancelled)
            self.tell(f"Cancelled Slurm jobs that an earlier start left: {ids}.")

    def _end_batch_jobs(self) -> None:
        """Cancel the batch jobs that Snakemake has left, so that none runs in vain."""
        if self.snakemake.executor() == "slurm":
            marked = try_to(self.snakemake.batch_job_ids, self.warn, set())
            with suppress(slurm.SlurmError):  # the next start cancels them
                slurm.cancel_forgotten_jobs(self.batch_jobs, marked)

    def _remove_staging_folders(self) -> None:
        """Remove the empty folders of launches."""
        staging = self.results / "staging"
        for path in (*sorted(staging.rglob("*/"), reverse=True), staging):
            with suppress(OSError):  # it holds tables, or a run that was not moved
                path.rmdir()

    def _made_places(self, made: set[str]) -> list[str]:
        """Return the folders that this start made or found up to date."""
        paths = {path for file in map(Path, made) for path in (file, *file.parents)}
        found = [
            f"{name}: {self.results / place}"
            for name, place in _PLACES.items()
            if self.results / place in paths
        ]
        return found or [f"Runs: {self.results / 'runs'}"]

    def _why_no_estimates_by_the_model(self, made: set[str]) -> list[str]:
        """Return why new figures lack the requested model, if they do."""
        by_rule = self.results / MAIN_SWEEP / "estimates.parquet"
        wanted = MODEL in self.experiment.settings["figures"]["methods"]
        if not wanted or str(by_rule) not in made:
            return []
        if (reason := self.experiment.why_no_model) is None:
            return []
        return [f"No estimates by the model, only by the rule: {reason}."]

    def _text(self, made: set[str], *names: str) -> list[str]:
        """Return the lines of the first of some texts that this start made."""
        texts = (self.results / one for one in names)
        text = next((one for one in texts if str(one) in made), None)
        return text.read_text(encoding="utf-8").splitlines() if text else []

    def _left_out_calibrations(self, made: set[str]) -> list[str]:
        """Return why some calibrations were left out, if others were made."""
        folders = {Path(path).parent for path in made}
        names = self.experiment.calibrations
        if not any(self.results / "model" / name in folders for name in names):
            return []
        left_out = self.experiment.left_out_calibrations.items()
        return [f"Calibration {name} left out: {reason}." for name, reason in left_out]


def read_run(path: Path) -> dict[str, Any]:
    """Return the content of a `run.json`."""
    try:
        run = read_json(path)
        run["hash"]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{path}: got no settings of a run, expected those that a launch has "
            "written; delete the folder to measure this point again."
        ) from None
    return run


def batch_jobs(results: Path) -> Path:
    """Return the folder in which an experiment's batch jobs note their ids."""
    return results / ".slurm-jobs"
