"""What this process tells of its epochs: marks for the library, notes for the run."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from functools import wraps

from epoch_hook import devices
from epoch_hook.streams import Loader, Place, Stream, Streams, Times

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable

NOTES = "TIERSCOPE_HOOK_NOTES"
PATIENCE_S = 10.0  # with a device that still works when the program ends
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


def note(**facts: object) -> None:
    """Append a line to this process's notes, if there is a folder for them."""
    folder = os.environ.get(NOTES)
    if not folder:
        return
    import json

    path = os.path.join(folder, f"{os.getpid()}.jsonl")
    with suppress(OSError), open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")


def safely(function: Callable) -> Callable:
    """Let errors of ours end in a note, and the function return None."""

    @wraps(function)
    def call(*arguments: object, **named: object) -> object:
        try:
            return function(*arguments, **named)
        except Exception as error:
            with suppress(Exception):  # such as a text that cannot be encoded
                note(kind="error", of=function.__name__, text=repr(error))
            return None

    return call


def around(kind: type, name: str) -> Callable[[Callable], Callable]:
    """Let calls of a method go to the decorated function, which gets the method first.

    The method is given as it was before, unbound.
    """
    original = getattr(kind, name)

    def decorate(function: Callable) -> Callable:
        @wraps(original)
        def method(*arguments: object, **named: object) -> object:
            return function(original, *arguments, **named)

        setattr(kind, name, method)
        return function

    return decorate


def note_wrapped(framework: str, missing: list[str], *versions: str) -> None:
    """Note that a framework was wrapped, and what of it was missing.

    `versions` are modules and their attributes, such as ``torch.__version__``: the
    first one that is loaded counts.
    """
    found = None
    for module, _, attribute in (name.rpartition(".") for name in versions):
        found = found or getattr(sys.modules.get(module), attribute, None)
    version = None if found is None else str(found)
    note(kind="hook", framework=framework, version=version, missing=missing)


def rank() -> int | None:
    """Return the rank that a launcher has given, by the tracer's rule."""
    for name in RANKS:
        text = os.environ.get(name, "")
        if name == "SLURM_PROCID" and not os.environ.get("SLURM_STEP_ID"):
            continue
        if text.isdigit() and len(text) <= 9:
            return int(text)
    return None


def at_exit(function: Callable[[], object]) -> None:
    """Call a function when this process ends; a worker knows no ``atexit``."""
    from multiprocessing.util import Finalize

    Finalize(None, function, exitpriority=0)


def library_function(name: str) -> Callable[..., int]:
    """Return a function of the preloaded library; without it, one that gives 0."""
    import ctypes

    return getattr(ctypes.CDLL(None), name, lambda *given: 0)


def call_library(name: str, *given: int) -> int:
    """Call a function of the preloaded library."""
    return library_function(name)(*given)


class Loops:
    """The loops of this process over its loaders, and the epoch that they are in.

    The k-th iteration of a stream begins epoch k, counted from the first epoch of this
    process: the library knows which programs have run before. An evaluation begins
    none, and does not count. No mark goes back: an iteration is of the epoch under way
    if that is later. Once all loops have ended, what follows is of none, until another
    one begins.
    """

    def __init__(self, call: Callable[..., int] = call_library) -> None:
        self._call = call
        self._streams = Streams(self.leave)
        self._unread: list[tuple[dict, devices.DeviceTimes]] = []
        self.forget()

    def forget(self) -> None:
        """Begin anew: a forked child has loops of its own."""
        devices.forget(self._streams.abandon(), self._unread)
        self._streams, self._epoch, self._first = Streams(self.leave), -1, 0
        self._named: dict[str, Stream] = {}
        self._evaluates = False  # as a framework tells it
        self._told: set[str] = set()  # what goes on, as frameworks tell it
        self._have_ended = False
        self._unread, self._finishes = [], False

    def begin(
        self,
        framework: str,
        loader: Loader,
        place: Place,
        facts: dict,
        is_evaluation: bool = False,
    ) -> tuple[int, Stream]:
        """Note that a loader begins an iteration; return the epoch that this is of.

        It also returns the stream, to be told when the iteration is asked for a batch.
        Inside Keras only Keras says what begins.
        """
        under_way = self._streams.under_way()
        stream = self._streams.find(loader, place)
        self._note_loader(framework, stream, facts)
        if place.is_in_keras:
            stream.begin(under_way, counts=False)
            stream.epoch = self._under_way()
            stream.is_evaluation = self._evaluates
            return stream.epoch, stream
        wanted = stream.begin(under_way, counts=not is_evaluation)
        return self._enter(stream, wanted, is_evaluation), stream

    def begin_next(self, framework: str, facts: dict) -> int:
        """Note an epoch of a framework that tells it itself; return that of the run."""
        stream = self._told_by(framework)
        self._note_loader(framework, stream, facts)
        return self._enter(stream, self._epoch + 1, is_evaluation=False)

    def evaluate(self, framework: str) -> int:
        """Note an evaluation of such a framework; return the epoch that it is of."""
        self._evaluates = True
        stream = self._told_by(_evaluation_of(framework))
        return self._enter(stream, 0, is_evaluation=True)

    def end_told(self, framework: str, is_evaluation: bool = False) -> None:
        """Note the end of an evaluation, or of a whole training, as told."""
        self._evaluates = False
        name = _evaluation_of(framework) if is_evaluation else framework
        stream = self._told_by(name)
        self._told.discard(name)
        self.end(stream)

    def leave(self, stream: Stream) -> None:
        """Note that a loop over a stream was left by the program."""
        self.end(stream, is_left=True)

    @safely
    def end(self, stream: Stream, is_left: bool = False) -> None:
        """Note that a loop over a stream has ended, whoever has seen it.

        Its times are noted when its devices have done their work.
        """
        times = stream.end(is_left)
        if times:
            told = self._of(stream, kind="loop", **times)
            self._unread.append((told, stream.times.devices))
        if stream.is_gone or not is_left:  # else another one may begin just now
            self._end_all()
        self._note_read()

    def _end_all(self) -> None:
        """Tell that what follows is of no loop, if none goes on."""
        if self._have_ended or self._told or self._streams.under_way():
            return
        self._have_ended = True
        self._call("tierscope_loops_ended")

    @safely
    def finish(self) -> None:
        """Note all that is left when the process ends; a device is waited for."""
        for stream in self._streams.begun():
            self.leave(stream)
        self._told.clear()
        self._end_all()
        until = time.monotonic() + PATIENCE_S
        while self._unread and time.monotonic() < until:
            time.sleep(0.001)
            self._note_read()
        for _, seen in self._unread:
            seen.lose()
        self._note_read()

    @safely
    def _note_read(self) -> None:
        """Note the loops whose devices have done their work."""
        unread, self._unread = self._unread, []
        for told, seen in unread:
            if not seen.is_read():
                self._unread.append((told, seen))
                continue
            note(**told, **seen.facts())
            if seen.fault:
                note(kind="error", of="devices", text=seen.fault)

    @staticmethod
    def _of(stream: Stream, **facts: object) -> dict:
        """Return facts with what says which stream and process they are of."""
        return {
            "stream": stream.number,
            "epoch": stream.epoch,
            "evaluation": stream.is_evaluation,
            "pid": os.getpid(),
            "rank": rank(),
            **facts,
        }

    def others(self, stream: Stream) -> list[Times]:
        """Return the times of this thread's loops under way over other loaders."""
        others = (one for one in self._streams.under_way() if one is not stream)
        return [one.times for one in others if one.times.is_here]

    def _told_by(self, name: str) -> Stream:
        stream = self._named.get(name) or self._streams.new()
        self._named[name] = stream
        self._told.add(name)
        return stream

    def _enter(self, stream: Stream, wanted: int, is_evaluation: bool) -> int:
        is_begin = not is_evaluation and wanted > self._epoch
        now_ns = time.monotonic_ns()
        if is_begin:
            self._tell(wanted)
        elif self._have_ended:
            self._go_on()
        self._have_ended = False
        epoch = stream.epoch = self._under_way()
        stream.is_evaluation = is_evaluation
        note(**self._of(stream, kind="begin", marked=is_begin, time_ns=now_ns))
        if not self._finishes:
            self._finishes = True
            at_exit(self.finish)
        self._note_read()
        return epoch

    def _tell(self, epoch: int) -> None:
        if self._epoch < 0:
            self._first = self._call("tierscope_first_epoch")
        self._epoch = epoch
        self._call("tierscope_epoch", self._first + epoch)

    def _go_on(self) -> None:
        """Let the epoch under way go on that a loop begins in."""
        if self._epoch < 0:
            self._call("tierscope_epoch_here", -1)  # it has ended in this process only
        else:
            self._call("tierscope_epoch", self._first + self._epoch)

    def _under_way(self) -> int:
        """Return the epoch of the run; before the first loop another process tells."""
        if self._epoch < 0:
            return self._call("tierscope_epoch_under_way")
        return self._first + self._epoch

    def _note_loader(self, framework: str, stream: Stream, facts: dict) -> None:
        if facts in stream.facts:
            return
        stream.facts.append(facts)
        note(
            kind="loader",
            framework=framework,
            stream=stream.number,
            **facts,
            pid=os.getpid(),
            rank=rank(),
        )


def take(stream: Stream, next_batch: Callable, iterator: object) -> object:
    """Return the next batch of an iterator, and note how long all of them take."""
    stream.ask()
    waiting = [one for one in LOOPS.others(stream) if one.ask()]
    try:
        batch = next_batch(iterator)
        stream.times.give()
    except StopIteration:
        LOOPS.end(stream)
        raise
    finally:
        for one in waiting:
            one.give(is_own=False)
    return batch


def _evaluation_of(framework: str) -> str:
    return f"{framework} evaluation"


class Fetches:
    """How long this process fetches samples, in each epoch; noted when it ends."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: a forked child has fetches of its own."""
        self._by_epoch: dict[int, list[int]] = {}  # samples and ns, first ones and all

    @safely
    def add(self, epoch: int, n_samples: int, time_ns: int) -> None:
        """Add the samples of a batch, and the time in which they were fetched."""
        first = [0, 0]
        if not self._by_epoch:
            at_exit(self.note)
            first = [n_samples, time_ns]
        sums = self._by_epoch.setdefault(epoch, [*first, 0, 0])
        sums[2] += n_samples
        sums[3] += time_ns

    @safely
    def note(self) -> None:
        """Note what was added, and apart the first batch that this process fetched."""
        for epoch, (first, first_ns, n_samples, time_ns) in self._by_epoch.items():
            note(
                kind="fetch",
                epoch=epoch,
                pid=os.getpid(),
                rank=rank(),
                samples=n_samples,
                fetch_s=time_ns / 1e9,
                first_samples=first,
                first_fetch_s=first_ns / 1e9,
            )


LOOPS = Loops()
FETCHES = Fetches()
os.register_at_fork(after_in_child=LOOPS.forget)
os.register_at_fork(after_in_child=FETCHES.forget)
