"""Starting values of a calibration, in closed form from the measurements.

Probes of all processes give the rate of a shared server, probes of one process a
latency. Without probes, the class times of the lowest and the highest cache rate are
used. They are treated as if the busiest server were nearly always busy and the rest
were latency. The search corrects these values.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tierscope.core.columns import CLASSES
from tierscope.core.description import ProbeDescription, RunDescription
from tierscope.model.calibration.observations import Point, ProbeTime
from tierscope.model.simulator.run import workload_of
from tierscope.storage.probes import plan
from tierscope.storage.queueing_network import Network, network_of

_REFERENCE = {
    "gfs.open_s": 1e-3,
    "gfs.close_s": 1e-3,
    "gfs.metadata_latency_s": 1e-3,
    "gfs.ost_bandwidth_bytes_per_s": 1e9,
    "gfs.request_s": 1e-3,
    "gfs.read_latency_s": 1e-3,
    "gfs.link_bytes_per_s": 1e9,
    "lfs.request_s": 1e-3,
    "lfs.latency_s": 1e-3,
}


def calibrated(
    description: RunDescription, devices: Mapping[str, Any]
) -> RunDescription:
    """Return a scenario's description with other devices, for the models.

    Parameters
    ----------
    description : RunDescription
        As `Experiment.model_description` returns it.
    devices : mapping
        The section `devices` or parts of it, such as `Calibration.devices` or the file
        written by target `calibrate`.
    """
    system = description.system
    changed = replace(system, devices={**system.devices, **devices})
    return replace(description, system=changed)


def with_values(
    description: RunDescription, values: Mapping[str, float]
) -> RunDescription:
    """Return a scenario's description with other values of keys ``part.key``."""
    changed: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        part, key = name.split(".")
        changed.setdefault(part, {**description.system.devices[part]})
        changed[part][key] = float(value)
    return calibrated(description, changed)


def starting_values(
    description: RunDescription,
    measured: Mapping[Point, np.ndarray],
    probes: Mapping[int, Mapping[str, ProbeTime]],
) -> dict[str, float]:
    """Return approximate parameters from the measurements, in machine units.

    Parameters
    ----------
    description : RunDescription
        As for `tierscope.model.calibration.fit.calibrate`; only the structure of its
        devices is used.
    measured, probes : mapping
        Results of `measured_epochs` and `measured_probes`.
    """
    known = with_values(description, _REFERENCE)
    stations = _stations_by_tables(known, measured)
    n_osts = {name: description.scenario.n_osts for name in _REFERENCE}
    if probes:
        stations |= _stations_by_probes(known, probes)
        n_osts = dict.fromkeys(n_osts, max(probes))
        n_osts["gfs.ost_bandwidth_bytes_per_s"] = min(probes)
    return _limit(description, measured) | {
        name: value * _REFERENCE[name] / station(known, n_osts[name], name)
        for name, value in stations.items()
        if np.isfinite(value) and value > 0
    }


def _limit(
    description: RunDescription, measured: Mapping[Point, np.ndarray]
) -> dict[str, float]:
    """Return a rate limit of each server, and its credit."""
    lowest, dataset = min(measured), description.dataset
    n_servers = description.scenario.n_osts or 1
    share = (1 - lowest.cache_rate_percent / 100) / n_servers
    epoch_bytes = share * dataset.n_files * dataset.file_size_bytes
    times_s = measured[lowest][:, -1]
    # In the slowest epoch of the point with most GFS reads, servers are at their limit.
    rate = epoch_bytes / times_s.max()
    # What is read faster in the others is the credit; else the bytes of an epoch.
    saved_bytes = float((epoch_bytes - rate * times_s).sum())
    credit_bytes = saved_bytes if saved_bytes > 0.1 * epoch_bytes else epoch_bytes
    found = {"gfs.limit_bytes_per_s": rate, "gfs.limit_credit_bytes": credit_bytes}
    return found if epoch_bytes > 0 else {}


def station(description: RunDescription, n_osts: int, name: str) -> float:
    """Return the network's value of a parameter, for all servers together."""
    network = network_of(description.system, n_osts)
    gfs, lfs = network.gfs, network.lfs
    return {
        "gfs.open_s": gfs.open_s,
        "gfs.close_s": gfs.close_s,
        "gfs.metadata_latency_s": gfs.open_latency_s,
        "gfs.ost_bandwidth_bytes_per_s": gfs.n_object_servers
        * gfs.bandwidth_bytes_per_s,
        "gfs.request_s": gfs.request_s,
        "gfs.read_latency_s": gfs.read_latency_s,
        "gfs.link_bytes_per_s": gfs.n_links * gfs.link_bytes_per_s,
        "lfs.request_s": lfs.request_s,
        "lfs.latency_s": lfs.open_latency_s,
    }[name]


def _stations_by_probes(
    description: RunDescription, probes: Mapping[int, Mapping[str, ProbeTime]]
) -> dict[str, float]:
    """Return the network's values from the probes."""
    probed = ProbeDescription.of(description)
    calls = {one.name: one for one in plan(probed)}
    fewest, most = (
        {name: one.time_s for name, one in probes[n_osts].items()}
        for n_osts in (min(probes), max(probes))
    )

    def per_call(name: str) -> float:
        return most[name] / calls[name].n_operations

    def rate(times_s: Mapping[str, float]) -> float:
        return calls["gfs_read_rate"].n_bytes / times_s["gfs_read_rate"]

    network = network_of(probed.system, max(probes))
    reads = calls["lfs_read_rate"]
    size = network.lfs.request_bytes
    requests = -(-reads.buffer_bytes // size) * reads.n_operations
    requests = min(requests, reads.n_bytes / size + reads.n_operations)
    alone_s = per_call("gfs_open_latency")
    return {
        "gfs.open_s": per_call("gfs_open_rate"),
        "gfs.close_s": per_call("gfs_close_rate"),
        "gfs.metadata_latency_s": max(
            alone_s - per_call("gfs_open_rate"), 0.1 * alone_s
        ),
        "gfs.ost_bandwidth_bytes_per_s": rate(fewest),
        "gfs.request_s": per_call("gfs_read_rate") * network.gfs.n_object_servers / 2,
        "gfs.read_latency_s": per_call("gfs_small_read_latency"),
        "gfs.link_bytes_per_s": rate(most),
        "lfs.request_s": most["lfs_read_rate"]
        / requests
        * network.lfs.n_groups(network.n_ranks),
        "lfs.latency_s": per_call("lfs_open_latency"),
    }


def _stations_by_tables(
    description: RunDescription, measured: Mapping[Point, np.ndarray]
) -> dict[str, float]:
    """Return the network's values from the class times."""
    network = network_of(description.system, description.scenario.n_osts)
    workload, n_ranks = workload_of(description), network.n_ranks
    lowest, highest = min(measured), max(measured)
    local = highest.cache_rate_percent / 100 * workload.n_files / n_ranks
    remote = (1 - lowest.cache_rate_percent / 100) * workload.n_files / n_ranks
    with np.errstate(divide="ignore", invalid="ignore"):
        gfs_s = dict(zip(CLASSES, measured[lowest].mean(axis=0) / remote, strict=False))
        lfs_s = dict(zip(CLASSES, measured[highest].mean(axis=0) / local, strict=False))
    return _of_file_times(network, workload, gfs_s, lfs_s)


def _of_file_times(
    network: Network, workload, gfs_s: Mapping[str, float], lfs_s: Mapping[str, float]
) -> dict[str, float]:
    """Return the network's values from the class times of a file."""
    n_ranks = network.n_ranks
    in_group = min(network.lfs.group_size or n_ranks, n_ranks)
    n_gfs, n_lfs = (
        len(workload.request_bytes(tier)) for tier in (network.gfs, network.lfs)
    )
    rate = 1.5 * n_ranks * workload.file_size_bytes / np.float64(gfs_s["gfs_read"])
    return {
        "gfs.open_s": 0.6 * gfs_s["gfs_meta"] / n_ranks,
        "gfs.close_s": 0.2 * gfs_s["gfs_meta"] / n_ranks,
        "gfs.metadata_latency_s": gfs_s["gfs_meta"] / 8,
        "gfs.ost_bandwidth_bytes_per_s": rate,
        "gfs.request_s": gfs_s["gfs_read"] / n_gfs / 3,
        "gfs.read_latency_s": gfs_s["gfs_read"] / n_gfs / 3,
        "gfs.link_bytes_per_s": rate,
        "lfs.request_s": 0.6 * lfs_s["lfs_read"] / n_lfs / in_group,
        "lfs.latency_s": lfs_s["lfs_meta"],
    }
