"""What processes and a node's placement server say to each other.

A request is a fixed record, which for `HAND_OVER` the file's bytes follow. It carries
the instant at which its sender has its turn. `BEGIN` is answered with a place, `END`
with whether the file's bytes are wanted, and `HAND_OVER` is not answered.
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
TIMEOUT_S = 60.0  # without an answer or progress: the other side is given up


class Kind(IntEnum):
    """Kinds of requests."""

    BEGIN = 0
    END = 1
    HAND_OVER = 2


def receive(
    connection: socket.socket, n_bytes: int, events: Callable[[], int] = lambda: 0
) -> bytearray | None:
    """Return so many bytes, None if the other side has closed before the first one.

    Parameters
    ----------
    connection : socket
        Where they come from; its timeout is that of a byte.
    n_bytes : int
        How many.
    events : callable
        Returns a number that grows while the other side waits for its turn; that long
        no timeout counts (`tierscope.storage.clock.Clock.events`).

    Raises
    ------
    EOFError
        If the other side has closed within them.
    TimeoutError
        If none comes in time.
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
