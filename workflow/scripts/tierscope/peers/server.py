"""A node's server: it reads files of the node's LFS for processes of other nodes."""

import errno
import hmac
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tierscope.dataset import read_timed
from tierscope.peers import PeerError
from tierscope.placement.messages import TIMEOUT_S, receive
from tierscope.tiers.clock import Clock, Role

TOKEN_BYTES = 16
# Epoch, file, process that asks; a connection starts with the token.
REQUEST = struct.Struct("<iqi")
# Whether there is a file, its bytes or those of a message, which follow, and the time
# that the LFS took to read and to open and close.
ANSWER = struct.Struct("<?qdd")
_STOP_S = 5.0


class PeerServer:
    """Answers requests for the files of one node, several at a time.

    It has no clock: it reads on that of who asks.

    Its threads wait for all connections at once and each takes one request after the
    other, so their number does not grow with that of the processes.

    Parameters
    ----------
    path : callable
        Returns the path of a file, given epoch and file, under the peers' aliases.
    file_size_bytes, buffer_bytes : int
        Exact size of each file; size of a read.
    node : int
        Index of the node.
    n_threads : int
        Requests that are served at a time.
    token : bytes
        What a connection must begin with: the launch's secret.
    clock : Clock
        Of the launch.
    host : str
        Interface to listen on; empty for all.
    timeout_s : float
        Time for a request or an answer to pass once it has begun.
    """

    def __init__(
        self,
        path: Callable[[int, int], str],
        file_size_bytes: int,
        buffer_bytes: int,
        node: int,
        n_threads: int,
        token: bytes,
        clock: Clock,
        host: str = "127.0.0.1",
        timeout_s: float = TIMEOUT_S,
    ):
        self._path, self._size, self._buffer_bytes = path, file_size_bytes, buffer_bytes
        self._node, self._token, self._timeout_s = node, token, timeout_s
        self._clock = clock
        self.error: BaseException | None = None
        self._stopping = False
        self._lock = threading.Lock()
        self._connections: dict[int, socket.socket] = {}
        self._trusted: set[int] = set()
        self._listener = socket.create_server((host, 0), backlog=1024)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._woken, self._wake_up = socket.socketpair()
        self._epoll = select.epoll()
        self._epoll.register(self._woken, select.EPOLLIN)  # wakes all threads
        self._epoll.register(self._listener, select.EPOLLIN | select.EPOLLEXCLUSIVE)
        names = (f"serve-{node}-{number}" for number in range(n_threads))
        self._threads = [
            threading.Thread(target=self._serve, name=name, daemon=True)
            for name in names
        ]
        for thread in self._threads:
            thread.start()

    def check(self) -> None:
        """Raise the error that ended the server, if it has ended."""
        if self.error is not None:
            raise self._ended_error() from self.error

    def _ended_error(self) -> PeerError:
        """Return what to raise once the server has ended."""
        return PeerError(
            f"the server of node {self._node} for other nodes has ended: "
            f"{type(self.error).__name__}: {self.error}"
        )

    def stop(self) -> None:
        """End the server and close its connections."""
        self._end()
        end = time.monotonic() + _STOP_S
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _end(self) -> None:
        """Close all connections, so that the readers notice at once."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            self._wake_up.send(b"\0")
            self._listener.close()
            for connection in self._connections.values():
                with suppress(OSError):  # its reader has reset it
                    connection.shutdown(socket.SHUT_RDWR)

    # ---- the threads --------------------------------------------------------------

    def _serve(self) -> None:
        """Take requests until the end, or until something goes wrong."""
        try:
            while not self._stopping:
                for descriptor, _ in self._epoll.poll(maxevents=1):
                    if self._stopping:
                        return
                    if descriptor in self._connections:
                        self._take(descriptor)
                    else:
                        self._accept()
        except BaseException as error:  # the readers must learn of it, whatever it is
            if not self._stopping:
                self.error = error
                self._clock.stop(self._ended_error())
                self._end()

    def _accept(self) -> None:
        """Take a new connection, if no other thread was faster."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(self._timeout_s)
        with self._lock:
            self._connections[connection.fileno()] = connection
        self._epoll.register(connection, select.EPOLLIN | select.EPOLLONESHOT)

    def _take(self, descriptor: int) -> None:
        """Serve the next request of a connection, or close it."""
        connection = self._connections[descriptor]
        try:
            goes_on = self._answer(connection)
        except (ConnectionError, EOFError, TimeoutError):  # the reader has ended
            goes_on = False
        if goes_on:
            self._epoll.modify(connection, select.EPOLLIN | select.EPOLLONESHOT)
            return
        with self._lock:
            del self._connections[descriptor]
            self._trusted.discard(descriptor)
            self._epoll.unregister(connection)
            connection.close()

    def _answer(self, connection: socket.socket) -> bool:
        """Receive the token or a request and answer; return whether it goes on."""
        if connection.fileno() not in self._trusted:
            token = receive(connection, TOKEN_BYTES)
            if token is None or not hmac.compare_digest(bytes(token), self._token):
                return False
            self._trusted.add(connection.fileno())
            return True
        head = receive(connection, REQUEST.size)
        if head is None:
            return False
        epoch, file_id, rank = REQUEST.unpack(head)
        try:
            with self._clock.act(rank, Role.READER):
                content, read_time_s, meta_time_s = self._read(epoch, file_id)
        except OSError as error:
            message = (error.strerror or str(error)).encode()
            connection.sendall(ANSWER.pack(False, len(message), 0.0, 0.0) + message)
            return True
        connection.sendall(ANSWER.pack(True, len(content), read_time_s, meta_time_s))
        connection.sendall(content)
        return True

    def _read(self, epoch: int, file_id: int) -> tuple[bytes, float, float]:
        """Read a file of the node's LFS."""
        path = self._path(epoch, file_id)
        content, *times_s = read_timed(path, self._buffer_bytes, self._clock.now_ns)
        if len(content) != self._size:
            reason = f"got {len(content)} bytes, expected {self._size}"
            raise OSError(errno.EIO, reason, path)
        return content, *times_s
