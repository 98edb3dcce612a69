import errno
import json
import os
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from darshan_containers import build_log
from job_logs import write_job_log
from tierscope.logs import reading, worker
from tierscope.logs.chunks.chunk import read_chunk
from tierscope.logs.chunks.folders import to_be_tried_again
from tierscope.logs.chunks.listing import ListedLog
from tierscope.logs.reading import (
    ReadingError,
    ReadLog,
    Refusal,
    read_logs,
    workers_for,
)
from tierscope.logs.settings import settings_of
from tierscope.logs.summary import Summary
from tierscope.logs.tiers import tiers_of
from tierscope.trace.darshan.inflation import USUAL
from tierscope.trace.posix_records import POSIX_RECORD

READ = {"opens": 1, "reads": 2, "bytes_read": 100, "read_s": 3.0, "meta_s": 1.0}
TIERS = tiers_of({"gfs": "/gfs"})
CRASHING = """
import sys
sys.path.insert(0, {parent!r})
from tierscope.logs import worker
read = worker.read_any_log
def read_any_log(path, inflation):
    import os, signal
    if "crash" in path:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "fail" in path:
        raise RuntimeError("a defect of ours")
    if "half" in path:
        os.write(1, b'{{"log": "')
        os._exit(3)
    if "stop" in path:
        os.kill(os.getpid(), signal.SIGSTOP)
    if "slow" in path:
        import time
        end_s = time.process_time() + 2
        while time.process_time() < end_s:
            pass
    if "noise" in path:
        os.write(1, b"a library's words\\xff\\n")
    if "bytes" in path:
        os.write(2, b"\\xff\\n")
        os._exit(3)
    return read(path, inflation)
worker.read_any_log = read_any_log
worker.main()
"""


def logs_in(folder, *names):
    """Write a log of each name, each with another path in it."""
    return [
        str(write_job_log(folder / name, [("POSIX", 0, f"/gfs/{name}", READ)]))
        for name in names
    ]


def listed(paths):
    """Return logs as they are listed; their sizes mean nothing here."""
    return [ListedLog(path, 1, 0) for path in paths]


def read(paths, **options):
    """Return what was read of each log, and why others are refused, by path."""
    found = {}
    read_logs(listed(paths), TIERS, None, keep=found.__setitem__, **options)
    refused = {
        path: one.reason for path, one in found.items() if isinstance(one, Refusal)
    }
    return {path: found[path] for path in paths if path not in refused}, refused


def test_each_log_is_read_or_refused_with_a_reason(tmp_path):
    paths = logs_in(tmp_path, "a.darshan", "b.darshan")
    for name, content in (("empty", b""), ("foreign", b"a log of another kind" * 9)):
        (tmp_path / name).write_bytes(content)
        paths.append(str(tmp_path / name))
    paths.append(str(tmp_path / "missing"))
    found, refused = read(paths)
    assert list(found) == paths[:2]
    assert isinstance(found[paths[0]], ReadLog)
    assert refused == {
        paths[2]: "is empty, expected a Darshan log.",
        paths[3]: "is not a Darshan log.",
        paths[4]: "cannot be read: No such file or directory.",
    }


def test_a_worker_that_dies_costs_one_log(tmp_path, monkeypatch):
    names = ("a", "crash", "fail", "b", "half", "noise", "bytes", "c")
    paths = logs_in(tmp_path, *names)
    script = tmp_path / "worker.py"
    script.write_text(CRASHING.format(parent=str(reading._PACKAGE_PARENT)))
    start_instead(monkeypatch, sys.executable, str(script))
    found, refused = read(paths, n_workers=2)
    assert list(found) == [paths[0], paths[3], paths[7]]
    assert refused == {
        paths[1]: "its reader was ended by signal 11.",
        paths[2]: "its reader failed: RuntimeError: a defect of ours",
        paths[4]: "its reader failed: exit 3",
        paths[5]: "its reader was ended by signal 9.",
        paths[6]: "its reader failed: \ufffd",
    }


def test_names_of_thousands_of_bytes_are_read(tmp_path):
    records = np.zeros(20, POSIX_RECORD)
    records["id"] = np.arange(20)
    records["POSIX_READS"] = records["POSIX_F_READ_TIME"] = 1
    path = b"/gfs/" + b"folder/" * 700
    names = [(number, path + b"%d" % number) for number in range(20)]
    log = build_log(tmp_path / "a", {"POSIX": (4, records)}, names, n_processes=1)
    found, _ = read([str(log)])
    summary = Summary.from_json(json.loads(found[str(log)].summary))
    assert summary.times["least_s"] == [20.0]
    assert {cell[1] for cell in summary.cells} == {"gfs"}


def start_instead(monkeypatch, *command):
    """Let another command be each worker."""
    real = reading.subprocess.Popen
    monkeypatch.setattr(
        reading.subprocess, "Popen", lambda _, **options: real(command, **options)
    )


def test_no_log_is_blamed_if_no_worker_starts(tmp_path, monkeypatch):
    paths = logs_in(tmp_path, "a", "b", "c")
    start_instead(monkeypatch, sys.executable, "-c", "import no_such_module")
    with pytest.raises(ReadingError, match=r"cannot read logs: .*no_such_module"):
        read(paths)


def test_a_log_whose_file_system_does_not_answer_is_refused(tmp_path, monkeypatch):
    """A stopped worker neither computes nor reads, as one that waits for a server."""
    paths = logs_in(tmp_path, "a", "stop", "b", "slow", "c")
    script = tmp_path / "worker.py"
    script.write_text(CRASHING.format(parent=str(reading._PACKAGE_PARENT)))
    start_instead(monkeypatch, sys.executable, str(script))
    found, refused = read(paths, n_workers=1, timeout_s=1.0)
    assert list(found) == [paths[0], *paths[2:]]
    assert refused == {
        paths[1]: "its file system does not answer: its reader has waited for 1.00 s "
        "(log_timeout_s)."
    }


def test_a_log_that_was_not_read_in_time_is_read_at_the_next_start(
    tmp_path, monkeypatch
):
    paths = logs_in(tmp_path / "logs", "a", "stop")
    settings = settings_of("x", paths, {"gfs": "/gfs"}, log_timeout_s=1.0)
    chunks = tmp_path / "chunks"
    places = {"kept": tmp_path / "kept", "output": chunks / "2026"}
    script = tmp_path / "worker.py"
    script.write_text(CRASHING.format(parent=str(reading._PACKAGE_PARENT)))
    with monkeypatch.context() as other:
        start_instead(other, sys.executable, str(script))
        read_chunk(listed(paths), settings, chunk="2026", n_workers=1, **places)
    assert to_be_tried_again(chunks) == {paths[1]}
    read_chunk(listed(paths), settings, chunk="2026", n_workers=1, **places)
    assert not to_be_tried_again(chunks)
    table = pq.read_table(chunks / "2026" / "read_logs.parquet")
    assert table["log"].to_pylist() == list(map(os.fsencode, paths))


def test_a_log_that_inflates_too_far_is_read_once_its_key_allows_it(tmp_path):
    records = np.zeros(12_000, POSIX_RECORD)  # 8 MiB of which little is left
    records["POSIX_READS"] = 1
    log = build_log(tmp_path / "a.darshan", {"POSIX": (4, records)}, [(0, b"/gfs/a")])
    chunks = tmp_path / "chunks"
    places = {"kept": tmp_path / "kept", "output": chunks / "2026"}

    def refused(**inflation):
        settings = settings_of("x", [str(log)], inflation=inflation)
        read_chunk(listed([str(log)]), settings, chunk="2026", n_workers=1, **places)
        return pq.read_table(chunks / "2026" / "unread_logs.parquet").to_pylist()

    (row,) = refused(records=9)
    assert "raise inflation.records (now 9)." in row["reason"]
    assert not to_be_tried_again(chunks)
    assert refused(records=5000) == []


def test_a_folder_that_cannot_be_looked_into_is_refused(tmp_path, monkeypatch):
    def listdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(worker.os, "listdir", listdir)
    (line,) = worker.answer(str(tmp_path), {"tiers": TIERS, "epochs": None})
    assert json.loads(line) == {
        "log": str(tmp_path),
        "reason": "cannot be read: Permission denied.",
        "may_pass": True,
    }


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PermissionError(), True),
        (MemoryError(), True),
        (FileNotFoundError(), False),
        (ValueError(), False),
        (None, False),
    ],
)
def test_what_has_nothing_to_do_with_a_log_may_pass(error, expected):
    assert worker.may_pass(error) is expected


def test_progress_counts_every_log(tmp_path):
    said = []
    paths = logs_in(tmp_path, "a", "b", "c")
    read(paths, progress=lambda *now: said.append(now))
    assert said == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("free_mib", "expected"), [(40_000, 8), (9_000, 2), (8_000, 1), (10, 1)]
)
def test_few_workers_where_memory_is_short(free_mib, expected):
    """A log of 100 MiB needs 4,000 MiB besides the 200 MiB of Python."""
    log = ListedLog("log", 100 << 20, 0)
    assert workers_for([log], free_mib << 20, 8) == expected


def test_a_digest_is_of_the_content(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text("same")
    assert worker.content_digest(tmp_path / "a") == worker.content_digest(
        tmp_path / "b"
    )


def test_what_is_no_log_is_not_read_to_its_end(tmp_path):
    """Others can put a huge file, without blocks, into a shared folder of logs."""
    path = tmp_path / "huge.darshan"
    path.touch()
    os.truncate(path, 1 << 40)
    settings = {"tiers": "auto", "epochs": None, "inflation": vars(USUAL)}
    (answer,) = worker.answer(str(path), settings)
    assert json.loads(answer)["reason"] == "is not a Darshan log."
