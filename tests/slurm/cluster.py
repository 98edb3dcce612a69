"""A real Slurm cluster on this machine, without systemd, for as long as needed."""

import ctypes
import fcntl
import getpass
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from sessions import HANG_S

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("srun", "sbatch", "squeue", "scontrol", "scancel", "sinfo", "sacct")
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])

# A command of a cluster finds its configuration also where SLURM_CONF is cleared, as by
# Snakemake's jobstep. A default configuration in /etc/slurm would do, too, but once its
# cluster is gone, each Snakemake of this machine waits 10 s for it when it starts.
COMMAND = """#!/bin/sh
export SLURM_CONF='{folder}/slurm.conf'
exec {command} "$@"
"""

# In the environment of all processes of a cluster; its value is the cluster's folder.
MARK = "TIERSCOPE_SLURM"

NEW_S = 10.0
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
    wait_until(lambda: not marked_processes(folder))


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
    remove_segments_of_nobody()


def remove_segments_of_nobody() -> None:
    """Remove shared memory of MPI that killed ranks left.

    MPICH names it after the step, and a new cluster counts jobs from 1 again: its ranks
    would find the name taken, and end with "Out of memory".
    """
    mapped = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            mapped.update(re.findall(r"/dev/shm/mpich_\S+", maps.read_text()))
    for path in Path("/dev/shm").glob("mpich_*"):
        with suppress(OSError):
            is_new = time.time() - path.stat().st_mtime < NEW_S  # to be mapped yet
            if str(path) not in mapped and not is_new:
                path.unlink()


def wait_until(condition: Callable[[], bool]) -> bool:
    """Wait for a condition and return whether it came true before a hang is assumed."""
    deadline = time.monotonic() + HANG_S
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

    Programs find the cluster by its commands, which come first on the PATH of
    `environment`; several clusters may run side by side.
    """

    def __init__(self, n_nodes: int = 4, n_cpus: int = 4, memory_mb: int = 4000):
        self.nodes = [f"node{number}" for number in range(1, n_nodes + 1)]
        self.n_cpus = n_cpus
        self.memory_mb = memory_mb
        self.daemons: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> "SlurmCluster":
        if os.geteuid() != 0:
            raise ClusterUnavailable("a Slurm cluster needs root")
        programs = DAEMONS + COMMANDS
        if missing := [name for name in programs if not shutil.which(name, path=PATH)]:
            raise ClusterUnavailable(f"Slurm is not installed: no {', '.join(missing)}")
        clear_killed_clusters()
        with ExitStack() as stack:
            self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.environment = {
                **{k: v for k, v in os.environ.items() if not k.startswith("SLURM")},
                "PATH": f"{self.folder}/bin{os.pathsep}{PATH}",
                MARK: str(self.folder),
            }
            self._own(stack)
            self._configure()
            self._write_commands()
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
        new = self.folder / "owner.new"
        fcntl.flock(stack.enter_context(new.open("w")), fcntl.LOCK_EX)
        new.rename(self.folder / "owner")  # nobody sees it before it is held

    def _configure(self) -> None:
        for name in ("state", "log", *(f"spool/{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True)
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        self.port, *node_ports = free_ports(1 + len(self.nodes))
        host = socket.gethostname().split(".")[0]
        lines = [
            (Path(__file__).parent / "slurm.conf")
            .read_text()
            .format(
                host=host,
                port=self.port,
                user=getpass.getuser(),
                folder=self.folder,
                # MPI names memory after jobs; other clusters may run side by side.
                first_job=1000 * random.randrange(1, 1000),
            )
        ]
        for node, node_port in zip(self.nodes, node_ports, strict=True):
            lines.append(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 "
                f"Port={node_port} CPUs={self.n_cpus} RealMemory={self.memory_mb}\n"
            )
        (self.folder / "slurm.conf").write_text("".join(lines))

    def _write_commands(self) -> None:
        """Write Slurm's commands as those of this cluster."""
        (self.folder / "bin").mkdir()
        for name in COMMANDS:
            command = shutil.which(name, path=PATH)
            path = self.folder / "bin" / name
            path.write_text(COMMAND.format(folder=self.folder, command=command))
            path.chmod(0o755)

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
        if not wait_until((self.folder / "munge.socket").exists):
            self._give_up("munged did not start")
        self._start("slurmctld", "-D", "-c")
        if not wait_until(self._listens):  # commands would wait longer
            self._give_up("slurmctld did not start")
        for node in self.nodes:
            self._start("slurmd", "-D", "-N", node, name=node)
        if not wait_until(self._is_up):
            self._give_up("nodes did not come up")

    def _start(self, *command: str, name: str = "") -> None:
        name = name or command[0]
        with (self.folder / "log" / name).open("w") as log:
            self.daemons[name] = subprocess.Popen(
                [shutil.which(command[0], path=PATH), *command[1:]],
                env=self.environment | {"SLURM_CONF": f"{self.folder}/slurm.conf"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def _check_daemons(self) -> None:
        if any(daemon.poll() is not None for daemon in self.daemons.values()):
            self._give_up("a daemon ended")

    def _listens(self) -> bool:
        """Return whether the controller takes connections."""
        self._check_daemons()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _is_up(self) -> bool:
        self._check_daemons()
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
        wait_until(lambda: {job.state for job in self.jobs()} <= ENDED)

    def _end_daemons(self) -> None:
        for daemon in self.daemons.values():
            daemon.terminate()
        deadline = time.monotonic() + 60
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

    def run(self, *command: str) -> str:
        """Run a Slurm command and return what it printed."""
        return subprocess.run(
            command,
            env=self.environment,
            timeout=HANG_S,
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

    def reach_time_limit(self, job_id: str) -> None:
        """Let a running job have no time left; Slurm looks every half minute.

        It refuses a time that is over when it hears of it, as on a busy machine.
        """
        command = ("scontrol", "update", f"jobid={job_id}", "endtime=now+1")
        end_s = time.monotonic() + HANG_S
        while True:
            try:
                self.run(*command)
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > end_s:
                    raise

    def cancel(self, *ids: str) -> None:
        """Cancel jobs."""
        if ids:
            self.run("scancel", *ids)
