"""What processes a traced command had, and their logs."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from native import advice_library
from tierscope.core.certificate import Interference
from tierscope.logs.traced.call import Call
from tierscope.logs.traced.processes import (
    Libraries,
    TracedProcess,
    _metadata,
    interference_of,
    parents_of,
    ranks_of,
    read_processes,
    write_process_logs,
)
from tierscope.storage.mounts import mount_of
from tierscope.trace.log import read_posix
from tierscope.trace.log_writer import write_log
from tierscope.trace.posix_records import START_TIMES
from tierscope.trace.spool import open_spool

MODULE = "tierscope.logs.traced.processes"
CALL = Call(
    host="n0",
    pid=1,
    ticks=5,
    user="me",
    group="g",
    job_id=77,
    mounts={"/": "ext4"},
    began_s=1_790_000_000.25,
    ended_s=1_790_000_003,
)
SLOW_S = 0.05  # as in tests/data/advice.c
SPAWNED = "python -c from multiprocessing.spawn import spawn_main; spawn_main() "
SERVER = "python -c from multiprocessing.forkserver import main; main(3) "
TRACKER = "python -c from multiprocessing.resource_tracker import main;main(4)"


def process(pid, parent=1, started_ns=0, launched_as="-", host="n0", exe="x"):
    """Return a process that made no call."""
    return TracedProcess(host, pid, parent, 5, started_ns, None, launched_as, exe, ())


def counted_with(*commands):
    """Return with whom processes count, and its program.

    Each is the process id of its parent and its command; its own id is its position.
    """
    processes = [
        process(pid, parent, started_ns=pid, exe=exe)
        for pid, (parent, exe) in enumerate(commands, 1)
    ]
    return [(one["process"], one["program"]) for one in _metadata(processes, CALL)]


def write_events(folder, *lines):
    """Write events of a host."""
    folder.mkdir(parents=True)
    (folder / "processes").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def run(trace_library, tmp_path):
    """Return a function that traces Python code; it returns the folder of spools."""
    data, spools = tmp_path / "data", tmp_path / "spools"
    data.mkdir()
    spools.mkdir()
    (data / "file").write_bytes(bytes(100))

    def run_code(code, **environment):
        subprocess.run(
            [
                sys.executable,
                "-S",
                "-c",
                "import os, sys, time\n" + code,
                data / "file",
            ],
            env={
                "LD_PRELOAD": str(trace_library),
                "TIERSCOPE_TRACE_SPOOL": str(spools),
                "TIERSCOPE_TRACE_RANK": "0",
                "TIERSCOPE_TRACE_PREFIXES": f"{data}/",
                "TIERSCOPE_TRACE_PROCESSES": "1",
            }
            | environment,
            check=True,
            timeout=60,
        )
        return spools

    return run_code


# Events


def test_events_tell_of_each_process(tmp_path):
    write_events(
        tmp_path / "n0",
        "start 10 1 500 1000 - sh -c python a.py ",
        "start 11 10 501 3000 RANK=2 sh -c python a.py ",
        "start 11 10 501 4000 RANK=2 python a.py ",
        "spool 11 10 501 5000 RANK=2 rank-00000.11.0.spool",
        "start 12 10 502 6000 - uname ",
        "libraries 12 10 502 6100 - 3/libx.so:a.so:/a.so/",
        "end 12 10 502 6500 - 8192",
        "end 11 1 501 9000 RANK=2 ",
        "start 10 1 900 9500 - again ",
        "cut",
    )
    write_events(tmp_path / "n1", "start 10 1 3 2000 - other ")
    first, other, python, uname, again = read_processes(tmp_path)
    assert python == TracedProcess(
        host="n0",
        pid=11,
        parent=10,
        ticks=501,
        started_ns=3000,
        ended_ns=9000,
        launched_as="RANK=2",
        exe="python a.py",
        spools=(tmp_path / "n0" / "rank-00000.11.0.spool",),
    )
    assert (first.exe, first.ended_ns, first.spools) == ("sh -c python a.py", None, ())
    assert (other.host, other.pid, uname.ended_ns) == ("n1", 10, 6500)
    assert uname.libraries == Libraries(3, ("libx.so", "a.so"), "a.so", "")
    assert (uname.device_bytes, python.device_bytes) == (8192, None)
    assert (again.pid, again.ticks, again.exe) == (10, 900, "again")


def test_process_that_goes_on_after_its_end_has_not_ended(tmp_path):
    """A program that could not be executed ends without another event."""
    write_events(
        tmp_path / "n0",
        "start 10 1 500 1000 - a ",
        "end 10 1 500 2000 - ",
        "spool 10 1 500 3000 - x.spool",
    )
    (one,) = read_processes(tmp_path)
    assert one.ended_ns is None


@pytest.mark.parametrize(
    "detail",
    [
        "/etc/passwd",
        "../../mine/rank-00000.1.0.spool",
        "rank-00000.1.0.spool/../../mine",
        "mine.spool",
    ],
)
def test_only_spools_beside_the_events_are_read(tmp_path, detail):
    """Processes with other users may write events, too, if root traces."""
    write_events(tmp_path / "n0", f"spool 10 1 500 3000 - {detail}")
    (one,) = read_processes(tmp_path)
    assert one.spools == ()


@pytest.mark.parametrize(
    "event",
    [
        f"start {'9' * 11} 1 500 1000 - a",
        f"start 10 1 500 {'9' * 400} - a",
        f"start 10 1 {'9' * 5000} 1000 - a",
        "start \u0661 1 500 1000 - a",
        "start 10 1 500 1000 RANK=x a",
        "start 10 1 500 1000 RANK=9999999999999 a",
    ],
)
def test_event_with_numbers_that_no_process_has_is_left_out(tmp_path, event):
    write_events(tmp_path / "n0", event)
    assert read_processes(tmp_path) == []


def make_pipe(path):
    os.mkfifo(path)


def make_link(path):
    (path.parent / "mine").write_bytes(b"tierscope-trace\0" + bytes(8192))
    path.symlink_to("mine")


def make_huge(path):
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_pipe, "is no regular file"),
        (make_link, "Too many levels of symbolic links"),
        (make_huge, "has 1099511627776 bytes, expected at most"),
    ],
)
def test_spool_or_events_that_are_no_plain_file_are_not_read(tmp_path, make, reason):
    name = "rank-00000.10.0.spool"
    write_events(
        tmp_path / "n0",
        "start 10 1 500 1000 - a\x1b[2J",
        f"spool 10 1 500 3000 - {name}",
    )
    make(tmp_path / "n0" / name)
    processes = read_processes(tmp_path)
    written = write_process_logs(processes, tmp_path / "logs", CALL)
    assert (written.logs, written.may_succeed) == ([], True)
    assert reason in written.losses[0]
    (tmp_path / "n0" / "processes").unlink()
    make(tmp_path / "n0" / "processes")
    with pytest.raises(OSError, match=reason):
        read_processes(tmp_path)


def test_folder_without_events_has_no_processes(tmp_path):
    assert read_processes(tmp_path) == []


def test_parents_are_those_that_started_before_on_the_same_host():
    root, child = process(1, 0), process(2, 1, started_ns=1)
    again = process(1, 2, started_ns=2)  # the kernel gives ids again
    grandchild = process(3, 1, started_ns=3)
    stranger = process(4, 2, host="n1", started_ns=4)
    all_of_them = [root, child, again, grandchild, stranger]
    assert parents_of(all_of_them) == [[], [1], [2, 1], [1, 2, 1], []]


def test_ranks_are_of_the_inner_launcher():
    agent = process(1, launched_as="SLURM_PROCID=1")
    trainer = process(2, launched_as="RANK=5")
    assert ranks_of([agent, trainer, process(3)]) == {trainer: 5}
    assert ranks_of([agent, process(3)]) == {agent: 1}
    assert ranks_of([process(3)]) == {}


# With which process each one counts


@pytest.mark.parametrize("exe", ["python dl.py", SPAWNED])
def test_workers_count_with_the_process_that_has_started_them(exe):
    found = counted_with((0, "python dl.py"), (1, TRACKER), (1, exe), (1, exe))
    assert found == 4 * [("1-5", "dl.py")]


def test_workers_of_a_server_count_with_who_has_started_it():
    found = counted_with((0, "python dl.py"), (1, SERVER), (2, SERVER), (2, SERVER))
    assert found == 4 * [("1-5", "dl.py")]


@pytest.mark.parametrize("exe", ["python dl.py", SPAWNED])
def test_trainers_that_a_process_has_started_have_their_workers(exe):
    commands = [(0, "python dl.py"), *2 * [(1, exe)], *2 * [(2, exe)], (3, exe)]
    found = counted_with(*commands)
    assert [name for name, _ in found] == ["1-5", "2-5", "3-5", "2-5", "2-5", "3-5"]
    assert {program for _, program in found} == {"dl.py"}


def test_programs_that_a_shell_starts_are_processes():
    shell = "bash -c python a.py & python a.py & cat x"
    found = counted_with(
        (0, shell), (1, "python a.py"), (1, "python a.py"), (1, "cat x"), (1, shell)
    )
    assert found == [
        ("1-5", "bash"),
        ("2-5", "a.py"),
        ("3-5", "a.py"),
        ("4-5", "cat"),
        ("1-5", "bash"),  # a part of the shell
    ]


def test_child_without_the_rank_of_its_parent_has_it():
    trainer = process(2, 1, 2, launched_as="RANK=3")
    child = process(3, 2, 3, exe="tar x")
    metadata = _metadata([process(1, 0, 1), trainer, child], CALL)
    assert [one.get("rank") for one in metadata] == [None, "3", "3"]


def test_metadata_of_a_log_fit_into_1023_bytes():
    processes = [
        process(
            4_194_300 - i,
            4_194_299 - i,
            started_ns=100 - i,
            launched_as="RANK=999999999",
            host=64 * "h",
            exe=200 * "\U0001f40d",
        )
        for i in range(40, 0, -1)
    ]
    # What `job_and_group` and `_write_log` add.
    call = replace(CALL, group=f"{64 * 'h'}-{4_194_304}-{10**12}")
    (*_, last) = _metadata(processes, call)
    assert last["parents"].count(",") == 29
    last |= {"end": "still running"}
    assert sum(len(f"{key}={value}\n".encode()) for key, value in last.items()) < 1024


# Of real processes


def test_library_tells_start_spool_and_end(run):
    code = """
child = os.fork()
if child == 0:
    os.environ["PMI_RANK"] = "4"
    open(sys.argv[1]).read()
    os._exit(0)
os.waitpid(child, 0)
print(child)
"""
    before_ns = time.time_ns()
    parent, child = read_processes(run(code))
    assert before_ns < parent.started_ns < child.started_ns
    assert child.started_ns < child.ended_ns < parent.ended_ns < time.time_ns()
    assert child.parent == parent.pid
    assert parent.exe.startswith(
        f"{sys.executable} -S -c import os, sys, time  child = "
    )
    assert (parent.spools, len(child.spools)) == ((), 1)
    assert (parent.launched_as, child.launched_as) == ("-", "PMI_RANK=4")
    assert parent.host == os.uname().nodename
    assert not parent.still_runs()


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({"SLURM_PROCID": "3"}, "-"),  # of a batch script's shell
        ({"SLURM_PROCID": "3", "SLURM_STEP_ID": "0"}, "SLURM_PROCID=3"),
        ({"RANK": "7", "PMI_RANK": "2"}, "RANK=7"),
        ({"RANK": "first", "PMI_RANK": "2"}, "PMI_RANK=2"),
        ({"RANK": ""}, "-"),
    ],
)
def test_rank_is_what_a_launcher_says(run, environment, rank):
    (one,) = read_processes(run("", **environment))
    assert one.launched_as == rank


def test_process_with_a_spool_has_a_log_named_as_darshan_s(run, tmp_path):
    spools = run("time.sleep(0.2); open(sys.argv[1]).read()", RANK="1")
    processes = read_processes(spools)
    (log,), losses, *_ = write_process_logs(processes, tmp_path / "logs", CALL)
    assert losses == []
    (one,) = processes
    start = time.localtime(one.started_ns // 10**9)
    second = 3600 * start.tm_hour + 60 * start.tm_min + start.tm_sec
    program = Path(sys.executable).name
    assert log.name.startswith(
        f"me_{program}_id77-{one.pid}_{start.tm_mon}-{start.tm_mday}-{second}-"
    )
    job, columns, names = read_posix(
        log,
        {
            "reads": "POSIX_BYTES_READ",
            "open_s": START_TIMES[0],
        },
    )
    assert columns["reads"].tolist() == [100]
    assert 0.2 <= columns["open_s"][0] < 20  # since the process's start
    assert names.path(0) == str(tmp_path / "data" / "file")
    assert job.n_processes == 1
    assert job.start_time_s == one.started_ns // 10**9
    assert job.metadata == {
        "tracer": "tierscope builtin",
        "group": "g",
        "host": one.host,
        "pid": str(one.pid),
        "rank": "1",
        "process": f"{one.pid}-{one.ticks}",
        "program": program,
        "command_began": "1790000000.250000",
        "command_ended": "1790000003.000000",
        "end": "exit",
        "mapped_bytes": "0",
        "n_preloaded": "0",
        "fadvise": "0,0,0",
        "read_on": f"{mount_of(tmp_path).fs_type}:100",
        "device_bytes": job.metadata["device_bytes"],
    }


DROPS = """
os.mkfifo(f"{sys.argv[1]}-pipe")
for path in (sys.argv[1], f"{sys.argv[1]}-pipe"):
    try:
        os.posix_fadvise(os.open(path, os.O_RDWR), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(os.open(path, os.O_RDWR), 0, 0, os.POSIX_FADV_NORMAL)
    except OSError as error:
        print(error)
if os.fork() == 0:
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize(
    ("libraries", "before", "behind", "drops"),
    [
        ("TRACER", None, None, (1, 1, 0)),
        ("TRACER:SWALLOWS", None, "SWALLOWS", (0, 0, 2)),
        ("TRACER:HIDES", None, "HIDES", (0, 0, 2)),
        ("SWALLOWS:TRACER", "SWALLOWS", None, (0, 0, 0)),
        ("TRACER:PASSES", None, "PASSES", (1, 1, 0)),
        ("PASSES:TRACER:SWALLOWS", "PASSES", "SWALLOWS", (0, 0, 2)),
    ],
)
def test_calls_that_drop_pages_are_told_apart(
    run, tmp_path, trace_library, libraries, before, behind, drops
):
    paths = {one: advice_library(one) for one in ("SWALLOWS", "PASSES", "HIDES")}
    paths["TRACER"] = trace_library
    preload = ":".join(str(paths[one]) for one in libraries.split(":"))
    processes = read_processes(run(DROPS, LD_PRELOAD=preload))
    written = write_process_logs(processes, tmp_path / "logs", CALL)
    names = [paths[one].name for one in libraries.split(":") if one != "TRACER"]
    assert interference_of(processes, written.counted) == Interference(
        n_processes=2,
        preloaded=dict.fromkeys(names, 2),
        before={paths[before].name: 2} if before else {},
        behind={paths[behind].name: 2} if behind else {},
        **dict(zip(("made", "failed", "swallowed"), drops, strict=True)),
    )
    child = interference_of(processes[1:], written.counted)
    assert (child.n_processes, child.made + child.failed + child.swallowed) == (1, 0)
    (log,) = written.logs
    job, *_ = read_posix(log)
    assert job.metadata["fadvise"] == ",".join(map(str, drops))
    assert job.metadata.get("preloaded", "") == ",".join(names)


def test_second_call_of_the_tracer_is_no_time_of_the_program(run, trace_library):
    code = """
start_s = time.monotonic()
os.posix_fadvise(os.open(sys.argv[1], os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
open(sys.argv[1] + "-time", "w").write(str(time.monotonic() - start_s))
"""
    library = advice_library("SLOW")  # of a call that libc would refuse
    spools = run(code, LD_PRELOAD=f"{trace_library}:{library}")
    (one,) = read_processes(spools)
    (spool,) = one.spools
    left = open_spool(spool, must_be_whole=True)
    records, paths = left.records, left.names
    (at,) = (i for i, path in enumerate(paths) if path.endswith(b"/file"))
    meta_s = records["POSIX_F_META_TIME"][at]
    time_s = float(Path(os.fsdecode(paths[at] + b"-time")).read_text())
    assert 0 < meta_s <= time_s - SLOW_S


def test_library_that_the_program_needs_is_not_foreign(run, trace_library):
    preload = f"{trace_library}:libc.so.6"
    processes = read_processes(run("", LD_PRELOAD=preload))
    assert interference_of(processes, {}) == Interference(1, {}, 0, {}, {})


def test_time_stamps_of_a_forked_process_count_from_its_own_start(run, tmp_path):
    code = """
time.sleep(0.5)
if os.fork() == 0:
    open(sys.argv[1]).read()
    os._exit(0)
os.wait()
"""
    processes = read_processes(run(code))
    (log,), *_ = write_process_logs(processes, tmp_path / "logs", CALL)
    job, columns, _ = read_posix(log, {"open_s": START_TIMES[0]})
    assert 0 < columns["open_s"][0] < 0.4
    assert job.metadata["parents"] == str(processes[0].pid)


def test_killed_process_ends_with_its_last_call(run, tmp_path):
    code = """
if os.fork() == 0:
    open(sys.argv[1]).read()
    os.kill(os.getpid(), 9)
os.wait()
time.sleep(1.2)
"""
    processes = read_processes(run(code))
    (log,), *_ = write_process_logs(processes, tmp_path / "logs", CALL)
    job, _, _ = read_posix(log)
    assert job.metadata["end"] == "last call"
    parent_ended_s = processes[0].ended_ns * 1e-9
    assert job.end_time_s < parent_ended_s - 0.2


def test_link_in_place_of_a_spool_is_not_written_through(run, tmp_path):
    """Another user can put it there, if all may rename what a folder of logs holds."""
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine" * (1 << 18))
    before = mine.read_bytes()
    code = f"""
open(sys.argv[1]).read()
folder = f"{tmp_path}/spools/{{os.uname().nodename}}"
(name,) = [one for one in os.listdir(folder) if one.endswith(".spool")]
os.rename(f"{{folder}}/{{name}}", f"{{folder}}/kept")
os.symlink("{mine}", f"{{folder}}/{{name}}")
for i in range(500):
    open(f"{{sys.argv[1]}}-{{i}}", "w").close()
"""
    run(code)
    assert mine.read_bytes() == before


@pytest.mark.parametrize("make", ["os.link", "os.symlink"])
def test_file_of_the_user_in_place_of_the_events_stays_as_it_is(run, tmp_path, make):
    (tmp_path / "mine").write_text("mine")
    run(f"""
events = f"{tmp_path}/spools/{{os.uname().nodename}}/processes"
os.unlink(events)
{make}("{tmp_path}/mine", events)
""")
    assert (tmp_path / "mine").read_text() == "mine"


def test_damaged_spool_costs_one_log(run, tmp_path):
    code = """
if os.fork() == 0:
    open(sys.argv[1]).read()
    os._exit(0)
os.wait()
open(sys.argv[1]).read()
"""
    processes = read_processes(run(code))
    processes[1].spools[0].write_bytes(b"x")
    logs, (loss,), *_ = write_process_logs(processes, tmp_path / "logs", CALL)
    assert len(logs) == 1
    assert loss.startswith(f"no log of process {processes[1].pid} ({sys.executable}")
    assert "is not a spool" in loss


def test_log_that_cannot_be_written_costs_no_other(run, tmp_path, monkeypatch):
    code = """
if os.fork() == 0:
    open(sys.argv[1]).read()
    os._exit(0)
os.wait()
open(sys.argv[1]).read()
"""
    processes = read_processes(run(code))

    def fill_the_disk(path, *arguments, **more):
        if f"-{processes[1].pid}_" in path.name:
            raise OSError(28, "No space left on device")
        write_log(path, *arguments, **more)

    monkeypatch.setattr(f"{MODULE}.write_log", fill_the_disk)
    written = write_process_logs(processes, tmp_path / "logs", CALL)
    (log,), (loss,), may_succeed, _ = written
    assert f"-{processes[0].pid}_" in log.name
    assert f"no log of process {processes[1].pid}" in loss
    assert "No space left on device" in loss
    assert may_succeed
    assert list((tmp_path / "logs").iterdir()) == [log]


def test_run_of_a_benchmark_inside_is_its_own(run, tmp_path):
    """It begins a trace of its own, and what it starts is no part of ours."""
    own = tmp_path / "own"
    own.mkdir()
    code = f"""
import ctypes, subprocess
open(sys.argv[1]).read()
library = ctypes.CDLL(None)
begin = library.tierscope_trace_begin
assert begin(b"{own}", 2, os.fsencode(os.path.dirname(sys.argv[1]))) == 0
open(sys.argv[1]).read(); open(sys.argv[1]).read()
subprocess.run(["cat", sys.argv[1]])
library.tierscope_trace_end()
"""
    (one,) = read_processes(run(code))
    assert one.ended_ns is not None
    opens = [open_spool(spool).records["POSIX_OPENS"].tolist() for spool in one.spools]
    assert opens == [[1]]
    opens = [
        open_spool(spool).records["POSIX_OPENS"].tolist() for spool in own.iterdir()
    ]
    assert sorted(opens) == [[1], [2]]


def test_log_of_an_incomplete_spool_is_partial(run, tmp_path):
    processes = read_processes(run("open(sys.argv[1]).read()"))
    with processes[0].spools[0].open("r+b") as spool:
        spool.seek(48)
        spool.write(b"\x01")
    written = write_process_logs(processes, tmp_path / "logs", CALL)
    (log,), (loss,), may_succeed, _ = written
    assert loss == (
        f"{log}: is partial, as some calls were not recorded (Operation not permitted)."
    )
    assert not may_succeed
    with pytest.raises(ValueError, match="is partial"):
        read_posix(log)
