"""Time of simulating policies, reads from peers and databases, beside pinned files.

All read as many samples from the same storage, that of Fugaku. First the event loops
alone, then whole runs: orders, decisions and tables, too.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from common import Results, progress, run_as_script
from simulate_sweep import configured
from simulator import check_equal, timed
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point, Scenario
from tierscope.data.record_order import first_records, order_of
from tierscope.model.simulator.database_calls import DatabaseEpoch
from tierscope.model.simulator.database_run import provenance_of
from tierscope.model.simulator.epoch import (
    KnownServers,
    first_reads,
    simulate_epoch,
)
from tierscope.model.simulator.placed_epoch import PlacedStorage
from tierscope.model.simulator.programs import simulate_programs
from tierscope.model.simulator.run import draw_slowness, planned_reads, workload_of
from tierscope.model.simulator.runs import Tables, simulate_run
from tierscope.storage.queueing_network import network_of

PLAIN, PLACED = "pinning", "pinning (loop of copies)"
POLICIES = ("monarch", "clairvoyant", "adhoc")
LOADERS = ("lmdb", "lmdbio-lmm-dio-prov-coal-stag")
POINT = Point(50, 0)
N_RANKS, N_NODES, N_OSTS = 3072, 768, 60
# LMDBIO has one reader a node.
N_CUSTOMERS = dict.fromkeys((PLAIN, PLACED, "adhoc", LOADERS[0]), N_RANKS)
N_CUSTOMERS[LOADERS[1]] = N_NODES

Ended = tuple[np.ndarray, int]  # when each customer ended, and the number of events
Loop = Callable[[], Ended]


def measure(small: bool = False) -> Results:
    """Measure the loops alone, then whole runs."""
    results = Results("events", "CPU time of simulated policies and databases", small)
    per_rank, n_epochs = (4, 2) if small else (48, 3)
    described = describe(per_rank, n_epochs)
    case = f"{N_RANKS} ranks, {per_rank} samples each"
    loops = event_loops(described)
    check_equal(loops[PLAIN](), loops[PLACED]())
    results.notes.append(f"{PLAIN}: both loops gave the same times, to the nanosecond.")

    def events_of(case: str, what: str, ended: Ended) -> int:
        n_ended = int((ended[0] > 0).sum())
        results.count(case, what, "customers that ended", n_ended, N_CUSTOMERS[what])
        return ended[1]

    def samples_of(case: str, what: str, tables: Tables) -> int:
        n_samples = int(tables["epochs"]["samples"].sum())
        expected = N_RANKS * per_rank * n_epochs
        results.count(case, what, "samples", n_samples, expected)
        return n_samples

    n_rounds = 1 if small else 10
    _measure(results, f"loops, {case}", loops, events_of, "us an event", n_rounds)
    runs = {what: partial(simulate_run, one, POINT) for what, one in described.items()}
    case, n_rounds = f"runs of {n_epochs} epochs, {case}", 1 if small else 3
    _measure(results, case, runs, samples_of, "us a sample", n_rounds)
    return results


def describe(per_rank: int, n_epochs: int) -> dict[str, RunDescription]:
    """Return what a run of each policy, and of each loader of databases, is."""
    changes = {
        "datasets": {"small": {"n_files": N_RANKS * per_rank}},
        "training": {"epochs": n_epochs},
    }
    experiment = configured("policies-simulated", changes)
    kinds = {policy: (policy, "tensorflow") for policy in (PLAIN, *POLICIES)}
    kinds |= {loader: ("pinning", loader) for loader in LOADERS}
    return {
        what: experiment.description(Scenario("small", N_OSTS, policy, loader))
        for what, (policy, loader) in kinds.items()
    }


def event_loops(described: Mapping[str, RunDescription]) -> dict[str, Loop]:
    """Return simulations of an epoch; what is read when is decided before."""
    databases = {loader: _database_loop(described[loader]) for loader in LOADERS}
    return _file_loops(described[PLAIN], described["adhoc"]) | databases


def _file_loops(plain: RunDescription, adhoc: RunDescription) -> dict[str, Loop]:
    """Return the loops that read files: half from the LFS, or as many from peers."""
    network, workload = network_of(plain.system, N_OSTS), workload_of(plain)
    slowness = draw_slowness(network, np.random.default_rng(1))
    pooled, n_files = next(planned_reads(adhoc, POINT)), workload.n_files
    known, files = KnownServers(peers=pooled.peers), pooled.files
    storage = PlacedStorage(network, workload, plain.system.n_nodes, 0, 1, slowness)
    on_lfs = np.random.default_rng(2).random(n_files) < 0.5
    first_read = first_reads(n_files, network.n_ranks)

    def simulate_static(place: np.ndarray, known: KnownServers) -> Ended:
        arguments = network, workload, files, place, np.random.default_rng(3)
        epoch = simulate_epoch(*arguments, slowness, known=known)
        return epoch.finished_ns, epoch.n_events

    def simulate_placed(place: np.ndarray) -> Ended:
        epoch = storage.run_epoch(files, first_read, place, np.random.default_rng(3))
        return epoch.finished_ns, epoch.n_events

    return {
        PLAIN: partial(simulate_static, on_lfs, KnownServers()),
        PLACED: partial(simulate_placed, on_lfs.astype(np.int8)),
        "adhoc": partial(simulate_static, pooled.place, known),
    }


def _database_loop(description: RunDescription) -> Loop:
    """Return the loop that follows the readers of a database."""
    network = network_of(description.system, N_OSTS)
    slowness = draw_slowness(network, np.random.default_rng(1))
    provenance = provenance_of(description)
    on_lfs = first_records(provenance.n_records, POINT.cache_rate_percent)
    order = order_of(description, POINT.repetition)
    reads = DatabaseEpoch(description.lmdb, order, provenance, on_lfs, epoch=0)
    programs = reads.programs(network, 0.0)

    def simulate() -> Ended:
        services = np.random.default_rng(3)
        epoch = simulate_programs(network, programs, services, slowness)
        return epoch.finished_ns, epoch.n_events

    return simulate


def _measure(
    results: Results,
    case: str,
    runs: Mapping[str, Callable[[], Any]],
    work_of: Callable[[str, str, Any], int],
    unit: str,
    n_rounds: int,
) -> None:
    """Time everything in turn, and compare it with the plain simulator."""
    for what, run in runs.items():
        progress("events", f"{case}, compiling, {what}")
        run()
    for number in range(n_rounds):
        progress("events", f"{case}, round {number + 1} of {n_rounds}")
        for what, run in runs.items():
            cpu_us, outcome = timed(run)
            results.add(case, what, [cpu_us / work_of(case, what, outcome)], unit)
    for what in runs:
        if what != PLAIN:
            results.compare(case, what, PLAIN)


if __name__ == "__main__":
    run_as_script(measure)
