"""What was read of logs is kept, and taken as long as it holds."""

from pathlib import Path

import pytest
from stops import stopped
from tierscope.logs.chunks import store
from tierscope.logs.chunks.listing import ListedLog
from tierscope.logs.chunks.store import ReadLogs, kept_file
from tierscope.logs.reading import ReadingKey, ReadLog, Refusal

KEY = ReadingKey("settings", "code")
OTHER, NEW_CODE = ReadingKey("new", "code"), ReadingKey("settings", "new")
NEWER = ReadingKey("newer", "code")
GONE = Refusal("cannot be read: No such file or directory.")
A, B = ListedLog("/a", 10, 1), ListedLog("/b\udce9", 20, 2)


def read(log, key=KEY):
    """Return what was read of a log."""
    text = f'"{key.settings} {log.path[:2]}"'
    return ReadLog(f"digest of {log.path[:2]}", {"uid": 1}, text)


@pytest.fixture(autouse=True)
def gone(monkeypatch):
    """Return the paths of logs that are gone; a test may add some."""
    paths = set()
    monkeypatch.setattr(store, "is_gone", paths.__contains__)
    return paths


@pytest.fixture
def folder(tmp_path):
    """Return a folder in which two logs of chunk 2026 are kept."""
    kept(tmp_path, "2026", {A: read(A), B: read(B)})
    return tmp_path


def kept(folder: Path, chunk, answers, key=KEY):
    """Keep what was read of the logs of a chunk."""
    with ReadLogs(folder, chunk, list(answers), key) as reading:
        for log, answer in answers.items():
            reading.add(log.path, answer)
        reading.keep()


def taken(folder: Path, chunk, logs, key=KEY):
    """Return the summaries that are taken by path, and whether these are all."""
    with ReadLogs(folder, chunk, logs, key) as reading:
        is_same = reading.take_kept()
        texts = {
            log.path: reading.text(log.path) for log in logs if log.path in reading
        }
        assert set(reading.facts) == set(texts)
        return texts, is_same


def test_what_was_kept_is_taken_if_nothing_has_changed(folder):
    texts, is_same = taken(folder, "2026", [A, B])
    assert texts == {A.path: '"settings /a"', B.path: '"settings /b"'}
    assert is_same


def test_what_was_kept_stays_wherever_it_is_kept_anew(folder):
    texts = taken(folder, "2026", [A, B])
    for how, _ in stopped(folder, lambda: kept(folder, "2026", {A: GONE, B: read(B)})):
        assert taken(folder, "2026", [A, B]) == texts, how


def test_changed_logs_and_those_of_other_settings_are_not_taken(folder):
    changed = ListedLog(A.path, 10, 5)
    assert taken(folder, "2026", [changed, B]) == ({B.path: '"settings /b"'}, False)
    assert taken(folder, "2026", [A, B], OTHER) == ({}, False)
    assert taken(folder, "2026", [A, B], NEW_CODE) == ({}, False)
    assert taken(folder, "2026", [A]) == ({A.path: '"settings /a"'}, False)


def test_what_was_read_of_a_log_that_cannot_be_read_any_more_is_kept(folder):
    kept(folder, "2026", {A: read(A, OTHER), B: GONE}, OTHER)
    assert taken(folder, "2026", [A, B], OTHER)[0] == {A.path: '"new /a"'}
    assert taken(folder, "2026", [A, B])[0] == {B.path: '"settings /b"'}


def test_of_a_log_that_is_gone_counts_what_earlier_code_has_read(folder, gone):
    gone.add(B.path)
    assert taken(folder, "2026", [A, B], NEW_CODE) == ({B.path: '"settings /b"'}, False)
    assert taken(folder, "2026", [A, B], OTHER) == ({}, False)
    gone.add(A.path)
    both = {A.path: '"settings /a"', B.path: '"settings /b"'}
    assert taken(folder, "2026", [A, B], NEW_CODE) == (both, True)


def test_what_is_kept_again_is_known_to_be_of_earlier_code(folder, gone):
    gone.add(A.path)
    with ReadLogs(folder, "2026", [A], NEW_CODE) as reading:
        reading.take_kept()
        reading.keep()
    gone.clear()
    assert taken(folder, "2026", [A], NEW_CODE) == ({}, False)
    assert taken(folder, "2026", [A]) == ({A.path: '"settings /a"'}, True)


def test_a_broken_file_is_as_none(folder):
    kept_file(folder, "2026").write_bytes(b"PAR1 and no more")
    assert taken(folder, "2026", [A, B]) == ({}, False)


def test_what_a_process_has_kept_that_started_later_stays(folder):
    """As after a kill that missed a batch job."""
    given = (folder, "2026", [A], NEWER)
    with ReadLogs(*given) as older, ReadLogs(*given) as newer:
        for reading in (newer, older):
            reading.add(A.path, read(A, NEWER if reading is newer else KEY))
            reading.keep()
        assert taken(folder, "2026", [A], NEWER) == ({A.path: '"newer /a"'}, True)
        newer.add(B.path, read(B, NEWER))
        newer.logs = [A, B]
        newer.keep()  # its own, which it has added to
    assert taken(folder, "2026", [A, B], NEWER)[1]
    assert [path.name for path in folder.iterdir()] == ["2026.parquet"]


def test_no_byte_that_a_disk_has_changed_is_taken_for_what_was_read(folder):
    path = kept_file(folder, "2026")
    whole = path.read_bytes()
    for at in range(4, len(whole) // 2, 5):  # the second half describes the first one
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        for log, text in taken(folder, "2026", [A, B])[0].items():
            assert text == f'"settings {log[:2]}"', at
