"""Commands that get our signals, with small processes and a terminal."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from sessions import HANG_S, receive_signals
from tierscope.core.processes.children import ENDING, end_child, listen
from tierscope.core.processes.times import children_of, descendants, start_time

SCRIPTS = Path(__file__).parents[4] / "workflow" / "scripts"
# It says which signals it gets, until the last one.
LISTENS = """\
import os, signal, sys
sys.path.insert(0, {scripts!r})
from tierscope.core.processes.children import ENDING, HELD_BACK
for signum in ENDING:
    signal.signal(signum, lambda number, _: os.write(1, b"got %d\\n" % number))
signal.signal(signal.SIGUSR1, lambda *_: sys.exit("end"))
signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
print("ready", flush=True)
while True:
    signal.pause()
"""
RUNS = """\
import sys
sys.path.insert(0, {scripts!r})
from tierscope.core.processes.children import run_passing_signals
sys.exit(run_passing_signals([sys.executable, "-c", sys.argv[1]]))
"""
# What it does while Python ends, no handler of a signal guards.
ENDS = """\
import atexit, os, sys
sys.path.insert(0, {scripts!r})
from tierscope.core.output.streams import run_and_exit
atexit.register(os.abort)
print("said")
run_and_exit(lambda: {code})
"""
SLEEPS = "import time; print('ready', flush=True); time.sleep(1000)"


def command_of(code):
    """Return a command that runs code in a child that gets its signals."""
    runs = RUNS.format(scripts=str(SCRIPTS))
    return [sys.executable, "-c", runs, code]


def start(command, **options):
    """Start a command in a session of its own, and wait until it is ready."""
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **{"preexec_fn": receive_signals} | options,
    )
    assert child.stdout.readline() == "ready\n"
    return child


def start_in_terminal(command):
    """Start a command as the first process of a terminal; return both."""
    master, slave = pty.openpty()

    def take_terminal():
        receive_signals()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    child = start(command, stdin=slave, preexec_fn=take_terminal)
    os.close(slave)
    return master, child


def check_got(child, signum):
    """Check that the command gets a signal once, and end it."""
    assert child.stdout.readline() == f"got {int(signum)}\n"
    child.send_signal(signal.SIGUSR1)  # is passed on after the other one
    assert child.communicate(timeout=HANG_S)[0] == ""
    assert child.returncode == 128 + signal.SIGUSR1  # of the last one


@pytest.mark.parametrize("signum", sorted(ENDING - {signal.SIGUSR1}))
def test_signal_to_the_outer_process_alone_reaches_the_command(signum):
    outer = start(command_of(LISTENS.format(scripts=str(SCRIPTS))))
    outer.send_signal(signum)
    check_got(outer, signum)


def test_ctrl_c_of_a_terminal_reaches_the_command_once():
    terminal, outer = start_in_terminal(
        command_of(LISTENS.format(scripts=str(SCRIPTS)))
    )
    os.write(terminal, b"\x03")
    check_got(outer, signal.SIGINT)
    os.close(terminal)


def test_terminal_that_is_closed_reaches_the_command():
    """Though the kernel tells the first process of the session only."""
    terminal, outer = start_in_terminal(
        command_of(LISTENS.format(scripts=str(SCRIPTS)))
    )
    os.close(terminal)
    check_got(outer, signal.SIGHUP)


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("print('end')", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(4)", 4, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
    ],
)
def test_rank_ends_at_once_with_its_status(code, status, words):
    """So no signal kills it while Python ends, and its launcher no other rank."""
    code = ENDS.format(scripts=str(SCRIPTS), code=code)
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout[:5]) == (status, "said\n")
    assert ended.stderr.endswith(words)
    assert bool(ended.stderr) == bool(words)


def test_status_is_that_of_the_command_as_a_shell_tells_it():
    for code, status in (("raise SystemExit(4)", 4), ("import os; os.abort()", 134)):
        assert subprocess.run(command_of(code), check=False).returncode == status


def test_what_a_command_leaves_is_asked_to_end():
    outer = start(["sh", "-c", f'{sys.executable} -c "$1" & wait', "sh", SLEEPS])
    (left,) = descendants(outer.pid)
    end_child(outer, None)
    assert outer.returncode == -signal.SIGTERM
    deadline_s = time.monotonic() + HANG_S
    while start_time(left) is not None:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_descendants_are_children_and_theirs():
    inner = """sh -c '"$1" -c "$2"; :' sh "$1" "$2"; :"""
    outer = start(["sh", "-c", inner, "sh", sys.executable, SLEEPS])
    (child,) = children_of(outer.pid)
    assert set(descendants(outer.pid)) == {child, *children_of(child)}
    assert len(descendants(outer.pid)) == 2
    os.killpg(outer.pid, signal.SIGKILL)
    outer.wait()
    assert descendants(outer.pid) == {}


def test_signals_that_are_ignored_stay_so(monkeypatch):
    set_to = {}
    monkeypatch.setattr(signal, "signal", lambda one, handler: set_to.update({one: 0}))
    ignored = signal.SIGHUP  # as after `nohup`
    monkeypatch.setattr(
        signal,
        "getsignal",
        lambda one: signal.SIG_IGN if one == ignored else signal.SIG_DFL,
    )
    listen(lambda *_: None)
    assert set(set_to) == ENDING - {ignored}
