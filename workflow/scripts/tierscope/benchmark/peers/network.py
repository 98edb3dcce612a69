"""The address on which a node's server listens for connections."""

import fcntl
import socket
import struct
from collections.abc import Sequence

from tierscope.benchmark.peers import PeerError

LOOPBACK = "127.0.0.1"
_SIOCGIFADDR = 0x8915  # of netdevice(7): the IPv4 address of an interface
_REQUEST = struct.Struct("16s24x")  # its struct ifreq: the name goes in ...
_ADDRESS = slice(20, 24)  # ... and the address comes back here
_DISCARD = 9  # a port; nothing is sent to it


def own_addresses() -> dict[str, str]:
    """Return the IPv4 address of each network interface that has one, by its name."""
    addresses = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = bytearray(_REQUEST.pack(name.encode()[:15]))
            try:
                fcntl.ioctl(asking, _SIOCGIFADDR, request)
            except OSError:  # no IPv4 address
                continue
            addresses[name] = socket.inet_ntoa(bytes(request[_ADDRESS]))
    return addresses


def listening_address(
    interface: str | None, machines: Sequence[str], machine: str
) -> tuple[str, str]:
    """Return the interface and the address on which a node's server listens.

    Without a configured interface it is the one that reaches the next of `machines`. A
    PeerError says that it does not exist, or that no route leads there.
    """
    addresses = own_addresses()
    names = {address: name for name, address in addresses.items()}
    order = sorted(set(machines))
    if len(order) == 1:
        return names.get(LOOPBACK, "lo"), LOOPBACK
    if interface is not None:
        if interface not in addresses:
            raise PeerError(
                f"network_interface: got {interface!r}, but {machine} has "
                f"{', '.join(sorted(addresses)) or 'none'} with an IPv4 address."
            )
        return interface, addresses[interface]
    following = order[(order.index(machine) + 1) % len(order)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((following, _DISCARD))
        except OSError as error:
            raise PeerError(
                f"{machine}: found no route to {following}: {error.strerror or error}."
            ) from error
        address = asking.getsockname()[0]
    return names.get(address, "?"), address
