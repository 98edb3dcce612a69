"""Calls on paths that do not return, of this process and of a small one."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hanging import hanging_mount
from sessions import HANG_S, receive_signals
from tierscope.benchmark.loaders.posix import file_sizes
from tierscope.benchmark.programs.staging import copy_whole
from tierscope.core.processes import calls
from tierscope.core.processes.calls import CallWatch, PathCall, calls_of
from tierscope.core.tables import empty_table, write_table
from tierscope.data.listing import list_files
from tierscope.storage.own_folder import check_way

SCRIPTS = Path(__file__).parents[4] / "workflow" / "scripts"


@contextmanager
def waits_in(function, *arguments):
    """Call a function in a thread that its file system holds; give up at the end."""
    errors = []

    def call():
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    yield errors
    thread.join(HANG_S)
    assert not thread.is_alive()


def await_path(pid, wanted):
    """Wait until a process is in a call on a path."""
    end_s = time.monotonic() + HANG_S
    while wanted not in {call.path for call in calls_of(pid)}:
        assert time.monotonic() < end_s
        time.sleep(0.005)


def let_go(fifo):
    """Let those go on that open or read a FIFO."""
    end_s = time.monotonic() + HANG_S
    while time.monotonic() < end_s:
        with suppress(OSError):
            return os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        time.sleep(0.005)
    return None


@pytest.fixture
def fifo(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def test_path_is_named_again_and_again_and_given_up(fifo):
    watch = CallWatch(say_s=60, give_up_s=600)
    with waits_in(fifo.read_bytes):
        await_path(os.getpid(), str(fifo))
        said = {now_s: watch.look(now_s) for now_s in (0, 59, 60, 61, 130, 599, 600)}
        let_go(fifo)
    words = f"{fifo}: has not answered for"
    assert [now_s for now_s, (lines, _) in said.items() if lines] == [60, 130, 599]
    assert said[60] == ([f"{words} 60 s; this gives up after 600 s."], None)
    reason = f"{words} 600 s; this gives up. Start again when its file system answers"
    assert said[600] == ([], reason)


def test_sync_which_may_only_be_slow_is_waited_for_longer(monkeypatch):
    calls_now = [
        PathCall(1, 2, "/lfs", ("read",)),
        PathCall(1, 3, "/gfs", ("sync",), calls.SYNC_PATIENCE),
    ]
    monkeypatch.setattr(CallWatch, "_calls", lambda self: iter(calls_now))
    watch = CallWatch(say_s=60, give_up_s=600)
    watch.look(0)
    lines, _ = watch.look(60)
    assert [line.rpartition("; ")[2] for line in lines] == [
        "this gives up after 600 s.",
        "this gives up after 3600 s.",
    ]
    del calls_now[0]
    assert watch.look(3599)[1] is None
    assert watch.look(3600)[1].startswith("/gfs: has not answered process 1 for 3600 s")


def test_syncs_are_known_by_their_numbers():
    assert len(calls._SYNCS) == 3
    assert calls._SYNCS <= calls._OF_FILE


def test_nothing_is_given_up_while_jobs_run_until_a_signal_comes(fifo, monkeypatch):
    watch = CallWatch()
    watch.wait_while_jobs_run()
    with waits_in(fifo.read_bytes):
        await_path(os.getpid(), str(fifo))
        watch.look(0)
        (line,), reason = watch.look(5000)
        monkeypatch.setattr(calls, "_has_pending_end", lambda: True)
        early, late = (watch.look(now_s)[1] for now_s in (5001, 5006))
        let_go(fifo)
    assert line.endswith("this waits for it until a signal (Ctrl-C) ends it.")
    assert (reason, early) == (None, None)
    assert late.endswith("for 5006 s; this ends without it, as a signal says")


def test_signal_is_heeded_for_a_while_as_batch_jobs_may_go_on(monkeypatch):
    before = signal.getsignal(signal.SIGUSR2), signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        taken = calls._Taken()
        assert not taken.has_ending()
        signal.raise_signal(signal.SIGUSR2)
        assert taken.has_ending()
        monkeypatch.setattr(calls, "_HEED_S", 0.0)
        assert not taken.has_ending()
    finally:
        signal.signal(signal.SIGUSR2, before[0])
        signal.set_wakeup_fd(before[1])


def test_thread_that_comes_back_and_calls_again_waits_anew(fifo):
    watch, here = CallWatch(say_s=1), os.open(fifo, os.O_RDWR)

    def read_two():
        for _ in range(2):
            os.read(here, 1)

    with waits_in(read_two):
        await_path(os.getpid(), str(fifo))
        (first,) = calls_of_path(fifo)
        watch.look(0)
        os.write(here, b"1")
        while calls_of_path(fifo) in ([first], []):
            time.sleep(0.005)
        assert watch.look(1) == ([], None)
        os.write(here, b"2")
    os.close(here)


def calls_of_path(path):
    return [call for call in calls_of(os.getpid()) if call.path == str(path)]


def test_what_is_no_path_is_not_named():
    reads, writes = os.pipe()
    with waits_in(os.read, reads, 1):
        time.sleep(0.05)
        own = threading.get_native_id()
        assert [call for call in calls_of(os.getpid()) if call.thread != own] == []
        os.write(writes, b"1")
    os.close(reads)
    os.close(writes)


def test_relative_paths_are_below_their_folder(fifo):
    folder = os.open(fifo.parent, os.O_RDONLY)

    def open_there():
        os.close(os.open("fifo", os.O_RDONLY, dir_fd=folder))

    with waits_in(open_there):
        await_path(os.getpid(), str(fifo))
        let_go(fifo)
    os.close(folder)


@pytest.mark.parametrize("is_tier", [True, False])
def test_process_that_comes_from_this_one_is_watched_on_the_tiers(fifo, is_tier):
    watch = CallWatch([fifo.parent if is_tier else fifo.parent / "other"], say_s=1)
    opens = subprocess.Popen([sys.executable, "-c", f"open({str(fifo)!r})"])
    await_path(opens.pid, str(fifo))
    watch.look(0)
    lines, _ = watch.look(1)
    let_go(fifo)
    opens.wait()
    words = f"{fifo}: has not answered process {opens.pid} for 1 s; this gives up"
    assert [line.startswith(words) for line in lines] == [True] * is_tier


def list_linked(path):
    """List a dataset that has a link to a path."""
    (dataset := path.parents[1] / "dataset").mkdir()
    (dataset / "a").symlink_to(path)
    list_files(dataset, path.parents[1] / "notes")


def stage_file(path):
    copy_whole(str(path), str(path.parents[1] / "copy"), 1, 0, cold=False)


def read_file(path):
    list(file_sizes([str(path)], [bytearray(1)]))


def write_file(path):
    write_table(empty_table("breakdown"), path, "breakdown")


STAGES = {
    "listing": (list_linked, "dataset/a"),
    "staging": (stage_file, "mount/a"),
    "reading": (read_file, "mount/a"),
    "writing": (write_file, "mount"),
    "checking": (check_way, "mount"),
    "looking for room": (os.statvfs, "mount/a"),
    "removing": (os.unlink, "mount/a"),
}


@pytest.mark.parametrize(("stage", "held"), STAGES.values(), ids=STAGES)
def test_mount_without_an_answer_is_named_in_each_stage(tmp_path, stage, held):
    watch, held = CallWatch(say_s=60), str(tmp_path / held)
    is_mounted = threading.Event()

    def begin():
        is_mounted.wait(HANG_S)
        stage(tmp_path / "mount" / "a")

    with waits_in(begin) as errors, hanging_mount(tmp_path / "mount"):
        is_mounted.set()
        await_path(os.getpid(), held)
        watch.look(0)
        lines, _ = watch.look(60)
    words = f"{held}: has not answered for 60 s; this gives up after 600 s."
    assert words in lines
    assert errors  # ENOTCONN, once the mount is gone


# A script of a rule, in short times.
SCRIPT = """\
import os, signal, sys, threading, time
from tierscope.benchmark.loaders.posix import file_sizes
from tierscope.benchmark.programs.staging import copy_whole
from tierscope.core.processes import calls
calls._LOOK_S, calls.SIGNAL_S = 0.02, 0.1
calls.CallWatch.__init__.__defaults__ = (), {give_up_s}, {give_up_s}, None
from tierscope.core.files import log_to
for one in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(one, lambda *_: sys.exit("not heard"))
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
log_to({log!r})
os.stat({path!r})
"""


@pytest.mark.parametrize("by_signal", [False, True])
def test_script_ends_with_the_path_in_its_log(tmp_path, by_signal):
    log, path = tmp_path / "log", str(tmp_path / "mount" / "a")
    give_up_s = 60 if by_signal else 0.3
    script = SCRIPT.format(log=str(log), path=path, give_up_s=give_up_s)
    environment = os.environ | {"PYTHONPATH": str(SCRIPTS)}
    with hanging_mount(tmp_path / "mount"):
        command = [sys.executable, "-c", script]
        process = subprocess.Popen(command, env=environment)
        if by_signal:
            await_path(process.pid, path)
            # The call holds the thread that should take them; the other one does.
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert process.returncode == 1
    last = log.read_text().splitlines()[-1]
    assert last.startswith(f"tierscope: {path}: has not answered for 0 s; this ")


# A process whose last call hangs.
AT_END = """\
import atexit, os, sys, time
from tierscope.core.processes import calls
calls._LOOK_S, calls.SIGNAL_S, calls.SAY_S = 0.02, 0.1, 0.1
watch = calls.watch_calls()
atexit.register(os.stat, {path!r})
{begin}
print("ready", flush=True)
"""
WAITS = f"{AT_END}time.sleep({HANG_S})\n"
LISTENERS = {
    "launch": "import tierscope.core.processes.children as c; c.listen(c.end_once)",
    "job": "import tierscope.benchmark.rank as rank; rank.terminate_by_exception()",
    "snakemake": "import tierscope.experiment.ending as ending\n"
    "ending.Ending(True, print).prepare()",
}


@pytest.mark.parametrize("listen", LISTENERS.values(), ids=LISTENERS)
def test_call_that_hangs_after_the_signal_does_not_hold_the_end(tmp_path, listen):
    words = "has not answered for 0 s; this ends without it, as a signal says"
    assert words in last_words(tmp_path / "mount", WAITS, listen, signal.SIGINT)


def test_call_that_hangs_after_the_last_job_does_not_hold_the_end(tmp_path):
    begin = "watch.wait_while_jobs_run()"
    words = "has not answered for 0 s; this gives up. Start again"
    assert words in last_words(tmp_path / "mount", AT_END, begin)


def last_words(mount, script, begin, signum=None):
    """Return what a script prints that a mount holds at its end."""
    with hanging_mount(mount):
        process = subprocess.Popen(
            [sys.executable, "-c", script.format(begin=begin, path=str(mount / "a"))],
            env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=receive_signals,
        )
        assert process.stdout.readline() == "ready\n"
        if signum:
            process.send_signal(signum)
        output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    return output
