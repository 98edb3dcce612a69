"""Run a launch: the site's setup and the ranks under MPI; then move its runs.

    python launch.py --log LOG --setup SHELL --mpi COMMAND --tasks N
        [--staging DIR --runs DIR --marker FILE] -- run_benchmark SCENARIO_JSON ...

After ``--`` come the name of a script in the folder of this one and its arguments. The
launch runs the script once with ``--prepare``; what this prints starts each rank. It
moves each complete run from the staging folder, before the ranks start and after they
have ended, also if they failed. If they did not, it writes the marker.

Only one launch runs in a folder at a time. A launch whose Snakemake was killed ends
first, because its ranks inherit the lock. The log says whom it waits for. With
``--submitted`` it is a batch job, whose nodes would idle during this wait. There the
start of Snakemake excludes another launch. No variable of a scheduler tells this, as
users start Snakemake within jobs of their own, too.
"""

import argparse
import errno
import fcntl
import glob
import os
import re
import secrets
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tierscope.benchmark.shared_memory import (
    files_in_memory,
    hold_note,
    remove_what_killed_launches_left,
)
from tierscope.core.files import errors_named, write_back, write_text
from tierscope.core.output.streams import say_beside
from tierscope.core.processes.calls import watch_calls
from tierscope.core.processes.children import end_child, end_once, listen
from tierscope.core.processes.times import TIME_FORMAT
from tierscope.core.words import error_words

LOCK = Path("results", ".launch")
COMPLETE = "run.json"  # the last file of a run
_MOST_LINES = 20  # of the ranks' messages about a failure
_POLL_S, _SAY_S = 0.2, 60.0  # between looks at the lock, and between lines about it
_MOST_BYTES = 200
_OF_OUTER_LAUNCHER = re.compile(
    "(OMPI_COMM_WORLD|PMI|PMIX)_(?!MCA_)"
    "|SLURM_(PROCID|LOCALID|NODEID|STEP_?ID)$|SLURMD_NODENAME$"
)
_RANKS = """\
set -euo pipefail
tierscope_ranks=("$@")
set --
{setup} && tierscope_start="$("${{tierscope_ranks[@]}}" --prepare)" &&
{mpi} -n {tasks} /bin/sh -c "$tierscope_start" tierscope "${{tierscope_ranks[@]}}"
"""
_STARTER = """\
set -euo pipefail
tierscope_starter=("$@")
set --
{setup} && exec "${{tierscope_starter[@]}}" --mpi {quoted_mpi} --tasks {tasks}
"""


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description="Run a site's setup and the ranks under MPI; then move their runs."
    )
    parser.add_argument("--log", type=Path, required=True, help="log of the launch")
    parser.add_argument("--setup", required=True, help="shell lines before the ranks")
    parser.add_argument("--mpi", required=True, help="launcher, shell text")
    parser.add_argument("--tasks", type=int, required=True, help="number of ranks")
    parser.add_argument("--staging", type=Path, help="folder of unfinished runs")
    parser.add_argument("--runs", type=Path, help="folder to move finished runs to")
    parser.add_argument("--marker", type=Path, help="file to write after a success")
    parser.add_argument(
        "--starts-ranks", action="store_true", help="the script starts the ranks itself"
    )
    parser.add_argument(
        "--submitted", action="store_true", help="this is a batch job of Snakemake's"
    )
    parser.add_argument("script", help="script in the folder of this one")
    parser.add_argument("arguments", nargs="*", help="its arguments")
    return parser.parse_args()


def main() -> None:
    """Launch the ranks, or say in a line which file cannot be written, and why."""
    arguments = parse_arguments()
    watch_calls()
    listen(end_once)
    try:
        launch(arguments)
    except OSError as error:
        line = f"tierscope: {error_words(error)}.\n"
        try:
            with arguments.log.open("a", encoding="utf-8") as log:
                log.write(line)
        except OSError:  # its disk is full
            say_beside(arguments.log, line)
        sys.exit(1)


def launch(arguments: argparse.Namespace) -> None:
    """Launch the ranks, and move the runs that are finished."""
    name = f"{os.getpid()}-{secrets.token_hex(8)}"
    script = Path(__file__).with_name(f"{arguments.script}.py")
    ranks = [sys.executable, str(script), "--launch", name, *arguments.arguments]
    template = _STARTER if arguments.starts_ranks else _RANKS
    shell = template.format(**vars(arguments), quoted_mpi=shlex.quote(arguments.mpi))
    with (
        removed_devices(f"{os.getuid()}-{name}"),
        arguments.log.open("wb", buffering=0) as output,
        one_launch_at_a_time(output, waits=not arguments.submitted) as lock,
        moved_runs(arguments),
    ):
        environ = os.environ if arguments.submitted else own_environment(os.environ)
        if not run_ranks(shell, ranks, arguments.log, lock, environ):
            sys.exit(1)
    if arguments.marker:
        write_text(arguments.marker, f"{' '.join(arguments.arguments)}\n")


def run_ranks(
    shell: str, ranks: list[str], log: Path, lock: int, environment: Mapping[str, str]
) -> bool:
    """Run the shell lines with the ranks' command as arguments; return success.

    All output goes into the log. If the launcher separates the ranks' output
    (`job.launcher`), their messages about a failure are copied into the log.
    """
    of_ranks = log.with_suffix(".rank")
    pattern = f"{glob.escape(str(of_ranks))}.*"
    for path in glob.glob(pattern):
        os.unlink(path)
    with log.open("ab", buffering=0) as output:
        # Ctrl-C also reaches the ranks; wait for their end.
        listen(lambda *_: None, [signal.SIGINT])
        command = ["bash", "-c", shell, "launch", *ranks]
        started = subprocess.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[lock],
        )
        try:
            status = started.wait()
        except BaseException:
            end_child(started, None)  # what it has started gets SIGTERM, too
            raise
        listen(end_once, [signal.SIGINT])
        if status:
            with errors_named(log):  # a log that takes no line has not taken theirs
                words = failures(sorted(glob.glob(pattern))) or b"\n"
                while words:  # a disk that is nearly full takes a part
                    words = words[output.write(words) :]
    return status == 0


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what an outer launcher calls its process.

    Our launcher numbers the ranks. The settings of MPI stay (``OMPI_MCA_...``).
    """
    return {k: one for k, one in environ.items() if not _OF_OUTER_LAUNCHER.match(k)}


def failures(paths: list[str]) -> bytes:
    """Return the first lines of output files in which ranks report a failure."""
    lines = (
        line
        for path in paths
        for line in Path(path).read_bytes().splitlines(keepends=True)
        if line.startswith(b"tierscope: ")
    )
    return b"".join(line for line, _ in zip(lines, range(_MOST_LINES), strict=False))


@contextmanager
def moved_runs(arguments: argparse.Namespace) -> Iterator[None]:
    """Move finished runs from the staging folder: those left there, then new ones."""
    if arguments.staging is None:
        yield
        return
    arguments.staging.mkdir(parents=True, exist_ok=True)
    move_finished(arguments.staging, arguments.runs)
    try:
        yield
    finally:
        move_finished(arguments.staging, arguments.runs)


def move_finished(staging: Path, runs: Path) -> None:
    """Move each complete run, write-protected; its last file comes last.

    So a run that has this file is whole, even if the move is interrupted. Settings of
    the tracer stay.
    """
    with locked(staging):  # a job whose Snakemake was killed may move as well
        for complete in sorted(staging.glob(f"cache-*/rep-*/{COMPLETE}")):
            staged = complete.parent
            run = runs / staged.relative_to(staging)
            run.mkdir(parents=True, exist_ok=True)
            (run / COMPLETE).unlink(missing_ok=True)
            tables = sorted(staged.glob("*.parquet"))
            if (logs := staged / "logs").is_dir():  # of a program
                for log in logs.iterdir():
                    log.chmod(log.stat().st_mode & ~0o222)
                shutil.rmtree(run / "logs", ignore_errors=True)
                logs.rename(run / "logs")
            for path in (staged / "log.darshan", *tables, complete):
                if path == complete:
                    write_back(run)  # a power cut leaves no run without its files
                if path.exists():  # otherwise an interrupted move has moved it
                    path.chmod(path.stat().st_mode & ~0o222)
                    path.rename(run / path.name)
            write_back(run)
            with suppress(OSError):  # something else is there
                staged.rmdir()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process has a folder locked, and lock it."""
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextmanager
def one_launch_at_a_time(log: BinaryIO, *, waits: bool) -> Iterator[int]:
    """Wait for any other launch in this folder, and hold the lock, a descriptor."""
    LOCK.parent.mkdir(exist_ok=True)  # results may lie elsewhere
    try:
        lock = open_lock(LOCK)
    except OSError as error:
        reason = f"{LOCK}: cannot be the lock of launches: {error.strerror}"
        log.write(f"tierscope: {reason}.\n".encode())
        sys.exit(1)
    try:
        if waits:
            take(lock, log)
        yield lock
    finally:
        os.close(lock)


def open_lock(path: Path) -> int:
    """Return the descriptor of a lock, a file that has no other name.

    We write into it, so a link there, which others may have made, ends the launch.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    lock = os.open(path, flags, 0o666)
    state = os.fstat(lock)
    if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
        raise OSError(errno.EINVAL, "is a link or no file, expected ours", str(path))
    return lock


def take(lock: int, log: BinaryIO) -> None:
    """Lock a file, and write into it who does; say now and then who else has it."""
    next_s = 0.0
    while not is_locked(lock):
        if (now_s := time.monotonic()) >= next_s:
            next_s = now_s + _SAY_S
            who = os.pread(lock, _MOST_BYTES, 0).decode(errors="replace")
            who = who if who.isprintable() else "unknown"  # others may write there
            with suppress(OSError):  # a full disk
                log.write(
                    f"waiting for another launch in this folder: {who}\n".encode()
                )
        time.sleep(_POLL_S)
    since = time.strftime(TIME_FORMAT)
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"that of process {os.getpid()}, since {since}".encode(), 0)


def is_locked(lock: int) -> bool:
    """Return whether we have a lock now, or nobody can, on a system without locks."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


@contextmanager
def removed_devices(launch: str) -> Iterator[None]:
    """Remove a launch's emulated devices at its end; killed ranks leave them behind.

    What launches have left of which all processes were killed is removed before.
    """
    remove_what_killed_launches_left()
    note = hold_note(launch)
    try:
        yield
    finally:
        if note is not None:
            os.close(note)
        for path in files_in_memory(launch):
            with suppress(OSError):
                os.unlink(path)


if __name__ == "__main__":
    main()
