"""Run any command under our tracer, and leave one Darshan log a process."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tierscope.core.validation import ConfigError
from tierscope.jobs.traced.library import tracer_library

# Darshan's own, but /dev/shm and /var/tmp hold data. The longest prefix decides.
INCLUDED = ("/", "/dev/shm/", "/var/tmp/", "/var/opt/cray/dws/mounts/")
EXCLUDED = (
    *("/etc/", "/dev/", "/usr/", "/bin/", "/boot/", "/lib/", "/lib64/", "/opt/"),
    *("/sbin/", "/sys/", "/proc/", "/var/"),
)
NOT_FOUND, NOT_EXECUTABLE, FAILED = 127, 126, 125  # exit statuses, as those of `env`
JOB_VARIABLES = (
    *("SLURM_JOB_ID", "PJM_JOBID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID"),
    *("FLUX_JOB_ID", "JOB_ID"),
)
# Of each process that a launcher has started.
LAUNCHED = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_STEP_ID")
_FORWARDED = {
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2),
}
_FROM_KERNEL = 0x80  # si_code of what a terminal sends, to the command as well
_GRACE_S = 5  # for processes that outlive the command


def trace(command: Sequence[str], logs: Path, paths: Sequence[str] = ()) -> int:
    """Run a command and write a log of each of its processes that made calls.

    Parameters
    ----------
    command : sequence of str
    logs : Path
        Folder of the logs.
    paths : sequence of str
        Files and folders to trace; if none, what Darshan traces by default, and
        ``/dev/shm`` and ``/var/tmp``.

    Returns
    -------
    int
        Exit status of the command, 128 + n if signal n has ended it.

    Raises
    ------
    ConfigError
        If nothing can be traced, or the logs cannot be written.
    """
    library = tracer_library()
    try:
        logs.mkdir(parents=True, exist_ok=True)
        spools = Path(tempfile.mkdtemp(prefix=".tierscope-", dir=logs)).absolute()
    except OSError as error:
        raise ConfigError(
            f"--logs: got {str(logs)!r}, expected a folder in which files can be made "
            f"({error.strerror})."
        ) from error
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
    try:
        environment = _environment(library, spools, paths)
        for path in paths:
            if not os.path.exists(path):
                _say(
                    f"--paths: {path} does not exist; it is traced if the command "
                    "makes a folder of this name."
                )
        began_s = time.time()
        try:
            child = subprocess.Popen(
                command,
                env=environment,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, signals),
            )
        except OSError as error:
            _say(f"{command[0]}: {error.strerror}")
            missing = isinstance(error, FileNotFoundError)
            return NOT_FOUND if missing else NOT_EXECUTABLE
        _wait(child)
        _write_logs(spools, logs, child.pid, (began_s, time.time()))
    finally:
        shutil.rmtree(spools, ignore_errors=True)
        while signal.sigtimedwait(_FORWARDED, 0):
            pass  # came while the logs were written
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    status = child.returncode
    return 128 - status if status < 0 else status


def _environment(library: Path, spools: Path, paths: Sequence[str]) -> dict[str, str]:
    """Return the environment in which the command and its children are traced."""
    preloaded = filter(None, [str(library), os.environ.get("LD_PRELOAD")])
    return os.environ | {
        "LD_PRELOAD": ":".join(preloaded),
        "TIERSCOPE_TRACE_SPOOL": str(spools),
        "TIERSCOPE_TRACE_RANK": "0",
        "TIERSCOPE_TRACE_PREFIXES": "\n".join(
            map(_prefix, paths) if paths else INCLUDED
        ),
        "TIERSCOPE_TRACE_EXCLUDED": "" if paths else "\n".join(EXCLUDED),
        "TIERSCOPE_TRACE_PROCESSES": "1",
    }


def _prefix(path: str) -> str:
    """Return how the paths of a file, or of all files in a folder, begin."""
    if not path or "\n" in path:
        raise ConfigError(f"--paths: got {path!r}, expected a path without new lines.")
    absolute = os.path.abspath(path)
    return absolute if os.path.isfile(absolute) else f"{absolute.rstrip('/')}/"


def _wait(child: subprocess.Popen) -> None:
    """Wait until a command ends; signals to us go to it, unless it has them, too."""
    while child.poll() is None:
        got = signal.sigwaitinfo({*_FORWARDED, signal.SIGCHLD})
        if got.si_signo in _FORWARDED and got.si_code != _FROM_KERNEL:
            child.send_signal(got.si_signo)


def _write_logs(
    spools: Path, logs: Path, command_pid: int, times_s: tuple[float, float]
) -> None:
    """Write the logs of a command that began and ended then, and say what they hold."""
    # After the command: numpy and others take half a second.
    from tierscope.jobs.traced.processes import (
        Call,
        read_processes,
        write_process_logs,
    )
    from tierscope.trace.tracer import mount_table

    deadline_s = time.monotonic() + _GRACE_S
    processes = read_processes(spools)
    while any(one.still_runs() for one in processes) and time.monotonic() < deadline_s:
        time.sleep(0.05)
        processes = read_processes(spools)
    job_id, group = job_and_group(os.environ, os.getpid(), os.getppid())
    call = Call(_user(), group, job_id, mount_table(), *times_s)
    written, losses = write_process_logs(processes, logs, call)
    losses += [
        f"process {path.name.split('.')[1]} could not record its calls: no log."
        for path in sorted(spools.glob("*/*.incomplete"))
    ]
    if not any(one.pid == command_pid for one in processes):
        losses.append(
            "the command did not load the tracer: it is linked statically, changes its "
            "user, or is of another architecture."
        )
    if running := [one.pid for one in processes if one.still_runs()]:
        losses.append(
            f"process {running[0]} still runs: its later calls are in no log."
            if len(running) == 1
            else f"{len(running)} processes still run (such as {running[0]}): their "
            "later calls are in no log."
        )
    n, silent = len(processes), sum(not one.spools for one in processes)
    who = f"{silent} of {n} processes" if n > 1 else "its only process"
    without = f"; {who} made no call on a traced path" if silent else ""
    _say(f"{len(written)} log{'s' * (len(written) != 1)} in {logs}{without}.")
    for loss in losses:
        _say(loss)


def job_and_group(environ: Mapping[str, str], pid: int, parent: int) -> tuple[int, str]:
    """Return the job's id and what the logs of a call have in common.

    A launcher may start ``tierscope trace`` once a rank: then the group is the
    launcher's, if it runs on one machine or a scheduler knows it.

    Parameters
    ----------
    environ : mapping of str to str
    pid, parent : int
        This process and the one that has started it.
    """
    is_launched = any(name in environ for name in LAUNCHED)
    caller = parent if is_launched else pid
    found = (re.match(r"\d+", environ.get(name, "")) for name in JOB_VARIABLES)
    job = next(filter(None, found), None)
    job_id = int(job[0]) if job else caller
    if job and environ.get("SLURM_STEP_ID"):
        return job_id, f"{job_id}.{environ['SLURM_STEP_ID']}"
    name = f"{os.uname().nodename}-{caller}"
    return job_id, name if is_launched else f"{name}-{time.time_ns() // 10**6}"


def _user() -> str:
    """Return the user's name, or number if it has none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _say(line: str) -> None:
    """Print a line; the command's own output stays as it is."""
    print(f"tierscope trace: {line}", file=sys.stderr, flush=True)
