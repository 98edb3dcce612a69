"""One call of ``tierscope trace``: what its logs have in common, and what it leaves.

A hidden folder beside the logs, until these are written, holds what is known of the
call and its folder of spools: the counts of its processes. Another call can write the
logs if it was killed. All can see the name of the hidden folder, and none that of the
folder of spools.
"""

import ctypes
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tierscope.core.files import read_regular, write_text
from tierscope.core.validation import dataclass_of_json
from tierscope.storage.mounts import mount_table
from tierscope.storage.own_folder import FolderError, open_own

EVENTS = "processes"  # name of the file of events, one a host
JOB_VARIABLES = (
    "SLURM_JOB_ID",
    "PJM_JOBID",
    "PBS_JOBID",
    "LSB_JOBID",
    "COBALT_JOBID",
    "FLUX_JOB_ID",
    "JOB_ID",
)
# Of each process that a launcher has started.
LAUNCHED = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_STEP_ID")
_FOLDERS = ".tierscope-*"
_CALL = "call.json"
_MOST_CALL_BYTES = 16 << 20  # thousands of mounts
_RESERVED_BYTES = 1 << 20
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
# Host and id of a process, and when the kernel started it; None: it has ended.
Identity = tuple[str, int, int | None]


@dataclass(frozen=True)
class Call:
    """What the logs of one call of ``tierscope trace`` have in common.

    The host is that of the call, and `ticks` when the kernel started its process.
    `group` is in the metadata of all its logs. The command began and ended in seconds
    since 1970; no end: the call was killed before.
    """

    host: str
    pid: int
    ticks: int
    user: str
    group: str
    job_id: int
    mounts: Mapping[str, str]
    began_s: float
    ended_s: float | None = None

    def may_run(self) -> bool:
        """Return whether it still runs; on another host, that is not known."""
        return self.host != os.uname().nodename or ticks_of(self.pid) == self.ticks


def this_call() -> Call:
    """Return the call that this process makes."""
    job_id, group = job_and_group(os.environ, os.getpid(), os.getppid())
    return Call(
        host=os.uname().nodename,
        pid=os.getpid(),
        ticks=ticks_of(os.getpid()) or 0,
        user=_user(),
        group=group,
        job_id=job_id,
        mounts=mount_table(),
        began_s=time.time(),
    )


def prepare_folder(spools: Path, call: Call) -> None:
    """Make a folder of spools, and what it needs before the command starts.

    Room for events is reserved: they tell what was lost if the disk becomes full. If we
    are root, processes that change their user can write there, too; nobody can list the
    folders or remove what others have written.
    """
    events = spools / call.host / EVENTS
    events.parent.mkdir(parents=True)
    with events.open("wb") as file:
        libc = ctypes.CDLL(None)
        libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, *[ctypes.c_int64] * 2]
        libc.fallocate(file.fileno(), _KEEP_SIZE, 0, _RESERVED_BYTES)
    if os.geteuid() == 0:
        events.chmod(0o622)
        events.parent.chmod(0o1733)
        spools.chmod(0o711)
        spools.parent.chmod(0o711)
    write_text(spools.parent / _CALL, json.dumps(asdict(call)))


def left_folders(folder: Path) -> list[tuple[Path, Call]]:
    """Return the folders of spools below a folder of logs, or below the hidden one.

    Those of which nothing is known are left out: of another user, or of a call that was
    killed before its command began.
    """
    left = {one: _left(one) for one in (folder, *sorted(folder.glob(_FOLDERS)))}
    known = list(filter(None, left.values()))
    return known[:1] if left[folder] else known


def _left(folder: Path) -> tuple[Path, Call] | None:
    """Return what a call of this user has left in a hidden folder, if it is one."""
    try:
        os.close(open_own(folder))
        content = read_regular(folder / _CALL, _MOST_CALL_BYTES)
        events = next(folder.glob(f"*/*/{EVENTS}"))
        return events.parents[1], dataclass_of_json(Call, content)
    except (FolderError, OSError, StopIteration, ValueError):
        return None


def ticks_of(pid: int) -> int | None:
    """Return when the kernel started a process of this host; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])


def identity_of(pid: int) -> Identity:
    """Return what no other process has than this one of this host."""
    return os.uname().nodename, pid, ticks_of(pid)


def job_and_group(environ: Mapping[str, str], pid: int, parent: int) -> tuple[int, str]:
    """Return the job's id and what the logs of a call have in common.

    A launcher may start ``tierscope trace`` once a rank: then the group is the
    launcher's, if it runs on one machine or a scheduler knows it.
    """
    is_launched = any(name in environ for name in LAUNCHED)
    caller = parent if is_launched else pid
    found = (re.match(r"\d+", environ.get(name, "")) for name in JOB_VARIABLES)
    job = next(filter(None, found), None)
    job_id = int(job[0]) if job else caller
    if job and environ.get("SLURM_STEP_ID"):
        return job_id, f"{job_id}.{environ['SLURM_STEP_ID']}"
    name = f"{os.uname().nodename}-{caller}"
    return job_id, name if is_launched else f"{name}-{time.time_ns() // 10**6}"


def _user() -> str:
    """Return the user's name, or number if it has none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
