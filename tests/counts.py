"""What the tiny experiment reads, whoever runs it: equal counts on every scheduler."""

from pathlib import Path

import pandas as pd
from tierscope.core.tables import read_table

EXPECTED = Path(__file__).parent / "data" / "tiny-counts.csv"
_COLUMNS = ["n_osts", "cache_rate_percent", "epoch", "rank", "io_class"]


def counts(results: Path) -> pd.DataFrame:
    """Return operations and bytes of every process, epoch and class."""
    io_time = read_table(results / "tables" / "io_time.parquet", "io_time")
    table = io_time[[*_COLUMNS, "operations", "bytes"]].sort_values(_COLUMNS)
    return table.astype({"io_class": str}).reset_index(drop=True)


def assert_expected_counts(results: Path) -> None:
    """Assert that an experiment has read what the tiny one reads."""
    expected = pd.read_csv(EXPECTED)
    pd.testing.assert_frame_equal(counts(results), expected, check_dtype=False)


def assert_expected_counts_at(results: Path, *rates: int) -> None:
    """Assert so of plain directories and these cache rates."""
    table = pd.read_csv(EXPECTED).query("n_osts == 60")
    expected = table[table["cache_rate_percent"].isin(rates)].assign(n_osts=0)
    expected = expected.reset_index(drop=True)
    pd.testing.assert_frame_equal(counts(results), expected, check_dtype=False)
