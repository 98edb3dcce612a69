"""A running job: its description, and the progress that its log reports."""

import logging
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from snakemake_logger_plugin_tierscope.words import duration, family, plural

MOST_WARNINGS = 20  # of one job
_LAUNCH = re.compile(r"one launch of (\d+) process(?:es)? measures (\d+) points?")
_FIT = "fit: "  # begins a line on a step of a fit
PROGRESS = re.compile(
    r"one launch of |\d+ processes probe |\s*(?:\S+, )?(?:point|epoch|repeat) \d+ of \d"
    rf"|\S+: \d+ of \d+ (?:files|records|logs|jobs)|{_FIT}"
)
WAITING = "waiting for "  # another start, or a file system that does not answer
_COUNT = re.compile(r"(reading|joining): (\d+) of (\d+)")
_POINT = re.compile(r"point (\d+) of (\d+)")


def _state(path: Path) -> tuple[int, int] | None:
    """Return values that change when a file is written, None if it has been removed."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def text_of(path: Path) -> str:
    """Return the text of a log, empty if it has been removed."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _old_states(paths: list[Path], created_s: float) -> dict[Path, tuple[int, int]]:
    """Return the state of the files that existed before a job started."""
    states = {path: _state(path) for path in paths}
    return {
        path: state
        for path, state in states.items()
        if state and state[0] < created_s * 1e9
    }


@dataclass(frozen=True)
class Line:
    """A line of a job's log to show; a head is shown on terminals, too."""

    text: str
    is_head: bool = False


class SnakemakeJob:
    """A job of a Snakemake record, and its log up to the last read."""

    def __init__(self, record: logging.LogRecord, now=time.monotonic):
        self.rule, self.logs = family(record.rule_name), [Path(p) for p in record.log]
        resources = dict(getattr(record, "resources", None) or {})
        self.is_launch = "launch" in resources
        self.points = resources.get("points", 1) if self.is_launch else 0  # to measure
        self.n_logs = resources.get("logs", 0)  # of a chunk
        self.counts: dict[str, tuple[int, int]] = {}  # logs and jobs done, of how many
        self.is_target = not getattr(record, "output", None)
        self._terminal = "progress" if self.is_launch else resources.get("terminal")
        message = getattr(record, "rule_msg", None)
        self.words = (message or self.rule.replace("_", " ")).strip().removesuffix(".")
        self._is_named, self._name = bool(message), self.words
        self.warnings: list[str] = []
        self.points_done, self.n_points, self._activity = 0, 0, ""
        self.points_left = 0  # of the launch, besides those that are done
        self._now, self._start_s = now, now()
        self._old = _old_states(self.logs, record.created)
        self._read_bytes, self._rest = 0, ""

    @property
    def seconds(self) -> float:
        """Return how long the job has run."""
        return self._now() - self._start_s

    @property
    def is_said(self) -> bool:
        """Return whether its end is shown: only jobs with a message are for readers."""
        return self._is_named

    def part_of(self, what: str) -> float:
        """Return which part of its logs is read, or of its jobs joined."""
        if what == "reading" and "joining" in self.counts:
            return 1.0
        done, total = self.counts.get(what, (0, 1))
        return done / max(total, 1)

    def took(self) -> str:
        """Return how long it ran, in words."""
        return duration(self.seconds)

    def status(self) -> str:
        """Return what it is doing now, for the bottom of a terminal."""
        if not self._is_named:
            return ""
        return f"{self._name}: {self._activity}" if self._activity else self._name

    def news(self) -> Iterator[Line]:
        """Yield the new lines of its log that must be shown."""
        if self._terminal not in ("progress", "log"):
            return
        for line in self._new_lines():
            if line.startswith(WAITING):
                yield Line(f"  {line}", is_head=True)
            elif line.startswith(_FIT):
                self._activity = line.removeprefix(_FIT)
                yield Line(f"  {self._name}: {self._activity}")
            elif self._terminal == "log":  # shown at its end
                continue
            elif launch := _LAUNCH.match(line):
                self.n_points = int(launch[2])
                processes = f"{launch[1]} process{'' if launch[1] == '1' else 'es'}"
                words = f"{plural(self.n_points, 'point')} in one launch of {processes}"
                if self.n_points > 1:
                    self.words = f"{self.words}: {words}"
                yield Line(f"{self.words}, started", is_head=True)
            elif point := _POINT.search(line):
                self.points_done = int(point[1]) - 1 if self.is_launch else 0
                self.points_left = int(point[2]) - self.points_done
                self._activity = line.strip()
                yield Line(f"  {line.strip()}")
            elif PROGRESS.match(line):
                if found := _COUNT.match(line):
                    self.counts[found[1]] = int(found[2]), int(found[3])
                before = self._activity.partition("; ")[0]
                is_point = before.startswith("point")
                self._activity = f"{before}; {line.strip()}" if is_point else line
            elif line.strip() and (self.n_points or not self.is_launch):
                self._warn(line)

    def _warn(self, line: str) -> None:
        """Keep a line that reports no progress; the log has all lines."""
        if line not in self.warnings and len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(line)

    def closing_words(self) -> list[str]:
        """Return the log of a job if it is meant for the reader."""
        if self._terminal != "log" or not self.logs:
            return []
        lines = text_of(self.logs[0]).rstrip().splitlines()
        return [line for line in lines if not line.startswith(_FIT)]

    def has_written(self, log: Path) -> bool:
        """Return whether a log is from this job, not left by an earlier start."""
        state = _state(log)
        return state is not None and state != self._old.get(log)

    def _new_lines(self) -> list[str]:
        """Return the complete lines that are new in the log since the last call."""
        if not self.logs or not self.has_written(self.logs[0]):
            return []
        try:
            file = self.logs[0].open("rb")
        except OSError:  # removed meanwhile
            return []
        with file:
            size = file.seek(0, 2)
            if size < self._read_bytes:  # the log was started again
                self._read_bytes, self._rest = 0, ""
            file.seek(self._read_bytes)
            text = self._rest + file.read().decode(errors="replace")
        self._read_bytes = size
        *lines, self._rest = text.split("\n")
        return lines
