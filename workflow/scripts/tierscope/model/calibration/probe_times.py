"""The times of the micro-probes in a model: the simulator with one kind of call.

A probe uses few stations: opens and closes use those of metadata, reads those behind
them. The simulator runs the probe on a network of exactly these stations. All clients
start at once, so start-up and last calls are as in the measurement. The times are exact
for emulated devices. A file's place depends only on its number (modulo the servers).
"""

from dataclasses import replace

import numpy as np

from tierscope.core.description import ProbeDescription
from tierscope.model.simulator.epoch import simulate_epoch
from tierscope.storage.probes import Probe, plan, probe_files
from tierscope.storage.queueing_network import Network, TierModel, Workload, network_of

# Streams of service times of which the mean is taken: one measurement is the median of
# several repeats, and a fit must not follow the chance of one stream.
_MOST_STREAMS, _READS = 16, 1600


def probe_times(probed: ProbeDescription, n_osts: int) -> dict[str, float]:
    """Return the time of every probe in seconds: first start to last end.

    Parameters
    ----------
    probed : ProbeDescription
        Settings of the probes, with the system's devices.
    n_osts : int
        OSTs over which the probed files are spread.
    """
    network = network_of(probed.system, n_osts)
    return {
        probe.name: _probe_time_s(network, probe, _files(probed, probe))
        for probe in plan(probed)
    }


def _files(probed: ProbeDescription, probe: Probe) -> np.ndarray:
    """Return the files of all clients of a probe, client after client."""
    clients = range(probe.n_clients)
    parts = [probe_files(probed, probe, client, repeat=0) for client in clients]
    return np.concatenate(parts)


def _probe_time_s(network: Network, probe: Probe, files: np.ndarray) -> float:
    """Return the time of one probe in seconds, the mean where services vary."""
    tier = _stations_of(getattr(network, probe.tier), probe.operation)
    alone = replace(
        network, n_ranks=probe.n_clients, sample_s=0.0, **{probe.tier: tier}
    )
    workload = Workload(
        n_files=len(files),
        file_size_bytes=probe.file_bytes or 1,
        buffer_bytes=probe.buffer_bytes,
    )
    on_lfs = np.full(len(files), probe.tier == "lfs")
    times_s = [
        simulate_epoch(
            alone, workload, files, on_lfs, np.random.default_rng(seed)
        ).execution_time_s
        for seed in range(_n_streams(tier, len(files)))
    ]
    return float(np.mean(times_s))


def _n_streams(tier: TierModel, n_reads: int) -> int:
    """Return with how many streams of service times a probe is simulated."""
    services = (tier.metadata_service, tier.object_service)
    if all(one.distribution == "deterministic" for one in services):
        return 1
    return max(1, min(_MOST_STREAMS, _READS // n_reads))


def _stations_of(tier: TierModel, operation: str) -> TierModel:
    """Return a tier with the stations that one kind of call passes."""
    if operation == "read":
        return replace(
            tier, open_s=0.0, close_s=0.0, open_latency_s=0.0, close_latency_s=0.0
        )
    service_s = {"open": tier.open_s, "close": tier.close_s}[operation]
    latency_s = {"open": tier.open_latency_s, "close": tier.close_latency_s}[operation]
    return TierModel(
        group_size=tier.group_size,
        n_metadata_servers=tier.n_metadata_servers,
        open_s=service_s,
        open_latency_s=latency_s,
        metadata_service=tier.metadata_service,
    )
