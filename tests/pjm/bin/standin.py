#!/usr/bin/env python3
"""Stand-in for pjsub, pjstat and pjdel: one file, three names, real job scripts.

Documented formats, never run on Fugaku. A job is a process of this machine, whatever
nodes it asks for. Tables, the answers of pjsub and pjdel, and PJM codes follow the
Fugaku user guide and what public projects have recorded; the errors of pjstat and
pjdel, and of options that pjsub does not know, are made up.

State is in $PJM_STANDIN_DIR, a JSON file a job.

Jobs start with a login's environment, not the submitter's, as without pjsub -X.

Settings and faults are environment variables PJM_STANDIN_NAME or, so that they can be
switched while it runs, files of that name in lower case in $PJM_STANDIN_DIR:

    SLOTS=n            so many jobs run at the same time, the others wait (QUE)
    QUEUE_S=s          every job waits so long
    REJECT=text        pjsub refuses with this text and exit code 0, as on K
    SAME_ID=1          pjsub gives the ID that it gave last, and runs nothing
    PJSTAT_FAIL=n      the first n calls of pjstat fail (also _EMPTY, _GARBAGE)
    NODE_DOWN=name     a node of jobs of this name goes down after half a second
    VANISH=name        pjstat does not know ended jobs of this name, not even with -H
    LOSE=name          nor running ones, and their processes are killed

A fault that has happened leaves a file happened-NAME there.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ENDED = ("EXT", "CCL", "ERR", "RJT")
GRACE_S = 3
POLL_S = 0.1
OPTIONS = {
    "-L": "limits",
    "--rsc-list": "limits",
    "--mpi": "mpi",
    "-x": "environment",
    "-g": "group",
    "-N": "name",
    "--name": "name",
    "-o": "log",
    "--out": "log",
    "--llio": "llio",
    "--spath": "statistics",
}
FLAGS = ("-j", "-s", "-S", "--no-check-directory")
LLIO_BYTES = 93615751168
LARGEST_NODES = {"small": 384, "large": 12288}

STATE = Path(os.environ["PJM_STANDIN_DIR"])
JOBS = STATE / "jobs"


def setting(name):
    """Return a setting or fault, None if it is not switched on."""
    with contextlib.suppress(FileNotFoundError):
        return (STATE / name.lower()).read_text().strip()
    return os.environ.get(f"PJM_STANDIN_{name}")


def happened(fault):
    """Let the tests know that a fault has happened."""
    (STATE / f"happened-{fault.lower()}").touch()


@contextlib.contextmanager
def locked():
    """Hold the lock of the state."""
    JOBS.mkdir(parents=True, exist_ok=True)
    with (STATE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read(job_id):
    """Return a job."""
    return json.loads((JOBS / f"{job_id}.json").read_text())


def change(job_id, **values):
    """Change a job and return it."""
    with locked():
        job = read(job_id) | values
        write(job)
    return job


def write(job):
    """Write a job in one step."""
    new = JOBS / f"{job['id']}.new"
    new.write_text(json.dumps(job))
    new.replace(JOBS / f"{job['id']}.json")


def all_jobs():
    """Return all jobs in the order of submission."""
    return sorted(
        (read(path.stem) for path in JOBS.glob("*.json")), key=lambda j: j["id"]
    )


def counted(name):
    """Return whether a fault of the first n calls happens in this call."""
    with locked():
        counter = STATE / f"calls-{name.lower()}"
        n_calls = int(counter.read_text()) if counter.exists() else 0
        counter.write_text(str(n_calls + 1))
    if is_fault := n_calls < int(setting(name) or 0):
        happened(name)
    return is_fault


def refuse(code, text):
    """Print an error as pjsub does and end with exit code 1."""
    sys.exit(f"[ERR.] PJM {code} pjsub {text}")


def pairs(texts):
    """Return name=value pairs of comma-separated option arguments; the last counts."""
    words = [word for text in texts for word in text.split(",")]
    return dict(word.partition("=")[::2] for word in words)


def seconds(limit):
    """Return the seconds of HH:MM:SS, MM:SS or SS."""
    total = 0
    for part in limit.split(":"):
        total = 60 * total + int(part)
    return total


def n_bytes(size):
    """Return the bytes of a size such as 87Gi or 100MiB."""
    match = re.fullmatch(r"(\d+)(Mi|Gi)B?", size)
    if not match:
        refuse("0049", f"Option argument is invalid. {size}")
    return int(match[1]) * {"Mi": 2**20, "Gi": 2**30}[match[2]]


def pjsub(arguments):
    """Submit a job."""
    given, script, words = {}, None, iter(arguments)
    for word in words:
        if word in OPTIONS:
            given.setdefault(OPTIONS[word], []).append(next(words))
        elif word.startswith("-"):
            if word not in FLAGS:
                refuse("0049", f"Option is invalid. {word}")
        else:
            script = Path(word)
    if (text := setting("REJECT")) is not None:
        happened("REJECT")
        print(text or "[ERR.] PJM 0007 pjsub Staging option error (3).")
        return
    if "group" not in given:
        refuse("0071", "Group not authorized to submit a job: group(59999)")
    limits = pairs(given["limits"])
    n_nodes = 1
    for length in limits["node"].split(":")[0].split("x"):
        n_nodes *= int(length)
    most = LARGEST_NODES.get(limits.get("rscgrp", "small"), 384)
    if n_nodes > most:
        refuse("0057", f"node={n_nodes} is greater than the upper limit ({most}).")
    llio = pairs(given.get("llio", []))
    areas = [llio.get(f"{area}-size", "0Mi") for area in ("localtmp", "sharedtmp")]
    if sum(map(n_bytes, areas)) > LLIO_BYTES:
        refuse(
            "0049",
            "Option argument is invalid. sharedtmp-size + localtmp-size must be less "
            f"than or equal to {LLIO_BYTES}: --llio {llio}.",
        )
    with locked():
        last = STATE / "last-id"
        job_id = int(last.read_text()) if last.exists() else 12344
        if setting("SAME_ID") and last.exists():
            happened("SAME_ID")
            print(f"[INFO] PJM 0000 pjsub Job {job_id} submitted.")
            return
        job_id += 1
        last.write_text(str(job_id))
        # PJM keeps the script as it was submitted.
        copy = STATE / f"script-{job_id}"
        shutil.copy(script, copy)
        write(
            {
                "id": job_id,
                "name": given.get("name", [script.name])[-1],
                "state": "QUE",
                "group": given["group"][-1],
                "node": limits["node"],
                "n_nodes": n_nodes,
                "elapse": limits.get("elapse", "00:01:00"),
                "resource_group": limits.get("rscgrp", "small"),
                "mpi": pairs(given.get("mpi", [])),
                "environment": dict(
                    word.partition("=")[::2] for word in given.get("environment", [])
                ),
                "script": str(copy),
                "workdir": os.getcwd(),
                "log": given.get("log", [f"{script.name}.{job_id}.out"])[-1],
                "statistics": given.get(
                    "statistics", [f"{script.name}.{job_id}.stats"]
                )[-1],
                "accepted": time.time(),
                "started": None,
                "ended": None,
                "last_state": "ACC",
                "codes": [0, 0, 0],
                "reason": "-",
                "cancel": False,
            }
        )
    subprocess.Popen(
        [sys.executable, __file__, "run", str(job_id)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    print(f"[INFO] PJM 0000 pjsub Job {job_id} submitted.")


def processes_of(mark):
    """Return the processes that carry a job's mark, in whatever session."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            environment = Path("/proc", pid, "environ").read_bytes()
            if mark.encode() in environment.split(b"\0"):
                found.append(int(pid))
    return found


def end_processes(mark, first):
    """Send a signal to a job's processes and kill those that stay."""
    for number, patience_s in ((first, GRACE_S), (signal.SIGKILL, GRACE_S)):
        for pid in processes_of(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        end = time.monotonic() + patience_s
        while processes_of(mark) and time.monotonic() < end:
            time.sleep(POLL_S)


def wait_for_turn(job_id):
    """Wait in the queue; return the running job, None if it was cancelled."""
    while True:
        with locked():
            job = read(job_id)
            running = sum(one["state"] == "RUN" for one in all_jobs())
            waited = time.time() - job["accepted"] >= float(setting("QUEUE_S") or 0)
            if job["cancel"]:
                ended = {"state": "CCL", "codes": [0, 1, 0], "ended": time.time()}
                write(job | ended)
                return None
            if waited and running < int(setting("SLOTS") or 64):
                job |= {"state": "RUN", "last_state": "RNA", "started": time.time()}
                write(job)
                return job
        time.sleep(POLL_S)


def run(job_id):
    """Run a job to its end, in the background."""
    if not (job := wait_for_turn(job_id)):
        return
    areas = [STATE / area / str(job_id) for area in ("localtmp", "sharedtmp")]
    for area in areas:
        area.mkdir(parents=True)
    mark = f"PJM_STANDIN_JOB={STATE.resolve()}:{job_id}"
    n_processes = job["mpi"].get("proc", str(job["n_nodes"]))
    login = {name: os.environ[name] for name in ("HOME", "USER") if name in os.environ}
    environment = {
        **login,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PJM_ENVIRONMENT": "BATCH",
        "PJM_JOBID": str(job_id),
        "PJM_SUBJOBID": str(job_id),
        "PJM_JOBNAME": job["name"],
        "PJM_O_WORKDIR": job["workdir"],
        "PJM_JOBDIR": job["workdir"],
        "PJM_NODE": str(job["n_nodes"]),
        "PJM_MPI_PROC": n_processes,
        "PJM_LOCALTMP": str(areas[0]),
        "PJM_SHAREDTMP": str(areas[1]),
        **job["environment"],
        "PJM_STANDIN_JOB": mark.partition("=")[2],
    }
    log = job["log"].replace("%n", job["name"]).replace("%j", str(job_id))
    with open(Path(job["workdir"], log), "wb") as output:
        process = subprocess.Popen(
            ["/bin/bash", job["script"]],
            cwd=job["workdir"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    ended = watch(job, process, mark)
    end_processes(mark, signal.SIGKILL)
    for area in areas:
        shutil.rmtree(area)
    Path(job["workdir"], job["statistics"]).write_text(f"JOB ID : {job_id}\n{ended}\n")
    change(job_id, ended=time.time(), last_state="RNO", **ended)


def watch(job, process, mark):
    """Wait for the end of a job's script or end it; return state, codes and reason."""
    limit_s = seconds(job["elapse"])
    while process.poll() is None:
        time.sleep(POLL_S)
        run_s = time.time() - job["started"]
        if read(job["id"])["cancel"]:
            end_processes(mark, signal.SIGTERM)
            return {"state": "CCL", "codes": [0, 1, 0]}
        if run_s > limit_s:
            end_processes(mark, signal.SIGXCPU)
            return {
                "state": "EXT",
                "codes": [0, 11, signal.SIGXCPU],
                "reason": "ELAPSE LIMIT EXC",
            }
        if run_s > 0.5 and setting("NODE_DOWN") == job["name"]:
            happened("NODE_DOWN")
            end_processes(mark, signal.SIGKILL)
            return {"state": "EXT", "codes": [0, 20, 9], "reason": "NODE DOWN"}
        if run_s > 0.5 and setting("LOSE") == job["name"]:
            happened("LOSE")
            end_processes(mark, signal.SIGKILL)
            break
    code = process.wait()
    return {"state": "EXT", "codes": [code, 0, 0] if code >= 0 else [0, 0, -code]}


BRIEF = (
    "JOB_ID     JOB_NAME   MD ST  USER     START_DATE      ELAPSE_LIM            "
    "NODE_REQUIRE    VNODE  CORE V_MEM        "
)
VERBOSE = (
    "JOB_ID     JOB_NAME   MD ST  USER     GROUP    START_DATE      ELAPSE_TIM "
    "ELAPSE_LIM            NODE_REQUIRE    VNODE  CORE V_MEM        V_POL E_POL "
    "RANK      LST EC  PC  SN PRI ACCEPT         RSC_GRP  REASON          "
)


def date(when):
    """Return a time as pjstat prints it."""
    return time.strftime("%m/%d %H:%M:%S", time.localtime(when)) if when else "-"


def duration(time_s):
    """Return a duration as pjstat prints it."""
    return f"{int(time_s) // 3600:04}:{int(time_s) // 60 % 60:02}:{int(time_s) % 60:02}"


def row(job, verbose):
    """Return the line of a job."""
    shape = job["node"].split(":")[0]
    node = f"{job['n_nodes']}:{shape}" if "x" in shape else shape
    start = date(job["started"])
    if job["state"] == "QUE":
        start = f"({date(job['accepted'])[:-3]})"
    who = f"{job['name'][:10]:<10} NM {job['state']:<3} {'user1':<8}"
    needs = f"{duration(seconds(job['elapse']))} {node:>12}               -      -    -"
    if not verbose:
        return f"{job['id']:<10} {who} {start:<15} {needs}            "
    used_s = (job["ended"] or time.time()) - job["started"] if job["started"] else 0
    exit_code, pjm_code, number = job["codes"]
    return (
        f"{job['id']:<10} {who} {job['group'][:8]:<8} {start:<15} {duration(used_s)} "
        f"{needs}            -     -     bychip    {job['last_state']:<3} "
        f"{exit_code:<3} {pjm_code:<3} {number:<3}127 {date(job['accepted'])} "
        f"{job['resource_group'][:8]:<8} {job['reason'][:16]:<16}"
    )


def pjstat(arguments):
    """Print a table of waiting and running jobs, with -H of ended ones."""
    with locked(), (STATE / "pjstat-calls").open("a") as file:
        print(*arguments, file=file)
    if counted("PJSTAT_FAIL"):
        sys.exit("[ERR.] PJM 0003 pjstat Cannot communicate with the job manager.")
    if counted("PJSTAT_EMPTY"):
        return
    if counted("PJSTAT_GARBAGE"):
        print("<html>Service temporarily unavailable</html>")
        return
    history, verbose = "-H" in arguments, "-v" in arguments
    wanted = {int(word) for word in arguments if word.isdigit()}
    print(VERBOSE if verbose else BRIEF)
    for job in all_jobs():
        has_ended = job["state"] in ENDED
        is_asked_for = not wanted or job["id"] in wanted
        if has_ended != history or not is_asked_for or job["name"] == setting("LOSE"):
            continue
        if has_ended and job["name"] == setting("VANISH"):
            happened("VANISH")
            continue
        print(row(job, verbose))


def pjdel(arguments):
    """Cancel jobs."""
    exit_code = 0
    for job_id in map(int, arguments):
        known = (JOBS / f"{job_id}.json").exists()
        if known and read(job_id)["state"] not in ENDED:
            change(job_id, cancel=True)
            print(f"[INFO] PJM 0100 pjdel Accepted job {job_id}.")
        else:
            # The number is made up: public documents do not name it.
            print(
                f"[ERR.] PJM 0181 pjdel Job {job_id} does not exist.", file=sys.stderr
            )
            exit_code = 1
    sys.exit(exit_code)


if __name__ == "__main__":
    JOBS.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:2] == ["run"]:
        run(int(sys.argv[2]))
    else:
        {"pjsub": pjsub, "pjstat": pjstat, "pjdel": pjdel}[Path(sys.argv[0]).name](
            sys.argv[1:]
        )
