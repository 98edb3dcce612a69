"""Analyse Darshan logs of any jobs: from logs to tables."""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import LOWER_BOUNDS, TABLES
from tierscope.core.job_words import bounds_words
from tierscope.core.tables import check_table
from tierscope.core.validation import ConfigError, check
from tierscope.core.words import class_label
from tierscope.jobs.fleet import class_rows, faster_meta, fleet_rows
from tierscope.jobs.grouping import LogFacts, LogGroup, group_logs
from tierscope.jobs.join import WHOLE_JOB, JoinedJob, join, user_of
from tierscope.jobs.reading import Reading, read_logs
from tierscope.jobs.settings import LOGS, Settings, find_logs, settings_of
from tierscope.jobs.summary import Summary
from tierscope.jobs.tiers import AUTO, OTHER, UNNAMED, Tier, in_order
from tierscope.jobs.whatif import combinations_for_goal, estimate_job

GOAL_PERCENT = 80  # of today's I/O time, if no goal is given
JOB_TABLES = (
    *("logs", "refusals", "tier_prefixes", "jobs", "job_times", "job_processes"),
    *("job_slowest", "job_breakdown", "job_files", "job_sizes", "job_estimates"),
    *("job_combinations", "fleet", "fleet_classes"),
)
_MOST_LABELS = 3
_HALF = 50.0  # percent
Progress = Callable[[int, int], None]
Logs = dict[Path, tuple[LogFacts, Summary]]


def analyse(
    logs: str | Path | Sequence[str | Path],
    tiers: str | Mapping[str, str | Sequence[str]] = AUTO,
    *,
    group: str | Mapping[str, str] = AUTO,
    epochs: str | None = None,
    goal_s: float | None = None,
    processes_per_node: int | None = None,
    keep: str | Path | None = None,
    n_workers: int | None = None,
) -> dict[str, pd.DataFrame]:
    """Analyse Darshan logs of any jobs.

    Parameters
    ----------
    logs : path or sequence of paths
        Logs, folders of logs, and patterns.
    tiers : mapping of str to str or sequence of str, or ``auto``
        Prefixes of paths by tier. ``auto``: one tier for each kind of file system in
        the mount table of a log.
    group : {"auto", "one"} or mapping
        Which logs form a job (`tierscope.jobs.grouping.group_logs`).
    epochs : str, optional
        Regular expression on the paths of files; its group is the epoch's number.
    goal_s : float, optional
        Goal for the I/O time of the slowest process in the whole job. By default 80 %
        of today's, for the whole job and for each epoch.
    processes_per_node : int, optional
        For node-hours; no log says it.
    keep : path, optional
        A folder in which to keep what was read, so that a later analysis does not read
        the same logs again.
    n_workers : int, optional
        Number of processes that read.

    Returns
    -------
    dict of str to DataFrame
        The tables `JOB_TABLES`; docs/tables.md lists their columns. A log that cannot
        be used is a row of ``refusals``.

    Raises
    ------
    ConfigError
        If an argument is wrong, or no log is found.
    """
    given = [logs] if isinstance(logs, str | Path) else logs
    arguments = {
        "experiment": "analysis",
        "logs": [str(one) for one in given],
        "tiers": tiers,
        "group": group,
        "epochs": epochs,
        "goal_s": goal_s,
        "processes_per_node": processes_per_node,
    }
    check(arguments, LOGS, "analyse")
    settings = settings_of(**arguments)
    if keep is not None:
        return tables_of(settings, Path(keep), n_workers=n_workers)
    with tempfile.TemporaryDirectory() as folder:
        return tables_of(settings, Path(folder), n_workers=n_workers)


def tables_of(
    settings: Settings,
    folder: Path,
    *,
    n_workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> dict[str, pd.DataFrame]:
    """Return the tables of an analysis; what was read is kept in a folder."""
    reading = read_logs(
        find_logs(settings.logs),
        settings.tiers if settings.tiers == AUTO else list(settings.tiers),
        settings.epochs,
        folder,
        n_workers=n_workers,
        progress=progress,
    )
    logs = _filtered(reading, settings.filter)
    groups = group_logs([facts for facts, _ in logs.values()], settings.group)
    jobs = [
        join(group, logs, processes_per_node=settings.processes_per_node)
        for group in groups
    ]
    for job in jobs:
        _add_words(job)
    parts = {name: [] for name in JOB_TABLES}
    for job in jobs:
        for name, rows in job.rows.items():
            parts[name].append(pd.DataFrame(rows))
        for phase in job.phases:
            of_phase = (job.name, phase.epoch, phase.times, phase.classes)
            parts["job_estimates"].append(estimate_job(*of_phase))
            goal_s = phase.slowest()[1][0] * GOAL_PERCENT / 100
            if settings.goal_s:  # it is one of the whole job
                goal_s = settings.goal_s if phase.epoch == WHOLE_JOB else 0.0
            if goal_s > 0 and phase.classes:
                found = combinations_for_goal(*of_phase, goal_s)
                parts["job_combinations"].append(found)
    parts["jobs"].append(pd.DataFrame([job.facts for job in jobs]))
    parts["fleet"].append(pd.DataFrame(fleet_rows(jobs)))
    parts["fleet_classes"].append(pd.DataFrame(class_rows(jobs)))
    parts["logs"].append(pd.DataFrame(_log_rows(groups, logs)))
    summaries = [summary for _, summary in logs.values()]
    parts["tier_prefixes"].append(pd.DataFrame(_prefix_rows(summaries, settings.tiers)))
    refusals = [
        {"log": _shown(one), "reason": why} for one, why in reading.refusals.items()
    ]
    parts["refusals"].append(pd.DataFrame(refusals))
    return {name: _joined(frames, name) for name, frames in parts.items()}


def _joined(frames: Sequence[pd.DataFrame], name: str) -> pd.DataFrame:
    """Return rows of a table in its contract's columns and types."""
    columns = TABLES[name]
    frames = [frame for frame in frames if len(frame)]
    if not frames:
        empty = {one: pd.Series(dtype=kind) for one, kind in columns.items()}
        return pd.DataFrame(empty)
    rows = pd.concat(frames, ignore_index=True)[list(columns)]
    rows = rows.replace(np.inf, np.nan)  # no upper bound
    texts = {one: "str" for one, kind in columns.items() if kind == "str"}
    return check_table(rows.astype(texts), name)


def _filtered(reading: Reading, wanted: Mapping[str, Any]) -> Logs:
    """Return the logs that a filter keeps, with what tells their job.

    Raises
    ------
    ConfigError
        If there are logs, and the filter keeps none.
    """
    wanted = {key: str(value) for key, value in wanted.items() if value is not None}
    kept = {}
    for path, summary in reading.summaries.items():
        facts = _log_facts(path, summary)
        started = datetime.fromtimestamp(facts.started_s, UTC)
        found = {
            "user": {user_of(facts), str(facts.uid)},
            "executable": {facts.program},
            "month": {f"{started:%Y-%m}"},
        }
        if all(value in found[key] for key, value in wanted.items()):
            kept[facts.path] = (facts, summary)
    if reading.summaries and not kept:
        raise ConfigError(
            f"config: filter: got {wanted}, which none of the {len(reading.summaries)} "
            "logs meets"
        )
    return kept


def _log_facts(path: str, summary: Summary) -> LogFacts:
    """Return what tells to which job a log belongs."""
    facts = summary.facts
    names = ("uid", "job_id", "n_processes", "started_s", "ended_s", "exe", "metadata")
    return LogFacts(
        Path(path),
        *(facts[name] for name in names),
        has_io=any(cell[1] not in (OTHER, UNNAMED) for cell in summary.cells),
    )


def _log_rows(groups: Sequence[LogGroup], logs: Logs) -> list[dict]:
    """Return the rows of table ``logs``."""
    rows = []
    for group in groups:
        for path, process in zip(group.logs, group.processes, strict=True):
            log, summary = logs[path]
            facts = summary.facts
            kept = (
                *("digest", "reader", "log_format", "exe", "job_id", "n_processes"),
                *("started_s", "n_records", "n_shared_records", "n_nameless_records"),
            )
            rows.append(
                {name: facts[name] for name in kept}
                | {
                    "log": _shown(path),
                    "job": group.name,
                    "process": process if facts["n_processes"] == 1 else -1,
                    "darshan": facts["metadata"].get("lib_ver", ""),
                    "user": user_of(log),
                    "host": facts["metadata"].get("host", ""),
                    "run_time_s": max(facts["ended_s"] - facts["started_s"], 0.0),
                    "modules": ", ".join(facts["modules"]),
                    "partial": ", ".join(facts["partial"]),
                }
            )
    return rows


def _shown(path: str | Path) -> str:
    """Return a path for tables; bytes that are no UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _prefix_rows(
    summaries: Sequence[Summary], tiers: str | Sequence[Tier]
) -> list[dict]:
    """Return the rows of table ``tier_prefixes``: tiers that logs used, in order."""
    counts: dict[tuple[str, ...], int] = {}
    for summary in summaries:
        for prefix in summary.prefixes:
            counts[tuple(prefix)] = counts.get(tuple(prefix), 0) + 1
    names = ("tier", "prefix", "fs_type")
    order = in_order({key[0] for key in counts}, tiers)
    return [
        dict(zip(names, key, strict=True)) | {"n_logs": counts[key]}
        for key in sorted(counts, key=lambda key: (order.index(key[0]), key))
    ]


def _add_words(job: JoinedJob) -> None:
    """Add the bottleneck and a sentence to each row of table ``job_slowest``."""
    table = job.rows["job_slowest"]
    labels, sentences = [], []
    for position, phase in enumerate(job.phases):
        row = {name: values[position] for name, values in table.items()}
        _, _, least_s, most_s = phase.slowest()
        label, share = bottleneck(phase.classes, least_s, most_s)
        if label == "none" and row["times_are"] == LOWER_BOUNDS:
            label = "unknown"
        labels.append(label)
        sentences.append(_sentence(job, row, label, share, position == 0))
    table |= {"bottleneck": labels, "sentence": sentences}


def bottleneck(
    classes: Sequence[tuple[str, str, str]], least_s: np.ndarray, most_s: np.ndarray
) -> tuple[str, str]:
    """Return the class on which the slowest process spends most, and how much that is.

    Parameters
    ----------
    classes : sequence of (tier, interface, operation)
    least_s, most_s : ndarray, shape (n_classes,)
        Seconds of the slowest process by class; not finite: unknown.

    Returns
    -------
    label : str
        The class; the largest three of several, if the bounds do not tell which one it
        is; ``none`` if no process spent time on I/O.
    share : str
        How much of the time it is, in words, such as ``61 % of it``.
    """
    most_s = np.where(np.isfinite(most_s), most_s, least_s)
    if not len(classes) or not most_s.max() > 0:
        return "none", ""
    possible = np.flatnonzero((most_s >= least_s.max()) & (most_s > 0))
    possible = possible[np.argsort(-most_s[possible], kind="stable")]
    labels = [class_label(*classes[one]) for one in possible]
    if len(labels) > 1:
        others = " or others" if len(labels) > _MOST_LABELS else ""
        return " or ".join(labels[:_MOST_LABELS]) + others, "the largest part of it"
    one = possible[0]
    least_percent = 100 * least_s[one] / (least_s[one] + np.delete(most_s, one).sum())
    if np.allclose(most_s, least_s, rtol=1e-9):
        return labels[0], f"{least_percent:.0f} % of it"
    return labels[
        0
    ], "most of it" if least_percent > _HALF else "the largest part of it"


def _sentence(
    job: JoinedJob, row: Mapping[str, Any], label: str, share: str, is_whole: bool
) -> str:
    """Return the bottleneck in a sentence or two."""
    where = "" if is_whole else f" in epoch {row['epoch']}"
    if label == "none":
        return f"No process spent time on I/O{where}."
    if label == "unknown":
        return f"No I/O time is recorded{where}, but not all I/O is recorded."
    n = job.facts["n_processes"]
    who = (
        f"Process {row['slowest_ranks']}"
        if row["n_slowest"] == 1
        else "The slowest process"
    )
    who += f" of {n}" if n > 1 else ""
    if row["n_slowest"] > 1:
        who += f" ({row['slowest_ranks']})"
    time = bounds_words(row["least_s"], row["most_s"])
    if is_whole and not np.isnan(row["run_least_percent"]):
        part = bounds_words(row["run_least_percent"], row["run_most_percent"], "%")
        time += f" ({part} of the run time)"
    words = f"{who} spent {time} on I/O{where}, {share} on {label}."
    tier, (least_s, most_s) = faster_meta(job.phases[0])
    if is_whole and tier and row["times_are"] != LOWER_BOUNDS and most_s > 0:
        saved = bounds_words(least_s, most_s)
        words += f" If META on {tier} were twice as fast, it would save {saved}."
    return words
