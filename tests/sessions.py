"""Commands that tests start: each with a session and signals of its own, and an end."""

import os
import signal
import subprocess
import time
from contextlib import suppress

_started: list[tuple[subprocess.Popen, str]] = []
_PATIENCE_S = 15  # for what is killed, to be cleaned up by those who see to that
HANG_S = 1200  # ends a test that hangs, on however busy a machine


def start(command, cwd, **options) -> subprocess.Popen:
    """Start a command as a terminal does, whatever the tests themselves ignore."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        start_new_session=True,
        preexec_fn=receive_signals,
        **options,
    )
    return begun(process, cwd)


def begun(process, cwd):
    """Return a process that has been started, which a test's end ends."""
    _started.append((process, str(cwd)))
    return process


def receive_signals() -> None:
    """Let signals end this process; shells and `nohup` have jobs ignore some."""
    for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)


def processes_in(folder) -> dict[int, str]:
    """Return {pid: command line} of the processes that work in a folder."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == str(folder):
                with open(f"/proc/{pid}/cmdline") as file:
                    found[int(pid)] = file.read().replace("\0", " ")
        except OSError:
            continue
    return found


def wait_until_ended(pid: int) -> None:
    """Wait until a process that was killed has ended; a zombie has."""
    end = time.monotonic() + HANG_S
    with suppress(OSError):  # it is gone
        while time.monotonic() < end:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] in "ZX":
                    return
            time.sleep(0.01)


def end_all() -> None:
    """End what was started and still runs, and what that has started in its folder."""
    while _started:
        process, folder = _started.pop()
        if process.poll() is not None:
            continue
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        end = time.monotonic() + _PATIENCE_S
        while processes_in(folder) and time.monotonic() < end:
            time.sleep(0.1)
        for pid in processes_in(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
