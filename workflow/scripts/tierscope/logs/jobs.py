"""Analyse jobs whose logs were read: from groups of logs to tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import LOWER_BOUNDS, TABLES
from tierscope.core.tables import TableError, check_table
from tierscope.core.words import (
    as_utf8,
    bounds_words,
    class_label,
    number_words,
)
from tierscope.logs.fleet import class_rows, faster_meta, fleet_rows
from tierscope.logs.grouping import LogFacts, LogGroup
from tierscope.logs.join import (
    WHOLE_JOB,
    JoinedJob,
    Phase,
    join,
    user_of,
)
from tierscope.logs.settings import Settings
from tierscope.logs.summary import NO_RUN_TIME, Summary
from tierscope.logs.whatif import combinations_for_goal, estimate_job

GOAL_PERCENT = 80  # of today's I/O time, if no goal is given
OF_JOBS = (
    "logs",
    "jobs",
    "job_times",
    "job_processes",
    "job_slowest",
    "job_breakdown",
    "job_files",
    "job_sizes",
    "job_estimates",
    "job_combinations",
    "fleet",
    "fleet_classes",
)
JOB_TABLES = ("refusals", "tier_prefixes", *OF_JOBS)
_MOST_LABELS = 3
_HALF = 50.0  # percent
_NEARLY = 0.99  # of the most that the slowest can take: who takes that is named
Logs = dict[Path, tuple[LogFacts, Summary]]
Frames = dict[str, pd.DataFrame]


def tables_of_jobs(
    groups: Sequence[LogGroup], logs: Logs, settings: Settings
) -> tuple[Frames, dict[LogGroup, str]]:
    """Analyse some jobs.

    Parameters
    ----------
    groups : sequence of LogGroup
        The jobs, whose names differ.
    logs : mapping of path to (LogFacts, Summary)
        What was read of their logs.
    settings : Settings

    Returns
    -------
    tables : dict of str to DataFrame
        The tables `OF_JOBS` in the order of the jobs; no job is an outlier yet.
    refused : dict of LogGroup to str
        Why jobs are not in the tables.
    """
    analysed: dict[LogGroup, tuple[JoinedJob, Frames]] = {}
    refused: dict[LogGroup, str] = {}
    for group in groups:
        try:
            analysed[group] = _analysed(group, logs, settings)
        except (ValueError, ArithmeticError, MemoryError) as error:
            refused[group] = str(error) or "too large"
    try:
        return _tables(analysed, logs), refused
    except TableError:
        for group, (_, frames) in list(analysed.items()):
            try:
                for name, frame in frames.items():
                    _joined([frame], name)
            except TableError as error:
                refused[group] = str(error)
                del analysed[group]
        return _tables(analysed, logs), refused


def _analysed(
    group: LogGroup, logs: Logs, settings: Settings
) -> tuple[JoinedJob, Frames]:
    """Return a job and its rows of the tables that have rows of a job each."""
    job = join(group, logs, processes_per_node=settings.processes_per_node)
    _add_words(job)
    frames = {name: pd.DataFrame(rows) for name, rows in job.rows.items()}
    estimates, combinations = [], []
    for phase in job.phases:
        of_phase = (job.name, phase.epoch, phase.times, phase.classes)
        estimates.append(estimate_job(*of_phase))
        goal_s = phase.slowest()[1][0] * GOAL_PERCENT / 100
        if settings.goal_s:  # it is one of the whole job
            goal_s = settings.goal_s if phase.epoch == WHOLE_JOB else 0.0
        if goal_s > 0 and phase.classes:
            combinations.append(combinations_for_goal(*of_phase, goal_s))
    frames["job_estimates"] = _rows_of(estimates)
    frames["job_combinations"] = _rows_of(combinations)
    return job, frames


def _rows_of(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of tables, one below the other."""
    frames = [frame for frame in frames if len(frame)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _tables(
    analysed: Mapping[LogGroup, tuple[JoinedJob, Frames]], logs: Logs
) -> Frames:
    """Return the tables of some jobs."""
    jobs = [job for job, _ in analysed.values()]
    parts = {name: [] for name in OF_JOBS}
    for _, frames in analysed.values():
        for name, frame in frames.items():
            parts[name].append(frame)
    parts["jobs"].append(pd.DataFrame([job.facts for job in jobs]))
    parts["fleet"].append(pd.DataFrame(fleet_rows(jobs)))
    parts["fleet_classes"].append(pd.DataFrame(class_rows(jobs)))
    parts["logs"].append(pd.DataFrame(_log_rows(list(analysed), logs)))
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


def _log_rows(groups: Sequence[LogGroup], logs: Logs) -> list[dict]:
    """Return the rows of table ``logs``."""
    rows = []
    for group in groups:
        for path, process in zip(group.logs, group.processes, strict=True):
            log, summary = logs[path]
            facts = summary.facts
            kept = (
                "digest",
                "reader",
                "log_format",
                "exe",
                "job_id",
                "n_processes",
                "started_s",
                "n_records",
                "n_shared_records",
                "n_nameless_records",
                "n_mappings",
                "mapped_bytes",
            )
            rows.append(
                {name: facts[name] for name in kept}
                | {
                    "log": as_utf8(path),
                    "job": group.name,
                    "process": process if facts["n_processes"] == 1 else -1,
                    "darshan": facts["metadata"].get("lib_ver", ""),
                    "user": user_of(log),
                    "host": facts["metadata"].get("host", ""),
                    "run_time_s": np.nan
                    if NO_RUN_TIME in facts["lacks"]
                    else facts["ended_s"] - facts["started_s"],
                    "modules": ", ".join(facts["modules"]),
                    "partial": ", ".join(facts["partial"]),
                }
            )
    return rows


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
        sentences.append(_sentence(job, row, label, share, position))
    table |= {"bottleneck": labels, "sentence": sentences}


def bottleneck(
    classes: Sequence[tuple[str, str, str]], least_s: np.ndarray, most_s: np.ndarray
) -> tuple[str, str]:
    """Return the class on which the slowest process spends most, and how much that is.

    Both are words. If bounds leave it open, the label has the largest three classes.
    The share, such as ``61 % of it``, has no percentage if records were lost: then a
    time in `most_s` is not finite.
    """
    is_bounded = np.isfinite(most_s).all()
    most_s = np.where(np.isfinite(most_s), most_s, least_s)
    if not len(classes) or not most_s.max() > 0:
        return "none", ""
    if not is_bounded:
        label = class_label(*classes[np.argmax(least_s)])
        return label, "the largest recorded part of it"
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


def _who(phase: Phase, row: Mapping[str, Any]) -> str:
    """Return the slowest process in words, the beginning of a sentence."""
    n = phase.n_processes
    if n == 1:
        return "The process"
    if row["n_slowest"] == 1:
        return f"Rank {row['slowest_ranks']} of {n} processes"
    least_s = phase.recorded.total_least_s
    rank, most_s = int(np.argmax(least_s)), phase.recorded.total_most_s.max()
    if least_s[rank] < _NEARLY * most_s:
        return f"The slowest process of {n} ({row['slowest_ranks']})"
    within = number_words(most_s - least_s[rank])
    return f"Rank {rank} of {n} processes, or another within {within} s of it,"


def _sentence(
    job: JoinedJob, row: Mapping[str, Any], label: str, share: str, position: int
) -> str:
    """Return the bottleneck in a sentence or two."""
    is_whole = position == 0
    where = "" if is_whole else f" in epoch {row['epoch']}"
    if label == "none":
        return f"No process spent time on I/O{where}."
    if label == "unknown":
        return f"No I/O time is recorded{where}, but not all I/O is recorded."
    who = _who(job.phases[position], row)
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
