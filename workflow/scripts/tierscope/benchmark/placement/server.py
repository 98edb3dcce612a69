"""A node's placement server: one decision thread, and threads that copy."""

import os
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from tierscope.benchmark.keeper import process_and_user_of
from tierscope.benchmark.node_server import STOP_S, NodeServer
from tierscope.benchmark.placement import PlacementError
from tierscope.benchmark.placement.actions import Actions
from tierscope.benchmark.placement.copies import Copier
from tierscope.benchmark.placement.copy_threads import CopyOrder, CopyThreads
from tierscope.benchmark.placement.messages import (
    ANSWER,
    PLACES,
    REQUEST,
    TIMEOUT_S,
    Kind,
    receive,
)
from tierscope.policies.copy_limits import HELD_BYTES
from tierscope.policies.decisions import Decisions
from tierscope.policies.node import Copy, NodePolicy, Place
from tierscope.storage.clock import Clock, Role, Turn

_POLL_S = 0.001


class PlacementServer(NodeServer, Actions):
    """Decides for the processes of a node and has their files copied.

    The decision thread has no clock. It acts at the instant of the caller: a reader or
    a copier in its turn, or the process that runs the epochs.

    Parameters
    ----------
    policy : NodePolicy
        Decides; only the decision thread calls it.
    storage : Copier
        Carries the actions out.
    decisions : Decisions
        Takes what is decided.
    n_copy_threads : int
        Copies at a time.
    hand_over : bool
        Whether readers hand over the bytes that they have read.
    say : callable
        Prints a line.
    clock : Clock
        Clock of the launch.
    timeout_s : float
        Time in which at least one copy must end during `drain`.
    """

    def __init__(
        self,
        policy: NodePolicy,
        storage: Copier,
        decisions: Decisions,
        n_copy_threads: int,
        hand_over: bool,
        say: Callable[[str], None],
        clock: Clock,
        timeout_s: float = TIMEOUT_S,
    ):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("")  # the kernel chooses a free name
        listener.listen(128)
        node, rank = decisions.node, decisions.rank
        name = f"the placement server of node {node}"
        NodeServer.__init__(self, name, PlacementError, listener, clock)
        Actions.__init__(self, policy, decisions, storage.file_name, say)
        self._storage, self._hand_over, self._timeout_s = storage, hand_over, timeout_s
        self._held_bytes = self._n_copying = 0
        self._owing: dict[socket.socket, Future] = {}  # readers that owe bytes
        self._handed: dict[int, Future] = {}  # the same bytes, by file
        self._held_back: list[int] = []
        self._drained: threading.Event | None = None
        self._orders: queue.SimpleQueue[tuple[Callable[[], None], int]] = (
            queue.SimpleQueue()
        )
        self._copiers = CopyThreads(
            n_copy_threads, node, rank, self._copy, self._report, self._fail, clock
        )
        self._selector = selectors.DefaultSelector()
        self.address: bytes = listener.getsockname()
        self._selector.register(self._woken, selectors.EVENT_READ, self._obey)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._start([f"place-{node}"])

    # ---- called by the process that has the server ------------------------------

    def begin(self) -> None:
        """Let the policy begin: the first epoch starts."""
        now_ns = self.decisions.started_ns = self._clock.now_ns()
        self._order_and_wait(lambda: self._carry_out(self._policy.start()), now_ns)

    def drain(self, meanwhile: Callable[[], None] = lambda: None) -> float:
        """Wait until no copy is under way, and return the waiting time in seconds.

        Copies that the policy orders during the wait begin at `resume`; `meanwhile` is
        called repeatedly. Raises a PlacementError if the server has ended, or copies
        hang.
        """
        start_ns = self._clock.take_turn(Role.CONSUMER, Turn.ENDING_EPOCH)
        drained = threading.Event()
        self._order_and_wait(lambda: self._begin_drain(drained), start_ns)
        n_before, deadline = None, 0.0
        while not drained.wait(_POLL_S):
            self.check()
            meanwhile()
            self._clock.check()
            n_now = self.decisions.n_rows, self._clock.events()
            if n_now != n_before:
                n_before, deadline = n_now, time.monotonic() + self._timeout_s
            if time.monotonic() > deadline:
                raise PlacementError(
                    f"node {self.decisions.node}: {self._n_copying} copies to the LFS "
                    f"hang: none has ended within {self._timeout_s:g} s."
                )
        self.check()
        return (self._clock.now_ns() - start_ns) / 1e9

    def resume(self, epoch: int) -> None:
        """Begin the copies that were held back, as those of this epoch."""
        self._order_and_wait(lambda: self._end_drain(epoch), self._clock.now_ns())

    def stop(self) -> None:
        """End the server; drop copies that have not begun."""
        self._stopping = True
        self._order(lambda: None, 0)
        self._join()
        self._copiers.stop(STOP_S)

    def _order_and_wait(self, order: Callable[[], None], now_ns: int) -> None:
        """Let the decision thread run a function at an instant, and wait for it."""
        done = threading.Event()
        self._order(lambda: (order(), done.set()), now_ns)
        while not done.wait(_POLL_S):
            self.check()

    def _order(self, order: Callable[[], None], now_ns: int) -> None:
        """Let the decision thread run a function at an instant."""
        self._orders.put((order, now_ns))
        try:
            self._wake()
        except OSError:
            return  # the thread has ended; `check` says why

    # ---- the decision thread ----------------------------------------------------

    def _serve(self) -> None:
        """Answer requests and obey orders."""
        for ready, _ in self._selector.select():
            ready.data(ready.fileobj)

    def _close_all(self) -> None:
        """Let no copy wait for bytes, and close all connections."""
        for content in self._owing.values():
            content.cancel()
        for registered in list(self._selector.get_map().values()):
            registered.fileobj.close()
        self._wake_up.close()
        self._selector.close()

    def _accept(self, listener: socket.socket) -> None:
        """Accept a new connection, unless it comes from another user."""
        connection, _ = listener.accept()
        if process_and_user_of(connection)[1] != os.getuid():
            connection.close()
            return
        connection.settimeout(self._timeout_s)
        self._selector.register(connection, selectors.EVENT_READ, self._request)

    def _obey(self, woken: socket.socket) -> None:
        """Run the functions that other threads have ordered."""
        woken.recv(4096)
        while True:
            try:
                order, now_ns = self._orders.get_nowait()
            except queue.Empty:
                return
            self.decisions.pass_time(now_ns)
            order()

    def _request(self, connection: socket.socket) -> None:
        """Receive a request and answer it."""
        try:
            head = receive(connection, REQUEST.size)
            if head is None:
                self._close(connection)
                return
            kind, at, epoch, rank, file_id, now_ns, n_bytes = REQUEST.unpack(head)
            content = receive(connection, n_bytes) if n_bytes else b""
            if content is None:
                raise EOFError(f"got 0 of {n_bytes} bytes")
            if kind == Kind.HAND_OVER:
                self._owing.pop(connection).set_result(content)
                return
            self.decisions.pass_time(now_ns)
            if kind == Kind.BEGIN:
                answer = PLACES.index(self._begin_read(epoch, rank, file_id))
            else:
                wanted = self._end_read(epoch, rank, file_id, PLACES[at])
                if answer := wanted is not None:
                    self._owing[connection] = wanted
            connection.sendall(ANSWER.pack(answer))
        except (ConnectionError, EOFError):  # the process ended during its request
            self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        """Close a connection, and cancel the copy of a file that it should send."""
        self._selector.unregister(connection)
        connection.close()
        if connection in self._owing:
            error = EOFError("its reader ended before it handed the file over")
            self._owing.pop(connection).set_exception(error)

    def _begin_read(self, epoch: int, rank: int, file_id: int) -> Place:
        """Return where a file is read from."""
        self._epoch = max(self._epoch, epoch)
        place = self._policy.begin_read(file_id)
        self.decisions.add("begin", epoch, file_id, place, rank)
        return place

    def _end_read(
        self, epoch: int, rank: int, file_id: int, place: Place
    ) -> Future | None:
        """Tell the policy of a read; return the future that takes its bytes, if any."""
        self.decisions.add("end", epoch, file_id, place, rank)
        actions = self._policy.end_read(file_id, place)
        content = None
        if (
            self._hand_over
            and place != Place.LFS
            and self._drained is None
            and Copy(file_id) in actions
            and self._held_bytes < HELD_BYTES
        ):
            content = self._handed[file_id] = Future()
        self._carry_out(actions, epoch)
        return content

    def _begin_copy(self, file_id: int, epoch: int) -> None:
        """Begin to copy a file, or hold it back until the drain has ended."""
        if self._drained is not None:
            self._held_back.append(file_id)
            return
        self._n_copying += 1
        if content := self._handed.pop(file_id, None):
            self._held_bytes += self._storage.file_size_bytes
        order = CopyOrder(file_id, epoch, content)
        self._copiers.order(order, self.decisions.now_ns)

    def _copy(self, order: CopyOrder, content: bytes | None) -> None:
        """Copy a file, in a copier's thread."""
        self._storage.copy(self._file_name(order.file_id), order.epoch, content)

    def _report(
        self, copier: int, order: CopyOrder, error: BaseException | None, now_ns: int
    ) -> None:
        """Report the end of a copy to the decision thread, in a copier's turn."""
        self._order(partial(self._end_copy, copier, order, error), now_ns)

    def _end_copy(
        self, copier: int, order: CopyOrder, error: BaseException | None
    ) -> None:
        """Report the end of a copy to the policy; its copier takes the next one."""
        copied = order.file_id, order.epoch
        self._n_copying -= 1
        if order.content:
            self._held_bytes -= self._storage.file_size_bytes
        self._copiers.is_free(copier, self.decisions.now_ns)
        if error is None:
            self._placed(*copied, "handed over" if order.content else "read again")
        else:
            why = getattr(error, "strerror", None) or repr(error)
            self._failed(*copied, why, getattr(error, "errno", 0))
        self._note_drained()
        self._copiers.rest(copier)

    def _remove(self, file_id: int, epoch: int) -> None:
        """Remove a file from the LFS."""
        self._storage.evict(self._file_name(file_id), epoch)

    def _begin_drain(self, drained: threading.Event) -> None:
        """Hold new copies back and wait for those under way."""
        self._drained = drained
        if self._n_copying:
            self._clock.await_copies()
        self._note_drained()

    def _note_drained(self) -> None:
        """End the wait of `drain` if no copy is under way."""
        if self._drained is not None and not self._n_copying:
            self._clock.copies_ended(self.decisions.now_ns)
            self._drained.set()

    def _end_drain(self, epoch: int) -> None:
        """Begin the copies that were held back."""
        self._drained, self._epoch = None, epoch
        held_back, self._held_back = self._held_back, []
        for file_id in held_back:
            self._begin_copy(file_id, epoch)
