"""Analyse jobs whose logs were read: from groups of logs to tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import RULE, TABLES, TEXT
from tierscope.core.columns import logs as of_logs
from tierscope.core.tables import check_table, empty_table
from tierscope.core.words import as_utf8
from tierscope.logs.fleet import faster_meta, fleet_class_columns, fleet_columns
from tierscope.logs.grouping import LogFacts, LogGroup
from tierscope.logs.join import Columns, JoinedJobs, join
from tierscope.logs.joining.collection import collection_paused
from tierscope.logs.joining.sentences import add_words
from tierscope.logs.joining.texts import Texts
from tierscope.logs.settings import Settings
from tierscope.logs.summary import NO_RUN_TIME, Summary
from tierscope.logs.whatif import estimate_jobs

JOB_TABLES = tuple(of_logs.TABLES)
_OF_ALL_JOBS = ("refusals", "tier_prefixes", "job_combinations")  # gathering makes them
OF_JOBS = tuple(name for name in JOB_TABLES if name not in _OF_ALL_JOBS)

Logs = Mapping[Path, tuple[LogFacts, Summary]]
Frames = dict[str, pd.DataFrame]


def tables_of_jobs(
    groups: Sequence[LogGroup], logs: Logs, settings: Settings
) -> tuple[Frames, dict[LogGroup, str]]:
    """Analyse some jobs, all at once.

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
    refused: dict[LogGroup, str] = {}
    with collection_paused():
        parts = _tables_of_good(groups, logs, settings, refused)
    if len(parts) == 1:
        return parts[0], refused
    tables = {
        name: pd.concat([part[name] for part in parts], ignore_index=True)
        for name in OF_JOBS
    }
    return tables, refused


def _tables_of_good(
    groups: Sequence[LogGroup],
    logs: Logs,
    settings: Settings,
    refused: dict[LogGroup, str],
) -> list[Frames]:
    """Return tables of parts of jobs; halving finds those that fail, for `refused`."""
    if not groups:
        return [{name: empty_table(name) for name in OF_JOBS}]
    try:
        return [_tables(groups, logs, settings)]
    except (ValueError, ArithmeticError, MemoryError) as error:
        if len(groups) == 1:
            refused[groups[0]] = str(error) or "too large"
            return _tables_of_good([], logs, settings, refused)
    half = len(groups) // 2
    return [
        one
        for some in (groups[:half], groups[half:])
        for one in _tables_of_good(some, logs, settings, refused)
    ]


def _tables(groups: Sequence[LogGroup], logs: Logs, settings: Settings) -> Frames:
    """Return the tables of jobs whose numbers can be."""
    jobs = join(groups, logs, processes_per_node=settings.processes_per_node)
    meta = faster_meta(jobs.phases)
    add_words(jobs, meta)
    bottlenecks = jobs.columns["job_slowest"]["bottleneck"]
    columns = jobs.columns | {
        "jobs": _transposed(jobs.facts) | {"job": np.arange(len(groups))},
        "job_estimates": _estimate_columns(jobs),
        "fleet": fleet_columns(jobs, meta, bottlenecks),
        "fleet_classes": fleet_class_columns(jobs),
    }
    log_rows = _log_rows(groups, logs)
    tables = {}
    for name, of_table in columns.items():
        job = Texts(jobs.names, of_table["job"])
        tables[name] = _frame(name, of_table | {"job": job}, len(job.codes))
    return tables | {"logs": _frame("logs", _transposed(log_rows), len(log_rows))}


def _estimate_columns(jobs: JoinedJobs) -> Columns:
    """Return the columns of table ``job_estimates``."""
    estimates = estimate_jobs(jobs.phases.times, jobs.phases.classes)
    phase = estimates.pop("phase")
    return estimates | {
        "job": jobs.phases.job[phase],
        "epoch": jobs.phases.epoch[phase],
        "method": Texts([RULE], np.zeros(len(phase), np.int64)),
    }


def _frame(name: str, columns: Columns, n_rows: int) -> pd.DataFrame:
    """Return rows of a table in its contract's columns and types."""
    if not n_rows:
        return empty_table(name)
    series = {}
    for column, kind in TABLES[name].items():
        values = columns[column]
        if kind == TEXT:
            series[column] = (
                values.series()
                if isinstance(values, Texts)
                else pd.Series(values, dtype="str")
            )
            continue
        values = np.asarray(values, float if kind == "float64" else None)
        if values.dtype.kind == "f":
            values = np.where(np.isposinf(values), np.nan, values)  # no upper bound
        series[column] = pd.Series(values)
    return check_table(pd.DataFrame(series, copy=False), name)


def _transposed(rows: Sequence[Mapping[str, Any]]) -> dict[str, list]:
    """Return the columns of rows."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _log_rows(groups: Sequence[LogGroup], logs: Logs) -> list[dict]:
    """Return the rows of table ``logs``."""
    rows = []
    for group in groups:
        for path, process in zip(group.logs, group.processes, strict=True):
            log, summary = logs[path]
            facts = summary.facts
            rows.append(
                {name: facts[name] for name in TABLES["logs"] if name in facts}
                | {
                    "log": as_utf8(path),
                    "job": group.name,
                    "process": process if facts["n_processes"] == 1 else -1,
                    "darshan": facts["metadata"].get("lib_ver", ""),
                    "user": log.user,
                    "host": facts["metadata"].get("host", ""),
                    "run_time_s": np.nan
                    if NO_RUN_TIME in facts["lacks"]
                    else facts["ended_s"] - facts["started_s"],
                    "modules": ", ".join(facts["modules"]),
                    "partial": ", ".join(facts["partial"]),
                }
            )
    return rows
