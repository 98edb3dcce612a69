"""How close layouts of the scale model come to the full machine, all of it simulated.

    python tests/benchmarks/scale_layout.py

No benchmark of speed: it shows why system `scale-model` has the layout that it has. For
each layout (object servers, processes of an LFS server) it prints the mean absolute
error of the I/O time of the slowest process over the paper's cache rates, as a mean of
ten seeds, and the best cache rate of each seed.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from common import ROOT
from tierscope.core.description import RunDescription
from tierscope.core.validation import read_yaml
from tierscope.data.shuffle import epoch_order
from tierscope.experiment.config import read_experiment
from tierscope.model.simulator.epoch import ranks_of_reads, simulate_epoch
from tierscope.model.simulator.run import (
    SERVICES,
    SLOWNESS,
    SimulatedReads,
    class_times,
    draw_slowness,
    stream,
    workload_of,
)
from tierscope.policies import held_files
from tierscope.storage.queueing_network import Network, network_of

EPOCH, SEED, N_SEEDS = 1, 1, 10
LAYOUTS = [(1, 8), (1, 4), (1, 2), (8, 8), (8, 4)]
SCENARIOS = ["small-60ost", "small-1ost", "large-60ost"]


def io_times_s(
    network: Network, description: RunDescription, rates: Iterable[int], repetition: int
) -> np.ndarray:
    """Return the I/O time of the slowest process at each cache rate, in seconds."""
    workload = workload_of(description)
    n_files, n_ranks = workload.n_files, network.n_ranks
    seeds = {"seed": SEED, "repetition": repetition}
    files = epoch_order(n_files, n_ranks, shuffle="global", epoch=EPOCH, **seeds)
    slowness = draw_slowness(network, stream(SLOWNESS, SEED, repetition))
    found = []
    for rate in rates:
        on_lfs = held_files("pinning", n_files, rate, SEED, repetition)[files]
        services = stream(SERVICES, SEED, repetition, EPOCH)
        epoch = simulate_epoch(network, workload, files, on_lfs, services, slowness)
        reads = SimulatedReads(files, ranks_of_reads(n_files, n_ranks), on_lfs, epoch)
        found.append(class_times(reads).sum(axis=1).max())
    return np.array(found)


def main() -> None:
    """Print the errors of all layouts."""
    config = read_yaml(ROOT / "config" / "config.yaml")
    small = read_experiment(config, ROOT / "resources")
    full_config = {**config, "system": "fugaku", "simulate": True, "datasets": {}}
    full = read_experiment(full_config, ROOT / "resources")
    rates = config["sweep"]["cache_rates_percent"]
    for name in SCENARIOS:
        scenario = next(one for one in full.sweep if one.name.startswith(name))
        there = full.description(scenario)
        machine = network_of(there.system, scenario.n_osts)
        expected_s = io_times_s(machine, there, rates, 0)
        best = rates[int(expected_s.argmin())]
        print(f"{name}: full machine, best at {best} %, {expected_s.min():.2f} s")
        described = small.description(scenario)
        for n_servers, n_sharing in LAYOUTS:
            if scenario.n_osts == 1 and n_servers > 1:
                continue
            emulation = {
                **described.system.emulation,
                "processes_per_lfs_server": n_sharing,
            }
            system = replace(described.system, emulation=emulation)
            here = replace(described, system=system)
            network = network_of(system, scenario.n_osts)
            pool = network.gfs.bandwidth_bytes_per_s
            gfs = replace(
                network.gfs,
                n_object_servers=n_servers,
                bandwidth_bytes_per_s=pool / n_servers,
            )
            network = replace(network, gfs=gfs)
            times_s = np.array(
                [io_times_s(network, here, rates, seed) for seed in range(N_SEEDS)]
            )
            error = np.abs(times_s.mean(axis=0) / expected_s - 1).mean()
            bests = Counter(rates[i] for i in times_s.argmin(axis=1))
            print(
                f"  {n_servers} object servers, {n_sharing} processes an LFS server: "
                f"error {100 * error:.1f} %, best rates {dict(sorted(bests.items()))}",
                flush=True,
            )


if __name__ == "__main__":
    main()
