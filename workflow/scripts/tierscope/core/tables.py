"""Read, check and write the tables; refuse a table that breaks its contract.

A table is checked when it is written and when it is read, so other code trusts its
frames. The contracts are in `tierscope.core.columns`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tierscope.core.columns import (
    AFTER_TRAINING,
    LATER,
    LATER_NUMBERS,
    LATER_VALUES,
    LATER_WORDS,
    OF_A_LAUNCH,
    TABLES,
    TEXT,
    WIDER,
    WITH_AFTER,
)
from tierscope.core.parquet import (
    TableError,
    check_numbers,
    check_texts,
    check_words,
    vocabulary,
    write_parquet,
)

if TYPE_CHECKING:
    import pyarrow.dataset as ds


def check_table(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the frame with exactly the columns and types of a table.

    Parameters
    ----------
    frame : DataFrame
        The rows to check; integer columns of any width are widened. Columns of `LATER`,
        `LATER_NUMBERS`, `LATER_WORDS` and `LATER_VALUES` may be absent.
    name : str
        A key of `TABLES`.

    Raises
    ------
    TableError
        On missing or unknown columns, wrong types, missing values, negative
        numbers or words outside a column's vocabulary.
    """
    columns, frame = TABLES[name], with_later_columns(frame, name)
    if set(frame.columns) != set(columns) or frame.columns.has_duplicates:
        raise TableError(
            f"table {name}: got columns {list(frame.columns)}, "
            f"expected {list(columns)}."
        )
    checked = {}
    for column, kind in columns.items():
        checked[column] = _check_column(frame[column], kind, f"{name}.{column}")
    return pd.DataFrame(checked).reset_index(drop=True)


def _check_files(table: pd.DataFrame, name: str) -> None:
    """Refuse a whole manifest in which numbers of files are not those of its rows."""
    if name not in ("manifest", "user_manifest"):
        return
    ids, rows = table["file_id"].to_numpy(), np.arange(len(table))
    _refuse(ids, ids == rows, f"{name}.file_id", "the number of the row")
    if "same_as" in table:
        places = table["same_as"].to_numpy()
        is_first = places < 0
        is_right = is_first | is_first[np.minimum(places, rows)]
        _refuse(places, is_right, f"{name}.same_as", "-1, or an earlier row with -1")


def check_below(frame: pd.DataFrame, name: str, most: Mapping[str, int]) -> None:
    """Refuse numbers of a table that count what there is less of.

    Parameters
    ----------
    frame : DataFrame
        A table.
    name : str
        A key of `TABLES`.
    most : mapping of str to int
        How many there are, by the column that numbers them from 0. A table may lack
        it.

    Raises
    ------
    TableError
        With column, row, number, and what was expected.
    """
    for column, n in most.items():
        if column in frame:
            numbers = frame[column].to_numpy()
            expected = f"a number below {n}"
            _refuse(numbers, numbers < n, f"{name}.{column}", expected)


def _refuse(
    numbers: np.ndarray, is_right: np.ndarray, where: str, expected: str
) -> None:
    """Refuse a column of which some row is not right."""
    if not is_right.all():
        row = int(is_right.argmin())
        raise TableError(
            f"table column {where}: got {numbers[row]} in row {row}, counted from 0, "
            f"expected {expected}."
        )


def with_later_columns(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a frame with those columns of a table that older ones lack, empty."""
    later = LATER | dict.fromkeys(LATER_NUMBERS.get(name, ()), math.nan)
    later |= dict.fromkeys(LATER_WORDS.get(name, ()), "")
    later |= LATER_VALUES.get(name, {})
    absent = [one for one in TABLES[name] if one in later and one not in frame]
    return frame.assign(**{column: later[column] for column in absent})


def _check_column(values: pd.Series, kind: str, where: str) -> pd.Series:
    """Return one column in its contract's type, or raise a TableError."""
    if kind != TEXT:
        check_numbers(values.to_numpy(), kind, where)
        return values.astype(kind)  # no copy, if it has this type
    if values.isna().any():
        raise TableError(f"table column {where}: got missing values, expected none.")
    is_text = isinstance(values.dtype, pd.StringDtype)  # holds nothing else
    if not is_text and not set(map(type, values)) <= {str}:
        raise TableError(f"table column {where}: got {values.dtype}, expected str.")
    if vocabulary(where):
        check_words(set(values.unique()), where)
    check_texts(values, where)
    return values.astype("str")


def empty_table(name: str) -> pd.DataFrame:
    """Return a table of this name without rows."""
    columns = TABLES[name].items()
    return pd.DataFrame({column: pd.Series(dtype=kind) for column, kind in columns})


def write_table(frame: pd.DataFrame, path: str | Path, name: str) -> None:
    """Check a frame and write it to Parquet under a temporary name, then rename."""
    checked = check_table(frame, name)
    _check_files(checked, name)
    write_parquet(pa.Table.from_pandas(checked, preserve_index=False), Path(path))


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path, name: str) -> None:
    """Write rows as `write_table` writes frames; None is a missing value."""
    if not rows or (odd := [list(row) for row in rows if set(row) != set(rows[0])]):
        found = f"columns {list(rows[0])} and {odd[0]}" if rows else "no row"
        raise TableError(f"table {name}: got {found}, expected rows of one kind.")
    present = [
        {column: math.nan if one is None else one for column, one in row.items()}
        for row in rows
    ]
    write_table(pd.DataFrame(present), path, name)


def write_columns(columns: Mapping[str, np.ndarray], path: Path, name: str) -> None:
    """Write arrays as `write_table` writes frames; texts may be bytes in UTF-8."""
    try:
        texts = {
            column: np.char.decode(values, "utf-8")
            for column, values in columns.items()
            if values.dtype.kind == "S"
        }
    except UnicodeDecodeError as error:
        raise TableError(f"table {name}: got bytes, {error}.") from error
    write_table(pd.DataFrame(dict(columns) | texts), path, name)


Place = str | Path | Sequence[str | Path]  # Snakemake names one file in a list, too


def table_files(path: Place) -> list[Path]:
    """Return the files of a table: itself, or those of a folder, in their order.

    A table of an analysis of logs can be a folder with a file of each chunk of logs in
    a folder of each month: ``2026-11/CHUNK.parquet``.
    """
    places = map(Path, [path] if isinstance(path, str | Path) else path)
    return [
        file
        for one in places
        for file in (sorted(one.glob("*/*.parquet")) if one.is_dir() else [one])
    ]


def read_table(
    path: Place,
    name: str,
    filters: pc.Expression | None = None,
    *,
    after_training: bool = False,
    below: Mapping[str, int] | None = None,
) -> pd.DataFrame:
    """Read a Parquet table, or the rows that meet an expression, and check them.

    A folder of files is read as one table (`table_files`). A file of a wider table
    (`WIDER`) is read without the columns that are not wanted. What a program did after
    its training is no epoch, so rows of it are left out unless they are wanted.
    `below` is for `check_below`: whoever takes numbers as places in an array gives it.
    """
    options = {"filters": filters, "page_checksum_verification": True}
    with _reading(path, name) as files:
        frame = pq.read_table(files, partitioning=None, **options).to_pandas()
        wider = WIDER.get(name)
        if wider and set(frame.columns) == set(TABLES[wider]):
            frame = check_table(frame, wider)[list(TABLES[name])]
        checked = check_table(frame, name)
        if filters is None:
            _check_files(checked, name)
        check_below(checked, name, below or {})
    if name in WITH_AFTER and not after_training:
        checked = checked[checked["epoch"] > AFTER_TRAINING].reset_index(drop=True)
    del frame
    pa.default_memory_pool().release_unused()  # as much memory as a large table takes
    return checked


def open_table(path: Place, name: str) -> "ds.Dataset":
    """Open a Parquet table, a file or a folder of files, of which nothing is read yet.

    Raises
    ------
    TableError
        If there is no such table, or if it has other columns.
    """
    import pyarrow.dataset as ds  # who writes tables needs none of it

    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    form = ds.ParquetFileFormat(default_fragment_scan_options=options)
    with _reading(path, name) as files:
        table = ds.dataset(list(map(str, files)), format=form)
        if set(table.schema.names) != set(TABLES[name]):
            raise TableError(
                f"table {name}: got columns {table.schema.names}, "
                f"expected {list(TABLES[name])}."
            )
    return table


@contextmanager
def _reading(path: Place, name: str) -> Iterator[list[Path]]:
    """Give the files of a table; an error while they are read becomes a TableError."""
    try:
        files = table_files(path)
        if not files:
            raise TableError("got no file <month>/<chunk>.parquet, expected some.")
        yield files
    except FileNotFoundError as error:
        raise TableError(f"{path}: cannot read table {name}: no such file") from error
    except (OSError, pa.ArrowException, UnicodeError, TableError) as error:
        is_damaged = getattr(error, "errno", None) is None  # else it cannot be opened
        remedy = _remedy(name) if is_damaged else ""
        why = " ".join(str(error).split())  # that of Arrow has several lines
        raise TableError(f"{path}: cannot read table {name}{remedy}: {why}") from error


def _remedy(name: str) -> str:
    """Return how to make a damaged table again."""
    what = "the run's folder" if name in OF_A_LAUNCH else "the file"
    return f" (delete {what} and start again, to make it again)"


def read_tables(
    paths: Iterable[str | Path], name: str, *, after_training: bool = False
) -> pd.DataFrame:
    """Read several files of one table, one below the other."""
    frames = [read_table(one, name, after_training=after_training) for one in paths]
    return pd.concat(frames, ignore_index=True)
