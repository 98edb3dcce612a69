"""All jobs side by side: hours of each class, what would help most, outliers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from tierscope.logs.join import WHOLE_JOB, JoinedJob, Phase
from tierscope.logs.whatif import NO_TIERS, improved_slowest

SECONDS_PER_HOUR = 3600
FASTER_META_PERCENT = 100  # a metadata server of twice the speed
FEWEST_LIKE = 5  # jobs of one program with which a job is compared
_FAR = 3.5  # deviations from the median (Iglewicz and Hoaglin's modified z-score)
_MAD_TO_SD = 1.4826
_LEAST_POINTS = 5.0  # of the run time: less is no outlier, however alike the others are


def fleet_rows(jobs: Sequence[JoinedJob]) -> list[dict]:
    """Return the rows of table ``fleet``, none of which is an outlier yet.

    The hours of a job are those that its nodes wait for the slowest process: its I/O
    time, times the number of nodes (or of processes, where nodes are unknown).
    """
    return [_fleet_row(job) | {"outlier": ""} for job in jobs]


def _fleet_row(job: JoinedJob) -> dict:
    """Return a job's row, without the comparison with others."""
    facts, slowest = job.facts, job.rows["job_slowest"]
    least_s, most_s = slowest["least_s"][0], slowest["most_s"][0]
    hours_of, n = hours_unit(job)
    tier, saved = faster_meta(job.phases[0])
    started = datetime.fromtimestamp(facts["started_s"], UTC)
    kept = ("job", "exe", "user", "started_s", "run_time_s", "n_processes", "times_are")
    return {name: facts[name] for name in kept} | {
        "month": f"{started:%Y-%m}",
        "io_least_s": least_s,
        "io_most_s": most_s,
        "io_least_percent": slowest["run_least_percent"][0],
        "io_most_percent": slowest["run_most_percent"][0],
        "bottleneck": slowest["bottleneck"][0],
        "hours_of": hours_of,
        "io_hours": least_s * n / SECONDS_PER_HOUR,
        "meta_tier": tier,
        "meta_saved_least_hours": saved[0] * n / SECONDS_PER_HOUR,
        "meta_saved_most_hours": saved[1] * n / SECONDS_PER_HOUR,
    }


def hours_unit(job: JoinedJob) -> tuple[str, float]:
    """Return whether a job's hours are those of nodes or processes, and how many."""
    n_nodes = job.facts["n_nodes"]
    if np.isnan(n_nodes):
        return "processes", float(job.facts["n_processes"])
    return "nodes", n_nodes


def faster_meta(whole: Phase) -> tuple[str, tuple[float, float]]:
    """Return on which tier a metadata server of twice the speed helps a job most.

    Beside the tier, which is empty without metadata time, the least and most seconds
    that the slowest process would save; infinite: unknown.
    """
    # Lost records may be of metadata operations.
    most_s = 0.0 if np.isfinite(whole.times.total_most_s).all() else np.inf
    best: tuple[str, tuple[float, float]] = ("", (0.0, most_s))
    for tier in sorted({one[0] for one in whole.classes}):
        is_meta = [one[0] == tier and one[2].endswith("meta") for one in whole.classes]
        if tier in NO_TIERS or not any(is_meta):
            continue
        percents = np.array([is_meta], np.int64) * FASTER_META_PERCENT
        found = improved_slowest(whole.times, percents)
        saved = (float(found.saved_least_s[0]), float(found.saved_most_s[0]))
        if not best[0] or saved > best[1]:
            best = (tier, saved)
    return best


def class_rows(jobs: Sequence[JoinedJob]) -> list[dict]:
    """Return the rows of table ``fleet_classes``: the hours of each class of a job."""
    rows = []
    for job in jobs:
        hours_of, n = hours_unit(job)
        table = job.rows["job_breakdown"]
        for position, epoch in enumerate(table["epoch"]):
            if epoch != WHOLE_JOB or not table["counted"][position]:
                continue
            row = {name: table[name][position] for name in ("tier", "interface")}
            rows.append(
                row
                | {
                    "job": job.name,
                    "operation": table["operation"][position],
                    "hours_of": hours_of,
                    "least_hours": table["least_s"][position] * n / SECONDS_PER_HOUR,
                    "most_hours": table["most_s"][position] * n / SECONDS_PER_HOUR,
                }
            )
    return rows


def outliers(rows: Sequence[Mapping]) -> list[str]:
    """Return why each job differs from others of its program in words, else ``""``.

    The part of the run time that is I/O is compared with the median of the jobs of the
    same program and number of processes, in units of the median absolute deviation. If
    the part is known within bounds, all of them must be far away.
    """
    alike: dict[tuple, list[float]] = defaultdict(list)
    for row in rows:
        if not np.isnan(row["io_least_percent"]):
            alike[row["exe"], row["n_processes"]].append(row["io_least_percent"])
    usual: dict[tuple, tuple[float, float]] = {}
    for key, values in alike.items():
        if len(values) >= FEWEST_LIKE:
            median = float(np.median(values))
            deviation = np.median(np.abs(np.array(values) - median))
            usual[key] = median, _MAD_TO_SD * float(deviation)
    words = []
    for row in rows:
        key = row["exe"], row["n_processes"]
        words.append("")
        if key not in usual or np.isnan(row["io_least_percent"]):
            continue
        median, deviation = usual[key]
        most = np.nan_to_num(row["io_most_percent"], nan=np.inf)
        distance = max(row["io_least_percent"] - median, median - most)
        if distance > max(_FAR * deviation, _LEAST_POINTS):
            words[-1] = (
                f"{row['io_least_percent']:.0f} % of the run time is I/O, "
                f"{median:.0f} % in the median of {len(alike[key])} such jobs"
            )
    return words
