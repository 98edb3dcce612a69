"""Time to read logs of any job: a large one, and many small ones, beside PyDarshan.

Of the large log, ours keeps the counters of `read_any_log` and PyDarshan makes its data
frames. Of the small logs, ours reads all interfaces; ``darshan job_stats`` reads POSIX,
derives its statistics and prints them. Both use two processes there, as there are cores
here, and their start is counted.
"""

import csv
import io
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from common import (
    CannotMeasure,
    Results,
    WrongWork,
    progress,
    run,
    run_as_script,
    run_python,
    temporary_folder,
)
from parsing import count_what_was_read

OURS, PYDARSHAN = "tierscope", "PyDarshan (numpy)"
LOOP, POOL, JOB_STATS = "one process", "two processes", "darshan job_stats"
MEMORY = "peak memory"
LARGE, TRIAL = (3072, 192), (16, 192)  # processes, files each
N_LOGS, N_TRIAL_LOGS = 2000, 50
N_ROUNDS = 3


def measure(small: bool = False) -> Results:
    """Write the logs once and read them with both."""
    results = Results("logs", "time to read Darshan logs of any job", small)
    with temporary_folder() as folder:
        _measure_large(results, folder / "large.darshan", TRIAL if small else LARGE)
        (folder / "small").mkdir()
        n_logs = N_TRIAL_LOGS if small else N_LOGS
        _measure_small(results, folder / "small", n_logs, 1 if small else N_ROUNDS)
    return results


def _measure_large(results: Results, log: Path, sizes: tuple[int, int]) -> None:
    """Read one log several times with ours around one time with PyDarshan."""
    progress("logs", f"writing the log of {sizes[0]} processes")
    written = run_python("parse_log.py", "write", log, *sizes)
    case = f"one log of {written['n_records']} records"
    ours, peer = [(OURS, "any_log")] * 2, [(PYDARSHAN, "pydarshan")]
    if not results.has_peer("darshan", PYDARSHAN):
        peer = []
    for what, kind in [*ours, *peer, *ours]:
        progress("logs", f"one log, {what}")
        try:
            sample = run_python("parse_log.py", kind, log)
            count_what_was_read(results, case, what, sample, written)
        except (CannotMeasure, WrongWork) as error:
            if what == OURS:
                raise
            results.fail(case, what, error)
            continue
        results.add(case, what, [sample["seconds"]])
        results.add(case, f"{MEMORY}, {what}", [sample["peak_memory_mb"]], "MB")
    results.compare(case, PYDARSHAN, OURS, at_least=8)
    results.limit(case, f"{MEMORY}, {OURS}", at_most=700)


def _measure_small(results: Results, folder: Path, n_logs: int, n_rounds: int) -> None:
    """Read many logs in one process, in two, and with PyDarshan's command."""
    progress("logs", f"writing {n_logs} logs")
    written = run_python("read_logs.py", "write", folder, n_logs)
    case = f"{n_logs} logs of {written['bytes'] // n_logs} bytes"
    run_python("read_logs.py", "loop", folder)  # so that all find them in memory

    def ours(kind: str) -> dict:
        return run_python("read_logs.py", kind, folder)

    def counted(what: str, read: Callable[[], dict]) -> list[float]:
        sample = read()
        results.count(case, what, "logs", sample["n_logs"], n_logs)
        results.count(case, what, "bytes", sample["n_bytes"], written["n_bytes"])
        return [sample["seconds"]]

    reads = {
        LOOP: partial(ours, "loop"),
        POOL: partial(ours, "pool"),
        JOB_STATS: partial(_job_stats, folder),
    }
    if not results.has_peer("darshan", JOB_STATS):
        reads.pop(JOB_STATS)
    runs = {what: partial(counted, what, read) for what, read in reads.items()}
    results.interleave(case, n_rounds, runs, peers=[JOB_STATS])
    for what in runs:
        if found := results.find(case, what):
            results.add(case, f"logs a second, {what}", [n_logs / found.median], "1/s")
    results.compare(case, JOB_STATS, POOL)
    results.notes.append(f"darshan job_stats uses {os.cpu_count()} processes here.")


def _job_stats(folder: Path) -> dict:
    """Read the logs of a folder with PyDarshan's command."""
    listed = folder / "logs.txt"
    listed.write_text("\n".join(map(str, sorted(folder.glob("*.darshan")))))
    command = [sys.executable, "-m", "darshan", "job_stats", "--csv"]
    start = time.perf_counter()
    output = run([*command, "--log_paths_file", listed])
    seconds = time.perf_counter() - start
    n_bytes = [int(row["total_bytes"]) for row in csv.DictReader(io.StringIO(output))]
    return {"seconds": seconds, "n_logs": len(n_bytes), "n_bytes": sum(n_bytes)}


if __name__ == "__main__":
    run_as_script(measure)
