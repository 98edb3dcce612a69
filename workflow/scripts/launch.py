"""Run a launch: the site's setup and the ranks under MPI; then move its run.

    python launch.py --log LOG --setup SHELL --mpi COMMAND --tasks N
        [--staged DIR --run DIR] -- run_benchmark SCENARIO_JSON ... POINT ...

After ``--`` come the name of a script in the folder of this one and its arguments. The
launch runs the script once with ``--prepare``; what this prints starts each rank. If a
launch leaves its runs in a staging folder, a run that is already there is only moved.

Only one launch runs in a folder at a time. A launch whose Snakemake was killed ends
first, because its ranks inherit the lock, and its runs are moved. In a batch job nodes
would idle during this wait. There the start of Snakemake excludes another launch.
"""

import argparse
import fcntl
import glob
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = Path("results", ".launch")
RUN_FILES = ("log.darshan", "epochs.parquet", "run.json")
_MOST_LINES = 20  # of the ranks' messages about a failure
_RANKS = """\
set -euo pipefail
tierscope_ranks=("$@")
set --
{setup} && tierscope_start="$("${{tierscope_ranks[@]}}" --prepare)" &&
{mpi} -n {tasks} /bin/sh -c "$tierscope_start" tierscope "${{tierscope_ranks[@]}}"
"""


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description="Run a site's setup and the ranks under MPI; then move their run."
    )
    parser.add_argument("--log", type=Path, required=True, help="log of the launch")
    parser.add_argument("--setup", required=True, help="shell lines before the ranks")
    parser.add_argument("--mpi", required=True, help="launcher, shell text")
    parser.add_argument("--tasks", type=int, required=True, help="number of ranks")
    parser.add_argument("--staged", type=Path, help="folder of a launched run")
    parser.add_argument("--run", type=Path, help="folder to move the run to")
    parser.add_argument("script", help="script in the folder of this one")
    parser.add_argument("arguments", nargs="*", help="its arguments")
    return parser.parse_args()


def main() -> None:
    """Launch the ranks unless their run exists, and move the run."""
    arguments = parse_arguments()
    parent = os.getppid()
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, lambda number, _: sys.exit(128 + number))
    name = f"{os.getpid()}-{int(time.time())}"
    script = Path(__file__).with_name(f"{arguments.script}.py")
    ranks = [sys.executable, str(script), "--launch", name, *arguments.arguments]
    with removed_devices(name), one_launch_at_a_time() as lock:
        if not (arguments.staged and is_complete(arguments.staged)):
            shell = _RANKS.format(**vars(arguments))
            if not run_ranks(shell, ranks, arguments.log, lock):
                sys.exit(1)
    if os.getppid() != parent:
        sys.exit(1)  # Snakemake is gone: the next one moves the run
    if arguments.staged:
        take_over(arguments.staged, arguments.run)


def is_complete(staged: Path) -> bool:
    """Return whether a launch has left a complete run."""
    return (staged / "log.darshan").is_file() and (staged / "run.json").is_file()


def run_ranks(shell: str, ranks: list[str], log: Path, lock: int) -> bool:
    """Run the shell lines with the ranks' command as arguments; return success.

    All output goes into the log. If the launcher separates the ranks' output
    (`job.launcher`), their messages about a failure are copied into the log.
    """
    of_ranks = log.with_suffix(".rank")
    pattern = f"{glob.escape(str(of_ranks))}.*"
    for path in glob.glob(pattern):
        os.unlink(path)
    with log.open("wb") as output:
        # Ctrl-C also reaches the ranks; wait for their end.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        done = subprocess.run(
            ["bash", "-c", shell, "launch", *ranks],
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[lock],
            check=False,
        )
        signal.signal(signal.SIGINT, before)
        if done.returncode:
            output.write(failures(sorted(glob.glob(pattern))))
    return done.returncode == 0


def failures(paths: list[str]) -> bytes:
    """Return the first lines of output files in which ranks report a failure."""
    lines = (
        line
        for path in paths
        for line in Path(path).read_bytes().splitlines(keepends=True)
        if line.startswith(b"tierscope: ")
    )
    return b"".join(line for line, _ in zip(lines, range(_MOST_LINES), strict=False))


def take_over(staged: Path, run: Path) -> None:
    """Move a run from its staging folder; its description comes last."""
    for name in RUN_FILES:
        shutil.move(staged / name, run / name)


@contextmanager
def one_launch_at_a_time() -> Iterator[int]:
    """Wait for any other launch in this folder, and hold the lock, a descriptor."""
    LOCK.parent.mkdir(exist_ok=True)  # results may lie elsewhere
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        is_batch_job = os.environ.get("SLURM_JOB_ID") or os.environ.get("PJM_JOBID")
        if not is_batch_job:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


@contextmanager
def removed_devices(launch: str) -> Iterator[None]:
    """Remove a launch's emulated devices at its end; killed ranks leave them behind."""
    try:
        yield
    finally:
        for path in glob.glob(f"/dev/shm/tierscope-*-{launch}.*"):
            with suppress(OSError):
                os.unlink(path)


if __name__ == "__main__":
    main()
