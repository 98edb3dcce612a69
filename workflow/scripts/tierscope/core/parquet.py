"""Write tables to Parquet without pandas.

Rank 0 of a launch writes few rows while all other ranks wait. To import pandas takes
longer than that, and to make an array from a list imports pandas, too: JSON does not.
"""

import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from tierscope.core.columns import FLAG, INTEGER, LATER, NUMBER, TABLES, TEXT

_TYPES = {
    INTEGER: pa.int64(),
    NUMBER: pa.float64(),
    TEXT: pa.large_string(),  # as pandas writes it
    FLAG: pa.bool_(),
}


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path, name: str) -> None:
    """Write rows as a table; `read_table` checks more than columns and types.

    Parameters
    ----------
    rows : sequence of mapping
        A value for each column of the table; those of `LATER` may be absent.
    path : Path
        The Parquet file.
    name : str
        A key of `TABLES`.

    Raises
    ------
    ValueError
        On missing or unknown columns, or values of another type.
    """
    columns = TABLES[name]
    later = {column: LATER[column] for column in columns if column in LATER}
    for row in rows:
        if set(later | row) != set(columns):
            raise ValueError(
                f"table {name}: got columns {list(row)}, expected {list(columns)}."
            )
    schema = pa.schema([(column, _TYPES[kind]) for column, kind in columns.items()])
    lines = [
        json.dumps({k: _json(v) for k, v in (later | row).items()}) for row in rows
    ]
    table = pyarrow.json.read_json(
        io.BytesIO("\n".join(lines).encode()),
        pyarrow.json.ReadOptions(use_threads=False),
        pyarrow.json.ParseOptions(explicit_schema=schema),
    )
    write_parquet(table.select(list(columns)), path)


def _json(value: Any) -> Any:
    """Return a value as JSON has it: NaN is a missing value."""
    return None if isinstance(value, float) and math.isnan(value) else value


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table under a temporary name, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(
            table.replace_schema_metadata(),
            temporary,
            compression="zstd",
            write_page_checksum=True,
        )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
