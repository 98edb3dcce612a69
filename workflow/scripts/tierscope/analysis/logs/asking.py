"""Ask the tables of logged jobs by SQL, in as much memory as for a few jobs.

DuckDB answers: it sums and sorts in a limited memory and beyond it on a disk. So no
answer needs code of ours that goes through a table in parts, as pyarrow's datasets do.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from tierscope.core.tables import Place, TableError, open_table

_MEMORY, _THREADS = "600MB", 2
_ROWS = 10_000


class JobTables:
    """Tables of an analysis, which are asked by SQL under their own names.

    Parameters
    ----------
    tables : mapping of str to path or DataFrame
        A file, a folder of files, or the rows of each table.

    Raises
    ------
    TableError
        If a table cannot be opened; later if it cannot be read.
    """

    def __init__(self, tables: Mapping[str, Place | pd.DataFrame]) -> None:
        self._room = tempfile.TemporaryDirectory(prefix="tierscope-")
        self._asked = connection(Path(self._room.name), ":memory:")
        places = [one for one in tables.values() if not isinstance(one, pd.DataFrame)]
        self._places = ", ".join(map(str, places)) or "tables"
        for name, place in tables.items():
            self._asked.register(name, _opened(place, name))

    def ask(self, question: str, *values: Any) -> pd.DataFrame:
        """Return the answer to a question in SQL, in which ``?`` stand for values."""
        return self._reading(question, values).df()

    def ask_one(self, question: str, *values: Any) -> dict[str, Any]:
        """Return an answer of one row, by column; a number that is missing is NaN."""
        return self.ask(question, *values).iloc[0].to_dict()

    def each(self, question: str, *values: Any) -> Iterator[Any]:
        """Give the values of an answer of one column, of which few are in memory."""
        answer = self._reading(question, values)
        while rows := answer.fetchmany(_ROWS):
            yield from (value for (value,) in rows)

    def do(self, command: str, *values: Any) -> None:
        """Do what SQL says, such as make a view."""
        self._reading(command, values)

    def _reading(self, command: str, values: Sequence[Any]) -> Any:
        """Return the answer; a table that cannot be read becomes a TableError."""
        try:
            return self._asked.execute(command, list(values))
        except (duckdb.Error, OSError, pa.ArrowException) as error:
            raise TableError(f"{self._places}: cannot be asked: {error}") from error


def connection(room: Path, database: str | Path) -> duckdb.DuckDBPyConnection:
    """Open DuckDB with limits; what does not fit into memory goes to a folder."""
    return duckdb.connect(
        database,
        config={
            "memory_limit": _MEMORY,
            "threads": _THREADS,
            "temp_directory": str(room / "duckdb"),
            "autoinstall_known_extensions": False,  # they need the network
        },
    )


def _opened(place: Place | pd.DataFrame, name: str) -> pa.Table | ds.Dataset:
    """Return what DuckDB scans; a missing number is null in it, never NaN."""
    if isinstance(place, pd.DataFrame):
        return pa.Table.from_pandas(place, preserve_index=False)
    return open_table(place, name)
