"""Commands that this process starts: they get its signals, and leave nothing behind."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tierscope.core.output.streams import say
from tierscope.core.processes.calls import ENDING, calls_of
from tierscope.core.processes.times import descendants, start_time
from tierscope.core.words import printable

HELD_BACK = {*ENDING, signal.SIGCHLD}
_PR_SET_PDEATHSIG = 1  # of prctl(2)
_RELEASE_S = 10.0  # in which the kernel releases a process that was killed
_KEYS = (signal.SIGINT, signal.SIGQUIT)  # a terminal sends them to the command as well
_FROM_KERNEL = 0x80  # si_code of what a terminal sends


def listen(
    handler: Callable[[int, Any], Any] | signal.Handlers,
    signals: Iterable[signal.Signals] = ENDING,
) -> None:
    """Let a handler take signals, but those that this process was told to ignore.

    So `nohup` and jobs in the background stay what they are.
    """
    for signum in signals:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, handler)


def end_once(signum: int, frame: Any) -> None:
    """Raise SystemExit at the first signal that ends; more may come meanwhile."""
    listen(lambda *_: None)
    sys.exit(128 + signum)


@contextmanager
def signals_held_back() -> Iterator[Callable[[], object]]:
    """Hold back the signals that `wait_for` passes on, until the end.

    Yields what a command calls before its start (`preexec_fn`), to get its signals.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    try:
        yield lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before)
    finally:
        while signal.sigtimedwait(ENDING, 0):
            pass  # came after the end of the command
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_passing_signals(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> int:
    """Run a command that gets our signals; return its exit status as a shell does.

    If a signal told us to end, the status is that of the signal. The command starts
    with the signals `HELD_BACK`, and releases them when it is ready for them.
    """
    with signals_held_back():
        child = subprocess.Popen(command, env=environment)
        signum = wait_for(child)
    status = child.returncode
    return 128 + signum if signum else 128 - status if status < 0 else status


def wait_for(child: subprocess.Popen) -> int | None:
    """Wait until a command ends; signals to us go to it, unless it has them, too.

    Returns the last one that we got.
    """
    signum = None
    while child.poll() is None:
        got = signal.sigwaitinfo(HELD_BACK)
        if got.si_signo in ENDING:
            signum = got.si_signo
            if signum not in _KEYS or got.si_code != _FROM_KERNEL:
                child.send_signal(signum)
    return signum


def end_child(
    child: subprocess.Popen,
    patience_s: float | None,
    left: signal.Signals = signal.SIGTERM,
) -> None:
    """End a command, if needed after a while by force.

    What it had started gets signal `left` if it goes on without it.
    """
    family = descendants(child.pid)
    child.terminate()
    try:
        child.wait(patience_s)
    except subprocess.TimeoutExpired:
        kill(child)
    for pid, ticks in family.items():
        if start_time(pid) == ticks:
            with suppress(OSError):
                os.kill(pid, left)


def kill(child: subprocess.Popen) -> None:
    """Kill a command and wait for its end, unless a file system holds it: say which.

    Nothing ends such a process until the file system answers.
    """
    child.kill()
    try:
        child.wait(_RELEASE_S)
    except subprocess.TimeoutExpired:
        paths = sorted({call.path for call in calls_of(child.pid)}) or ["unknown"]
        say(
            f"tierscope: process {child.pid} was killed, but the kernel does not "
            f"release it from a call on {', '.join(map(printable, paths))}: this goes "
            "on without it."
        )


def end_with_parent(parent: int, signum: int = signal.SIGKILL) -> None:
    """Let this process get a signal when its parent ends, even if that is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:  # the parent was killed before
        os._exit(1)
