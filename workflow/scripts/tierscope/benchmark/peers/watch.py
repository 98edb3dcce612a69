"""A time-out for calls to a mounted file system, which the kernel does not end."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tierscope.benchmark.peers import PeerError
from tierscope.benchmark.placement.messages import TIMEOUT_S


class MountWatch:
    """A thread that ends the launch if an operation on a path of a mount hangs.

    It cannot free the calling thread and does not notify it. An operation costs the
    caller only a note of when it began. `end` gets the reason, once, in the watch's
    thread.
    """

    def __init__(
        self,
        mount: Path,
        end: Callable[[PeerError], None],
        timeout_s: float = TIMEOUT_S,
    ):
        self._mount, self._end, self._timeout_s = mount, end, timeout_s
        self._calls: dict[int, tuple[float, Path]] = {}  # by thread: start, path
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look, name="mount", daemon=True)
        self._thread.start()

    @contextmanager
    def __call__(self, path: Path) -> Iterator[None]:
        """Watch an operation of this thread on a path of the mount."""
        thread = threading.get_ident()
        around = self._calls.get(thread)
        self._calls[thread] = time.monotonic(), path
        try:
            yield
        finally:
            if around:
                self._calls[thread] = time.monotonic(), around[1]
            else:
                del self._calls[thread]

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _look(self) -> None:
        """Look for operations that take too long, until the end."""
        while not self._closed.wait(min(1.0, self._timeout_s / 4)):
            too_late = time.monotonic() - self._timeout_s
            for begun, path in list(self._calls.values()):
                if begun < too_late:
                    error = PeerError(
                        f"{path}: no answer within {self._timeout_s:g} s of what is "
                        f"mounted at {self._mount}."
                    )
                    self._end(error)
                    return
