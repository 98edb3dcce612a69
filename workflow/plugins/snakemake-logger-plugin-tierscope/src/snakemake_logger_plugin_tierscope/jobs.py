"""A job that runs: what it is, and what its log says meanwhile."""

import logging
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from snakemake_logger_plugin_tierscope.words import duration, plural

OWN_WORDS = "tierscope: "
LAUNCH = re.compile(r"one launch of (\d+) process(?:es)? measures (\d+) points?")
_POINT = re.compile(r"point (\d+) of (\d+)")
_PROGRESS = re.compile(r"\d+ of \d+")
_WARNING = re.compile(rf"{OWN_WORDS}| +\d+ copies failed")
_CAUSE = re.compile(rf"{OWN_WORDS}rank \d+ ")


@dataclass(frozen=True)
class Line:
    """A line to show of a job's log; a head is shown on terminals, too."""

    text: str
    is_head: bool = False


class Job:
    """A job of a Snakemake record, and its log as far as it has been read."""

    def __init__(self, record: logging.LogRecord, now=time.monotonic):
        self.rule, self.logs = record.rule_name, [Path(p) for p in record.log]
        resources = dict(getattr(record, "resources", None) or {})
        self.is_point = "launch" in resources
        self._terminal = "progress" if self.is_point else resources.get("terminal")
        message = getattr(record, "rule_msg", None)
        self.words = (message or self.rule.replace("_", " ")).strip().removesuffix(".")
        self._is_named = bool(message)
        self.warnings: list[str] = []
        self.points_done, self.n_points, self._activity = 0, 0, ""
        self._now, self._start_s = now, now()
        self.started_s = time.time()
        self._read_bytes, self._rest = self._old_bytes(), ""

    @property
    def seconds(self) -> float:
        """Return how long the job has run."""
        return self._now() - self._start_s

    @property
    def is_said(self) -> bool:
        """Return whether its end is a line: not where it took over a launch's point."""
        return self._is_named and (not self.is_point or self.n_points > 0)

    def took(self) -> str:
        """Return how long it ran, in words."""
        return duration(self.seconds)

    def status(self) -> str:
        """Return what it is doing now, for the bottom of a terminal."""
        if not self._is_named:
            return ""
        return f"{self.words}: {self._activity}" if self._activity else self.words

    def news(self) -> Iterator[Line]:
        """Yield what is to be shown of the lines that have come to its log."""
        if self._terminal != "progress":
            return
        for line in self._new_lines():
            if launch := LAUNCH.match(line):
                self.n_points = int(launch[2])
                processes = f"{launch[1]} process{'' if launch[1] == '1' else 'es'}"
                words = f"{plural(self.n_points, 'point')} in one launch of {processes}"
                if self.n_points > 1:
                    self.words = f"{self.words}: {words}"
                yield Line(f"{self.words}, started", is_head=True)
            elif point := _POINT.search(line):
                self.points_done = int(point[1]) - 1 if self.is_point else 0
                self._activity = line.strip()
                yield Line(f"  {line.strip()}")
            elif _WARNING.match(line):
                if not _CAUSE.match(line):
                    self.warnings.append(line.removeprefix(OWN_WORDS))
            elif _PROGRESS.search(line):
                before = self._activity.partition("; ")[0]
                is_point = before.startswith("point")
                self._activity = f"{before}; {line.strip()}" if is_point else line

    def closing_words(self) -> list[str]:
        """Return the log of a job whose words are for the reader."""
        if self._terminal != "log" or not self.logs:
            return []
        return self.logs[0].read_text(errors="replace").rstrip().splitlines()

    def _old_bytes(self) -> int:
        """Return how much of the log an earlier start has left."""
        for log in self.logs[:1]:
            if log.is_file() and log.stat().st_mtime < self.started_s - 1:
                return log.stat().st_size
        return 0

    def _new_lines(self) -> list[str]:
        """Return the whole lines that have come to the log since the last time."""
        if not self.logs or not self.logs[0].is_file():
            return []
        with self.logs[0].open("rb") as file:
            size = file.seek(0, 2)
            if size < self._read_bytes:  # it was begun anew
                self._read_bytes, self._rest = 0, ""
            file.seek(self._read_bytes)
            text = self._rest + file.read().decode(errors="replace")
        self._read_bytes = size
        *lines, self._rest = text.split("\n")
        return lines
