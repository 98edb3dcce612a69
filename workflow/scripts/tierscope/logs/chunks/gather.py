"""Make the tables of an analysis from those of its chunks.

Most jobs lie in one chunk, and the files of their tables are only linked. The gathering
decides what no chunk knows: jobs whose logs lie in several chunks, logs with the
content of another one, names of jobs that come again, and which jobs are outliers.
"""

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from tierscope.core.parquet import read_parquet
from tierscope.core.validation import ConfigError
from tierscope.core.words import as_text, as_utf8, count_words, printable
from tierscope.logs.chunks.across import related_logs
from tierscope.logs.chunks.chunk import (
    INTERNAL,
    JOBS,
    LOGS,
    PREFIXES,
    USUAL_BYTES,
    job_row,
    log_facts,
    write_jobs,
)
from tierscope.logs.chunks.datasets import ChunkPart, places_in, rewrite, write_datasets
from tierscope.logs.chunks.folders import folder_written_whole, remove_others
from tierscope.logs.chunks.store import kept_summaries
from tierscope.logs.chunks.users import Users
from tierscope.logs.combinations import write_combinations
from tierscope.logs.grouping import LogFacts, LogGroup, group_logs, unused_name
from tierscope.logs.jobs import Logs
from tierscope.logs.settings import Settings
from tierscope.logs.tiers import in_order

SAME_CONTENT = "has the same content as"
_JOB_ID = re.compile(r"_id(-?\d+)[-_]")  # in the name of a log
_MOST_KNOWN = 5  # values that an error names
_NO_NAMES = " (anonymous: true hides details)"
_ACROSS = "across"  # the name of their chunk
_NO_FACTS = [name for name in LOGS.names if name != "facts"]
_ORDER = ["started_s", "pid", "log"]


@dataclass
class _Found:
    """What chunks say of their logs and jobs: internal tables, one below the other."""

    names: list[str]  # column `chunk` counts them, and jobs across chunks come after
    folders: list[Path]
    logs: pd.DataFrame
    jobs: pd.DataFrame
    prefixes: pd.DataFrame
    unread: pd.DataFrame
    users: Users = field(default_factory=lambda: Users(()))
    groups: list[LogGroup] = field(default_factory=list)
    facts: dict[Path, LogFacts] = field(default_factory=dict)
    chunk_of: dict[Path, int] = field(default_factory=dict)  # of the logs of `facts`


def gather(
    chunks: Sequence[Path],
    settings: Settings,
    *,
    kept: Path,
    tables: Path,
    look: Callable[[Mapping[str, Path]], object] = lambda places: None,
    without_names: Callable[[Mapping[str, Path], Path], None] | None = None,
) -> None:
    """Write the tables of all chunks as folders of files.

    Parameters
    ----------
    chunks : sequence of Path
        The folder of each chunk's tables; its name is that of the chunk.
    settings : Settings
    kept : Path
        The folder in which is kept what was read of all chunks.
    tables : Path
        The folder of the tables; an older one is replaced.
    look : callable
        Looks at the tables by name, which have the names of people.
    without_names : callable, optional
        Writes the tables to a folder without the names of people.

    Raises
    ------
    ConfigError
        If no log can be used, or a filter keeps no job.
    """
    found = _found_in(sorted(chunks))
    copies = _take_copies(found)
    _name_users(found)
    _regroup(found, settings)
    _name_jobs(found)
    _refuse_filter(found, settings)
    with folder_written_whole(tables) as folder:
        across = folder / f".{_ACROSS}"
        across.mkdir()
        _join_across(found, settings, kept, across)
        refusals = _refusals(found, copies)
        if not (found.jobs["is_kept"] & found.jobs["refused"].eq("")).any():
            raise _none_usable(refusals, settings.anonymous)
        others = {
            "refusals": refusals,
            "tier_prefixes": _prefixes(found, settings),
        }
        write_datasets(_parts(found, across), others, folder)
        shutil.rmtree(across)
        look(places_in(folder))
        if without_names:
            rewrite(folder, without_names)
        write_combinations(folder, settings.pages, settings.goal_s)
    for folder in (kept, *{chunk.parent for chunk in chunks}):
        remove_others(folder, set(found.names))  # what was of chunks that are no more


def _found_in(chunks: Sequence[Path]) -> _Found:
    """Return what chunks say of their logs and jobs."""
    columns = {"read_logs": _NO_FACTS}
    frames = {
        name: pd.concat(
            [
                read_parquet(chunk / f"{name}.parquet", columns=columns.get(name))
                .to_pandas()
                .assign(chunk=number)
                for number, chunk in enumerate(chunks)
            ],
            ignore_index=True,
        )
        for name in INTERNAL
    }
    return _Found([chunk.name for chunk in chunks], list(chunks), *frames.values())


def _take_copies(found: _Found) -> pd.DataFrame:
    """Mark the logs with the content of another one, the first by path; return them."""
    logs = found.logs.sort_values("log", kind="stable")
    first = logs.groupby("digest")["log"].transform("first")
    is_copy = first != logs["log"]
    found.logs = logs.assign(is_copy=is_copy).reset_index(drop=True)
    return logs.assign(first=first)[is_copy]


def _name_users(found: _Found) -> None:
    """Give each user one name; logs of all chunks tell it."""
    logs = found.logs
    found.users = Users(zip(logs["uid"].tolist(), logs["user"].tolist(), strict=True))
    found.jobs["user"] = found.jobs["uid"].map(found.users.name_of)


def _renamed_users(found: _Found, logs: pd.DataFrame) -> set[int]:
    """Return the numbers of users whom other chunks know better than these logs."""
    uids = logs["uid"].tolist()
    own = Users(zip(uids, logs["user"].tolist(), strict=True))
    return {uid for uid in set(uids) if own.name_of(uid) != found.users.name_of(uid)}


def _late(found: _Found, settings: Settings) -> set[tuple[int, str]]:
    """Return the jobs that a filter keeps by a name that only other chunks know."""
    jobs = found.jobs[~found.jobs["is_kept"]]
    if "user" not in settings.wanted:
        return set()
    return {
        (row.chunk, row.job)
        for row in jobs.itertuples(index=False)
        if found.users.keeps(settings.wanted, row.uid, row.executable, row.month)
    }


def _regroup(found: _Found, settings: Settings) -> None:
    """Find the jobs across chunks, which replace jobs that chunks took for whole."""
    logs = found.logs
    is_used_copy = logs["is_copy"] & (logs["job"] != "")
    late = _late(found, settings)
    spanning = _spanning(logs, settings, late)
    owners = _owners(spanning)
    touched = {*owners, *_owners(logs[is_used_copy])}
    found.facts = _facts(found, spanning)
    paths = [Path(os.fsdecode(log)) for log in spanning["log"]]
    owner_of = dict(zip(paths, owners, strict=True))
    found.chunk_of = dict(zip(paths, spanning["chunk"], strict=True))
    kinds = zip(found.jobs["n_logs"], found.jobs["grouped_by"], strict=True)
    kind_of = dict(zip(_owners(found.jobs), kinds, strict=True))
    for group in group_logs(found.facts.values(), settings.group):
        of = {owner_of[path] for path in group.logs}
        kind = (len(group.logs), group.grouped_by)
        if len(of) == 1 and kind_of[next(iter(of))] == kind and not of & late:
            touched -= of
        else:
            found.groups.append(group)
    is_touched = [owner in touched for owner in _owners(found.jobs)]
    rows = [
        job_row(group, found.facts, settings, found.users) for group in found.groups
    ]
    new = pa.Table.from_pylist([row | {"refused": ""} for row in rows], JOBS)
    new = new.to_pandas().assign(chunk=len(found.names))
    kept = found.jobs[~np.array(is_touched, bool)]
    found.jobs = pd.concat([kept, new], ignore_index=True)


def _spanning(
    logs: pd.DataFrame, settings: Settings, late: Collection[tuple[int, str]]
) -> pd.DataFrame:
    """Return the logs whose jobs no chunk has joined, or none knows."""
    single = logs[(logs["n_processes"] == 1) & (logs["job"] != "")]
    number = pd.Series(related_logs(single, settings.group), index=single.index)
    spans = single["chunk"].groupby(number).transform("nunique") > 1
    spans |= single["is_copy"].groupby(number).transform("any")
    is_late = pd.Series([owner in late for owner in _owners(logs)], logs.index, bool)
    is_wanted = spans.reindex(logs.index, fill_value=False) | is_late
    return logs[is_wanted & ~logs["is_copy"]]


def _owners(rows: pd.DataFrame) -> list[tuple[int, str]]:
    """Return the chunk and the job of each row."""
    return list(zip(rows["chunk"], rows["job"], strict=True))


def _facts(found: _Found, logs: pd.DataFrame) -> dict[Path, LogFacts]:
    """Return what tells the jobs of some logs of one process."""
    facts = {}
    for chunk, some in logs.groupby("chunk"):
        path = found.folders[chunk] / "read_logs.parquet"
        rows = read_parquet(
            path,
            columns=["log", "facts"],
            filters=[("log", "in", set(some["log"]))],
        )
        for row in rows.to_pylist():
            log = Path(os.fsdecode(row["log"]))
            facts[log] = log_facts(log, json.loads(row["facts"]), found.users)
    return facts


def _name_jobs(found: _Found) -> None:
    """Give each job a name that no other one has, in the order of their starts."""
    found.jobs = found.jobs.sort_values(_ORDER, ignore_index=True)
    taken: dict[str, int] = {}
    found.jobs["name"] = [unused_name(stem, taken) for stem in found.jobs["stem"]]
    across = found.jobs[found.jobs["chunk"] == len(found.names)]
    names = dict(zip(across["job"], across["name"], strict=True))
    found.groups = [replace(one, name=names[one.name]) for one in found.groups]
    found.jobs.loc[across.index, "job"] = across["name"]


def _refuse_filter(found: _Found, settings: Settings) -> None:
    """Refuse a filter that keeps no job."""
    wanted = settings.wanted
    if found.jobs.empty or found.jobs["is_kept"].any():
        return
    known = "; ".join(_values(found.jobs[key], key) for key in wanted)
    got, words = str(wanted), f": {known}"
    if settings.anonymous:
        got, words = " and ".join(wanted), _NO_NAMES
    raise ConfigError(
        f"config: filter: got {got}, which none of the {len(found.jobs)} jobs "
        f"meets, expected values that jobs have{words}"
    )


def _values(column: pd.Series, key: str) -> str:
    """Return the most frequent values of a column in words."""
    counts = Counter(column).most_common()
    names = ", ".join(name for name, _ in counts[:_MOST_KNOWN])
    return f"{key} is {names}{' or another' if len(counts) > _MOST_KNOWN else ''}"


def _join_across(found: _Found, settings: Settings, kept: Path, folder: Path) -> None:
    """Join the jobs across chunks and write their tables."""
    is_across = found.jobs["chunk"] == len(found.names)
    wanted = set(found.jobs.loc[is_across & found.jobs["is_kept"], "name"])
    groups = [group for group in found.groups if group.name in wanted]

    def logs_of(some: Sequence[LogGroup]) -> Logs:
        paths = pd.Series([path for group in some for path in group.logs])
        return {
            path: (found.facts[path], summary)
            for chunk, own in paths.groupby(paths.map(found.chunk_of))
            for path, summary in kept_summaries(kept, found.names[chunk], own).items()
        }

    def n_bytes_of(group: LogGroup) -> int:
        return USUAL_BYTES * len(group.logs)

    refused, prefixes = write_jobs(groups, logs_of, n_bytes_of, settings, folder)
    why = found.jobs["name"].map(refused)
    found.jobs["refused"] = found.jobs["refused"].where(why.isna(), why)
    new = pa.Table.from_pylist(prefixes, PREFIXES).to_pandas()
    new = new.assign(chunk=len(found.names))
    found.prefixes = pd.concat([found.prefixes, new], ignore_index=True)


# ---- Refusals and prefixes


def _refusals(found: _Found, copies: pd.DataFrame) -> pd.DataFrame:
    """Return table ``refusals``, by path."""
    rows = dict(zip(found.unread["log"], found.unread["reason"], strict=True))
    for log, first in zip(copies["log"], copies["first"], strict=True):
        rows[log] = f"{SAME_CONTENT} {_words(first)}."
    jobs = found.jobs[found.jobs["refused"] != ""]
    whys = zip(_owners(jobs), jobs["name"], jobs["refused"], strict=True)
    reasons = {
        owner: f"its job {name} cannot be analysed: {why}" for owner, name, why in whys
    }
    across = {group.name: group.logs for group in found.groups}
    for (chunk, job), reason in reasons.items():
        if chunk == len(found.names):
            rows |= {os.fsencode(path): reason for path in across[job]}
    if reasons:
        for log, owner in zip(found.logs["log"], _owners(found.logs), strict=True):
            if owner in reasons and log not in rows:
                rows[log] = reasons[owner]
    ordered = sorted(rows.items())
    columns = {
        "log": [_words(log) for log, _ in ordered],
        "reason": [reason for _, reason in ordered],
    }
    return pd.DataFrame(columns, dtype="str")


def _words(log: bytes) -> str:
    """Return the path of a log as text."""
    return as_utf8(as_text(log))


def _none_usable(refusals: pd.DataFrame, anonymous: bool) -> ConfigError:
    """Return the error of logs that are all refused, with the first reasons."""
    lines = [
        f"{log}: {reason.rstrip('.')}"
        for log, reason in refusals.head(_MOST_KNOWN).itertuples(index=False)
    ]
    words = f": {'; '.join(lines)}"
    if len(refusals) > _MOST_KNOWN:
        words += f"; and {len(refusals) - _MOST_KNOWN:,} more"
    if anonymous:
        words = _NO_NAMES
    each = "log, which cannot be used", "logs, none of which can be used"
    line = f"config: logs: got {count_words(len(refusals), *each)}, expected one that "
    return ConfigError(printable(f"{line}can{words}"))


def _prefixes(found: _Found, settings: Settings) -> pd.DataFrame:
    """Return table ``tier_prefixes``: tiers that logs used, in order."""
    keys = ["tier", "prefix", "fs_type"]
    there = found.jobs[["chunk", "job"]]
    rows = found.prefixes.merge(there, on=["chunk", "job"])
    sums = rows.groupby(keys, as_index=False)["n_logs"].sum()
    order = in_order(set(sums["tier"]), settings.tiers)
    places = sums["tier"].map({tier: at for at, tier in enumerate(order)})
    sums = sums.assign(place=places).sort_values(["place", *keys], ignore_index=True)
    return sums[[*keys, "n_logs"]].astype({key: "str" for key in keys})


# ---- Files


def _parts(found: _Found, across: Path) -> list[ChunkPart]:
    """Return what of each chunk's tables is of the analysis."""
    n_refused = Counter(
        name[1]
        for log in found.unread["log"]
        if (name := _JOB_ID.search(os.path.basename(os.fsdecode(log))))
    )
    why = "the job's id in the name and cannot be used."
    parts = []
    for chunk, folder in enumerate([*found.folders, across]):
        jobs = found.jobs[found.jobs["chunk"] == chunk]
        names = dict(zip(jobs["job"], jobs["name"], strict=True))
        remarks = {
            job: f"{count_words(n, 'log has', 'logs have')} {why}"
            for job, job_id in zip(jobs["job"], jobs["job_id"], strict=True)
            if (n := n_refused[str(job_id)])
        }
        name = folder.name.lstrip(".")
        logs = found.logs[found.logs["chunk"] == chunk]
        renamed = _renamed_users(found, logs)
        of_jobs = jobs[jobs["uid"].isin(renamed)]
        users = dict(zip(of_jobs["job"], of_jobs["user"], strict=True))
        logs = logs[logs["uid"].isin(renamed)]
        users_of_logs = {
            _words(log): found.users.name_of(uid)
            for log, uid in zip(logs["log"], logs["uid"], strict=True)
        }
        parts.append(ChunkPart(name, folder, names, remarks, users, users_of_logs))
    return parts
