"""Search a grid of improvements in a fresh process: ``{search,both} STEPS PROCESSES``.

The I/O times are SYNTHETIC, of the paper's size and shape: hit counts are
hypergeometric, as a global shuffle makes them, and waiting is at the metadata server
below the knee and at the LFS above it. Prints seconds (imports and data left out), the
process's peak memory and what was found.
"""

import json
import resource
import sys
import time

import common  # noqa: F401  (puts our scripts on the path)
import numpy as np
import pandas as pd
from tierscope.analysis.breakdown import (
    process_times,
)
from tierscope.analysis.search import Search, find_sufficient, search_combinations
from tierscope.analysis.slowest.improved import improve
from tierscope.analysis.slowest.search import Sufficient
from tierscope.analysis.slowest.times import upper_envelope
from tierscope.analysis.whatif import Goal, make_goal
from tierscope.core.columns import CLASSES
from tierscope.core.io_class import total_s
from tierscope.core.tables import check_table

N_FILES, FILE_BYTES = 589824, 131072
N_LFS_SERVERS = 48
CACHE_RATES_PERCENT = range(0, 101, 5)
MAX_IMPROVEMENT_PERCENT = 200
PERCENT_OF_BEST = 50
UNTRIED = -2
RUN = {
    "source": "simulated",
    "system": "synthetic",
    "dataset": "small",
    "n_osts": 60,
    "policy": "pinning",
    "loader": "tensorflow",
    "repetition": 0,
    "epoch": 1,
}


def synthetic_io_time(n_processes: int) -> pd.DataFrame:
    """Return a table ``io_time`` of all cache rates, one epoch."""
    generator = np.random.default_rng(1)
    files = N_FILES // n_processes
    parts = []
    for rate in CACHE_RATES_PERCENT:
        n_lfs = round(N_FILES * rate / 100)
        # All wait for the station that takes longest: opens at 33 us each, or reads
        # at 0.9 ms each by every LFS server.
        mds_s = (N_FILES - n_lfs) * 33e-6
        lfs_s = n_lfs / N_LFS_SERVERS * 0.9e-3
        hits = generator.multivariate_hypergeometric(
            np.full(n_processes, files), n_lfs, method="marginals"
        )
        misses = files - hits
        waits_at_mds = mds_s > lfs_s
        gfs_meta_s = mds_s / max(misses.mean(), 1) if waits_at_mds else 0.007
        lfs_read_s = lfs_s / max(hits.mean(), 1) if not waits_at_mds else 0.005
        servers = generator.normal(1, 0.024, N_LFS_SERVERS)
        own_server = servers[np.arange(n_processes) * N_LFS_SERVERS // n_processes]
        noise = generator.lognormal(0, 0.05, (n_processes, 4))
        times_s = noise * np.column_stack(
            [misses * 0.004, misses * gfs_meta_s, hits * lfs_read_s, hits * 0.0004]
        )
        times_s[:, 2] *= own_server
        frame = pd.DataFrame(
            {
                "rank": np.repeat(np.arange(n_processes), len(CLASSES)),
                "io_class": np.tile(CLASSES, n_processes),
                "time_s": times_s.ravel(),
                "cache_rate_percent": rate,
            }
        )
        parts.append(frame.assign(**RUN, operations=1, bytes=0))
    return check_table(pd.concat(parts), "io_time")


def naive(io_time: pd.DataFrame, goal: Goal, percents: np.ndarray) -> np.ndarray:
    """Return the least cache rate of every combination, -1 if none, one by one."""
    processes, times_s = process_times(io_time)
    times_s = times_s.reshape(processes["cache_rate_percent"].nunique(), -1, 4)
    least = np.full([len(percents)] * 4, UNTRIED)
    for position in np.ndindex(least.shape):
        improved_s = total_s(improve(times_s, percents[list(position)]))
        met = goal.is_met(improved_s.max(axis=1))
        least[position] = CACHE_RATES_PERCENT[met.argmax()] if met.any() else -1
    return least


def least_cache_rates(sufficient: Sufficient) -> np.ndarray:
    """Return the same as `naive` from what the search found."""
    n = len(sufficient.percents)
    met = sufficient.least[..., np.newaxis] <= np.arange(n)
    rates = np.array(sufficient.cache_rates_percent)[met.argmax(axis=0)]
    return np.where(met.any(axis=0), rates, -1)


def main(kind: str, n_steps: int, n_processes: int) -> dict:
    """Search a grid of that many steps, in one or both ways."""
    io_time = synthetic_io_time(n_processes)
    goal = make_goal(io_time, percent_of_best=PERCENT_OF_BEST)
    step = MAX_IMPROVEMENT_PERCENT // n_steps
    percents = np.arange(0, MAX_IMPROVEMENT_PERCENT + 1, step)
    started = time.perf_counter()
    result = {}
    if kind == "search":
        goals, combinations = search_combinations(
            io_time,
            goal,
            Search(
                MAX_IMPROVEMENT_PERCENT,
                step,
                dict.fromkeys(CLASSES, 1),
                N_FILES * FILE_BYTES,
            ),
        )
        result["seconds"] = time.perf_counter() - started
        numbers = ["n_combinations", "n_sufficient", "n_minimal"]
        result |= goals[numbers].iloc[0].to_dict()
        cheapest = combinations.iloc[:1].drop(columns=list(RUN), errors="ignore")
        result["cheapest"] = cheapest.to_dict("records")
        _, times_s = process_times(io_time)
        runs = times_s.reshape(len(CACHE_RATES_PERCENT), -1, 4)
        result["envelope"] = [len(upper_envelope(run_s)) for run_s in runs]
    else:
        sufficient = find_sufficient(io_time, goal, percents)
        result["seconds"] = time.perf_counter() - started
        started = time.perf_counter()
        expected = naive(io_time, goal, percents)
        result["naive_seconds"] = time.perf_counter() - started
        result["n_tried"] = int((expected != UNTRIED).sum())
        result["n_equal"] = int((least_cache_rates(sufficient) == expected).sum())
        result["n_combinations"] = sufficient.n_combinations
        result["n_sufficient"] = sufficient.n_sufficient
        result["n_sufficient_naive"] = int((expected >= 0).sum())
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return result | {"peak_memory_mb": peak_kib * 1024 / 1e6}


if __name__ == "__main__":
    kind, *numbers = sys.argv[1:]
    print(json.dumps(main(kind, *map(int, numbers)), default=int))
