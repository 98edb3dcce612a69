"""Emulated devices: their parameters, their configuration file, their statistics.

The devices themselves are ``workflow/native/device.c``, a library preloaded into
the reading processes, which make real calls and wait for their turn. This module
writes what the library reads (a text file, one device a line, and a state file that
all processes of the machine map) and reads the statistics that it leaves there.
"""

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DEVICES_VARIABLE = "TIERSCOPE_DEVICES"
STATE_VARIABLE = "TIERSCOPE_DEVICE_STATE"

# Ranges and layout as in device.c.
_WHOLE = ("n_object_servers", "request_bytes")
_RANGES = {
    "open_s": (0, 3600),
    "close_s": (0, 3600),
    "metadata_latency_s": (0, 3600),
    "n_object_servers": (1, 65536),
    "request_bytes": (1, 10**12),
    "request_s": (0, 3600),
    "bandwidth_bytes_per_s": (1, 10**18),
    "read_latency_s": (0, 3600),
    "link_bytes_per_s": (1, 10**18),
}
_MAGIC = 0x7469657264657631
_HEADER = ("magic", "n_devices")
_COUNTERS = (
    "n_object_servers",
    "n_opens",
    "n_closes",
    "n_requests",
    "n_bytes",
    "n_waits",
    "wait_ns",
    "lateness_ns",
    "max_lateness_ns",
)
_STATION_WORDS = 2  # the instant at which the station is free, its busy time
_EPOCH_SUFFIX = re.compile(r"(?<=[^/])((\.bg|\.peer)?\.ep[0-9]+)+(?=/|$)")


@dataclass(frozen=True)
class Device:
    """A storage device in front of directories: a small network of queues.

    Opens and closes pass the metadata queue; a read is cut into requests, one
    after the other, and each passes the object server of its file and the link.

    Parameters
    ----------
    prefixes : tuple of str
        Directories of the device, absolute and normalised. A path belongs to the
        device with the longest prefix; epoch aliases ``<directory>.ep<N>`` of a
        prefix or of a directory above it, ``<directory>.bg.ep<N>`` of background
        traffic and ``<directory>.peer.ep<N>`` of reads for other nodes, count as the
        directory itself, in a prefix as well.
    open_s, close_s : float
        Service time of the metadata queue per open and per close, in seconds. A
        device with ``close_s`` 0 answers closes without asking: no latency either.
    metadata_latency_s : float
        Time on top of each open and each close that no other call waits for.
    n_object_servers : int
        Object servers; a file lives on one (see `object_server_of`).
    request_bytes : int
        Largest request; a read of b bytes is ``ceil(b / request_bytes)`` requests.
    request_s : float
        Service time of an object server per request, besides the transfer.
    bandwidth_bytes_per_s : float or None
        Transfer rate of each object server; None is unlimited.
    read_latency_s : float
        Time on top of each request that no other call waits for.
    link_bytes_per_s : float or None
        Rate of the link that all object servers share; None is unlimited.
    """

    prefixes: tuple[str, ...]
    open_s: float = 0.0
    close_s: float = 0.0
    metadata_latency_s: float = 0.0
    n_object_servers: int = 1
    request_bytes: int = 1024**2
    request_s: float = 0.0
    bandwidth_bytes_per_s: float | None = None
    read_latency_s: float = 0.0
    link_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.prefixes, str) or not self.prefixes:
            raise ValueError(
                f"Device prefixes are {self.prefixes!r}, expected a tuple of one or "
                "more directories."
            )
        for prefix in self.prefixes:
            _check_prefix(prefix)
        for name in _RANGES:
            self._check_range(name)

    @property
    def directories(self) -> tuple[str, ...]:
        """Return the prefixes without epoch aliases, each once."""
        names = (_EPOCH_SUFFIX.sub("", os.fspath(prefix)) for prefix in self.prefixes)
        return tuple(dict.fromkeys(names))

    def _check_range(self, name: str) -> None:
        """Refuse a value outside of its range, and what is not a number."""
        value, (minimum, maximum) = getattr(self, name), _RANGES[name]
        if value is None and name.endswith("bytes_per_s"):
            return
        kind = (int, np.integer) if name in _WHOLE else (int, float, np.number)
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        if not is_number or not minimum <= value <= maximum:
            raise ValueError(
                f"Device {name} is {value!r}, expected "
                f"{'an integer' if name in _WHOLE else 'a number'} from {minimum} to "
                f"{maximum}."
            )


def _check_prefix(prefix: str) -> None:
    """Refuse a directory that the configuration file or the matching cannot hold."""
    prefix = os.fspath(prefix)
    if unwritable := [c for c in "\t\n\0" if c in prefix]:
        raise ValueError(
            f"Device prefix {prefix!r} contains {unwritable}, expected a path without "
            "tabs, line ends and zero bytes."
        )
    is_normal = os.path.normpath(prefix) == prefix and not prefix.startswith("//")
    if not os.path.isabs(prefix) or not is_normal or prefix == "/":
        raise ValueError(
            f"Device prefix is {prefix!r}, expected an absolute, normalised path "
            "below /, for example /data/gfs."
        )


def object_server_of(path: str, n_object_servers: int) -> int:
    """Return the object server on which an emulated device keeps a file.

    The last run of digits in the stem of the file's name, modulo the servers, so
    that numbered files go round robin; a name without digits is hashed (FNV-1a).

    Parameters
    ----------
    path : str
        The file's path; only its last component matters.
    n_object_servers : int
        Object servers of the device.
    """
    name = os.path.basename(path)
    if numbers := re.findall(r"[0-9]+", os.path.splitext(name)[0]):
        return int(numbers[-1]) % n_object_servers
    value = 14695981039346656037
    for byte in os.fsencode(name):
        value = (value ^ byte) * 1099511628211 % 2**64
    return value % n_object_servers


def write_device_config(devices: Sequence[Device], path: str | Path) -> None:
    """Write the file that ``TIERSCOPE_DEVICES`` names.

    Parameters
    ----------
    devices : sequence of Device
        The devices, one line each; their order is that of the statistics.
    path : path-like
        The file to write; there must be none.
    """
    _check_devices(devices)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(b"".join(os.fsencode(_line(d)) for d in devices))


def _check_devices(devices: Sequence[Device]) -> None:
    """Refuse no devices at all, and a directory that belongs to two of them."""
    if not devices:
        raise ValueError("The list of devices is empty, expected one or more.")
    device_of = {}
    for number, device in enumerate(devices):
        for directory in device.directories:
            if directory in device_of:
                raise ValueError(
                    f"Directory {directory!r} belongs to devices "
                    f"{device_of[directory]} and {number}, expected one."
                )
            device_of[directory] = number


def _line(device: Device) -> str:
    """Return a device as a line of the configuration file."""
    parts = [f"prefix={directory}" for directory in device.directories]
    for name in _RANGES:
        if (value := getattr(device, name)) is not None:
            number = int(value) if name in _WHOLE else float(value)
            parts.append(f"{name}={number!r}")
    return "\t".join(parts) + "\n"


def create_state(path: str | Path, devices: Sequence[Device]) -> None:
    """Create the file that ``TIERSCOPE_DEVICE_STATE`` names: idle devices.

    Make it anew for each launch, where no disk is behind it (``/dev/shm``), and not
    while processes use it.

    Parameters
    ----------
    path : path-like
        The file to create; an old one is replaced.
    devices : sequence of Device
        The devices, as given to `write_device_config`.
    """
    _check_devices(devices)
    words = [_MAGIC, len(devices)]
    for device in devices:
        block = [0] * _block_words(device.n_object_servers)
        block[0] = device.n_object_servers
        words += block
    temporary = Path(f"{path}.{os.getpid()}")
    np.array(words, dtype=np.int64).tofile(temporary)
    temporary.replace(path)


def _block_words(n_object_servers: int) -> int:
    """Return the words of a device's state: counters, metadata, link, servers."""
    return len(_COUNTERS) + _STATION_WORDS * (2 + n_object_servers)


@dataclass(frozen=True)
class DeviceStatistics:
    """What a device did since its statistics were reset.

    Parameters
    ----------
    n_opens, n_closes : int
        Opens for reading, and closes of what they returned; background writes too.
    n_requests, n_bytes : int
        Requests to the object servers and the bytes they moved.
    n_waits : int
        Times a caller was made to wait.
    wait_s : float
        Sum of the waits as the model set them: queueing, service and latency.
    lateness_s, max_lateness_s : float
        Sum and maximum over waits of how much later than the model set it the
        caller went on: the machine's doing, not the device's.
    metadata_busy_s, link_busy_s : float
        Sum of the service times of the metadata queue and of the link.
    object_server_busy_s : tuple of float
        Sum of the service times of each object server.
    """

    n_opens: int
    n_closes: int
    n_requests: int
    n_bytes: int
    n_waits: int
    wait_s: float
    lateness_s: float
    max_lateness_s: float
    metadata_busy_s: float
    link_busy_s: float
    object_server_busy_s: tuple[float, ...]

    @property
    def mean_lateness_s(self) -> float:
        """Return the mean lateness of a wait in seconds, 0 without waits."""
        return self.lateness_s / self.n_waits if self.n_waits else 0.0

    @property
    def lateness_share(self) -> float:
        """Return the sum of lateness over the sum of waits, 0 without waits."""
        return lateness_share([self])


def lateness_share(statistics: Iterable[DeviceStatistics]) -> float:
    """Return the lateness of several devices as a share of their waits.

    The library forgives a thread its last lateness when it comes back at once, so
    the share bounds the error of emulated times from above in most cases.

    Parameters
    ----------
    statistics : iterable of DeviceStatistics
        The devices of a run.

    Returns
    -------
    float
        Sum of lateness over sum of waits; 0 if nobody waited, infinite if all waits
        were set to last no time.
    """
    statistics = list(statistics)
    lateness_s = math.fsum(s.lateness_s for s in statistics)
    wait_s = math.fsum(s.wait_s for s in statistics)
    if wait_s == 0:
        return math.inf if lateness_s > 0 else 0.0
    return lateness_s / wait_s


def read_statistics(path: str | Path) -> list[DeviceStatistics]:
    """Read the statistics of all devices, in the order of the configuration.

    Parameters
    ----------
    path : path-like
        The state file. Processes may be using it; numbers are then of the moment.
    """
    return [_statistics(block) for block in _blocks(_map(path, "r"))]


def _statistics(block: np.ndarray) -> DeviceStatistics:
    """Return a device's words as statistics."""
    counters = dict(zip(_COUNTERS, block.tolist(), strict=False))
    metadata_s, link_s, *servers_s = (
        busy_ns / 1e9
        for busy_ns in block[len(_COUNTERS) + 1 :: _STATION_WORDS].tolist()
    )
    return DeviceStatistics(
        n_opens=counters["n_opens"],
        n_closes=counters["n_closes"],
        n_requests=counters["n_requests"],
        n_bytes=counters["n_bytes"],
        n_waits=counters["n_waits"],
        wait_s=counters["wait_ns"] / 1e9,
        lateness_s=counters["lateness_ns"] / 1e9,
        max_lateness_s=counters["max_lateness_ns"] / 1e9,
        metadata_busy_s=metadata_s,
        link_busy_s=link_s,
        object_server_busy_s=tuple(servers_s),
    )


def reset_statistics(path: str | Path) -> None:
    """Set the statistics of all devices to zero; their queues stay as they are.

    Call it when nobody waits (between two points of a launch, behind a barrier): a
    wait that ends later counts in the new statistics.

    Parameters
    ----------
    path : path-like
        The state file; it is changed in place.
    """
    for block in _blocks(_map(path, "r+")):
        block[1 : len(_COUNTERS)] = 0
        block[len(_COUNTERS) + 1 :: _STATION_WORDS] = 0


def _map(path: str | Path, mode: str) -> np.memmap:
    """Map a state file as 64-bit words."""
    n_bytes = os.path.getsize(path)
    if n_bytes < 8 * len(_HEADER) or n_bytes % 8:
        raise ValueError(
            f"Device state {path} has {n_bytes} bytes, expected a multiple of 8 and at "
            f"least {8 * len(_HEADER)}."
        )
    state = np.memmap(path, dtype=np.int64, mode=mode)
    if state[0] != _MAGIC:
        raise ValueError(
            f"Device state {path} starts with {int(state[0]):#x}, expected {_MAGIC:#x}."
        )
    return state


def _blocks(state: np.ndarray) -> list[np.ndarray]:
    """Return the words of each device as views."""
    blocks, at = [], len(_HEADER)
    for _ in range(int(state[1])):
        n_words = _block_words(int(state[at]))
        blocks.append(state[at : at + n_words])
        at += n_words
    return blocks
