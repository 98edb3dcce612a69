"""From the logs of jobs to the tables of an analysis, for all jobs at once."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.collection import collection_paused
from tierscope.core.columns import RULE, TABLES, TEXT
from tierscope.core.tables import check_table, empty_table
from tierscope.core.words import as_utf8, count_words
from tierscope.logs.fleet import faster_meta, fleet_class_columns, fleet_columns
from tierscope.logs.grouping import LogFacts, LogGroup
from tierscope.logs.join import Columns, JoinedJobs, join, user_of
from tierscope.logs.reading import SAME_CONTENT
from tierscope.logs.sentences import add_words
from tierscope.logs.settings import Settings
from tierscope.logs.summary import NO_RUN_TIME, Summary
from tierscope.logs.texts import Texts
from tierscope.logs.tiers import TierPrefix, in_order
from tierscope.logs.whatif import estimate_jobs

JOB_TABLES = (
    "logs",
    "refusals",
    "tier_prefixes",
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
_JOB_ID = re.compile(r"_id(-?\d+)[-_]")  # in the name of a log

Logs = Mapping[Path, tuple[LogFacts, Summary]]


def tables_of_jobs(
    groups: Sequence[LogGroup],
    logs: Logs,
    settings: Settings,
    refusals: Mapping[str, str],
) -> dict[str, pd.DataFrame]:
    """Return the tables of some jobs.

    Parameters
    ----------
    groups : sequence of LogGroup
        The jobs.
    logs : mapping of Path to (LogFacts, Summary)
        Their logs.
    settings : Settings
    refusals : mapping of str to str
        Why other logs cannot be used, by path.

    Returns
    -------
    dict of str to DataFrame
        The tables `JOB_TABLES`. ``job_combinations`` is empty, as
        `tierscope.logs.combinations` searches them for few jobs; ``fleet`` is in the
        order of `groups` and compares no job with others. A job whose numbers cannot be
        is left out, and its logs are in ``refusals``.
    """
    refused = dict(refusals)
    n_refused = Counter(
        found[1]
        for path, reason in refusals.items()
        if SAME_CONTENT not in reason and (found := _JOB_ID.search(Path(path).name))
    )
    with collection_paused():
        parts = _tables_of_good(groups, logs, settings, n_refused, refused)
    tables = {
        name: pd.concat([part[name] for part in parts], ignore_index=True)
        if len(parts) > 1
        else parts[0][name]
        for name in JOB_TABLES
    }
    used = tables["logs"]["log"]
    summaries = [logs[path][1] for group in groups for path in group.logs]
    if len(used) != len(summaries):
        summaries = [
            logs[path][1]
            for group in groups
            for path in group.logs
            if str(path) not in refused
        ]
    prefixes = _prefix_rows(summaries, settings.tiers)
    why = [(as_utf8(path), as_utf8(reason)) for path, reason in refused.items()]
    return tables | {
        "tier_prefixes": _frame("tier_prefixes", _transposed(prefixes), len(prefixes)),
        "refusals": _frame(
            "refusals",
            {"log": [one for one, _ in why], "reason": [one for _, one in why]},
            len(why),
        ),
    }


def _tables_of_good(
    groups: Sequence[LogGroup],
    logs: Logs,
    settings: Settings,
    n_refused: Mapping[str, int],
    refused: dict[str, str],
) -> list[dict[str, pd.DataFrame]]:
    """Return tables of parts of the jobs; a job that fails is added to `refused`.

    If something fails, halves are tried until the job is found that is to blame.
    """
    try:
        return [_tables(groups, logs, settings, n_refused)]
    except (ValueError, ArithmeticError, MemoryError) as error:
        if len(groups) == 1:
            (group,) = groups
            reason = str(error) or "too large"
            words = f"its job {group.name} cannot be analysed: {reason}"
            refused |= {str(path): words for path in group.logs}
            return [_tables([], logs, settings, n_refused)]
    half = len(groups) // 2
    return [
        one
        for some in (groups[:half], groups[half:])
        for one in _tables_of_good(some, logs, settings, n_refused, refused)
    ]


def _tables(
    groups: Sequence[LogGroup],
    logs: Logs,
    settings: Settings,
    n_refused: Mapping[str, int],
) -> dict[str, pd.DataFrame]:
    """Return the tables of jobs whose numbers can be."""
    if not groups:
        return {name: empty_table(name) for name in JOB_TABLES}
    jobs = join(groups, logs, processes_per_node=settings.processes_per_node)
    for group, facts in zip(groups, jobs.facts, strict=True):
        _add_refused(facts, n_refused[str(logs[group.logs[0]][0].job_id)])
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
    tables = {name: empty_table(name) for name in JOB_TABLES}
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
        values = np.asarray(values)
        if values.dtype.kind == "f":
            values = np.where(np.isposinf(values), np.nan, values)  # no upper bound
        series[column] = pd.Series(values)
    return check_table(pd.DataFrame(series, copy=False), name)


def _transposed(rows: Sequence[Mapping[str, Any]]) -> dict[str, list]:
    """Return the columns of rows."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _add_refused(facts: dict[str, Any], n_refused: int) -> None:
    """Add a remark if logs with the job's id are refused: processes may be missing."""
    if n_refused:
        words = count_words(n_refused, "log has", "logs have")
        remark = f"{words} the job's id in the name and cannot be used."
        facts["remarks"] = f"{facts['remarks']} {remark}".lstrip()


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


def _prefix_rows(
    summaries: Sequence[Summary], tiers: str | Sequence[TierPrefix]
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
