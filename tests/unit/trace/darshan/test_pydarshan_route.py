"""Records of versions that we do not know, by PyDarshan in a child process."""

import subprocess
import sys

import numpy as np
import pytest
from darshan_containers import build_log
from tierscope.trace.darshan import pydarshan_route
from tierscope.trace.darshan.container import LogError, open_container
from tierscope.trace.darshan.module_records import RECORD_TYPES
from tierscope.trace.darshan.pydarshan_route import copy_records, read_records
from tierscope.trace.log import read_any_log

NAMES = [(1, b"/scratch/a")]


def module(interface, version=None, **columns):
    """Return two records of an interface."""
    version = version or max(RECORD_TYPES[interface])
    records = np.zeros(2, RECORD_TYPES[interface][version])
    records["id"], records["rank"] = [1, 2], [0, -1]
    for name, values in columns.items():
        records[name] = values
    return {interface: (version, records)}


@pytest.fixture
def log(tmp_path):
    """Return the path of a log."""
    return tmp_path / "job.darshan"


@pytest.mark.parametrize("path", [b"/scratch/a", b"/scratch/" + 9000 * b"x"])
def test_records_of_unknown_version_are_read_by_pydarshan(log, monkeypatch, path):
    """PyDarshan knows version 4 of POSIX; here, we do not."""
    columns = {
        **{"POSIX_OPENS": [3, -1], "POSIX_SIZE_READ_1K_10K": 7},
        **{"POSIX_F_META_TIME": [0.5, 0.25], "POSIX_SLOWEST_RANK": 1},
    }
    modules = module("POSIX", **columns) | module("STDIO", STDIO_OPENS=5)
    build_log(log, modules, [(1, path)])
    expected = read_any_log(log)
    newer = RECORD_TYPES["POSIX"] | {5: RECORD_TYPES["POSIX"][4]}
    del newer[4]
    monkeypatch.setitem(RECORD_TYPES, "POSIX", newer)
    found = read_any_log(log)
    assert (expected.reader, found.reader) == ("tierscope", "PyDarshan")
    assert found.records.keys() == expected.records.keys()
    posix = found.records["POSIX"]
    assert posix.ids.tolist() == [1, 2]
    assert posix.read_sizes[:, 2].tolist() == [7, 7]
    for column, values in expected.records["POSIX"].columns.items():
        assert posix.columns[column].tolist() == values.tolist()


@pytest.mark.parametrize("interface", RECORD_TYPES)
def test_records_are_copied_as_they_are(log, interface):
    version = max(RECORD_TYPES[interface])
    layout = RECORD_TYPES[interface][version]
    timers = {name: 0.125 * i for i, name in enumerate(layout.names) if i > 1}
    modules = module(interface, **timers)
    build_log(log, modules, NAMES)
    assert copy_records(str(log), interface).tolist() == modules[interface][1].tolist()


def test_damaged_records_are_refused_before_pydarshan_reads_them(log):
    build_log(log, module("STDIO"), NAMES)
    content = bytearray(log.read_bytes())
    content[-1] ^= 1  # of the checksum
    log.write_bytes(content)
    with pytest.raises(LogError, match="corrupt in its STDIO records"):
        read_records(open_container(log), "STDIO")


def test_records_that_pydarshan_does_not_know_are_refused(log):
    build_log(log, {"STDIO": (9, np.zeros(4, "<i8"))}, NAMES)
    reason = r"has STDIO records of version 9, .*; PyDarshan reads 0 of them from 32 b"
    with pytest.raises(LogError, match=reason):
        read_records(open_container(log), "STDIO")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os.abort()", "PyDarshan cannot read it: exit -6"),
        ("raise RuntimeError('of the library')", "RuntimeError: of the library"),
        ("import time; time.sleep(60)", "PyDarshan took more than 0.5 s"),
    ],
)
def test_child_that_crashes_or_hangs_is_an_error_of_one_line(
    log, monkeypatch, code, reason
):
    run = subprocess.run

    def run_code(_command, **options):
        return run([sys.executable, "-c", code], **options)

    build_log(log, module("STDIO"), NAMES)
    monkeypatch.setattr(pydarshan_route, "_CHILD_TIMEOUT_S", 0.5)
    if "sleep" not in code:
        monkeypatch.setattr(pydarshan_route, "_CHILD_TIMEOUT_S", 60)
    monkeypatch.setattr(subprocess, "run", run_code)
    with pytest.raises(LogError, match=reason) as caught:
        read_records(open_container(log), "STDIO")
    assert "\n" not in str(caught.value)
