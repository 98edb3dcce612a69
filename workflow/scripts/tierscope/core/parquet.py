"""Write tables to Parquet without pandas.

Rank 0 of a launch writes its tables while all other ranks wait, and to import pandas
takes longer than that. `pyarrow.array` imports it, too.
"""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tierscope.core.columns import (
    COLUMNS,
    FLAG,
    INTEGER,
    LATER,
    NUMBER,
    TABLES,
    TEXT,
    Column,
)

# Of each kind of column: its Arrow type, and NumPy's kinds of what may be in it.
_TYPES = {
    INTEGER: (pa.int64(), "iu"),
    NUMBER: (pa.float64(), "iuf"),
    TEXT: (pa.large_string(), "SU"),  # as pandas writes it
    FLAG: (pa.bool_(), "b"),
}


class TableError(ValueError):
    """A table breaks its contract."""


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path, name: str) -> None:
    """Write rows of the same columns as `write_columns` does; None is a missing value.

    Raises
    ------
    TableError
        As for `write_columns`, and if there is no row, or one has other columns.
    """
    if not rows or (odd := [list(row) for row in rows if set(row) != set(rows[0])]):
        found = f"columns {list(rows[0])} and {odd[0]}" if rows else "no row"
        raise TableError(f"table {name}: got {found}, expected rows of one kind.")
    columns = {
        column: np.array(
            [math.nan if row[column] is None else row[column] for row in rows]
        )
        for column in rows[0]
    }
    write_columns(columns, path, name)


def write_columns(columns: Mapping[str, np.ndarray], path: Path, name: str) -> None:
    """Check columns and write them as a table.

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
    TableError
        On missing or unknown columns, other shapes or types, and values that the
        contract does not allow.
    """
    contract = TABLES[name]
    shape = next(iter(columns.values())).shape
    later = {one: np.full(shape, LATER[one]) for one in contract if one in LATER}
    columns = later | dict(columns)
    if set(columns) != set(contract):
        raise TableError(
            f"table {name}: got columns {list(columns)}, expected {list(contract)}."
        )
    arrays = {}
    for column, kind in contract.items():
        values, where = columns[column], f"{name}.{column}"
        if values.shape != shape or len(shape) != 1:
            raise TableError(
                f"table column {where}: got shape {values.shape}, expected one row "
                "after another, as many as in all columns."
            )
        make = _text_array if kind == TEXT else _number_array
        arrays[column] = make(values, kind, where)
    write_parquet(pa.table(arrays), path)


def check_numbers(values: np.ndarray, kind: str, where: str) -> None:
    """Refuse numbers or flags that break the contract of their column.

    `where` is the name of the table and that of the column, with a dot between.
    """
    if values.dtype.kind not in _TYPES[kind][1]:
        raise TableError(f"table column {where}: got {values.dtype}, expected {kind}.")
    if kind == FLAG:
        return
    contract = _contract(where)
    if not (is_finite := np.isfinite(values).all()):
        if np.isinf(values).any():
            raise TableError(f"table column {where}: got infinite values.")
        if not contract.may_be_missing:
            raise TableError(
                f"table column {where}: got missing values, expected none."
            )
    present = values if is_finite else values[~np.isnan(values)]
    if len(present) and (least := present.min()) < contract.least:
        raise TableError(
            f"table column {where}: got {least}, expected at least {contract.least}."
        )


def _contract(where: str) -> Column:
    """Return the contract of a column."""
    table, name = where.split(".")
    return COLUMNS[table][name]


def vocabulary(where: str) -> frozenset[str]:
    """Return the words that a column may hold; none if they may be any."""
    return _contract(where).words


def check_words(words: set[str], where: str) -> None:
    """Refuse words that are not in a column's vocabulary."""
    if unknown := words - vocabulary(where):
        raise TableError(
            f"table column {where}: got {sorted(unknown)}, "
            f"expected some of {sorted(vocabulary(where))}."
        )


def _number_array(values: np.ndarray, kind: str, where: str) -> pa.Array:
    """Return a column of numbers or flags."""
    check_numbers(values, kind, where)
    values = np.ascontiguousarray(values, kind)
    if kind == FLAG:
        return _array(kind, len(values), [np.packbits(values, bitorder="little")])
    missing = np.isnan(values)
    valid = np.packbits(~missing, bitorder="little") if missing.any() else None
    return _array(kind, len(values), [values], valid)


def _text_array(values: np.ndarray, kind: str, where: str) -> pa.Array:
    """Return a column of texts."""
    if values.dtype.kind not in _TYPES[kind][1]:
        raise TableError(f"table column {where}: got {values.dtype}, expected {kind}.")
    if values.dtype.kind == "U":
        values = np.char.encode(values)
    texts = values.tolist()
    try:
        words = [text.decode() for text in texts]
    except UnicodeDecodeError as error:
        raise TableError(f"table column {where}: got bytes, {error}.") from error
    if vocabulary(where):
        check_words(set(words), where)
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return _array(kind, len(texts), [offsets, np.frombuffer(b"".join(texts), np.uint8)])


def _array(
    kind: str, n_rows: int, parts: list[np.ndarray], valid: np.ndarray | None = None
) -> pa.Array:
    """Return a column of these buffers."""
    buffers = [None if one is None else pa.py_buffer(one) for one in (valid, *parts)]
    return pa.Array.from_buffers(_TYPES[kind][0], n_rows, buffers)


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
