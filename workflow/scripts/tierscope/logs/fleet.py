"""All jobs side by side: hours of each class, what would help most."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from tierscope.analysis.slowest.improved import improved_slowest
from tierscope.logs.join import WHOLE_JOB, Columns, JoinedJobs, Phases
from tierscope.logs.joining.texts import Texts, coded
from tierscope.logs.whatif import NO_TIERS

SECONDS_PER_HOUR = 3600
FASTER_META_PERCENT = 100  # a metadata server of twice the speed
_UNITS = ("nodes", "processes")


@dataclass(frozen=True)
class FasterMeta:
    """On which tier a metadata server of twice the speed helps each job most.

    The tier is empty without metadata time. The slowest process would save seconds
    within these bounds; infinite: unknown.
    """

    tiers: list[str]
    least_s: np.ndarray
    most_s: np.ndarray


def faster_meta(phases: Phases) -> FasterMeta:
    """Return what a faster metadata server brings to each whole job."""
    jobs, tiers, percents = [], [], []
    wholes = np.flatnonzero(phases.is_whole).tolist()
    for job, phase in enumerate(wholes):
        classes = phases.classes[phase]
        for tier in sorted({one[0] for one in classes} - set(NO_TIERS)):
            is_meta = [one[0] == tier and one[2].endswith("meta") for one in classes]
            if any(is_meta):
                jobs.append(job)
                tiers.append(tier)
                percents.append(np.flatnonzero(is_meta))
    improvements = np.zeros((len(jobs), phases.times.least_s.shape[1]), np.int64)
    for row, columns in zip(improvements, percents, strict=True):
        row[columns] = FASTER_META_PERCENT
    of_phases = np.array(wholes, np.int64)[np.array(jobs, np.int64)]
    found = improved_slowest(phases.times, improvements, of_phases)
    # Lost records may be of metadata operations.
    most_s = phases.times.smallest(np.isfinite(phases.times.total_most_s))
    most_s = np.where(most_s[phases.is_whole], 0.0, np.inf)
    best = [("", 0.0, one) for one in most_s.tolist()]
    saved = zip(found.saved_least_s.tolist(), found.saved_most_s.tolist(), strict=True)
    for job, tier, bounds in zip(jobs, tiers, saved, strict=True):
        if not best[job][0] or bounds > best[job][1:]:
            best[job] = (tier, *bounds)
    return FasterMeta(
        [one[0] for one in best],
        np.array([one[1] for one in best]),
        np.array([one[2] for one in best]),
    )


def fleet_columns(
    jobs: JoinedJobs, meta: FasterMeta, bottlenecks: Sequence[str]
) -> Columns:
    """Return the columns of table ``fleet``, without the comparison with other jobs.

    The hours of a job are those that its nodes wait for the slowest process: its I/O
    time, times the number of nodes (or of processes, where nodes are unknown).
    `bottlenecks` has an entry a phase.
    """
    is_whole = jobs.phases.is_whole
    slowest = {
        name: jobs.columns["job_slowest"][name][is_whole]
        for name in ("least_s", "most_s", "run_least_percent", "run_most_percent")
    }
    hours_of, n = hours_units(jobs)
    facts = jobs.facts
    names = ("exe", "user", "started_s", "run_time_s", "n_processes", "times_are")
    started = (datetime.fromtimestamp(row["started_s"], UTC) for row in facts)
    return {name: [row[name] for row in facts] for name in names} | {
        "job": np.arange(len(facts)),
        "month": [f"{one:%Y-%m}" for one in started],
        "io_least_s": slowest["least_s"],
        "io_most_s": slowest["most_s"],
        "io_least_percent": slowest["run_least_percent"],
        "io_most_percent": slowest["run_most_percent"],
        "bottleneck": [bottlenecks[i] for i in np.flatnonzero(is_whole).tolist()],
        "hours_of": hours_of,
        "io_hours": slowest["least_s"] * n / SECONDS_PER_HOUR,
        "meta_tier": coded(meta.tiers),
        "meta_saved_least_hours": meta.least_s * n / SECONDS_PER_HOUR,
        "meta_saved_most_hours": meta.most_s * n / SECONDS_PER_HOUR,
        "outlier": [""] * len(facts),
    }


def hours_units(jobs: JoinedJobs) -> tuple[Texts, np.ndarray]:
    """Return whether hours of jobs are those of nodes or processes, and how many."""
    n_nodes = np.array([row["n_nodes"] for row in jobs.facts], float)
    n_processes = np.array([row["n_processes"] for row in jobs.facts], float)
    is_unknown = np.isnan(n_nodes)
    units = Texts(_UNITS, is_unknown.astype(np.int64))
    return units, np.where(is_unknown, n_processes, n_nodes)


def fleet_class_columns(jobs: JoinedJobs) -> Columns:
    """Return the columns of table ``fleet_classes``: hours of each class of a job."""
    table = jobs.columns["job_breakdown"]
    rows = np.flatnonzero((table["epoch"] == WHOLE_JOB) & table["counted"])
    job = table["job"][rows]
    hours_of, n = hours_units(jobs)
    return {
        "job": job,
        **{name: table[name].of(rows) for name in ("tier", "interface", "operation")},
        "hours_of": hours_of.of(job),
        "least_hours": table["least_s"][rows] * n[job] / SECONDS_PER_HOUR,
        "most_hours": table["most_s"][rows] * n[job] / SECONDS_PER_HOUR,
    }
