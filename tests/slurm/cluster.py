"""A real Slurm cluster on this machine, without systemd, for as long as needed."""

import ctypes
import fcntl
import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scontrol")
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])

# Snakemake's jobstep clears SLURM_*, SLURM_CONF too: jobs need the default place.
DEFAULT_CONFIG = Path("/etc/slurm/slurm.conf")

# In the environment of all processes of a cluster; its value is the cluster's folder.
MARK = "TIERSCOPE_SLURM"

PREFIX = "tierscope-slurm-"

FIELDS = ("JobID", "Name", "State", "Reason", "NodeList", "RestartCnt", "Comment")
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class ClusterUnavailable(Exception):
    """This machine cannot have a test cluster, and the message says why."""


@dataclass(frozen=True)
class Job:
    """A row of squeue; ended jobs stay in it for ten minutes."""

    id: str
    name: str
    state: str
    reason: str
    nodes: str
    n_restarts: int
    comment: str


def free_ports(n_ports: int) -> list[int]:
    """Return ports nobody listens on, below those the kernel hands out."""
    ports: list[int] = []
    for port in random.sample(range(20000, 32000), 1000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == n_ports:
            return ports
    raise ClusterUnavailable(f"fewer than {n_ports} free ports")


def marked_processes(folder: Path) -> list[int]:
    """Return the processes of the cluster in a folder: daemons, steps and jobs."""
    mark = f"{MARK}={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in environment and process.name != str(os.getpid()):
            found.append(int(process.name))
    return found


def kill_marked_processes(folder: Path) -> None:
    """Kill what is left of the cluster in a folder."""
    for process in marked_processes(folder):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    wait_until(lambda: not marked_processes(folder), 5)


def clear_killed_clusters() -> None:
    """Remove what test runs left that were killed before their teardown."""
    for owner in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/owner"):
        with owner.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            kill_marked_processes(owner.parent)
            shutil.rmtree(owner.parent, ignore_errors=True)
    if DEFAULT_CONFIG.is_symlink() and not DEFAULT_CONFIG.exists():
        folder = DEFAULT_CONFIG.readlink().parent
        if folder.name.startswith(PREFIX):
            DEFAULT_CONFIG.unlink()


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait for a condition and return whether it came true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def die_with_parent() -> None:
    """Have the kernel end this process when the tests are killed."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class SlurmCluster:
    """Run munged, slurmctld and several slurmd on loopback, as a context manager.

    The nodes share one kernel, its cores and /tmp: they show scheduling and
    launching, not speed, and node-local paths need ``$SLURMD_NODENAME``.

    Only one cluster at a time can be the default of programs without SLURM_CONF.
    """

    def __init__(
        self,
        n_nodes: int = 4,
        n_cpus: int = 4,
        memory_mb: int = 4000,
        is_default: bool = True,
    ):
        self.is_default = is_default
        self.nodes = [f"node{number}" for number in range(1, n_nodes + 1)]
        self.n_cpus = n_cpus
        self.memory_mb = memory_mb
        self.daemons: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> "SlurmCluster":
        if os.geteuid() != 0:
            raise ClusterUnavailable("a Slurm cluster needs root")
        if missing := [name for name in PROGRAMS if not shutil.which(name, path=PATH)]:
            raise ClusterUnavailable(f"Slurm is not installed: no {', '.join(missing)}")
        clear_killed_clusters()
        with ExitStack() as stack:
            self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.environment = {
                **{k: v for k, v in os.environ.items() if not k.startswith("SLURM")},
                "PATH": PATH,
                "SLURM_CONF": str(self.folder / "slurm.conf"),
                MARK: str(self.folder),
            }
            self._own(stack)
            self._configure()
            if self.is_default:
                self._link_default_config(stack)
            stack.callback(kill_marked_processes, self.folder)
            stack.callback(self._end_daemons)
            self._start_daemons()
            stack.callback(self._cancel_all)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _own(self, stack: ExitStack) -> None:
        """Hold a lock that ends with this process, however that ends."""
        lock = stack.enter_context((self.folder / "owner").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)

    def _configure(self) -> None:
        for name in ("state", "log", *(f"spool/{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True)
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        port, *node_ports = free_ports(1 + len(self.nodes))
        host = socket.gethostname().split(".")[0]
        lines = [
            (Path(__file__).parent / "slurm.conf")
            .read_text()
            .format(host=host, port=port, user=getpass.getuser(), folder=self.folder)
        ]
        for node, node_port in zip(self.nodes, node_ports, strict=True):
            lines.append(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 "
                f"Port={node_port} CPUs={self.n_cpus} RealMemory={self.memory_mb}\n"
            )
        (self.folder / "slurm.conf").write_text("".join(lines))

    def _link_default_config(self, stack: ExitStack) -> None:
        """Link the default place to our configuration, if nobody else uses it."""
        DEFAULT_CONFIG.parent.mkdir(parents=True, exist_ok=True)
        try:
            DEFAULT_CONFIG.symlink_to(self.folder / "slurm.conf")
        except FileExistsError:
            owner = DEFAULT_CONFIG.resolve()
            problem = f"{DEFAULT_CONFIG} exists, of another cluster ({owner})"
            raise ClusterUnavailable(problem) from None
        stack.callback(DEFAULT_CONFIG.unlink, missing_ok=True)

    def _start_daemons(self) -> None:
        self._start(
            "munged",
            "--foreground",
            "--force",
            f"--socket={self.folder}/munge.socket",
            f"--key-file={self.folder}/munge.key",
            f"--pid-file={self.folder}/munged.pid",
            f"--seed-file={self.folder}/munge.seed",
        )
        if not wait_until((self.folder / "munge.socket").exists, 10):
            self._give_up("munged did not start")
        self._start("slurmctld", "-D", "-c")
        for node in self.nodes:
            self._start("slurmd", "-D", "-N", node, name=node)
        if not wait_until(self._is_up, 60):
            self._give_up("nodes did not come up")

    def _start(self, *command: str, name: str = "") -> None:
        name = name or command[0]
        with (self.folder / "log" / name).open("w") as log:
            self.daemons[name] = subprocess.Popen(
                [shutil.which(command[0], path=PATH), *command[1:]],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def _is_up(self) -> bool:
        if any(daemon.poll() is not None for daemon in self.daemons.values()):
            self._give_up("a daemon ended")
        try:
            states = self.node_states()
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return False
        return [states.get(node) for node in self.nodes] == ["idle"] * len(self.nodes)

    def _give_up(self, problem: str) -> None:
        raise RuntimeError(f"{problem}\n{self.log_tails()}")

    def _cancel_all(self) -> None:
        """Cancel all jobs and wait until their processes have gone."""
        try:
            self.cancel(*(job.id for job in self.jobs() if job.state not in ENDED))
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return
        wait_until(lambda: {job.state for job in self.jobs()} <= ENDED, 15)

    def _end_daemons(self) -> None:
        for daemon in self.daemons.values():
            daemon.terminate()
        deadline = time.monotonic() + 10
        for daemon in self.daemons.values():
            try:
                daemon.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def log_tails(self, n_lines: int = 10) -> str:
        """Return the last lines of each daemon's log."""
        tails = []
        for log in sorted((self.folder / "log").iterdir()):
            lines = log.read_text(errors="replace").splitlines()[-n_lines:]
            tails += [f"--- {log.name}", *lines]
        return "\n".join(tails)

    def run(self, *command: str, timeout_s: float = 60) -> str:
        """Run a Slurm command and return what it printed."""
        return subprocess.run(
            command,
            env=self.environment,
            timeout=timeout_s,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def node_states(self) -> dict[str, str]:
        """Return sinfo's state of every node, such as idle, mixed or down."""
        lines = self.run("sinfo", "--noheader", "--Node", "-o", "%N %T").splitlines()
        return dict(line.split() for line in lines)

    def set_down(self, node: str, reason: str = "test") -> None:
        """Take a node down; Slurm ends, and by default requeues, the jobs on it."""
        self.run(
            "scontrol",
            "update",
            f"nodename={node}",
            "state=down",
            f"reason={reason}",
        )

    def resume(self, node: str) -> None:
        """Bring a node back that was set down."""
        self.run("scontrol", "update", f"nodename={node}", "state=resume")

    def jobs(self) -> list[Job]:
        """Return all jobs, the ended ones too, in the order of submission."""
        columns = ",".join(f"{field}:|" for field in FIELDS)
        lines = self.run(
            "squeue", "--noheader", "--states=all", "--sort=i", f"--Format={columns}"
        ).splitlines()
        rows = [[cell.strip() for cell in line.split("|")] for line in lines]
        return [Job(*row[:5], int(row[5]), row[6]) for row in rows]

    def start_now(self, job_id: str) -> None:
        """Start a requeued job at once; Slurm has it wait for two minutes."""
        self.run("scontrol", "update", f"jobid={job_id}", "starttime=now")

    def cancel(self, *ids: str) -> None:
        """Cancel jobs."""
        if ids:
            self.run("scancel", *ids)
