"""A rank of a program's run: it waits for its node, and runs the command.

The first rank of a node prepares the node before, and keeps it meanwhile.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tierscope.benchmark.processes import BenchmarkError
from tierscope.benchmark.programs.meeting import Meeting
from tierscope.benchmark.programs.tracing import tracing_environment
from tierscope.core.files import write_text
from tierscope.core.output.streams import say
from tierscope.core.processes.children import end_child, end_with_parent

_POLL_S = 0.01
_LOOK_S = 1.0  # between looks whether another rank has failed
_GRACE_S = 10.0  # between the request to end and the end
HOOK = Path(__file__).with_name("hook")
_SCRIPTS = str(Path(__file__).parents[3])


def command_of(words: list[str], dataset: str) -> list[str]:
    """Return a command with the path of the dataset in place of ``{dataset}``."""
    return [word.replace("{dataset}", dataset) for word in words]


def environment_of(node: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a command on a prepared node.

    Its Python is in UTF-8 mode only if the user has asked for it; ours always is.
    """
    own = os.environ.get("TIERSCOPE_PYTHONUTF8", os.environ.get("PYTHONUTF8", ""))
    users = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    modules = [str(HOOK), *(one for one in users if one and one != _SCRIPTS)]
    environment = tracing_environment(node) | {
        "PYTHONUTF8": own,
        "TIERSCOPE_REDIRECT": node["table"],
        "TIERSCOPE_TRACE_OTHERS": os.path.dirname(node["table"]),
        "TIERSCOPE_HOOK_NOTES": node["notes"],
        "PYTHONPATH": os.pathsep.join(modules),
    }
    return {k: v for k, v in environment.items() if (k, v) != ("PYTHONUTF8", "")}


def run_command(
    command: list[str],
    environment: Mapping[str, str],
    most_s: float,
    step: Callable[[], None],
) -> int:
    """Run a command to its end, with a step of our own meanwhile.

    Returns its exit status, negative after a signal. A BenchmarkError says that it
    cannot be run or takes too long. An exception meanwhile ends it, and all that it has
    started. If this process is killed, so is the command.
    """
    with_parent = partial(end_with_parent, os.getpid())
    try:
        child = subprocess.Popen(
            command, env=environment, close_fds=False, preexec_fn=with_parent
        )
    except OSError as error:
        raise BenchmarkError(
            f"loader.command: got {command[0]!r}, expected a program: {error.strerror}"
        ) from error
    end_s = time.monotonic() + most_s
    try:
        while (status := child.poll()) is None:
            step()
            if time.monotonic() > end_s:
                raise BenchmarkError(
                    f"the program takes longer than {most_s / 60:g} min "
                    "(loader.minutes)."
                )
    except BaseException:
        end_child(child, _GRACE_S, left=signal.SIGKILL)
        raise
    return status


def wait_a_little() -> None:
    """Do what a rank without a node to keep does meanwhile."""
    time.sleep(_POLL_S)


def while_none_fails(step: Callable[[], None], meeting: Meeting) -> Callable[[], None]:
    """Return a step that raises an OtherFailed soon after another rank has failed."""
    next_s = 0.0

    def watched() -> None:
        nonlocal next_s
        step()
        if (now_s := time.monotonic()) >= next_s:
            next_s = now_s + _LOOK_S
            meeting.raise_if_failed()

    return watched


def note_end(meeting: Meeting, began_ns: int, status: int) -> None:
    """Write down how long the program of this rank ran, and how it ended."""
    facts = {
        "rank": meeting.rank,
        "began_ns": began_ns,
        "ended_ns": time.monotonic_ns(),
        "status": status,
    }
    write_text(meeting.shared / f"rank-{meeting.rank}.json", json.dumps(facts))


def status_words(status: int) -> str:
    """Return an exit status in words."""
    if status < 0:
        has_name = -status in set(signal.Signals)  # not each of real time
        return f"signal {signal.Signals(-status).name if has_name else -status}"
    return f"exit status {status}"


def fail(meeting: Meeting | None, line: str) -> None:
    """Print why this rank fails, and end it; the launcher ends the others.

    A rank that ends because another one has failed prints nothing.
    """
    if meeting is None or not meeting.has_failed():
        say(f"tierscope: {line}")
    if meeting:
        meeting.fail()
    sys.exit(1)
