"""How a rank of a launch starts, reports progress and failures, and ends."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tierscope.benchmark.keeper import Keeper
from tierscope.benchmark.placement import PlacementError
from tierscope.benchmark.processes import BenchmarkError, Processes, RankGoneError
from tierscope.benchmark.shared_memory import remove_mpi_segments
from tierscope.core.machine import TierError
from tierscope.core.output.streams import ending_on, say, say_error
from tierscope.core.processes.calls import watch_calls
from tierscope.core.processes.children import ENDING, listen
from tierscope.core.validation import ConfigError
from tierscope.core.words import error_words
from tierscope.data.tfrecord import DatasetError
from tierscope.storage.clock import OtherRankFailed

# To ranks, MPICH tells by SIGUSR1 that another one has ended.
_ENDING_BESIDE_MPI = ENDING - {signal.SIGUSR1}
_must_end = False  # a signal said so
_DYING_S = 0.05  # from closing its connections until a process is gone
_SAID_S = 1.0  # in which a launcher passes on what this process has said


class Terminated(BaseException):
    """A signal told the job to end."""


_EXPLAINED = (
    BenchmarkError,
    ConfigError,
    DatasetError,
    PlacementError,
    TierError,
    Terminated,
)


def join_launch(system: dict[str, Any], launch: str, advice: str = "") -> Processes:
    """Start MPI and return the processes of a launch of this name.

    `advice` is what to do if they are others than the system has.
    """
    with ending_on(OSError):
        keeper = Keeper(launch)  # before MPI, which may not allow new processes
    from mpi4py import MPI

    keeper.note_mpi()
    try:
        return Processes(MPI.COMM_WORLD, system, launch, keeper)
    except BenchmarkError as error:  # all ranks get the same error
        if MPI.COMM_WORLD.rank == 0:
            say(f"tierscope: {error}{advice}")
        MPI.COMM_WORLD.Barrier()  # the first that ends may end the others
        sys.exit(1)


@contextmanager
def ending_launch() -> Iterator[None]:
    """Let the launch end if this rank fails before it waits with the others.

    They may be in MPI_Init, in which they notice nothing; so this rank goes there, too.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, SystemExit):
            say_error(error)
        elif not error.code:
            raise
        try:
            from mpi4py import MPI
        except (ImportError, OSError):
            os.kill(os.getpid(), signal.SIGKILL)  # launchers end the others then
        if MPI.Is_finalized():
            raise
        time.sleep(_SAID_S)
        MPI.COMM_WORLD.Abort(1)
        os._exit(1)


def leave_launch(processes: Processes) -> None:
    """End MPI, and with it the launch."""
    from mpi4py import MPI

    MPI.Finalize()
    processes.end()


def terminate_by_exception(signals: Iterable[signal.Signals] = ENDING) -> None:
    """Turn signals that end a job into an exception, so that the LFS is emptied."""
    listen(_terminate, signals)


def _terminate(signum: int, frame: object) -> None:
    """Raise for the first signal only: more may come while it is handled."""
    global _must_end
    if not _must_end:
        _must_end = True
        raise Terminated(signal.Signals(signum).name)


def ignore_signals() -> None:
    """Keep signals from disturbing the clean-up.

    They are blocked, not ignored: Python prints a traceback for a signal that arrives
    immediately before its handler is removed.
    """
    global _must_end
    if threading.current_thread() is threading.main_thread():
        _must_end = True
        taken = [one for one in ENDING if signal.getsignal(one) is _terminate]
        signal.pthread_sigmask(signal.SIG_BLOCK, taken)


def run_or_fail(
    processes: Processes,
    work: Callable[[], None],
    stop: Callable[[], None],
    release: Callable[[], None],
) -> None:
    """Do the work of a rank; if it fails for any reason, end the whole job.

    A signal that ends the job can arrive at any time, also during another error. So
    can the end of our patience with a file system.
    """
    terminate_by_exception(_ENDING_BESIDE_MPI)
    watch_calls(lambda why: fail_from_thread(processes, release, BenchmarkError(why)))
    try:
        try:
            work()
        except BaseException:
            ignore_signals()
            raise
    except BaseException as error:  # that error, or a signal that arrived with it
        ignore_signals()
        stop()
        fail(processes, release, error)
    stop()


def say_once(processes: Processes, line: str) -> None:
    """Print a line of progress, once for all ranks."""
    if processes.rank == 0:
        say(line)


def fail(
    processes: Processes, release: Callable[[], None], error: BaseException
) -> None:
    """Report an error, let all ranks clean up, end the whole job with exit code 1."""
    ignore_signals()  # a signal may follow another rank's failure
    error = _cause(processes, _signal_behind(error) or error)
    if isinstance(error, OtherRankFailed):
        if error.line and processes.prints_failures:
            say(error.line)
            processes.note_failure_printed()
    else:
        line = _line(processes, error)
        is_shared = isinstance(error, (RankGoneError, Terminated))
        if isinstance(error, RankGoneError) and processes.failure_was_printed:
            line = None  # the rank said why before it went
        elif not is_shared or processes.prints_failures:
            _report(error, line)
            processes.note_failure_printed()
            line = None
        gone = error.args[1] if isinstance(error, RankGoneError) else ()
        processes.announce_failure(line, gone)
    release()
    processes.announce_release()
    processes.await_release()
    remove_mpi_segments()
    processes.comm.Abort(1)
    os._exit(1)  # MPICH returns if the launcher takes a while to end this process


def fail_from_thread(
    processes: Processes, release: Callable[[], None], error: BaseException
) -> None:
    """Fail in a thread while the main thread may be calling MPI.

    If MPI does not allow concurrent calls, this thread does not call it: the process
    ends without cleaning up. The other ranks notice its death, and the machine's keeper
    ends the remaining ranks and cleans up.
    """
    try:
        if processes.threads_may_call:
            fail(processes, release, error)
        else:
            processes.begin_failing()
            _report(error, _line(processes, error))
            processes.note_failure_printed()
    except BaseException as another:
        say_error(another)
    finally:
        os._exit(1)


def _signal_behind(error: BaseException) -> Terminated | None:
    """Return the signal during whose handling an error was raised, if any."""
    cause = error.__context__
    while cause and not isinstance(cause, Terminated):
        cause = cause.__context__
    return cause


def _cause(processes: Processes, error: BaseException) -> BaseException:
    """Return the error, or that of dead ranks if they may have caused it."""
    processes.begin_failing()
    if isinstance(error, (OtherRankFailed, RankGoneError)):
        return error
    time.sleep(_DYING_S)
    if not (gone := processes.dead_ranks()):
        return error
    cause = processes.gone_error(gone)
    for note in getattr(error, "__notes__", []):
        cause.add_note(note)
    return cause


def _line(processes: Processes, error: BaseException) -> str:
    """Return a line about what failed on this rank, and where."""
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", []))
    if isinstance(error, RankGoneError):
        return f"tierscope: {error}{notes and f' Found{notes}.'}"
    return (
        f"tierscope: rank {processes.rank} of {processes.size} on "
        f"{processes.host} failed{notes}: {type(error).__name__}: "
        f"{error_words(error)}"
    )


def _report(error: BaseException, line: str) -> None:
    """Print a failure."""
    if not isinstance(error, _EXPLAINED):
        say_error(error)
    say(line)
