"""What was read of the logs of a chunk, in a file, so that it is not read again."""

import itertools
import json
import os
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tierscope.core.files import written_whole
from tierscope.core.parquet import parquet_writer
from tierscope.logs.chunks.listing import ListedLog, is_gone
from tierscope.logs.grouping import LogGroup
from tierscope.logs.reading import ReadingKey, ReadLog, Refusal
from tierscope.logs.summary import Summary

_SCHEMA = pa.schema(
    {
        "log": pa.binary(),  # paths need not be UTF-8
        "size_bytes": pa.int64(),
        "mtime_ns": pa.int64(),
        "settings": pa.string(),
        "code": pa.string(),
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
    """What was read of a chunk's logs; the summaries lie in a file without a name.

    `refusals` has, by path, why logs that cannot be used, `codes` the digest
    of the code that has read a log, if that was before.

    Parameters
    ----------
    folder : Path
        In which is kept what was read of all chunks.
    chunk : str
        Name of the chunk.
    logs : sequence of ListedLog
    key : ReadingKey
        What summaries depend on now.
    """

    def __init__(
        self, folder: Path, chunk: str, logs: Sequence[ListedLog], key: ReadingKey
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.logs, self._key, self._kept = logs, key, kept_file(folder, chunk)
        self.started_ns = time.time_ns()
        self._file = tempfile.TemporaryFile(dir=folder)
        self._places: dict[str, tuple[int, int]] = {}
        self.codes: dict[str, str] = {}
        self.digests: dict[str, str] = {}
        self.facts: dict[str, dict] = {}
        self.refusals: dict[str, Refusal] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, path: str, answer: ReadLog | Refusal, *, code: str = "") -> None:
        """Take what was read of a log, or why it is refused.

        `code` is that of what was read before.
        """
        if isinstance(answer, Refusal):
            self.refusals[path] = answer
            return
        text = answer.summary.encode()
        self._places[path] = (self._file.seek(0, os.SEEK_END), len(text))
        self._file.write(text)
        self.digests[path], self.facts[path] = answer.digest, answer.facts
        if code:
            self.codes[path] = code

    def __contains__(self, path: str) -> bool:
        """Return whether a log was read."""
        return path in self.digests

    def n_bytes_of(self, group: LogGroup) -> int:
        """Return the length of the summaries of a job's logs."""
        return sum(int(n) for _, n in (self._places[str(path)] for path in group.logs))

    def text(self, path: str) -> str:
        """Return the summary of a log as text."""
        at, length = self._places[path]
        self._file.seek(at)
        return self._file.read(length).decode()

    def summary(self, path: str) -> Summary:
        """Return the summary of a log."""
        return Summary.from_json(json.loads(self.text(path)))

    def take_kept(self) -> bool:
        """Take what was read before of logs that have not changed since.

        Of a log that is gone, what an earlier version of the code has read is taken,
        too. Returns whether all was in the chunk's file, which has nothing else.
        """
        wanted, has_more = set(map(_state, self.logs)), False
        for row in _rows(self._kept):
            log = os.fsdecode(row["log"])
            is_taken = (
                _state_of(row) in wanted
                and log not in self
                and row["settings"] == self._key.settings
                and (row["code"] == self._key.code or is_gone(log))
            )
            if is_taken:
                facts = json.loads(row["facts"])
                read = ReadLog(row["digest"], facts, row["summary"])
                self.add(log, read, code=row["code"])
            has_more |= not is_taken
        return not has_more and all(log.path in self for log in self.logs)

    def keep(self) -> None:
        """Keep what was read of the chunk's logs so far.

        Of a log that cannot be read any more, what was read with other settings is
        kept, as these may come again. What a process has kept that started later stays,
        as in `folder_written_whole`.
        """
        read = map(self._row, (log for log in self.logs if log.path in self))
        unread = {_state(log) for log in self.logs if log.path not in self}
        rows = itertools.chain(read, _rows_of(unread, self._kept))
        schema = _SCHEMA.with_metadata({_STARTED: str(self.started_ns)})
        with suppress(_IsNewer), written_whole(self._kept, lasting=True) as temporary:
            with parquet_writer(temporary, schema) as writer:
                while some := list(itertools.islice(rows, _ROWS_AT_ONCE)):
                    writer.write_table(pa.Table.from_pylist(some, schema))
            if _started_ns(self._kept) > self.started_ns:
                raise _IsNewer

    def _row(self, log: ListedLog) -> dict:
        """Return the row of a log."""
        return {
            "log": os.fsencode(log.path),
            "size_bytes": log.size_bytes,
            "mtime_ns": log.mtime_ns,
            "settings": self._key.settings,
            "code": self.codes.get(log.path, self._key.code),
            "digest": self.digests[log.path],
            "facts": json.dumps(self.facts[log.path]),
            "summary": self.text(log.path),
        }


def kept_file(folder: Path, chunk: str) -> Path:
    """Return the file in which is kept what was read of a chunk."""
    return folder / f"{chunk}{_SUFFIX}"


def _state(log: ListedLog) -> tuple[bytes, int, int]:
    """Return the path, size and time of a log."""
    return os.fsencode(log.path), log.size_bytes, log.mtime_ns


def _state_of(row: Mapping[str, Any]) -> tuple[bytes, int, int]:
    """Return the path, size and time of a row's log."""
    return row["log"], row["size_bytes"], row["mtime_ns"]


def _rows(path: Path) -> Iterator[dict]:
    """Yield the rows of a file of kept logs; none if it is broken."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            if file.schema_arrow.names == _SCHEMA.names:
                for batch in file.iter_batches(_ROWS_AT_ONCE):
                    yield from batch.to_pylist()
    except (OSError, pa.ArrowException):  # a machine that stopped may leave such a file
        return


def _started_ns(path: Path) -> int:
    """Return when the process started that has written a file, 0 if there is none."""
    try:
        return int((pq.read_schema(path).metadata or {}).get(_STARTED, 0))
    except (OSError, pa.ArrowException):
        return 0


def _rows_of(states: Collection, path: Path) -> Iterator[dict]:
    """Yield the rows of some logs, of each log the first one with the same settings."""
    seen = set()
    for row in _rows(path) if states else ():
        state = _state_of(row)
        if state in states and (state, row["settings"]) not in seen:
            seen.add((state, row["settings"]))
            yield row


def kept_summaries(
    folder: Path, chunk: str, paths: Iterable[Path]
) -> dict[Path, Summary]:
    """Return the summaries of some logs of a chunk by path."""
    wanted = pa.array(map(os.fsencode, paths), pa.binary())
    table = pq.read_table(
        kept_file(folder, chunk),
        columns=["log", "summary"],
        filters=pc.field("log").isin(wanted),
    )
    return {
        Path(os.fsdecode(row["log"])): Summary.from_json(json.loads(row["summary"]))
        for row in table.to_pylist()
    }
