"""A node's server, which reads files of its LFS for processes of other nodes."""

import errno
import hmac
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field

from tierscope.benchmark.node_server import NodeServer
from tierscope.benchmark.peers import PeerError
from tierscope.benchmark.peers.network import LOOPBACK
from tierscope.benchmark.placement.messages import TIMEOUT_S, receive
from tierscope.data.tfrecord import read_timed
from tierscope.storage.clock import Clock, Role

TOKEN_BYTES = 16
# Epoch, file, requesting process; a connection starts with the token.
REQUEST = struct.Struct("<iqi")
# Whether a file follows, the bytes of the file or of a message, and the times that the
# LFS took to read, and to open and close.
ANSWER = struct.Struct("<?qdd")
MESSAGE_BYTES = 4096  # at most, of a message in place of a file
_HANDSHAKE_S = 2.0  # for the token
_STRANGERS = 64  # connections without a token, besides those of the launch
_PAUSE_S = 0.01
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_BROKEN = (errno.EBADF, errno.EINVAL, errno.ENOTSOCK)  # the listener is closed
_ONCE = select.EPOLLIN | select.EPOLLONESHOT


@dataclass(frozen=True)
class Access:
    """Who may connect to a server, and where.

    Parameters
    ----------
    token : bytes
        The launch's secret, with which a connection must begin.
    host : str
        Address to listen on.
    allowed : collection of str
        Addresses from which connections are accepted.
    n_expected : int
        Connections that the launch itself may open at the same time.
    """

    token: bytes = field(repr=False)
    host: str = LOOPBACK
    allowed: Collection[str] = (LOOPBACK,)
    n_expected: int = 0


@dataclass
class _Stranger:
    """A connection that has not sent the token yet."""

    connection: socket.socket
    deadline_s: float
    received: bytes = b""


class PeerServer(NodeServer):
    """Answers requests for the files of one node, several at a time.

    The server has no clock: it reads on the clock of the requesting process.

    Its threads wait for all connections at once, and each serves one request after the
    other. So their number does not grow with the number of processes.

    The server listens on one interface and accepts connections only from the job's
    machines. A connection must begin with the launch's token; no thread waits for it.

    Parameters
    ----------
    path : callable
        Returns the path, under the peers' aliases, of an epoch and a file.
    file_size_bytes, buffer_bytes : int
        Exact size of each file; size of a read.
    node : int
        Index of the node.
    n_threads : int
        Requests served at the same time.
    access : Access
        Who may connect.
    clock : Clock
        Clock of the launch.
    timeout_s : float
        Time limit of a request or an answer that has begun.
    """

    def __init__(
        self,
        path: Callable[[int, int], str],
        file_size_bytes: int,
        buffer_bytes: int,
        node: int,
        n_threads: int,
        access: Access,
        clock: Clock,
        timeout_s: float = TIMEOUT_S,
    ):
        listener = socket.create_server((access.host, 0), backlog=1024)
        listener.setblocking(False)
        name = f"the server of node {node} for other nodes"
        super().__init__(name, PeerError, listener, clock)
        self._path, self._size, self._buffer_bytes = path, file_size_bytes, buffer_bytes
        self._access, self._timeout_s = access, timeout_s
        self._lock = threading.Lock()
        self._n_strangers = access.n_expected + _STRANGERS
        self._connections: dict[int, socket.socket] = {}  # trusted ones
        self._strangers: dict[int, _Stranger] = {}
        self._listener_number = listener.fileno()
        self.port: int = listener.getsockname()[1]
        self._epoll = select.epoll()
        self._epoll.register(self._woken, select.EPOLLIN)  # wakes all threads
        self._epoll.register(listener, select.EPOLLIN | select.EPOLLEXCLUSIVE)
        self._start(f"serve-{node}-{number}" for number in range(n_threads))

    def stop(self) -> None:
        """End the server and close its connections."""
        self._end()
        self._join()

    def _end(self) -> None:
        """Close all connections, so that the readers notice at once."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            self._wake()
            self._listener.close()
            strangers = [one.connection for one in self._strangers.values()]
            for connection in (*self._connections.values(), *strangers):
                with suppress(OSError):  # the reader has reset it
                    connection.shutdown(socket.SHUT_RDWR)

    # ---- the threads --------------------------------------------------------------

    def _serve(self) -> None:
        """Serve the next request, whichever thread is first."""
        for descriptor, _ in self._epoll.poll(self._patience_s(), maxevents=1):
            if self._stopping:
                return
            if descriptor == self._listener_number:
                self._accept()
            else:
                self._take(descriptor)
        self._close_late_strangers()

    def _fail(self, error: BaseException) -> None:
        """End the server, unless it ends already."""
        if not self._stopping:
            super()._fail(error)
            self._end()

    def _accept(self) -> None:
        """Accept a new connection, unless another thread was faster."""
        try:
            connection, (address, _) = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in _BROKEN:
                raise
            if error.errno in _SHORTAGES:  # waiting connections stay in the kernel
                self._close_stranger(at_any_age=True)
                time.sleep(_PAUSE_S)
            return
        if address not in self._access.allowed:
            connection.close()
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stranger = _Stranger(connection, time.monotonic() + _HANDSHAKE_S)
        with self._lock:
            self._epoll.register(connection, 0)  # no events yet
            self._strangers[connection.fileno()] = stranger
            self._receive_token(stranger)
            is_one_too_many = len(self._strangers) > self._n_strangers
        if is_one_too_many:
            self._close_stranger(at_any_age=True)

    def _take(self, descriptor: int) -> None:
        """Handle a connection that has data."""
        with self._lock:
            if stranger := self._strangers.get(descriptor):
                self._receive_token(stranger)
                return
            connection = self._connections.get(descriptor)
        if connection:
            self._serve_request(connection)

    def _receive_token(self, stranger: _Stranger) -> None:
        """Receive part of a token; trust a sender of our token. Needs the lock."""
        connection = stranger.connection
        try:
            more = connection.recv(TOKEN_BYTES - len(stranger.received))
        except BlockingIOError:
            more = None
        except OSError:
            more = b""
        stranger.received += more or b""
        is_whole = len(stranger.received) == TOKEN_BYTES
        if more == b"" or (
            is_whole and not hmac.compare_digest(stranger.received, self._access.token)
        ):
            del self._strangers[connection.fileno()]
            self._close(connection)
            return
        if is_whole:
            del self._strangers[connection.fileno()]
            connection.settimeout(self._timeout_s)
            self._connections[connection.fileno()] = connection
        self._epoll.modify(connection, _ONCE)

    def _serve_request(self, connection: socket.socket) -> None:
        """Serve the next request of a connection, or close it."""
        try:
            goes_on = self._answer(connection)
        except (ConnectionError, EOFError, TimeoutError):  # the reader has ended
            goes_on = False
        if goes_on:
            self._epoll.modify(connection, _ONCE)
            return
        with self._lock:
            del self._connections[connection.fileno()]
        self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        """Close a connection that no other thread knows."""
        self._epoll.unregister(connection)
        connection.close()

    def _patience_s(self) -> float | None:
        """Return the time left to the oldest connection without a token, if any."""
        with self._lock:
            deadlines_s = [one.deadline_s for one in self._strangers.values()]
        return max(0.0, min(deadlines_s) - time.monotonic()) if deadlines_s else None

    def _close_late_strangers(self) -> None:
        """Close the connections that did not send the token in time."""
        while self._close_stranger():
            pass

    def _close_stranger(self, *, at_any_age: bool = False) -> bool:
        """Close the oldest connection if its token is late; tell whether checked."""
        with self._lock:
            if not self._strangers:
                return False
            oldest = min(self._strangers.values(), key=lambda one: one.deadline_s)
            if oldest.deadline_s > time.monotonic() and not at_any_age:
                return False
            # It may have arrived while all threads were busy; then it stays open.
            self._receive_token(oldest)
            if self._strangers.pop(oldest.connection.fileno(), None):
                self._close(oldest.connection)
        return True

    def _answer(self, connection: socket.socket) -> bool:
        """Receive and answer a request; return whether the connection continues."""
        head = receive(connection, REQUEST.size)
        if head is None:
            return False
        epoch, file_id, rank = REQUEST.unpack(head)
        try:
            with self._clock.act(rank, Role.READER):
                content, read_time_s, meta_time_s = self._read(epoch, file_id)
        except OSError as error:
            message = (error.strerror or str(error)).encode()[:MESSAGE_BYTES]
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
