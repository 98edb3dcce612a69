"""Contracts of the tables: columns, types and ranges, checked on both sides.

Every table is Parquet. Percentages are integers, times are seconds in float64,
sizes are bytes. A table that breaks its contract is refused when it is written
and when it is read, so the code in between trusts its frames. No value is missing but
the spread of points that were run once and the number behind a claim that has none.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tierscope.io_class import ALL_CLASSES, IOClass

INTEGER, SECONDS, TEXT, FLAG = "int64", "float64", "str", "bool"

SCENARIO_KEYS = {
    "source": TEXT,
    "system": TEXT,
    "dataset": TEXT,
    "n_osts": INTEGER,
    "policy": TEXT,
    "loader": TEXT,
}
RUN_KEYS = SCENARIO_KEYS | {"cache_rate_percent": INTEGER, "repetition": INTEGER}

_RUN_EPOCHS = {
    "rank": INTEGER,
    "node": INTEGER,
    "epoch": INTEGER,
    "execution_time_s": SECONDS,
    "samples": INTEGER,
    "bytes": INTEGER,
    "lfs_files": INTEGER,
    "gfs_files": INTEGER,
    "lfs_fill_time_s": SECONDS,
}

_RUN_BACKGROUND = {
    "node": INTEGER,
    "epoch": INTEGER,
    "placed_files": INTEGER,
    "handed_over_files": INTEGER,
    "failed_files": INTEGER,
    "evicted_files": INTEGER,
    "gfs_opens": INTEGER,
    "gfs_reads": INTEGER,
    "gfs_bytes": INTEGER,
    "gfs_read_time_s": SECONDS,
    "gfs_meta_time_s": SECONDS,
    "lfs_opens": INTEGER,
    "lfs_writes": INTEGER,
    "lfs_bytes": INTEGER,
    "lfs_write_time_s": SECONDS,
    "lfs_meta_time_s": SECONDS,
    "drain_time_s": SECONDS,
}

_RUN_STAGE_IN = {
    "node": INTEGER,
    "gfs_opens": INTEGER,
    "gfs_reads": INTEGER,
    "gfs_bytes": INTEGER,
    "gfs_read_time_s": SECONDS,
    "gfs_meta_time_s": SECONDS,
    "lfs_opens": INTEGER,
    "lfs_writes": INTEGER,
    "lfs_bytes": INTEGER,
    "lfs_write_time_s": SECONDS,
    "lfs_meta_time_s": SECONDS,
    "stage_in_time_s": SECONDS,
}

_RUN_PEERS = {
    "rank": INTEGER,
    "node": INTEGER,
    "epoch": INTEGER,
    "peer_files": INTEGER,
    "peer_bytes": INTEGER,
    "net_read_time_s": SECONDS,
    "peer_lfs_read_time_s": SECONDS,
    "peer_lfs_meta_time_s": SECONDS,
    "network_time_s": SECONDS,
}

_IMPROVEMENTS = {f"{io_class}_improvement_percent": INTEGER for io_class in IOClass}

TABLES = {
    "manifest": {
        "file_id": INTEGER,
        "path": TEXT,
        "size_bytes": INTEGER,
        "ost": INTEGER,
    },
    "run_epochs": _RUN_EPOCHS,
    "epochs": RUN_KEYS | _RUN_EPOCHS,
    "file_records": {
        "rank": INTEGER,
        "epoch": INTEGER,
        "tier": TEXT,
        "file_id": INTEGER,
        "opens": INTEGER,
        "reads": INTEGER,
        "bytes_read": INTEGER,
        "read_time_s": SECONDS,
        "meta_time_s": SECONDS,
    },
    "background_records": {
        "rank": INTEGER,
        "epoch": INTEGER,
        "tier": TEXT,
        "file_id": INTEGER,
        "opens": INTEGER,
        "reads": INTEGER,
        "bytes_read": INTEGER,
        "read_time_s": SECONDS,
        "writes": INTEGER,
        "bytes_written": INTEGER,
        "write_time_s": SECONDS,
        "meta_time_s": SECONDS,
    },
    "decisions": {
        "node": INTEGER,
        "step": INTEGER,
        "time_s": SECONDS,
        "event": TEXT,
        "epoch": INTEGER,
        "rank": INTEGER,
        "file_id": INTEGER,
        "place": TEXT,
        "detail": TEXT,
    },
    "peer_reads": {
        "rank": INTEGER,
        "epoch": INTEGER,
        "file_id": INTEGER,
        "owner": INTEGER,
        "bytes": INTEGER,
        "time_s": SECONDS,
        "lfs_read_time_s": SECONDS,
        "lfs_meta_time_s": SECONDS,
    },
    "run_stage_in": _RUN_STAGE_IN,
    "stage_in": RUN_KEYS | _RUN_STAGE_IN,
    "run_peers": _RUN_PEERS,
    "peers": RUN_KEYS | _RUN_PEERS,
    "run_background": _RUN_BACKGROUND,
    "background": RUN_KEYS | _RUN_BACKGROUND,
    "io_time": RUN_KEYS
    | {
        "epoch": INTEGER,
        "rank": INTEGER,
        "io_class": TEXT,
        "time_s": SECONDS,
        "operations": INTEGER,
        "bytes": INTEGER,
    },
    "breakdown": RUN_KEYS
    | {
        "epoch": INTEGER,
        "io_class": TEXT,
        "slowest_rank": INTEGER,
        "time_s": SECONDS,
        "share": SECONDS,
    },
    "spread": SCENARIO_KEYS
    | {
        "cache_rate_percent": INTEGER,
        "epoch": INTEGER,
        "quantity": TEXT,
        "n_repetitions": INTEGER,
        "mean_s": SECONDS,
        "sd_s": SECONDS,
        "cv": SECONDS,
        "max_spread_percent": INTEGER,
        "flagged": FLAG,
    },
    "estimates": RUN_KEYS
    | {"epoch": INTEGER}
    | _IMPROVEMENTS
    | {"io_time_s": SECONDS, "slowest_rank": INTEGER},
    "goals": SCENARIO_KEYS
    | {
        "epoch": INTEGER,
        "goal_of": TEXT,
        "goal_s": SECONDS,
        "difference_s": SECONDS,
        "best_cache_rate_percent": INTEGER,
        "best_io_time_s": SECONDS,
        "n_combinations": INTEGER,
        "n_sufficient": INTEGER,
        "n_minimal": INTEGER,
    },
    "combinations": SCENARIO_KEYS
    | {"epoch": INTEGER, "goal_of": TEXT, "goal_s": SECONDS}
    | _IMPROVEMENTS
    | {
        "cost": SECONDS,
        "cheapest": FLAG,
        "min_cache_rate_percent": INTEGER,
        "lfs_gib_per_node": SECONDS,
        "io_time_s": SECONDS,
        "cv": SECONDS,
        "in_every_repetition": FLAG,
        "best_cache_rate_percent": INTEGER,
        "best_io_time_s": SECONDS,
    },
    "claims": {
        "source": TEXT,
        "system": TEXT,
        "claim": TEXT,
        "section": TEXT,
        "title": TEXT,
        "statement": TEXT,
        "scenarios": TEXT,
        "n_repetitions": INTEGER,
        "expected": TEXT,
        "accepted": TEXT,
        "tolerance": TEXT,
        "measured": TEXT,
        "details": TEXT,
        "value": SECONDS,
        "status": TEXT,
        "reason": TEXT,
        "fitted": TEXT,
    },
}

_ALLOWED = {
    "source": {"measured", "emulated", "simulated"},
    "tier": {"gfs", "lfs", "net"},
    "place": {"gfs", "lfs", "peer"},
    "event": {"begin", "end", "copy", "placed", "failed", "evict"},
    "detail": {"", "handed over", "read again", "full", "error"},
    "io_class": {str(io_class) for io_class in ALL_CLASSES},
    "quantity": {"execution time", "I/O time"},
    "goal_of": {"io_time", "execution_time"},
    "status": {"holds", "does not hold", "not measurable here"},
    "fitted": {"no", "target", "by hand", "derived"},
}
_MINIMUM = {"ost": -1, "owner": -1, "difference_s": -np.inf, "value": -np.inf}
_MAY_BE_MISSING = {"sd_s", "cv", "value"}


def run_keys(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the key columns of a run's tables from its `run.json`."""
    return {
        "source": run["source"],
        "system": run["system"]["name"],
        **run["scenario"],
        **run["point"],
    }


class TableError(ValueError):
    """A table breaks its contract."""


def check_table(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the frame with exactly the columns and types of a table.

    Parameters
    ----------
    frame : DataFrame
        The rows to check; integer columns of any width are widened.
    name : str
        A key of `TABLES`.

    Raises
    ------
    TableError
        On missing or unknown columns, wrong types, missing values, negative
        numbers or words outside a column's vocabulary.
    """
    columns = TABLES[name]
    if set(frame.columns) != set(columns) or frame.columns.has_duplicates:
        raise TableError(
            f"table {name}: got columns {list(frame.columns)}, "
            f"expected {list(columns)}."
        )
    checked = {}
    for column, kind in columns.items():
        checked[column] = _check_column(frame[column], kind, f"{name}.{column}")
    return pd.DataFrame(checked).reset_index(drop=True)


def _check_column(values: pd.Series, kind: str, where: str) -> pd.Series:
    """Return one column in its contract's type, or raise a TableError."""
    name = where.split(".")[1]
    if values.isna().any() and name not in _MAY_BE_MISSING:
        raise TableError(f"table column {where}: got missing values, expected none.")
    if kind == TEXT:
        is_text = isinstance(values.dtype, pd.StringDtype)  # holds nothing else
        if not is_text and not set(map(type, values)) <= {str}:
            raise TableError(f"table column {where}: got {values.dtype}, expected str.")
        if name in _ALLOWED and (unknown := set(values.unique()) - _ALLOWED[name]):
            raise TableError(
                f"table column {where}: got {sorted(unknown)}, "
                f"expected some of {sorted(_ALLOWED[name])}."
            )
        return values.astype("str")
    if kind == INTEGER and not pd.api.types.is_integer_dtype(values):
        raise TableError(f"table column {where}: got {values.dtype}, expected int64.")
    if kind == SECONDS and not pd.api.types.is_numeric_dtype(values):
        raise TableError(f"table column {where}: got {values.dtype}, expected float64.")
    if kind == FLAG:
        if not pd.api.types.is_bool_dtype(values):
            raise TableError(
                f"table column {where}: got {values.dtype}, expected bool."
            )
        return values.astype(bool)
    if kind == SECONDS and np.isinf(values.to_numpy(float)).any():
        raise TableError(f"table column {where}: got infinite values.")
    lowest = _MINIMUM.get(name, 0)
    if len(values) and values.min() < lowest:
        raise TableError(
            f"table column {where}: got {values.min()}, expected at least {lowest}."
        )
    return values.astype(kind)


def write_table(frame: pd.DataFrame, path: str | Path, name: str) -> None:
    """Check a frame and write it to Parquet under a temporary name, then rename."""
    checked = check_table(frame, name)
    table = pa.Table.from_pandas(checked, preserve_index=False)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table.replace_schema_metadata(), temporary, compression="zstd")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_table(path: str | Path, name: str) -> pd.DataFrame:
    """Read a Parquet table and check it against its contract."""
    try:
        frame = pq.read_table(path).to_pandas()
    except (OSError, pa.ArrowInvalid) as error:
        raise TableError(f"{path}: cannot read table {name}: {error}") from error
    try:
        return check_table(frame, name)
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
