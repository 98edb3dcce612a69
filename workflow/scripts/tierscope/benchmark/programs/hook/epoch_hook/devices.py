"""What devices do in a loop, by events of their own; nothing waits for these.

An event of PyTorch is recorded on the current stream of each device in use when a batch
is given, and one when the next is asked for. The device passes them in its own time. It
is busy between the two, and idle from there to the next batch.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import deque
from copy import copy

from epoch_hook.unseen import may_use_unseen_devices

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from types import ModuleType

# Why the busy time is only a least; the words of the column `least_because`.
OTHER_STREAMS, NEVER_BEHIND, NO_EVENTS = "other streams", "never behind", "no events"
_MS_PER_S, _NS_PER_S = 1e3, 1e9
_JOINED_NS = 60_000_000_000  # so long the clocks of program and device stay together
_DEVICES: dict[int, _Device] = {}
_OF_PARENT: list = []  # the events of its parent, which a child must not destroy
_n_streams_made = 0


def wrap_streams(module: ModuleType) -> None:
    """Count the streams that are made; what is made of an `id` is known already."""
    original = module.Stream.__new__

    def __new__(cls: type, *arguments: object, **named: object) -> object:
        global _n_streams_made
        stream = original(cls, *arguments, **named)
        _n_streams_made += "stream_id" not in named
        return stream

    module.Stream.__new__ = __new__


def forget(*kept: object) -> None:
    """Begin anew in a forked child, which keeps the events of its parent."""
    _OF_PARENT.append((dict(_DEVICES), kept))
    _DEVICES.clear()


class _Device:
    """What outlives a loop: events to record again, and one that joins two clocks.

    The device passed that one while it was idle, so when it was recorded.
    """

    def __init__(self) -> None:
        self.free: list = []
        self._joined: tuple | None = None  # (event, when by the program's clock)

    def join(self, event: object, now_ns: int) -> None:
        """Take an event for the one that joins the clocks."""
        if self._joined is not None:
            self.free.append(self._joined[0])
        self._joined = event, now_ns

    def behind_s(self, event: object, now_ns: int) -> float | None:
        """How long after a time of the program it passed an event; None if unknown."""
        if self._joined is None or now_ns - self._joined[1] > _JOINED_NS:
            return None
        joined, joined_ns = self._joined
        asked_s = (now_ns - joined_ns) / _NS_PER_S
        return max(joined.elapsed_time(event) / _MS_PER_S - asked_s, 0.0)


class DeviceTimes:
    """What the devices of this process do in one loop.

    They are those on which PyTorch holds memory when the first batch is given, or when
    the second is asked for. An error of theirs ends it, and is told.
    """

    def __init__(self) -> None:
        self._queues: list[_Queue] = []
        self._n_given, self._given_ns = 0, 0
        self._is_lost = self._is_other = self._is_aside = False
        self.fault = ""

    def give(self, now_ns: int, is_own: bool = True) -> None:
        """Note that the program is given a batch now, of this loop or another one."""
        self._try(self._give, now_ns, is_own)

    def ask(self, now_ns: int, is_first: bool) -> None:
        """Note that the program asks for a batch now, maybe after its first step."""
        self._try(self._ask, now_ns, is_first)

    def end(self, is_left: bool) -> None:
        """Note that the loop has ended, or that the program has left it."""
        self._try(self._end, is_left)

    def is_read(self) -> bool:
        """Return whether all is known, as devices have done what the loop gave them."""
        return bool(self._try(lambda: all([one.read_rest() for one in self._queues])))

    def lose(self) -> None:
        """Give up the devices."""
        self._is_lost, self._queues = True, []

    def facts(self) -> dict:
        """Return what a loop's note says of devices."""
        known = [one.sums for one in self._queues if one.sums.n_uses]
        if not known or self._is_lost:
            because = NO_EVENTS if self._is_lost or self._is_other else ""
            return {"device": None, "least_because": because}
        is_behind = any(one.was_behind for one in self._queues)
        because = "" if is_behind else NEVER_BEHIND
        if self._is_other or any(one.is_elsewhere for one in self._queues):
            because = OTHER_STREAMS
        behind_s = [one.behind_s / one.n_joined for one in known if one.n_joined]
        return {
            "device": {
                "busy_s": _mean([one.busy_s for one in known]),
                "first_busy_s": _mean([one.first_busy_s for one in known]),
                "idle_s": _mean([one.idle_s for one in known]),
                "first_idle_s": _mean([one.first_idle_s for one in known]),
                "behind_s": _mean(behind_s) if behind_s else None,
            },
            "least_because": because,
        }

    def _try(self, act: object, *given: object) -> object:
        """Return what a function returns; True after an error, which ends it all."""
        try:
            return self._is_lost or act(*given)
        except Exception as error:
            self.fault = repr(error)
            self.lose()
            return True

    def _give(self, now_ns: int, is_own: bool) -> None:
        self._n_given += is_own
        self._given_ns = now_ns
        cuda = _cuda()
        if cuda is None:
            return
        if cuda.is_current_stream_capturing():
            self.lose()
        elif self._n_given == 1 and is_own:
            self._is_aside = threading.current_thread() is not threading.main_thread()
            self._queues = [_Queue(cuda, number) for number in _held(cuda)]
        for queue in self._queues:
            queue.give(now_ns, is_own)

    def _ask(self, now_ns: int, is_first: bool) -> None:
        cuda = _cuda()
        if cuda is None:
            return
        if cuda.is_current_stream_capturing():
            self.lose()
        elif self._n_given == 1:
            self._queues += [
                _Queue(cuda, number, self._given_ns) for number in self._new(cuda)
            ]
        for queue in self._queues:
            queue.ask(now_ns, is_first)

    def _end(self, is_left: bool) -> None:
        cuda = _cuda()
        # A thread that hands batches on does not see the work on them.
        hidden = self._queues and (_n_streams_made or self._is_aside)
        later = cuda is not None and self._new(cuda)
        self._is_other = bool(hidden or later or may_use_unseen_devices())
        for queue in self._queues:
            queue.end(is_left)

    def _new(self, cuda: ModuleType) -> list[int]:
        known = [queue.number for queue in self._queues]
        return [number for number in _held(cuda) if number not in known]


class _Use:
    """The use of a batch, between two events, and the program's clock beside these.

    A device that is first seen after a batch has no event of its begin. A batch that is
    not used, as the loop was left, has none of its end.
    """

    __slots__ = (
        "asked_ns",
        "begin",
        "end",
        "given_ns",
        "is_first",
        "is_own",
        "was_idle",
    )

    def __init__(
        self,
        given_ns: int,
        begin: object = None,
        was_idle: bool = False,
        is_own: bool = True,
    ) -> None:
        self.given_ns, self.begin = given_ns, begin
        self.was_idle, self.is_own = was_idle, is_own
        self.end, self.asked_ns, self.is_first = None, 0, False

    @property
    def last(self) -> object:
        """The last of its events."""
        return self.end or self.begin


class _Sums:
    """What a device did in a loop; how far it was behind, where clocks were joined."""

    def __init__(self) -> None:
        self.busy_s = self.first_busy_s = self.idle_s = self.behind_s = 0.0
        self.first_idle_s = 0.0  # in the first step, for batches of other loaders
        self.n_uses = self.n_joined = 0

    def add_idle(self, idle_s: float, is_in_first_step: bool) -> None:
        self.idle_s += idle_s
        self.first_idle_s += idle_s if is_in_first_step else 0.0


class _Queue:
    """What a device does on its current stream from batch to batch of a loop."""

    def __init__(
        self, cuda: ModuleType, number: int, given_ns: int | None = None
    ) -> None:
        self.number = number
        self.sums, self._until_asked = _Sums(), _Sums()
        self._is_left, self._n_own = False, 0
        self.was_behind, self.is_elsewhere = False, False
        self._cuda, self._stream = cuda, None
        self._device = _DEVICES.setdefault(number, _Device())
        self._open = None if given_ns is None else _Use(given_ns)
        self._unread: deque[_Use] = deque()
        self._last = None

    def give(self, now_ns: int, is_own: bool) -> None:
        """Record that a batch is given; an idle device passes this at once."""
        stream = self._stream = self._cuda.current_stream(self.number)
        was_idle = stream.query()
        self._open = _Use(now_ns, self._record(stream), was_idle, is_own)

    def ask(self, now_ns: int, is_first: bool) -> None:
        """Record that the next batch is asked for, maybe after the first step."""
        use, self._open = self._open, None
        if use is None:
            return
        stream = self._cuda.current_stream(self.number)
        self.was_behind |= not stream.query()
        self.is_elsewhere |= self._stream is not None and stream != self._stream
        use.end, use.asked_ns, use.is_first = self._record(stream), now_ns, is_first
        self._unread.append(use)
        self.read()

    def end(self, is_left: bool) -> None:
        """Note that no more comes; of a loop that was left the last use is none."""
        use, self._open, self._is_left = self._open, None, is_left
        if use is not None and use.begin is not None:
            self._unread.append(use)

    def read(self) -> bool:
        """Add what the device has done; return whether that is all."""
        while self._unread:
            if not self._unread[0].last.query():
                return False
            self._add(self._unread.popleft())
        return True

    def read_rest(self) -> bool:
        """Add what the device has done when no more comes; return whether it is all."""
        if not self.read():
            return False
        if self._is_left:
            self.sums = self._until_asked
        if self._last is not None:
            self._device.free.append(self._last)
            self._last = None
        return True

    def _record(self, stream: object) -> object:
        free = self._device.free
        event = free.pop() if free else self._cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    def _add(self, use: _Use) -> None:
        free = self._device.free
        if use.is_own:
            self._until_asked = copy(self.sums)
            self._n_own += 1
        if self._last is not None:
            is_in_first_step = self._n_own == 1 and not use.is_own
            self.sums.add_idle(_between_s(self._last, use.begin), is_in_first_step)
            free.append(self._last)
        self._last = use.end
        if use.was_idle:
            self._device.join(use.begin, use.given_ns)
        if use.end is not None:
            self._add_busy(use)
        if use.begin is not None and not use.was_idle:
            free.append(use.begin)

    def _add_busy(self, use: _Use) -> None:
        if use.begin is None:
            busy_s = (use.asked_ns - use.given_ns) / _NS_PER_S
        else:
            busy_s = _between_s(use.begin, use.end)
        sums = self.sums
        sums.busy_s += busy_s
        sums.first_busy_s += busy_s if use.is_first else 0.0
        sums.n_uses += 1
        behind_s = self._device.behind_s(use.end, use.asked_ns)
        if behind_s is not None:
            sums.behind_s += behind_s
            sums.n_joined += 1


def _between_s(event: object, after: object) -> float:
    return max(event.elapsed_time(after), 0.0) / _MS_PER_S


def _cuda() -> ModuleType | None:
    """Return PyTorch's module of CUDA or ROCm if the program has initialised it."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _held(cuda: ModuleType) -> list[int]:
    """Return the devices on which PyTorch holds memory: an event makes no context."""
    return [
        number
        for number in range(cuda.device_count())
        if cuda.memory_reserved(number) or cuda.memory_allocated(number)
    ]


def _mean(numbers: list[float]) -> float:
    return math.fsum(numbers) / len(numbers)
