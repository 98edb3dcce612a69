"""Scaled-down emulated devices that keep the balance of a large machine.

If P processes replace the N processes of the modelled machine, devices that all
processes share must be N / P times slower, or a few processes would never load them. A
latency, which delays only its own call, stays the same. Time per epoch and its shape
over the cache rate are then those of the large machine.

The layout follows the machine where it determines waiting. The OSTs become one pool
(`scale_gfs`). Whole nodes share an LFS server, with the number of processes per server
of the system (`modelled_machine`). With several servers no server is shared by all
processes, as on the machine. Every process always keeps its share of a server's time.

The machine's numbers come from a system file. Fugaku's numbers are this project's fit
of a queueing model to the statements of the paper (Fukai et al.): a reconstruction that
is consistent with them, not data.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, TypeVar

from tierscope.core.given.keys import Rate, Seconds, from_to
from tierscope.core.machine import Machine
from tierscope.storage.emulated.device import Device

_REQUEST = from_to(1, 1 << 40)  # bytes
# The times of each kind of I/O class, as fields of devices and of models.
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
_RATES = {
    "read": ("bandwidth_bytes_per_s", "limit_bytes_per_s", "link_bytes_per_s"),
    "meta": (),
}

Station = TypeVar("Station")


@dataclass(frozen=True)
class GfsModel:
    """The global file system of the modelled machine, at its full size."""

    open_s: Annotated[Seconds, "Metadata server time per open, in seconds."]
    close_s: Annotated[Seconds, "Metadata server time per close, in seconds."]
    metadata_latency_s: Annotated[Seconds, "Latency of an open or close, in seconds."]
    n_osts: Annotated[int, from_to(1, 100_000), "Number of OSTs."]
    ost_bandwidth_bytes_per_s: Annotated[
        Rate, "Read bandwidth of an OST, in bytes per second."
    ]
    read_latency_s: Annotated[Seconds, "Latency of a read request, in seconds."]
    link_bytes_per_s: Annotated[
        Rate, "Bandwidth of all links to the GFS together, in bytes per second."
    ]
    request_bytes: Annotated[int, _REQUEST, "Largest read request, in bytes."]
    request_s: Annotated[
        Seconds,
        "OST time per read request, besides the transfer, in seconds. Default 0.",
    ] = 0.0


@dataclass(frozen=True)
class LfsModel:
    """The local file system of the modelled machine: one server per node group.

    On Fugaku 16 nodes of 4 processes share an SSD. Closes are free.
    """

    request_bytes: Annotated[int, _REQUEST, "Largest read request, in bytes."]
    request_s: Annotated[Seconds, "Server time per request, in seconds."]
    latency_s: Annotated[Seconds, "Latency of an open and of each request, in seconds."]
    processes_per_server: Annotated[
        int, from_to(1, 9_999_999), "Processes that share one LFS server."
    ]


@dataclass(frozen=True)
class ModelledMachine:
    """The machine that the emulated devices represent.

    Parameters
    ----------
    n_processes : int
        Processes of the modelled job.
    gfs : GfsModel
        Global file system.
    lfs : LfsModel
        Local file system.
    """

    n_processes: int
    gfs: GfsModel
    lfs: LfsModel


def not_emulated(
    keys: Iterable[str], model: type[GfsModel] | type[LfsModel] = GfsModel
) -> list[str]:
    """Return which keys of a tier's devices only simulated ones have, sorted."""
    return sorted(set(keys) - {one.name for one in fields(model)})


def modelled_machine(
    devices: Mapping[str, Any], n_osts: int, processes_per_lfs_server: int | None = None
) -> ModelledMachine:
    """Return the machine that a system's `devices` describe, with this OST count.

    The service time of an LFS server is inversely proportional to the processes that
    share it, which may be others than the devices say.

    Raises
    ------
    ValueError
        If a tier has what only a simulation knows: places of files, a limit of the
        rate, several devices of an LFS server.
    """
    for tier, model in (("gfs", GfsModel), ("lfs", LfsModel)):
        if unknown := not_emulated(devices[tier], model):
            raise ValueError(
                f"devices.{tier}.{unknown[0]}: got {devices[tier][unknown[0]]!r}, "
                "expected none: emulated devices do not have it, only simulated ones"
            )
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
    """Return the machine that the emulated devices of a system represent."""
    n_sharing = system.emulation["processes_per_lfs_server"]
    return modelled_machine(system.devices, n_osts, n_sharing)


def scale_gfs(
    machine: ModelledMachine, n_processes: int, prefixes: Sequence[str]
) -> Device:
    """Return the scaled-down global file system.

    The pool of OSTs is scaled, not each OST: 60 OSTs for 8 of 3072 processes become
    one server with 60 x 8 / 3072 of an OST's rate. Sixty servers, each with a 384th of
    the rate, would carry the same load but make a single read 60 times too slow.

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
        request_s=gfs.request_s * n_object_servers / (gfs.n_osts * share),
        bandwidth_bytes_per_s=pool_bytes_per_s / n_object_servers,
        read_latency_s=gfs.read_latency_s,
        link_bytes_per_s=gfs.link_bytes_per_s * share,
    )


def lfs_groups(machine: ModelledMachine, n_processes: int) -> list[range]:
    """Return the ranks that share each LFS server; the last group may be smaller."""
    _check_processes(n_processes)
    size = machine.lfs.processes_per_server
    starts = range(0, n_processes, size)
    return [range(start, min(start + size, n_processes)) for start in starts]


def scale_lfs(
    machine: ModelledMachine,
    n_processes: int,
    prefixes_of: Callable[[range], Sequence[str]],
) -> list[Device]:
    """Return the scaled-down local file systems, one device per group of ranks.

    A group smaller than the machine's gets a proportionally slower server, so that each
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
    """Return latency (s) and rate (bytes/s) of the network between emulated nodes.

    A link carries the requests and answers of one node's processes, so every process
    keeps its share of it. The latency is that of the machine.

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

    N % more throughput of a class divides the time of its calls on an idle tier, both
    service times and latencies, by 1 + N / 100. The paper's rule (Fukai et al., Sec.
    4.4) assumes this for the whole class, waiting included.

    Parameters
    ----------
    station : Device or tierscope.storage.queueing_network.TierModel
        The tier without improvements.
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


def free_tier(station: Station, tier: str, classes: Collection[str]) -> Station:
    """Return a tier's stations on which the calls of some I/O classes cost nothing.

    Their service times and latencies are exactly 0, and their rates unlimited.

    Parameters
    ----------
    station : Device or tierscope.storage.queueing_network.TierModel
        The tier as it is.
    tier : {"gfs", "lfs"}
        Which tier it is.
    classes : collection of str
        The I/O classes; those of the other tier are ignored.
    """
    free = [kind for kind in _TIMES if f"{tier}_{kind}" in classes]
    names = {field.name for field in fields(station)}
    times = {name: 0.0 for kind in free for name in names & set(_TIMES[kind])}
    rates = {name: None for kind in free for name in names & set(_RATES[kind])}
    if f"{tier}_read" in classes and "n_links" in names:
        rates["n_links"] = 0  # as a device whose links have no limit
    return replace(station, **times, **rates)


def tier_of(machine: Machine, station: Station, tier: str) -> Station:
    """Return a tier's stations as a machine has them: improved, or ideal.

    Parameters
    ----------
    machine : Machine
        The machine.
    station, tier
        As for `improve_tier`.
    """
    if machine.is_ideal:
        return free_tier(station, tier, [f"{tier}_{kind}" for kind in _TIMES])
    return improve_tier(station, tier, machine.improvements)


def _check_processes(n_processes: int) -> None:
    """Refuse a number of processes that is not positive."""
    if not n_processes > 0:
        raise ValueError(f"n_processes is {n_processes!r}, expected a number above 0.")
