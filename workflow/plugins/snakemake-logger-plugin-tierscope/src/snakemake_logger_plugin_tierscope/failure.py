"""Why a job has failed, in the words of the job."""

import logging
import os
import re
import signal
import tempfile
from collections.abc import Iterable
from pathlib import Path

from snakemake_logger_plugin_tierscope.jobs import PROGRESS, SnakemakeJob, text_of
from snakemake_logger_plugin_tierscope.spare import SpareLog

OWN_WORDS = "tierscope: "
_KILLED = re.compile(r"died with <Signals\.\w+: (\d+)>\.")
_STATUS = re.compile(r"returned non-zero exit status (\d+)\.")
_BLOCK = 4096
_RANK = re.compile(r"\brank \d+")
_N_LINES = 12
_TRACEBACK = "Traceback (most recent call last)"
_EARLIER = "During handling of the above exception, another exception occurred:"
_CAUSE = "The above exception was the direct cause of the following exception:"
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
    """Return lines without tracebacks; our lines end one, too, as notes may follow.

    Of an exception that was raised from another one that one is left out.
    """
    kept: list[str] = []
    is_inside, begun = False, 0  # and what is kept before the last traceback
    for line in lines:
        if line == _EARLIER:
            continue
        if line == _CAUSE:  # which the following one says in our words
            kept[begun:] = [one for one in kept[begun:] if one.startswith(OWN_WORDS)]
        elif line.startswith(_TRACEBACK):
            is_inside, begun = True, len(kept)
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


def exit_status(text: str) -> int:
    """Return how the command of a job ended, from an error of Snakemake; 0 if unknown.

    That of a signal is 128 and its number, as a shell says it.
    """
    if found := _KILLED.search(text):
        return 128 + int(found[1])
    found = _STATUS.search(text)
    return int(found[1]) if found else 0


def _signal_words(status: int) -> list[str]:
    """Return which signal ended a job, if one did, and who sends it."""
    if status - 128 not in {*signal.Signals}:
        return []
    name = signal.Signals(status - 128).name
    words = f"The job was ended by signal {status - 128} ({name})"
    if name == "SIGKILL":
        words += (
            ", by a user, a scheduler, or Linux for want of memory (sudo dmesg says so)"
        )
    return [f"{words}."]


def _why_unwritten(log: Path) -> list[str]:
    """Return why no log can be written, if so."""
    try:
        os.makedirs(log.parent, exist_ok=True)
        with tempfile.TemporaryFile(dir=log.parent, buffering=0) as file:
            file.write(bytes(_BLOCK))
            os.fsync(file.fileno())
    except OSError as error:
        return [f"{log}: cannot be written: {error.strerror}."]
    return []


class Failure:
    """A failed job with its record and its logs.

    `status` is the exit status of its command, 0 if that is not known, and `spare` has
    what its log could not take.
    """

    def __init__(
        self,
        job: SnakemakeJob,
        record: logging.LogRecord,
        spare: SpareLog,
        status: int = 0,
    ):
        self._job, self._message = job, (record.rule_msg or "").strip()
        self._spare, self._status = spare, status
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
        cause = self._cause() + _signal_words(self._status)
        return lines + (cause or self._why_silent())

    def without_echo(self, errors: Iterable[str]) -> list[str]:
        """Return errors without those that only say that this job has failed."""
        words = re.compile(rf"\bin rule {re.escape(self._job.rule)}\b")
        return [error for error in errors if not words.search(error)]

    def _cause(self) -> list[str]:
        """Return the message of the scheduler, if there is one, and the job's own."""
        for path in self._logs:
            text = text_of(path) if self._job.has_written(path) else ""
            text += f"\n{self._spare.text_for(path)}"
            if words := own_words(text.splitlines()):
                return [*self.scheduler_words, *words]
        return self.scheduler_words

    def _why_silent(self) -> list[str]:
        """Return why a job may have left no message."""
        for path in self._logs[:1]:
            if words := _why_unwritten(path):
                return words
        if not self._status:
            return ["The job left no message."]
        words = f"The job left no message in its log: exit status {self._status}."
        return [f"{words} What it has printed stands above."]

    def _written(self) -> list[Path]:
        """Return the logs that were written during the job, its own first."""
        return list(filter(self._job.has_written, self._logs))
