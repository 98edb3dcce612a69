import os
import signal
from threading import Thread

import pytest
from tierscope.benchmark.peers import PeerError
from tierscope.benchmark.processes import RankGoneError
from tierscope.benchmark.rank import (
    Terminated,
    fail_from_thread,
    run_or_fail,
    terminate_by_exception,
)
from tierscope.core.processes.children import ENDING
from tierscope.storage.clock import OtherRankFailed


class OneOfTwo:
    """A process whose MPI cannot be called."""

    rank, size, host = 1, 2, "here"

    def __init__(self, threads_may_call, prints=False, gone=(), was_printed=False):
        self.threads_may_call, self.gone = threads_may_call, gone
        self.prints_failures, self.failure_was_printed = prints, was_printed
        self.announced = []

    def begin_failing(self):
        self.announced.append("to the keeper")

    def note_failure_printed(self):
        self.announced.append("told")

    def dead_ranks(self):
        return list(self.gone)

    def gone_error(self, gone):
        return RankGoneError("rank 0 is gone", gone)

    def announce_failure(self, *arguments):
        self.announced.append(arguments)
        raise ZeroDivisionError("MPI was called")


@pytest.fixture
def exit_codes(monkeypatch):
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


@pytest.fixture
def taken(monkeypatch):
    """Return the set of signals for which a handler is set, and set none."""
    found = set()
    monkeypatch.setattr(signal, "getsignal", lambda one: signal.SIG_DFL)
    monkeypatch.setattr(signal, "signal", lambda one, handler: found.add(one))
    return found


def fail_in_a_thread(processes, release, error=None):
    """Fail as a watch does, whose thread leaves signals to the main thread."""
    error = error or PeerError("hangs")
    thread = Thread(target=fail_from_thread, args=(processes, release, error))
    thread.start()
    thread.join()


def test_failure_in_a_thread_calls_no_mpi_that_knows_one_thread_only(
    exit_codes, capsys
):
    released = []
    processes = OneOfTwo(False)
    fail_in_a_thread(processes, lambda: released.append(1))
    assert processes.announced == ["to the keeper", "told"]
    line = "tierscope: rank 1 of 2 on here failed: PeerError: hangs\n"
    assert capsys.readouterr().err == line
    assert released == []
    assert exit_codes == [1]


def test_failure_in_a_thread_is_told_though_another_follows(exit_codes, capsys):
    fail_in_a_thread(OneOfTwo(True), lambda: None)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "tierscope: rank 1 of 2 on here failed: PeerError: hangs"
    assert last == "ZeroDivisionError: MPI was called"
    assert exit_codes == [1]


@pytest.mark.parametrize("prints", [True, False])
def test_signal_to_one_rank_is_told_once_and_by_whom_all_know(
    exit_codes, capsys, prints
):
    processes = OneOfTwo(True, prints)
    fail_in_a_thread(processes, lambda: None, Terminated("SIGTERM"))
    line = "tierscope: rank 1 of 2 on here failed: Terminated: SIGTERM"
    assert (line in capsys.readouterr().err) == prints
    assert processes.announced[-1] == (None if prints else line, ())


@pytest.mark.parametrize("prints", [True, False])
def test_line_of_another_rank_is_printed_by_the_one_that_speaks(
    exit_codes, capsys, prints
):
    processes = OneOfTwo(True, prints)
    fail_in_a_thread(processes, lambda: None, OtherRankFailed(0, "what it was"))
    assert ("what it was\n" in capsys.readouterr().err) == prints


def test_rank_that_is_gone_is_the_cause_of_what_follows(exit_codes, capsys):
    processes = OneOfTwo(True, prints=True, gone=[0])
    error = PeerError("its server has ended")
    error.add_note("in epoch 2")
    fail_in_a_thread(processes, lambda: None, error)
    first = capsys.readouterr().err.splitlines()[0]
    assert first == "tierscope: rank 0 is gone Found in epoch 2."
    assert processes.announced[-1] == (None, [0])


@pytest.mark.parametrize("prints", [True, False])
def test_rank_that_said_why_it_went_is_not_reported_again(exit_codes, capsys, prints):
    processes = OneOfTwo(True, prints, gone=[0], was_printed=True)
    fail_in_a_thread(processes, lambda: None, RankGoneError("rank 0 is gone", [0]))
    assert "rank 0 is gone" not in capsys.readouterr().err
    assert processes.announced == ["to the keeper", (None, [0])]


def test_error_raised_while_a_signal_ends_the_work_is_not_the_cause(exit_codes, capsys):
    error = BufferError("cannot close exported pointers exist")
    error.__context__ = OSError("in between")
    error.__context__.__context__ = Terminated("SIGINT")
    fail_in_a_thread(OneOfTwo(True, prints=True), lambda: None, error)
    printed = capsys.readouterr().err
    assert "tierscope: rank 1 of 2 on here failed: Terminated: SIGINT\n" in printed
    assert "BufferError" not in printed


def test_process_without_mpi_ends_in_order_by_each_signal_of_a_scheduler(taken):
    terminate_by_exception()
    assert {signal.SIGUSR1, signal.SIGUSR2, *ENDING} == taken


def test_rank_leaves_to_mpi_the_signal_that_tells_of_another_rank(taken):
    run_or_fail(OneOfTwo(True), lambda: None, lambda: None, lambda: None)
    assert ENDING - taken == {signal.SIGUSR1}
