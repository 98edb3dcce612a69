"""Messages between processes and a node's placement server.

A request is a fixed record; after `HAND_OVER` the bytes of the file follow. It carries
the instant of its sender's turn. The server answers `BEGIN` with a place and `END` with
whether it wants the file's bytes. It does not answer `HAND_OVER`.
"""

import socket
import struct
from collections.abc import Callable
from enum import IntEnum

from tierscope.policies.node import Place

# Kind, place, epoch, rank, file, instant, bytes that follow.
REQUEST = struct.Struct("<BBiiqqq")
ANSWER = struct.Struct("<B")
PLACES = list(Place)
TIMEOUT_S = 60.0  # without an answer or progress, then give up


class Kind(IntEnum):
    """Kinds of requests."""

    BEGIN = 0
    END = 1
    HAND_OVER = 2


def receive(
    connection: socket.socket, n_bytes: int, events: Callable[[], int] = lambda: 0
) -> bytearray | None:
    """Return `n_bytes` bytes, None if the other side closed before the first one.

    Parameters
    ----------
    connection : socket
        Source of the bytes; its timeout applies to each byte.
    n_bytes : int
        Number of bytes.
    events : callable
        Returns a number that grows while the other side waits for its turn; during that
        time no timeout applies (`tierscope.storage.clock.VirtualClock.events`).

    Raises
    ------
    EOFError
        If the other side closed before the last byte.
    TimeoutError
        If no byte arrives in time.
    """
    content = bytearray(n_bytes)
    view, n_received = memoryview(content), 0
    while n_received < n_bytes:
        n_before = events()
        try:
            n_more = connection.recv_into(view[n_received:])
        except TimeoutError:
            if events() == n_before:
                raise
            continue
        if not n_more and not n_received:
            return None
        if not n_more:
            raise EOFError(f"got {n_received} of {n_bytes} bytes")
        n_received += n_more
    return content
