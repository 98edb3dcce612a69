"""A machine's storage as a network of queues, for simulator and models.

Ranks are the customers of a closed network: each makes its next call when the last one
has returned. The open of a file waits for a metadata server. Its read is cut into
requests, which follow each other; each request passes the object server of the file and
then a link. Its close waits for a metadata server again. Latencies delay a call and
occupy no server. Between the last byte and the close the rank processes the sample, and
waits if its loader holds the largest number of batches. These are the stations of the
emulated devices (`tierscope.storage.emulated.device`); the numbers come from section
`devices` of a system file.
"""

import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from tierscope.core.description import ComputeTime, FileSizes
from tierscope.core.io_class import NET_READ
from tierscope.core.machine import Machine
from tierscope.storage.emulated.device import Device
from tierscope.storage.emulated.scale import (
    emulated_machine,
    free_tier,
    lfs_groups,
    scale_gfs,
    scale_lfs,
    scale_network,
    tier_of,
)

if TYPE_CHECKING:
    import numpy as np


class ModelError(ValueError):
    """A model's parameter is impossible; the message names it, its value and range."""


@dataclass(frozen=True)
class Service:
    """How the service times of a station vary about their mean.

    Parameters
    ----------
    distribution : {"deterministic", "exponential", "lognormal"}
        Shape of the distribution.
    cv : float, optional
        Coefficient of variation (standard deviation over mean) of ``lognormal``, above
        0; that of the others is fixed, 0 and 1.
    """

    distribution: str = "deterministic"
    cv: float | None = None

    def __post_init__(self) -> None:
        _check_one_of("distribution", self.distribution, DISTRIBUTIONS)
        if (self.distribution == "lognormal") != (self.cv is not None):
            raise ModelError(
                f"cv: got {self.cv} with distribution {self.distribution}, expected "
                "one with lognormal only."
            )
        if self.cv is not None:
            _check_number("cv", self.cv, above=0)


DISTRIBUTIONS = ("deterministic", "exponential", "lognormal")
MODULO, RANDOM = "modulo", "random"  # which object server holds a file


@dataclass(frozen=True)
class TierModel:
    """The stations of one tier. Each queue is served first come, first served.

    Parameters
    ----------
    group_size : int or None
        Number of consecutive ranks that share servers; each group has its own servers.
        None: all ranks are one group.
    n_metadata_servers : int
        Metadata servers of a group; they share one queue.
    open_s, close_s : float
        Mean service time of a metadata server per open and per close. An operation
        without service time enters no queue.
    open_latency_s, close_latency_s : float
        Latency that is added to each open and to each close.
    n_object_servers : int
        Object servers of a group, each with its queue.
    placement : {"modulo", "random"}
        Whether file i lies on server i modulo their number, or on a random one; only
        the GFS may have random places.
    request_bytes : int
        Largest request.
    request_s : float
        Mean service time of an object server per request, besides the transfer.
    bandwidth_bytes_per_s : float or None
        Mean rate of each object server; None is unlimited.
    limit_bytes_per_s : float or None
        Rate at which each object server serves when its credit is used up, and at which
        credit comes back (a token bucket); None: it has no such limit.
    limit_credit_bytes : float
        The largest credit; it is full when a run begins.
    read_latency_s : float
        Latency that is added to each request.
    n_links : int
        Links that requests pass after the object server; consecutive ranks share a
        link. 0: there are no links.
    link_bytes_per_s : float or None
        Rate of each link, always the same; None is unlimited.
    metadata_service, object_service : Service
        How the service times of both types of servers vary.
    object_server_spread : float
        Standard deviation of the logarithm of the object servers' slowness: each is
        slower than the mean by a factor ``exp(spread * z)``, z standard normal, that
        stays the same for a run.
    """

    group_size: int | None = None
    n_metadata_servers: int = 1
    open_s: float = 0.0
    close_s: float = 0.0
    open_latency_s: float = 0.0
    close_latency_s: float = 0.0
    n_object_servers: int = 1
    placement: str = MODULO
    request_bytes: int = 1024**2
    request_s: float = 0.0
    bandwidth_bytes_per_s: float | None = None
    limit_bytes_per_s: float | None = None
    limit_credit_bytes: float = 0.0
    read_latency_s: float = 0.0
    n_links: int = 0
    link_bytes_per_s: float | None = None
    metadata_service: Service = field(default_factory=Service)
    object_service: Service = field(default_factory=Service)
    object_server_spread: float = 0.0

    def __post_init__(self) -> None:
        for name in ("n_metadata_servers", "n_object_servers", "request_bytes"):
            _check_number(name, getattr(self, name), at_least=1, whole=True)
        if self.group_size is not None:
            _check_number("group_size", self.group_size, at_least=1, whole=True)
        _check_number("n_links", self.n_links, at_least=0, whole=True)
        for name in (
            "open_s",
            "close_s",
            "open_latency_s",
            "close_latency_s",
            "request_s",
            "limit_credit_bytes",
            "read_latency_s",
            "object_server_spread",
        ):
            _check_number(name, getattr(self, name), at_least=0)
        _check_one_of("placement", self.placement, (MODULO, RANDOM))
        for name in ("bandwidth_bytes_per_s", "limit_bytes_per_s", "link_bytes_per_s"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), above=0)

    def n_groups(self, n_ranks: int) -> int:
        """Return how many groups of servers some ranks need."""
        return -(-n_ranks // (self.group_size or n_ranks))

    def request_service_s(self, request_bytes: "np.ndarray") -> "np.ndarray":
        """Return an object server's mean service time of each request."""
        return self.request_s + request_bytes / (self.bandwidth_bytes_per_s or math.inf)

    def request_link_s(self, request_bytes: "np.ndarray") -> "np.ndarray":
        """Return the time of each request on a link."""
        return request_bytes / (self.link_bytes_per_s or math.inf)

    def request_limit_s(self, request_bytes: "np.ndarray") -> "np.ndarray":
        """Return the time of each request at the rate of the limit."""
        return request_bytes / (self.limit_bytes_per_s or math.inf)

    @property
    def credit_s(self) -> float:
        """Return how long it takes to get back all credit."""
        return self.limit_credit_bytes / (self.limit_bytes_per_s or math.inf)

    def draw_slowness(
        self, n_ranks: int, generator: "np.random.Generator"
    ) -> "np.ndarray":
        """Return the factor of each object server: shape (n_groups * n_servers,)."""
        import numpy as np

        n_servers = self.n_groups(n_ranks) * self.n_object_servers
        return np.exp(self.object_server_spread * generator.standard_normal(n_servers))


@dataclass(frozen=True)
class NodeLinks:
    """The network between nodes: each has one link out and one in.

    Parameters
    ----------
    latency_s : float
        Latency of a message, in each direction.
    bandwidth_bytes_per_s : float
        Rate of each link.
    """

    latency_s: float
    bandwidth_bytes_per_s: float

    def __post_init__(self) -> None:
        _check_number("latency_s", self.latency_s, at_least=0)
        _check_number("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s, above=0)


@dataclass(frozen=True)
class Network:
    """A machine's storage: its ranks and the stations of both tiers.

    Parameters
    ----------
    n_ranks : int
        Ranks of the machine.
    gfs, lfs : TierModel
        The stations.
    peers : NodeLinks or None
        The network between the nodes, None if the system file does not describe it.
    sample_s : float
        Processor time of a sample: after the last byte of a file its rank does nothing
        else for this time. Each rank has its own processor.
    """

    n_ranks: int
    gfs: TierModel
    lfs: TierModel
    peers: NodeLinks | None = None
    sample_s: float = 0.0

    def __post_init__(self) -> None:
        _check_number("n_ranks", self.n_ranks, at_least=1, whole=True)
        _check_number("sample_s", self.sample_s, at_least=0)

    def of(self, machine: Machine) -> "Network":
        """Return the network with the tiers as a machine has them (`tier_of`)."""
        return replace(
            self,
            gfs=tier_of(machine, self.gfs, "gfs"),
            lfs=tier_of(machine, self.lfs, "lfs"),
        )

    def without(self, classes: Collection[str]) -> "Network":
        """Return the network on which some I/O classes cost nothing (`free_tier`).

        Without reads from other nodes, the network between them costs nothing.
        """
        is_free = self.peers is not None and NET_READ in classes
        return replace(
            self,
            gfs=free_tier(self.gfs, "gfs", classes),
            lfs=free_tier(self.lfs, "lfs", classes),
            peers=NodeLinks(0.0, sys.float_info.max) if is_free else self.peers,
        )


@dataclass(frozen=True)
class Workload:
    """What the ranks read in an epoch and how (with one read thread per rank).

    Parameters
    ----------
    n_files, file_size_bytes : int
        The dataset; every file is read once.
    batch_size : int
        Files per step.
    buffer_bytes : int
        Largest read call of the loader, which is cut into requests; 0 reads a file in
        one call.
    prefetch_batches : int
        Batches that the loader reads ahead; 0 reads a batch when it is requested.
    compute_time_s : float
        Mean time between two steps.
    compute : ComputeTime, optional
        How that time varies, by chance or by warm-up.
    workers : int, optional
        Workers of a rank that read by the rule of PyTorch's `DataLoader`; None: one
        reader, as in `tf.data`.
    prefetch_factor : int
        Batches that each worker may have read before they are taken.
    in_steps : bool
        Whether ranks meet at the end of each step.
    sizes : FileSizes, optional
        How the sizes of files vary; default: all files have `file_size_bytes`.
    """

    n_files: int
    file_size_bytes: int
    batch_size: int = 1
    buffer_bytes: int = 0
    prefetch_batches: int = 0
    compute_time_s: float = 0.0
    compute: ComputeTime | None = None
    workers: int | None = None
    prefetch_factor: int = 0
    in_steps: bool = False
    sizes: FileSizes | None = None

    def __post_init__(self) -> None:
        for name in ("n_files", "file_size_bytes", "batch_size"):
            _check_number(name, getattr(self, name), at_least=1, whole=True)
        for name in ("buffer_bytes", "prefetch_batches"):
            _check_number(name, getattr(self, name), at_least=0, whole=True)
        _check_number("compute_time_s", self.compute_time_s, at_least=0)

    @property
    def needs_steps(self) -> bool:
        """Return whether a rank's steps depend on more than its own one reader."""
        return self.workers is not None or self.in_steps or self.compute is not None

    @property
    def by_size(self) -> "tuple[Workload, ...]":
        """Return the workload with each size that a file can have."""
        if self.sizes is None:
            return (self,)
        return tuple(
            replace(self, file_size_bytes=size, sizes=None)
            for size in self.sizes.values()
        )

    @property
    def largest(self) -> "Workload":
        """Return the workload if all files were as large as the largest."""
        return self.by_size[-1]

    def call_bytes(self) -> "np.ndarray":
        """Return the bytes of each read call of a file: int, shape (n_calls,)."""
        return _pieces(self.file_size_bytes, self.buffer_bytes or self.file_size_bytes)

    def request_bytes(self, tier: TierModel) -> "np.ndarray":
        """Return the size of each request of a file: int, shape (n_requests,)."""
        import numpy as np

        return np.concatenate(
            [_pieces(call, tier.request_bytes) for call in self.call_bytes()]
        )


def _pieces(total: int, largest: int) -> "np.ndarray":
    """Return the sizes into which a size is cut."""
    import numpy as np

    sizes = np.full(-(-total // largest), largest)
    sizes[-1] = total - largest * (len(sizes) - 1)
    return sizes


def network_of(system: Machine, n_osts: int) -> Network:
    """Return the network of a system: emulated devices, or a machine with `devices`.

    It includes the `improvements` of the system, if there are any; the devices of an
    ideal one take no time.

    Parameters
    ----------
    system : Machine
        A checked system.
    n_osts : int
        OSTs over which the files are spread.

    Raises
    ------
    ModelError
        If the system has no devices, or emulated ranks share LFS servers in groups of
        different sizes.
    """
    n_ranks = system.n_processes
    if system.devices is None:
        raise ModelError(
            f"system {system.name}: got no devices, expected their service times."
        )
    if system.emulation is not None:
        network = _emulated_network(system, n_osts, n_ranks)
    else:
        network = _described_network(system.devices, n_osts, n_ranks)
    return network.of(system)


def _described_network(
    devices: Mapping[str, Any], n_osts: int, n_ranks: int
) -> Network:
    """Return the network of a machine as its devices describe it."""
    gfs, lfs = devices["gfs"], devices["lfs"]
    details = devices.get("simulation", {})
    try:
        service = Service(
            details.get("service_distribution", "deterministic"),
            details.get("service_cv"),
        )
    except ModelError as error:
        raise ModelError(f"devices.simulation.service_{error}") from None
    n_links = details.get("gfs_links", 1)
    return Network(
        n_ranks,
        gfs=TierModel(
            open_s=gfs["open_s"],
            close_s=gfs["close_s"],
            open_latency_s=gfs["metadata_latency_s"],
            # As with emulated devices: none if closes take no service time.
            close_latency_s=gfs["metadata_latency_s"] if gfs["close_s"] else 0.0,
            n_object_servers=n_osts or 1,  # 0 is not known
            request_bytes=gfs["request_bytes"],
            request_s=gfs.get("request_s", 0.0),
            bandwidth_bytes_per_s=gfs["ost_bandwidth_bytes_per_s"],
            placement=gfs.get("placement", MODULO),
            limit_bytes_per_s=gfs.get("limit_bytes_per_s"),
            limit_credit_bytes=gfs.get("limit_credit_bytes", 0.0),
            read_latency_s=gfs["read_latency_s"],
            n_links=n_links,
            link_bytes_per_s=gfs["link_bytes_per_s"] / n_links,
            metadata_service=service,
            object_service=service,
        ),
        lfs=TierModel(
            group_size=lfs["processes_per_server"],
            open_s=details.get("lfs_open_s", 0.0),
            open_latency_s=lfs["latency_s"],
            close_latency_s=details.get("lfs_close_latency_s", 0.0),
            n_object_servers=lfs.get("n_devices", 1),
            request_bytes=lfs["request_bytes"],
            request_s=lfs["request_s"],
            read_latency_s=lfs["latency_s"],
            metadata_service=service,
            object_service=service,
            object_server_spread=details.get("lfs_spread_percent", 0.0) / 100,
        ),
        peers=NodeLinks(**devices["network"]) if "network" in devices else None,
        sample_s=_sample_s(devices),
    )


def _sample_s(devices: Mapping[str, Any]) -> float:
    """Return the processor time of a sample from a system's devices."""
    return devices.get("processor", {}).get("sample_s", 0.0)


def _emulated_network(system: Machine, n_osts: int, n_ranks: int) -> Network:
    """Return the network of a system's emulated devices."""
    try:
        machine = emulated_machine(system, n_osts)
    except ValueError as error:
        raise ModelError(f"system {system.name}: {error}.") from error
    groups = lfs_groups(machine, n_ranks)
    if len(sizes := {len(group) for group in groups}) > 1:
        raise ModelError(
            f"system {system.name}: got groups of {sorted(sizes)} processes that "
            "share an LFS server, expected groups of one size."
        )
    return Network(
        n_ranks,
        gfs=_tier_of(scale_gfs(machine, n_ranks, ["/gfs"])),
        lfs=_tier_of(
            scale_lfs(machine, n_ranks, lambda _: ["/lfs"])[0],
            group_size=len(groups[0]),
        ),
        peers=(
            NodeLinks(*scale_network(system)) if "network" in system.devices else None
        ),
        sample_s=_sample_s(system.devices),
    )


def _tier_of(device: Device, group_size: int | None = None) -> TierModel:
    """Return an emulated device as stations; closes without service take no time."""
    return TierModel(
        group_size=group_size,
        open_s=device.open_s,
        close_s=device.close_s,
        open_latency_s=device.metadata_latency_s,
        close_latency_s=device.metadata_latency_s if device.close_s else 0.0,
        n_object_servers=device.n_object_servers,
        request_bytes=device.request_bytes,
        request_s=device.request_s,
        bandwidth_bytes_per_s=device.bandwidth_bytes_per_s,
        read_latency_s=device.read_latency_s,
        n_links=0 if device.link_bytes_per_s is None else 1,
        link_bytes_per_s=device.link_bytes_per_s,
    )


def _check_number(
    name: str,
    value: Any,
    *,
    at_least: float | None = None,
    above: float | None = None,
    whole: bool = False,
) -> None:
    """Refuse a value that is not a finite number of the wanted type and range."""
    kind = Integral if whole else Real
    fits = isinstance(value, kind) and not isinstance(value, bool)
    fits = fits and math.isfinite(value)
    if above is not None:
        fits, wanted = fits and value > above, f"above {above}"
    else:
        fits, wanted = fits and value >= at_least, f"of at least {at_least}"
    if not fits:
        words = "an integer" if whole else "a number"
        raise ModelError(f"{name}: got {value!r}, expected {words} {wanted}.")


def _check_one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse an unknown word."""
    if value not in known:
        raise ModelError(f"{name}: got {value!r}, expected one of {', '.join(known)}.")
