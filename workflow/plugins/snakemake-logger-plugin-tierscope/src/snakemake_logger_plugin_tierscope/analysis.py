"""How many logs are read and joined to jobs, and how long the rest will take."""

import math
import time
from collections.abc import Iterable

from snakemake_logger_plugin_tierscope.jobs import SnakemakeJob
from snakemake_logger_plugin_tierscope.words import duration, plural

LIST_RULE = "list_logs"
_READING = 0.6  # of the time of a log; the rest is joining
_ENOUGH = 0.02  # of all logs that allow an estimate of the time left


class AnalysisProgress:
    """Counts logs and jobs of an analysis, of chunks that have ended or still run.

    How many logs there are is known once they are listed. Chunks that are read though
    their logs are the same, as the settings have changed, add theirs.
    """

    has_launches = True  # what will be done is said after the start

    def __init__(self, now=time.monotonic):
        self._n_listed = 0
        self._ended: list[SnakemakeJob] = []
        self._is_complete = False
        self._width = 0  # so that the words after it stand in a column
        self._now, self._start_s, self._first_s = now, now(), None

    def expect(self, n_logs: int) -> None:
        """Take the number of logs that have to be read."""
        self._n_listed, self._first_s = n_logs, self._now()

    def to_do(self) -> str:
        """Return nothing: the list of logs says it."""
        return ""

    def finished(self, job: SnakemakeJob) -> None:
        """Count a job that has ended."""
        self._is_complete |= job.is_target
        if job.n_logs:
            self._ended.append(job)

    @property
    def is_complete(self) -> bool:
        """Return whether the target is there, which comes last."""
        return self._is_complete

    def took(self) -> str:
        """Return the time since the start."""
        return duration(self._now() - self._start_s)

    def so_far(self, running: Iterable[SnakemakeJob] = ()) -> str:
        """Return how many of all logs are read and joined to jobs.

        It counts logs in both cases, as only the gathering, which comes last, knows how
        many jobs there are: those of several chunks are joined in each of them, too.
        """
        chunks = [job for job in running if job.n_logs]
        n_ended = sum(job.n_logs for job in self._ended)
        total = max(self._n_listed, n_ended + sum(job.n_logs for job in chunks))
        if not total:
            return ""
        read, joined = (
            n_ended + math.fsum(job.n_logs * job.part_of(step) for job in chunks)
            for step in ("reading", "joining")
        )
        parts = [f"{int(read)} of {plural(total, 'log')} read"]
        if joined >= 1:
            parts.append(f"{int(joined)} joined to jobs")
        done = (_READING * read + (1 - _READING) * joined) / total
        if self._first_s is not None and _ENOUGH <= done < 1:
            left_s = (self._now() - self._first_s) * (1 - done) / done
            parts.append(f"about {duration(left_s)} left")
        text = ", ".join(parts)
        self._width = max(self._width, len(text))
        return f"{text:<{self._width}}"
