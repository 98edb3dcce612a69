"""How the ranks of a program's run meet: those of a node, then all nodes.

They meet by files, in a folder in the memory of the node and in one that all nodes
share. They cannot meet by MPI: the program may use it, and a process can start it only
once.
"""

import fcntl
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope.benchmark.processes import BenchmarkError
from tierscope.core.files import write_text
from tierscope.core.processes.times import start_time
from tierscope.storage.own_folder import FolderError, check_way, open_own

# What launchers call a process that they start, the most certain first.
RANK_VARIABLES = (
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
    "RANK",
)
MEMORY = Path("/dev/shm")
_PREFIX, _SUFFIX = "tierscope-program-", ".d"
_POLL_S = 0.01
_SHARED_POLL_S = 0.1
_LOOK_S = 1.0  # between looks for failures
_START_S = 600.0  # in which a launcher starts all ranks


class OtherFailed(RuntimeError):
    """Another rank has failed, and says why."""


def launched_rank(environ: Mapping[str, str], size: int) -> int:
    """Return the number that the launcher has given this process.

    A BenchmarkError says that there is none, one that is too large, or another one in
    ``RANK``, by which the libraries would know the program's processes.
    """
    found = next((name for name in RANK_VARIABLES if environ.get(name)), None)
    if found is None and size == 1:
        return 0
    text = environ.get(found, "") if found else ""
    if text.isdecimal() and int(text) < size:
        own = environ.get("RANK", "")
        if own.isdecimal() and int(own) != int(text):
            raise BenchmarkError(
                f"got RANK={own} and {found}={text}, expected the same number or no "
                "RANK: the program's processes would count with another rank."
            )
        return int(text)
    known = ", ".join(RANK_VARIABLES)
    what = f"{found}={text}" if found else f"none of {known}"
    raise BenchmarkError(
        f"got {what}, expected a rank below {size} in one of these variables "
        "(job.launcher of the system file starts so many processes)."
    )


def node_key(environ: Mapping[str, str], rank: int, per_node: int | None) -> str:
    """Return what names this process's node; `per_node` is that of virtual nodes."""
    if per_node is not None:
        return f"{rank // per_node}"
    return environ.get("SLURMD_NODENAME") or platform.node()


def folder_in_memory(key: str, token: str, memory: Path = MEMORY) -> Path:
    """Return the folder of a node; nobody else can know the token of the run."""
    return memory / f"{_PREFIX}{key}-{token}{_SUFFIX}"


def remove_folders_of_killed_launches(memory: Path = MEMORY) -> None:
    """Remove the folders of this user's nodes that no rank uses any more."""
    for folder in memory.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(FolderError, OSError):  # another rank removes or still uses it
            lock = open_own(folder)
            try:
                if any(name.startswith("rank-") for name in os.listdir(lock)):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


@dataclass
class Meeting:
    """The ranks of a run, as one of them sees them.

    Parameters
    ----------
    local : Path
        Folder of this node in its memory; the first rank that needs it makes it.
    shared : Path
        Folder that all nodes share.
    key : str
        Name of the node.
    rank, n_on_node, n_nodes : int
        This process, and how many there must be.
    """

    local: Path
    shared: Path
    key: str
    rank: int
    n_on_node: int
    n_nodes: int

    def join(self) -> None:
        """Wait for the ranks of this node; the first one leads.

        A FolderError says that another user could change the node's folder.
        """
        check_way(self.local.parent)
        with suppress(FileExistsError):
            self.local.mkdir(mode=0o700)
        # Held until the end of this rank, even if it is killed.
        self._lock = open_own(self.local)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self._come()
        self._wait(lambda: len(self.ranks()) >= self.n_on_node, "the ranks of its node")
        if len(found := self.ranks()) > self.n_on_node:
            raise BenchmarkError(
                f"got {len(found)} processes on node {self.key}, expected "
                f"{self.n_on_node} on each of {self.n_nodes} nodes (job.launcher of "
                "the system file places them)."
            )

    def _come(self) -> None:
        """Say that this rank has come, once."""
        pid = os.getpid()
        whole = self.local / f"coming-{self.rank}-{pid}"
        write_text(whole, json.dumps({"pid": pid, "ticks": start_time(pid)}))
        try:
            os.link(whole, self.local / f"rank-{self.rank}.json")
        except FileExistsError:
            raise BenchmarkError(
                f"got two processes of rank {self.rank} on node {self.key}, expected "
                "one (job.launcher of the system file numbers them)."
            ) from None
        finally:
            os.unlink(whole)

    def ranks(self) -> list[int]:
        """Return the ranks of this node that have come, sorted."""
        names = (path.stem for path in self.local.glob("rank-*.json"))
        return sorted(int(name.removeprefix("rank-")) for name in names)

    @property
    def leads(self) -> bool:
        """Return whether this rank is the first one of its node."""
        return self.rank == self.ranks()[0]

    def meet_nodes(self) -> int:
        """Return the number of this node, in the order of first ranks; leaders call it.

        Names of nodes do not tell: some launchers give all the variables of one.
        """
        return self.exchange("came", self.rank, _START_S).index(self.rank)

    def all_nodes_are_ready(self) -> None:
        """Wait until every leader calls this."""
        self.exchange("ready", None)

    def exchange(self, what: str, fact: Any, most_s: float = float("inf")) -> list[Any]:
        """Return what all nodes give, in their order; every leader calls this."""
        own = self.shared / f"{what}-{self.rank:07d}.json"
        write_text(own, json.dumps(fact))

        def have_come() -> bool:
            # A listing makes a shared file system ask again.
            names = os.listdir(self.shared)
            come = [name for name in names if name.startswith(f"{what}-")]
            return len(come) >= self.n_nodes

        self._wait(have_come, "the other nodes", most_s, _SHARED_POLL_S)
        paths = sorted(self.shared.glob(f"{what}-*"))
        return [json.loads(path.read_text()) for path in paths]

    def go(self, facts: Mapping[str, Any]) -> None:
        """Let the ranks of this node start; leaders call this."""
        write_text(self.local / "go.json", json.dumps(facts))

    def await_go(self) -> dict[str, Any]:
        """Wait for the leader of this node; return what it has prepared."""
        go = self.local / "go.json"
        self._wait(go.exists, "the first rank of its node", float("inf"))
        return json.loads(go.read_text())

    def end(self, status: int) -> None:
        """Say that this rank's program has ended."""
        write_text(self.local / f"ended-{self.rank}", str(status))

    def all_have_ended(self) -> bool:
        """Return whether the programs of all ranks of this node have ended.

        A rank that was killed has ended, too.
        """
        for rank in self.ranks():
            if (self.local / f"ended-{rank}").exists():
                continue
            known = json.loads((self.local / f"rank-{rank}.json").read_text())
            if start_time(known["pid"]) == known["ticks"]:
                return False
        return True

    def fail(self) -> None:
        """Let the ranks of all nodes end."""
        write_text(self.shared / f"failed-{self.rank}", "")

    def has_failed(self) -> bool:
        """Return whether a rank has said that it fails."""
        return any(self.shared.glob("failed-*"))

    def raise_if_failed(self) -> None:
        """Raise an OtherFailed if a rank has said that it fails."""
        if self.has_failed():
            raise OtherFailed

    def _wait(
        self,
        is_met: Callable[[], bool],
        whom: str,
        most_s: float = _START_S,
        poll_s: float = _POLL_S,
    ) -> None:
        """Wait for a condition, while no rank fails.

        Thousands of ranks wait, so each asks the shared folder once a second only.
        """
        end_s, next_s = time.monotonic() + most_s, 0.0
        while not is_met():
            if (now_s := time.monotonic()) >= next_s:
                self.raise_if_failed()
                next_s = now_s + _LOOK_S
            if now_s > end_s:
                raise BenchmarkError(
                    f"rank {self.rank} waited {most_s:.0f} s for {whom}; expected "
                    f"{self.n_on_node} processes on each of {self.n_nodes} nodes."
                )
            time.sleep(poll_s)
