"""What the rules ask Snakemake beyond its documentation.

A new version of Snakemake may change what is not documented. Each answer is therefore
checked. A wrong one becomes one line that names the interface and what is lost by it.
"""

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from importlib import metadata
from typing import Any

from tierscope.core.validation import ConfigError

WRITTEN_FOR = "9.27.1"
# {question: the interface of Snakemake that answers it}, filled by `_asks`.
INTERFACES: dict[str, str] = {}


class InterfaceError(RuntimeError):
    """Snakemake does not answer as the version that this module is written for."""


@dataclass(frozen=True)
class Job:
    """What we need of a job of Snakemake's."""

    resources: frozenset[str]  # names of those that its rule sets
    has_protected_files: bool
    original: Any = field(repr=False)


def _asks(interface: str, lost: str) -> Callable:
    """Name the interface that a question uses, and what is lost without an answer."""

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
    """Return one line on an interface that has changed."""
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
    """Return a value of one of some types; a method in its place would count as true.

    Raises
    ------
    TypeError
        If it is of another type.
    """
    if not isinstance(value, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"got {type(value).__name__}, expected {expected}")
    return value


class SnakemakeInternals:
    """Questions to Snakemake's `workflow` object, and the mark that it puts on files.

    Each raises InterfaceError if Snakemake does not answer as it did.
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

    @_asks(
        "workflow.modifier.path_modifier.replace_prefix",
        "the check that who imports the workflow gives no prefix",
    )
    def place(self, path: str) -> str:
        """Return where a path of our rules ends up for who imports the workflow."""
        modifier = self._workflow.modifier.path_modifier
        return str(_checked(modifier.replace_prefix(path), str))

    @_asks("workflow.rules", "the names of the targets")
    def target_rules(self) -> list[str]:
        """Return the sorted names of the rules that only gather files."""
        rules = self._workflow.rules
        return sorted(_checked(rule.name, str) for rule in rules if not rule.output)

    @_asks(
        "workflow.executor_plugin.name", "the check that the profile fits the system"
    )
    def executor(self) -> str:
        """Return the name of what runs the jobs: local, slurm, ..."""
        return _checked(self._workflow.executor_plugin.name, str)

    @_asks(
        "workflow.executor_settings.status_command",
        "the check that Slurm remembers ended jobs for long enough",
    )
    def status_command(self) -> str | None:
        """Return the command by which the executor plugin for Slurm sees jobs end."""
        return _checked(
            self._workflow.executor_settings.status_command, str, type(None)
        )

    @_asks("workflow.dag.needrun_jobs", "which storage the jobs of this start need")
    def resources_in_use(self) -> set[str]:
        """Return the names of the resources that the jobs which are to run set."""
        jobs = self._workflow.dag.needrun_jobs()
        return {name for job in jobs for name in _view(job).resources}

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
        """Return the ids of batch jobs that unfinished files are marked with."""
        ids_of = self._workflow.persistence.external_jobids
        jobs = self._workflow.dag.jobs
        return {_checked(one, str) for job in jobs for one in ids_of(job)}

    @_asks(
        "workflow.scheduler.failed, workflow.dag.depending, workflow.dag.bfs",
        "the marks on what rests on failed jobs. Files further on may count as up to "
        "date; delete them to have them made again",
    )
    def jobs_after_failed(self) -> list[Job]:
        """Return the jobs that need, directly or not, what failed jobs make."""
        dag, found = self._workflow.dag, {}
        for failed in _checked(self._workflow.scheduler.failed, set):
            for job in dag.bfs(dag.depending, *dag.depending[failed]):
                found[job] = _view(job)
        return list(found.values())

    @_asks(
        "workflow.persistence.started",
        "the marks on what rests on failed jobs. Files further on may count as up to "
        "date; delete them to have them made again",
    )
    def mark_unfinished(self, job: Job) -> None:
        """Mark the files of a job as unfinished."""
        answer = self._workflow.persistence.started(job.original)
        if inspect.iscoroutine(answer):  # like that of `finished`: has done nothing yet
            answer.close()
        _checked(answer, type(None))

    @_asks(
        "workflow.dag_settings.force_incomplete",
        "whether the next start needs --rerun-incomplete",
    )
    def remakes_unfinished(self) -> bool:
        """Return whether a start like this one makes marked files again."""
        return _checked(self._workflow.dag_settings.force_incomplete, bool)


def _view(job: Any) -> Job:
    """Return what we need of a job of Snakemake's."""
    protected = _checked(job.protected_output, set)
    return Job(frozenset(job.rule.resources), bool(protected), job)


def refuse_prefix(snakemake: SnakemakeInternals, results: str) -> None:
    """Refuse an import that places our results elsewhere, where launches miss them.

    Raises
    ------
    ConfigError
        One line that says where they are, where they must be, and what to leave out.
    """
    if (placed := snakemake.place(results)) != results:
        raise ConfigError(
            f"module: prefix or replace_prefix: got one that places {results} at "
            f"{placed}, expected none: launches write below {results}; leave it out, "
            "and give the experiment a name of its own"
        )


def try_to(
    act: Callable[[], Any], say: Callable[[str], Any], otherwise: Any = None
) -> Any:
    """Do what the user can do without: if Snakemake has changed, say so and go on.

    Parameters
    ----------
    act : callable
        What to do.
    say : callable of str
        Where the line on the interface goes.
    otherwise : optional
        What is returned without an answer.
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
    """Take steps after a failure, and tell how to go on, whatever becomes of them.

    Parameters
    ----------
    snakemake : SnakemakeInternals
        Whom to ask.
    steps : dict of str to callable
        What to do, by a name for the reader. The others follow one that fails.
    warn, tell : callables of str
        Where lines go: on what failed here, and on how to go on.
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
    """Return what to type after a failure; marked files need what the profiles set."""
    command = "the same command"
    if not remakes_unfinished:
        command += " with --rerun-incomplete (the profiles set it)"
    return f"What is finished is kept. Remove the cause, then {command} goes on."
