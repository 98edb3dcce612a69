"""The keeper of a launch: on each machine one process that outlives the ranks.

A launcher kills all ranks as soon as one dies (Hydra within milliseconds, even if they
are cleaning up). A rank in a blocking call of MPI or the kernel does not notice that
another rank has failed. So the keeper waits for the ranks. Each rank has a connection
to it, which the kernel closes however the rank ends. After a failure the keeper kills
ranks that continue, reports which rank died if no rank can, and removes LFS contents
and shared memory. Until then it sleeps; only while MPI starts, it looks ten times a
second which shared memory the ranks have.

The keeper is not a child of MPI: it starts before MPI and has its own session. The
launcher waits for it because the keeper holds the launcher's pipe.
"""

import errno
import fcntl
import json
import os
import platform
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope.benchmark.shared_memory import (
    MEMORY,
    files_in_memory,
    full_memory_words,
    hold_note,
    mpi_segments,
    note_segments,
    remove_what_killed_launches_left,
)
from tierscope.core.output.streams import say
from tierscope.core.processes.calls import SAY_S, watch_calls
from tierscope.core.processes.times import gone_text, start_time
from tierscope.storage.local_folder import LocalStorage

PATIENCE_S = 6.0  # time for ranks to notice a failure
CLEANING_S = 300.0  # more time for ranks that clean up
LAUNCH_LOCK = "results/.launch"  # held until the launch and its keeper end
FAILED, ENDED = "failed", "ended"
_CREDENTIALS = struct.Struct("3i")  # process, user, group of a socket's other side
_POLL_S, _LOOK_S = 0.01, 0.1
_START_S = 60.0  # for the keeper to start, and for its first process to connect
_INPUT = 0
_HIGH, _BELOW_LIMIT = 1 << 16, 16  # a descriptor above all others


# ---- the side of a rank --------------------------------------------------------------


class Keeper:
    """A rank's two connections to its machine's keeper, which the first rank starts.

    The first connection replaces the unused standard input and carries the messages.
    The second has a high descriptor and only shows that the rank ends: older kernels
    close the lowest descriptor first and newer ones the highest. The launcher watches
    one in between.
    """

    def __init__(self, launch: str):
        self._launch = f"{os.getuid()}-{launch}"
        self._printed = MEMORY / f"tierscope-{self._launch}.printed"
        self._socket = self._connect()
        self._last = self._connect_again()

    def note_mpi(self) -> None:
        """Report that MPI has started, and its shared memory."""
        self._tell(segments=sorted(mpi_segments(os.getpid())))

    def introduce(self, rank: int, size: int, storage: LocalStorage) -> None:
        """Send this process's identity and the place of its node's LFS."""
        self._tell(
            gone=gone_text([rank], size, platform.node()),
            segments=sorted(mpi_segments(os.getpid())),
            lfs=[
                str(storage.data_root),
                storage.node,
                storage.n_epochs,
                storage.launch,
            ],
        )

    def note_failed(self) -> None:
        """Report that this process knows of a failure and cleans up."""
        self._tell(state=FAILED)

    def note_printed(self) -> None:
        """Report that this process has printed the cause of the failure."""
        with suppress(OSError):
            os.close(os.open(self._printed, os.O_CREAT | os.O_EXCL, 0o600))
        self._tell(printed=True)

    def was_printed(self) -> bool:
        """Return whether a process of this machine has printed the cause."""
        with suppress(FileNotFoundError):
            return os.lstat(self._printed).st_uid == os.getuid()
        return False

    def ended(self) -> None:
        """Report that this process has finished its work."""
        self._tell(state=ENDED)

    def _tell(self, **message: Any) -> None:
        with suppress(OSError):  # the keeper has ended
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _connect(self) -> socket.socket:
        address = f"\0tierscope-{self._launch}"
        end_s = time.monotonic() + _START_S
        while time.monotonic() < end_s:
            with socket.socket(socket.AF_UNIX) as listener:
                if self._is_first(listener, address):
                    listener.listen(4096)
                    self._start(listener.fileno())
            with (
                suppress(ConnectionRefusedError),
                socket.socket(socket.AF_UNIX) as connection,
            ):
                connection.connect(address)
                if process_and_user_of(connection)[1] != os.getuid():
                    raise OSError(
                        errno.EPERM, "another user's process has the keeper's address"
                    )
                os.dup2(connection.fileno(), _INPUT, inheritable=False)
                return socket.socket(fileno=_INPUT)
            time.sleep(_POLL_S)  # bound, but not listening yet
        raise OSError(
            errno.ETIMEDOUT, f"the keeper of this launch did not start in {_START_S} s"
        )

    def _connect_again(self) -> int:
        """Return the descriptor of a second connection, when the keeper has both."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = min(limit, _HIGH) - _BELOW_LIMIT
        with socket.socket(socket.AF_UNIX) as connection:
            # Without it, a keeper late to several deaths cannot tell the first.
            connection.connect(f"\0tierscope-{self._launch}")
            connection.recv(1)
            return fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, lowest)

    @staticmethod
    def _is_first(listener: socket.socket, address: str) -> bool:
        """Bind an address, which the kernel gives to one process only."""
        try:
            listener.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        return True

    def _start(self, listener: int) -> None:
        """Start the keeper without this process's preloaded libraries."""
        modules = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONSAFEPATH": "1"}
        environment = os.environ | modules
        environment.pop("LD_PRELOAD", None)
        subprocess.Popen(
            [sys.executable, "-S", "-m", __name__, self._launch, str(listener)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[listener, *inherited(Path(LAUNCH_LOCK))],
        )


def inherited(path: Path) -> list[int]:
    """Return this process's descriptors that refer to a file."""
    with suppress(OSError):
        wanted, found = path.stat(), []
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            with suppress(OSError):
                if os.path.samestat(os.fstat(descriptor), wanted):
                    found.append(descriptor)
        return found
    return []


# ---- the keeper ----------------------------------------------------------------------


def process_and_user_of(connection: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end of a connection."""
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    return pid, user


@dataclass
class _Rank:
    """What the keeper knows about a rank."""

    connection: socket.socket
    pid: int
    started: int | None
    has_mpi: bool = False
    gone: str = ""  # the message if it is gone
    state: str = ""
    unread: bytes = b""


class Watch:
    """What the keeper does from the first process to the last.

    `launch` is the user id and the name. All ranks must notice a failure in
    `patience_s`.
    """

    def __init__(
        self, launch: str, listener: socket.socket, patience_s: float = PATIENCE_S
    ):
        self._launch, self._listener, self._patience_s = launch, listener, patience_s
        self._ranks: dict[int, _Rank] = {}  # live ones, by descriptor
        self._seconds: dict[int, tuple[socket.socket, _Rank]] = {}  # connections
        self._storages: set[LocalStorage] = set()
        self._segments: set[str] = set()
        self._note_of_segments = hold_note(launch)
        self._gone = ""  # the message about the first one that died silently
        self._was_printed = False  # whether a rank has printed that something failed
        self._limits_s = [patience_s, CLEANING_S, patience_s]
        self._deadline_s: float | None = None
        self._epoll = select.epoll()
        self._epoll.register(listener, select.EPOLLIN)

    def run(self) -> None:
        """Wait for all processes, then clean up if one has failed."""
        started_s, is_known = time.monotonic(), False
        while self._ranks or (not self._storages and self._deadline_s is None):
            is_known = is_known or bool(self._ranks)
            if not is_known and time.monotonic() - started_s > _START_S:
                break  # the process that started this is gone
            left_s = None if is_known else _START_S
            if self._deadline_s is not None:
                left_s = max(0.0, self._deadline_s - time.monotonic())
            if self._looks_at_ranks_without_mpi():
                left_s = _LOOK_S if left_s is None else min(left_s, _LOOK_S)
            # One at a time: the kernel returns events in their order.
            for descriptor, _ in self._epoll.poll(left_s, maxevents=1):
                if descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor in self._seconds:
                    self._lose_second(descriptor)
                else:
                    self._read(self._ranks[descriptor])
            if self._deadline_s is not None and time.monotonic() > self._deadline_s:
                self._end_those_that_go_on()
                if not self._limits_s:
                    break
                self._deadline_s = time.monotonic() + self._limits_s.pop(0)
        if self._deadline_s is not None:
            self._say_who_is_gone()
            self._clean_up()
        for path in files_in_memory(self._launch):
            with suppress(OSError):
                path.unlink()

    def _looks_at_ranks_without_mpi(self) -> bool:
        """Note the shared memory of ranks that start MPI; return whether there are any.

        They cannot tell, as they may die there.
        """
        starting = [rank for rank in self._ranks.values() if not rank.has_mpi]
        for rank in starting:
            self._note_memory(mpi_segments(rank.pid))
        return bool(starting)

    def _note_memory(self, names: Iterable[str]) -> None:
        """Note files of shared memory that are new, to remove them at the end."""
        note_segments(self._note_of_segments, {*names} - self._segments)
        self._segments.update(names)

    def _accept(self) -> None:
        """Accept a new process, unless it belongs to another user."""
        connection, _ = self._listener.accept()
        pid, user = process_and_user_of(connection)
        if user != os.getuid():
            connection.close()
            return
        self._epoll.register(connection, select.EPOLLIN)
        for rank in self._ranks.values():
            if rank.pid == pid:
                self._seconds[connection.fileno()] = connection, rank
                with suppress(OSError):  # the rank is gone already
                    connection.sendall(b"\n")
                return
        rank = _Rank(connection, pid, start_time(pid))
        self._ranks[connection.fileno()] = rank

    def _read(self, rank: _Rank) -> None:
        """Read a rank's messages, or notice that it is gone."""
        try:
            content = rank.connection.recv(65536)
        except ConnectionError:
            content = b""
        if not content:
            self._lose(rank)
            return
        *lines, rank.unread = (rank.unread + content).split(b"\n")
        for line in lines:
            self._note(rank, json.loads(line))

    def _note(self, rank: _Rank, message: Mapping[str, Any]) -> None:
        """Record a rank's message."""
        rank.state = message.get("state", rank.state)
        if rank.state == FAILED:
            self._expect_the_end()
        self._was_printed = self._was_printed or "printed" in message
        if "segments" in message:
            rank.has_mpi = True
            self._note_memory(message["segments"])
        if "gone" in message:
            rank.gone = message["gone"]
            root, node, n_epochs, launch = message["lfs"]
            self._storages.add(LocalStorage(Path(root), node, n_epochs, launch))

    def _lose(self, rank: _Rank) -> None:
        """Record that a rank is gone."""
        self._epoll.unregister(rank.connection)
        del self._ranks[rank.connection.fileno()]
        rank.connection.close()
        self._note_end(rank)

    def _lose_second(self, descriptor: int) -> None:
        """Record that a rank is ending."""
        connection, rank = self._seconds.pop(descriptor)
        self._epoll.unregister(connection)
        connection.close()
        self._note_end(rank)

    def _note_end(self, rank: _Rank) -> None:
        """Record which process is the first to die silently."""
        if not rank.state:
            self._gone = self._gone or rank.gone
            self._expect_the_end()

    def _expect_the_end(self) -> None:
        """Start the time limit in which all ranks must end."""
        if self._deadline_s is None:
            self._deadline_s = time.monotonic() + self._limits_s.pop(0)

    def _end_those_that_go_on(self) -> None:
        """Kill the ranks that have not noticed the failure; finally all of them."""
        if not any(rank.state == FAILED for rank in self._ranks.values()):
            self._say_who_is_gone()  # or the ranks that know of it say so
        is_last = len(self._limits_s) < 2
        for rank in self._ranks.values():
            is_there = rank.started and start_time(rank.pid) == rank.started
            if is_there and (is_last or rank.state != FAILED):
                with suppress(ProcessLookupError):
                    os.kill(rank.pid, signal.SIGKILL)

    def _say_who_is_gone(self) -> None:
        """Print which rank died first, unless a rank has reported the failure."""
        words = " ".join(filter(None, [self._gone, full_memory_words()]))
        if words and not self._was_printed:
            self._was_printed = True
            say(f"tierscope: {words}")

    def _clean_up(self) -> None:
        """Remove what the ranks have left on this machine."""
        for storage in sorted(self._storages, key=lambda one: one.node):
            storage.release()
        for name in self._segments:
            with suppress(OSError):
                os.unlink(name)


def main() -> None:
    """Watch the processes that connect to the socket named on the command line."""
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    watch_calls().give_up_after(SAY_S)  # of those that gave up before
    launch, listener = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    remove_what_killed_launches_left()
    Watch(launch, listener).run()


if __name__ == "__main__":
    main()
