"""What processes and a node's placement server say to each other.

A request is a fixed record, which for `HAND_OVER` the file's bytes follow. `BEGIN` is
answered with a place, `END` of a read from elsewhere than the LFS with whether the
file's bytes are wanted, the others are not answered.
"""

import socket
import struct
from enum import IntEnum

from tierscope.policies.node import Place

REQUEST = struct.Struct("<BBiiqq")  # kind, place, epoch, rank, file, bytes that follow
ANSWER = struct.Struct("<B")
PLACES = list(Place)
TIMEOUT_S = 60.0  # without an answer or progress: the other side is given up


class Kind(IntEnum):
    """Kinds of requests."""

    BEGIN = 0
    END = 1
    HAND_OVER = 2


def receive(connection: socket.socket, n_bytes: int) -> bytearray | None:
    """Return so many bytes, None if the other side has closed before the first one.

    Raises
    ------
    EOFError
        If the other side has closed within them.
    """
    content = bytearray(n_bytes)
    view, n_received = memoryview(content), 0
    while n_received < n_bytes:
        n_more = connection.recv_into(view[n_received:])
        if not n_more and not n_received:
            return None
        if not n_more:
            raise EOFError(f"got {n_received} of {n_bytes} bytes")
        n_received += n_more
    return content
