"""Fugaku in small: emulated devices that keep the balance of a large machine.

With P processes instead of the N of the modelled machine, what all processes share
must be N / P times slower, or a few processes would never make it busy; what a call
waits for alone (a latency) stays. Time per epoch and the shape over the cache rate are
those of the large machine.

The layout is the machine's where it decides about waiting. The OSTs become one pool
(`scale_gfs`). LFS servers are shared by whole nodes, as many processes to each as the
system says (`modelled_machine`): with several, no server is shared by all processes, as
on the machine; every process keeps its share of a server's time whatever their number.

The machine's numbers come from a system file. Fugaku's are this project's fit of a
queueing model to the statements of the paper (Fukai et al.): a reconstruction that is
consistent with them, not data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from tierscope.core.machine import Machine
from tierscope.storage.emulated.device import Device

# What each kind of I/O class waits for, in the words of devices and of models.
_TIMES = {
    "read": ("request_s", "read_latency_s"),
    "meta": (
        "open_s",
        "close_s",
        "metadata_latency_s",
        "open_latency_s",
        "close_latency_s",
    ),
}
_RATES = {"read": ("bandwidth_bytes_per_s", "link_bytes_per_s"), "meta": ()}

Station = TypeVar("Station")


@dataclass(frozen=True)
class GfsModel:
    """The global file system of the modelled machine, at its full size.

    Parameters
    ----------
    n_osts : int
        OSTs over which the files are spread; the paper has 60 and 1.
    open_s, close_s : float
        Service time of the metadata server per open and per close.
    metadata_latency_s : float
        Time on top of each open and close.
    ost_bandwidth_bytes_per_s : float
        Rate of one OST.
    read_latency_s : float
        Time on top of each read request.
    link_bytes_per_s : float
        Rate of the links to the GFS together.
    request_bytes : int
        Largest read request.
    """

    n_osts: int
    open_s: float
    close_s: float
    metadata_latency_s: float
    ost_bandwidth_bytes_per_s: float
    read_latency_s: float
    link_bytes_per_s: float
    request_bytes: int


@dataclass(frozen=True)
class LfsModel:
    """The local file system of the modelled machine: one server per node group.

    Parameters
    ----------
    processes_per_server : int
        Processes that share one server; on Fugaku 16 nodes of 4 share an SSD.
    request_bytes : int
        Largest read request.
    request_s : float
        Service time per request, transfer included.
    latency_s : float
        Time on top of each open and of each request. Closes are free.
    """

    processes_per_server: int
    request_bytes: int
    request_s: float
    latency_s: float


@dataclass(frozen=True)
class ModelledMachine:
    """The machine that the emulated devices stand for.

    Parameters
    ----------
    n_processes : int
        Processes of the modelled job.
    gfs : GfsModel
        Its global file system.
    lfs : LfsModel
        Its local file system.
    """

    n_processes: int
    gfs: GfsModel
    lfs: LfsModel


def modelled_machine(
    devices: Mapping[str, Any], n_osts: int, processes_per_lfs_server: int | None = None
) -> ModelledMachine:
    """Return the machine that a system's `devices` describe, with this OST count.

    Parameters
    ----------
    devices : mapping
        Its `n_processes`, `gfs` and `lfs`.
    n_osts : int
        OSTs over which the files are spread.
    processes_per_lfs_server : int, optional
        How many processes share an LFS server, if not as many as the devices say; its
        service time is then as much shorter as fewer processes ask it, or longer.
    """
    lfs = LfsModel(**devices["lfs"])
    if processes_per_lfs_server is not None:
        ratio = lfs.processes_per_server / processes_per_lfs_server
        lfs = replace(
            lfs,
            processes_per_server=processes_per_lfs_server,
            request_s=lfs.request_s * ratio,
        )
    return ModelledMachine(
        n_processes=devices["n_processes"],
        gfs=GfsModel(**{**devices["gfs"], "n_osts": n_osts}),
        lfs=lfs,
    )


def emulated_machine(system: Machine, n_osts: int) -> ModelledMachine:
    """Return the machine that the emulated devices of a system stand for."""
    n_sharing = system.emulation["processes_per_lfs_server"]
    return modelled_machine(system.devices, n_osts, n_sharing)


def scale_gfs(
    machine: ModelledMachine, n_processes: int, prefixes: Sequence[str]
) -> Device:
    """Return the global file system in small.

    The pool of OSTs is scaled, not each OST: 60 OSTs for 8 of 3072 processes become
    one server of 60 x 8 / 3072 of an OST's rate. Sixty servers with each a 384th of
    the rate would carry the same load, but make a single read 60 times too slow.

    Parameters
    ----------
    machine : ModelledMachine
        The machine at its full size.
    n_processes : int
        Processes of the small run.
    prefixes : sequence of str
        Directories of the tier.
    """
    _check_processes(n_processes)
    gfs, share = machine.gfs, n_processes / machine.n_processes
    n_object_servers = max(1, round(gfs.n_osts * share))
    pool_bytes_per_s = gfs.n_osts * gfs.ost_bandwidth_bytes_per_s * share
    return Device(
        prefixes=tuple(prefixes),
        open_s=gfs.open_s / share,
        close_s=gfs.close_s / share,
        metadata_latency_s=gfs.metadata_latency_s,
        n_object_servers=n_object_servers,
        request_bytes=gfs.request_bytes,
        bandwidth_bytes_per_s=pool_bytes_per_s / n_object_servers,
        read_latency_s=gfs.read_latency_s,
        link_bytes_per_s=gfs.link_bytes_per_s * share,
    )


def lfs_groups(machine: ModelledMachine, n_processes: int) -> list[range]:
    """Return the ranks that share each LFS server; the last group may be smaller.

    Parameters
    ----------
    machine : ModelledMachine
        The machine at its full size.
    n_processes : int
        Processes of the small run.
    """
    _check_processes(n_processes)
    size = machine.lfs.processes_per_server
    starts = range(0, n_processes, size)
    return [range(start, min(start + size, n_processes)) for start in starts]


def scale_lfs(
    machine: ModelledMachine,
    n_processes: int,
    prefixes_of: Callable[[range], Sequence[str]],
) -> list[Device]:
    """Return the local file systems in small, one device per group of ranks.

    A group smaller than the machine's gets a server slower by as much, so that each
    rank keeps its share of it.

    Parameters
    ----------
    machine : ModelledMachine
        The machine at its full size.
    n_processes : int
        Processes of the small run.
    prefixes_of : callable
        Maps the ranks of a group, a range, to the group's LFS directories, for
        example one per virtual node.
    """
    lfs = machine.lfs
    return [
        Device(
            prefixes=tuple(prefixes_of(ranks)),
            metadata_latency_s=lfs.latency_s,
            request_bytes=lfs.request_bytes,
            request_s=lfs.request_s * lfs.processes_per_server / len(ranks),
            read_latency_s=lfs.latency_s,
        )
        for ranks in lfs_groups(machine, n_processes)
    ]


def scale_network(system: Machine) -> tuple[float, float]:
    """Return the network between emulated nodes: seconds of a way, bytes per second.

    A link carries what the processes of one node ask and serve, so every process keeps
    its share of it; the way is as long as the machine's.

    Parameters
    ----------
    system : Machine
        An emulated system with `devices` that have a `network`.
    """
    network, share = system.devices["network"], system.processes_per_node
    share /= system.devices["processes_per_node"]
    return network["latency_s"], network["bandwidth_bytes_per_s"] * share


def improve_tier(
    station: Station, tier: str, improvements: Mapping[str, int]
) -> Station:
    """Return a tier's stations with more throughput of some I/O classes.

    N % more throughput of a class divides by 1 + N / 100 what one of its calls takes
    on an idle tier: service times and latencies alike. That is what the paper's rule
    (Fukai et al., Sec. 4.4) supposes of the whole class, waiting included.

    Parameters
    ----------
    station : Device or tierscope.storage.network.TierModel
        The tier as it is.
    tier : {"gfs", "lfs"}
        Which tier it is.
    improvements : mapping of str to int
        Improvements in percent by I/O class; those of the other tier are ignored.
    """
    changes = {}
    for kind in ("read", "meta"):
        factor = 1 + improvements.get(f"{tier}_{kind}", 0) / 100
        names = {field.name for field in fields(station)}
        for name in names & set(_TIMES[kind]):
            changes[name] = getattr(station, name) / factor
        for name in names & set(_RATES[kind]):
            rate = getattr(station, name)
            changes[name] = None if rate is None else rate * factor
    return replace(station, **changes)


def _check_processes(n_processes: int) -> None:
    """Refuse a number of processes that is not above zero."""
    if not n_processes > 0:
        raise ValueError(f"n_processes is {n_processes!r}, expected a number above 0.")
