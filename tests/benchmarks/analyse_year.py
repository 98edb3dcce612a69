"""Read or analyse many logs in a fresh process: ``KIND FOLDER``; prints JSON.

KIND is ``read`` (two processes only read and sum up), ``analyse`` (from logs to tables,
with two processes that read) or ``job_stats`` (PyDarshan's command). Printed are the
seconds, the processor's seconds of this process and of those that it started, the
number of logs, and the most memory of this process and of one that it started.
"""

import csv
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parse_log import peak_memory_mb
from tierscope.logs.analyse import tables_of
from tierscope.logs.settings import settings_of
from tierscope.logs.tiers import AUTO
from tierscope.logs.worker import answer

N_WORKERS = 2


def sum_up(paths: Sequence[str], settings: dict[str, Any]) -> None:
    """Sum up logs as a worker of an analysis does."""
    for path in paths:
        if "digest" not in (found := answer(path, settings)):
            raise SystemExit(f"{path}: {found}")


def read(paths: Sequence[str], kept: str) -> int:
    """Read and sum up the logs in processes of their own."""
    settings = {"tiers": AUTO, "epochs": None, "folder": kept, "key": "benchmark"}
    shares = [paths[first::N_WORKERS] for first in range(N_WORKERS)]
    workers = [
        multiprocessing.Process(target=sum_up, args=(share, settings))
        for share in shares
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise SystemExit(f"a worker ended with {worker.exitcode}.")
    return len(list(Path(kept).rglob("*.json")))


def analyse(folder: str, kept: str) -> int:
    """Read and analyse the logs of a folder."""
    settings = settings_of("year", [folder])
    tables = tables_of(settings, Path(kept), n_workers=N_WORKERS)
    return len(tables["logs"])


def job_stats(paths: Sequence[str], kept: str) -> int:
    """Read the logs with PyDarshan's command."""
    listed = Path(kept, "logs.txt")
    listed.write_text("\n".join(paths))
    command = [sys.executable, "-m", "darshan", "job_stats", "--csv"]
    command += ["--log_paths_file", str(listed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return len(list(csv.DictReader(done.stdout.splitlines())))


def main() -> None:
    """Do what the command line says and print it as JSON."""
    kind, folder = sys.argv[1:]
    paths = sorted(map(str, Path(folder).rglob("*.darshan")))
    with tempfile.TemporaryDirectory(dir=Path(folder).parent) as kept:
        start = time.perf_counter()
        if kind == "analyse":
            n_logs = analyse(folder, kept)
        else:
            n_logs = {"read": read, "job_stats": job_stats}[kind](paths, kept)
        seconds = time.perf_counter() - start
    own, child = map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    done = {
        "seconds": seconds,
        "own_s": own.ru_utime + own.ru_stime,
        "child_s": child.ru_utime + child.ru_stime,
        "n_logs": n_logs,
        "memory_mb": peak_memory_mb(),
        "child_mb": child.ru_maxrss * 1024 / 1e6,
    }
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
