"""Folders that several processes may write at a time."""

import os

import pyarrow as pa
import pytest
from stops import stopped
from tierscope.core.parquet import write_parquet
from tierscope.logs.chunks.folders import (
    UNREAD,
    damaged_chunks,
    folder_written_whole,
    remove_others,
    to_be_tried_again,
)


def write(path, text):
    with folder_written_whole(path) as folder:
        (folder / "a").write_text(text)


def test_a_folder_replaces_an_older_one(tmp_path):
    path = tmp_path / "some" / "folder"
    write(path, "old")
    (path / "left").touch()
    (path.parent / ".folder.node.1").mkdir()  # of a killed process
    write(path, "new")
    assert (path / "a").read_text() == "new"
    assert not (path / "left").exists()
    assert [*path.parent.iterdir()] == [path]


def test_folder_is_the_old_one_the_new_one_or_none_after_a_power_cut(tmp_path):
    path = tmp_path / "folder"
    write(path, "old")
    found = set()
    for _ in stopped(tmp_path, lambda: write(path, "new")):
        found.add((path / "a").read_text() if path.exists() else "none")
    assert found == {"old", "new", "none"}


def test_after_an_error_the_older_folder_is_there(tmp_path):
    path = tmp_path / "folder"
    write(path, "old")
    with pytest.raises(FileNotFoundError), folder_written_whole(path) as folder:
        (folder / "no" / "a").write_text("half")
    assert (path / "a").read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_what_a_later_writer_has_made_stays(tmp_path, monkeypatch):
    path = tmp_path / "folder"
    with folder_written_whole(path) as folder:
        (folder / "a").write_text("of the first, which is slow")
        with monkeypatch.context() as other:
            other.setattr("os.getpid", lambda: 1)
            write(path, "of the second")
    assert (path / "a").read_text() == "of the second"
    assert [*tmp_path.iterdir()] == [path]


def test_others_are_removed_unless_they_are_being_written(tmp_path):
    old = tmp_path / ".2023.node.1", tmp_path / ".2023.parquet.node.1"
    for name in ("2026", "2025", ".2024.node.1", ".2023.node.1"):
        (tmp_path / name).mkdir()
    for name in ("2026", "2025", ".2024", ".2023"):
        (tmp_path / f"{name}.parquet{'.node.1' * name.startswith('.')}").touch()
    for path in old:  # of processes that were killed
        os.utime(path, (1e9, 1e9))
    remove_others(tmp_path, {"2026"})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".2024.node.1",
        ".2024.parquet.node.1",
        "2026",
        "2026.parquet",
    ]


def test_chunk_that_lacks_a_file_or_the_end_of_one_is_found(tmp_path):
    for name in ("whole", "torn", "lacks", "older", ".2026.node.1"):
        with folder_written_whole(tmp_path / name) as folder:
            for table in "ab":
                write_parquet(pa.table({"log": [b"/b"]}), folder / f"{table}.parquet")
    (tmp_path / "2024.parquet").touch()  # no chunk
    (tmp_path / "torn" / "b.parquet").write_bytes(b"PAR1")
    (tmp_path / "lacks" / "b.parquet").unlink()
    assert damaged_chunks(tmp_path) == ["lacks"]
    (tmp_path / "torn" / "b.parquet").write_bytes(b"PAR")
    for started in ("12", "", None):  # its files are not known
        (tmp_path / "older" / ".started").unlink(missing_ok=True)
        if started is not None:
            (tmp_path / "older" / ".started").write_text(started)
        assert damaged_chunks(tmp_path) == ["lacks", "older", "torn"]


def test_logs_whose_refusal_may_pass_are_to_be_tried_again(tmp_path):
    for name, may_pass in (("2024", [False]), ("2025", [False, True]), ("2026", [])):
        logs = [b"/%d\xe9" % number for number in range(len(may_pass))]
        table = pa.table({"log": logs, "may_pass": pa.array(may_pass, pa.bool_())})
        write_parquet(table, tmp_path / name / f"{UNREAD}.parquet")
    (tmp_path / "2023").mkdir()
    write_parquet(pa.table({"log": [b"/b"]}), tmp_path / "2022" / f"{UNREAD}.parquet")
    assert to_be_tried_again(tmp_path) == {"/1\udce9"}
