"""What devices do in a loop, by events of their own; nothing waits for these.

An event of PyTorch is recorded on the current stream of each device in use when a batch
is given, and one when the next is asked for. The device passes them in its own time. It
is busy between the two, and idle from there to the next batch.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from types import ModuleType

# Why the busy time is only a least; the words of the column `least_because`.
OTHER_STREAMS, NEVER_BEHIND, NO_EVENTS = "other streams", "never behind", "no events"
_FILES = re.compile(
    r"/dev/(nvidia\d+|kfd|dxg|nvmap|dri/renderD\d+|accel(/accel)?\d*|davinci\d+|"
    r"neuron\d+|hl\d+|vfio/\d+)"
)
_LIBRARIES = ("cupy", "numba.cuda", "paddle", "pycuda.driver", "torch_xla")
_BACKENDS = ("xpu", "hpu", "npu", "mtia", "musa", "mlu")  # of PyTorch, beside CUDA
_MS_PER_S, _NS_PER_S = 1e3, 1e9
_JOINED_NS = 60_000_000_000  # so long the clocks of program and device stay together
_DEVICES: dict[int, _Device] = {}
_OF_PARENT: list = []  # whose events a forked child must not destroy
_n_streams_made = 0


def wrap_streams(module: ModuleType) -> None:
    """Count the streams that are made; what is made of an `id` is known already."""
    original = module.Stream.__new__

    def __new__(cls: type, *arguments: object, **named: object) -> object:
        global _n_streams_made
        if "stream_id" not in named:
            _n_streams_made += 1
        return original(cls, *arguments, **named)

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

    def ask(self, now_ns: int) -> None:
        """Note that the program asks for a batch now."""
        if self._n_given:
            self._try(self._ask, now_ns)

    def end(self) -> None:
        """Note that the loop has ended."""
        self._try(self._end)

    def is_read(self) -> bool:
        """Return whether all is known, as devices have done what the loop gave them."""
        return bool(self._try(lambda: all([one.read() for one in self._queues])))

    def lose(self) -> None:
        """Give up the devices."""
        self._is_lost, self._queues = True, []

    def facts(self) -> dict:
        """Return what a loop's note says of devices."""
        queues = [one for one in self._queues if one.n_steps]
        if not queues or self._is_lost:
            because = NO_EVENTS if self._is_lost or self._is_other else ""
            return {"device": None, "least_because": because}
        is_behind = any(one.was_behind for one in queues)
        because = "" if is_behind else NEVER_BEHIND
        if self._is_other or any(one.is_elsewhere for one in queues):
            because = OTHER_STREAMS
        behind_s = [one.behind_s for one in queues]
        return {
            "device": {
                "busy_s": _mean([one.busy_s for one in queues]),
                "first_busy_s": _mean([one.first_busy_s for one in queues]),
                "idle_s": _mean([one.idle_s for one in queues]),
                "behind_s": None if None in behind_s else _mean(behind_s),
                "devices": len(queues),
            },
            "least_because": because,
        }

    def _try(self, act: object, *given: object) -> object:
        """Return what a function returns; True after an error, which ends it all."""
        try:
            return self._is_lost or act(*given)
        except Exception as error:
            self.fault = repr(error)
            _OF_PARENT.append(self._queues)
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
            queue.give(now_ns)

    def _ask(self, now_ns: int) -> None:
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
            queue.ask(now_ns, is_first=self._n_given == 1)

    def _end(self) -> None:
        cuda = _cuda()
        # A thread that hands batches on does not see the work on them.
        hidden = self._queues and (_n_streams_made or self._is_aside)
        later = cuda is not None and self._new(cuda)
        self._is_other = bool(hidden or later or _is_used_without_events())
        for queue in self._queues:
            queue.end()

    def _new(self, cuda: ModuleType) -> list[int]:
        known = [queue.number for queue in self._queues]
        return [number for number in _held(cuda) if number not in known]


class _Queue:
    """What a device does on its current stream from batch to batch of a loop."""

    def __init__(
        self, cuda: ModuleType, number: int, given_ns: int | None = None
    ) -> None:
        self.number = number
        self.n_steps = 0
        self.busy_s = self.first_busy_s = self.idle_s = 0.0
        self.was_behind, self.is_elsewhere = False, False
        self._cuda, self._stream = cuda, None
        self._device = _DEVICES.setdefault(number, _Device())
        # A device that is first seen after a batch has no event of its begin.
        self._open: tuple | None = None if given_ns is None else (None, given_ns)
        # (begin, when if it was idle then, end, when, whether of the first batch)
        self._steps: deque = deque()
        self._last = None
        self._behind_s: list[float] = [0, 0.0]  # number and sum

    @property
    def behind_s(self) -> float | None:
        """How far it was behind the program that asked, in the mean."""
        n_known, sum_s = self._behind_s
        return sum_s / n_known if n_known else None

    def give(self, now_ns: int) -> None:
        """Record that a batch is given; an idle device passes this at once."""
        stream = self._stream = self._cuda.current_stream(self.number)
        is_idle = stream.query()
        self._open = self._record(stream), now_ns if is_idle else None

    def ask(self, now_ns: int, is_first: bool) -> None:
        """Record that the next batch is asked for; the one before may be the first."""
        if self._open is None:
            return
        stream = self._cuda.current_stream(self.number)
        self.was_behind |= not stream.query()
        self.is_elsewhere |= self._stream is not None and stream != self._stream
        self._steps.append((*self._open, self._record(stream), now_ns, is_first))
        self._open = None
        self.read()

    def end(self) -> None:
        """Note that no more comes; of a batch that is not used the begin counts."""
        if self._open is not None and self._open[0] is not None:
            self._steps.append((*self._open, None, 0, False))
        self._open = None

    def read(self) -> bool:
        """Add the steps that the device has done; return whether these are all."""
        while self._steps:
            begin, _, end, *_ = self._steps[0]
            if not (end or begin).query():
                return False
            self._add(*self._steps.popleft())
        return True

    def _record(self, stream: object) -> object:
        free = self._device.free
        event = free.pop() if free else self._cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    def _add(
        self, begin: object, begun_ns: int | None, end: object, *further: int
    ) -> None:
        free = self._device.free
        if self._last is not None:
            self.idle_s += _between_s(self._last, begin)
            free.append(self._last)
        self._last = end
        is_joined = begin is not None and begun_ns is not None
        if is_joined:
            self._device.join(begin, begun_ns)
        if end is not None:
            self._add_use(begin, begun_ns, end, *further)
        if begin is not None and not is_joined:
            free.append(begin)

    def _add_use(
        self, begin: object, begun_ns: int, end: object, ended_ns: int, is_first: bool
    ) -> None:
        if begin is None:
            used_s = (ended_ns - begun_ns) / _NS_PER_S
        else:
            used_s = _between_s(begin, end)
        self.busy_s += used_s
        self.first_busy_s += used_s if is_first else 0.0
        self.n_steps += 1
        behind_s = self._device.behind_s(end, ended_ns)
        if behind_s is not None:
            self._behind_s[0] += 1
            self._behind_s[1] += behind_s


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
    return sum(numbers) / len(numbers)


def _is_used_without_events() -> bool:
    """Return whether this process may use a device that has no events of PyTorch.

    PyTorch and TensorFlow open files of devices to count these, and then say whether
    they use them.
    """
    torch = sys.modules.get("torch")
    if any(_is_initialized(getattr(torch, name, None)) for name in _BACKENDS):
        return True
    if _jax_runs() or _tensorflow_has_devices():
        return True
    if not _has_open_device():
        return False
    says = "torch" in sys.modules or "tensorflow" in sys.modules
    return not says or any(name in sys.modules for name in _LIBRARIES)


def _is_initialized(backend: object) -> bool:
    ask = getattr(backend, "is_initialized", None)
    return ask is not None and bool(ask())


def _jax_runs() -> bool:
    """Return whether JAX computes: its calls return early on a processor, too."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "_backends", None))


def _tensorflow_has_devices() -> bool:
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    devices = getattr(context, "_logical_devices", None) or ()
    return any("CPU" not in one.device_type for one in devices)


def _has_open_device(folder: str = "/proc/self/fd") -> bool:
    """Return whether this process has a device's file open."""
    for name in os.listdir(folder):
        try:
            path = os.readlink(os.path.join(folder, name))
        except OSError:  # closed since, as that of the folder itself
            continue
        if _FILES.fullmatch(path):
            return True
    return False
