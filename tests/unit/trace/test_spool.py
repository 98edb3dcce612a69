"""The preload tracer in real processes, and logs made of its spools."""

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tierscope.trace.file_records import read_file_records
from tierscope.trace.log import LogError
from tierscope.trace.log_writer import LoggedJob
from tierscope.trace.posix_records import POSIX_RECORD
from tierscope.trace.spool import merge_records, open_spool, write_log_from_spools

FILE_BYTES = 1000
N_FILES = 4
MANIFEST = pd.DataFrame(
    {"file_id": range(N_FILES), "path": [f"s_{i}.bin" for i in range(N_FILES)]}
)

PRELUDE = """
import ctypes, os, signal, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
data, spools = sys.argv[1:3]

def begin(folder=spools, rank=0, prefixes=data + ".ep"):
    arguments = os.fsencode(folder), rank, os.fsencode(prefixes)
    return libc.tierscope_trace_begin(*arguments)

def end():
    return libc.tierscope_trace_end()

def name(i, epoch=0):
    return f"{data}.ep{epoch}/s_{i}.bin"

def read_file(i, epoch=0):
    fd = os.open(name(i, epoch), os.O_RDONLY)
    while os.read(fd, 600):
        pass
    os.close(fd)
"""


@dataclass
class Traced:
    """A finished process and what it left."""

    spools: Path
    data: Path
    status: int
    stdout: str
    stderr: str

    @property
    def n_spools(self):
        """Return the number of processes that traced something."""
        return len(list(self.spools.glob("*.spool")))

    def counts(self, counter, folder=None):
        """Return a counter by path relative to the data's parent."""
        totals = {}
        for spool in sorted((folder or self.spools).glob("*.spool")):
            one = open_spool(spool, must_be_whole=True)
            records, paths = one.records, one.names
            values = records[f"POSIX_{counter}"].tolist()
            for path, value in zip(paths, values, strict=True):
                path = os.path.relpath(os.fsdecode(path), self.data.parent)
                totals[path] = totals.get(path, 0) + value
        return totals


@pytest.fixture
def run(trace_library, tmp_path):
    """Return a function that runs Python code with the tracer preloaded."""
    data = tmp_path / "gfs" / "data"
    data.mkdir(parents=True)
    for i in range(N_FILES):
        data.joinpath(f"s_{i}.bin").write_bytes(bytes(FILE_BYTES))
    for epoch in range(2):
        data.with_name(f"data.ep{epoch}").symlink_to("data")
    spools = tmp_path / "spools"
    spools.mkdir()

    def run_code(code, before=None):
        done = subprocess.run(
            [sys.executable, "-S", "-c", PRELUDE + textwrap.dedent(code), data, spools],
            env={"LD_PRELOAD": str(trace_library), "PATH": os.environ["PATH"]},
            preexec_fn=before,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Traced(spools, data, done.returncode, done.stdout, done.stderr)

    def run_sound_code(code):
        traced = run_code(code)
        assert (traced.status, traced.stderr) == (0, "")
        return traced

    run_sound_code.unchecked = run_code
    return run_sound_code


def write_log(traced, log, **changes):
    """Write a log of a traced process's spools."""
    arguments = {
        "n_processes": 1,
        "exe": "python",
        "mounts": {"/": "ext4"},
        "started_s": 0,
        "ended_s": 1,
    }
    job = LoggedJob(**arguments | changes)
    write_log_from_spools(traced.spools, log, job)
    return log


# What is counted


def test_reads_are_counted_as_darshan_does(run):
    traced = run("begin(); read_file(0); read_file(0); read_file(1, epoch=1); end()")
    assert traced.counts("OPENS") == {"data.ep0/s_0.bin": 2, "data.ep1/s_1.bin": 1}
    assert traced.counts("READS") == {"data.ep0/s_0.bin": 6, "data.ep1/s_1.bin": 3}
    (spool,) = traced.spools.glob("*.spool")
    record = open_spool(spool).records[1]
    expected = {
        "OPENS": 1,
        "DUPS": 0,
        "READS": 3,
        "WRITES": 0,
        "SEEKS": 0,
        "STATS": 0,
        "MMAPS": -1,
        "MODE": 0,
        "BYTES_READ": FILE_BYTES,
        "MAX_BYTE_READ": FILE_BYTES - 1,
        "CONSEC_READS": 2,
        "SEQ_READS": 2,
        "RW_SWITCHES": 0,
        "SIZE_READ_0_100": 1,
        "SIZE_READ_100_1K": 2,
        "ACCESS1_ACCESS": 600,
        "ACCESS1_COUNT": 1,
        "ACCESS2_ACCESS": 400,
        "ACCESS3_COUNT": 0,
    }
    assert {name: int(record[f"POSIX_{name}"]) for name in expected} == expected
    assert record["rank"] == 0
    stamps = [
        record[f"POSIX_F_{call}_{edge}_TIMESTAMP"]
        for call in ("OPEN", "READ", "CLOSE")
        for edge in ("START", "END")
    ]
    assert stamps[0] > 0
    assert stamps == sorted(stamps)
    assert stamps[-1] < 10
    read_s, meta_s = record["POSIX_F_READ_TIME"], record["POSIX_F_META_TIME"]
    assert 0 < record["POSIX_F_MAX_READ_TIME"] < read_s
    assert meta_s > 0
    assert read_s + meta_s <= stamps[-1] - stamps[0]


def test_every_way_to_read_is_counted(run):
    traced = run(
        """
        begin()
        fd = os.open(name(0), os.O_RDONLY)
        buffer = bytearray(100)
        raw = (ctypes.c_char * 100)()
        os.read(fd, 100)
        os.pread(fd, 100, 0)
        os.readv(fd, [buffer])
        os.preadv(fd, [buffer], 0)
        assert libc.__read_chk(fd, raw, 100, 100) == 100
        assert libc.__pread_chk(fd, raw, 100, 0, 100) == 100
        assert libc.__pread64_chk(fd, raw, 100, 0, 100) == 100
        assert libc.pread(fd, raw, 100, 0) == 100
        end()
        """
    )
    assert traced.counts("READS") == {"data.ep0/s_0.bin": 8}
    assert traced.counts("BYTES_READ") == {"data.ep0/s_0.bin": 800}


def test_every_way_to_open_is_counted(run):
    traced = run(
        """
        begin()
        folder = os.open(data + ".ep1", os.O_RDONLY)
        path = name(0).encode()
        for call in (libc.open, libc.open64, libc.__open_2, libc.__open64_2):
            assert call(path, os.O_RDONLY) > 0
        for call in (libc.openat, libc.openat64, libc.__openat_2, libc.__openat64_2):
            assert call(folder, b"s_1.bin", os.O_RDONLY) > 0
            assert call(folder, path, os.O_RDONLY) > 0
        for call in (libc.creat, libc.creat64):
            assert call(data.encode() + b".ep0/new", 0o644) > 0
        end()
        """
    )
    opens = traced.counts("OPENS")
    assert opens.pop("data.ep1") == 1
    assert opens == {"data.ep0/s_0.bin": 8, "data.ep1/s_1.bin": 4, "data.ep0/new": 2}
    assert oct(traced.data.joinpath("new").stat().st_mode)[-3:] == "644"


def test_seek_stat_and_flush_are_counted(run):
    traced = run(
        """
        begin()
        fd = os.open(name(0), os.O_RDWR)
        os.lseek(fd, 10, os.SEEK_SET)
        os.stat(name(0)); os.lstat(name(0)); os.fstat(fd)
        os.stat("s_0.bin", dir_fd=os.open(data + ".ep0", os.O_RDONLY))
        info = (ctypes.c_char * 1024)()
        path = name(0).encode()
        assert libc.__xstat64(1, path, info) == 0
        assert libc.__lxstat(1, path, info) == 0
        assert libc.__fxstat64(1, fd, info) == 0
        assert libc.__fxstatat(1, -100, path, info, 0) == 0
        os.fsync(fd); os.fdatasync(fd)
        end()
        """
    )
    for counter, value in {"SEEKS": 1, "STATS": 8, "FSYNCS": 1, "FDSYNCS": 1}.items():
        assert traced.counts(counter)["data.ep0/s_0.bin"] == value


def test_writes_are_counted_apart_from_reads(run):
    traced = run(
        """
        begin()
        fd = os.open(name(9), os.O_RDWR | os.O_CREAT, 0o600)
        os.write(fd, bytes(10)); os.pwrite(fd, bytes(20), 10)
        os.writev(fd, [bytes(5), bytes(5)]); os.pwritev(fd, [bytes(1)], 99)
        os.pread(fd, 100, 0)
        end()
        """
    )
    expected = {"WRITES": 4, "BYTES_WRITTEN": 41, "MAX_BYTE_WRITTEN": 99, "READS": 1}
    expected |= {"BYTES_READ": 100, "RW_SWITCHES": 1, "MODE": 0o600}
    for counter, value in expected.items():
        assert traced.counts(counter) == {"data.ep0/s_9.bin": value}


def test_failed_calls_are_not_counted_and_keep_their_error(run):
    traced = run(
        """
        begin()
        fd = os.open(name(0), os.O_RDONLY)
        for call in (
            lambda: os.open(name(99), os.O_RDONLY),
            lambda: os.stat(name(99)),
            lambda: os.read(fd, 2**62) and os.lseek(fd, -1, os.SEEK_SET),
            lambda: os.write(fd, b"x"),
        ):
            try:
                call()
            except (OSError, OverflowError, MemoryError) as error:
                print(type(error).__name__)
        end()
        """
    )
    assert traced.stdout.split()[:2] == ["FileNotFoundError"] * 2
    assert traced.counts("WRITES") == traced.counts("SEEKS") == {"data.ep0/s_0.bin": 0}


def test_only_paths_that_begin_with_a_prefix_are_traced(run):
    traced = run(
        """
        begin(prefixes=data + ".ep0/s_1" + chr(10) + data + ".ep1/")
        for i in range(3):
            for epoch in range(2):
                read_file(i, epoch)
        open(data + "/s_3.bin").close()
        end()
        """
    )
    assert set(traced.counts("OPENS")) == {
        "data.ep0/s_1.bin",
        *(f"data.ep1/s_{i}.bin" for i in range(3)),
    }


def test_process_that_touches_nothing_leaves_no_spool(run):
    traced = run("begin(); os.stat('/'); open('/etc/passwd').close(); end()")
    assert list(traced.spools.iterdir()) == []


def test_longest_prefix_decides_between_traced_and_excluded_paths(
    run, trace_library, tmp_path
):
    """As `tierscope trace` starts programs: by the environment, with exclusions."""
    traced = {"a": 1, "a/b": 0, "a/b/c": 1, "other": 0}
    for folder in traced:
        (tmp_path / "x" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / folder / "file").write_text("")
    spools = tmp_path / "spools"
    done = subprocess.run(
        ["cat", *(tmp_path / "x" / folder / "file" for folder in traced)],
        env={
            "LD_PRELOAD": str(trace_library),
            "TIERSCOPE_TRACE_SPOOL": str(spools),
            "TIERSCOPE_TRACE_RANK": "0",
            "TIERSCOPE_TRACE_PREFIXES": f"{tmp_path}/x/a/\n{tmp_path}/x/a/b/c/",
            "TIERSCOPE_TRACE_EXCLUDED": f"{tmp_path}/\n{tmp_path}/x/a/b/",
        },
        check=True,
    )
    found = Traced(spools, tmp_path / "x" / "data", done.returncode, "", "")
    assert found.counts("OPENS") == {"a/file": 1, "a/b/c/file": 1}


# Paths


def test_relative_paths_are_resolved(run):
    traced = run(
        """
        begin()
        os.chdir(os.path.dirname(data))
        os.mkdir("x")
        for detour in ("", ".//", "x/../"):
            os.close(os.open(detour + "data.ep0/s_0.bin", os.O_RDONLY))
        here = os.open(".", os.O_RDONLY)
        os.close(os.open("data.ep0/../data.ep0/s_0.bin", os.O_RDONLY, dir_fd=here))
        end()
        """
    )
    assert traced.counts("OPENS") == {"data.ep0/s_0.bin": 4}


def test_long_paths_are_kept_whole(run):
    traced = run(
        """
        folder = data
        os.chdir(data)
        for _ in range(40):  # beyond PATH_MAX as an absolute path
            os.mkdir("d" * 200); os.chdir("d" * 200); folder += "/" + "d" * 200
        open("s_1.bin", "w").close()
        begin(prefixes=data)
        os.close(os.open("s_1.bin", os.O_RDONLY))
        end()
        print(len(folder))
        """
    )
    (path,) = traced.counts("OPENS")
    assert path.endswith("d" * 200 + "/s_1.bin")
    assert path.count("d" * 200) == 40


# Descriptors


def test_reads_through_duplicates_belong_to_the_file(run):
    traced = run(
        """
        begin()
        fd = os.open(name(0), os.O_RDONLY)
        copies = [libc.dup(fd), os.dup(fd), libc.dup2(fd, 50), libc.dup3(fd, 51, 0)]
        os.close(fd)
        for copy in copies:
            os.pread(copy, 10, 0); os.close(copy)
        end()
        """
    )
    path = "data.ep0/s_0.bin"
    assert traced.counts("DUPS") == {path: 4}
    assert traced.counts("OPENS") == {path: 5}  # Darshan counts a dup as an open
    assert traced.counts("BYTES_READ") == {path: 40}


@pytest.mark.parametrize(
    "close",
    [
        "os.close(fd)",
        "os.closerange(fd, fd + 1)",
        "libc.closefrom(fd)",
        "libc.fclose(fdopen(fd, b'r'))",
        "os.dup2(other, fd)",
    ],
)
def test_descriptor_used_again_belongs_to_the_new_file(run, close):
    traced = run(
        f"""
        fdopen = libc.fdopen
        fdopen.restype = ctypes.c_void_p
        libc.fclose.argtypes = [ctypes.c_void_p]
        libc.closefrom.restype = None
        begin()
        other = os.open(data + "/s_1.bin", os.O_RDONLY)
        fd = os.open(name(0), os.O_RDONLY)
        os.read(fd, 10)
        {close}
        if {"dup2" not in close}:
            assert os.open(data + "/s_1.bin", os.O_RDONLY) == fd
        assert os.read(fd, 100)
        os.close(fd)
        end()
        """
    )
    assert traced.counts("BYTES_READ") == {"data.ep0/s_0.bin": 10}


def test_descriptors_may_have_any_number(run):
    traced = run(
        """
        import resource
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        begin()
        fd = os.open(name(0), os.O_RDONLY)
        os.dup2(fd, limit - 1)
        os.pread(limit - 1, 10, 0)
        os.close(limit - 1)
        end()
        """
    )
    assert traced.counts("BYTES_READ") == {"data.ep0/s_0.bin": 10}


# Threads and processes


def test_threads_lose_no_call(run):
    traced = run(
        """
        begin()
        shared = os.open(name(0), os.O_RDONLY)
        def work():
            for _ in range(200):
                os.pread(shared, 10, 0)
                read_file(1)
        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        end()
        """
    )
    assert traced.counts("READS") == {
        "data.ep0/s_0.bin": 1600,
        "data.ep0/s_1.bin": 4800,
    }
    assert traced.counts("OPENS") == {"data.ep0/s_0.bin": 1, "data.ep0/s_1.bin": 1600}


def test_overlap_of_threads_on_one_file_counts_once(run):
    traced = run(
        """
        os.mkfifo(data + "/pipe")
        begin()
        fd = os.open(data + ".ep0/pipe", os.O_RDWR)
        threads = [threading.Thread(target=os.read, args=(fd, 1)) for _ in range(4)]
        began_s = time.monotonic()
        [thread.start() for thread in threads]
        time.sleep(0.2)
        os.write(fd, b"1234")
        [thread.join() for thread in threads]
        print(time.monotonic() - began_s)
        end()
        """
    )
    assert traced.counts("READS") == {"data.ep0/pipe": 4}
    all_s = float(traced.stdout)  # four times as long would be too much for all reads
    assert 0 < traced.counts("F_READ_TIME")["data.ep0/pipe"] <= all_s


def test_forked_child_counts_for_itself(run):
    traced = run(
        """
        begin()
        read_file(0)
        inherited = os.open(name(1), os.O_RDONLY)
        if os.fork() == 0:
            read_file(0)
            os.read(inherited, 100)
            os._exit(0)
        os.wait()
        read_file(0)
        os.read(inherited, 100)
        end()
        """
    )
    assert traced.n_spools == 2
    assert traced.counts("OPENS") == {"data.ep0/s_0.bin": 3, "data.ep0/s_1.bin": 1}
    assert traced.counts("READS") == {"data.ep0/s_0.bin": 9, "data.ep0/s_1.bin": 2}


def test_fork_while_threads_read(run):
    traced = run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python, of such a fork
        begin()
        stop = threading.Event()
        def work():
            while not stop.is_set():
                read_file(1)
        threads = [threading.Thread(target=work) for _ in range(3)]
        [thread.start() for thread in threads]
        for _ in range(20):
            if os.fork() == 0:
                for _ in range(3):
                    read_file(0)
                os._exit(0)
        for _ in range(20):
            assert os.wait()[1] == 0
        stop.set()
        [thread.join() for thread in threads]
        end()
        """
    )
    assert traced.counts("OPENS")["data.ep0/s_0.bin"] == 60
    reads, opens = traced.counts("READS"), traced.counts("OPENS")
    assert reads["data.ep0/s_1.bin"] == 3 * opens["data.ep0/s_1.bin"]


def test_program_started_by_the_process_is_traced_too(run):
    traced = run(
        """
        begin(rank=3)
        held = os.open(name(1), os.O_RDONLY)
        subprocess.run([sys.executable, "-S", "-c",
            "import os, sys; os.read(os.open(sys.argv[1], os.O_RDONLY), 10)", name(0)])
        os.read(held, 10)  # still known, though the child closed its own copy
        end()
        subprocess.run([sys.executable, "-S", "-c", "open('%s').close()" % name(2)])
        """
    )
    assert traced.counts("BYTES_READ") == {
        "data.ep0/s_0.bin": 10,
        "data.ep0/s_1.bin": 10,
    }
    assert {
        open_spool(spool).records["rank"][0] for spool in traced.spools.iterdir()
    } == {3}


@pytest.mark.parametrize(
    "death", ["os._exit(0)", "os.kill(os.getpid(), 9)", "os.abort()"]
)
def test_no_call_is_lost_when_the_process_dies(run, death):
    traced = run.unchecked(f"begin(); read_file(0); read_file(1); {death}")
    assert traced.counts("READS") == {"data.ep0/s_0.bin": 3, "data.ep0/s_1.bin": 3}


def test_many_files(run):
    traced = run(
        """
        for i in range(5000):
            os.link(data + "/s_0.bin", f"{data}/s_1{i:05d}.bin")
        begin()
        for i in range(5000):
            read_file(f"1{i:05d}")
        end()
        """
    )
    counts = traced.counts("READS")
    assert len(counts) == 5000
    assert set(counts.values()) == {3}


# Begin and end


def test_each_run_has_its_own_spool(run):
    traced = run(
        """
        read_file(0)
        for run in ("a", "b"):
            os.mkdir(f"{spools}/{run}")
        begin(spools + "/a"); read_file(1); held = os.open(name(3), os.O_RDONLY); end()
        read_file(0); os.read(held, 10)
        begin(spools + "/b", rank=1); read_file(1); read_file(2); os.read(held, 10)
        begin(spools + "/b", rank=2); read_file(2); end()
        read_file(0)
        print([name for name in os.environb if name.startswith(b"TIERSCOPE")])
        """
    )
    first = {"data.ep0/s_1.bin": 1, "data.ep0/s_3.bin": 1}
    assert traced.counts("OPENS", traced.spools / "a") == first
    second = {"data.ep0/s_1.bin": 1, "data.ep0/s_2.bin": 2}
    assert traced.counts("OPENS", traced.spools / "b") == second
    assert traced.counts("READS", traced.spools / "a")["data.ep0/s_3.bin"] == 0
    assert len(list(traced.spools.joinpath("b").iterdir())) == 2


def test_end_and_begin_while_threads_read(run):
    traced = run(
        """
        stop = threading.Event()
        def work():
            while not stop.is_set():
                read_file(0); os.stat(name(1))
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        for _ in range(50):
            assert begin() == 0
            time.sleep(0.002)
            assert end() == 0
        stop.set()
        [thread.join() for thread in threads]
        """
    )
    assert traced.n_spools > 10


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("folder=spools + '/none'", "ENOENT"),
        ("folder='/etc/passwd'", "ENOTDIR"),
        ("rank=-1", "EINVAL"),
        ("prefixes=''", "EINVAL"),
    ],
)
def test_begin_reports_what_is_wrong(run, arguments, error):
    traced = run(
        f"import errno; assert begin({arguments}) == -errno.{error}; read_file(0)"
    )
    assert list(traced.spools.iterdir()) == []


def test_benchmark_s_run_has_no_records_of_folders_and_look_ups(run):
    """Its log holds what its audit and a site's Darshan know."""
    traced = run(
        """
        import mmap
        begin()
        os.listdir(data + ".ep0")
        os.access(name(0), os.R_OK)
        os.rename(data + ".ep0/s_2.bin", data + ".ep0/s_9.bin")
        fd = os.open(name(1), os.O_RDONLY)
        mmap.mmap(fd, 100, prot=mmap.PROT_READ)
        os.sendfile(os.open("/dev/null", os.O_WRONLY), fd, 0, 100)
        end()
        """
    )
    assert list(traced.counts("OPENS")) == ["data.ep0/s_1.bin"]
    assert traced.counts("MMAPS") == {"data.ep0/s_1.bin": -1}
    assert traced.counts("BYTES_READ") == {"data.ep0/s_1.bin": 0}


def limit_file_size(n_bytes):
    """Return what lets a process write no more than so many bytes into a file."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))

    return limit


@pytest.mark.parametrize("n_bytes", [1 << 20, 0])
def test_lost_calls_are_reported_and_make_the_trace_unusable(run, tmp_path, n_bytes):
    traced = run.unchecked(
        """
        for i in range(1000):
            os.symlink("s_0.bin", f"{data}/s_{i}{'x' * 200}.bin")
        begin()
        for epoch in range(2):
            for i in range(1000):
                read_file(f"{i}{'x' * 200}", epoch)
        print(end() < 0)
        """,
        before=limit_file_size(n_bytes),
    )
    assert traced.status == 0
    assert traced.stdout == "True\n"
    assert traced.stderr == ""  # which is the program's
    with pytest.raises(LogError, match=r"incomplete|calls were lost"):
        write_log(traced, tmp_path / "x.darshan")


@pytest.mark.parametrize("n_bytes", [1 << 18, 100])
def test_program_notices_nothing_of_a_disk_without_room(run, n_bytes):
    """Its files have descriptors 0 to 2, and a limit of size would end the program."""
    traced = run.unchecked(
        """
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        begin()
        for i in range(3):
            os.close(i)
        for i in range(3):
            assert os.open(f"{data}.ep0/out{i}", os.O_WRONLY | os.O_CREAT) == i
        for i in range(1000):
            path = os.fsencode(f"{data}.ep0/{i}{'x' * 200}")
            ctypes.set_errno(7)
            libc.close(libc.creat(path, 0o644))
            assert ctypes.get_errno() == 7
        assert not signal.sigpending()
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
        for i in range(3):
            assert os.write(i, bytes(20)) == 20
        os._exit(0 if end() == -27 else 1)  # EFBIG
        """,
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes)),
    )
    assert traced.status == 0
    for i in range(3):
        assert (traced.data / f"out{i}").read_bytes() == bytes(20)


# Logs of spools


def test_log_of_two_ranks_is_read_back(run, tmp_path):
    traced = run(
        """
        for rank in range(2):
            begin(rank=rank)
            for epoch in range(2):
                for i in (0, 1) if (rank + epoch) % 2 else (2, 3):
                    read_file(i, epoch)
            end()
        """
    )
    log = write_log(traced, tmp_path / "x.darshan", n_processes=2)
    table = read_file_records(log, {"gfs": traced.data}, MANIFEST)
    rows = table[["epoch", "rank", "file_id", "opens", "reads", "bytes_read"]]
    assert rows.values.tolist() == [
        [0, 0, 2, 1, 3, 1000],
        [0, 0, 3, 1, 3, 1000],
        [0, 1, 0, 1, 3, 1000],
        [0, 1, 1, 1, 3, 1000],
        [1, 0, 0, 1, 3, 1000],
        [1, 0, 1, 1, 3, 1000],
        [1, 1, 2, 1, 3, 1000],
        [1, 1, 3, 1, 3, 1000],
    ]


def test_processes_of_one_rank_are_merged(run, tmp_path):
    traced = run(
        """
        begin()
        read_file(0)
        if os.fork() == 0:
            read_file(0); read_file(1)
            os._exit(0)
        os.wait()
        end()
        """
    )
    assert traced.n_spools == 2
    log = write_log(traced, tmp_path / "x.darshan")
    table = read_file_records(log, {"gfs": traced.data}, MANIFEST)
    assert table["file_id"].tolist() == [0, 1]
    assert table["opens"].tolist() == [2, 1]
    assert table["bytes_read"].tolist() == [2000, 1000]


def test_rank_beyond_the_processes_is_refused(run, tmp_path):
    traced = run("begin(rank=2); read_file(0); end()")
    with pytest.raises(LogError, match=r"spool: has rank 2, expected 0 to 1"):
        write_log(traced, tmp_path / "x.darshan", n_processes=2)


def test_folder_without_records_is_refused(tmp_path):
    with pytest.raises(LogError, match="nothing was traced"):
        write_log(Traced(tmp_path, tmp_path, 0, "", ""), tmp_path / "x.darshan")


@pytest.mark.parametrize(
    ("offset", "content", "reason"),
    [
        (0, b"other", "not a spool"),
        (0, bytes(262144), "not a spool"),
        (16, b"\x01", "has version 1"),
        (20, b"\x00", "records of 512 bytes"),
        (24, b"\x07", "records of other ranks than 7"),
        (40, b"\xff\xff\xff\xff", "is damaged"),
        (48, b"\x01", "is incomplete"),
        (4096, b"\x00\x00\x00\x00", "is damaged at byte 4096"),
        (4100, b"\xff\xff", "is damaged at byte 4096"),
    ],
)
def test_damaged_spool_is_refused(run, offset, content, reason):
    traced = run("begin(); read_file(0); end()")
    (spool,) = traced.spools.iterdir()
    with spool.open("r+b") as file:
        file.seek(offset)
        file.write(content)
    with pytest.raises(LogError, match=reason):
        open_spool(spool, must_be_whole=True)


def test_truncated_spool_is_refused(run):
    traced = run("begin(); read_file(0); read_file(1); end()")
    (spool,) = traced.spools.iterdir()
    for length in (0, 100, 4096, 4104, 4800, 5000):
        os.truncate(spool, length)
        with pytest.raises(LogError):
            open_spool(spool, must_be_whole=True)


def test_one_id_for_two_paths_is_refused(run, tmp_path):
    traced = run("for rank in range(2): begin(rank=rank); read_file(rank); end()")
    first, second = sorted(traced.spools.iterdir())
    with second.open("r+b") as file:
        file.seek(4104)
        file.write(first.read_bytes()[4104:4112])
    with pytest.raises(LogError, match=r"one record id for .*s_0\.bin.*s_1\.bin"):
        write_log(traced, tmp_path / "x.darshan", n_processes=2)


def test_merged_record_is_as_of_one_process():
    records = np.zeros(3, POSIX_RECORD)
    records["id"] = [7, 7, 8]
    records["POSIX_MMAPS"] = -1
    records["POSIX_READS"] = [2, 3, 4]
    records["POSIX_MAX_BYTE_READ"] = [99, 49, 9]
    records["POSIX_F_READ_TIME"] = [0.5, 0.25, 1]
    records["POSIX_F_MAX_READ_TIME"] = [0.1, 0.2, 1]
    records["POSIX_MAX_READ_TIME_SIZE"] = [100, 50, 10]
    records["POSIX_F_OPEN_START_TIMESTAMP"] = [5, 1, 1]
    records["POSIX_F_CLOSE_START_TIMESTAMP"] = [0, 2, 2]
    records["POSIX_F_READ_END_TIMESTAMP"] = [6, 2, 2]
    records["POSIX_ACCESS1_ACCESS"], records["POSIX_ACCESS1_COUNT"] = [100, 50, 10], 1
    records["POSIX_ACCESS2_ACCESS"], records["POSIX_ACCESS2_COUNT"] = (
        [50, 0, 0],
        [2, 0, 0],
    )
    merged = merge_records(records, np.array([0, 3_000_000_000, 0]))
    assert merged["id"].tolist() == [7, 8]
    assert merged["POSIX_MMAPS"].tolist() == [-1, -1]
    assert merged["POSIX_READS"].tolist() == [5, 4]
    assert merged["POSIX_MAX_BYTE_READ"].tolist() == [99, 9]
    assert merged["POSIX_F_READ_TIME"].tolist() == [0.75, 1]
    assert merged["POSIX_F_MAX_READ_TIME"].tolist() == [0.2, 1]
    assert merged["POSIX_MAX_READ_TIME_SIZE"].tolist() == [50, 10]
    assert merged["POSIX_F_OPEN_START_TIMESTAMP"].tolist() == [4, 1]
    assert merged["POSIX_F_CLOSE_START_TIMESTAMP"].tolist() == [5, 2]
    assert merged["POSIX_F_READ_END_TIMESTAMP"].tolist() == [6, 2]
    assert merged["POSIX_ACCESS1_ACCESS"].tolist() == [50, 10]
    assert merged["POSIX_ACCESS1_COUNT"].tolist() == [3, 1]
    assert merged["POSIX_ACCESS2_ACCESS"].tolist() == [100, 0]


# Signals


HANDLER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static const char *folder;
static volatile int n_handled;

static void read_files(const char *of) {
  char path[PATH_MAX], bytes[100];
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s.ep%s/s_%d.bin", folder, of, i);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || pread(fd, bytes, sizeof bytes, 0) != sizeof bytes || close(fd))
      _exit(3);
  }
}

static void handle(int number) {
  (void)number;
  read_files("0");
  n_handled++;
}

int main(int n_arguments, char **arguments) {
  int (*begin)(const char *, int, const char *) = dlsym(RTLD_DEFAULT,
                                                       "tierscope_trace_begin");
  int (*end)(void) = dlsym(RTLD_DEFAULT, "tierscope_trace_end");
  char prefix[PATH_MAX];
  folder = arguments[n_arguments - 2];
  snprintf(prefix, sizeof prefix, "%s.ep", folder);
  if (begin(arguments[n_arguments - 1], 0, prefix))
    return 4;
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval often = {{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &often, NULL);
  int n_read = 0;
  for (; n_handled < 3000; n_read++)
    read_files("0");
  setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
  printf("%d %d\\n", 4 * (n_read + n_handled), end());
  return 0;
}
"""


def test_signal_handler_that_reads_traced_files_cannot_dead_lock(
    run, trace_library, tmp_path
):
    source, program = tmp_path / "handler.c", tmp_path / "handler"
    source.write_text(HANDLER)
    subprocess.run(["cc", "-O2", "-o", program, source, "-ldl"], check=True)
    data, spools = tmp_path / "gfs" / "data", tmp_path / "spools"
    done = subprocess.run(
        [program, data, spools],
        env={"LD_PRELOAD": str(trace_library)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    n_opens, status = map(int, done.stdout.split())
    traced = Traced(spools, data, 0, "", "")
    if status:  # some came while their thread's own call was recorded: that is said
        assert status == -errno.EDEADLK
        if not list(spools.glob("*.incomplete")):  # before there was a spool
            with pytest.raises(LogError, match="some calls could not be recorded"):
                traced.counts("OPENS")
    else:
        assert sum(traced.counts("OPENS").values()) == n_opens


def test_closedir_of_nothing_is_an_error_as_without_tracer(run):
    traced = run(
        """
        begin()
        libc.closedir.argtypes = [ctypes.c_void_p]
        print(libc.closedir(None), ctypes.get_errno())
        end()
        """
    )
    assert traced.stdout == f"-1 {errno.EINVAL}\n"
