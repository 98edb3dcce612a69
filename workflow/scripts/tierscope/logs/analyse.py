"""Analyse Darshan logs of any jobs: from logs to tables."""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset as ds

from tierscope.core.columns import LOWER_BOUNDS, TABLES
from tierscope.core.tables import TableError, check_table, open_table, write_table
from tierscope.core.validation import ConfigError, check
from tierscope.core.words import (
    as_utf8,
    bounds_words,
    class_label,
    count_words,
    number_words,
    printable,
)
from tierscope.logs.fleet import class_rows, faster_meta, fleet_rows
from tierscope.logs.grouping import LogFacts, LogGroup, group_logs
from tierscope.logs.join import (
    WHOLE_JOB,
    JoinedJob,
    Phase,
    join,
    main_log,
    user_of,
)
from tierscope.logs.reading import SAME_CONTENT, Reading, read_logs
from tierscope.logs.settings import LOGS, Settings, find_logs, settings_of
from tierscope.logs.summary import NO_RUN_TIME, Summary
from tierscope.logs.tiers import AUTO, OTHER, UNNAMED, TierPrefix, in_order
from tierscope.logs.whatif import combinations_for_goal, estimate_job

GOAL_PERCENT = 80  # of today's I/O time, if no goal is given
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
_MOST_LABELS = 3
_MOST_KNOWN = 5  # values that an error names
_HALF = 50.0  # percent
_NEARLY = 0.99  # of the most that the slowest can take: who takes that is named
Progress = Callable[[int, int], None]
Logs = dict[Path, tuple[LogFacts, Summary]]
Frames = dict[str, pd.DataFrame]


def analyse(
    logs: str | Path | Sequence[str | Path],
    tiers: str | Mapping[str, str | Sequence[str]] = AUTO,
    *,
    group: str | Mapping[str, str] = AUTO,
    epochs: str | None = None,
    goal_s: float | None = None,
    processes_per_node: int | None = None,
    keep: str | Path | None = None,
    lazy: bool = False,
    n_workers: int | None = None,
) -> dict[str, pd.DataFrame] | dict[str, ds.Dataset]:
    """Analyse Darshan logs of any jobs.

    Parameters
    ----------
    logs : path or sequence of paths
        Logs, folders of logs, and patterns.
    tiers : mapping of str to str or sequence of str, or ``auto``
        Prefixes of paths by tier. ``auto``: one tier for each kind of file system in
        the mount table of a log.
    group : {"auto", "one"} or mapping
        Which logs form a job (`tierscope.logs.grouping.group_logs`).
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
    lazy : bool, optional
        Whether to write the tables to ``tables`` in `keep`, and to return what reads
        them in parts.
    n_workers : int, optional
        Number of processes that read.

    Returns
    -------
    dict of str to DataFrame, or to pyarrow's Dataset if `lazy`
        The tables `JOB_TABLES`; docs/tables.md lists their columns. A log that cannot
        be used is a row of ``refusals``.

    Raises
    ------
    ConfigError
        If an argument is wrong, or no log is found, or none can be used.
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
    if lazy and keep is None:
        raise ConfigError(
            "analyse: lazy: got True without keep, expected keep: a folder for tables"
        )
    if keep is not None:
        tables = tables_of(settings, Path(keep), n_workers=n_workers)
        return written_tables(tables, Path(keep, "tables")) if lazy else tables
    with tempfile.TemporaryDirectory() as folder:
        return tables_of(settings, Path(folder), n_workers=n_workers)


def written_tables(
    tables: Mapping[str, pd.DataFrame], folder: Path
) -> dict[str, ds.Dataset]:
    """Write tables to a folder, and return what reads them in parts."""
    for name, frame in tables.items():
        write_table(frame, folder / f"{name}.parquet", name)
    return {name: open_table(folder / f"{name}.parquet", name) for name in tables}


def tables_of(
    settings: Settings,
    folder: Path,
    *,
    n_workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> dict[str, pd.DataFrame]:
    """Return the tables of an analysis; what was read is kept in a folder.

    Raises
    ------
    ConfigError
        If no log is found, none can be used, or a filter keeps none.
    """
    reading = read_logs(
        find_logs(settings.logs),
        settings.tiers if settings.tiers == AUTO else list(settings.tiers),
        settings.epochs,
        folder,
        n_workers=n_workers,
        progress=progress,
    )
    logs = {
        (facts := _log_facts(path, summary)).path: (facts, summary)
        for path, summary in reading.summaries.items()
    }
    if not logs:
        raise _none_usable(reading)
    groups = group_logs([facts for facts, _ in logs.values()], settings.group)
    groups = _filtered(groups, logs, settings.filter)
    n_refused = Counter(
        found[1]
        for path, reason in reading.refusals.items()
        if SAME_CONTENT not in reason and (found := _JOB_ID.search(Path(path).name))
    )
    analysed: dict[LogGroup, tuple[JoinedJob, Frames]] = {}
    for group in groups:
        try:
            analysed[group] = _analysed(group, logs, settings)
            _add_refused(
                analysed[group][0], n_refused[str(logs[group.logs[0]][0].job_id)]
            )
        except (ValueError, ArithmeticError, MemoryError) as error:
            reading.refusals |= _of_job(group, error)
    try:
        tables = _tables(analysed, logs, reading, settings)
    except TableError:
        for group, (_, frames) in list(analysed.items()):
            try:
                for name, frame in frames.items():
                    _joined([frame], name)
            except TableError as error:
                reading.refusals |= _of_job(group, error)
                del analysed[group]
        tables = _tables(analysed, logs, reading, settings)
    if tables["jobs"].empty:
        raise _none_usable(reading)
    return tables


def _none_usable(reading: Reading) -> ConfigError:
    """Return the error of logs that are all refused, with the first reasons."""
    refusals = [
        f"{log}: {reason.rstrip('.')}"
        for log, reason in sorted(reading.refusals.items())
    ]
    words = "; ".join(refusals[:_MOST_KNOWN])
    if len(refusals) > _MOST_KNOWN:
        words += f"; and {len(refusals) - _MOST_KNOWN:,} more"
    each = "log, which cannot be used", "logs, none of which can be used"
    found = count_words(len(refusals), *each)
    line = f"config: logs: got {found}, expected one that can: {words}"
    return ConfigError(printable(as_utf8(line)))


def _add_refused(job: JoinedJob, n_refused: int) -> None:
    """Add a remark if logs with the job's id are refused: processes may be missing."""
    if n_refused:
        words = count_words(n_refused, "log has", "logs have")
        remark = f"{words} the job's id in the name and cannot be used."
        job.facts["remarks"] = f"{job.facts['remarks']} {remark}".lstrip()


def _of_job(group: LogGroup, error: Exception) -> dict[str, str]:
    """Return why logs are refused whose job has numbers that cannot be."""
    reason = f"its job {group.name} cannot be analysed: {error or 'too large'}"
    return {str(path): reason for path in group.logs}


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
    analysed: Mapping[LogGroup, tuple[JoinedJob, Frames]],
    logs: Logs,
    reading: Reading,
    settings: Settings,
) -> dict[str, pd.DataFrame]:
    """Return all tables of some jobs."""
    jobs = [job for job, _ in analysed.values()]
    parts = {name: [] for name in JOB_TABLES}
    for _, frames in analysed.values():
        for name, frame in frames.items():
            parts[name].append(frame)
    parts["jobs"].append(pd.DataFrame([job.facts for job in jobs]))
    parts["fleet"].append(pd.DataFrame(fleet_rows(jobs)))
    parts["fleet_classes"].append(pd.DataFrame(class_rows(jobs)))
    parts["logs"].append(pd.DataFrame(_log_rows(list(analysed), logs)))
    summaries = [logs[path][1] for group in analysed for path in group.logs]
    parts["tier_prefixes"].append(pd.DataFrame(_prefix_rows(summaries, settings.tiers)))
    refusals = [
        {"log": as_utf8(one), "reason": as_utf8(why)}
        for one, why in reading.refusals.items()
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


def _filtered(
    groups: Sequence[LogGroup], logs: Logs, wanted: Mapping[str, Any]
) -> list[LogGroup]:
    """Return the jobs that a filter keeps; a ConfigError if it keeps none."""
    wanted = {key: str(value) for key, value in wanted.items() if value is not None}
    known: dict[str, Counter] = {key: Counter() for key in wanted}
    kept = []
    for group in groups:
        first = main_log(group, logs)
        started = datetime.fromtimestamp(first.started_s, UTC)
        found = {
            "user": [user_of(first), str(first.uid)],
            "executable": [first.program],
            "month": [f"{started:%Y-%m}"],
        }
        if all(value in found[key] for key, value in wanted.items()):
            kept.append(group)
        for key, counts in known.items():
            counts[found[key][0]] += 1
    if groups and not kept:
        words = [
            f"{key} is {', '.join(name for name, _ in counts.most_common(_MOST_KNOWN))}"
            + (" or another" if len(counts) > _MOST_KNOWN else "")
            for key, counts in known.items()
        ]
        raise ConfigError(
            f"config: filter: got {wanted}, which none of the {len(groups)} jobs "
            f"meets, expected values that jobs have: {'; '.join(words)}"
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
