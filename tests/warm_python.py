"""Run Snakemake, and the scripts of its jobs, in forks of a process that knows imports.

A start of Snakemake takes 0.6 s of processor time instead of 1.9 s, that of a script
0.1 s instead of 0.5 s, and the tests start both hundreds of times. Tests of signals,
kills and starts call the command itself, and so do jobs on Slurm and PJM.
"""

import ast
import atexit
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from contextlib import suppress
from pathlib import Path

import sessions
import shared

_COMMAND = Path(sys.executable).with_name("snakemake")
_SCRIPTS = Path(__file__).parents[1] / "workflow" / "scripts"
_CALLER = "impatient_snakemake.py"  # as the command, but for how often it asks Slurm
_LOOK_S = 2.0  # between two looks whether the tests still run
_WAKE_UPS = 4096  # read at once
_IMPORTS = [
    "docutils.core",
    "duckdb",
    "jinja2",
    "jsonschema",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_pdf",
    "matplotlib.backends.backend_svg",
    "numba",
    "pandas",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "scipy.optimize",
    "seaborn",
    "snakemake.report",
    "snakemake.script",
    "smart_open",
    "yte",
]
_STARTED: list[subprocess.Popen] = []


def installed_environment() -> dict[str, str]:
    """Return the environment of a command of the same installation as the tests'."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path}


def start(command, folder, environment) -> subprocess.Popen:
    """Start a command in a session of its own; what it prints can be read."""
    return sessions.start(
        command,
        folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


class Fork:
    """A program in a fork, with what of `subprocess.Popen` the tests use.

    Parameters
    ----------
    arguments : list of str
        Its `sys.argv`; Snakemake, or a script that calls it.
    folder : Path
        Where it runs.
    environment : dict
        Its environment.
    """

    def __init__(self, arguments, folder, environment):
        self.returncode: int | None = None
        self._output = tempfile.TemporaryFile("a+")
        streams = self._output.fileno(), self._output.fileno()
        words = arguments, folder, environment, streams
        self._connection = _ask(_address(), *words, calls_snakemake=True)
        self._answer = self._connection.makefile()
        self.pid = int(self._answer.readline())

    def poll(self) -> int | None:
        """Return the exit status, if there is one."""
        if self.returncode is None and self._has_ended(0):
            self.returncode = _exit_code(self._answer)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status."""
        if self.returncode is None and not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.poll()

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait for the end and return what was printed."""
        self.wait(timeout)
        self._output.seek(0)
        return self._output.read(), None

    def send_signal(self, signum: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, timeout: float | None) -> bool:
        """Wait for the end, which the server tells before it closes the connection."""
        return bool(select.select([self._connection], [], [], timeout)[0])


def fork(command, folder, environment) -> "Fork | subprocess.Popen":
    """Start a command, in a fork if that is the same; what it prints can be read."""
    if not (arguments := _forked(command, environment)):
        return start(command, folder, environment)
    return sessions.begun(Fork(arguments, folder, environment), folder)


def run(command, folder, environment) -> tuple[int, str]:
    """Run a command, snakemake in a fork; return its exit status and output."""
    process = fork(command, folder, environment)
    output, _ = process.communicate(timeout=sessions.HANG_S)
    if process.returncode < 0:  # of a hang, too: end what it has started
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, output


def _forked(command, environment) -> list[str]:
    """Return the arguments of a fork that is the same as a command; none: nothing is.

    That is Snakemake, or a script that calls it, unless something changes its Python.
    """
    if "COVERAGE_RUN" in os.environ:
        return []
    if shutil.which("snakemake", path=environment["PATH"]) != str(_COMMAND):
        return []
    names = {name for name in (*environment, *os.environ) if name.startswith("PYTHON")}
    if any(environment.get(name) != os.environ.get(name) for name in names):
        return []
    if command[0] == sys.executable and Path(command[1]).name == _CALLER:
        return command[1:]
    return [str(_COMMAND), *command[1:]] if command[0] == "snakemake" else []


def _address() -> str:
    """Return the address of the process that forks for all tests."""
    return str(shared.made_once("python", _start_server) / "socket")


def _start_server(folder: Path) -> None:
    """Start the process that forks, and wait until it is ready."""
    server = subprocess.Popen(
        [sys.executable, __file__, folder / "socket"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # no thread to fork
    )
    if not server.stdout.readline():
        raise RuntimeError(f"{__file__} ended with status {server.wait()}")
    _STARTED.append(server)  # which goes on after this process


def _ask(address, *words, calls_snakemake) -> socket.socket:
    """Ask for a program; return what tells its process id, and later its status.

    `words` are its arguments, folder and environment, and two descriptors.
    """
    arguments, folder, environment, streams = words
    request = {
        "arguments": arguments,
        "folder": str(folder),
        "environment": dict(environment),
        "calls_snakemake": calls_snakemake,
    }
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    socket.send_fds(connection, [b"\n"], streams)
    connection.sendall(json.dumps(request).encode() + b"\n")
    return connection


def _exit_code(answer) -> int:
    """Return the exit status of a program that is told to have ended."""
    return os.waitstatus_to_exitcode(int(answer.readline()))


def _run_script_in_fork(address, *words) -> int:
    """Run a script and return its exit status."""
    with _ask(address, *words, calls_snakemake=False) as connection:
        answer = connection.makefile()
        pid = int(answer.readline())
        code = _exit_code(answer)
    if code < 0:  # of a hang, too: end what it has started
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    return code


def _serve(address) -> None:
    """Run what is asked for, until the tests have ended."""
    del sys.path[0]  # this folder, which no program has
    for module in _IMPORTS:
        importlib.import_module(module)
    import snakemake.cli

    snakemake.cli.get_argument_parser()  # it imports all plugins
    _remember_syntax()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # Snakemake makes many objects and ends
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    print(flush=True)
    woken = _wake_up_when_a_program_ends()
    running: dict[int, socket.socket] = {}  # who waits for each program
    while not shared.has_ended():
        for ready in select.select([server, woken], [], [], _LOOK_S)[0]:
            if ready is server:
                connection, _ = server.accept()
                pid = _begin([server, *running.values()], connection, address)
                running[pid] = connection
            else:
                woken.recv(_WAKE_UPS)
                _tell_of_ends(running)


def _remember_syntax() -> None:
    """Let `ast.parse` know our files, of which each start of Snakemake parses all."""
    parse, known = ast.parse, {}

    def parse_unknown(source, *path, **options):
        is_file = isinstance(source, str) and not options
        return (is_file and known.get(source)) or parse(source, *path, **options)

    def parse_and_remember(source, *path):
        return known.setdefault(source, parse(source, *path))

    ast.parse = parse_and_remember
    sys.path.insert(0, str(_SCRIPTS))
    imports = importlib.import_module("tierscope.core.imports")
    for script in _SCRIPTS.glob("*.py"):
        imports.imported_modules(script)
    ast.parse = parse_unknown
    del sys.path[0]
    for name in [name for name in sys.modules if name.startswith("tierscope")]:
        del sys.modules[name]  # a program imports those of its own copy


def _wake_up_when_a_program_ends() -> socket.socket:
    """Return what can be read once a program has ended."""
    woken, writable = socket.socketpair()
    for end in (woken, writable):
        end.setblocking(False)
    signal.set_wakeup_fd(writable.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return woken


def _begin(others, connection, address) -> int:
    """Run a program in a fork, without the connections of others; return its id."""
    if pid := os.fork():
        with suppress(BrokenPipeError):
            connection.sendall(f"{pid}\n".encode())
        return pid
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for one in others:
        one.close()
    _, streams, _, _ = socket.recv_fds(connection, 1, 2)
    with connection, connection.makefile() as file:
        request = json.loads(file.readline())
    calls_snakemake = request.pop("calls_snakemake")
    _become(**request, streams=streams)
    _end(_run_snakemake if calls_snakemake else _run_script, address)


def _tell_of_ends(running) -> None:
    """Tell those who wait for a program its status."""
    with suppress(ChildProcessError):  # none runs
        while (end := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = end
            with running.pop(pid) as connection, suppress(BrokenPipeError):
                connection.sendall(f"{status}\n".encode())


def _become(arguments, folder, environment, streams) -> None:
    """Take the place of a command that has just been started."""
    os.setsid()
    sessions.receive_signals()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(sessions.HANG_S)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, stream in enumerate(streams, start=1):
        os.dup2(stream, descriptor)
    for stream in streams:
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = arguments


def _end(program, address) -> None:
    """Run a program and end; to clear the memory would take longer than most run."""
    status = 0
    try:
        program(address)
    except SystemExit as end:
        status = end.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run_snakemake(address) -> None:
    """Run Snakemake, or a script that calls it; its scripts run in forks, too."""
    import snakemake.cli
    from snakemake.script import PythonScript

    def execute_script(script, path, edit=False):
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        streams = sys.stdout.fileno(), sys.stderr.fileno()
        environment = os.environ | threads
        code = _run_script_in_fork(address, [path], os.getcwd(), environment, streams)
        if code:
            raise subprocess.CalledProcessError(code, [sys.executable, path])

    PythonScript.execute_script = execute_script
    if sys.argv[0] == str(_COMMAND):
        snakemake.cli.main()
    else:
        _run_script(address)


def _run_script(_address) -> None:
    """Run a script as Python does."""
    path = sys.argv[0]
    modules = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [str(Path(path).parent), *filter(None, modules)]
    main = types.ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    exec(compile(Path(path).read_bytes(), path, "exec"), main.__dict__)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
