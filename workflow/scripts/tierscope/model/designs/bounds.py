"""What no design can exceed: bounds of an epoch, from demands at stations and chains.

An epoch takes at least the work of each station divided by its servers, the time of the
readers if nobody ever waited, and all computation. Service times are random: a sum of
positive numbers falls short of its mean by more than ``sqrt(2 k sum E[x^2])`` with a
probability below ``exp(-k)`` (Maurer 2003), so the bounds hold but for one case of
many. The first step does not count for the utilisation, and nobody begins a step before
all have ended the first one: until then loaders have read only what they read ahead.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist, fmean, pstdev
from typing import NamedTuple

from tierscope.core.scenario import n_on_lfs
from tierscope.data.designs import POOLED, Design, Plan
from tierscope.model.demands import squared_cv
from tierscope.model.simulator.run import workload_of
from tierscope.storage.queueing_network import Network, TierModel, Workload, network_of

_SURE = 20.7  # k: one case of a thousand million
_DEVIATIONS = 6.0  # likewise, of a normal distribution
_EXTRAPOLATED = 0.02  # by which a time may be too short that was not simulated


@dataclass(frozen=True)
class Bounds:
    """The best that a design can be.

    Parameters
    ----------
    utilisation_percent : float
        Largest accelerator utilisation.
    epoch_time_s, io_time_s : float
        Least time of an epoch, and least I/O time of its slowest process.
    """

    utilisation_percent: float
    epoch_time_s: float
    io_time_s: float


class _Files(NamedTuple):
    """Mean requests and bytes of files, how these vary, and the largest over a mean."""

    n_requests: float
    n_bytes: float
    cv2: float
    largest: float

    def with_cv2(self, cv2: float) -> float:
        """Return the variation of times that vary on their own as well."""
        return (1 + cv2) * (1 + self.cv2) - 1


@dataclass(frozen=True)
class _Station:
    """Servers that share the files of some tiers; or readers.

    Parameters
    ----------
    files : tuple of tuple
        Of each tier the part of the files, the time of one, and the mean square of what
        is random of it.
    n_servers : float
        How many share the work.
    credit_s : float
        What each of them does in no time.
    """

    files: tuple[tuple[float, float, float], ...]
    n_servers: float = 1
    credit_s: float = 0.0

    def least_s(self, n_files: int, n_others: int = 0) -> float:
        """Return the least time for some files, of which `n_others` do not count."""
        work_s = math.fsum(part * n_files * file_s for part, file_s, _ in self.files)
        work_s -= n_others * max(file_s for _, file_s, _ in self.files)
        square = math.fsum(part * n_files * square for part, _, square in self.files)
        work_s -= math.sqrt(2 * _SURE * square)
        return max(work_s / self.n_servers - self.credit_s, 0.0)


def bounds_of(plan: Plan, design: Design) -> Bounds:
    """Return the best that a workload can be on a design.

    Of an epoch that is not simulated whole the rest is estimated, which may take less
    than the bound by `_EXTRAPOLATED`; the bounds of times are shorter by that.
    """
    description, n = plan.described(*design), design.n
    network = network_of(description.system, description.scenario.n_osts)
    workload = replace(workload_of(description), sizes=plan.sizes)
    n_steps, per_step = plan.n_steps(n), plan.batch_size * n
    n_files, n_known = n_steps * per_step, plan.n_simulated_steps(n)
    hits = n_on_lfs(n_files, plan.cache_rate_percent(*design)) / n_files
    n_nodes = _n_pooling(plan, design)
    n_readers = max(workload.workers or 0, 1)
    stations = [
        _readers(network, workload, hits, n * n_readers, network.sample_s),
        *_servers(network.gfs, workload, 1 - hits, n),
        *_servers(network.lfs, workload, hits, n),
        *_node_links(network, workload, hits, n_nodes, n_files),
    ]
    # Batches before the second step; of a last file, the close is after the last step.
    n_ahead = max(workload.prefetch_batches, n_readers * workload.prefetch_factor)
    n_before = (n_ahead + n_readers + 1) * per_step + n
    n_before *= math.ceil(_files(network.gfs.request_bytes, workload).largest)
    whole_s = max(one.least_s(n_files, n) for one in stations)
    later_s = max(one.least_s(n_files, n_before) for one in stations)
    rest = 1.0 if n_known == n_steps else 1 - _EXTRAPOLATED
    compute_s = 0.0 if workload.compute else n_steps * workload.compute_time_s
    used_s = _most_compute_s(workload, n_steps - 1, n_known, n)
    return Bounds(
        min(100 * used_s / (rest * later_s), 100.0) if later_s else 100.0,
        rest * max(whole_s, compute_s),
        _readers(network, workload, hits, n).least_s(n_files),
    )


def by_bandwidth(plan: Plan, design: Design) -> Bounds:
    """Return what a design would be if the rates of the storage were all that matters.

    A step takes as long as its computation or as the bytes of all accelerators at the
    rate of a tier, or of the links over which nodes read of each other.
    """
    description = plan.described(*design)
    network = network_of(description.system, description.scenario.n_osts)
    gfs, lfs, n = network.gfs, network.lfs, design.n
    hits, n_nodes = plan.cache_rate_percent(*design) / 100, _n_pooling(plan, design)
    compute_s = description.training.compute_time.mean_s
    step_bytes = n * plan.batch_size * plan.mean_file_bytes
    server = gfs.bandwidth_bytes_per_s or math.inf
    links = gfs.n_links * (gfs.link_bytes_per_s or math.inf) or math.inf
    gfs_rate = min(gfs.n_object_servers * server, links)
    device_s = float(lfs.request_service_s(lfs.request_bytes))
    lfs_rate = lfs.n_groups(n) * lfs.n_object_servers * lfs.request_bytes
    lfs_rate = lfs_rate / device_s if device_s else math.inf
    needed_s = step_bytes * max((1 - hits) / gfs_rate, hits / lfs_rate)
    if network.peers:
        far_bytes = step_bytes * hits * (1 - 1 / n_nodes) / n_nodes
        needed_s = max(needed_s, far_bytes / network.peers.bandwidth_bytes_per_s)
    n_steps = plan.n_steps(n)
    return Bounds(
        100 * min(compute_s / needed_s, 1.0) if needed_s else 100.0,
        n_steps * max(needed_s, compute_s),
        n_steps * needed_s,
    )


def _n_pooling(plan: Plan, design: Design) -> int:
    """Return how many nodes read files of each other."""
    return plan.n_nodes(design.n) if design.storage.placement == POOLED else 1


def _readers(
    network: Network, workload: Workload, hits: float, n: int, sample_s: float = 0.0
) -> _Station:
    """Return `n` readers that read and process files and never wait."""
    files = []
    for tier, part in ((network.gfs, 1 - hits), (network.lfs, hits)):
        file = _files(tier.request_bytes, workload)
        metadata_s, object_s = _file_times_s(tier, file)
        fixed_s = tier.open_latency_s + tier.close_latency_s + sample_s
        by_size_s = file.n_requests * tier.read_latency_s + _link_s(tier, file)
        # The square of a sum of three is at most three times those of each.
        square = 3 * (
            _square(metadata_s, squared_cv(tier.metadata_service))
            + _square(object_s, file.with_cv2(squared_cv(tier.object_service)))
            + _square(by_size_s, file.cv2)
        )
        files.append((part, fixed_s + metadata_s + object_s + by_size_s, square))
    return _Station(tuple(files), n)


def _servers(
    tier: TierModel, workload: Workload, part: float, n: int
) -> Iterator[_Station]:
    """Yield the servers of a tier for `n` ranks, which read a part of the files."""
    file, n_groups = _files(tier.request_bytes, workload), tier.n_groups(n)
    metadata_s, object_s = _file_times_s(tier, file)
    limit_s = file.n_bytes / (tier.limit_bytes_per_s or math.inf)
    n_metadata, n_object = tier.n_metadata_servers, tier.n_object_servers
    n_links, object_cv2 = max(min(tier.n_links, n), 1), squared_cv(tier.object_service)
    for time_s, cv2, n_servers, credit_s in (
        (metadata_s, squared_cv(tier.metadata_service), n_groups * n_metadata, 0.0),
        (object_s, file.with_cv2(object_cv2), n_groups * n_object, 0.0),
        (limit_s, file.cv2, n_groups * n_object, tier.credit_s),
        (_link_s(tier, file), file.cv2, n_links, 0.0),
    ):
        files = (part, time_s, _square(time_s, cv2))
        yield _Station((files,), n_servers, credit_s)


def _node_links(
    network: Network, workload: Workload, hits: float, n_nodes: int, n_files: int
) -> Iterator[_Station]:
    """Yield the links of nodes that read files of each other."""
    if network.peers is None or n_nodes == 1:
        return
    far = hits * (1 - 1 / n_nodes) - _DEVIATIONS / math.sqrt(n_files)
    file = _files(network.lfs.request_bytes, workload)
    file_s = file.n_bytes / network.peers.bandwidth_bytes_per_s
    yield _Station(((max(far, 0.0), file_s, _square(file_s, file.cv2)),), n_nodes)


def _file_times_s(tier: TierModel, file: _Files) -> tuple[float, float]:
    """Return the mean times of metadata and object servers for a file.

    That of object servers is as short as if the fastest of them had all files.
    """
    object_s = file.n_requests * tier.request_s
    object_s += file.n_bytes / (tier.bandwidth_bytes_per_s or math.inf)
    fastest = math.exp(-_DEVIATIONS * tier.object_server_spread)
    return tier.open_s + tier.close_s, object_s * fastest


def _link_s(tier: TierModel, file: _Files) -> float:
    """Return the time of a file on a link."""
    return file.n_bytes / (tier.link_bytes_per_s or math.inf) if tier.n_links else 0.0


def _square(mean_s: float, cv2: float) -> float:
    """Return the mean square of a time, 0 if it is not random."""
    return mean_s**2 * (1 + cv2) if cv2 else 0.0


@lru_cache(maxsize=32)
def _files(request_bytes: int, workload: Workload) -> _Files:
    """Return the files of a workload on a tier with such requests."""
    tier, by_size = TierModel(request_bytes=request_bytes), workload.by_size
    n_requests = fmean(len(one.request_bytes(tier)) for one in by_size)
    sizes = [one.file_size_bytes for one in by_size]
    mean = fmean(sizes)
    return _Files(n_requests, mean, (pstdev(sizes) / mean) ** 2, max(sizes) / mean)


def _most_compute_s(workload: Workload, n_steps: int, n_known: int, n: int) -> float:
    """Return the most that `n` ranks compute in some steps on average."""
    total_s = n_steps * workload.compute_time_s
    if (compute := workload.compute) is None:
        return total_s
    deviation_s, mean_s = compute.stdev_s, workload.compute_time_s
    below_0 = NormalDist().pdf(mean_s / deviation_s) if deviation_s else 0.0
    total_s += math.fsum(compute.warmup_s) + n_steps * deviation_s * below_0
    return total_s + _DEVIATIONS * deviation_s * math.sqrt(n_known / n)
