"""A process's side of reads from peers: connections, and the files of an epoch."""

import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tierscope.benchmark.peers import PeerError
from tierscope.benchmark.peers.server import ANSWER, MESSAGE_BYTES, REQUEST
from tierscope.benchmark.placement.messages import TIMEOUT_S, receive
from tierscope.core.scenario import Dataset
from tierscope.data.tfrecord import write_all
from tierscope.policies import AdHoc, Place
from tierscope.storage.clock import Clock

UNKNOWN_OWNER = -1
Content = bytes | bytearray | memoryview


class Transport(Protocol):
    """Gets files of the ad hoc file system that are not on the node's own LFS."""

    error: PeerError | None

    def owner(self, file_id: int) -> int:
        """Return the node that has a file."""

    def fetch(self, epoch: int, file_id: int) -> tuple[Content, float, float, float]:
        """Return a file and three times in seconds.

        The times are: from the request to the last byte, and the parts of it that the
        owner's LFS took to read the file and to look it up.
        """


class PeerClient:
    """Asks the owners' servers; a connection is kept and serves one read at a time.

    `addresses` has host and port of each node's server, `owners` each file's node. The
    `token` is the launch's secret. A server is given up after `timeout_s` without a
    byte and without progress.
    """

    def __init__(
        self,
        addresses: Mapping[int, tuple[str, int]],
        owners: np.ndarray,
        dataset: Dataset,
        token: bytes,
        node: int,
        rank: int,
        clock: Clock,
        timeout_s: float = TIMEOUT_S,
    ):
        self._node, self._rank, self._clock = node, rank, clock
        self._addresses, self._owners = addresses, owners
        self._file_name, self._size = dataset.file_name, dataset.file_size_bytes
        self._token, self._timeout_s = token, timeout_s
        self._idle: dict[int, list[socket.socket]] = {node: [] for node in addresses}
        self.error: PeerError | None = None

    def owner(self, file_id: int) -> int:
        """Return the node that has a file."""
        return int(self._owners[file_id])

    def fetch(self, epoch: int, file_id: int) -> tuple[bytes, float, float, float]:
        """Return a file, the seconds it took, and those of its owner's LFS.

        It waits until the owner has a free thread, so requests under way are never more
        than threads. Raises a PeerError if the owner does not answer, or cannot read
        the file.
        """
        node, events = self.owner(file_id), self._clock.events
        start_ns = self._clock.ask_owner(node)
        try:
            connection = self._connection(node)
            connection.sendall(REQUEST.pack(epoch, file_id, self._rank))
            head = receive(connection, ANSWER.size, events)
            if head is None:
                raise EOFError("it closed the connection")
            is_there, n_bytes, read_time_s, meta_time_s = ANSWER.unpack(head)
            self._check_size(is_there, n_bytes)
            content = receive(connection, n_bytes, events)
            if content is None:
                raise EOFError("it closed the connection")
        except (OSError, EOFError) as error:
            self._clock.check()  # the stop has its own message
            raise self._given_up(node, file_id, error) from error
        if not is_there:
            self._clock.check()
            self.error = PeerError(
                f"node {node} cannot read {self._file_name(file_id)} for another node: "
                f"{content.decode()}."
            )
            raise self.error
        self._idle[node].append(connection)
        time_s = (self._clock.receive(node, self._node) - start_ns) / 1e9
        return content, time_s, read_time_s, meta_time_s

    def close(self) -> None:
        """Close all idle connections."""
        for connections in self._idle.values():
            while connections:
                connections.pop().close()

    def _check_size(self, is_there: bool, n_bytes: int) -> None:
        """Refuse an answer of a wrong size before allocating memory for it."""
        is_right = n_bytes == self._size if is_there else 0 <= n_bytes <= MESSAGE_BYTES
        if not is_right:
            raise EOFError(f"it announces {n_bytes} bytes, expected {self._size}")

    def _connection(self, node: int) -> socket.socket:
        """Return a connection to a node that no other read uses."""
        try:
            return self._idle[node].pop()
        except IndexError:
            pass
        connection = socket.create_connection(self._addresses[node], self._timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(self._token)
        return connection

    def _given_up(self, node: int, file_id: int, reason: Exception) -> PeerError:
        """Record and return the error of a server that does not answer."""
        text: object = reason
        if isinstance(reason, TimeoutError):
            text = f"no answer within {self._timeout_s:g} s"
        self.error = PeerError(
            f"node {node}, which has {self._file_name(file_id)}, does not serve it: "
            f"its server has ended or hangs: {text}."
        )
        return self.error


_ROW = np.dtype(
    [
        ("epoch", "i4"),
        ("file_id", "i8"),
        ("owner", "i4"),
        ("bytes", "i8"),
        ("time_s", "f8"),
        ("lfs_read_time_s", "f8"),
        ("lfs_meta_time_s", "f8"),
    ]
)


@dataclass
class PeerReads:
    """The log of a process's reads from peers."""

    rank: int
    rows: list[tuple] = field(default_factory=list)

    def columns(self) -> dict[str, np.ndarray]:
        """Return this process's part of the table `peer_reads`."""
        rows = np.array(self.rows, _ROW)
        columns = {name: rows[name] for name in _ROW.names}
        return {"rank": np.full(len(rows), self.rank), **columns}


class PeerFeed:
    """A process's files of an epoch in an ad hoc file system (a loader's `Feed`).

    The feed fetches a peer's file when the loader asks for its path, and keeps it in
    memory under a path until the loader has read it. So every loader can read it.
    `folders` are those on the GFS and the own LFS, under the epoch's aliases.
    """

    def __init__(
        self,
        policy: AdHoc,
        transport: Transport,
        log: PeerReads,
        epoch: int,
        files: Sequence[int],
        folders: Mapping[Place, str],
        file_name: Callable[[int], str],
        clock: Clock,
    ):
        self._policy, self._transport, self._log = policy, transport, log
        self._clock = clock
        self._epoch, self._files, self._folders = epoch, files, folders
        self._file_name = file_name
        self._in_memory: dict[int, int] = {}
        self._lock = threading.Lock()
        self.places: list[Place | None] = [None] * len(files)

    def __len__(self) -> int:
        return len(self._files)

    def path(self, index: int) -> str:
        """Return the path of the file of this index; fetch it first if necessary."""
        file_id = int(self._files[index])
        place = self.places[index] = self._policy.begin_read(file_id)
        if place != Place.PEER:
            return f"{self._folders[place]}/{self._file_name(file_id)}"
        content, *times_s = self._transport.fetch(self._epoch, file_id)
        owner = self._transport.owner(file_id)
        self._log.rows.append((self._epoch, file_id, owner, len(content), *times_s))
        descriptor = os.memfd_create(self._file_name(file_id), os.MFD_CLOEXEC)
        with self._lock:
            self._in_memory[index] = descriptor
        write_all(descriptor, content)
        self._clock.note_memory(descriptor)
        return f"/proc/self/fd/{descriptor}"

    def finished(self, index: int, content: Callable[[], bytes]) -> None:
        """Free the memory of a file that was read."""
        with self._lock:
            descriptor = self._in_memory.pop(index, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Free the memory of files that were not read completely."""
        for index in list(self._in_memory):
            self.finished(index, bytes)
