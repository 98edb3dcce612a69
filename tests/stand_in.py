"""A stand-in for `torch.cuda`: a device that works off what a program has launched.

It needs neither a device nor PyTorch. It computes its times from readings of a clock
that the hook under test reads, too. So its own account and what the hook tells are of
the same moments, on a machine however busy.
"""

import ctypes
import time
from dataclasses import dataclass, field

NS_PER_S = 1_000_000_000
_read_ns = time.monotonic_ns


def to_ns(time_s):
    """Return a time in whole nanoseconds."""
    return round(time_s * NS_PER_S)


@dataclass
class Clock:
    """A clock that stands still unless somebody waits."""

    now_ns: int = 5 * NS_PER_S

    def read(self):
        """Return the time."""
        return self.now_ns

    def has_come(self, at_ns):
        """Return whether a time has come, if the clock was read now."""
        return at_ns <= self.now_ns

    def wait_until(self, at_ns):
        """Go on to a time."""
        self.now_ns = max(self.now_ns, at_ns)


@dataclass
class RealClock(Clock):
    """The machine's clock, whose last reading is the time.

    It leaves out what a wait takes longer than it should.
    """

    now_ns: int = field(default_factory=_read_ns)
    _out_ns: int = 0

    def read(self):
        self.now_ns = _read_ns() - self._out_ns
        return self.now_ns

    def has_come(self, at_ns):
        return at_ns <= _read_ns() - self._out_ns

    def wait_until(self, at_ns):
        if at_ns <= self.now_ns:
            return
        while (left_ns := at_ns - self.read()) > 0:
            time.sleep(left_ns / NS_PER_S)
        self._out_ns -= left_ns
        self.now_ns = at_ns


@dataclass
class Queue:
    """A device, and the account that it keeps of the steps of a training.

    A program may run ahead of it by `ahead_s`; then a launch waits. Steps are (begin,
    end) in nanoseconds.
    """

    clock: Clock
    ahead_s: float = 0.0
    free_ns: int = 0
    steps: list = field(default_factory=list)

    @property
    def is_free(self):
        """Whether it had nothing to do when the clock was read."""
        return self.free_ns <= self.clock.now_ns

    def launch(self, work_s, launch_s, counts=True):
        """Let it work for a time; the program returns when it has launched that."""
        begun_ns = self.clock.now_ns
        start_ns = max(self.free_ns, begun_ns)
        launched_ns = begun_ns + to_ns(launch_s)
        self.free_ns = max(start_ns + to_ns(work_s), launched_ns)
        if counts:
            self.steps.append((start_ns, self.free_ns))
        self.clock.wait_until(max(launched_ns, self.free_ns - to_ns(self.ahead_s)))

    def synchronise(self):
        """Let the program wait until it is free."""
        self.clock.wait_until(self.free_ns)

    def account(self, first=0, last=None):
        """Return what it did in some of the steps, as a loop's note says it."""
        steps = self.steps[first:last]
        busy_ns = [end - begin for begin, end in steps]
        later_ns = steps[-1][1] - steps[0][1]
        return {
            "busy_s": sum(busy_ns) / NS_PER_S,
            "first_busy_s": busy_ns[0] / NS_PER_S,
            "idle_s": (later_ns - sum(busy_ns[1:])) / NS_PER_S,
        }


def used_percent(told):
    """Return the utilisation of an account, or of a note, without the first step."""
    later_s = told["busy_s"] - told["first_busy_s"]
    idle_s = told["idle_s"] - told.get("first_idle_s", 0.0)
    return 100 * later_s / (later_s + idle_s)


class Event:
    """An event of a device, which nobody may wait for."""

    def __init__(self, queue):
        self._queue, self.at_ns = queue, None

    def record(self, stream):
        self.at_ns = max(self._queue.free_ns, self._queue.clock.now_ns)

    def query(self):
        return self._queue.clock.has_come(self.at_ns)

    def elapsed_time(self, after):
        if not (self.query() and after.query()):
            raise RuntimeError("device not ready")
        return ctypes.c_float((after.at_ns - self.at_ns) / 1e6).value

    def synchronize(self):
        raise AssertionError("the hook waits for a device")

    wait = synchronize


class Stream:
    """A stream of a device; there is one, unless somebody makes another."""

    queue = None  # of the device of all streams

    def __new__(cls, device=None, priority=0, **known):
        return super().__new__(cls)

    def query(self):
        return self.queue.is_free


class Cuda:
    """What the hook asks of `torch.cuda`, for devices of which some hold memory."""

    def __init__(self, *queues):
        self._queues = queues
        self.Stream = type("Stream", (Stream,), {})
        self.streams = [self._stream_of(queue) for queue in queues]
        self.was_initialised, self.is_capturing = True, False
        self.has_memory = [True] * len(queues)
        self.events = []
        self._recording = None

    def _stream_of(self, queue):
        stream = self.Stream(stream_id=0)
        stream.queue = queue
        return stream

    def is_initialized(self):
        return self.was_initialised

    def is_current_stream_capturing(self):
        return self.is_capturing

    def device_count(self):
        return len(self._queues)

    def memory_allocated(self, device):
        return 0

    def memory_reserved(self, device):
        return 1024 * self.has_memory[device]

    def current_stream(self, device):
        assert self.was_initialised
        assert self.has_memory[device]
        self._recording = self._queues[device]
        return self.streams[device]

    def Event(self, enable_timing):
        assert enable_timing
        self.events.append(Event(self._recording))
        return self.events[-1]
