"""The clock of a launch: this machine's, or that of the machine it emulates.

In virtual time nobody sleeps for a device. The preloaded library
(`workflow/native/virtual_time.h`) keeps a clock for each process's reader, consumer and
copiers, and says what the queues make of every call. Driver and probes ask the clock
for barriers and instants, and tell it what the consumer does. Policies and peers take
turns by it, so that what they decide follows the clock and not the machine's sockets.
"""

import ctypes
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, Protocol

from tierscope.core.machine import TierError

NO_PROGRESS_S = 60.0
_WATCH_S = 0.5
_SIGNALS_S = 0.01  # in which a handler of Python's has its turn
_DESCRIPTION_BYTES = 1 << 20
_REPORT_S = 3.0  # in which the process that stopped the launch says why
_ANOTHER = -1  # a rank that has not said that it has failed
_NOBODY, _NOT_YET = -1, -2


class ClockStoppedError(RuntimeError):
    """The launch was stopped while a thread waited; the main thread says why."""


class OtherRankFailed(RuntimeError):
    """Another process reported a failure.

    Parameters
    ----------
    rank : int
        Which process.
    line : str, optional
        What one process is to print of it; None if it was printed.
    """

    def __init__(self, rank: int, line: str | None = None):
        super().__init__(rank)
        self.line = line


class Ranks(Protocol):
    """The processes of a launch, as far as a clock asks for them."""

    rank: int

    def look_for_failure(self) -> None:
        """Raise OtherRankFailed if another process has reported a failure."""

    def told_of_failure(self) -> bool:
        """Return whether a process has reported one."""

    def dead_ranks(self) -> list[int]:
        """Return the processes of this machine that have ended without a word."""

    def gone_error(self, ranks: list[int]) -> Exception:
        """Return the error that names them."""


class Role(IntEnum):
    """Who a process's calls are made for; copier i is ``COPIER + i``."""

    READER = 0
    CONSUMER = 1
    COPIER = 2


class Turn(IntEnum):
    """What is said in a turn; those of one instant come in this order."""

    COPIED = 0
    ENDED = 1
    STARTING = 10
    ENDING_EPOCH = 11


MOST_COPIERS = 64


class Clock(Protocol):
    """What tells the time of epochs, and what happens in them."""

    is_virtual: bool

    def barrier(self) -> float:
        """Wait for all processes and return the instant, in seconds."""

    def ask(self) -> None:
        """Note that the training asks for its next batch, or for the end."""

    def take(self) -> None:
        """Note that it has what it asked for."""

    def compute(self, time_s: float) -> None:
        """Let the training compute."""

    def meet(self, group: int, n_members: int, meet: Callable[[], None]) -> None:
        """Wait for all members of a group; `meet` does so in real time."""

    def give_token(self, send: Callable[[], None]) -> None:
        """Let those go on that wait for this process; `send` does so in real time."""

    def skip_token(self, giver: int) -> None:
        """Note that this process does not wait for a rank's next token."""

    def await_token(self, giver: int, receive: Callable[[], None]) -> None:
        """Wait for a rank's next token; `receive` does so in real time."""

    def check(self) -> None:
        """Raise the reason if the launch was stopped."""

    def refuse_if_stopped(self) -> None:
        """Raise a ClockStoppedError if the launch was stopped; in any thread."""

    def stop(self, reason: BaseException) -> None:
        """End all waits of the launch for a reason, in whatever thread."""

    def now_ns(self) -> int:
        """Return the instant of who this thread acts for, else of the consumer."""

    def events(self) -> int:
        """Return a number that grows if anything makes progress."""

    @contextmanager
    def act(self, rank: int, role: int) -> Iterator[None]:
        """Let calls of this thread take the time of a process's role."""

    def take_turn(self, role: int, turn: Turn) -> int:
        """Wait until nobody comes before a role of this process; return the instant.

        Nobody else goes on until the role does something else.
        """

    def told(self) -> None:
        """Note that the policy knows of all reads so far."""

    def begin_copy(self, copier: int, at_ns: int) -> None:
        """Let a copier of this process go on, from an instant on."""

    def rest(self, copier: int) -> None:
        """Let a copier have nothing to do."""

    def await_copies(self) -> None:
        """Let the consumer wait until copies have ended."""

    def copies_ended(self, at_ns: int) -> None:
        """Let it go on."""

    def ask_owner(self, owner: int) -> int:
        """Ask a node for a file, once it has a server thread; return when."""

    def receive(self, owner: int, node: int) -> int:
        """Let the file come from an owner to a node; return when it is there."""

    def note_memory(self, descriptor: int) -> None:
        """Note that a descriptor is memory, whose reads take no time."""


class RealClock:
    """The clock of this machine.

    Parameters
    ----------
    barrier : callable
        Waits for all processes.
    """

    is_virtual = False

    def __init__(self, barrier: Callable[[], None]):
        self._barrier = barrier

    def barrier(self) -> float:
        """Wait for all processes and return the instant, in seconds."""
        self._barrier()
        return time.perf_counter()

    def ask(self) -> None:
        """Do nothing: the batch comes when it comes."""

    def take(self) -> None:
        """Do nothing: it is there."""

    def compute(self, time_s: float) -> None:
        """Sleep in place of a training step."""
        if time_s:
            time.sleep(time_s)

    def meet(self, group: int, n_members: int, meet: Callable[[], None]) -> None:
        """Wait for all members of a group by `meet`."""
        meet()

    def give_token(self, send: Callable[[], None]) -> None:
        """Let those go on that wait for this process by `send`."""
        send()

    def skip_token(self, giver: int) -> None:
        """Do nothing: messages have names."""

    def await_token(self, giver: int, receive: Callable[[], None]) -> None:
        """Wait for a rank's next token by `receive`."""
        receive()

    def check(self) -> None:
        """Do nothing: other processes' failures are found in barriers."""

    def refuse_if_stopped(self) -> None:
        """Do nothing: this machine's time goes on."""

    def stop(self, reason: BaseException) -> None:
        """Do nothing: who waits for this process finds out."""

    def now_ns(self) -> int:
        """Return this machine's monotonic time."""
        return time.perf_counter_ns()

    def events(self) -> int:
        """Return 0: progress cannot be seen."""
        return 0

    @contextmanager
    def act(self, rank: int, role: int) -> Iterator[None]:
        """Do nothing: every thread has the same time."""
        yield

    def take_turn(self, role: int, turn: Turn) -> int:
        """Return the instant: who comes first is first."""
        return self.now_ns()

    def told(self) -> None:
        """Do nothing."""

    def begin_copy(self, copier: int, at_ns: int) -> None:
        """Do nothing: it goes on when it can."""

    def rest(self, copier: int) -> None:
        """Do nothing."""

    def await_copies(self) -> None:
        """Do nothing: who waits is told."""

    def copies_ended(self, at_ns: int) -> None:
        """Do nothing."""

    def ask_owner(self, owner: int) -> int:
        """Return the instant: whether a thread is free is found out by asking."""
        return self.now_ns()

    def receive(self, owner: int, node: int) -> int:
        """Return the instant: the file is there."""
        return self.now_ns()

    def note_memory(self, descriptor: int) -> None:
        """Do nothing."""


def to_ns(time_s: float) -> int:
    """Return whole nanoseconds, a half to the even one, as the library rounds."""
    return round(time_s * 1e9)


class VirtualClock:
    """The clock of the emulated machine, as this process sees it.

    Parameters
    ----------
    processes : Ranks
        The MPI processes: the rank of this one, and which ones are gone.

    Raises
    ------
    TierError
        If the library is not there or has no state for this process.
    """

    is_virtual = True

    def __init__(self, processes: Ranks):
        self._processes = processes
        self._library = bind(ctypes.CDLL(None))
        self._reason: BaseException | None = None
        self._is_over = threading.Event()
        self._n_received: Counter[int] = Counter()  # turns of this epoch, by giver
        if self._library.tierscope_clock_join(processes.rank):
            raise TierError(
                f"emulated devices: got no state for process {processes.rank}, "
                "expected one: the library is not preloaded."
            )

    def stop_on_signals(self) -> None:
        """Let SIGTERM and SIGINT end all waits before Python's handlers are called."""
        for signum in (signal.SIGTERM, signal.SIGINT):
            self._library.tierscope_clock_stop_on(signum)

    def watch(self) -> None:
        """Look from a thread for processes that are gone, and for no progress."""
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
    ) -> None:
        """Say what this process reads in the epoch that the next barrier begins.

        Parameters
        ----------
        n_files, file_bytes : int
            Files, each of one sample, and their size.
        batch_size, prefetch_batches : int
            Samples of a batch, and batches that the loader holds ready.
        sample_s : float
            Processor time of a sample, in seconds.
        teller : Role, optional
            Who tells a policy of each read that has ended.
        """
        self._n_received.clear()
        numbers = n_files, file_bytes, batch_size, prefetch_batches, to_ns(sample_s)
        numbers = *numbers, 0 if teller is None else teller + 1
        if self._library.tierscope_clock_plan(*numbers):
            raise ValueError(f"virtual time: cannot plan an epoch of {numbers}.")

    def barrier(self) -> float:
        """Wait for all processes and return the instant, in seconds."""
        instant_ns = self._library.tierscope_clock_barrier(True)
        while instant_ns == _NOT_YET:
            # Lets MPI go on: others may still be on their way out of a collective call.
            self._processes.look_for_failure()
            instant_ns = self._library.tierscope_clock_barrier(False)
        return self._instant(instant_ns) * 1e-9

    def ask(self) -> None:
        """Note that the training asks for its next batch, or for the end."""
        self._library.tierscope_clock_ask()

    def take(self) -> None:
        """Note that it has what it asked for."""
        if self._library.tierscope_clock_take():
            self.check()

    def compute(self, time_s: float) -> None:
        """Let the training compute."""
        if time_s:
            self._library.tierscope_clock_pass(to_ns(time_s))

    def bind(self, binds: bool) -> None:
        """Let calls of this thread take the consumer's time, or no longer."""
        rank = self._processes.rank if binds else _NOBODY
        self._library.tierscope_clock_act(rank, Role.CONSUMER)

    @contextmanager
    def act(self, rank: int, role: int) -> Iterator[None]:
        """Let calls of this thread take the time of a process's role."""
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
        """Return the instant of who this thread acts for, else of the consumer."""
        return self._library.tierscope_clock_now()

    def events(self) -> int:
        """Return a number that grows if anything makes progress."""
        return self._library.tierscope_clock_events()

    def take_turn(self, role: int, turn: Turn) -> int:
        """Wait until nobody comes before a role of this process; return the instant."""
        return self._instant(self._library.tierscope_clock_turn(role, turn))

    def told(self) -> None:
        """Note that the policy knows of all reads so far."""
        self._library.tierscope_clock_told()

    def begin_copy(self, copier: int, at_ns: int) -> None:
        """Let a copier of this process go on, from an instant on."""
        if self._library.tierscope_clock_copy(copier, at_ns):
            raise ValueError(f"virtual time: got copier {copier}.")

    def rest(self, copier: int) -> None:
        """Let a copier have nothing to do."""
        self._library.tierscope_clock_copy(copier, _NOBODY)

    def await_copies(self) -> None:
        """Let the consumer wait until copies have ended."""
        self._library.tierscope_clock_await_copies()

    def copies_ended(self, at_ns: int) -> None:
        """Let it go on."""
        self._library.tierscope_clock_copies_ended(at_ns)

    def set_network(self, n_threads: int, way_s: float, transfer_s: float) -> None:
        """Describe the network between nodes (one process, between epochs).

        Parameters
        ----------
        n_threads : int
            Requests that a node serves at a time.
        way_s, transfer_s : float
            Time of a message on its way, and of a file on a link.
        """
        times_ns = to_ns(way_s), to_ns(transfer_s)
        self._library.tierscope_clock_network(n_threads, *times_ns)

    def ask_owner(self, owner: int) -> int:
        """Ask a node for a file, once it has a server thread; return when."""
        return self._instant(self._library.tierscope_clock_ask_owner(owner))

    def receive(self, owner: int, node: int) -> int:
        """Let the file come from an owner to a node; return when it is there."""
        return self._instant(self._library.tierscope_clock_receive(owner, node))

    def note_memory(self, descriptor: int) -> None:
        """Note that a descriptor is memory, whose reads take no time."""
        self._library.tierscope_clock_memory(descriptor)

    def refuse_if_stopped(self) -> None:
        """Raise a ClockStoppedError if the launch was stopped; in any thread."""
        if self._library.tierscope_clock_is_stopped():
            raise ClockStoppedError("virtual time was stopped")

    def stop(self, reason: BaseException) -> None:
        """End all waits of the launch for a reason, in whatever thread."""
        self._reason = self._reason or reason
        self._library.tierscope_clock_stop()

    def _instant(self, instant_ns: int) -> int:
        """Return an instant, or raise why the launch was stopped."""
        if instant_ns < 0:
            if threading.current_thread() is not threading.main_thread():
                raise ClockStoppedError("virtual time was stopped")
            self.check()
        return instant_ns

    def meet(self, group: int, n_members: int, meet: Callable[[], None]) -> None:
        """Wait for all members of a group, whose clocks are then the largest.

        Parameters
        ----------
        group : int
            Any number of the group's own; a process is in one meeting at a time.
        n_members : int
            Processes of the group.
        meet : callable
            Not called.
        """
        if self._library.tierscope_clock_meet(group, n_members):
            self.check()

    def give_token(self, send: Callable[[], None]) -> None:
        """Let those go on that wait for this process's next token, now or later.

        Raises
        ------
        ValueError
            If this process has given as many in this epoch as are remembered.
        """
        if self._library.tierscope_clock_give():
            raise ValueError("virtual time: got more tokens than are remembered.")

    def skip_token(self, giver: int) -> None:
        """Note that this process does not wait for a rank's next token."""
        self._n_received[giver] += 1

    def await_token(self, giver: int, receive: Callable[[], None]) -> None:
        """Wait for a rank's next token, and go on when it was given at the earliest."""
        turn = self._n_received[giver]
        self._n_received[giver] += 1
        if self._library.tierscope_clock_await_token(giver, turn):
            self.check()

    def check(self) -> None:
        """Raise the reason if the launch was stopped; a signal's handler comes first.

        Raises
        ------
        RankGoneError
            If this process has found that another one is gone.
        OtherRankFailed
            If another one has, as far as it has said what.
        """
        if self._library.tierscope_clock_is_stopped():
            time.sleep(_SIGNALS_S)
            if self._reason:
                raise self._reason
            end_s = time.monotonic() + _REPORT_S
            while time.monotonic() < end_s:
                self._processes.look_for_failure()
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
        """End the watch, and all waits of the launch if there still are any."""
        self._is_over.set()
        self._library.tierscope_clock_stop()

    def describe_actors(self) -> str:
        """Return a line for each actor: state, clock, and whom it waits for."""
        text = ctypes.create_string_buffer(_DESCRIPTION_BYTES)
        self._library.tierscope_clock_describe(text, _DESCRIPTION_BYTES)
        return text.value.decode()

    def _watch(self) -> None:
        """Stop the launch if a process is gone or nothing happens any more."""
        # The first process that still can says so: another one may be what hangs.
        patience_s = NO_PROGRESS_S + _WATCH_S * self._processes.rank
        n_events, changed_s = -1, time.monotonic()
        while not self._is_over.wait(_WATCH_S):
            if self._library.tierscope_clock_is_stopped():
                return
            if gone := self._processes.dead_ranks():
                self.stop(self._processes.gone_error(gone))
                return
            now_s, seen = time.monotonic(), self._library.tierscope_clock_events()
            actors = self.describe_actors() if seen == n_events else ""
            if seen != n_events or not is_in_epoch(actors):
                n_events, changed_s = seen, now_s
            elif now_s - changed_s > patience_s:
                self._library.tierscope_clock_stop()
                print(
                    f"{actors}tierscope: no progress in virtual time for "
                    f"{now_s - changed_s:.0f} s of real time: see above who waits",
                    file=sys.stderr,
                    flush=True,
                )
                self._processes.told_of_failure()
                return


def is_in_epoch(actors: str) -> bool:
    """Return whether anybody waits for another one."""
    return any(word in actors for word in ("waiting", "blocked"))


def bind(library: ctypes.CDLL) -> ctypes.CDLL:
    """Return the library of the devices with the types of its functions."""
    whole, text = ctypes.c_int64, ctypes.c_char_p
    for name, result, arguments in (
        ("create", ctypes.c_int, (text, text, ctypes.c_int)),
        ("join", ctypes.c_int, (ctypes.c_int,)),
        ("act", ctypes.c_int, (ctypes.c_int,) * 2),
        ("reset", None, ()),
        ("plan", ctypes.c_int, (whole,) * 6),
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

    Parameters
    ----------
    library : Path
        ``libtierscope_device.so``.
    config : Path
        What `tierscope.storage.emulated.device.write_device_config` has written.
    state : Path
        The file; there must be none.
    n_processes : int
        Processes of the launch.

    Raises
    ------
    OSError
        If the file is there or cannot be made.
    """
    create: Any = bind(ctypes.CDLL(str(library))).tierscope_clock_create
    error = create(bytes(config), bytes(state), n_processes)
    if error:
        raise OSError(error, "cannot create the state of the devices", str(state))
