"""System calls on paths that do not return: they are named, and then given up.

A file system whose server does not answer holds each call on it, and no exception comes
of that. So a thread looks now and then which system call each thread of its process is
in, as the kernel tells (proc_pid_syscall(5)). This costs the calls nothing, and they
may be those of any library.
"""

import atexit
import math
import os
import platform
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tierscope.core.output.streams import say
from tierscope.core.processes.times import descendants
from tierscope.core.words import printable

# By which a job is told to end: a scheduler may choose any of them.
ENDING = {
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
}
SAY_S = 60.0  # until a call that does not return is named
GIVE_UP_S = 600.0  # until it ends the process: file systems fail over in minutes
SYNC_PATIENCE = 6  # times as long for a sync of all that a node has in memory
_LOOK_S = 5.0
SIGNAL_S = 10.0 - _LOOK_S  # until it does so once a signal that ends was seen
_HEED_S = 120.0  # after a signal, in which that holds; jobs end meanwhile
_MOST_BYTES = 4096  # of a path
_HERE = -100  # AT_FDCWD
# Devices wait, too; memory does not hang, but links in it lead elsewhere.
_LIVE = re.compile("/(proc|sys|dev(?!/shm))/")
# System calls whose first argument is a descriptor, a path, or the folder of a path.
_NUMBERS = {
    "x86_64": (
        "0 1 3 5 17 18 19 20 74 75 77 78 91 138 217 285 295 296 306 326",
        "2 4 6 21 76 82 83 84 85 86 87 88 89 90 92 137 191 192",
        "257 258 262 263 264 265 267 268 269 280 316 332 437 439",
    ),
    "aarch64": (
        "44 46 47 52 57 61 63 64 65 66 67 68 69 70 80 82 83 267 285",
        "5 6 8 9 43 45",
        "33 34 35 37 38 48 53 54 56 78 79 88 276 291 437 439",
    ),
}
_SYNCS = {"x86_64": {74, 75, 306}, "aarch64": {82, 83, 267}}.get(platform.machine(), ())
_OF_FILE, _OF_PATH, _IN_FOLDER = (
    frozenset(map(int, numbers.split()))
    for numbers in _NUMBERS.get(platform.machine(), ("", "", ""))
)


class PathCall(NamedTuple):
    """A system call of a thread on a path; another call of the thread differs.

    It is waited for `patience` times as long as others.
    """

    pid: int
    thread: int
    path: str
    state: tuple[str, ...]
    patience: int = 1


class Waiting(NamedTuple):
    """Since when a thread is in a call, and how often that was said."""

    call: PathCall
    since_s: float
    n_said: int


def calls_of(pid: int) -> Iterator[PathCall]:
    """Yield the calls on paths that the threads of a process are in."""
    with suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError, ValueError, IndexError):
                folder = f"/proc/{pid}/task/{thread}"
                line = Path(folder, "syscall").read_text("ascii")
                number, *arguments = (int(word, 0) for word in line.split())
                path = _path(folder, number, arguments)
                if path and not _LIVE.match(path):
                    state = (line, *_work_done(folder))
                    patience = SYNC_PATIENCE if number in _SYNCS else 1
                    yield PathCall(pid, int(thread), path, state, patience)


class _Taken:
    """Signals that this process has taken, noted before a handler of Python runs.

    It runs in the main thread only, which a call may hold, though another thread has
    taken the signal. Forks of this process note nothing here. A signal is heeded for a
    while, as Snakemake may go on to wait for batch jobs.
    """

    def __init__(self) -> None:
        self._numbers, numbers = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._last_s = -math.inf
        with suppress(ValueError):  # only the main thread may ask
            signal.set_wakeup_fd(numbers, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=partial(signal.set_wakeup_fd, -1))

    def has_ending(self) -> bool:
        """Return whether one of the latest is among those that tell a job to end."""
        with suppress(BlockingIOError):  # no news
            if not ENDING.isdisjoint(os.read(self._numbers, _MOST_BYTES)):
                self._last_s = time.monotonic()
        return time.monotonic() - self._last_s < _HEED_S


def _has_pending_end() -> bool:
    """Return whether such a signal waits for a call to return."""
    text = Path("/proc/self/status").read_text("utf-8", "replace")
    words = dict(line.split(":", 1) for line in text.splitlines())
    waiting, blocked = int(words["ShdPnd"], 16), int(words["SigBlk"], 16)
    waiting |= int(words["SigPnd"], 16)
    return any((waiting & ~blocked) >> (signum - 1) & 1 for signum in ENDING)


def _path(folder: str, number: int, arguments: list[int]) -> str | None:
    """Return the path of a call, None if it has none; links are not followed."""
    if number in _OF_FILE:
        file = f"{folder}/fd/{arguments[0]}"
        if not os.path.lexists(file):
            return f"a file that is being closed (descriptor {arguments[0]})"
        return path if (path := os.readlink(file)).startswith("/") else None
    if number in _OF_PATH:
        return _beside(f"{folder}/cwd", _text(folder, arguments[0]))
    if number in _IN_FOLDER:
        place = (arguments[0] & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)  # an int of C
        link = "cwd" if place == _HERE else f"fd/{place}"
        return _beside(f"{folder}/{link}", _text(folder, arguments[1]))
    return None


def _beside(link: str, path: str) -> str:
    """Return a path that is relative to where a link of the kernel leads."""
    return path if path.startswith("/") else os.path.join(os.readlink(link), path)


def _text(folder: str, address: int) -> str:
    """Return the text at an address of a process."""
    with open(f"{folder}/mem", "rb", buffering=0) as memory:
        in_page = -address % _MOST_BYTES or _MOST_BYTES
        content = os.pread(memory.fileno(), in_page, address)
        if b"\0" not in content:  # it goes on in the next page
            content += os.pread(memory.fileno(), _MOST_BYTES, address + len(content))
    return os.fsdecode(content.partition(b"\0")[0])


def _work_done(folder: str) -> list[str]:
    """Return what changes if a thread comes back from a call: its times and calls."""
    text = Path(folder, "stat").read_text("utf-8", "replace")
    done = text.rpartition(")")[2].split()[11:13]
    with suppress(OSError):  # a kernel that does not count them
        lines = Path(folder, "io").read_text("ascii").splitlines()
        done += [line for line in lines if line.startswith("sysc")]
    return done


class CallWatch:
    """Notes calls that do not return.

    Parameters
    ----------
    roots : iterable of str
        Folders on which calls of processes that come from this one count, too.
    say_s, give_up_s : float
        After how long a call is named, again and again, and after how long given up.
    taken : _Taken, optional
        The signals of this process.
    """

    def __init__(
        self,
        roots: Iterable[str] = (),
        say_s: float = SAY_S,
        give_up_s: float = GIVE_UP_S,
        taken: _Taken | None = None,
    ):
        self.roots = tuple(map(str, roots))
        self._say_s, self._give_up_s, self._taken = say_s, give_up_s, taken
        self._waiting: dict[int, Waiting] = {}  # by thread
        self._told_s: float | None = None  # since when a signal tells us to end

    def give_up_after(self, time_s: float) -> None:
        """Wait longer for a call, or not so long."""
        self._give_up_s = time_s

    def wait_while_jobs_run(self) -> None:
        """Only name calls, until this process ends: those that come then end it."""
        self.give_up_after(math.inf)
        atexit.register(self.give_up_after, SAY_S)

    def look(self, now_s: float) -> tuple[list[str], str | None]:
        """Return lines on calls that do not return, and why to give up, if so."""
        before, self._waiting, lines = self._waiting, {}, []
        is_told = (self._taken and self._taken.has_ending()) or _has_pending_end()
        self._told_s = (self._told_s or now_s) if is_told else None
        for call in self._calls():
            known = before.get(call.thread)
            if known is None or known.call != call:
                known = Waiting(call, now_s, 0)
            waited_s = now_s - known.since_s
            words = self._words(call, waited_s)
            if reason := self._why_over(known, now_s):
                return lines, f"{words}{reason}"
            if waited_s >= self._say_s * (known.n_said + 1):
                known = known._replace(n_said=int(waited_s / self._say_s))
                lines.append(f"{words}; {self._what_comes(call)}.")
            self._waiting[call.thread] = known
        return lines, None

    def _calls(self) -> Iterator[PathCall]:
        """Yield the calls that count."""
        pid, own = os.getpid(), threading.get_native_id()
        yield from (call for call in calls_of(pid) if call.thread != own)
        if self.roots:
            for child in descendants(pid):
                yield from (call for call in calls_of(child) if self._counts(call))

    def _counts(self, call: PathCall) -> bool:
        """Return whether a path of another process is below one of the roots."""
        return any(f"{call.path}/".startswith(f"{root}/") for root in self.roots)

    def _words(self, call: PathCall, waited_s: float) -> str:
        """Return which path does not answer, for how long."""
        whose = "" if call.pid == os.getpid() else f" process {call.pid}"
        return f"{printable(call.path)}: has not answered{whose} for {waited_s:.0f} s"

    def _why_over(self, waiting: Waiting, now_s: float) -> str | None:
        """Return why a call is given up, None if it is waited for."""
        since_s = waiting.since_s
        told_s = now_s if self._told_s is None else max(self._told_s, since_s)
        if now_s - told_s >= SIGNAL_S:
            return "; this ends without it, as a signal says"
        if now_s - since_s >= self._give_up_s * waiting.call.patience:
            return "; this gives up. Start again when its file system answers"
        return None

    def _what_comes(self, call: PathCall) -> str:
        """Return in words how long a call is waited for."""
        if (patience_s := self._give_up_s * call.patience) == math.inf:
            return "this waits for it until a signal (Ctrl-C) ends it"
        return f"this gives up after {patience_s:.0f} s"


def end_here(reason: str) -> None:
    """End this process and what comes from it; its own calls may never return."""
    _say_aside(f"tierscope: {reason}.")
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    os._exit(1)


def watch_calls(
    end: Callable[[str], None] = end_here, roots: Iterable[str] = ()
) -> CallWatch:
    """Watch the calls of this process from now on, in a thread.

    Parameters
    ----------
    end : callable of str
        Takes why a call is given up, in that thread, and ends the process.
    roots : iterable of str
        As of `CallWatch`.

    Returns
    -------
    CallWatch
        Its patience and its `roots` may be changed.
    """
    watch = CallWatch(roots, taken=_Taken())
    # Signals are for the threads that this process has without this one.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    threading.Thread(
        target=_look_on, args=(watch, end), name="calls", daemon=True
    ).start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return watch


def _look_on(watch: CallWatch, end: Callable[[str], None]) -> None:
    """Look now and then."""
    while True:
        time.sleep(_LOOK_S)
        lines, reason = watch.look(time.monotonic())
        for line in lines:
            _say_aside(f"waiting for {line}")
        if reason:
            end(reason)
            return


def _say_aside(line: str) -> None:
    """Say a line in a thread, which may hang on the log."""
    thread = threading.Thread(target=say, args=(line,), daemon=True)
    thread.start()
    thread.join(1.0)
