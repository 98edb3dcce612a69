"""Time of the simulator per event beside the same network in SimPy, same results.

An event is an arrival at a station. Services are deterministic, so that both must give
the same instants, to the nanosecond. The paper's sweep is timed as well.
"""

import time
from collections.abc import Callable

import numpy as np
from common import CannotMeasure, Results, progress, run_as_script, run_python
from simpy_network import simulate_with_simpy
from tierscope.model.simulator.epoch import simulate_epoch
from tierscope.storage.network import Network, TierModel, Workload

OURS, SIMPY = "tierscope", "SimPy"
N_SAMPLES = 20  # of ours in a round, as one takes less than a tenth of a second
SWEEP = "the paper's sweep, one process"


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

    check_equal(ours(), theirs())  # and compile ours
    results.notes.append("both gave the same instants, to the nanosecond.")
    for number in range(1 if small else 3):
        for what, run, n_samples in ((OURS, ours, N_SAMPLES), (SIMPY, theirs, 1)):
            progress("simulator", f"{case}, round {number + 1}, {what}")
            samples = [us_per_event(run) for _ in range(n_samples)]
            results.add(case, what, samples, "us an event")
    results.compare(case, SIMPY, OURS, at_least=100)
    if not small:
        progress("simulator", SWEEP)
        done = run_python("simulate_sweep.py")
        results.add(SWEEP, "all 84 runs, 3 epochs each", [done["seconds"]])
        results.add(SWEEP, "peak memory", [done["peak_memory_mb"]], "MB")
        results.limit(SWEEP, "all 84 runs, 3 epochs each", at_most=180)
        results.limit(SWEEP, "peak memory", at_most=2000)
        results.notes.append(f"the sweep has {done['n_events']} events.")
    return results


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


def us_per_event(run: Callable[[], tuple]) -> float:
    """Return the CPU time per event in microseconds; runs return their number last."""
    start = time.process_time()
    n_events = run()[-1]
    return (time.process_time() - start) * 1e6 / n_events


def check_equal(one: tuple, other: tuple) -> None:
    """Refuse to compare the speed of different results."""
    for a, b in zip(one, other, strict=True):
        if not np.array_equal(a, b):
            raise CannotMeasure("two simulators gave different results.")


if __name__ == "__main__":
    run_as_script(measure)
