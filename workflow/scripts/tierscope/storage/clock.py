"""The clock of a launch: that of this machine or of the emulated machine.

In virtual time no process sleeps for a device. The preloaded library
(`workflow/native/device/virtual_time.h`) keeps a clock for the reader, the consumer and
the copiers of each process, and computes every call's time from the queues. Driver and
probes ask the clock for barriers and instants, and report the consumer's actions to it.
Policies and peers take turns by the clock, so their decisions follow virtual time and
not the timing of this machine's sockets.
"""

import ctypes
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import IntEnum
from pathlib import Path
from typing import Any, Protocol

from tierscope.core.machine import TierError
from tierscope.core.output.streams import say

NO_PROGRESS_S = 60.0
_WATCH_S = 0.5
_SIGNALS_S = 0.01  # enough for a Python signal handler to run
_DESCRIPTION_BYTES = 1 << 20
_REPORT_S = 3.0  # for the process that stopped the launch to report the reason
_ANOTHER = -1  # an unknown failed rank
_NOBODY, _NOT_YET = -1, -2

Batch = tuple[int, int]  # samples and bytes


class ClockStoppedError(RuntimeError):
    """The launch was stopped while a thread waited; the main thread has the reason."""


class OtherRankFailed(RuntimeError):
    """Another process reported a failure.

    Parameters
    ----------
    rank : int
        The process.
    line : str, optional
        The message that one process must print; None if it was printed.
    """

    def __init__(self, rank: int, line: str | None = None):
        super().__init__(rank)
        self.line = line


class Ranks(Protocol):
    """The processes of a launch, as far as a clock needs them."""

    rank: int

    def raise_if_failed(self) -> None:
        """Raise OtherRankFailed if another process has reported a failure."""

    def note_failure_printed(self) -> None:
        """Tell the keeper that this process has printed the cause of the failure."""

    def dead_ranks(self) -> list[int]:
        """Return the processes of this machine that died silently."""

    def gone_error(self, ranks: list[int]) -> Exception:
        """Return the error that names these processes."""


class Role(IntEnum):
    """The actor of a process's call; copier i is ``COPIER + i``.

    Worker i of a loader is ``WORKER + i``. No run has both.
    """

    READER = 0
    CONSUMER = 1
    COPIER = 2
    WORKER = 2


class Turn(IntEnum):
    """The purpose of a turn; turns of one instant have this order."""

    COPIED = 0
    ENDED = 1
    STARTING = 10
    ENDING_EPOCH = 11


# Limits of virtual_time.h: copiers or workers of a process, and batches that it may
# hold ready (LARGEST_PREFETCH).
MOST_COPIERS = 64
MAX_VIRTUAL_PREFETCH = 250


class RealClock:
    """The clock of this machine; it has what a clock of epochs must have, no more.

    Parameters
    ----------
    barrier : callable
        Waits for all processes.
    """

    name = "real"  # time, for tables by it
    now_ns = staticmethod(time.perf_counter_ns)
    now_s = staticmethod(time.perf_counter)

    def __init__(self, barrier: Callable[[], None]):
        self._barrier = barrier

    def barrier(self) -> float:
        """Wait for all processes and return the instant, in seconds."""
        self._barrier()
        return time.perf_counter()

    def next_batch(self, batches: Iterator[Batch]) -> Batch | None:
        """Return the next batch of the training, None at the end."""
        return next(batches, None)

    def compute(self, time_ns: int) -> None:
        """Sleep in place of a training step."""
        if time_ns:
            time.sleep(time_ns / 1e9)

    def meet(self, group: int, n_members: int, meet: Callable[[], None]) -> None:
        """Call `meet` to wait for all members of a group."""
        meet()

    def act(self, rank: int, role: int) -> AbstractContextManager[None]:
        """Return a context for what a role does: every thread has the same time."""
        return nullcontext()

    def take_turn(self, role: int, turn: Turn) -> int:
        """Return the instant: calls take effect in the order of real time."""
        return self.now_ns()

    def ask_owner(self, owner: int) -> int:
        """Return the instant: the request itself waits for a free thread."""
        return self.now_ns()

    def receive(self, owner: int, node: int) -> int:
        """Return the instant: the file has arrived."""
        return self.now_ns()

    def told(self) -> None:
        """Do nothing: no read waits for a policy's answer to another."""

    def begin_copy(self, copier: int, at_ns: int) -> None:
        """Do nothing: the copier continues in real time."""

    def rest(self, copier: int) -> None:
        """Do nothing: an idle copier holds nothing back."""

    def await_copies(self) -> None:
        """Do nothing: the waiting thread is notified otherwise."""

    def copies_ended(self, at_ns: int) -> None:
        """Do nothing: the consumer continues when it is notified."""

    def note_memory(self, descriptor: int) -> None:
        """Do nothing: reads of memory take the time that they take."""

    def events(self) -> int:
        """Return 0: progress is not visible."""
        return 0

    def check(self) -> None:
        """Do nothing: barriers detect failures of other processes."""

    def stop(self, reason: BaseException) -> None:
        """Do nothing: processes that wait for this one notice its end."""


def to_ns(time_s: float) -> int:
    """Return whole nanoseconds, rounded half to even like the library."""
    return round(time_s * 1e9)


class VirtualClock:
    """The clock of the emulated machine, as this process sees it.

    Raises a TierError if the library is not loaded or has no state for this process.
    """

    name = "virtual"

    def __init__(self, processes: Ranks):
        self._processes = processes
        self._library = bind(ctypes.CDLL(None))
        self._reason: BaseException | None = None
        self._is_over = threading.Event()
        self._n_received: Counter[int] = Counter()  # tokens of this epoch, by giver
        if self._library.tierscope_clock_join(processes.rank):
            raise TierError(
                f"emulated devices: got no state for process {processes.rank}, "
                "expected one: the library is not preloaded."
            )

    @property
    def rank(self) -> int:
        """Return this process."""
        return self._processes.rank

    def stop_on_signals(self) -> None:
        """Let SIGTERM and SIGINT end all waits before Python's handlers are called."""
        for signum in (signal.SIGTERM, signal.SIGINT):
            self._library.tierscope_clock_stop_on(signum)

    def watch(self) -> None:
        """Start a thread that detects dead processes and lack of progress."""
        threading.Thread(target=self._watch, daemon=True).start()

    def reset(self) -> None:
        """Set clocks, queues and counters to 0 (one process, between epochs)."""
        self._library.tierscope_clock_reset()

    def plan(
        self,
        n_files: int,
        file_bytes: int,
        batch_size: int,
        prefetch_batches: int,
        sample_s: float,
        teller: Role | None = None,
        *,
        meets: bool = False,
    ) -> None:
        """Announce the reads of this process in the epoch that the next barrier begins.

        Each file is a sample, which takes `sample_s` seconds of the processor. The
        loader holds `prefetch_batches` ready, and `teller` reports each ended read to a
        policy. `meets` says that processes wait for each other in the epoch.
        """
        self._n_received.clear()
        numbers = n_files, file_bytes, batch_size, prefetch_batches, to_ns(sample_s)
        numbers = *numbers, 0 if teller is None else teller + 1, meets
        if self._library.tierscope_clock_plan(*numbers):
            raise ValueError(f"virtual time: cannot plan an epoch of {numbers}.")

    def plan_batches(
        self,
        n_batches: int,
        n_workers: int,
        prefetch_factor: int,
        sample_s: float,
    ) -> None:
        """Announce batches that workers or the consumer itself read in the next epoch.

        `n_workers` workers may each have read `prefetch_factor` batches that are not
        yet taken. Each sample takes `sample_s` seconds of the processor.
        """
        numbers = n_batches, n_workers, n_workers * prefetch_factor, to_ns(sample_s)
        if self._library.tierscope_clock_plan_batches(*numbers):
            raise ValueError(f"virtual time: cannot plan an epoch of {numbers}.")

    def process_sample(self) -> None:
        """Let this thread's role process a sample."""
        self._library.tierscope_clock_sample()

    def await_sent(self, worker: int, batch: int) -> None:
        """Let a worker of this process wait until a batch is sent to it."""
        self._instant(self._library.tierscope_clock_await_sent(worker, batch))

    def deliver(self, worker: int, batch: int) -> None:
        """Record that a worker of this process has read a batch."""
        self._library.tierscope_clock_deliver(worker, batch)

    def barrier(self) -> float:
        """Wait for all processes and return the instant, in seconds."""
        instant_ns = self._library.tierscope_clock_barrier(True)
        while instant_ns == _NOT_YET:
            # Lets MPI make progress: others may still be leaving a collective call.
            self._processes.raise_if_failed()
            instant_ns = self._library.tierscope_clock_barrier(False)
        return self._instant(instant_ns) * 1e-9

    def next_batch(self, batches: Iterator[Batch]) -> Batch | None:
        """Let the training ask for its next batch, or for the end, and receive it."""
        self._library.tierscope_clock_ask()
        try:
            batch = next(batches, None)
        except Exception:
            self.check()  # calls fail once the launch is stopped
            raise
        if self._library.tierscope_clock_take():
            self.check()
        return batch

    def compute(self, time_ns: int) -> None:
        """Let the training compute for some nanoseconds."""
        if time_ns:
            self._library.tierscope_clock_pass(time_ns)

    @contextmanager
    def act(self, rank: int, role: int) -> Iterator[None]:
        """Charge calls of this thread to a role of a process."""
        if self._library.tierscope_clock_act(rank, role):
            raise ValueError(f"virtual time: got rank {rank}, role {role}.")
        try:
            yield
        finally:
            self._library.tierscope_clock_act(_NOBODY, 0)

    def now_s(self) -> float:
        """Return `now_ns` in seconds."""
        return self.now_ns() * 1e-9

    def now_ns(self) -> int:
        """Return the instant of this thread's role, by default of the consumer."""
        return self._library.tierscope_clock_now()

    def take_turn(self, role: int, turn: Turn) -> int:
        """Wait for the turn of a role of this process, and return the instant.

        No other actor continues until the role acts again.
        """
        return self._instant(self._library.tierscope_clock_turn(role, turn))

    def told(self) -> None:
        """Record that the policy knows of all reads so far."""
        self._library.tierscope_clock_told()

    def begin_copy(self, copier: int, at_ns: int) -> None:
        """Let a copier of this process continue from an instant."""
        if self._library.tierscope_clock_copy(copier, at_ns):
            raise ValueError(f"virtual time: got copier {copier}.")

    def rest(self, copier: int) -> None:
        """Make a copier or worker of this process idle."""
        self._library.tierscope_clock_copy(copier, _NOBODY)

    def await_copies(self) -> None:
        """Let the consumer wait until copies have ended."""
        self._library.tierscope_clock_await_copies()

    def copies_ended(self, at_ns: int) -> None:
        """Let the consumer continue from an instant."""
        self._library.tierscope_clock_copies_ended(at_ns)

    def note_memory(self, descriptor: int) -> None:
        """Mark a descriptor as memory; its reads take no time."""
        self._library.tierscope_clock_memory(descriptor)

    def set_network(self, n_threads: int, way_s: float, transfer_s: float) -> None:
        """Describe the network between nodes (one process, between epochs).

        A node serves `n_threads` requests at a time. A message takes `way_s` seconds,
        and a file `transfer_s` on a link.
        """
        times_ns = to_ns(way_s), to_ns(transfer_s)
        self._library.tierscope_clock_network(n_threads, *times_ns)

    def ask_owner(self, owner: int) -> int:
        """Ask a node for a file once a server thread is free; return the instant."""
        return self._instant(self._library.tierscope_clock_ask_owner(owner))

    def receive(self, owner: int, node: int) -> int:
        """Send the file from an owner to a node; return the instant of arrival."""
        return self._instant(self._library.tierscope_clock_receive(owner, node))

    def stop(self, reason: BaseException) -> None:
        """End all waits of the launch for a reason, from any thread."""
        self._reason = self._reason or reason
        self._library.tierscope_clock_stop()

    def _instant(self, instant_ns: int) -> int:
        """Return an instant, or raise the reason if the launch was stopped."""
        if instant_ns < 0:
            self.check()
        return instant_ns

    def meet(self, group: int, n_members: int, meet: Callable[[], None]) -> None:
        """Wait for all members of a group; their clocks move to the latest one.

        The number of the group is unique; a process is in one meeting at a time. `meet`
        is not called.
        """
        if self._library.tierscope_clock_meet(group, n_members):
            self.check()

    def give_token(self) -> None:
        """Release the processes that wait for this process's next token, now or later.

        Raises a ValueError after the largest number of tokens in an epoch.
        """
        if self._library.tierscope_clock_give():
            raise ValueError("virtual time: got more tokens than are remembered.")

    def await_token(self, giver: int, *, waits: bool = True) -> None:
        """Wait for a rank's next token; continue no earlier than it was given.

        Without `waits` this process passes the token over.
        """
        turn = self._n_received[giver]
        self._n_received[giver] += 1
        if waits and self._library.tierscope_clock_await_token(giver, turn):
            self.check()

    def events(self) -> int:
        """Return a number that grows with any progress."""
        return self._library.tierscope_clock_events()

    def check(self) -> None:
        """Raise an error if the launch was stopped.

        The main thread raises the reason, after a signal handler has run. A
        RankGoneError says that this process has found another one dead, an
        OtherRankFailed that another has stopped the launch, with its message if known.
        """
        if self._library.tierscope_clock_is_stopped():
            if threading.current_thread() is not threading.main_thread():
                raise ClockStoppedError("virtual time was stopped")
            time.sleep(_SIGNALS_S)
            if self._reason:
                raise self._reason
            end_s = time.monotonic() + _REPORT_S
            while time.monotonic() < end_s:
                self._processes.raise_if_failed()
                time.sleep(_SIGNALS_S)
            raise OtherRankFailed(_ANOTHER)

    def counts(self, n_devices: int) -> list[dict[str, int]]:
        """Return opens, closes, requests and bytes of each device since the reset."""
        names = ("n_opens", "n_closes", "n_requests", "n_bytes")
        counts = (ctypes.c_int64 * len(names))()
        found = []
        for number in range(n_devices):
            self._library.tierscope_clock_counts(number, counts)
            found.append(dict(zip(names, counts, strict=True)))
        return found

    def end(self) -> None:
        """End the watch, and all remaining waits of the launch."""
        self._is_over.set()
        self._library.tierscope_clock_stop()

    def describe_actors(self) -> str:
        """Return a line for each actor: state, clock, and the actor it waits for."""
        text = ctypes.create_string_buffer(_DESCRIPTION_BYTES)
        self._library.tierscope_clock_describe(text, _DESCRIPTION_BYTES)
        return text.value.decode()

    def _watch(self) -> None:
        """Stop the launch if a process is dead or there is no progress."""
        # The first process that can reports it, since another one may hang.
        patience_s = NO_PROGRESS_S + _WATCH_S * self._processes.rank
        n_events, changed_s = -1, time.monotonic()
        while not self._is_over.wait(_WATCH_S):
            if self._library.tierscope_clock_is_stopped():
                return
            if gone := self._processes.dead_ranks():
                self.stop(self._processes.gone_error(gone))
                return
            now_s, seen = time.monotonic(), self.events()
            actors = self.describe_actors() if seen == n_events else ""
            if seen != n_events or not is_in_epoch(actors):
                n_events, changed_s = seen, now_s
            elif now_s - changed_s > patience_s:
                self._library.tierscope_clock_stop()
                say(
                    f"{actors}tierscope: no progress in virtual time for "
                    f"{now_s - changed_s:.0f} s of real time: see above who waits"
                )
                self._processes.note_failure_printed()
                return


Clock = RealClock | VirtualClock


def is_in_epoch(actors: str) -> bool:
    """Return whether any actor waits for another one."""
    return any(word in actors for word in ("waiting", "blocked"))


def bind(library: ctypes.CDLL) -> ctypes.CDLL:
    """Set the types of the functions of the devices' library, and return it."""
    whole, text = ctypes.c_int64, ctypes.c_char_p
    for name, result, arguments in (
        ("create", ctypes.c_int, (text, text, ctypes.c_int)),
        ("join", ctypes.c_int, (ctypes.c_int,)),
        ("act", ctypes.c_int, (ctypes.c_int,) * 2),
        ("reset", None, ()),
        ("plan", ctypes.c_int, (whole,) * 7),
        ("plan_batches", ctypes.c_int, (whole,) * 4),
        ("sample", None, ()),
        ("await_sent", whole, (ctypes.c_int, whole)),
        ("deliver", None, (ctypes.c_int, whole)),
        ("barrier", whole, (ctypes.c_int,)),
        ("ask", None, ()),
        ("take", ctypes.c_int, ()),
        ("pass", None, (whole,)),
        ("now", whole, ()),
        ("turn", whole, (ctypes.c_int,) * 2),
        ("told", None, ()),
        ("copy", ctypes.c_int, (ctypes.c_int, whole)),
        ("await_copies", None, ()),
        ("copies_ended", None, (whole,)),
        ("network", None, (whole,) * 3),
        ("ask_owner", whole, (ctypes.c_int,)),
        ("receive", whole, (ctypes.c_int,) * 2),
        ("memory", None, (ctypes.c_int,)),
        ("meet", ctypes.c_int, (whole, whole)),
        ("give", ctypes.c_int, ()),
        ("await_token", ctypes.c_int, (whole, whole)),
        ("stop", None, ()),
        ("is_stopped", ctypes.c_int, ()),
        ("stop_on", ctypes.c_int, (ctypes.c_int,)),
        ("events", whole, ()),
        ("counts", None, (ctypes.c_uint32, ctypes.c_void_p)),
        ("describe", None, (text, ctypes.c_size_t)),
    ):
        try:
            function = getattr(library, f"tierscope_clock_{name}")
        except AttributeError:
            raise TierError(
                f"emulated devices: got no function tierscope_clock_{name}, expected "
                "the library libtierscope_device.so to be preloaded."
            ) from None
        function.restype, function.argtypes = result, arguments
    return library


def create_virtual_state(
    library: Path, config: Path, state: Path, n_processes: int
) -> None:
    """Create the file that ``TIERSCOPE_DEVICE_STATE`` names, for virtual time.

    It must not exist (OSError). `config` is what
    `tierscope.storage.emulated.device.write_device_config` wrote.
    """
    create: Any = bind(ctypes.CDLL(str(library))).tierscope_clock_create
    error = create(bytes(config), bytes(state), n_processes)
    if error:
        raise OSError(error, os.strerror(error), str(state))
