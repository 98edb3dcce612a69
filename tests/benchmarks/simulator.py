"""Time of the simulator per event beside the same network in SimPy, same results.

An event is an arrival at a station. Services are deterministic, so that both must give
the same instants, to the nanosecond, and as many events as the files need. The paper's
sweep is timed as well.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import Results, WrongWork, progress, run_as_script, run_python
from simpy_network import simulate_with_simpy
from tierscope.model.simulator.epoch import simulate_epoch
from tierscope.storage.queueing_network import Network, TierModel, Workload

OURS, SIMPY = "tierscope", "SimPy"
N_SAMPLES = 20  # of ours in a round, as one takes less than a tenth of a second
EVENTS_OF_GFS_FILE = 4  # of `example`: open, request, link, close
SWEEP, N_RUNS = "the paper's sweep, one process", 84
RUNS, MEMORY = f"all {N_RUNS} runs, 3 epochs each", "peak memory"


def measure(small: bool = False) -> Results:
    """Measure both on one network, then ours on the paper's sweep."""
    results = Results("simulator", "CPU time per event", small)
    n_ranks, files_per_rank = (64, 4) if small else (3072, 48)
    case = f"{n_ranks} ranks, {files_per_rank} files each"
    arguments, slowness = example(n_ranks, files_per_rank)
    generator = np.random.default_rng(0)  # of no use: services are deterministic

    def ours() -> tuple[np.ndarray, np.ndarray, int]:
        epoch = simulate_epoch(*arguments, generator, slowness)
        return epoch.instants_ns, epoch.finished_ns, epoch.n_events

    def theirs() -> tuple[np.ndarray, np.ndarray, int]:
        return simulate_with_simpy(*arguments, slowness)

    n_lfs = int(arguments[3].sum())  # which is one event; from the GFS a file is four
    n_events = n_lfs + EVENTS_OF_GFS_FILE * (n_ranks * files_per_rank - n_lfs)
    check_equal(ours(), theirs())  # and compile ours
    results.notes.append("both gave the same instants, to the nanosecond.")
    for number in range(1 if small else 3):
        for what, run, n_samples in ((OURS, ours, N_SAMPLES), (SIMPY, theirs, 1)):
            progress("simulator", f"{case}, round {number + 1}, {what}")
            for _ in range(n_samples):
                cpu_us, (*_, n_found) = timed(run)
                results.count(case, what, "events", n_found, n_events)
                results.add(case, what, [cpu_us / n_events], "us an event")
    results.compare(case, SIMPY, OURS, at_least=100)
    if not small:
        _measure_sweep(results)
    return results


def _measure_sweep(results: Results) -> None:
    """Simulate the paper's sweep once."""
    progress("simulator", SWEEP)
    done = run_python("simulate_sweep.py")
    for what in (RUNS, MEMORY):
        results.count(SWEEP, what, "runs", done["n_runs"], N_RUNS)
        results.count(SWEEP, what, "samples", done["n_samples"], done["n_expected"])
    results.add(SWEEP, RUNS, [done["seconds"]])
    results.add(SWEEP, MEMORY, [done["peak_memory_mb"]], "MB")
    results.limit(SWEEP, RUNS, at_most=180)
    results.limit(SWEEP, MEMORY, at_most=2000)
    results.notes.append(f"the sweep has {done['n_events']} events.")


def example(n_ranks: int, files_per_rank: int) -> tuple[tuple, tuple]:
    """Return the arguments of a network like Fugaku's, and its servers' slowness."""
    gfs = TierModel(
        open_s=29.17e-6,
        close_s=4.13e-6,
        open_latency_s=6.793e-3,
        close_latency_s=6.793e-3,
        n_object_servers=60,
        request_bytes=1 << 20,
        bandwidth_bytes_per_s=1.5e9,
        read_latency_s=1.734e-3,
        n_links=4,
        link_bytes_per_s=11.6e9,
    )
    lfs = TierModel(
        group_size=64,
        open_latency_s=3.504e-3,
        close_latency_s=1.752e-3,
        request_bytes=1 << 17,
        request_s=0.8963e-3,
        read_latency_s=3.504e-3,
    )
    generator = np.random.default_rng(1)
    n_files = n_ranks * files_per_rank
    network = Network(n_ranks, gfs, lfs)
    workload = Workload(n_files, 1 << 17, batch_size=12, prefetch_batches=2)
    slowness = tuple(
        1 + 0.1 * generator.random(tier.n_groups(n_ranks) * tier.n_object_servers)
        for tier in (gfs, lfs)
    )
    files = generator.permutation(n_files)
    return (network, workload, files, generator.random(n_files) < 0.5), slowness


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU time of a run, in microseconds, and what it returned."""
    start = time.process_time()
    outcome = run()
    return (time.process_time() - start) * 1e6, outcome


def check_equal(one: tuple, other: tuple) -> None:
    """Refuse to compare the speed of different results."""
    for a, b in zip(one, other, strict=True):
        if not np.array_equal(a, b):
            raise WrongWork("two simulators gave different results.")


if __name__ == "__main__":
    run_as_script(measure)
