"""Why a job has failed, in the words of the job."""

import logging
import re
from collections.abc import Iterable
from pathlib import Path

from snakemake_logger_plugin_tierscope.jobs import PROGRESS, SnakemakeJob, text_of

OWN_WORDS = "tierscope: "
_RANK = re.compile(r"\brank \d+")
_N_LINES = 12
_TRACEBACK = "Traceback (most recent call last)"
_PROGRAM_ENDED = ": the program ended "
_QUALIFIED = re.compile(r"^(?:\w+\.)+(?=\w+: )")  # where an exception is defined
_NOISE = re.compile(
    r"=|Abort\(|application called MPI_Abort|YOUR APPLICATION TERMINATED|This typically"
    r"|Please see the FAQ|\[(proxy|mpiexec)|srun: |slurmstepd: "
)


def own_words(lines: Iterable[str]) -> list[str]:
    """Return the lines of a log about the cause of a failure.

    These are the lines after the last line of progress; from a Python traceback only
    the exception, and none if tierscope says the cause, unless that is a program of the
    user. If there are many and some begin with ``tierscope: ``, only those.
    """
    lines = [line.rstrip() for line in lines if line.strip() and not _NOISE.match(line)]
    steps = [i for i, line in enumerate(lines) if PROGRESS.match(line)]
    lines = lines[steps[-1] + 1 :] if steps else lines
    said = [line for line in _once(lines) if line.startswith(OWN_WORDS)]
    is_users = any(_PROGRAM_ENDED in line for line in said)
    lines = _once(_without_tracebacks(lines, keep_exceptions=not said or is_users))
    return (said if said and len(lines) > _N_LINES else lines)[-_N_LINES:]


def _without_tracebacks(lines: Iterable[str], keep_exceptions: bool) -> list[str]:
    """Return lines without tracebacks; our lines end one, too, as notes may follow."""
    kept, is_inside = [], False
    for line in lines:
        if line.startswith(_TRACEBACK):
            is_inside = True
        elif line.startswith(OWN_WORDS) or not is_inside:
            is_inside = False
            kept.append(line)
        elif keep_exceptions and not line.startswith(" "):
            is_inside = False
            kept.append(_QUALIFIED.sub("", line))
    return kept


def _once(lines: Iterable[str]) -> list[str]:
    """Return lines without those that another rank has printed before."""
    first: dict[str, str] = {}
    for line in lines:
        first.setdefault(_RANK.sub("rank", line), line)
    return list(first.values())


class Failure:
    """A failed job with its record and its logs."""

    def __init__(self, job: SnakemakeJob, record: logging.LogRecord):
        self._job, self._message = job, (record.rule_msg or "").strip()
        self._external = getattr(record, "aux", {}) or {}
        # The scheduler's logs come after those of the job.
        self._logs = [Path(path) for path in record.log]

    @property
    def scheduler_words(self) -> list[str]:
        """Return the scheduler's message, if a scheduler ran the job."""
        return [self._message] if self._message not in ("", "None") else []

    def lines(self) -> list[str]:
        """Return the failed job, its logs, and last the cause."""
        lines = [f"Failed: {self._job.words}."]
        if job_id := self._external.get("external_jobid"):
            lines.append(f"Job of the scheduler: {job_id}")
        if logs := ", ".join(map(str, self._written())):
            lines.append(f"Log: {logs}")
        if self._job.points_done:
            done = self._job.points_done
            n = f"{done} of {done + self._job.points_left}"
            lines.append(f"Points measured before the failure, and kept: {n}.")
        return lines + (self._cause() or ["The job left no message."])

    def without_echo(self, errors: Iterable[str]) -> list[str]:
        """Return errors without those that only say that this job has failed."""
        words = re.compile(rf"\bin rule {re.escape(self._job.rule)}\b")
        return [error for error in errors if not words.search(error)]

    def _cause(self) -> list[str]:
        """Return the message of the scheduler, if there is one, and the job's own."""
        for path in self._written():
            if words := own_words(text_of(path).splitlines()):
                return [*self.scheduler_words, *words]
        return self.scheduler_words

    def _written(self) -> list[Path]:
        """Return the logs that were written during the job, its own first."""
        return list(filter(self._job.has_written, self._logs))
