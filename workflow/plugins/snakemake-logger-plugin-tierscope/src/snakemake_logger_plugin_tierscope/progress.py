"""How many points and jobs are finished, and how long the rest will take."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from snakemake_logger_plugin_tierscope.jobs import SnakemakeJob
from snakemake_logger_plugin_tierscope.words import duration, family, plural

LAUNCH_RULE = "run_benchmark"
_ENOUGH = 3  # finished jobs that allow an estimate of the time left
_BRIEF_S = 0.5  # a job that takes less only writes something down


class Progress:
    """Counts finished jobs by rule, and sums their times.

    `counts` holds the number of jobs of each rule. The time left is that of the points,
    which run one after the other, plus that of the other jobs at the pace so far. A
    rule without finished jobs counts as an average one; brief jobs do not count there.
    """

    def __init__(self, counts: Mapping[str, int], now=time.monotonic):
        self._counts = Counter()
        for rule, n in counts.items():
            self._counts[family(rule)] += n
        self._n_launches = self._counts.pop(LAUNCH_RULE, 0)
        self._n_points = self._n_launches  # until the workflow says how many
        self._launches_done = self._points_done = 0
        self._done: Counter = Counter()
        self._took_s: defaultdict = defaultdict(float)
        self._n_lasting, self._lasted_s = 0, 0.0  # jobs that are not brief
        self._launches_s = 0.0
        self._width = 0  # so that the words after it stand in a column
        self._now, self._start_s = now, now()

    @property
    def has_launches(self) -> bool:
        """Return whether points are measured."""
        return self._n_launches > 0

    def expect(self, n_points: int) -> None:
        """Take the number of points that all launches measure."""
        self._n_points = n_points

    def to_do(self) -> str:
        """Return the numbers of points and jobs to do."""
        jobs = plural(self._counts.total(), "job")
        if not self._n_points:
            return f"{jobs} to do."
        return f"{plural(self._n_points, 'point')} to measure, and {jobs} more."

    def finished(self, job: SnakemakeJob) -> None:
        """Count a job that has ended, and the points that its launch has measured."""
        if job.is_launch:
            self._launches_done += 1
            self._points_done += job.points
            self._launches_s += job.seconds
        else:
            self._done[job.rule] += 1
            self._took_s[job.rule] += job.seconds
            if job.seconds >= _BRIEF_S:
                self._n_lasting += 1
                self._lasted_s += job.seconds

    @property
    def is_complete(self) -> bool:
        """Return whether all points and jobs are finished."""
        launched = self._launches_done >= self._n_launches
        return launched and self._counts <= self._done

    def took(self) -> str:
        """Return the time since the start."""
        return duration(self._now() - self._start_s)

    def so_far(self, running: Iterable[SnakemakeJob] = ()) -> str:
        """Return the finished points and jobs, including points of running launches."""
        launches = [job for job in running if job.points_done]
        points = self._points_done + sum(int(job.points_done) for job in launches)
        parts = []
        if self._n_points:
            done = min(points, self._n_points)
            parts.append(f"{done} of {plural(self._n_points, 'point')}")
        if total := self._counts.total():
            parts.append(f"{self._done.total()} of {plural(total, 'job')}")
        spent_s = self._launches_s + math.fsum(job.seconds for job in launches)
        if left := self._left(points, spent_s):
            parts.append(f"{left} left")
        text = ", ".join(parts)
        self._width = max(self._width, len(text))
        return f"{text:<{self._width}}"

    def _left(self, points: int, launches_s: float) -> str:
        """Return about how long the rest takes, if an estimate is possible."""
        done, remaining = self._done.total(), self._counts - self._done
        points_left = max(self._n_points - points, 0)
        if done < _ENOUGH or (points_left and not points):
            return ""
        if not points_left and not remaining:
            return ""
        busy_s = math.fsum(self._took_s.values())
        usual_s = self._lasted_s / self._n_lasting if self._n_lasting else busy_s / done
        elapsed_s = self._now() - self._start_s - launches_s
        rest_s = math.fsum(
            n * (self._took_s[rule] / self._done[rule] if self._done[rule] else usual_s)
            for rule, n in remaining.items()
        )
        if 0 < elapsed_s < busy_s:  # several jobs at a time
            rest_s *= elapsed_s / busy_s
        if points_left:
            rest_s += points_left * launches_s / points
        return f"about {duration(rest_s)}"
