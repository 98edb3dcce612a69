import os
from threading import Thread

import pytest
from tierscope.launch import fail_from_thread
from tierscope.peers import PeerError


class OneOfTwo:
    """A process whose MPI cannot be called."""

    rank, size, host = 1, 2, "here"

    def __init__(self, threads_may_call):
        self.threads_may_call = threads_may_call

    def announce_failure(self):
        raise ZeroDivisionError("MPI was called")


@pytest.fixture
def exit_codes(monkeypatch):
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


def fail_in_a_thread(processes, release):
    """Fail as a watch does, whose thread leaves signals to the main thread."""
    error = PeerError("hangs")
    thread = Thread(target=fail_from_thread, args=(processes, release, error))
    thread.start()
    thread.join()


def test_failure_in_a_thread_calls_no_mpi_that_knows_one_thread_only(
    exit_codes, capsys
):
    released = []
    fail_in_a_thread(OneOfTwo(False), lambda: released.append(1))
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
