"""Devices by what `fio --output-format=json` wrote of reads.

The group of jobs with the highest rate tells how fast a tier serves; one that read one
block after the other tells what of its latency is not service.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope.core.validation import ConfigError, check

_MOST_BYTES = 64 << 20
_ALONE = 1.1  # reads under way, by Little's law: one after the other
_NS_PER_S = 1e9


@dataclass(frozen=True)
class Reads:
    """What jobs that ran together read: rate, mean size and latency, how many at once.

    Parameters
    ----------
    bytes_per_s, request_bytes, latency_s, depth : float
        The depth is the mean number of reads under way.
    """

    bytes_per_s: float
    request_bytes: int
    latency_s: float
    depth: float


def devices_of_fio(
    devices: Mapping[str, Any], paths: Mapping[str, str]
) -> dict[str, Any]:
    """Return devices with what fio measured in place of declared numbers.

    Parameters
    ----------
    devices : mapping
        Section `devices` of a system's file.
    paths : mapping of str to str
        Files of fio by tier, ``gfs`` or ``lfs``.

    Raises
    ------
    ConfigError
        One line, if a file has no reads of fio.
    """
    found = {**devices, "sources": {**devices.get("sources", {})}}
    for tier, path in paths.items():
        reads = read_fio(path)
        best = max(reads, key=lambda one: one.bytes_per_s)
        values, most_bytes_per_s = _OF_TIERS[tier](devices[tier], best, reads)
        found[tier] = {**devices[tier], **values}
        words = f"measured by fio ({path})"
        known = found["sources"].get(tier, {})
        found["sources"][tier] = {**known, **dict.fromkeys(values, words)}
        found["origin"] += f"; {tier.upper()} {words}"
        if best.bytes_per_s > most_bytes_per_s:
            found["origin"] += (
                f", whose {best.bytes_per_s:.3g} B/s are more than the "
                f"{most_bytes_per_s:.3g} B/s of the declared one, as if from a cache"
            )
        check({"devices": found}, "system", path, "devices")
    return found


def _lfs(
    declared: Mapping[str, Any], best: Reads, reads: Sequence[Reads]
) -> tuple[dict[str, Any], float]:
    """Return what reads tell of an LFS server, and the rate of the declared one."""
    request_s = best.request_bytes / best.bytes_per_s
    values = {"request_bytes": best.request_bytes, "request_s": request_s}
    latencies_s = [
        one.latency_s - request_s
        for one in reads
        if one.depth < _ALONE and one.request_bytes == best.request_bytes
    ]
    if latencies_s:
        values["latency_s"] = max(min(latencies_s), 0.0)
    declared_s = declared["request_s"]
    rate = declared["request_bytes"] / declared_s if declared_s else math.inf
    return values, rate


def _gfs(
    declared: Mapping[str, Any], best: Reads, reads: Sequence[Reads]
) -> tuple[dict[str, Any], float]:
    """Return what reads tell of OSTs together, and the declared rate."""
    ost_bytes_per_s = best.bytes_per_s / declared["n_osts"]
    values = {"ost_bandwidth_bytes_per_s": ost_bytes_per_s, "request_s": 0.0}
    link_bytes_per_s = declared["link_bytes_per_s"]
    latencies_s = []
    for one in reads:
        if one.depth < _ALONE:
            n_requests = -(-one.request_bytes // declared["request_bytes"])
            moved_s = one.request_bytes * (1 / ost_bytes_per_s + 1 / link_bytes_per_s)
            latencies_s.append((one.latency_s - moved_s) / n_requests)
    if latencies_s:
        values["read_latency_s"] = max(min(latencies_s), 0.0)
    osts_bytes_per_s = declared["n_osts"] * declared["ost_bandwidth_bytes_per_s"]
    return values, min(link_bytes_per_s, osts_bytes_per_s or math.inf)


_OF_TIERS = {"gfs": _gfs, "lfs": _lfs}


def read_fio(path: str) -> list[Reads]:
    """Return what each group of jobs of a file read.

    Raises
    ------
    ConfigError
        One line, if the file is not one of fio, or nothing was read.
    """
    wanted = "expected what `fio --output-format=json` wrote of jobs that read"
    if not Path(path).is_file():
        raise ConfigError(f"config: designs.devices: got {path!r}, {wanted}")
    if (n_bytes := Path(path).stat().st_size) > _MOST_BYTES:
        raise ConfigError(f"{path}: got {n_bytes} bytes, {wanted}")
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = json.loads(text[max(text.find("{"), 0) :])  # fio's warnings precede
        groups: dict[int, list[Mapping[str, Any]]] = {}
        for job in content["jobs"]:
            if job["read"]["total_ios"]:
                groups.setdefault(job["groupid"], []).append(job["read"])
        reads = [_reads_of(group) for group in groups.values()]
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as why:
        reason = " ".join(f"{type(why).__name__} {why}".split())[:80]
        raise ConfigError(f"{path}: got no jobs of fio ({reason}), {wanted}") from why
    if not reads:
        raise ConfigError(f"{path}: got jobs without reads, {wanted}")
    return reads


def _reads_of(jobs: Sequence[Mapping[str, Any]]) -> Reads:
    """Return what jobs read that ran together."""
    n_reads = math.fsum(job["total_ios"] for job in jobs)
    lasted_ns = math.fsum(job["lat_ns"]["mean"] * job["total_ios"] for job in jobs)
    latency_s = lasted_ns / n_reads / _NS_PER_S
    bytes_per_s = math.fsum(job["bw_bytes"] for job in jobs)
    if not 0 < bytes_per_s < math.inf:
        raise ValueError(f"{bytes_per_s} bytes a second")
    if not 0 <= latency_s < math.inf:
        raise ValueError(f"a latency of {latency_s:g} s")
    return Reads(
        bytes_per_s=bytes_per_s,
        request_bytes=round(math.fsum(job["io_bytes"] for job in jobs) / n_reads),
        latency_s=latency_s,
        depth=math.fsum(job["iops"] for job in jobs) * latency_s,
    )
