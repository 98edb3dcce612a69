"""What users read where a table cannot be read."""

import errno

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tierscope.core.columns import TABLES
from tierscope.core.tables import (
    TableError,
    check_table,
    empty_table,
    read_table,
    write_table,
)

REMEDIES = [
    ("io_time", "(delete the file and start again, to make it again)"),
    ("faults", "(delete the run's folder and start again, to make it again)"),
    ("manifest", ""),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.parquet"


def refusal(path, name):
    """Return the message with which a table is refused."""
    with pytest.raises(TableError) as error:
        read_table(path, name)
    return str(error.value)


@pytest.mark.parametrize(("name", "remedy"), REMEDIES)
def test_damaged_table_is_refused_with_what_makes_it_anew(path, name, remedy):
    write_table(empty_table(name), path, name)
    path.write_bytes(path.read_bytes()[:-9])
    expected = " ".join(filter(None, [f"{path}: cannot read table {name}", remedy]))
    assert refusal(path, name).startswith(f"{expected}: ")


def test_flipped_bit_is_found_or_changes_no_value(path):
    n_rows = 40
    empty = empty_table("background_records")
    table = pd.DataFrame({name: np.arange(n_rows) for name in empty.columns})
    expected = table.assign(tier="gfs").astype(empty.dtypes)
    write_table(expected, path, "background_records")
    whole = path.read_bytes()
    n_refused = 0
    for at in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        path.write_bytes(damaged)
        try:
            assert read_table(path, "background_records").equals(expected)
        except TableError:
            n_refused += 1
    assert n_refused > len(whole) / 5 / 2


@pytest.mark.parametrize(("name", "remedy"), REMEDIES)
def test_table_with_other_columns_is_refused_with_what_makes_it_anew(
    path, name, remedy
):
    write_table(empty_table("goals"), path, "goals")
    message = refusal(path, name)
    assert message.startswith(f"{path}: cannot read table {name}")
    assert "got columns ['source'" in message
    assert remedy in message
    assert ("delete" in message) == bool(remedy)


def test_table_that_is_missing_is_nothing_to_delete(path):
    assert refusal(path, "io_time") == (
        f"{path}: cannot read table io_time: no such file"
    )


def test_table_that_is_out_of_reach_is_nothing_to_delete(path, monkeypatch):
    def refuse(path, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("tierscope.core.tables.pq.read_table", refuse)
    message = refusal(path, "io_time")
    assert message.startswith(f"{path}: cannot read table io_time: [Errno 13]")
    assert "delete" not in message


def test_table_that_snakemake_names_in_a_list_is_read(path):
    write_table(empty_table("faults"), path, "faults")
    assert read_table([str(path)], "faults").empty


def test_only_wanted_rows_are_read(path):
    rows = {"file_id": [0, 1, 2], "path": list("abc"), "size_bytes": 1, "ost": -1}
    write_table(pd.DataFrame(rows), path, "manifest")
    some = read_table(path, "manifest", pc.field("path").isin(["c", "x"]))
    assert some["file_id"].tolist() == [2]
    none = pa.array([], pa.string())
    assert read_table(path, "manifest", pc.field("path").isin(none)).empty


def claim_of(table, status):
    """Return a table of one claim."""
    row = {name: "" if kind == "str" else 1.0 for name, kind in TABLES[table].items()}
    if table == "claims":
        row |= {"fitted": "no", "n_repetitions": 1}
    return pd.DataFrame([row | {"source": "measured", "status": status}])


def test_claims_are_holding_or_not_undecided_or_not_measurable():
    check_table(claim_of("policy_claims", "undecided"), "policy_claims")
    check_table(claim_of("claims", "undecided"), "claims")
    check_table(claim_of("claims", "not measurable here"), "claims")
    with pytest.raises(TableError, match=r"policy_claims.status: got \['open'\]"):
        check_table(claim_of("policy_claims", "open"), "policy_claims")
