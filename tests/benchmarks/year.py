"""Time and memory to analyse the logs of a busy machine, beside reading them only.

The logs are written once (`year_logs.py`) and kept in ``results/bench/year-logs``. With
TIERSCOPE_BENCH_LOGS=200000 there are as many. The analysis is `snakemake analyse`; its
start, and figures and pages, are measured apart. `darshan job_stats` reads 20,000 logs
at most, only POSIX.
"""

import os
from pathlib import Path

from common import (
    OUTPUT,
    CannotMeasure,
    Results,
    WrongWork,
    progress,
    run_as_script,
    run_python,
)

READ, ANALYSE, JOB_STATS = "reading only", "analysis", "darshan job_stats"
KINDS = {READ: "read", ANALYSE: "analyse", JOB_STATS: "job_stats"}
MEMORY = "peak memory of a process"
START = f"start, figures and pages, {ANALYSE}"
PROCESSOR = "processor"  # what other work on the machine disturbs least
N_LOGS, N_TRIAL_LOGS = 20_000, 120
MOST_OF_JOB_STATS = 20_000
MOST_BYTES = 1_000_000_000
TIMEOUT_S = 4 * 3600


def measure(small: bool = False) -> Results:
    """Write the logs unless they are there, and read and analyse them."""
    results = Results("year", "time to analyse the logs of a busy machine", small)
    n_logs = int(os.environ.get("TIERSCOPE_BENCH_LOGS", N_LOGS))
    n_logs = N_TRIAL_LOGS if small else n_logs
    folder = OUTPUT / "year-logs" / str(n_logs)
    folder.mkdir(parents=True, exist_ok=True)
    progress("year", f"writing {n_logs} logs, unless they are in {folder}")
    written = run_python("year_logs.py", folder, n_logs, timeout_s=TIMEOUT_S)
    if written["bytes"] > MOST_BYTES:
        raise WrongWork(f"{folder}: got {written['bytes']:,} bytes, expected 1 GB.")
    case = f"{n_logs} logs of {written['bytes'] // n_logs} bytes"
    for what in KINDS:
        if what == JOB_STATS and n_logs > MOST_OF_JOB_STATS:
            results.skip(what, f"it is measured up to {MOST_OF_JOB_STATS} logs.")
        elif what != JOB_STATS or results.has_peer("darshan", what):
            _measure(results, case, what, folder, n_logs)
    results.compare(case, ANALYSE, READ, at_most=1.5)
    of_processor = f"{PROCESSOR}, {ANALYSE}", f"{PROCESSOR}, {READ}"
    results.compare(case, *of_processor, at_most=1.5)
    results.compare(case, JOB_STATS, ANALYSE)
    results.limit(case, f"{MEMORY}, {ANALYSE}", at_most=1500)
    results.limit(case, START, at_most=60)
    return results


def _measure(results: Results, case: str, what: str, folder: Path, n_logs: int) -> None:
    """Measure one way to read the logs; PyDarshan's may fail."""
    progress("year", what)
    try:
        sample = run_python("analyse_year.py", KINDS[what], folder, timeout_s=TIMEOUT_S)
        results.count(case, what, "logs", sample["n_logs"], n_logs)
    except (CannotMeasure, WrongWork) as error:
        if what != JOB_STATS:
            raise
        results.fail(case, what, error)
        return
    results.add(case, what, [sample["seconds"]])
    results.add(case, f"{PROCESSOR}, {what}", [sample["processor_s"]])
    results.add(case, f"{MEMORY}, {what}", [sample["memory_mb"]], "MB")
    if what == ANALYSE:
        results.add(case, START, [sample["start_s"] + sample["pages_s"]])


if __name__ == "__main__":
    run_as_script(measure)
