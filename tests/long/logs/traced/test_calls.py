"""What `tierscope trace` counts of each call, in the spools of a real process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tierscope.logs.traced.processes import read_processes, split_streams
from tierscope.trace.spool import join_spools, open_spool


class Counted:
    """What the spools of a traced folder hold, by path relative to it."""

    def __init__(self, spools, data):
        processes = read_processes(spools)
        opened = [open_spool(path) for one in processes for path in one.spools]
        self.processes = processes
        self.mapped_bytes = sum(spool.mapped_bytes for spool in opened)
        modules, paths = split_streams(*join_spools(opened))
        self.ids = {os.path.relpath(os.fsdecode(p), data): i for i, p in paths.items()}
        self.records = {
            (name, int(record["id"])): record
            for name, records in modules.items()
            for record in records
        }

    def record(self, module, path):
        """Return the record of a path, or of what begins with it and a point."""
        names = [n for n in self.ids if n == path or n.startswith(f"{path}.")]
        assert len(names) == 1, f"{path}: {sorted(self.ids)}"
        return self.records.get((module, self.ids[names[0]]))

    def counts(self, module, path, *counters):
        """Return counters of a path."""
        record = self.record(module, path)
        return [int(record[f"{module}_{name}"]) for name in counters]


@pytest.fixture
def trace(trace_library, tmp_path):
    """Return a function that traces a command; paths are below ``data``."""
    data, spools = tmp_path / "data", tmp_path / "spools"
    data.mkdir()
    spools.mkdir()

    def run(*command, prefix=data, data=data):
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ
            | {
                "LD_PRELOAD": str(trace_library),
                "TIERSCOPE_TRACE_SPOOL": str(spools),
                "TIERSCOPE_TRACE_RANK": "0",
                "TIERSCOPE_TRACE_PREFIXES": f"{prefix}/",
                "TIERSCOPE_TRACE_PROCESSES": "1",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return Counted(spools, data)

    return run


def compiled(folder, name):
    """Return a compiled program of this folder."""
    source = Path(__file__).with_name(f"{name}.c")
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
    subprocess.run(
        [shutil.which("cc"), *flags, "-o", folder / name, source], check=True
    )
    return folder / name


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Return the program that makes all calls."""
    return compiled(tmp_path_factory.mktemp("calls"), "calls")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Return the program that must not be disturbed."""
    return compiled(tmp_path_factory.mktemp("hostile"), "hostile")


WRITTEN = ("OPENS", "WRITES", "BYTES_WRITTEN")
TEMPORARIES = [
    f"{name}{suffix}"
    for name in ("mkstemp", "mkostemp", "mkstemps", "mkostemps")
    for suffix in ("", "64")
]
LOOK_UPS = ("statx", "access", "faccessat", "euidaccess", "readlink", "readlinkat")


def test_each_call_is_counted(trace, program, tmp_path):
    found = trace(program, "data")
    for name in TEMPORARIES:
        assert found.counts("POSIX", name, *WRITTEN) == [1, 1, 3], name
    for name in LOOK_UPS:
        assert found.counts("POSIX", name, "STATS") == [1], name
        assert found.record("POSIX", name)["POSIX_F_META_TIME"] > 0
    assert "missing" not in found.ids
    for name in ("rename", "renameat", "renameat2"):
        assert found.counts("POSIX", name, "RENAME_SOURCES") == [1], name
        target = found.record("POSIX", f"{name}-to")
        assert target["POSIX_RENAME_TARGETS"] == 1
        assert np.int64(target["POSIX_RENAMED_FROM"]).view("u8") == found.ids[name]
    for name in ("opendir", "scandir"):  # listing is META
        assert found.counts("POSIX", name, "OPENS", "READS") == [1, 0]
        assert found.record("POSIX", name)["POSIX_F_META_TIME"] > 0
    assert found.counts("POSIX", "dprintf", *WRITTEN) == [1, 1, 3]
    if "openat2" in found.ids:
        assert found.counts("POSIX", "openat2", "OPENS", "MODE") == [1, 0o640]


def test_copies_by_the_kernel_count_bytes_of_both_files_and_time_once(trace, program):
    found = trace(program, "data")
    sizes = {"sendfile": 4000, "copy_file_range": 5000, "splice": 5000}
    for name, size in sizes.items():
        assert found.counts("POSIX", name, "READS", "BYTES_READ") == [1, size], name
        if name == "splice":
            continue
        target = found.record("POSIX", f"{name}-to")
        assert target["POSIX_BYTES_WRITTEN"] == size
        source = found.record("POSIX", name)
        assert 0 < target["POSIX_F_WRITE_TIME"] < source["POSIX_F_READ_TIME"]
    assert found.counts("POSIX", "sendfile", "MAX_BYTE_READ") == [4999]


def test_mappings_are_counted_and_never_as_reads(trace, program):
    found = trace(program, "data")
    assert found.counts("POSIX", "mmap", "MMAPS", "READS", "BYTES_READ") == [2, 0, 0]
    assert found.mapped_bytes == 5000 - 4096 + 100
    assert found.counts("POSIX", "aio", "MMAPS") == [0]
    assert found.record("POSIX", "posix_fadvise")["POSIX_F_META_TIME"] > 0


def test_asynchronous_calls_are_counted_when_their_result_is_fetched(trace, program):
    found = trace(program, "data")
    counters = ("READS", "BYTES_READ", "MAX_BYTE_READ", "WRITES", "BYTES_WRITTEN")
    assert found.counts("POSIX", "aio", *counters) == [1, 3000, 3999, 1, 2000]
    assert found.counts("POSIX", "lio_listio", *counters) == [1, 1000, 999, 0, 0]


def test_streams_count_what_is_no_call(trace, program, tmp_path):
    """Programs often move a pointer of the stream instead of calling getc or putc."""
    found = trace(program, "data")
    assert found.counts("STDIO", "words", "BYTES_WRITTEN", "BYTES_READ") == [10, 6]
    letters = found.counts("STDIO", "letters", "BYTES_WRITTEN", "BYTES_READ")
    assert letters == [10001, 9099]
    assert found.counts("STDIO", "twice", "OPENS", "BYTES_WRITTEN") == [2, 20]
    assert found.counts("STDIO", "zeros", "BYTES_READ") == [1500]
    printed = tmp_path / "data" / "stdout"
    assert printed.read_text() == "abcdef1234\nzy"
    assert found.counts("STDIO", "stdout", "BYTES_WRITTEN") == [13]


# Descriptors that a program has when it starts


@pytest.mark.parametrize("is_link", [False, True])
def test_bytes_are_of_the_process_that_has_moved_them(trace, tmp_path, is_link):
    """A shell opens the files. Their names stand resolved in /proc."""
    data = tmp_path / "data"
    (data / "in").write_text("banana")
    if is_link:
        (tmp_path / "link").symlink_to("data")
        data = tmp_path / "link"
    found = trace(
        "sh", "-c", f"tr a b < {data}/in > {data}/out", prefix=data, data=data
    )
    assert (data / "out").read_text() == "bbnbnb"
    assert found.counts("POSIX", "in", "BYTES_READ") == [6]
    assert found.counts("STDIO", "out", "BYTES_WRITTEN") == [6]
    (tr,) = (one for one in found.processes if one.exe.startswith("tr "))
    (spool,) = tr.spools
    assert sum(open_spool(spool).records["POSIX_BYTES_READ"]) == 6


def test_stream_that_gets_another_descriptor_counts_for_its_file(trace, tmp_path):
    (tmp_path / "data" / "in").write_text("b\na\n")
    found = trace("sort", "-o", "data/out", "data/in")
    assert (tmp_path / "data" / "out").read_text() == "a\nb\n"
    assert found.counts("STDIO", "out", "BYTES_WRITTEN") == [4]


def test_child_of_vfork_does_not_change_what_its_parent_s_descriptors_are(trace):
    code = """
import os, subprocess
out = os.open("data/out", os.O_WRONLY | os.O_CREAT)
subprocess.run(["true"], stdout=out, close_fds=False)
print("this is not of the file", flush=True)
"""
    found = trace(sys.executable, "-S", "-c", code)
    assert found.counts("POSIX", "out", "BYTES_WRITTEN") == [0]


# Paths


def test_calls_on_the_folder_itself_are_traced(trace):
    code = """
import os, tempfile
with tempfile.TemporaryFile(dir="data", buffering=0) as file:
    for _ in range(50):
        file.write(bytes(1000))
os.listdir("data")
"""
    found = trace(sys.executable, "-S", "-c", code)
    assert found.counts("POSIX", ".", "WRITES", "BYTES_WRITTEN") == [50, 50_000]


def test_path_that_only_begins_like_a_traced_one_is_not_traced(trace, tmp_path):
    (tmp_path / "data2").write_text("x")
    found = trace("cat", "data2", tmp_path / "data2", "/dev/null")
    assert found.ids == {}


def test_device_is_traced(trace):
    found = trace(
        "dd",
        "if=/dev/zero",
        "of=/dev/null",
        "bs=1M",
        "count=10",
        "status=none",
        prefix="/dev/zero",
        data="/dev/zero",
    )
    assert found.counts("POSIX", ".", "READS", "BYTES_READ") == [10, 10 << 20]


# What a program must not notice


def test_fork_of_which_no_handler_knows_has_a_spool_of_its_own(
    trace, hostile, tmp_path
):
    for name in "abc":
        (tmp_path / "data" / name).write_text("abc")
    found = trace(hostile, "fork")
    for name in "abc":
        assert found.counts("POSIX", name, "OPENS", "BYTES_READ") == [1, 3]
    assert [len(one.spools) for one in found.processes] == [1, 1]


@pytest.mark.parametrize("what", ["cancelled print", "cancelled look-up", "no path"])
def test_program_ends_as_without_tracer(trace, hostile, tmp_path, what):
    (tmp_path / "data" / "a").write_text("abc")
    trace(hostile, what)
