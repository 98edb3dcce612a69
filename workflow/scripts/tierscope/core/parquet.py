"""Write tables to Parquet without pandas.

Rank 0 of a launch writes its tables while all other ranks wait, and to import pandas
takes longer than that. `pyarrow.array` imports it, too.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tierscope.core.columns import FLAG, INTEGER, LATER, NUMBER, TABLES, TEXT

# Of each kind of column: its Arrow type, and NumPy's kinds of what may be in it.
_TYPES = {
    INTEGER: (pa.int64(), "iu"),
    NUMBER: (pa.float64(), "iuf"),
    TEXT: (pa.large_string(), "SU"),  # as pandas writes it
    FLAG: (pa.bool_(), "b"),
}


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path, name: str) -> None:
    """Write rows as `write_columns` does; a number that is None is missing.

    Each row has the same columns. ValueErrors are those of `write_columns`.
    """
    if odd := [list(row) for row in rows if set(row) != set(rows[0])]:
        raise ValueError(f"table {name}: got columns {list(rows[0])} and {odd[0]}.")
    types = {column: float for column, kind in TABLES[name].items() if kind == NUMBER}
    columns = {
        column: np.array([row[column] for row in rows], types.get(column))
        for column in rows[0]
    }
    write_columns(columns, path, name)


def write_columns(columns: Mapping[str, np.ndarray], path: Path, name: str) -> None:
    """Write columns as a table; `read_table` checks more than names and types.

    Parameters
    ----------
    columns : mapping of str to ndarray, shape (n_rows,)
        The columns of the table; those of `LATER` may be absent, NaN is a missing
        value, and texts may be bytes in UTF-8.
    path : Path
        The Parquet file.
    name : str
        A key of `TABLES`.

    Raises
    ------
    ValueError
        On missing or unknown columns, or values of another type.
    """
    contract = TABLES[name]
    n_rows = len(next(iter(columns.values())))
    later = {one: np.full(n_rows, LATER[one]) for one in contract if one in LATER}
    columns = later | dict(columns)
    if set(columns) != set(contract):
        raise ValueError(
            f"table {name}: got columns {list(columns)}, expected {list(contract)}."
        )
    arrays = {
        column: _array(columns[column], kind, f"{name}.{column}")
        for column, kind in contract.items()
    }
    write_parquet(pa.table(arrays), path)


def _array(values: np.ndarray, kind: str, where: str) -> pa.Array:
    """Return a column in its contract's type, or raise a ValueError."""
    type_, known = _TYPES[kind]
    if values.dtype.kind not in known:
        raise ValueError(f"table column {where}: got {values.dtype}, expected {kind}.")
    if kind == TEXT:
        if values.dtype.kind == "U":
            values = np.char.encode(values)
        texts = values.tolist()
        joined = b"".join(texts)
        joined.decode()  # a UnicodeError is a ValueError
        offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        buffers = [None, offsets, np.frombuffer(joined, np.uint8)]
    elif kind == FLAG:
        buffers = [None, np.packbits(values, bitorder="little")]
    else:
        values = np.ascontiguousarray(values, kind)
        missing = np.isnan(values)
        valid = np.packbits(~missing, bitorder="little") if missing.any() else None
        buffers = [valid, values]
    buffers = [None if one is None else pa.py_buffer(one) for one in buffers]
    return pa.Array.from_buffers(type_, len(values), buffers)


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
