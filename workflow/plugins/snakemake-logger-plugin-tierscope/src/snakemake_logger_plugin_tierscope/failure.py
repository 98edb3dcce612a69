"""Why a job has failed, in its own words."""

import logging
import re
from collections.abc import Iterable
from pathlib import Path

from snakemake_logger_plugin_tierscope.jobs import LAUNCH, OWN_WORDS, Job

_N_LINES = 8
_TRACEBACK = "Traceback (most recent call last)"
_QUALIFIED = re.compile(r"^(?:\w+\.)+(?=\w+: )")  # where an exception is defined


def own_words(lines: Iterable[str]) -> list[str]:
    """Return what a log says of the cause of a failure.

    Lines that begin with ``tierscope: `` count first, of a traceback the exception at
    its end, of any other log the last lines.
    """
    lines = [line.rstrip() for line in lines if line.strip()]
    lines = list(dict.fromkeys(lines))
    said = [i for i, line in enumerate(lines) if line.startswith(OWN_WORDS)]
    if said:
        ranks = [i for i in said if lines[i].startswith(f"{OWN_WORDS}rank ")]
        chosen = [lines[i] for i in ranks or said]
        if not any(map(LAUNCH.match, lines)):  # what came before says more
            chosen = lines[: said[-1] + 1]
        return [line.removeprefix(OWN_WORDS) for line in chosen][-_N_LINES:]
    starts = [i for i, line in enumerate(lines) if line.startswith(_TRACEBACK)]
    if starts:
        frames = lines[starts[-1] + 1 :]
        last = max((i for i, line in enumerate(frames) if line[:2] == "  "), default=-1)
        exception = frames[last + 1 :]
        return [_QUALIFIED.sub("", line) for line in exception][:_N_LINES]
    return lines[-_N_LINES:]


class Failure:
    """A failed job with what its record and its logs say."""

    def __init__(self, job: Job, record: logging.LogRecord):
        self._job, self._message = job, (record.rule_msg or "").strip()
        self._external = getattr(record, "aux", {}) or {}
        # Those of the scheduler come after the job's own.
        self._logs = [Path(path) for path in record.log]

    def lines(self) -> list[str]:
        """Return what has failed, where to read more, and last the cause."""
        lines = [f"Failed: {self._job.words}."]
        if job_id := self._external.get("external_jobid"):
            lines.append(f"Job of the scheduler: {job_id}")
        if logs := ", ".join(map(str, self._written())):
            lines.append(f"Log: {logs}")
        if self._job.points_done:
            n = f"{self._job.points_done} of {self._job.n_points}"
            lines.append(f"Points measured before, and kept: {n}.")
        return lines + (self._cause() or ["It left no message."])

    def without_echo(self, errors: Iterable[str]) -> list[str]:
        """Return errors without those that only say that this job has failed."""
        return [error for error in errors if self._job.rule not in error]

    def _cause(self) -> list[str]:
        """Return the message of the scheduler, if there is one, and the job's own."""
        message = [self._message] if self._message not in ("", "None") else []
        for path in self._written():
            if words := own_words(path.read_text(errors="replace").splitlines()):
                return [*message, *words]
        return message

    def _written(self) -> list[Path]:
        """Return the logs that the job has written, its own first."""
        started_s = self._job.started_s - 1
        logs = [path for path in self._logs if path.is_file()]
        return [path for path in logs if path.stat().st_mtime >= started_s]
