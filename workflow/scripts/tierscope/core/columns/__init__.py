"""Contracts of the tables: type, unit, range and meaning of every column.

Every table is Parquet. Settings in percent (cache rates, improvements, goals) are
integers, results in percent or points are float64; times are seconds in float64, sizes
are bytes. Each room has a module of its tables; `shared` has columns of many tables.
"""

from tierscope.core.columns import (
    analysis,
    benchmark,
    claims,
    designs,
    logs,
    model,
    policies,
    shared,
    trace,
)
from tierscope.core.columns.benchmark import (
    LATER,
    OF_A_LAUNCH,
    WIDER,
)
from tierscope.core.columns.column import (
    ANY_NUMBER,
    FLAG,
    INTEGER,
    NUMBER,
    TEXT,
    Column,
    Columns,
)
from tierscope.core.columns.logs import (
    BOUNDS,
    EXACT,
    INTERFACES,
    JOB_CLASS,
    LOWER_BOUNDS,
    OPERATIONS,
)
from tierscope.core.columns.shared import (
    AFTER,
    AFTER_TRAINING,
    MODEL,
    NOT_STORAGE,
    RULE,
    TOGETHER,
)
from tierscope.core.io_class import IOClass

__all__ = [
    "AFTER",
    "AFTER_TRAINING",
    "BOUNDS",
    "CLASSES",
    "CLASS_TIMES",
    "COLUMNS",
    "EXACT",
    "FLAG",
    "IMPROVEMENTS",
    "INTEGER",
    "INTERFACES",
    "INTERVAL",
    "JOB_CLASS",
    "LATER",
    "LATER_NUMBERS",
    "LATER_VALUES",
    "LATER_WORDS",
    "LOWER_BOUNDS",
    "MODEL",
    "NOT_STORAGE",
    "NUMBER",
    "OF_A_LAUNCH",
    "OPERATIONS",
    "POINT",
    "RULE",
    "RUN_EPOCH",
    "RUN_KEYS",
    "SCENARIO",
    "SCENARIO_KEYS",
    "TABLES",
    "TEXT",
    "TOGETHER",
    "TRAINING",
    "WIDER",
    "WITH_AFTER",
    "Column",
    "allowed_values",
]

COLUMNS: dict[str, Columns] = {
    **benchmark.TABLES,
    **trace.TABLES,
    **analysis.TABLES,
    **policies.TABLES,
    **model.TABLES,
    **designs.TABLES,
    **claims.TABLES,
    **logs.TABLES,
}


def _kinds(columns: Columns) -> dict[str, str]:
    """Return the type of each column."""
    return {name: column.kind for name, column in columns.items()}


TABLES = {table: _kinds(columns) for table, columns in COLUMNS.items()}
WITH_AFTER = frozenset(  # tables that may have rows of `AFTER_TRAINING`
    table
    for table, columns in COLUMNS.items()
    if columns.get("epoch") in (shared.EPOCH_OR_AFTER, shared.EPOCH_OF_COPY)
)
SCENARIO_KEYS, RUN_KEYS = _kinds(shared.SCENARIO_KEYS), _kinds(shared.RUN_KEYS)
POINT, SCENARIO = list(shared.POINT_KEYS), list(SCENARIO_KEYS)
RUN_EPOCH = [*RUN_KEYS, "epoch"]
TRAINING, INTERVAL = list(analysis.TRAINING), list(analysis.INTERVAL)
CLASSES = [str(io_class) for io_class in IOClass]
LATER_NUMBERS = analysis.LATER | model.LATER
LATER_WORDS = model.LATER_WORDS | analysis.LATER_WORDS
LATER_VALUES = benchmark.LATER_VALUES
IMPROVEMENTS, CLASS_TIMES = list(shared.IMPROVEMENTS), list(shared.CLASS_TIMES)


def allowed_values(table: str, column: str) -> list[str]:
    """Return the allowed values of a column in words: a vocabulary, or a range."""
    contract = COLUMNS[table][column]
    if contract.kind == FLAG:
        return []
    if contract.kind == TEXT:
        return sorted(contract.words)
    is_any = contract.least == ANY_NUMBER
    words = ["any number"] if is_any else [f"at least {contract.least}"]
    return [*words, "may be missing"] if contract.may_be_missing else words
