"""A server of a node: threads that wait for sockets, and what ends them."""

import socket
import threading
import time
from collections.abc import Iterable

from tierscope.storage.clock import Clock

STOP_S = 5.0


class NodeServer:
    """Threads that serve the connections of a listening socket until `stop`.

    An error that ends a thread ends the launch: the clock stops with it, so that all
    who wait for the node hear of it.

    Parameters
    ----------
    name : str
        Names the server in errors, such as ``the placement server of node 3``.
    failure : type of Exception
        What is raised once the server has ended.
    listener : socket
        A bound socket that listens.
    clock : Clock
        Clock of the launch.
    """

    def __init__(
        self, name: str, failure: type[Exception], listener: socket.socket, clock: Clock
    ):
        self._name, self._failure = name, failure
        self._listener, self._clock = listener, clock
        self.error: BaseException | None = None
        self._stopping = False
        self._woken, self._wake_up = socket.socketpair()
        self._wake_up.setblocking(False)  # if full, the threads wake up anyway
        self._threads: list[threading.Thread] = []

    def check(self) -> None:
        """Raise the error that ended the server, if it has ended."""
        if self.error is not None:
            raise self._ended_error() from self.error

    def _ended_error(self) -> Exception:
        """Return the error to raise once the server has ended."""
        return self._failure(
            f"{self._name} has ended: {type(self.error).__name__}: {self.error}"
        )

    def _fail(self, error: BaseException) -> None:
        """Record the error that ended the server, and release all waiting threads."""
        self.error = error
        self._clock.stop(self._ended_error())

    def _start(self, names: Iterable[str]) -> None:
        """Start a thread for each name."""
        self._threads = [
            threading.Thread(target=self._run, name=name, daemon=True) for name in names
        ]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        """Serve in a thread until the end or an error."""
        try:
            while not self._stopping:
                self._serve()
        except BaseException as error:  # all others must know of any error
            self._fail(error)
        finally:
            self._close_all()

    def _serve(self) -> None:
        """Wait for sockets and serve those that are ready."""
        raise NotImplementedError

    def _close_all(self) -> None:
        """Close what a thread leaves when it ends."""

    def _wake(self) -> None:
        """Wake the threads up."""
        self._wake_up.send(b"\0")

    def _join(self) -> None:
        """Wait for the threads to end, not for ever."""
        end = time.monotonic() + STOP_S
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
