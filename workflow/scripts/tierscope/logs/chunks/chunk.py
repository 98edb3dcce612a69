"""Read the logs of a chunk, join its jobs, and write their tables.

A chunk knows nothing of others. So it writes, beside the tables `OF_JOBS`, what the
gathering needs to find jobs whose logs lie in several chunks: the tables `INTERNAL`.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tierscope.core.files import errors_named
from tierscope.core.parquet import METADATA, parquet_writer, write_parquet
from tierscope.core.tables import empty_table
from tierscope.core.words import as_utf8
from tierscope.logs.chunks.folders import UNREAD, folder_written_whole
from tierscope.logs.chunks.listing import ListedLog
from tierscope.logs.chunks.store import ReadLogs
from tierscope.logs.chunks.users import Users, user_in
from tierscope.logs.grouping import LogFacts, LogGroup, group_logs
from tierscope.logs.jobs import OF_JOBS, Frames, Logs, tables_of_jobs
from tierscope.logs.join import main_log
from tierscope.logs.reading import ReadLog, Refusal, read_logs, reading_key
from tierscope.logs.settings import Settings

Progress = Callable[[str, int, int], None]  # what, done, total
Facts = Mapping[Path, LogFacts]

# Logs that were read: `group` is a traced command's; `facts` those of one process.
LOGS = pa.schema(
    {
        "log": pa.binary(),
        "digest": pa.string(),
        "user": pa.string(),  # in its name
        "job": pa.string(),  # none of a log with the content of another one
        "uid": pa.int64(),
        "job_id": pa.int64(),
        "n_processes": pa.int64(),
        "started_s": pa.float64(),
        "ended_s": pa.float64(),
        "group": pa.string(),
        "facts": pa.large_string(),
    }
)
# Jobs, also those that are filtered out or refused. The first log gives their order.
JOBS = pa.schema(
    {
        "job": pa.string(),
        "stem": pa.string(),
        "started_s": pa.float64(),
        "pid": pa.int64(),
        "log": pa.binary(),
        "job_id": pa.int64(),
        "n_logs": pa.int64(),
        "grouped_by": pa.string(),
        "user": pa.string(),
        "uid": pa.int64(),
        "executable": pa.string(),
        "month": pa.string(),
        "is_kept": pa.bool_(),
        "refused": pa.string(),
    }
)
PREFIXES = pa.schema(
    {
        "job": pa.string(),
        "tier": pa.string(),
        "prefix": pa.string(),
        "fs_type": pa.string(),
        "n_logs": pa.int64(),
    }
)
# Logs that were refused: the same log may be read later if the reason may pass.
REFUSALS = pa.schema(
    {"log": pa.binary(), "reason": pa.string(), "may_pass": pa.bool_()}
)
INTERNAL = {
    "read_logs": LOGS,
    "all_jobs": JOBS,
    "prefixes_of_jobs": PREFIXES,
    UNREAD: REFUSALS,
}
_KEEP_S = 300.0  # after which what was read is kept, for a start after a kill
_MOST_PID = 1 << 62
_MOST_JOBS = 2000  # that are joined at once
_MOST_BYTES = 16 << 20  # of their summaries
_MOST_ROWS = 200_000  # of their processes, about 1.2 kB each
USUAL_BYTES = 2000  # of the summary of a log without epochs


def read_chunk(
    logs: Sequence[ListedLog],
    settings: Settings,
    *,
    chunk: str,
    kept: Path,
    output: Path,
    n_workers: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> None:
    """Read the logs of a chunk, and write a file of each table to a folder.

    Parameters
    ----------
    logs : sequence of ListedLog
        The logs, sorted by path.
    settings : Settings
    chunk : str
        Name of the chunk.
    kept : Path
        The folder in which is kept what was read of all chunks.
    output : Path
        The folder of the tables; an older one is replaced.
    n_workers : int, optional
        Number of processes that read.
    progress : callable of (what is done, done, total)
    """
    key = reading_key(settings.tiers, settings.epochs)
    kept_s = time.monotonic()

    def add(path: str, answer: ReadLog | Refusal) -> None:
        nonlocal kept_s
        reading.add(path, answer)
        if time.monotonic() - kept_s >= _KEEP_S:
            reading.keep()
            kept_s = time.monotonic()

    with errors_named(kept), ReadLogs(kept, chunk, logs, key) as reading:
        if not reading.take_kept():
            read_logs(
                [log for log in logs if log.path not in reading],
                settings.tiers,
                settings.epochs,
                keep=add,
                n_workers=n_workers,
                timeout_s=settings.log_timeout_s,
                inflation=settings.inflation,
                progress=lambda done, total: progress("reading", done, total),
            )
            reading.keep()
        with folder_written_whole(output, reading.started_ns) as folder:
            _write_tables(reading, settings, folder, progress)


def _write_tables(
    reading: ReadLogs, settings: Settings, folder: Path, progress: Progress
) -> None:
    """Join the jobs of a chunk and write all its tables."""
    named = {path: _user_in(path, facts) for path, facts in reading.facts.items()}
    users = Users((reading.facts[path]["uid"], name) for path, name in named.items())
    facts = {
        Path(path): log_facts(Path(path), reading.facts[path], users)
        for path in first_with_content(reading.digests)
    }
    groups = group_logs(facts.values(), settings.group)
    rows = [job_row(group, facts, settings, users) for group in groups]
    kept = [g for g, row in zip(groups, rows, strict=True) if row["is_kept"]]

    def logs_of(some: Sequence[LogGroup]) -> Logs:
        paths = (path for group in some for path in group.logs)
        return {path: (facts[path], reading.summary(str(path))) for path in paths}

    refused, prefixes = write_jobs(
        kept, logs_of, reading.n_bytes_of, settings, folder, progress
    )
    for row in rows:
        row["refused"] = refused.get(row["job"], "")
    unread = [
        {
            "log": os.fsencode(path),
            "reason": as_utf8(refusal.reason),
            "may_pass": refusal.may_pass,
        }
        for path, refusal in sorted(reading.refusals.items())
    ]
    unkept = {row["job"] for row in rows if not row["is_kept"]}
    of_logs = _log_rows(groups, reading, named, unkept)
    for name, found in zip(INTERNAL, (of_logs, rows, prefixes, unread), strict=True):
        table = pa.Table.from_pylist(found, INTERNAL[name])
        write_parquet(table, folder / f"{name}.parquet")


def _user_in(path: str, facts: Mapping[str, Any]) -> str:
    """Return the user in the name of a log."""
    return user_in(Path(path), LogFacts(Path(path), **facts).interpreter)


def log_facts(path: Path, facts: Mapping[str, Any], users: Users) -> LogFacts:
    """Return what a log says about its job."""
    return LogFacts(path, **facts, user=users.name_of(facts["uid"]))


def first_with_content(digests: Mapping[str, str]) -> list[str]:
    """Return the logs of which none before has the same content, sorted."""
    first: dict[str, str] = {}
    for path in sorted(digests, key=os.fsencode):
        first.setdefault(digests[path], path)
    return list(first.values())


def batches(
    groups: Sequence[LogGroup], n_bytes_of: Callable[[LogGroup], int]
) -> Iterator[list[LogGroup]]:
    """Yield some jobs at a time, whose summaries and processes fit into memory.

    `n_bytes_of` returns the length of a job's summaries. The processes of a job need
    memory for each of its epochs and classes, of which these bytes tell.
    """
    some, n_bytes, n_rows = [], 0, 0
    for group in groups:
        own = n_bytes_of(group)
        rows = group.n_processes * (1 + own // USUAL_BYTES)
        is_full = n_bytes + own > _MOST_BYTES or n_rows + rows > _MOST_ROWS
        if some and (is_full or len(some) == _MOST_JOBS):
            yield some
            some, n_bytes, n_rows = [], 0, 0
        some.append(group)
        n_bytes, n_rows = n_bytes + own, n_rows + rows
    if some:
        yield some


class TableWriters(ExitStack):
    """Files of tables in a folder, to which rows are added."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        super().__init__()
        self._folder, self._names = folder, names
        self._files: dict[str, pq.ParquetWriter] = {}
        self.push(self._write_those_without_rows)

    def _write_those_without_rows(self, *error: object) -> None:
        """Write, if nothing has failed, the tables to which no row was added."""
        if error[0] is None:
            self.write({name: empty_table(name) for name in self._names})

    def write(self, tables: Frames) -> None:
        """Add the rows of checked tables."""
        for name, frame in tables.items():
            if name in self._files and frame.empty:
                continue
            table = pa.Table.from_pandas(frame, preserve_index=False)
            table = table.replace_schema_metadata(METADATA)
            if name not in self._files:
                self._files[name] = self.enter_context(
                    parquet_writer(self._folder / f"{name}.parquet", table.schema)
                )
            self._files[name].write_table(table.cast(self._files[name].schema))


def write_jobs(
    groups: Sequence[LogGroup],
    logs_of: Callable[[Sequence[LogGroup]], Logs],
    n_bytes_of: Callable[[LogGroup], int],
    settings: Settings,
    folder: Path,
    progress: Progress = lambda what, done, total: None,
) -> tuple[dict[str, str], list[dict]]:
    """Join jobs, some at a time, and write their tables.

    Parameters
    ----------
    groups : sequence of LogGroup
    logs_of : callable
        The summaries of the logs of some jobs.
    n_bytes_of : callable
        Their length in bytes, of a job.
    settings : Settings
    folder : Path
    progress : callable of (what is done, done, total)

    Returns
    -------
    refused : dict of str to str
        Why jobs that are named cannot be analysed.
    prefixes : list of dict
        The rows of table ``prefixes_of_jobs`` of the others.
    """
    refused, prefixes, n_done = {}, [], 0
    with TableWriters(folder, OF_JOBS) as writers:
        for some in batches(groups, n_bytes_of):
            logs = logs_of(some)
            tables, not_joined = tables_of_jobs(some, logs, settings)
            writers.write(tables)
            refused |= {group.name: why for group, why in not_joined.items()}
            joined = [group for group in some if group not in not_joined]
            prefixes += _prefix_rows(joined, logs)
            n_done += len(some)
            progress("joining", n_done, len(groups))
    return refused, prefixes


# ---- Rows of internal tables


def job_row(group: LogGroup, facts: Facts, settings: Settings, users: Users) -> dict:
    """Return the row of a job in table ``all_jobs``, without why it is refused."""
    main, first = facts[main_log(group)], facts[group.logs[0]]
    month = f"{datetime.fromtimestamp(main.started_s, UTC):%Y-%m}"
    started_s, pid, path = first.order()
    return {
        "job": group.name,
        "stem": group.stem,
        "started_s": started_s,
        "pid": min(pid, _MOST_PID),
        "log": os.fsencode(path),
        "job_id": first.job_id,
        "n_logs": len(group.logs),
        "grouped_by": group.grouped_by,
        "user": main.user,
        "uid": main.uid,
        "executable": as_utf8(main.program),
        "month": month,
        "is_kept": users.keeps(settings.wanted, main.uid, main.program, month),
    }


def _prefix_rows(groups: Sequence[LogGroup], logs: Logs) -> list[dict]:
    """Return how many logs of each job have paths of each prefix."""
    rows = []
    for group in groups:
        counts = Counter(
            tuple(prefix) for path in group.logs for prefix in logs[path][1].prefixes
        )
        for (tier, prefix, fs_type), n_logs in counts.items():
            values = (group.name, tier, prefix, fs_type, n_logs)
            rows.append(dict(zip(PREFIXES.names, values, strict=True)))
    return rows


def _log_rows(
    groups: Sequence[LogGroup],
    reading: ReadLogs,
    named: Mapping[str, str],
    unkept: Collection[str],
) -> list[dict]:
    """Return the rows of all logs that were read; `named` has the user in each name."""
    job_of = {str(path): group.name for group in groups for path in group.logs}
    rows = []
    for path, digest in reading.digests.items():
        facts = reading.facts[path]
        # It needs no other log then, unless one of another chunk may name its user.
        is_done = facts["n_processes"] > 1 and job_of.get(path, "") not in unkept
        rows.append(
            {name: facts[name] for name in LOGS.names if name in facts}
            | {
                "log": os.fsencode(path),
                "digest": digest,
                "user": named[path],
                "job": job_of.get(path, ""),
                "group": as_utf8(facts["metadata"].get("group", "")),
                "facts": "" if is_done else json.dumps(facts),
            }
        )
    return rows
