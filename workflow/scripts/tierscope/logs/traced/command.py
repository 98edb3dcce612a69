"""Run any command under our tracer, and leave one Darshan log a process."""

import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Container, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tierscope.core.certificate import (
    Interference,
    Statement,
    doubted,
    interference_statements,
    line_of,
)
from tierscope.core.output.streams import say
from tierscope.core.processes.children import signals_held_back, wait_for
from tierscope.core.validation import ConfigError
from tierscope.core.words import count_words
from tierscope.logs.traced.call import (
    Call,
    Identity,
    left_folders,
    prepare_folder,
    this_call,
)
from tierscope.logs.traced.escapes import REASONS, escape_words, reason_of
from tierscope.logs.traced.library import tracer_library
from tierscope.logs.traced.trial import why_not_loaded

if TYPE_CHECKING:
    from tierscope.logs.traced.processes import TracedProcess

# Darshan's own, but /dev/shm and /var/tmp hold data. The longest prefix decides.
INCLUDED = ("/", "/dev/shm/", "/var/tmp/", "/var/opt/cray/dws/mounts/")
EXCLUDED = (
    "/etc/",
    "/dev/",
    "/usr/",
    "/bin/",
    "/boot/",
    "/lib/",
    "/lib64/",
    "/opt/",
    "/sbin/",
    "/sys/",
    "/proc/",
    "/var/",
)
NOT_FOUND, NOT_EXECUTABLE, FAILED = 127, 126, 125  # exit statuses, as those of `env`
_GRACE_S = 5  # for processes that outlive the command
_LOSS = re.compile(r"rank-\d+\.(\d+)\.(\d{1,4})\.incomplete")


def trace(command: Sequence[str], logs: Path, paths: Sequence[str] = ()) -> int:
    """Run a command and write a log of each of its processes that made calls.

    Without `paths` it traces what Darshan traces by default, and ``/dev/shm`` and
    ``/var/tmp``. The exit status is the command's, 128 + n if signal n has ended it. A
    ConfigError says why nothing can be traced or written.
    """
    library = tracer_library()
    for path in paths:
        _prefix(path)  # refuses before anything is made
    refuse_without_writer()
    call = this_call()
    _tell_of_killed_calls(logs)
    spools = make_spools(logs, call)
    with signals_held_back() as signals_released:
        environment = traced_environment(library, spools, paths)
        for path in paths:
            if not os.path.exists(path):
                _say(
                    f"--paths: {path} does not exist; it is traced if the command "
                    "makes a file or folder of this name."
                )
        if why := why_not_loaded(command, [library], environment, REASONS):
            _say(f"{why}: what it does will be in no log.")
        began_s = time.time()
        try:
            child = subprocess.Popen(
                command, env=environment, preexec_fn=signals_released
            )
        except OSError as error:
            shutil.rmtree(spools.parent, ignore_errors=True)
            _say(f"{command[0]}: {error.strerror}")
            missing = isinstance(error, FileNotFoundError)
            return NOT_FOUND if missing else NOT_EXECUTABLE
        wait_for(child)
        finished = replace(call, began_s=began_s, ended_s=time.time())
        started = Started(child.pid, command[0], library)
        _certify(write_logs(spools, logs, finished, started))
    status = child.returncode
    return 128 - status if status < 0 else status


def refuse_without_writer() -> None:
    """Import what writes logs, before a command that may run for hours.

    A ConfigError says what cannot be imported.
    """
    try:
        import_module("tierscope.logs.traced.processes")
    except (ImportError, OSError) as error:
        raise ConfigError(
            f"{sys.prefix}: cannot write Darshan logs: {error}; expected the packages "
            "that tierscope is installed with."
        ) from error


def recover(folder: Path) -> int:
    """Write the logs of calls that were killed before they wrote them.

    The folder is that of the logs, or the hidden one that a call has left. Returns 0,
    or `FAILED` if a log is missing that another try may give. A ConfigError says that
    there is nothing to recover, or that the call may still run.
    """
    left = left_folders(folder)
    if not left:
        raise ConfigError(
            f"--recover: got {str(folder)!r}, expected a folder of logs in which a "
            "killed call of `tierscope trace` has left its counts (.tierscope-...)."
        )
    is_named = [spools.parent for spools, _ in left] == [folder]
    ended = [
        (spools, call)
        for spools, call in left
        if not call.may_run() or (is_named and call.host != os.uname().nodename)
    ]
    if not ended:
        spools, call = left[0]
        is_here = call.host == os.uname().nodename
        raise ConfigError(
            f"--recover: {spools.parent} is of process {call.pid} on {call.host}"
            + (", which still runs." if is_here else "; if it has ended, name it.")
        )
    ends = [write_logs(spools, spools.parents[1], call) for spools, call in ended]
    for one in ends:
        _certify(one)
    return 0 if all(one.is_whole for one in ends) else FAILED


def _tell_of_killed_calls(logs: Path) -> None:
    """Say which calls were killed before they wrote their logs."""
    for spools, call in left_folders(logs):
        if not call.may_run():
            _say(
                f"{spools.parent} holds the counts of a call that was killed; "
                f"`tierscope trace --recover {shlex.quote(str(logs))}` writes its logs."
            )


def make_spools(logs: Path, call: Call) -> Path:
    """Return a new folder for the counts of a call, below a hidden one beside its logs.

    A ConfigError says that no file can be made there.
    """
    hidden = None
    try:
        logs.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(prefix=".tierscope-", dir=logs)).absolute()
        spools = hidden / secrets.token_hex(8)
        prepare_folder(spools, call)
    except OSError as error:
        if hidden:
            shutil.rmtree(hidden, ignore_errors=True)
        raise ConfigError(
            f"--logs: got {str(logs)!r}, expected a folder in which files can be made "
            f"({error.strerror})."
        ) from error
    return spools


def traced_environment(
    library: Path, spools: Path, paths: Sequence[str], before: Sequence[Path] = ()
) -> dict[str, str]:
    """Return the environment in which a command and its children are traced.

    Libraries of `before` stand before the tracer.
    """
    preloaded = filter(
        None, [*map(str, before), str(library), os.environ.get("LD_PRELOAD")]
    )
    return os.environ | {
        "LD_PRELOAD": ":".join(preloaded),
        "TIERSCOPE_TRACE_SPOOL": str(spools),
        "TIERSCOPE_TRACE_RANK": "0",
        "TIERSCOPE_TRACE_PREFIXES": "\n".join(
            map(_prefix, paths) if paths else INCLUDED
        ),
        "TIERSCOPE_TRACE_EXCLUDED": "" if paths else "\n".join(EXCLUDED),
        "TIERSCOPE_TRACE_PROCESSES": "1",
        "TIERSCOPE_TRACE_OTHERS": "",  # not of a sweep in which this runs
    }


def _prefix(path: str) -> str:
    """Return what names a file or folder, and all that is in the folder."""
    if not path or "\n" in path:
        raise ConfigError(f"--paths: got {path!r}, expected a path without new lines.")
    return f"{os.path.abspath(path).rstrip('/')}/"


class End(NamedTuple):
    """The end of a call: what is known of its processes.

    It is not whole if another try may give more logs.
    """

    is_whole: bool
    interference: Interference
    certificate: list[Statement]


class Started(NamedTuple):
    """A command that was started with a tracer."""

    pid: int
    program: str
    library: Path

    def why_unseen(self, logs: Path) -> str:
        """Return why it has not loaded the tracer."""
        reason = reason_of(self.program, self.library)
        reason = reason or f"cannot read {self.library}, or cannot write to {logs}"
        return f"the command did not load the tracer: it {reason}."


def write_logs(
    spools: Path,
    logs: Path,
    call: Call,
    started: Started | None = None,
    own: Container[Identity] = (),
    keep: bool = False,
) -> End:
    """Write the logs of a call, and say what they hold.

    The counts are removed, unless another try may give more, or the caller needs them
    (`keep`). Processes of tierscope's `own` have logs, but are not those of which the
    end tells.
    """
    # Not at the head: numpy and others take half a second.
    from tierscope.logs.traced.certificate import bytes_statement
    from tierscope.logs.traced.processes import (
        interference_of,
        write_process_logs,
    )

    processes, unread = _ended_processes(spools)
    written, losses, may_succeed, counted = write_process_logs(processes, logs, call)
    may_succeed |= bool(unread)
    losses += [*unread, *_loss_words(spools)]
    if started and not any(one.pid == started.pid for one in processes):
        losses.append(started.why_unseen(logs))
    losses += escape_words(
        escape for one in processes if one.identity not in own for escape in one.escapes
    )
    losses += _running_words([one.pid for one in processes if one.still_runs()])
    silent = sum(not one.spools for one in processes)
    _say(f"{_written_words(len(written), logs, silent, len(processes))}.")
    for loss in losses:
        _say(loss)
    if may_succeed:
        _say(
            f"the counts stay in {spools.parent}; `tierscope trace --recover "
            f"{shlex.quote(str(logs))}` tries again."
        )
    elif not keep:
        shutil.rmtree(spools.parent, ignore_errors=True)
    others = [one for one in processes if one.identity not in own]
    seen = replace(interference_of(others, counted), is_whole=not losses)
    of_bytes = bytes_statement([counted[one] for one in others if one in counted])
    unknown = "No process has loaded the tracer."
    certificate = [of_bytes, *interference_statements(seen, unknown)]
    n_silent_ends = sum(one.ended_ns is None for one in others)
    if not seen.is_whole or n_silent_ends:
        certificate = [doubted(one, _end_words(n_silent_ends)) for one in certificate]
    return End(not may_succeed, seen, certificate)


def _ended_processes(spools: Path) -> "tuple[list[TracedProcess], list[str]]":
    """Return the processes after some seconds to end, and why they are not known."""
    from tierscope.logs.traced.processes import read_processes

    deadline_s = time.monotonic() + _GRACE_S
    try:
        processes = read_processes(spools)
        while time.monotonic() < deadline_s and any(p.still_runs() for p in processes):
            time.sleep(0.05)
            processes = read_processes(spools)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
        return [], [f"the processes are not known: {reason}."]
    return processes, []


def _written_words(n_written: int, logs: Path, n_silent: int, n_processes: int) -> str:
    """Return how many logs there are, and how many processes have none."""
    words = f"{n_written} log{'s' * (n_written != 1)} in {logs}"
    if not n_silent:
        return words
    who = f"{n_silent} of {n_processes} processes"
    who = who if n_processes > 1 else "its only process"
    return f"{words}; {who} recorded no call on a traced path"


def _running_words(running: Sequence[int]) -> list[str]:
    """Return that processes have outlived the command and its grace, if any have."""
    if not running:
        return []
    if len(running) == 1:
        return [f"process {running[0]} still runs: its later calls are in no log."]
    return [
        f"{len(running)} processes still run (such as {running[0]}): their later calls "
        "are in no log."
    ]


def _end_words(n_silent: int) -> str:
    """Return that processes were killed, or lost sight of, if any were."""
    if not n_silent:
        return ""
    who = count_words(n_silent, "process", "processes")
    return f"{who} did not tell an end: killed, or unable to reach our folder"


def _certify(end: End) -> None:
    """Say where the bytes of a call came from, and who interfered."""
    for one in end.certificate:
        _say(line_of(one))


def _loss_words(spools: Path) -> list[str]:
    """Return what the files say that processes make if they cannot record any call."""
    found = (_LOSS.fullmatch(path.name) for path in sorted(spools.glob("*/*")))
    return [
        f"process {one[1]} could not record its calls ({os.strerror(int(one[2]))}): "
        "no log."
        for one in found
        if one
    ]


def _say(line: str) -> None:
    """Print a line; the command's own output stays as it is."""
    say(f"tierscope trace: {line}")
