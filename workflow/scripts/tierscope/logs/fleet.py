"""All jobs side by side: hours of each class, what would help most."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from tierscope.analysis.slowest.improved import improved_slowest
from tierscope.logs.join import WHOLE_JOB, Columns, JoinedJobs, Phases
from tierscope.logs.joining.texts import Texts, coded
from tierscope.logs.whatif import NO_TIERS

SECONDS_PER_HOUR = 3600
FASTER_META_PERCENT = 100  # a metadata server of twice the speed
_UNITS = ("nodes", "processes")


# On which tier a metadata server of twice the speed helps a job most, empty without
# metadata time; and the seconds that the slowest process would save at least and most.
FasterMeta = tuple[str, float, float]


def faster_meta(phases: Phases) -> list[FasterMeta]:
    """Return what a faster metadata server brings to each whole job.

    What is saved is infinite where it is unknown.
    """
    wholes = np.flatnonzero(phases.is_whole).tolist()
    cases = []
    for job, phase in enumerate(wholes):
        columns = defaultdict(list)  # of metadata time, by tier
        for column, (tier, _, operation) in enumerate(phases.classes[phase]):
            if operation.endswith("meta") and tier not in NO_TIERS:
                columns[tier].append(column)
        cases += [(job, tier, columns[tier]) for tier in sorted(columns)]
    improvements = np.zeros((len(cases), phases.times.least_s.shape[1]), np.int64)
    for row, (_, _, columns) in zip(improvements, cases, strict=True):
        row[columns] = FASTER_META_PERCENT
    of_phases = np.array([wholes[job] for job, *_ in cases], np.int64)
    found = improved_slowest(phases.times, improvements, of_phases)
    # Lost records may be of metadata operations.
    most_s = phases.times.smallest(np.isfinite(phases.times.total_most_s))
    most_s = np.where(most_s[phases.is_whole], 0.0, np.inf)
    best = [("", 0.0, one) for one in most_s.tolist()]
    saved = zip(found.saved_least_s.tolist(), found.saved_most_s.tolist(), strict=True)
    for (job, tier, _), bounds in zip(cases, saved, strict=True):
        if not best[job][0] or bounds > best[job][1:]:
            best[job] = (tier, *bounds)
    return best


def fleet_columns(
    jobs: JoinedJobs, meta: Sequence[FasterMeta], bottlenecks: Sequence[str]
) -> Columns:
    """Return the columns of table ``fleet``, without the comparison with other jobs.

    The hours of a job are those that its nodes wait for the slowest process: its I/O
    time, times the number of nodes (or of processes, where nodes are unknown).
    `bottlenecks` has an entry a phase.
    """
    is_whole, table = jobs.phases.is_whole, jobs.columns["job_slowest"]
    slowest = ("least_s", "most_s", "run_least_percent", "run_most_percent")
    hours_of, n = hours_units(jobs)
    facts = jobs.facts
    tiers, saved_least_s, saved_most_s = zip(*meta, strict=True)
    names = ("exe", "user", "started_s", "run_time_s", "n_processes", "times_are")
    started = (datetime.fromtimestamp(row["started_s"], UTC) for row in facts)
    return {name: [row[name] for row in facts] for name in names} | {
        "job": np.arange(len(facts)),
        "month": [f"{one:%Y-%m}" for one in started],
        **{f"io_{one.removeprefix('run_')}": table[one][is_whole] for one in slowest},
        "bottleneck": [bottlenecks[i] for i in np.flatnonzero(is_whole).tolist()],
        "hours_of": hours_of,
        "io_hours": table["least_s"][is_whole] * n / SECONDS_PER_HOUR,
        "meta_tier": coded(tiers),
        "meta_saved_least_hours": np.array(saved_least_s) * n / SECONDS_PER_HOUR,
        "meta_saved_most_hours": np.array(saved_most_s) * n / SECONDS_PER_HOUR,
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
