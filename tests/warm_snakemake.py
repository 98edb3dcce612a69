"""Run Snakemake in forks of a process that has imported it.

A start takes 0.6 s of processor time instead of 1.9 s, and the tests start it hundreds
of times. Tests of signals, kills and starts call the command itself.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import sessions

_COMMAND = Path(sys.executable).with_name("snakemake")
_SERVER: list[subprocess.Popen] = []  # of this process, if it has been started


def can_run(command, environment) -> bool:
    """Return whether a fork is the same as the command: nothing changes its Python."""
    if "COVERAGE_RUN" in os.environ or command[0] != "snakemake":
        return False
    if shutil.which("snakemake", path=environment["PATH"]) != str(_COMMAND):
        return False
    names = {name for name in (*environment, *os.environ) if name.startswith("PYTHON")}
    return all(environment.get(name) == os.environ.get(name) for name in names)


def run(command, cwd, environment) -> tuple[int, str]:
    """Run a command of Snakemake to its end; return its exit status and output."""
    server = _server()
    with tempfile.TemporaryFile("w+") as output:
        request = {
            "arguments": [str(_COMMAND), *command[1:]],
            "folder": str(cwd),
            "environment": dict(environment),
            "output": f"/proc/{os.getpid()}/fd/{output.fileno()}",
        }
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        pid = int(server.stdout.readline())
        code = os.waitstatus_to_exitcode(int(server.stdout.readline()))
        if code < 0:  # of a hang, too: end what it has started
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        output.seek(0)
        return code, output.read()


def _server() -> subprocess.Popen:
    """Return the process that forks, started if it does not run."""
    if not _SERVER or _SERVER[0].poll() is not None:
        command = [sys.executable, __file__]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        _SERVER[:] = [subprocess.Popen(command, text=True, **pipes)]
    return _SERVER[0]


def _serve() -> None:
    """Answer each request with a process id and, when it has ended, its status."""
    del sys.path[0]  # this folder, which the command does not have
    import jsonschema  # noqa: F401
    import snakemake.cli
    import snakemake.report
    import snakemake.script

    snakemake.cli.get_argument_parser()  # it imports all plugins
    while request := sys.stdin.readline():
        if (pid := os.fork()) == 0:
            _become(**json.loads(request))
            snakemake.cli.main()
            return
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


def _become(arguments, folder, environment, output) -> None:
    """Take the place of a command that has just been started."""
    os.setsid()
    sessions.receive_signals()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(sessions.HANG_S)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_APPEND), descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = arguments


if __name__ == "__main__":
    _serve()
