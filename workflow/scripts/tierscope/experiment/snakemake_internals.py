"""Questions of the rules to Snakemake that use undocumented interfaces.

A new version of Snakemake may change such an interface, so each answer is checked. A
wrong answer becomes one line that names the interface and what does not work now.
"""

import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from importlib import metadata
from pathlib import Path
from typing import Any

from tierscope.core.validation import ConfigError
from tierscope.storage.own_folder import FolderError, check_way

WRITTEN_FOR = "9.27.1"
# {question: the interface of Snakemake that answers it}, filled by `_asks`.
INTERFACES: dict[str, str] = {}
_TAKES_APART = {
    ":": "PYTHONPATH",
    "{}\n": "Snakemake, which finds wildcards there,",
    "*?[": "Snakemake, which looks for profiles by patterns,",
}
_MARKS = (
    "the marks on files that depend on failed jobs. These files may count as up to "
    "date; delete them to make them again"
)
_DAMAGED = "the search for damaged files; delete them to make them again"
_PLACE = re.compile(r"[\w.@+/-]+")  # no shell, wildcard or glob takes it apart


class InterfaceError(RuntimeError):
    """Snakemake answers differently from the version this module is written for."""


@dataclass(frozen=True)
class SnakemakeJob:
    """The facts that we need about a Snakemake job."""

    resources: frozenset[str]  # names of those that its rule sets
    original: Any = field(repr=False)


def _asks(interface: str, lost: str) -> Callable:
    """Name the interface that a question uses, and what fails without an answer."""

    def decorate(question: Callable) -> Callable:
        @wraps(question)
        def asked(*arguments: Any) -> Any:
            try:
                return question(*arguments)
            except (AttributeError, LookupError, TypeError) as error:
                raise InterfaceError(_problem(interface, lost, error)) from error

        INTERFACES[question.__name__] = interface
        return asked

    return decorate


def _problem(interface: str, lost: str, error: Exception) -> str:
    """Return one line about an interface that has changed."""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return (
        f"{interface}: differs in Snakemake {_found_version()} from {WRITTEN_FOR}, "
        f"which tierscope is written for ({words}). Lost: {lost}. Install Snakemake "
        f"{WRITTEN_FOR}."
    )


def _found_version() -> str:
    """Return the version of Snakemake that is installed."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("snakemake")
    return "of unknown version"


def _checked(value: Any, *kinds: type) -> Any:
    """Return a value if it has one of some types; a method would count as true."""
    if not isinstance(value, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"got {type(value).__name__}, expected {expected}")
    return value


class SnakemakeInternals:
    """Questions to Snakemake's `workflow` object, and the marking of unfinished files.

    Each method raises InterfaceError if Snakemake's answer has changed.
    """

    def __init__(self, workflow: Any):
        self._workflow = workflow

    @_asks(
        "workflow.remote_exec, workflow.subprocess_exec",
        "whether this is the user's command or a job that it has started",
    )
    def is_job(self) -> bool:
        """Return whether another Snakemake has started this one to run a job."""
        is_subprocess = _checked(self._workflow.subprocess_exec, bool)
        return _checked(self._workflow.remote_exec, bool) or is_subprocess

    @_asks("workflow.remote_exec", "whether this is a job on another machine")
    def is_remote_job(self) -> bool:
        """Return whether another Snakemake has submitted this one to run a job."""
        return _checked(self._workflow.remote_exec, bool)

    @_asks("workflow.output_settings.dryrun", "the checks of a dry run (-n)")
    def is_dry_run(self) -> bool:
        """Return whether this start only prints the plan; known before the plan is."""
        return _checked(self._workflow.output_settings.dryrun, bool)

    @_asks(
        "workflow.modifier.path_modifier.replace_prefix",
        "the check that an import of the workflow gives no prefix",
    )
    def place(self, path: str) -> str:
        """Return the place of a path of our rules in a workflow that imports ours."""
        modifier = self._workflow.modifier.path_modifier
        return str(_checked(modifier.replace_prefix(path), str))

    @_asks(
        "workflow.pathvars.apply",
        "the place that an importing workflow wants for results (pathvars)",
    )
    def results_folder(self) -> str:
        """Return the folder of results: ``results``, unless `pathvars` name another."""
        return _checked(self._workflow.pathvars.apply("<results>"), str)

    @_asks("workflow.configfiles", "the check of keys that a file has twice")
    def configuration_files(self) -> list[Path]:
        """Return the configuration files, those of an importing workflow, too."""
        return [Path(_checked(one, str, Path)) for one in self._workflow.configfiles]

    @_asks(
        "workflow.config_settings.config_args, workflow.config_settings.config",
        "the kinds of values that --config gives, such as true",
    )
    def command_line(self) -> tuple[list[str], Mapping[str, Any]]:
        """Return the texts KEY=VALUE of --config, and what Snakemake made of them."""
        settings = self._workflow.config_settings
        entries = [_checked(one, str) for one in settings.config_args or ()]
        return entries, _checked(settings.config, Mapping)

    @_asks(
        "workflow.rules, workflow.localrules, rule.conda_env, rule.ruleinfo.resources",
        "which rules run here and not as batch jobs, and the environment of conda",
    )
    def complete_rules(self, folder: Path, environment: str) -> None:
        """Give the rules in a folder, without links, what all have in common.

        They run in one environment, a path seen from their files, unless they name
        another. A rule that says how long it may take (`runtime`) can be submitted; all
        others run here.
        """
        for rule in self._workflow.rules:
            if not _is_of(rule, folder):
                continue
            if not rule.norun:
                rule.conda_env = rule.conda_env or environment
            _, resources = rule.ruleinfo.resources or ((), {})
            if "runtime" not in _checked(resources, Mapping):
                self._workflow.localrules(rule.name)

    @_asks("workflow._build_dag", _DAMAGED)
    def when_planned(self, step: Callable[[], Any]) -> None:
        """Take a step when this start has planned which jobs it needs."""
        plan = self._workflow._build_dag

        def build_dag() -> None:
            plan()
            step()

        self._workflow._build_dag = build_dag

    @_asks("workflow.dag.forcefiles, workflow.dag.update_needrun", _DAMAGED)
    def make_again(self, folder: Path, is_damaged: Callable[[str], bool]) -> list[str]:
        """Plan to make damaged files of the rules in a folder again; return which."""
        dag = self._workflow.dag
        files = ((one, job.rule) for job in dag.jobs for one in job.output)
        if found := {
            one for one, rule in files if is_damaged(one) and _is_of(rule, folder)
        }:
            dag.forcefiles.update(found)
            self._workflow.async_run(dag.update_needrun())
        return sorted(found)

    @_asks("workflow.rules", "the names of the targets")
    def target_rules(self) -> list[str]:
        """Return the sorted names of the rules that only gather files."""
        rules = self._workflow.rules
        return sorted(_checked(rule.name, str) for rule in rules if not rule.output)

    @_asks(
        "workflow.executor_plugin.name", "the check that the profile fits the system"
    )
    def executor(self) -> str:
        """Return the name of the executor that runs the jobs: local, slurm, ..."""
        return _checked(self._workflow.executor_plugin.name, str)

    @_asks(
        "workflow.executor_settings.status_command",
        "the check that Slurm remembers ended jobs for long enough",
    )
    def status_command(self) -> str | None:
        """Return the status command of the executor plugin for Slurm."""
        return _checked(
            self._workflow.executor_settings.status_command, str, type(None)
        )

    @_asks("workflow.dag.needrun_jobs", "which storage the jobs of this start need")
    def resources_in_use(self) -> set[str]:
        """Return the names of the resources of all jobs that will run."""
        jobs = self._workflow.dag.needrun_jobs()
        return {name for job in jobs for name in _view(job).resources}

    @_asks(
        "workflow.dag.needrun_jobs, workflow.dag.depending, workflow.dag.bfs",
        "the check that later steps find the packages that they import",
    )
    def scripts_after_launches(self) -> set[str]:
        """Return the names of the scripts that will run on what launches measure."""
        dag = self._workflow.dag
        launches = [job for job in dag.needrun_jobs() if "mpi" in _view(job).resources]
        return self._scripts(job.rule for job in dag.bfs(dag.depending, *launches))

    @_asks(
        "workflow.rules, rule.script",
        "the check that all steps find the packages that they import",
    )
    def scripts_of_rules(self) -> set[str]:
        """Return the names of the scripts of all rules."""
        return self._scripts(self._workflow.rules)

    def _scripts(self, rules: Iterable[Any]) -> set[str]:
        """Return the names of the scripts of rules that this environment will run."""
        if _checked(self._workflow.deployment_settings.deployment_method, Set):
            return set()  # Snakemake makes environments of its own
        scripts = {rule.script for rule in rules} - {None}
        return {Path(_checked(one, str)).name for one in scripts}

    @_asks("workflow.dag.needrun_jobs", "the number of points to measure")
    def files_to_make(self) -> set[str]:
        """Return the outputs of all jobs that will run."""
        outputs = (job.output for job in self._workflow.dag.needrun_jobs())
        return {str(_checked(file, str)) for output in outputs for file in output}

    @_asks(
        "rule.is_checkpoint",
        "the speed of jobs, as each plans all jobs before it as well",
    )
    def plan_this_job_only(self) -> None:
        """Let a job plan nothing else, although the rules have a checkpoint.

        Its inputs are there, so it waits for no launch.
        """
        for rule in self._workflow.rules:
            if _checked(rule.is_checkpoint, bool):
                rule.is_checkpoint = False

    @_asks("workflow.dag.jobs", "the list of what this start made")
    def made_files(self) -> set[str]:
        """Return the files that this start made or found up to date."""
        outputs = (job.output for job in self._workflow.dag.jobs)
        return {str(_checked(file, str)) for output in outputs for file in output}

    @_asks(
        "workflow.persistence.external_jobids",
        "the cancelling of batch jobs that have not begun",
    )
    def batch_job_ids(self) -> set[str]:
        """Return the ids of batch jobs with which unfinished files are marked."""
        ids_of = self._workflow.persistence.external_jobids
        jobs = self._workflow.dag.jobs
        return {_checked(one, str) for job in jobs for one in ids_of(job)}

    @_asks("workflow.scheduler._handle_error", _MARKS)
    def when_a_job_fails(self, step: Callable[[SnakemakeJob], Any]) -> None:
        """Take a step with each job that fails, before its failure is recorded."""
        scheduler = self._workflow.scheduler
        handle = scheduler._handle_error

        def handle_error(job: Any, *further: Any, **named: Any) -> None:
            step(_view(job))
            handle(job, *further, **named)

        scheduler._handle_error = handle_error

    @_asks("workflow.dag.depending, workflow.dag.bfs", _MARKS)
    def jobs_after(self, failed: SnakemakeJob) -> list[SnakemakeJob]:
        """Return the jobs that depend on another one, directly or not."""
        dag = self._workflow.dag
        depending = dag.depending[failed.original]
        return list(map(_view, dag.bfs(dag.depending, *depending)))

    @_asks("workflow.persistence.started", _MARKS)
    def mark_unfinished(self, job: SnakemakeJob) -> None:
        """Mark the files of a job as unfinished."""
        answer = self._workflow.persistence.started(job.original)
        if inspect.iscoroutine(answer):  # as from `finished`: it has done nothing yet
            answer.close()
        _checked(answer, type(None))

    @_asks(
        "workflow.dag_settings.force_incomplete",
        "whether the next start needs --rerun-incomplete",
    )
    def remakes_unfinished(self) -> bool:
        """Return whether a start like this one makes marked files again."""
        return _checked(self._workflow.dag_settings.force_incomplete, bool)


def _is_of(rule: Any, folder: Path) -> bool:
    """Return whether a rule is in a folder, not in a workflow that imports ours."""
    return folder in Path(rule.snakefile).resolve().parents  # it may be a link


def _view(job: Any) -> SnakemakeJob:
    """Return the facts that we need about a Snakemake job."""
    return SnakemakeJob(frozenset(job.rule.resources), job)


class ScriptInterpreter(str):
    """The interpreter of scripts, as Snakemake writes it into a shell line: unquoted.

    What a terminal sends at Ctrl-C is for Snakemake, which ends the scripts; Python
    would print a traceback from each of them.
    """

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        if spec:
            return super().__format__(spec)
        return f"trap '' INT; exec {shlex.quote(str(self))}"


def refuse_clone(folder: Path) -> None:
    """Refuse a clone whose path somebody else takes apart and nobody can quote.

    Raises
    ------
    ConfigError
        One line that names the folder and who does so.
    """
    for signs, who in _TAKES_APART.items():
        if found := set(signs) & set(str(folder)):
            raise ConfigError(
                f"{str(folder)!r}: got a clone with {min(found)!r} in its path, "
                f"expected none, as {who} takes it apart; move the clone."
            )


def refuse_prepared(folder: Path) -> None:
    """Refuse a working folder in which another user has made what a start uses.

    Raises
    ------
    ConfigError
        One line that names what is there, or the folder that others may change.
    """
    for name in (".snakemake/scripts", "resources/systems", "results/.launch"):
        try:
            check_way(folder / name)
        except FolderError as error:
            raise ConfigError(str(error)) from error


def refuse_unquoted_interpreter(interpreter: str) -> None:
    """Refuse what a shell takes apart: batch jobs get it as it is.

    Raises
    ------
    ConfigError
        One line that names the interpreter.
    """
    if shlex.quote(interpreter) != interpreter:
        raise ConfigError(
            f"{interpreter!r}: got an interpreter whose path a shell takes apart, "
            "expected letters, digits and the signs . _ - + @ / : Snakemake writes it "
            "into batch jobs unquoted; move the clone."
        )


def place_results(snakemake: SnakemakeInternals, experiment: str) -> str:
    """Return the folder of an experiment's results, below that of all results.

    Raises
    ------
    ConfigError
        If `pathvars` of the importing workflow give a path with other characters.
    """
    folder = snakemake.results_folder()
    if not _PLACE.fullmatch(folder):
        raise ConfigError(
            f"pathvars: results: got {folder!r}, expected a path of letters, digits "
            "and the characters . _ - + @ /"
        )
    return os.path.normpath(f"{folder}/{experiment}")


def refuse_prefix(snakemake: SnakemakeInternals, results: str) -> None:
    """Refuse an import that places our results where launches do not write them.

    Raises
    ------
    ConfigError
        One line that names the place, the expected place, and the setting to remove.
    """
    if (placed := snakemake.place(results)) != results:
        raise ConfigError(
            f"module: prefix or replace_prefix: got one that places {results} at "
            f"{placed}, expected none: launches write below {results}; leave it out, "
            'and say by pathvars: results="FOLDER" where results shall lie'
        )


def try_to(
    act: Callable[[], Any], say: Callable[[str], Any], otherwise: Any = None
) -> Any:
    """Do something optional: if Snakemake has changed, say so and continue.

    Parameters
    ----------
    act : callable
        The action.
    say : callable of str
        Receives the line about the interface.
    otherwise : optional
        Return value if there is no answer.
    """
    try:
        return act()
    except InterfaceError as error:
        say(str(error))
        return otherwise


def after_failure(
    snakemake: SnakemakeInternals,
    steps: dict[str, Callable[[], Any]],
    warn: Callable[[str], Any],
    tell: Callable[[str], Any],
) -> None:
    """Take steps after a failure, and say how to continue even if a step fails.

    Parameters
    ----------
    snakemake : SnakemakeInternals
        The Snakemake to ask.
    steps : dict of str to callable
        The steps, by a name for the reader. If one fails, the others still follow.
    warn, tell : callables of str
        Receive lines about steps that failed, and about how to continue.
    """
    try:
        for name, step in steps.items():
            try:
                step()
            except (InterfaceError, OSError) as error:
                warn(f"Could not {name}: {error}")
    finally:
        tell(how_to_go_on(try_to(snakemake.remakes_unfinished, warn, False)))


def how_to_go_on(remakes_unfinished: bool) -> str:
    """Return what to type after a failure; marked files need --rerun-incomplete."""
    command = "the same command"
    if not remakes_unfinished:
        command += " with --rerun-incomplete (the profiles set it)"
    return f"Finished files are kept. Remove the cause, then {command} continues."
