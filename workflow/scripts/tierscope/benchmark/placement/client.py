"""A process's side of placement: it asks its node's server about every file."""

import socket
import threading
from collections.abc import Callable, Mapping, Sequence

from tierscope.benchmark.placement import PlacementError
from tierscope.benchmark.placement.messages import (
    ANSWER,
    PLACES,
    REQUEST,
    TIMEOUT_S,
    Kind,
    receive,
)
from tierscope.policies.node import Place
from tierscope.storage.clock import Clock, Role, Turn


class PlacementClient:
    """Asks a node's placement server; each thread has a connection of its own.

    Every request has its own turn, which lasts until the answer arrives. `teller` is
    the role that reports ended reads.
    """

    def __init__(
        self,
        address: bytes,
        node: int,
        rank: int,
        clock: Clock,
        teller: Role,
        timeout_s: float = TIMEOUT_S,
    ):
        self._address, self._node, self._rank = address, node, rank
        self._clock, self._teller = clock, teller
        self._timeout_s, self._local = timeout_s, threading.local()
        self.error: PlacementError | None = None

    def begin(self, epoch: int, file_id: int) -> Place:
        """Return the place from which to read a file that is about to be opened."""
        now_ns = self._clock.take_turn(Role.READER, Turn.STARTING)
        self._send(Kind.BEGIN, epoch, file_id, now_ns)
        return PLACES[self._answer()]

    def end(
        self, epoch: int, file_id: int, place: Place, content: Callable[[], bytes]
    ) -> None:
        """Report a file that was read whole, and hand over its bytes if wanted."""
        now_ns = self._clock.take_turn(self._teller, Turn.ENDED)
        self._send(Kind.END, epoch, file_id, now_ns, place)
        if self._answer():
            self._send(Kind.HAND_OVER, epoch, file_id, now_ns, place, content())
        self._clock.told()

    def _send(
        self,
        kind: Kind,
        epoch: int,
        file_id: int,
        now_ns: int,
        place: Place = Place.GFS,
        content: bytes = b"",
    ) -> None:
        """Send a request."""
        at = PLACES.index(place)
        head = REQUEST.pack(kind, at, epoch, self._rank, file_id, now_ns, len(content))
        try:
            connection = self._connection()
            connection.sendall(head)
            if content:
                connection.sendall(content)
        except OSError as error:
            raise self._given_up(error) from error

    def _answer(self) -> int:
        """Return the server's answer."""
        try:
            answer = receive(self._connection(), ANSWER.size)
        except OSError as error:
            raise self._given_up(error) from error
        if answer is None:
            raise self._given_up("it closed the connection")
        return ANSWER.unpack(answer)[0]

    def _connection(self) -> socket.socket:
        """Return this thread's connection."""
        if not hasattr(self._local, "connection"):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(self._timeout_s)
            connection.connect(self._address)
            self._local.connection = connection
        return self._local.connection

    def _given_up(self, reason: object) -> PlacementError:
        """Record and return the error of a server that does not answer."""
        self._clock.check()  # the stop has its own message
        if isinstance(reason, TimeoutError):
            reason = f"no answer within {self._timeout_s:g} s"
        self.error = PlacementError(
            f"the placement server of node {self._node} has ended or hangs: {reason}."
        )
        return self.error


class NodeFeed:
    """A process's files of an epoch, placed by its node's policy (a loader's `Feed`).

    `folders` are those of each place, under the epoch's aliases.
    """

    def __init__(
        self,
        client: PlacementClient,
        epoch: int,
        files: Sequence[int],
        folders: Mapping[Place, str],
        file_name: Callable[[int], str],
    ):
        self._client, self._epoch, self._files = client, epoch, files
        self._folders, self._file_name = folders, file_name
        self.places: list[Place | None] = [None] * len(files)

    def __len__(self) -> int:
        return len(self._files)

    def path(self, index: int) -> str:
        """Return the path of the file of this index, as the policy decides now."""
        file_id = int(self._files[index])
        place = self._client.begin(self._epoch, file_id)
        self.places[index] = place
        return f"{self._folders[place]}/{self._file_name(file_id)}"

    def finished(self, index: int, content: Callable[[], bytes]) -> None:
        """Tell the policy that a file was read whole."""
        file_id = int(self._files[index])
        self._client.end(self._epoch, file_id, self.places[index], content)
