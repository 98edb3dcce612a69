"""Tables as folders of files: ``<table>.parquet/<month>/<chunk>.parquet``.

The month is that of a job's start in UTC, as column `month` of table ``fleet`` has it.
Rows of no job are in folder ``all``.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from tierscope.analysis.logs.outliers import write_fleet
from tierscope.core.parquet import read_parquet, write_parquet
from tierscope.core.tables import empty_table, table_files, write_table
from tierscope.logs.jobs import JOB_TABLES, OF_JOBS

_FLEETS = ".fleets"  # table fleet of each chunk, before jobs are compared
_ALL = "all"  # the folder of rows without a month, and the file of all chunks
Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class ChunkPart:
    """The tables of a chunk in a folder, and what of them is of the analysis.

    `names` has the names of jobs by those that they have in the chunk; rows of other
    jobs are left out. `remarks` are added to those of jobs. `users` and `users_of_logs`
    are names that replace those of the chunk, by its jobs and by logs.
    """

    name: str
    folder: Path
    names: Mapping[str, str]
    remarks: Mapping[str, str]
    users: Mapping[str, str] = field(default_factory=dict)
    users_of_logs: Mapping[str, str] = field(default_factory=dict)

    def file(self, table: str) -> Path:
        """Return the chunk's file of a table."""
        return self.folder / f"{table}.parquet"


def write_datasets(parts: Sequence[ChunkPart], others: Tables, folder: Path) -> None:
    """Write the folder of each table.

    Parameters
    ----------
    parts : sequence of ChunkPart
        The chunks.
    others : mapping of str to DataFrame
        Tables whose rows are of no chunk.
    folder : Path
        Where the folders are made.
    """
    for part in parts:
        _take_chunk(part, folder)
    fleets = folder / f"{_FLEETS}.parquet"
    if fleets.exists():
        write_fleet(table_files(fleets), folder / "fleet.parquet")
        shutil.rmtree(fleets)
    for name, frame in others.items():
        write_table(frame, _file(folder, name, _ALL, _ALL), name)
    for name in JOB_TABLES:
        if not (folder / f"{name}.parquet").exists():
            write_table(empty_table(name), _file(folder, name, _ALL, _ALL), name)


def _file(folder: Path, table: str, month: str, chunk: str) -> Path:
    """Return the file of a chunk in a table's folder."""
    return folder / f"{table}.parquet" / month / f"{chunk}.parquet"


def _take_chunk(part: ChunkPart, folder: Path) -> None:
    """Link or rewrite the files of a chunk."""
    fleet = read_parquet(part.file("fleet"), columns=["job", "month"]).to_pydict()
    months = dict(zip(fleet["job"], fleet["month"], strict=True))
    if not months.keys() & part.names.keys():
        return
    is_whole = len(set(months.values())) == 1
    is_whole &= all(part.names.get(job) == job for job in months)
    changes = {
        "jobs": bool(part.remarks or part.users),
        "logs": bool(part.users_of_logs),
        "fleet": True,
    }
    for name in OF_JOBS:
        if is_whole and not changes.get(name):
            month = next(iter(months.values()))
            _link(part.file(name), _file(folder, name, month, part.name))
            continue
        table = read_parquet(part.file(name))
        if name == "jobs":
            table = _with_remarks(table, part.remarks)
        if name in ("jobs", "fleet"):
            table = _with_users(table, "job", part.users)
        if name == "logs":
            table = _with_users(table, "log", part.users_of_logs)
        for month, rows in _by_month(table, part.names, months):
            place = _FLEETS if name == "fleet" else name
            write_parquet(rows, _file(folder, place, month, part.name))


def _link(source: Path, path: Path) -> None:
    """Link a file, or copy it where that is impossible."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, path)
    except OSError:
        shutil.copyfile(source, path)


def _with_remarks(table: pa.Table, remarks: Mapping[str, str]) -> pa.Table:
    """Return table ``jobs`` with further remarks."""
    rows = zip(table["job"].to_pylist(), table["remarks"].to_pylist(), strict=True)
    texts = [f"{text} {remarks.get(job, '')}".strip() for job, text in rows]
    return _with_texts(table, "remarks", texts)


def _with_users(table: pa.Table, key: str, users: Mapping[str, str]) -> pa.Table:
    """Return a table with other names of users, by a column."""
    if not users:
        return table
    rows = zip(table[key].to_pylist(), table["user"].to_pylist(), strict=True)
    return _with_texts(table, "user", [users.get(of, name) for of, name in rows])


def _with_texts(table: pa.Table, column: str, texts: Sequence[str]) -> pa.Table:
    """Return a table with other values of a column."""
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.field(at), pa.array(texts, table.field(at).type))


def _by_month(
    table: pa.Table, names: Mapping[str, str], months: Mapping[str, str]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield each month and its rows, with the names of their jobs; leave others out."""
    at = table.schema.get_field_index("job")
    jobs = table["job"].combine_chunks().dictionary_encode()
    known = jobs.dictionary.to_pylist()
    codes = jobs.indices.to_numpy()
    new = pa.array([names.get(job, "") for job in known], table.field(at).type)
    named = table.set_column(at, table.field(at), new.take(jobs.indices))
    of_job = np.array([months[job] if job in names else "" for job in known], object)
    of_row = of_job[codes]
    for month in sorted(set(of_job) - {""}):
        yield month, named.filter(pa.array(of_row == month))


def places_in(folder: Path) -> dict[str, Path]:
    """Return the folder of each table."""
    return {name: folder / f"{name}.parquet" for name in JOB_TABLES}


def rewrite(folder: Path, change: Callable[[Mapping[str, Path], Path], None]) -> None:
    """Change all tables by what writes others of the same form to a folder."""
    changed = folder / ".changed"
    places = places_in(folder)
    change(places, changed)
    for place in places.values():
        shutil.rmtree(place)
        (changed / place.name).rename(place)
    changed.rmdir()
