"""Threads that copy files for a node, each a copier with a clock of its own."""

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue

from tierscope.benchmark.placement.messages import TIMEOUT_S
from tierscope.storage.clock import Clock, ClockStoppedError, Role, Turn


@dataclass(frozen=True)
class CopyOrder:
    """A copy that is to be made.

    Parameters
    ----------
    file_id, epoch : int
        The file, and the epoch that its traffic belongs to.
    content : Future or None
        Will hold the file if a reader hands it over; else it is read again.
    """

    file_id: int
    epoch: int
    content: Future | None


class CopyThreads:
    """Makes copies, as many at a time as there are threads, the first ordered first.

    A copy goes to the copier that has been free for longest, of several to the first.
    But for `stop`, one thread calls all methods.

    Parameters
    ----------
    n_threads, node, rank : int
        Copies at a time; index of the node; this process.
    copy : callable
        Makes a copy, given its order and the bytes that were handed over, if any.
    report : callable
        Called in the copier's turn: with the copier, the order, the error or None, and
        the instant.
    fail : callable
        Called with an error that ends a copier.
    clock : Clock
        Gives the turns.
    """

    def __init__(
        self,
        n_threads: int,
        node: int,
        rank: int,
        copy: Callable[[CopyOrder, bytes | None], None],
        report: Callable[[int, CopyOrder, BaseException | None, int], None],
        fail: Callable[[BaseException], None],
        clock: Clock,
    ):
        self._copy, self._report, self._fail = copy, report, fail
        self._clock, self._rank = clock, rank
        self._idle = [(0, copier) for copier in range(n_threads)]
        self._waiting: deque[CopyOrder] = deque()
        self._orders: list[SimpleQueue[CopyOrder | None]] = [
            SimpleQueue() for _ in range(n_threads)
        ]
        self._threads = [
            threading.Thread(
                target=self._work, args=(copier,), name=f"copy-{node}-{copier}"
            )
            for copier in range(n_threads)
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def order(self, order: CopyOrder, now_ns: int) -> None:
        """Have a copy made as soon as a copier is free."""
        if self._idle:
            _, copier = heapq.heappop(self._idle)
            self._begin(copier, order, now_ns)
        else:
            self._waiting.append(order)

    def is_free(self, copier: int, now_ns: int) -> None:
        """Let a copier that has reported take the next copy."""
        if self._waiting:
            self._begin(copier, self._waiting.popleft(), now_ns)
        else:
            heapq.heappush(self._idle, (now_ns, copier))

    def rest(self, copier: int) -> None:
        """Let a copier hold nobody any more if it has nothing to do."""
        if any(copier == idle for _, idle in self._idle):
            self._clock.rest(copier)

    def stop(self, timeout_s: float) -> None:
        """End the threads; copies not yet begun are dropped."""
        self._waiting.clear()
        for orders in self._orders:
            orders.put(None)
        end_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))

    def _begin(self, copier: int, order: CopyOrder, now_ns: int) -> None:
        """Have a copier make a copy from an instant on."""
        self._clock.begin_copy(copier, now_ns)
        self._orders[copier].put(order)

    def _work(self, copier: int) -> None:
        """Make a copier's copies until the end, or until something goes wrong."""
        try:
            self._make_copies(copier)
        except ClockStoppedError:
            return
        except BaseException as error:  # else all would wait for this copier
            self._fail(error)

    def _make_copies(self, copier: int) -> None:
        """Make a copier's copies, one after the other."""
        role = Role.COPIER + copier
        while (order := self._orders[copier].get()) is not None:
            error = None
            with self._clock.act(self._rank, role):
                try:
                    content = order.content.result(TIMEOUT_S) if order.content else None
                    self._copy(order, content)
                except BaseException as failure:  # the policy must learn of it
                    error = failure
            now_ns = self._clock.take_turn(role, Turn.COPIED)
            self._report(copier, order, error, now_ns)
