import os

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


def test_failure_in_a_thread_calls_no_mpi_that_knows_one_thread_only(
    exit_codes, capsys
):
    released = []
    fail_from_thread(OneOfTwo(False), lambda: released.append(1), PeerError("hangs"))
    line = "tierscope: rank 1 of 2 on here failed: PeerError: hangs\n"
    assert capsys.readouterr().err == line
    assert released == []
    assert exit_codes == [1]


def test_failure_in_a_thread_is_told_though_another_follows(exit_codes, capsys):
    fail_from_thread(OneOfTwo(True), lambda: None, PeerError("hangs"))
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "tierscope: rank 1 of 2 on here failed: PeerError: hangs"
    assert last == "ZeroDivisionError: MPI was called"
    assert exit_codes == [1]
