"""Threads that copy files for a node; each is a copier with its own clock."""

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
    """An order for a copy; `content` will hold the file if a reader hands it over."""

    file_id: int
    epoch: int
    content: Future | None


class CopyThreads:
    """Makes copies first come, first served, one at a time per thread.

    A copy goes to the copier that has been free for longest, of several to the first.
    One thread calls all methods except `stop`. `report` is called in the copier's turn
    with copier, order, error or None, and the instant; `fail` with what ends a copier.
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
        """Give an order to the next free copier."""
        if self._idle:
            _, copier = heapq.heappop(self._idle)
            self._begin(copier, order, now_ns)
        else:
            self._waiting.append(order)

    def is_free(self, copier: int, now_ns: int) -> None:
        """Let a copier that has reported take the next order."""
        if self._waiting:
            self._begin(copier, self._waiting.popleft(), now_ns)
        else:
            heapq.heappush(self._idle, (now_ns, copier))

    def rest(self, copier: int) -> None:
        """Let an idle copier stop holding back virtual time."""
        if any(copier == idle for _, idle in self._idle):
            self._clock.rest(copier)

    def stop(self, timeout_s: float) -> None:
        """End the threads; drop copies that have not begun."""
        self._waiting.clear()
        for orders in self._orders:
            orders.put(None)
        end_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))

    def _begin(self, copier: int, order: CopyOrder, now_ns: int) -> None:
        """Let a copier begin a copy at an instant."""
        self._clock.begin_copy(copier, now_ns)
        self._orders[copier].put(order)

    def _work(self, copier: int) -> None:
        """Make a copier's copies until the end or an error."""
        try:
            self._make_copies(copier)
        except ClockStoppedError:
            return
        except BaseException as error:  # otherwise all would wait for this copier
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
                except BaseException as failure:  # the policy must know of it
                    error = failure
            now_ns = self._clock.take_turn(role, Turn.COPIED)
            self._report(copier, order, error, now_ns)
