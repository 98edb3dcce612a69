"""Check the columns of tables by their contracts, and write a table to Parquet."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tierscope.core.columns import COLUMNS, FLAG, INTEGER, NUMBER, Column
from tierscope.core.files import written_whole
from tierscope.core.output.version import VERSION

if TYPE_CHECKING:
    import pandas as pd

METADATA = {"tierscope": VERSION}  # of a table's file: who has written it
_KINDS = {INTEGER: "iu", NUMBER: "iuf", FLAG: "b"}  # of NumPy's dtypes, by column


class TableError(ValueError):
    """A table breaks its contract."""


def check_numbers(values: np.ndarray, kind: str, where: str) -> None:
    """Refuse numbers or flags that break the contract of their column.

    `where` is the name of the table and that of the column, with a dot between.
    """
    if values.dtype.kind not in _KINDS[kind]:
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


def read_parquet(path: str | Path, **options: Any) -> pa.Table:
    """Read a Parquet file of an analysis of logs; options as for `pyarrow`.

    Raises
    ------
    TableError
        If it is empty or damaged, as after a power cut; it says what to delete.
    """
    try:
        return pq.read_table(path, page_checksum_verification=True, **options)
    except (OSError, pa.ArrowException) as error:
        if getattr(error, "errno", None):  # it cannot be opened
            raise
        raise TableError(
            f"{path}: is damaged ({error}); delete its folder and start again, to make "
            "it again."
        ) from error


def check_texts(texts: "pd.Series", where: str) -> None:
    """Refuse texts that do not match the pattern of their column."""
    if not (pattern := _contract(where).pattern):
        return
    if (odd := texts[~texts.str.fullmatch(pattern)]).size:
        raise TableError(
            f"table column {where}: got {odd.iloc[0]!r}, expected a text that matches "
            f"{pattern}."
        )


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table under a temporary name, then rename it."""
    table = table.replace_schema_metadata(METADATA)
    with (
        written_whole(path) as temporary,
        parquet_writer(temporary, table.schema) as file,
    ):
        file.write_table(table)


@contextmanager
def parquet_writer(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Give what writes tables to a file, one below the other."""
    options = {"compression": "zstd", "write_page_checksum": True}
    writer = pq.ParquetWriter(path, schema, **options)
    try:
        yield writer
        writer.close()
    finally:
        writer.is_open = False  # else its end prints an error again
