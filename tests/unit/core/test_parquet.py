"""Rows that rank 0 writes without pandas."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tierscope
from tierscope.core.columns import LATER
from tierscope.core.parquet import write_columns, write_rows
from tierscope.core.tables import TableError, empty_table, read_table, write_table

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
SEEN = {"device_bytes": 8.0, "gfs_resident_percent": math.nan, "names_dropped": True}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "epochs.parquet"


def written(path, write):
    """Return the bytes of a file that a function writes."""
    write()
    content = path.read_bytes()
    path.unlink()
    return content


def test_rows_give_the_bytes_that_pandas_gives(path):
    rows = [ROW, ROW | {"rank": 1}]
    ours = written(path, lambda: write_rows(rows, path, "run_epochs"))
    frame = pd.DataFrame(rows)
    assert ours == written(path, lambda: write_table(frame, path, "run_epochs"))


def test_rows_are_read_as_they_were(path):
    write_rows([ROW, ROW | {"rank": 1}], path, "run_epochs")
    read = read_table(path, "run_epochs")
    assert read["execution_time_s"].tolist() == [0.1 + 0.2] * 2
    assert read["samples"].tolist() == [2**53 + 1] * 2
    assert [file.name for file in path.parent.iterdir()] == ["epochs.parquet"]


def test_observations_of_the_page_cache_are_written_where_there_are_some(path):
    write_rows([ROW | LATER | SEEN], path, "run_epochs")
    (row,) = read_table(path, "run_epochs").to_dict("records")
    assert row["device_bytes"] == 8.0
    assert math.isnan(row["gfs_resident_percent"])
    assert row["names_dropped"] is True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 1.5}, "run_epochs.samples: got float64, expected int64"),
        ({"bytes": "many"}, "run_epochs.bytes: got <U4, expected int64"),
        ({"execution_time_s": "1"}, "execution_time_s: got <U1, expected float64"),
        ({"names_dropped": 1}, "run_epochs.names_dropped: got int64, expected bool"),
        ({"speed": 1}, "table run_epochs: got columns .*speed.*, expected .*rank"),
        ({"execution_time_s": math.nan}, "execution_time_s: got missing values"),
        ({"execution_time_s": None}, "execution_time_s: got missing values"),
        ({"execution_time_s": math.inf}, "execution_time_s: got infinite values"),
        ({"samples": -1}, "run_epochs.samples: got -1, expected at least 0"),
        ({"samples": [1]}, "run_epochs.samples: got shape"),
    ],
)
def test_rows_that_break_the_contract_are_refused_as_frames_are(path, change, message):
    row = ROW | change
    with pytest.raises(TableError, match=message):
        write_rows([row], path, "run_epochs")
    if "speed" in change or type(row["execution_time_s"]) is float:
        with pytest.raises(TableError):
            write_table(pd.DataFrame([row]), path, "run_epochs")
    assert not path.exists()


def test_a_row_without_a_column_is_refused(path):
    row = {name: value for name, value in ROW.items() if name != "node"}
    with pytest.raises(TableError, match="table run_epochs: got columns"):
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
def test_columns_of_any_text_give_the_bytes_that_pandas_gives(path, n_rows):
    columns = {name: values[:n_rows] for name, values in FILES.items()}
    frame = pd.DataFrame(columns).astype({"path": "str"})
    expected = written(path, lambda: write_table(frame, path, "manifest"))
    assert written(path, lambda: write_columns(columns, path, "manifest")) == expected
    columns["path"] = np.char.encode(columns["path"])
    assert written(path, lambda: write_columns(columns, path, "manifest")) == expected


def test_texts_that_are_cut_within_a_sign_are_refused(path):
    cut = FILES | {"path": np.array([b"\xe2\x82", *[b"\xac"] * 8])}
    with pytest.raises(TableError, match=r"manifest.path: got bytes, .* can't decode"):
        write_columns(cut, path, "manifest")


def test_words_that_no_reader_knows_are_refused(path):
    empty = empty_table("decisions")
    columns = {name: np.zeros(1, int) for name in empty}
    columns |= {"event": np.array([b"ends"]), "place": np.array([b"lfs"])}
    columns["detail"] = np.array([b""])
    with pytest.raises(TableError, match=r"decisions.event: got \['ends'\], expected"):
        write_columns(columns, path, "decisions")


def test_nine_numbers_and_flags_of_which_some_are_missing_are_read(path):
    seen = np.where(np.arange(9) % 3, np.arange(9) / 3, math.nan)
    rows = [
        ROW | LATER | {"device_bytes": one, "names_dropped": one > 1} for one in seen
    ]
    write_rows(rows, path, "run_epochs")
    table = read_table(path, "run_epochs")
    np.testing.assert_array_equal(table["device_bytes"], seen)
    assert table["names_dropped"].tolist() == [one > 1 for one in seen]


def test_rank_0_does_not_import_pandas_for_few_rows_and_a_log(tmp_path):
    program = (
        "import sys; from pathlib import Path\n"
        "import numpy as np\n"
        "from tierscope.core.parquet import write_rows\n"
        "from tierscope.trace.log_writer import write_log\n"
        "from tierscope.trace.posix_records import POSIX_RECORD\n"
        "folder = Path(sys.argv[1])\n"
        f"write_rows([{ROW}], folder / 'epochs.parquet', 'run_epochs')\n"
        "about = {'n_processes': 1, 'exe': 'x', 'mounts': {}}\n"
        "about |= {'start_time_s': 1, 'end_time_s': 2}\n"
        "records = np.ones(1, POSIX_RECORD)\n"
        "write_log(folder / 'log.darshan', records, {1: b'/x'}, **about)\n"
        "assert 'pandas' not in sys.modules\n"
    )
    scripts = Path(tierscope.__file__).parents[1]
    command = [sys.executable, "-c", program, tmp_path]
    subprocess.run(command, cwd=scripts, check=True)
