"""What a node decides, as rows of the table `decisions`."""

import pandas as pd
from tierscope.core.columns import TABLES
from tierscope.policies import Place
from tierscope.policies.decisions import ROW, Decisions


def test_a_row_has_the_columns_of_the_table():
    assert list(ROW.names) == list(TABLES["decisions"])


def test_rows_are_numbered_and_have_the_instant_since_the_start():
    decisions = Decisions(node=2, rank=8, started_ns=500)
    decisions.pass_time(1_500_000_500)
    decisions.pass_time(600)  # a request that another one overtook
    decisions.add("begin", 0, 7, Place.GFS, rank=9)
    decisions.add("placed", 1, 7, Place.LFS, detail="handed over")
    assert decisions.table().tolist() == [
        (2, 0, 1.5, b"begin", 0, 9, 7, b"gfs", b""),
        (2, 1, 1.5, b"placed", 1, 8, 7, b"lfs", b"handed over"),
    ]
    columns = decisions.columns()
    assert columns["event"].tolist() == [b"begin", b"placed"]
    assert pd.DataFrame(columns)["step"].tolist() == [0, 1]


def test_a_node_that_decides_nothing_has_no_row():
    columns = Decisions(0, 0).columns()
    assert [len(columns[name]) for name in TABLES["decisions"]] == [0] * 9
