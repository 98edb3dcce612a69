"""How tables are written, and what users read where a table cannot be read."""

import errno
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tierscope.core.columns import LATER, TABLES, WITH_AFTER
from tierscope.core.tables import (
    TableError,
    check_table,
    empty_table,
    open_table,
    read_table,
    read_tables,
    write_columns,
    write_rows,
    write_table,
)

REMEDIES = [
    ("io_time", "(delete the file and start again, to make it again)"),
    ("faults", "(delete the run's folder and start again, to make it again)"),
    ("manifest", "(delete the file and start again, to make it again)"),
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


@pytest.fixture
def folder(tmp_path):
    """Return a table of three logs in two months, a file of each chunk of logs."""
    path = tmp_path / "refusals.parquet"
    for place, logs in {"2026-11/b": ["c"], "2026-10/a": ["a", "b"]}.items():
        rows = pd.DataFrame({"log": logs, "reason": "is empty"})
        write_table(rows, path / f"{place}.parquet", "refusals")
    (path / ".snakemake_timestamp").touch()
    return path


def test_rows_after_training_are_read_only_where_they_are_wanted(path):
    n_rows = 3
    empty = empty_table("io_time")
    table = pd.DataFrame({name: ["gfs_read"] * n_rows for name in empty.columns})
    numbers = empty.select_dtypes("number").columns
    table[numbers] = 1
    table = table.assign(source="measured", epoch=[-1, 0, 1]).astype(empty.dtypes)
    write_table(table, path, "io_time")
    assert read_table(path, "io_time")["epoch"].tolist() == [0, 1]
    assert read_tables([path] * 2, "io_time")["epoch"].tolist() == [0, 1, 0, 1]
    assert read_table(path, "io_time", after_training=True).equals(table)


@pytest.mark.parametrize("name", ["epochs", "io_time", "other_time", "opens"])
def test_tables_of_programs_may_have_rows_after_training(name):
    assert name in WITH_AFTER
    assert "utilisation" not in WITH_AFTER


def test_a_folder_of_files_is_one_table(folder):
    assert read_table(folder, "refusals")["log"].tolist() == ["a", "b", "c"]
    some = read_table(folder, "refusals", pc.field("log") == "c")
    assert some["reason"].tolist() == ["is empty"]


def test_a_table_is_opened_without_being_read(folder):
    table = open_table(folder, "refusals")
    assert table.count_rows() == 3
    assert table.to_table(filter=pc.field("log") == "b").num_rows == 1


@pytest.mark.parametrize("read", [read_table, open_table])
def test_a_folder_without_files_or_with_others_is_refused(folder, read):
    with pytest.raises(TableError, match=r"got columns .* expected"):
        read(folder, "faults")
    for path in folder.glob("*/*.parquet"):
        path.unlink()
    with pytest.raises(TableError, match="got no file <month>"):
        read(folder, "refusals")


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


ROW = {
    "rank": 0,
    "node": 0,
    "epoch": 1,
    "execution_time_s": 0.1 + 0.2,
    "samples": 2**53 + 1,
    "bytes": 4096,
    "lfs_files": 1,
    "gfs_files": 0,
    "lfs_fill_time_s": 1e-9,
}


def test_rows_are_read_as_they_were(tmp_path):
    path = tmp_path / "run" / "epochs.parquet"
    write_rows([ROW, ROW | {"rank": 1}], path, "run_epochs")
    read = read_table(path, "run_epochs")
    assert read["execution_time_s"].tolist() == [0.1 + 0.2] * 2
    assert read["samples"].tolist() == [2**53 + 1] * 2
    assert [file.name for file in path.parent.iterdir()] == ["epochs.parquet"]


@pytest.mark.parametrize("missing", [None, math.nan])
def test_observations_of_the_page_cache_are_written_where_there_are_some(path, missing):
    seen = {"device_bytes": 8.0, "names_dropped": True, "gfs_resident_percent": missing}
    rows = [ROW | LATER | seen, ROW | LATER | seen | {"device_bytes": missing}]
    write_rows(rows, path, "run_epochs")
    table = read_table(path, "run_epochs")
    assert table["device_bytes"].tolist()[0] == 8.0
    assert table["device_bytes"].isna().tolist() == [False, True]
    assert table["gfs_resident_percent"].isna().all()
    assert table["names_dropped"].tolist() == [True, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 1.5}, "run_epochs.samples: got float64, expected int64"),
        ({"bytes": "many"}, "run_epochs.bytes: got object, expected int64"),
        ({"execution_time_s": "1"}, "execution_time_s: got object, expected float64"),
        ({"names_dropped": 1}, "run_epochs.names_dropped: got int64, expected bool"),
        ({"speed": 1}, "table run_epochs: got columns .*speed.*, expected .*rank"),
        ({"execution_time_s": math.nan}, "execution_time_s: got missing values"),
        ({"execution_time_s": None}, "execution_time_s: got missing values"),
        ({"execution_time_s": math.inf}, "execution_time_s: got infinite values"),
        ({"samples": -1}, "run_epochs.samples: got -1, expected at least 0"),
        ({"samples": [1]}, "run_epochs.samples: got object, expected int64"),
    ],
)
def test_rows_that_break_the_contract_are_refused(path, change, message):
    with pytest.raises(TableError, match=message):
        write_rows([ROW | change], path, "run_epochs")
    assert not path.exists()


def test_a_row_without_a_column_is_refused(path):
    row = {name: value for name, value in ROW.items() if name != "node"}
    with pytest.raises(TableError, match=r"run_epochs: got columns .*, expected rows"):
        write_rows([ROW, row], path, "run_epochs")
    with pytest.raises(TableError, match="table run_epochs: got no row"):
        write_rows([], path, "run_epochs")


FILES = {
    "file_id": np.arange(9, dtype=np.int32),
    "path": np.array(["\N{EURO SIGN}" * n + ".x" for n in range(9)]),
    "size_bytes": np.arange(9, dtype=np.uint64),
    "ost": np.full(9, -1),
}


@pytest.mark.parametrize("n_rows", [9, 1, 0])
@pytest.mark.parametrize("as_text", [np.asarray, np.char.encode])
def test_columns_may_have_texts_as_bytes(path, n_rows, as_text):
    columns = {name: values[:n_rows] for name, values in FILES.items()}
    write_columns(columns | {"path": as_text(columns["path"])}, path, "manifest")
    table = read_table(path, "manifest")
    assert table["path"].tolist() == columns["path"].tolist()
    assert table["size_bytes"].tolist() == list(range(n_rows))


USER_FILES = FILES | {"mtime_ns": np.zeros(9, int), "is_link": np.zeros(9, bool)}
SAME = [-1, -1, 0, 0, -1, 1, -1, 4, -1]


@pytest.mark.parametrize(
    ("column", "row", "number", "expected"),
    [
        ("same_as", 3, 9, "-1, or an earlier row with -1"),  # out of range
        ("same_as", 3, 1 << 60, "-1, or an earlier row with -1"),
        ("same_as", 3, 3, "-1, or an earlier row with -1"),  # itself
        ("same_as", 3, 4, "-1, or an earlier row with -1"),  # a later one
        ("same_as", 3, 2, "-1, or an earlier row with -1"),  # no first name
        ("file_id", 8, 9, "the number of the row"),
        ("file_id", 2, 1, "the number of the row"),
    ],
)
def test_numbers_of_files_are_those_of_rows(path, column, row, number, expected):
    columns = USER_FILES | {"same_as": np.array(SAME)}
    write_columns(columns, path, "user_manifest")
    assert read_table(path, "user_manifest")["same_as"].tolist() == SAME
    table = pq.read_table(path).to_pandas()
    table.loc[row, column] = number
    table.to_parquet(path)
    words = "cannot read table user_manifest (delete the file and start again, to make"
    assert refusal(path, "user_manifest") == (
        f"{path}: {words} it again): table column user_manifest.{column}: got {number} "
        f"in row {row}, counted from 0, expected {expected}."
    )


def test_numbers_of_what_there_is_less_of_are_refused(path):
    empty = empty_table("peer_reads")
    table = pd.DataFrame({name: [0, 2] for name in empty}).astype(empty.dtypes)
    table["owner"] = -1
    write_table(table, path, "peer_reads")
    below = {"file_id": 3, "owner": 1, "node": 1}  # a table may lack one
    assert read_table(path, "peer_reads", below=below).equals(table)
    with pytest.raises(TableError) as error:
        read_table(path, "peer_reads", below=below | {"file_id": 2})
    assert str(error.value) == (
        f"{path}: cannot read table peer_reads (delete the run's folder and start "
        "again, to make it again): table column peer_reads.file_id: got 2 in row 1, "
        "counted from 0, expected a number below 2."
    )


def test_texts_that_are_cut_within_a_sign_are_refused(path):
    cut = FILES | {"path": np.array([b"\xe2\x82", *[b"\xac"] * 8])}
    with pytest.raises(TableError, match=r"table manifest: got bytes, .* can't decode"):
        write_columns(cut, path, "manifest")


def test_words_that_no_reader_knows_are_refused(path):
    columns = {name: np.zeros(1, int) for name in empty_table("decisions")}
    columns |= {"event": np.array([b"ends"]), "place": np.array([b"lfs"])}
    columns["detail"] = np.array([b""])
    with pytest.raises(TableError, match=r"decisions.event: got \['ends'\], expected"):
        write_columns(columns, path, "decisions")
