"""Leases: a file that names the process that has exclusive use of something.

Kernel locks do not work across machines on every file system (not on Lustre without
``-o flock``, or on NFS without a lock daemon). A file that only one process can create
does. It names its holder. Only on the same machine can we see if the holder still runs.
"""

import atexit
import json
import os
import platform
import secrets
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tierscope.core.files import os_errors_as
from tierscope.core.processes.times import start_time, start_words
from tierscope.core.validation import dataclass_of_json
from tierscope.core.words import printable

SUFFIX = ".lease"
NAME = f".tierscope{SUFFIX}"  # in a folder that is held as a whole
_WRITING_S, _POLL_S = 2.0, 0.05  # a new file is empty for a moment
_MAX_BYTES, _MOST_PIDS = 4096, 1 << 31


class LeaseError(RuntimeError):
    """Another process holds the lease, or may hold it."""


@dataclass(frozen=True)
class Holder:
    """A process that holds a lease; `what` names it in messages to others.

    Machine, its start, and the name space of process numbers say where it is; `started`
    is in clock ticks after boot. The token tells this lease from every other one. The
    id of the machine tells that it has started again since, as after a power cut.
    """

    what: str
    token: str
    host: str
    boot: str
    namespace: int
    pid: int
    started: int
    machine: str = ""  # unknown, as of earlier versions

    def __post_init__(self) -> None:
        if "/" in self.token or not 0 <= self.pid < _MOST_PIDS:
            raise ValueError("the token names another file, or the process is none")

    @classmethod
    def this_process(cls, what: str, token: str) -> "Holder":
        """Return this process as a holder."""
        pid = os.getpid()
        return cls(what, token, *_here(), pid, start_time(pid) or 0, _machine())

    @property
    def is_here(self) -> bool:
        """Return whether this process can see whether the holder runs."""
        return (self.host, self.boot, self.namespace) == _here()

    @property
    def is_dead(self) -> bool:
        """Return whether the holder has certainly ended."""
        if not self.is_here:
            host, boot, _ = _here()
            is_same = self.machine and (self.host, self.machine) == (host, _machine())
            return bool(is_same and self.boot and boot) and self.boot != boot
        started = start_time(self.pid)
        return not _is_hidden(self.pid) if started is None else started != self.started


class Lease:
    """A lease on the contents of a folder.

    Parameters
    ----------
    path : Path
        The lease's file; its folder exists.
    what : str
        What this process is, for messages to others.
    token : str, optional
        Name of a lease that several processes may hold one after the other, such as
        those of a launch; by default a random name.
    folder : int, optional
        Descriptor of the file's folder, so that nobody can replace the folder.
    only_own : bool
        Whether to take the lease of a process that has ended only if `what` is the
        same, because the jobs of another process may still run.
    """

    def __init__(
        self,
        path: Path,
        what: str,
        token: str | None = None,
        folder: int | None = None,
        *,
        only_own: bool = False,
    ):
        self.path, self._what, self._folder = path, what, folder
        self._only_own = only_own
        self._token = token or secrets.token_hex(8)

    def take(self) -> None:
        """Take the lease, even if a process of this machine that has ended holds it.

        Raises
        ------
        LeaseError
            If another process holds it; the message says what to do.
        OSError
            If the file cannot be written.
        """
        me = Holder.this_process(self._what, self._token)
        while not self._create(self.path.name, me):
            holder = self.holder()
            if holder is None:  # the holder has given it back meanwhile
                continue
            if holder == me:
                return
            is_another = self._only_own and holder.what != self._what
            if not holder.is_dead or is_another:
                raise LeaseError(self._refusal(holder))
            self._end(holder)
        if self.holder() != me:
            raise LeaseError(f"{self.path}: the file system lost what was written.")

    def adopt(self) -> bool:
        """Take over the lease of this token if its holder has ended.

        Returns
        -------
        bool
            Whether the lease has this token: not if nobody or another launch holds it.
        """
        holder = self.holder()
        if holder is None or holder.token != self._token:
            return False
        if holder.is_dead:
            with suppress(LeaseError):
                self.take()
            holder = self.holder()
        return holder is not None and holder.token == self._token

    def give_back(self) -> None:
        """Give the lease back if it has this token."""
        holder = self.holder()
        if holder is not None and holder.token == self._token:
            self._remove(self.path.name)

    def holder(self) -> Holder | None:
        """Return the holder of the lease, None if nobody holds it.

        A process that is still writing its name gets some time.

        Raises
        ------
        LeaseError
            If the file names no holder.
        """
        end_s = time.monotonic() + _WRITING_S
        while (content := self._read()) is not None:
            try:
                return dataclass_of_json(Holder, content)
            except ValueError:
                if time.monotonic() > end_s:
                    break
            time.sleep(_POLL_S)
        if content is None:
            return None
        raise LeaseError(
            f"{self.path}: names no holder; if no process works here any more: "
            f"{_removal(self.path)}"
        )

    # ---- the file -----------------------------------------------------------------

    def _read(self) -> bytes | None:
        """Return what the file holds, None if there is none."""
        try:
            descriptor = os.open(
                self.path.name if self._folder is not None else self.path,
                os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK,
                dir_fd=self._folder,
            )
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:
            return file.read(_MAX_BYTES)

    def _end(self, holder: Holder) -> None:
        """Remove the lease of a process that has ended."""
        # Only who creates this file removes it, so nobody removes a faster one's lease.
        claim = f"{self.path.name}.{holder.token}"
        end_s = time.monotonic() + _WRITING_S
        while not self._create(claim):
            if time.monotonic() > end_s:
                left = self.path.with_name(claim)
                raise LeaseError(
                    f"{left}: a killed process left this file: {_removal(left)}"
                )
            time.sleep(_POLL_S)
        try:
            if self.holder() == holder:
                self._remove(self.path.name)
        finally:
            self._remove(claim)

    def _create(self, name: str, holder: Holder | None = None) -> bool:
        """Write a file that names a holder, or nobody; return False if it exists."""
        try:
            descriptor = os.open(
                name if self._folder is not None else self.path.with_name(name),
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW,
                0o644,
                dir_fd=self._folder,
            )
        except FileExistsError:
            return False
        if holder is None:  # an empty file needs no room on a full file system
            os.close(descriptor)
            return True
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(asdict(holder), file)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self._remove(name)
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        except BaseException:
            self._remove(name)
            raise
        return True

    def _remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with suppress(FileNotFoundError):
            path = name if self._folder is not None else self.path.with_name(name)
            os.unlink(path, dir_fd=self._folder)

    def _refusal(self, holder: Holder) -> str:
        """Return why the lease cannot be taken, and what to do."""
        who = printable(f"{holder.what} (process {holder.pid} on {holder.host})")
        if holder.is_dead:
            return (
                f"{self.path}: {who} was killed, and its jobs may still run. Start it "
                f"again, or if none of them runs: {_removal(self.path)}"
            )
        if holder.is_here:
            since = start_words(holder.started)
            return (
                f"{self.path}: {who} works here since {since}; wait until it has ended."
            )
        return (
            f"{self.path}: {who} works here, or was killed; only that machine can see "
            f"which. If it does not run any more: {_removal(self.path)}"
        )


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold a lease for a while; arguments as for `Lease`.

    Raises
    ------
    LeaseError
        If another process holds it, or the file cannot be written.
    """
    lease = Lease(path, what)
    with os_errors_as(LeaseError, f"{path}: cannot be written"):
        lease.take()
    try:
        yield
    finally:
        with suppress(OSError, LeaseError):
            lease.give_back()


def hold_lease(path: Path, what: str, *, only_own: bool = False) -> Lease:
    """Take a lease and give it back when this process ends.

    A missing folder is made; `what` names this process in messages to others. Raises a
    LeaseError if another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lease = Lease(path, what, only_own=only_own)
    lease.take()
    atexit.register(_give_back, lease, os.getpid())
    return lease


def _give_back(lease: Lease, pid: int) -> None:
    """Give a lease back when its process ends, not when a fork of it ends."""
    if os.getpid() == pid:
        with suppress(OSError, LeaseError):
            lease.give_back()


def _is_hidden(pid: int) -> bool:
    """Return whether a process runs that this user is not shown (``hidepid``)."""
    if os.path.exists(f"/proc/{pid}"):
        return False  # it is shown: a zombie
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _removal(path: Path) -> str:
    """Return the command that removes a file."""
    return f"rm {shlex.quote(str(path))}"


def _machine() -> str:
    """Return the id of this machine, or of its image; empty if it has none."""
    with suppress(OSError, ValueError):
        return Path("/etc/machine-id").read_text(encoding="utf-8").strip()
    return ""


def _here() -> tuple[str, str, int]:
    """Return this machine, its start, and the name space of its process numbers."""
    boot, namespace = "", 0
    with suppress(OSError):
        boot = (
            Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        )
    with suppress(OSError):
        namespace = os.stat("/proc/self/ns/pid").st_ino
    return platform.node(), boot, namespace
