"""What was read of the logs of a chunk, in a file, so that it is not read again."""

import json
import os
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tierscope.core.files import written_whole
from tierscope.logs.chunks.listing import ListedLog
from tierscope.logs.grouping import LogGroup
from tierscope.logs.reading import ReadLog
from tierscope.logs.summary import Summary

_SCHEMA = pa.schema(
    {
        "log": pa.binary(),  # paths need not be UTF-8
        "size_bytes": pa.int64(),
        "mtime_ns": pa.int64(),
        "key": pa.string(),
        "digest": pa.string(),
        "facts": pa.large_string(),
        "summary": pa.large_string(),
    }
)
_STARTED = b"started_ns"  # of the process that has written a file
_ROWS_AT_ONCE = 256
_SUFFIX = ".parquet"


class _IsNewer(Exception):
    """What is kept was written by a process that started later."""


class ReadLogs:
    """What was read of some logs; the summaries lie in a file without a name.

    `refusals` has the reasons by path of logs that cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.started_ns = time.time_ns()
        self._file = tempfile.TemporaryFile(dir=folder)
        self._places: dict[str, tuple[int, int]] = {}
        self.digests: dict[str, str] = {}
        self.facts: dict[str, dict] = {}
        self.refusals: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, path: str, answer: ReadLog | str) -> None:
        """Take what was read of a log, or why it is refused."""
        if isinstance(answer, str):
            self.refusals[path] = answer
            return
        text = answer.summary.encode()
        self._places[path] = (self._file.seek(0, os.SEEK_END), len(text))
        self._file.write(text)
        self.digests[path], self.facts[path] = answer.digest, answer.facts

    def __contains__(self, path: str) -> bool:
        """Return whether a log was read."""
        return path in self.digests

    def n_bytes_of(self, group: LogGroup) -> int:
        """Return the length of the summaries of a job's logs."""
        return sum(self._places[str(path)][1] for path in group.logs)

    def text(self, path: str) -> str:
        """Return the summary of a log as text."""
        at, length = self._places[path]
        self._file.seek(at)
        return self._file.read(length).decode()

    def summary(self, path: str) -> Summary:
        """Return the summary of a log."""
        return Summary.from_json(json.loads(self.text(path)))


def kept_file(folder: Path, chunk: str) -> Path:
    """Return the file in which is kept what was read of a chunk."""
    return folder / f"{chunk}{_SUFFIX}"


def take_kept(
    reading: ReadLogs, folder: Path, chunk: str, logs: Sequence[ListedLog], key: str
) -> bool:
    """Take what was read before of logs that have not changed since.

    Returns whether all was in the chunk's file, which has nothing else.
    """
    wanted = {(os.fsencode(log.path), log.size_bytes, log.mtime_ns) for log in logs}
    has_more = False
    for row in _rows(kept_file(folder, chunk)):
        log = os.fsdecode(row["log"])
        state = (row["log"], row["size_bytes"], row["mtime_ns"])
        if state in wanted and row["key"] == key and log not in reading:
            reading.add(log, ReadLog(row["digest"], row["facts"], row["summary"]))
        else:
            has_more = True
    return not has_more and all(log.path in reading for log in logs)


def _rows(path: Path, columns: Collection[str] | None = None) -> Iterator[dict]:
    """Yield the rows of a file of kept logs; none if it is broken."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
                for row in batch.to_pylist():
                    yield row | {"facts": json.loads(row["facts"])}
    except (OSError, pa.ArrowException):  # a machine that stopped may leave such a file
        return


def keep(
    reading: ReadLogs, folder: Path, chunk: str, logs: Sequence[ListedLog], key: str
) -> None:
    """Keep what was read of a chunk's logs so far.

    Of a log that is not read, what was read with other settings is kept. What a process
    has kept that started later stays, as in `folder_written_whole`.
    """
    own, unread = kept_file(folder, chunk), {}
    not_read = {
        (os.fsencode(log.path), log.size_bytes, log.mtime_ns)
        for log in logs
        if log.path not in reading
    }
    if not_read and own.exists():
        for row in _rows(own):
            if (row["log"], row["size_bytes"], row["mtime_ns"]) in not_read:
                unread[row["log"]] = row | {"facts": json.dumps(row["facts"])}
    read = [log for log in logs if log.path in reading]
    schema = _SCHEMA.with_metadata({_STARTED: str(reading.started_ns)})
    with suppress(_IsNewer), written_whole(own) as temporary:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for at in range(0, len(read), _ROWS_AT_ONCE):
                some = read[at : at + _ROWS_AT_ONCE]
                rows = [_row(log, reading, key) for log in some]
                writer.write_table(pa.Table.from_pylist(rows, schema))
            writer.write_table(pa.Table.from_pylist(list(unread.values()), schema))
        if _started_ns(own) > reading.started_ns:
            raise _IsNewer


def _started_ns(path: Path) -> int:
    """Return when the process started that has written a file, 0 if there is none."""
    try:
        return int((pq.read_schema(path).metadata or {}).get(_STARTED, 0))
    except (OSError, pa.ArrowException):
        return 0


def _row(log: ListedLog, reading: ReadLogs, key: str) -> dict:
    """Return the row of a log."""
    return {
        "log": os.fsencode(log.path),
        "size_bytes": log.size_bytes,
        "mtime_ns": log.mtime_ns,
        "key": key,
        "digest": reading.digests[log.path],
        "facts": json.dumps(reading.facts[log.path]),
        "summary": reading.text(log.path),
    }


def kept_summaries(folder: Path, chunk: str, paths: Collection[str]) -> dict:
    """Return the summaries of some logs of a chunk by path."""
    wanted = pa.array([os.fsencode(path) for path in paths], pa.binary())
    table = pq.read_table(
        kept_file(folder, chunk),
        columns=["log", "summary"],
        filters=pc.field("log").isin(wanted),
    )
    return {
        os.fsdecode(row["log"]): Summary.from_json(json.loads(row["summary"]))
        for row in table.to_pylist()
    }
