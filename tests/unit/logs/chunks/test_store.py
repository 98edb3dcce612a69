"""What was read of logs is kept, and taken as long as it holds."""

from pathlib import Path

import pytest
from tierscope.logs.chunks.listing import ListedLog
from tierscope.logs.chunks.store import ReadLogs, keep, kept_file, take_kept
from tierscope.logs.reading import ReadLog

A, B = ListedLog("/a", 10, 1), ListedLog("/b\udce9", 20, 2)


def read(log, key="key"):
    """Return what was read of a log."""
    return ReadLog(f"digest of {log.path[:2]}", {"uid": 1}, f'"{key} {log.path[:2]}"')


@pytest.fixture
def folder(tmp_path):
    """Return a folder in which two logs of chunk 2026 are kept."""
    with ReadLogs(tmp_path) as reading:
        for log in (A, B):
            reading.add(log.path, read(log))
        keep(reading, tmp_path, "2026", [A, B], "key")
    return tmp_path


def taken(folder: Path, chunk, logs, key="key"):
    """Return the summaries that are taken by path, and whether these are all."""
    with ReadLogs(folder) as reading:
        is_same = take_kept(reading, folder, chunk, logs, key)
        texts = {
            log.path: reading.text(log.path) for log in logs if log.path in reading
        }
        assert set(reading.facts) == set(texts)
        return texts, is_same


def test_what_was_kept_is_taken_if_nothing_has_changed(folder):
    texts, is_same = taken(folder, "2026", [A, B])
    assert texts == {A.path: '"key /a"', B.path: '"key /b"'}
    assert is_same


def test_changed_logs_and_those_of_other_settings_are_not_taken(folder):
    changed = ListedLog(A.path, 10, 5)
    assert taken(folder, "2026", [changed, B]) == ({B.path: '"key /b"'}, False)
    assert taken(folder, "2026", [A, B], "other") == ({}, False)
    assert taken(folder, "2026", [A]) == ({A.path: '"key /a"'}, False)


def test_what_was_read_of_a_log_that_cannot_be_read_any_more_is_kept(folder):
    with ReadLogs(folder) as reading:
        reading.add(A.path, read(A, "new"))
        reading.add(B.path, "cannot be read: No such file or directory.")
        keep(reading, folder, "2026", [A, B], "new")
    assert taken(folder, "2026", [A, B], "new")[0] == {A.path: '"new /a"'}
    assert taken(folder, "2026", [A, B])[0] == {B.path: '"key /b"'}


def test_a_broken_file_is_as_none(folder):
    kept_file(folder, "2026").write_bytes(b"PAR1 and no more")
    assert taken(folder, "2026", [A, B]) == ({}, False)


def test_what_a_process_has_kept_that_started_later_stays(folder):
    """As after a kill that missed a batch job."""
    with ReadLogs(folder) as older, ReadLogs(folder) as newer:
        for reading in (newer, older):
            reading.add(A.path, read(A, "newer" if reading is newer else "older"))
            keep(reading, folder, "2026", [A], "key")
        assert taken(folder, "2026", [A]) == ({A.path: '"newer /a"'}, True)
        newer.add(B.path, read(B, "newer"))
        keep(newer, folder, "2026", [A, B], "key")  # its own, which it has added to
    assert taken(folder, "2026", [A, B])[1]
    assert [path.name for path in folder.iterdir()] == ["2026.parquet"]
