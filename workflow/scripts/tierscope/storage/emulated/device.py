"""Emulated devices: their parameters and their configuration file.

``workflow/native/device`` implements the devices. It is a library that is preloaded
into the reading processes, which make real calls. This module writes the library's
configuration file, with one device per line.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path

DEVICES_VARIABLE = "TIERSCOPE_DEVICES"
STATE_VARIABLE = "TIERSCOPE_DEVICE_STATE"

# Ranges as in device.c.
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
_EPOCH_SUFFIX = re.compile(r"(?<=[^/])((\.bg|\.peer)?\.ep[0-9]+)+(?=/|$)")


@dataclass(frozen=True)
class Device:
    """A storage device in front of directories: a small network of queues.

    Opens and closes pass the metadata queue. A read is cut into consecutive requests;
    each passes the object server of its file and the link.

    Parameters
    ----------
    prefixes : tuple of str
        Directories of the device, absolute and normalised. A path belongs to the device
        with the longest prefix. The aliases ``<directory>.ep<N>`` of epochs,
        ``<directory>.bg.ep<N>`` of background traffic and ``<directory>.peer.ep<N>`` of
        reads for other nodes count as the directory itself. This holds for a prefix and
        the directories above it, and also within a prefix.
    open_s, close_s : float
        Service time of the metadata queue per open and per close, in seconds. A
        device with ``close_s`` 0 closes files at once, also without latency.
    metadata_latency_s : float
        Additional time of each open and close, for which no other call waits.
    n_object_servers : int
        Number of object servers. A file is on one of them: the last run of digits in
        the stem of its name, modulo the servers, so numbered files go round robin. A
        name without digits is hashed (FNV-1a).
    request_bytes : int
        Largest request; a read of b bytes is ``ceil(b / request_bytes)`` requests.
    request_s : float
        Service time of an object server per request, without the transfer.
    bandwidth_bytes_per_s : float or None
        Transfer rate of each object server; None is unlimited.
    read_latency_s : float
        Additional time of each request, for which no other call waits.
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
        """Refuse a value outside its range, or one that is not a number."""
        value, (minimum, maximum) = getattr(self, name), _RANGES[name]
        if value is None and name.endswith("bytes_per_s"):
            return
        kind = Integral if name in _WHOLE else Real
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        if not is_number or not minimum <= value <= maximum:
            raise ValueError(
                f"Device {name} is {value!r}, expected "
                f"{'an integer' if name in _WHOLE else 'a number'} from {minimum} to "
                f"{maximum}."
            )


def _check_prefix(prefix: str) -> None:
    """Refuse a directory that configuration file or matching does not support."""
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


def write_device_config(devices: Sequence[Device], path: str | Path) -> None:
    """Write the file that ``TIERSCOPE_DEVICES`` names, which must not exist.

    It has a line for each device, in the order of their counts.
    """
    _check_devices(devices)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(b"".join(os.fsencode(_line(d)) for d in devices))


def _check_devices(devices: Sequence[Device]) -> None:
    """Refuse an empty list, and a directory that belongs to two devices."""
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
