"""Analyse Darshan logs of any jobs: from logs to tables."""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from tierscope.analysis.logs.choice import jobs_with_pages
from tierscope.core.tables import check_table, empty_table
from tierscope.core.validation import ConfigError, check
from tierscope.core.words import as_utf8, count_words, printable
from tierscope.logs.combinations import combinations_of_jobs
from tierscope.logs.fleet import with_outliers
from tierscope.logs.grouping import LogFacts, LogGroup, group_logs
from tierscope.logs.jobs import Logs, tables_of_jobs
from tierscope.logs.join import main_log, user_of
from tierscope.logs.joining.collection import collection_paused
from tierscope.logs.reading import SAME_CONTENT, read_logs
from tierscope.logs.settings import LOGS, Settings, find_logs, settings_of
from tierscope.logs.summary import Summary
from tierscope.logs.tiers import AUTO, OTHER, UNNAMED, TierPrefix, in_order

_JOB_ID = re.compile(r"_id(-?\d+)[-_]")  # in the name of a log
_MOST_KNOWN = 5  # values that an error names
_MOST_SEARCHED = 100  # jobs of a call of `analyse`, for combinations
Progress = Callable[[int, int], None]


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
    n_workers : int, optional
        Number of processes that read.

    Returns
    -------
    dict of str to DataFrame
        The tables `JOB_TABLES`; docs/tables.md lists their columns. A log that cannot
        be used is a row of ``refusals``. ``job_combinations`` has rows of the 100 jobs
        with the most hours (``io_hours`` in ``fleet``); for others call
        `tierscope.logs.combinations.combinations_of_jobs` with these tables.

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
    settings = settings_of(**arguments, pages=_MOST_SEARCHED)
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
    """Return the tables of an analysis; what was read is kept in a folder.

    Combinations are searched for the jobs that get pages.

    Raises
    ------
    ConfigError
        If no log is found, none can be used, or a filter keeps none.
    """
    with collection_paused():
        reading = read_logs(
            find_logs(settings.logs),
            settings.tiers if settings.tiers == AUTO else list(settings.tiers),
            settings.epochs,
            folder,
            n_workers=n_workers,
            progress=progress,
        )
    logs = {
        (facts := log_facts(path, summary)).path: (facts, summary)
        for path, summary in reading.summaries.items()
    }
    if not logs:
        raise _none_usable(reading.refusals)
    groups = group_logs([facts for facts, _ in logs.values()], settings.group)
    groups = _filtered(groups, logs, settings.filter)
    tables, refused = tables_of_jobs(groups, logs, settings)
    _add_refused(tables["jobs"], tables["logs"], reading.refusals)
    for group, reason in refused.items():
        words = f"its job {group.name} cannot be analysed: {reason}"
        reading.refusals |= {str(path): words for path in group.logs}
    if tables["jobs"].empty:
        raise _none_usable(reading.refusals)
    tables["fleet"] = with_outliers(tables["fleet"])
    shown = jobs_with_pages(tables["fleet"], settings.pages)
    found = combinations_of_jobs(tables, shown, settings.goal_s)
    used = [group for group in groups if group not in refused]
    summaries = [logs[path][1] for group in used for path in group.logs]
    rows = {
        "tier_prefixes": _prefix_rows(summaries, settings.tiers),
        "refusals": [
            {"log": as_utf8(one), "reason": as_utf8(why)}
            for one, why in reading.refusals.items()
        ],
    }
    others = {
        name: check_table(pd.DataFrame(of), name) if of else empty_table(name)
        for name, of in rows.items()
    }
    return tables | others | {"job_combinations": found}


def _add_refused(
    jobs: pd.DataFrame, logs: pd.DataFrame, refusals: Mapping[str, str]
) -> None:
    """Add a remark to jobs with whose id logs are refused: processes may be missing."""
    n_refused = Counter(
        found[1]
        for path, reason in refusals.items()
        if SAME_CONTENT not in reason and (found := _JOB_ID.search(Path(path).name))
    )
    if not n_refused:
        return
    first = logs.groupby("job", sort=False)["job_id"].first().astype("str")
    for row, job_id in first[jobs["job"]].reset_index(drop=True).items():
        if n := n_refused[job_id]:
            words = count_words(n, "log has", "logs have")
            remark = f"{words} the job's id in the name and cannot be used."
            before = jobs.loc[row, "remarks"]
            jobs.loc[row, "remarks"] = f"{before} {remark}".lstrip()


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


def _none_usable(refusals: Mapping[str, str]) -> ConfigError:
    """Return the error of logs that are all refused, with the first reasons."""
    reasons = [f"{log}: {why.rstrip('.')}" for log, why in sorted(refusals.items())]
    words = "; ".join(reasons[:_MOST_KNOWN])
    if len(refusals) > _MOST_KNOWN:
        words += f"; and {len(refusals) - _MOST_KNOWN:,} more"
    each = "log, which cannot be used", "logs, none of which can be used"
    found = count_words(len(refusals), *each)
    line = f"config: logs: got {found}, expected one that can: {words}"
    return ConfigError(printable(as_utf8(line)))


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


def log_facts(path: str, summary: Summary) -> LogFacts:
    """Return what tells to which job a log belongs."""
    facts = summary.facts
    names = ("uid", "job_id", "n_processes", "started_s", "ended_s", "exe", "metadata")
    return LogFacts(
        Path(path),
        *(facts[name] for name in names),
        has_io=any(cell[1] not in (OTHER, UNNAMED) for cell in summary.cells),
    )
