"""Golden numbers: a change of any value is seen, and named by its column."""

import golden
import numpy as np
import pandas as pd
import pytest
from tierscope.core.tables import write_table

TABLE = pd.DataFrame(
    {
        "rank": [0, 1],
        "node": [0, 0],
        "epoch": [0, 0],
        "execution_time_s": [0.1 + 0.2, 2.0],
        "samples": [4, 4],
        "bytes": [8, 8],
        "lfs_files": [1, 2],
        "gfs_files": [3, 2],
        "lfs_fill_time_s": [0.0, 0.0],
    }
)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Return a function that writes a table, after golden numbers of the first one."""
    monkeypatch.setattr(golden, "GOLDEN", tmp_path / "golden")
    path = tmp_path / "run_epochs.parquet"

    def write(**columns):
        write_table(TABLE.assign(**columns), path, "run_epochs")
        return path

    monkeypatch.setenv(golden.RENEW, "1")
    golden.assert_golden("tiny", [write()])
    monkeypatch.delenv(golden.RENEW)
    return write


def test_equal_tables_pass(table):
    golden.assert_golden("tiny", [table()])


def test_changed_number_is_shown_before_and_after(table):
    with pytest.raises(pytest.fail.Exception) as failed:
        golden.assert_golden("tiny", [table(samples=[4, 5])])
    lines = str(failed.value).splitlines()
    unobserved = f"{'nan,' * 5}False{',nan' * 10},"
    assert f"-  1,0,0,2,4,8,2,2,0,{unobserved}" in lines
    assert f"+  1,0,0,2,5,8,2,2,0,{unobserved}" in lines
    changed = [line.split()[-1] for line in lines if line[:3] == "+  "]
    assert changed[0] == "samples"


def test_nanoseconds_are_exact_and_what_is_computed_has_nine_digits():
    values = pd.Series([0.1 + 0.2, 1234.123456789, np.nan])
    assert golden.as_text(values, "breakdown") == ["0.3", "1234.12346", "nan"]
    exact = ["0.300000000", "1234.123456789", "nan"]
    assert golden.as_text(values, "io_time") == exact
