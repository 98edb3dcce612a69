"""Golden numbers: what small deterministic experiments gave when last renewed.

`make golden` writes them anew. A number that has changed is a line of the diff, and its
reason is a line of the changelog.
"""

import os
from collections.abc import Iterable
from difflib import unified_diff
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tierscope.core.tables import read_table

GOLDEN = Path(__file__).parent / "data" / "golden"
RENEW = "TIERSCOPE_GOLDEN_RENEW"
N_ROWS = 4
# Tables of whole nanoseconds; what is computed from them may differ in the last digits
# on another processor.
EXACT = ("epochs", "io_time", "background", "stage_in", "peers")
DIGITS = 9
LONGEST_WORD = 24  # what is longer is prose, no value


def assert_golden(name: str, tables: Iterable[Path]) -> None:
    """Assert that tables hold the golden numbers of an experiment, or renew those."""
    text = "\n".join(describe(path) for path in sorted(tables))
    path = GOLDEN / f"{name}.txt"
    if os.environ.get(RENEW):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    before, now = path.read_text().splitlines(), text.splitlines()
    if difference := "\n".join(unified_diff(before, now, "golden", "now", lineterm="")):
        pytest.fail(
            f"{name}: numbers have changed; if they should, `make golden` and give the "
            f"reason in CHANGELOG.md:\n{difference}",
            pytrace=False,
        )


def describe(path: Path) -> str:
    """Return a table's digests by column and some of its rows, both without prose."""
    table = read_table(path, path.stem)
    texts = {column: as_text(table[column], path.stem) for column in table}
    texts = {
        c: v for c, v in texts.items() if max(map(len, v), default=0) <= LONGEST_WORD
    }
    lines = [f"{path.stem}: {len(table)} rows"]
    for column, values in texts.items():
        digest = blake2b("\n".join(values).encode(), digest_size=6).hexdigest()
        lines.append(f"  {digest} {column}")
    chosen = np.unique(np.linspace(0, len(table) - 1, N_ROWS).round().astype(int))
    rows = [",".join(values[i] for values in texts.values()) for i in chosen]
    return "\n".join(lines + [f"  {row}" for row in rows if len(table)]) + "\n"


def as_text(column: pd.Series, table: str) -> list[str]:
    """Return a column as text, floats with the digits that no processor changes."""
    if not pd.api.types.is_float_dtype(column):
        return column.astype(str).tolist()
    if table in EXACT:
        return [f"{value:.9f}" for value in column]
    return [f"{value:.{DIGITS}g}" for value in column]
