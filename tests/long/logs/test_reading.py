import errno
import json
import sys

import numpy as np
import pytest
from darshan_containers import build_log
from job_logs import write_job_log
from tierscope.logs import reading, worker
from tierscope.logs.reading import ReadingError, read_logs, workers_for
from tierscope.logs.tiers import tiers_of
from tierscope.trace.log import LogError
from tierscope.trace.posix_records import POSIX_RECORD

READ = {"opens": 1, "reads": 2, "bytes_read": 100, "read_s": 3.0, "meta_s": 1.0}
TIERS = tiers_of({"gfs": "/gfs"})
CRASHING = """
import sys
sys.path.insert(0, {parent!r})
from tierscope.logs import worker
read = worker.read_any_log
def read_any_log(path):
    import os, signal
    if "crash" in path:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "fail" in path:
        raise RuntimeError("a defect of ours")
    if "half" in path:
        os.write(1, b'{{"log": "')
        os._exit(3)
    if "noise" in path:
        os.write(1, b"a library's words\\xff\\n")
    if "bytes" in path:
        os.write(2, b"\\xff\\n")
        os._exit(3)
    return read(path)
worker.read_any_log = read_any_log
worker.main()
"""


def logs_in(folder, *names):
    """Write a log of each name, each with another path in it."""
    return [
        str(write_job_log(folder / name, [("POSIX", 0, f"/gfs/{name}", READ)]))
        for name in names
    ]


def test_each_log_is_read_or_refused_with_a_reason(tmp_path):
    paths = logs_in(tmp_path, "a.darshan", "b.darshan")
    for name, content in (("empty", b""), ("foreign", b"a log of another kind" * 9)):
        (tmp_path / name).write_bytes(content)
        paths.append(str(tmp_path / name))
    paths.append(str(tmp_path / "missing"))
    found = read_logs(paths, TIERS, None, tmp_path / "kept")
    assert list(found.summaries) == paths[:2]
    assert found.refusals == {
        paths[2]: "is empty, expected a Darshan log.",
        paths[3]: "is not a Darshan log.",
        paths[4]: "cannot be read: No such file or directory.",
    }


def test_a_copy_of_a_log_is_refused(tmp_path):
    (path,) = logs_in(tmp_path, "a.darshan")
    copy = tmp_path / "z.darshan"
    copy.write_bytes((tmp_path / "a.darshan").read_bytes())
    found = read_logs([path, str(copy)], TIERS, None, tmp_path / "kept")
    assert list(found.summaries) == [path]
    assert found.refusals == {str(copy): f"has the same content as {path}."}


def test_a_log_is_not_read_again_unless_the_settings_change(tmp_path):
    paths, kept = logs_in(tmp_path, "a.darshan"), tmp_path / "kept"
    read_logs(paths, TIERS, None, kept)
    (file,) = kept.rglob("*.json")
    changed = json.loads(file.read_text())
    changed["facts"]["exe"] = "not read again"
    file.write_text(json.dumps(changed))
    again = read_logs(paths, TIERS, None, kept)
    assert again.summaries[paths[0]].facts["exe"] == "not read again"
    other = read_logs(paths, tiers_of({"x": "/gfs"}), None, kept)
    assert other.summaries[paths[0]].facts["exe"] != "not read again"
    assert len(list(kept.rglob("*.json"))) == 2


def test_a_worker_that_dies_costs_one_log(tmp_path, monkeypatch):
    names = ("a", "crash", "fail", "b", "half", "noise", "bytes", "c")
    paths = logs_in(tmp_path, *names)
    script = tmp_path / "worker.py"
    script.write_text(CRASHING.format(parent=str(reading._PACKAGE_PARENT)))
    start_instead(monkeypatch, sys.executable, str(script))
    found = read_logs(paths, TIERS, None, tmp_path / "kept", n_workers=2)
    assert list(found.summaries) == [paths[0], paths[3], paths[7]]
    assert found.refusals == {
        paths[1]: "its reader was ended by signal 11.",
        paths[2]: "its reader failed: RuntimeError: a defect of ours",
        paths[4]: "its reader failed: exit 3",
        paths[5]: "its reader was ended by signal 9.",
        paths[6]: "its reader failed: \ufffd",
    }


def test_names_of_thousands_of_bytes_are_read(tmp_path):
    """libdarshan-util has room for 4,096."""
    records = np.zeros(20, POSIX_RECORD)
    records["id"] = np.arange(20)
    records["POSIX_READS"] = records["POSIX_F_READ_TIME"] = 1
    path = b"/gfs/" + b"folder/" * 700
    names = [(number, path + b"%d" % number) for number in range(20)]
    log = build_log(tmp_path / "a", {"POSIX": (4, records)}, names, n_processes=1)
    found = read_logs([str(log)], TIERS, None, tmp_path / "kept")
    summary = found.summaries[str(log)]
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
        read_logs(paths, TIERS, None, tmp_path / "kept")


def test_no_log_is_blamed_if_nothing_can_be_kept(tmp_path):
    paths = logs_in(tmp_path, "a", "b", "c")
    (tmp_path / "kept").write_text("a file, where a folder is needed")
    with pytest.raises(ReadingError, match=r"cannot be written: Not a directory"):
        read_logs(paths, TIERS, None, tmp_path / "kept")


def test_a_broken_summary_is_made_again(tmp_path):
    paths, kept = logs_in(tmp_path, "a", "b"), tmp_path / "kept"
    first = read_logs(paths, TIERS, None, kept)
    for file, content in zip(kept.rglob("*.json"), ('{"facts": ', "{}"), strict=True):
        file.write_text(content)
    again = read_logs(paths, TIERS, None, kept)
    assert list(again.summaries) == paths
    assert again.summaries[paths[0]].times == first.summaries[paths[0]].times


def test_a_folder_that_cannot_be_looked_into_is_refused(tmp_path, monkeypatch):
    def listdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(worker.os, "listdir", listdir)
    with pytest.raises(LogError, match="cannot be read: Permission denied"):
        worker.content_digest(tmp_path)


def test_progress_counts_every_log(tmp_path):
    said = []
    paths = logs_in(tmp_path, "a", "b", "c")
    read_logs(paths, TIERS, None, tmp_path, progress=lambda *now: said.append(now))
    assert said == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("free_mib", "expected"), [(40_000, 8), (9_000, 2), (8_000, 1), (10, 1)]
)
def test_few_workers_where_memory_is_short(tmp_path, free_mib, expected):
    """A log of 100 MiB needs 4,000 MiB besides the 200 MiB of Python."""
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(100 << 20)
    assert workers_for([str(log)], free_mib << 20, 8) == expected


def test_a_digest_is_of_the_content(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text("same")
    assert worker.content_digest(tmp_path / "a") == worker.content_digest(
        tmp_path / "b"
    )
