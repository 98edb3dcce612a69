"""Read or analyse many logs in a fresh process: ``KIND FOLDER``; prints JSON.

KIND is ``read`` (two processes only read and sum up), ``analyse`` (Snakemake on two
cores, from logs to tables and then to pages) or ``job_stats`` (PyDarshan's command).
Printed are the seconds, the processor's seconds of this process and of those that it
started, the number of logs, and the most memory of one of them. The seconds of an
analysis are without the start, which a dry run tells (`start_s`), and without figures
and pages (`pages_s`).
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

from common import ROOT
from parse_log import peak_memory_mb
from tierscope.core.tables import read_table
from tierscope.logs.tiers import AUTO
from tierscope.logs.worker import answer
from tierscope.trace.darshan.inflation import USUAL

N_WORKERS = 2


def sum_up(paths: Sequence[str], settings: dict[str, Any], kept: str) -> None:
    """Sum up logs as a worker of an analysis does, and keep its answers."""
    with open(kept, "w") as file:
        for path in paths:
            print("\n".join(answer(path, settings)), file=file)


def read(paths: Sequence[str], kept: str) -> int:
    """Read and sum up the logs in processes of their own."""
    settings = {"tiers": AUTO, "epochs": None, "inflation": vars(USUAL)}
    shares = [paths[first::N_WORKERS] for first in range(N_WORKERS)]
    workers = [
        multiprocessing.Process(
            target=sum_up, args=(share, settings, f"{kept}/{number}")
        )
        for number, share in enumerate(shares)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise SystemExit(f"a worker ended with {worker.exitcode}.")
    kept_lines = (
        Path(kept, str(n)).read_bytes().count(b"\n") for n in range(N_WORKERS)
    )
    return sum(kept_lines) // len(("answer", "summary"))


def analyse(folder: str, kept: str) -> dict[str, float]:
    """Analyse the logs of a folder by the command that a user types."""
    config = {"experiment": "year", "logs": [folder]}
    Path(kept, "year.yaml").write_text(json.dumps(config))
    tables = "results/year/summary.txt"
    start_s = snakemake(kept, "--dry-run", tables)
    before_s = processor_s()
    seconds = snakemake(kept, tables)
    own = {"processor_s": processor_s() - before_s, "seconds": seconds - start_s}
    pages_s = snakemake(kept, "analyse") - start_s
    n_logs = len(read_table(Path(kept, "results/year/tables/logs.parquet"), "logs"))
    return own | {"start_s": start_s, "pages_s": pages_s, "n_logs": n_logs}


def snakemake(folder: str, *words: str) -> float:
    """Let Snakemake make targets in a folder; return how long that took in seconds."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", f"{ROOT}/Snakefile"]
    command += ["--profile", f"{ROOT}/profiles/local", "--cores", str(N_WORKERS)]
    command += [*words, "--configfile", "year.yaml"]
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"snakemake {words}: {done.stdout[-2000:]}{done.stderr}")
    return time.perf_counter() - start


def processor_s() -> float:
    """Return the processor's seconds of this process and of those that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


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
            found = analyse(folder, kept)
        else:
            n_logs = {"read": read, "job_stats": job_stats}[kind](paths, kept)
            found = {"n_logs": n_logs, "seconds": time.perf_counter() - start}
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory_mb = max(peak_memory_mb(), child.ru_maxrss * 1024 / 1e6)
    done = {"processor_s": processor_s()} | found | {"memory_mb": memory_mb}
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
