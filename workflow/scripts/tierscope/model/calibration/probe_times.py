"""The times of the micro-probes in a model: the simulator with one kind of call.

A probe uses few stations: opens and closes use those of metadata, reads those behind
them. The simulator runs the probe on a network of exactly these stations. All clients
start at once, so start-up and last calls are as in the measurement. The times are exact
for emulated devices. Repeats of a probe differ if the places of files are not even, or
if the servers limit their rate: then the repeats follow each other, and the time is
their median.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tierscope.core.description import ProbeDescription
from tierscope.model.simulator.epoch import SimulatedEpoch, simulate_epoch
from tierscope.model.simulator.stations import NS_PER_S, layouts_of
from tierscope.storage.probes import REPEATS, Probe, plan, probe_files
from tierscope.storage.queueing_network import (
    MODULO,
    Network,
    TierModel,
    Workload,
    network_of,
)

# Streams of service times of which the mean is taken: one measurement is the median of
# several repeats, and a fit must not follow the chance of one stream.
_MOST_STREAMS, _READS = 16, 1600


def probe_times(
    probed: ProbeDescription, n_osts: int, seed: int = 0
) -> dict[str, float]:
    """Return the time of every probe in seconds: first start to last end.

    Parameters
    ----------
    probed : ProbeDescription
        Settings of the probes, with the system's devices.
    n_osts : int
        OSTs over which the probed files are spread.
    seed : int, optional
        The experiment's seed, of which random places of files are drawn.
    """
    model = _Probed(probed, n_osts, seed)
    probes, times_s, full_ns = plan(probed), {}, None
    for repeat in range(REPEATS if model.repeats_differ else 1):
        for probe in probes:
            repeats_s = times_s.setdefault(probe.name, [])
            if repeat == 0 or _reads_gfs(probe):
                epochs = list(model.simulate(probe, repeat, full_ns))
                repeats_s.append(np.mean([one.execution_time_s for one in epochs]))
            if _reads_gfs(probe):
                full_ns = epochs[0].full_ns
            elif full_ns is not None:
                full_ns = np.maximum(full_ns - round(repeats_s[-1] * NS_PER_S), 0)
    return {name: float(np.median(repeats_s)) for name, repeats_s in times_s.items()}


def _reads_gfs(probe: Probe) -> bool:
    """Return whether a probe's calls pass the object servers of the GFS."""
    return (probe.tier, probe.operation) == ("gfs", "read")


@dataclass(frozen=True)
class _Probed:
    """A machine that is probed; parameters are those of `probe_times`."""

    probed: ProbeDescription
    n_osts: int
    seed: int

    @cached_property
    def network(self) -> Network:
        """Return the machine's network."""
        return network_of(self.probed.system, self.n_osts)

    @property
    def servers(self) -> np.ndarray | None:
        """Return the observed server of each file, where it is known."""
        is_same = self.n_osts == self.probed.n_osts
        return self.probed.servers if is_same else None

    @property
    def repeats_differ(self) -> bool:
        """Return whether the repeats of a probe differ in the model."""
        gfs = self.network.gfs
        is_even = self.servers is None and gfs.placement == MODULO
        return not is_even or gfs.limit_bytes_per_s is not None

    def simulate(
        self, probe: Probe, repeat: int, full_ns: np.ndarray | None
    ) -> Iterator[SimulatedEpoch]:
        """Yield a repeat of a probe with some streams of service times.

        `full_ns` is that of the last read of the GFS.
        """
        clients = range(probe.n_clients)
        parts = [probe_files(self.probed, probe, one, repeat) for one in clients]
        files, is_local = np.concatenate(parts), probe.tier == "lfs"
        tier = _stations_of(getattr(self.network, probe.tier), probe.operation)
        changes = {"n_ranks": probe.n_clients, "sample_s": 0.0, probe.tier: tier}
        network = replace(self.network, **changes)
        workload = Workload(
            n_files=len(files),
            file_size_bytes=probe.file_bytes or 1,
            buffer_bytes=probe.buffer_bytes,
        )
        for number in range(_n_streams(tier, len(files))):
            yield simulate_epoch(
                network,
                workload,
                files,
                np.full(len(files), is_local),
                np.random.default_rng(number),
                seeds=(self.seed, 0, 0),
                servers=None if self.servers is None else self.servers[files],
                full_ns=_of_servers(network, full_ns) if _reads_gfs(probe) else None,
            )


def _of_servers(network: Network, full_ns: np.ndarray | None) -> np.ndarray | None:
    """Return the instants of the GFS's servers for a network; those of LFS are last."""
    if full_ns is None:
        return None
    gfs, lfs = layouts_of(network)
    of_all = np.zeros(lfs.end, np.int64)
    of_all[: gfs.end] = full_ns[: gfs.end]
    return of_all


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
    return TierModel(
        group_size=tier.group_size,
        n_metadata_servers=tier.n_metadata_servers,
        open_s=getattr(tier, f"{operation}_s"),
        open_latency_s=getattr(tier, f"{operation}_latency_s"),
        metadata_service=tier.metadata_service,
    )
