"""Which iterations follow each other: those of the training data, of the validation."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from contextlib import suppress

from epoch_hook.devices import DeviceTimes

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LOOK = 0.05  # of the use of the second batch, to look ahead in that of the first
KERAS = ("keras.", "tf_keras.", "tensorflow.python.keras.")


class Stream:
    """Iterations of one loader, or of loaders that a program makes anew each time.

    `leave` is called where an iteration is seen to be gone, or followed by another one,
    before it has ended.
    """

    def __init__(self, number: int, leave: Callable[[Stream], object]) -> None:
        self.number = number
        self._leave = leave
        self.epoch, self.is_evaluation = 0, False  # of the last iteration
        self.facts: list[dict] = []  # of its loaders, as they were noted
        self._last = _none()
        self._n_counted = 0

    def begin(self, under_way: Sequence[Stream] = (), counts: bool = True) -> int:
        """Begin an iteration, and return how many have counted before it.

        One does not count if nobody asked it for a batch: Lightning makes such. Nor
        does it if it passed between two batches of another iteration that then went on
        with more of them: a validation in the middle of an epoch.
        """
        if not self._last.has_ended:
            self._leave(self)
        self._n_counted += self._last.take_count()
        around = [one._last for one in under_way if one is not self]
        self._last = _Iteration(around, counts)
        return self._n_counted

    def ask(self) -> None:
        """Note that the last iteration is asked for a batch."""
        self._last.ask()
        self._last.times.ask()

    @property
    def times(self) -> Times:
        """The times of the last iteration."""
        return self._last.times

    def expect(self) -> None:
        """Let the last iteration count, though it may be asked in ways that we miss."""
        self._last.is_expected = True

    def follow(self, iterator: object) -> None:
        """Take an iterator for that of the last iteration, if its end can be seen."""
        iteration = self._last
        with suppress(TypeError):
            iteration.iterator = weakref.ref(iterator, lambda _: self._gone(iteration))

    def end(self, is_left: bool = False) -> dict | None:
        """Note that the last iteration has given all, or was left; return its times.

        They are known once, of an iteration that has given a batch.
        """
        return self._last.end(is_left)

    def abandon(self) -> object:
        """Forget the last iteration, and return it."""
        last, self._last = self._last, _none()
        return last

    def _gone(self, iteration: _Iteration) -> None:
        if iteration is self._last:
            iteration.is_gone = True
            self._leave(self)

    def add_stop(self, iterator: object, stop_ns: int) -> None:
        """Note how long an iterator has ended its workers, if it is under way."""
        if self._last.iterator() is iterator:
            self._last.times.stop_ns += stop_ns

    @property
    def is_gone(self) -> bool:
        """Whether the last iteration was dropped before it had given all."""
        return self._last.is_gone

    @property
    def is_under_way(self) -> bool:
        """Whether the last iteration may go on."""
        return self._last.iterator() is not None


class _Iteration:
    """One iteration of a stream, and those of others that it began in."""

    def __init__(self, around: Sequence[_Iteration], counts: bool) -> None:
        self.times = Times()
        self.iterator = _nothing  # gives it while it lives and has not ended
        self.is_expected = self.has_ended = self.is_gone = False
        self._counts = counts
        self._n_asked = 0
        # [iteration, batches that it was asked for when this one began, and ended]
        self._around = [[one, one._n_asked, one._n_asked] for one in around]

    def ask(self) -> None:
        self._n_asked += 1
        for around in self._around:
            around[2] = around[0]._n_asked

    def end(self, is_left: bool) -> dict | None:
        """Return its times if it ends now."""
        has_ended, self.has_ended = self.has_ended, True
        self.iterator = _nothing
        return None if has_ended else self.times.end(is_left)

    def take_count(self) -> bool:
        """Return whether this was a pass of its own, when the next one begins.

        A single batch of another one may be a sample that a program takes at times.
        """
        is_inside = any(
            at_begin == at_end <= one._n_asked - 2
            for one, at_begin, at_end in self._around
        )
        was_asked = self._n_asked > 0 or self.is_expected
        self._around = []
        return self._counts and was_asked and not is_inside


def _none() -> _Iteration:
    """Return what stands for an iteration where there is none."""
    none = _Iteration((), counts=False)
    none.has_ended = True
    return none


class Times:
    """How long a program waits for the batches of an iteration, and uses them.

    While it uses one it may wait for a batch of another loader, as in a validation or
    in the loop over both. It waits then, and uses nothing.
    """

    def __init__(self) -> None:
        self.devices = DeviceTimes()
        self._n_batches = 0
        self._wait_ns, self._use_ns = [0, 0], [0, 0]  # of the first batch, and of all
        self._first_idle_ns = 0  # waits in the first step, for batches of other loaders
        self._until_asked = [0, 0], [0, 0]  # the same, until the last was asked for
        self._since_ns = 0
        self.stop_ns = 0  # in which the workers of a loop that is left end
        self._is_used, self._thread = False, 0

    @property
    def is_here(self) -> bool:
        """Whether this thread uses the batches."""
        return self._thread == threading.get_ident()

    def ask(self) -> bool:
        """Note that the program waits from now on; return whether it used a batch."""
        now_ns = time.monotonic_ns()
        was_used, self._is_used = self._is_used, False
        if was_used:
            used_ns = now_ns - self._since_ns
            is_first = self._is_of_first_step(used_ns)
            self._use_ns[0] += used_ns if is_first else 0
            self._use_ns[1] += used_ns
            self.devices.ask(now_ns, is_first)
        if was_used or not self._n_batches:
            self._since_ns = now_ns
        return was_used

    def _is_of_first_step(self, used_ns: int) -> bool:
        """Return whether a use is of the first step.

        A loader that looks ahead, as that of Accelerate, asks for the second batch when
        it has the first, and hands the first on when it has the second.
        """
        has_looked = self._n_batches == 2 and self._use_ns[0] < _LOOK * used_ns
        return self._n_batches == 1 or has_looked

    def give(self, is_own: bool = True) -> None:
        """Note that it is given what it waits for, which may be another loader's."""
        now_ns = time.monotonic_ns()
        waited_ns = now_ns - self._since_ns
        if is_own:
            self._until_asked = self._wait_ns.copy(), self._use_ns.copy()
        self._wait_ns[0] += 0 if self._n_batches else waited_ns
        self._wait_ns[1] += waited_ns
        is_in_first_step = self._n_batches == 1 and not is_own
        self._first_idle_ns += waited_ns if is_in_first_step else 0
        self._n_batches += is_own
        if is_own:
            self._thread = threading.get_ident()
        self._since_ns, self._is_used = now_ns, True
        self.devices.give(now_ns, is_own)

    def end(self, is_left: bool = False) -> dict | None:
        """Return what was noted, if anything, when an iteration has no more.

        One that was left counts until its last batch was asked for: each step has a
        wait and a use.
        """
        now_ns = time.monotonic_ns()
        self.devices.end(is_left)
        if not self._n_batches:
            return None
        all_ns = self._wait_ns, self._use_ns
        wait_ns, use_ns = self._until_asked if is_left else all_ns
        end_ns = self.stop_ns if is_left else now_ns - self._since_ns
        return {
            "batches": self._n_batches,
            "first_wait_s": wait_ns[0] / 1e9,
            "first_idle_s": self._first_idle_ns / 1e9,
            "first_use_s": use_ns[0] / 1e9,
            "wait_s": wait_ns[1] / 1e9,
            "use_s": use_ns[1] / 1e9,
            "end_s": end_ns / 1e9,
            "left": is_left,
        }


def _nothing() -> None:
    """Stand for a reference to an object that is gone."""


class Place:
    """All lines of a call stack, and whether some are Keras's own."""

    def __init__(self, lines: tuple, is_in_keras: bool = False) -> None:
        self.lines, self.is_in_keras = lines, is_in_keras


class Loader:
    """What tells whether a loader may take over from another one.

    `kind` must be the same. `size` is that of its data, None if unknown. `source` gives
    what a loader reads, for this one and for the one before.
    """

    def __init__(
        self,
        loader: object,
        *,
        kind: tuple,
        size: object,
        source: Callable[[object], object],
    ) -> None:
        self.reference = weakref.ref(loader)
        self.kind, self.size = kind, size
        self._source = source

    def may_follow(self, last: Loader, at_same_place: bool) -> bool:
        """Return whether this one may be the last one, made anew."""
        before, now = last.reference(), self.reference()
        if self.kind != last.kind:
            return False
        if before is None:
            return at_same_place or self.size == last.size is not None
        return at_same_place and self._source(before) is self._source(now)


class _Trace:
    """The last loader of a stream, and where it began."""

    def __init__(self, stream: Stream, loader: Loader, lines: tuple) -> None:
        self.stream, self.loader, self.lines = stream, loader, lines


class Streams:
    """Finds the stream of a loader that begins to iterate.

    A loader that was seen before continues its stream, wherever it is called. A program
    may make a loader every epoch. So a new one continues a stream that is at rest and
    whose last loader was of the same kind, if

    - that one began at the same place, and is gone or reads the same source, or else
    - that one is gone and was of the same size.
    """

    def __init__(self, leave: Callable[[Stream], object]) -> None:
        self._leave = leave
        self._traces: list[_Trace] = []  # one a stream, that which waits longest first
        self._n_streams = 0

    def find(self, loader: Loader, place: Place) -> Stream:
        """Return the stream of a loader that begins to iterate at a place."""
        stream = self._known(loader) or self._continued(loader, place) or self.new()
        self._traces = [one for one in self._traces if one.stream is not stream]
        self._traces.append(_Trace(stream, loader, place.lines))
        return stream

    def under_way(self) -> list[Stream]:
        """Return the streams whose last iterations may go on."""
        return [one.stream for one in self._traces if one.stream.is_under_way]

    def new(self) -> Stream:
        """Return a stream that nothing has continued yet."""
        self._n_streams += 1
        return Stream(self._n_streams - 1, self._leave)

    def abandon(self) -> list:
        """Forget the last iterations of all streams, and return these."""
        return [one.stream.abandon() for one in self._traces]

    def begun(self) -> list[Stream]:
        """Return all streams over loaders."""
        return [one.stream for one in self._traces]

    def _known(self, loader: Loader) -> Stream | None:
        now = loader.reference()
        for trace in self._traces:
            if trace.loader.reference() is now:
                return trace.stream
        return None

    def _continued(self, loader: Loader, place: Place) -> Stream | None:
        found = []
        for trace in self._traces:
            is_here = trace.lines == place.lines
            if not trace.stream.is_under_way and loader.may_follow(
                trace.loader, is_here
            ):
                has_size = trace.loader.size == loader.size
                found.append((not is_here, not has_size, len(found), trace.stream))
        return min(found)[3] if found else None


def place_of_caller(library: tuple[str, ...]) -> Place:
    """Return where a program begins an iteration, without the frames of a library."""
    frame, is_in_keras, lines = sys._getframe(1), False, []
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        is_in_keras = is_in_keras or name.startswith(KERAS)
        if lines or not name.startswith(("epoch_hook.", *library)):
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return Place(tuple(lines), is_in_keras)
