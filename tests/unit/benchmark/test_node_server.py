"""What the servers of nodes have in common: threads, an end, and errors."""

import socket
import threading

import pytest
from tierscope.benchmark.node_server import NodeServer


class StoppedClock:
    """Keeps the error with which it was stopped."""

    error = None

    def stop(self, error):
        self.error = error


class OneByteServer(NodeServer):
    """Ends with an error if it receives anything else than a dot."""

    def __init__(self, clock, n_threads=1):
        listener = socket.create_server(("127.0.0.1", 0))
        super().__init__("the test's server", KeyError, listener, clock)
        self.closed = threading.Semaphore(0)
        self._start(f"test-{number}" for number in range(n_threads))

    def stop(self):
        self._stopping = True
        self._wake()
        self._join()

    def _serve(self):
        if self._woken.recv(1, socket.MSG_PEEK) and not self._stopping:
            raise ValueError("broken")

    def _close_all(self):
        self.closed.release()


def test_an_error_of_a_thread_stops_the_clock_and_is_raised_by_the_check():
    clock = StoppedClock()
    server = OneByteServer(clock)
    server.check()
    server._wake()
    assert server.closed.acquire(timeout=60)
    message = "the test's server has ended: ValueError: broken"
    with pytest.raises(KeyError, match=message) as caught:
        server.check()
    assert caught.value.__cause__ is server.error
    assert message in str(clock.error)


def test_all_threads_end_and_close_without_an_error():
    clock = StoppedClock()
    server = OneByteServer(clock, n_threads=3)
    server.stop()
    assert all(server.closed.acquire(timeout=60) for _ in range(3))
    server.check()
    assert clock.error is None
