"""Run tiny experiments under a seeded list of faults, and count what becomes of them.

    python tests/tools/chaos.py [--faults 60] [--seed 1] [--kinds files,policy]

A fault happens at the n-th open, write or rename below `results` and `scratch`, in
whatever process (`tests/faults/chaos.c`), or between two starts. It meets one job,
which starts from a copy of the state before it, or a whole experiment. One more start
asks for the same target. It must finish with the values of an undisturbed run, or stop
with one line that says what to do.
"""

import argparse
import contextlib
import errno
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "workflow" / "scripts")]

import pandas as pd
import shared
import warm_python
import yaml
from integration.conftest import Project
from job_logs import write_job_log
from sessions import processes_in
from tierscope.core.files import is_torn

_PLAN = struct.Struct("=3q7q1024s1024s1024s")  # as `chaos.c` has it
_OPS = ("open", "write", "rename")
_START_S = 600  # a start that takes longer hangs
_GRACE_S = 30  # of a scheduler, between SIGTERM and SIGKILL
# What the last line of a start that is refused tells its user to do.
_SAYS = re.compile(r"\b(delete|remove|rm|start again|free|wait until|give)\b", re.I)
_SAYS_NOTHING = "Finished files are kept"  # of how to go on after any failure
_WELL = "exit 0"
_COPIES = ("policy", "program")  # if a copy fails, these read the GFS and go on
FINISHED, SAID, REFUSED, WRONG = "finished", "said", "refused", "wrong"


# ---- experiments ---------------------------------------------------------------------


@dataclass(frozen=True)
class Experiment:
    """A tiny experiment: how it is made, and the targets of its jobs in their order.

    Times of real directories differ from run to run (`is_timed`), and so do not count.
    """

    make: Callable[[Project], None]
    jobs: dict[str, list[str]]
    is_timed: bool = False


def _config(project: Project, path: str, values: dict) -> None:
    (project.folder / path).write_text(yaml.safe_dump(values))


def _files(project: Project) -> None:
    """Change the experiment of the tests to two points on emulated devices."""
    sweep = {"datasets": ["tiny"], "n_osts": [60], "loaders": ["posix"]}
    project.change(
        "config/tiny.yaml", {"sweep": sweep | {"cache_rates_percent": [0, 50]}}
    )


def _policy(project: Project) -> None:
    """Change it to a policy that copies what is read, on emulated devices."""
    swept = {"datasets": ["tiny"], "n_osts": [60], "loaders": ["posix"]}
    swept |= {"policies": ["lru"], "cache_rates_percent": [50]}
    scenario = {"dataset": "tiny", "n_osts": 60, "policy": "lru", "loader": "posix"}
    values = {"sweep": swept, "figures": {"scenario": scenario}}
    project.change("config/tiny.yaml", values)


_READ_ALL = """
import os, sys
folder = sys.argv[1]
for epoch in (0, 1):
    try:
        os.open(f"{folder}/.tierscope-epoch-{epoch}", os.O_RDONLY)
    except FileNotFoundError:
        pass
    for top, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            with open(f"{top}/{name}", "rb", buffering=0) as file:
                while file.read(4096):
                    pass
"""


def _program(project: Project) -> None:
    """Make a program of plain Python that reads all files in two epochs."""
    (project.folder / "read_all.py").write_text(_READ_ALL)
    values = {
        "experiment": "tiny",
        "system": "one-process",
        "sweep": {
            "datasets": ["tiny"],
            "cache_rates_percent": [50],
            "repetitions": 1,
        },
        "datasets": {"tiny": {"n_files": 16, "file_size_bytes": 4096}},
        "loader": {"command": [sys.executable, "read_all.py", "{dataset}"]},
    }
    _config(project, "config/tiny.yaml", values)


def _logs(project: Project) -> None:
    """Make logs of two years, which are two chunks, and one that is damaged."""
    logs = project.folder / "job logs"
    for number in range(8):
        row = {"opens": 1, "reads": 2, "bytes_read": 100, "read_s": 1.0 + number}
        write_job_log(
            logs / f"anna_train_id{number}_11-1-{number}-1.darshan",
            [("POSIX", rank, f"/gfs/{rank}", row) for rank in range(2)],
            n_processes=2,
            job_id=number,
            ended_s=1_790_000_100.0 - 40_000_000 * (number % 2),
        )
    (logs / "empty.darshan").touch()
    values = {"logs": ["job logs"], "tiers": {"gfs": "/gfs"}, "pages": 1}
    _config(project, "config/tiny.yaml", {"experiment": "tiny"} | values)


def _study(project: Project) -> None:
    """Make a study of few designs and steps; CHAOS_STUDY names another file."""
    if path := os.environ.get("CHAOS_STUDY"):
        shutil.copy(path, project.folder / "config" / "tiny.yaml")
        return
    study = {"workloads": ["paper_small"], "compute_time_s": {"paper_small": 1}}
    study |= {"choices": {"accelerators": {"most": 4}, "cache_rates_percent": [0, 50]}}
    values = {
        "experiment": "tiny",
        "system": "fugaku",
        "designs": study | {"steps": 10},
    }
    _config(project, "config/tiny.yaml", values)


_R = "results/tiny"
EXPERIMENTS = {
    "files": Experiment(
        _files,
        {
            "dataset": [f"{_R}/datasets/tiny-60ost.parquet"],
            "run": ["audits"],
            "tables": [f"{_R}/tables/breakdown.parquet"],
            "figure": ["fig2"],
        },
    ),
    "policy": Experiment(
        _policy,
        {
            "dataset": [f"{_R}/datasets/tiny-60ost.parquet"],
            "run": ["audits"],
            "tables": [f"{_R}/tables/io_time.parquet"],
        },
    ),
    "program": Experiment(
        _program,
        {
            "run": ["audits"],
            "tables": [f"{_R}/tables/io_time.parquet"],
        },
        is_timed=True,
    ),
    "logs": Experiment(
        _logs,
        {"tables": [f"{_R}/tables/jobs.parquet"], "pages": ["analyse"]},
    ),
    "study": Experiment(
        _study,
        {"tables": [f"{_R}/tables/designs.parquet"], "pages": ["designs"]},
    ),
}


# ---- faults --------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """What happens at the n-th call of some kinds; numbers are those of `chaos.c`."""

    action: int
    ops: tuple[str, ...] = _OPS
    error: int = 0
    goes_on: bool = False


FAULTS = {
    "kill -9 of the process": Fault(2),
    "kill -9 of snakemake": Fault(3),
    "kill -9 of all": Fault(5),
    "SIGTERM": Fault(4),
    "torn write, kill -9 of all": Fault(6, ("write",)),
    "ENOSPC": Fault(1, ("open", "write"), errno.ENOSPC, True),
    "EDQUOT": Fault(1, ("open", "write"), errno.EDQUOT, True),
    "EROFS": Fault(1, ("open", "rename"), errno.EROFS, True),
    "EIO": Fault(1, _OPS, errno.EIO),
    "ESTALE": Fault(1, ("open", "write"), errno.ESTALE),
    "EMFILE": Fault(1, ("open",), errno.EMFILE),
    "torn file": Fault(0),
    "deleted results": Fault(0),
}
TORN, DELETED = "torn file", "deleted results"


def damage(project: Project, name: str, rng: Random) -> str:
    """Damage results between two starts; return which files."""
    results = project.path()
    files = sorted(path for path in results.rglob("*") if path.is_file())
    if name == TORN:
        path = rng.choice([path for path in files if path.stat().st_size])
        kept = rng.choice([0, path.stat().st_size // 2])
        path.chmod(0o600)
        os.truncate(path, kept)
        return f"{path.relative_to(results)} cut to {kept} bytes"
    files.sort(key=lambda path: path.stat().st_mtime_ns)
    gone = rng.choice([files[: len(files) // 2], rng.sample(files, len(files) // 2)])
    for path in gone:
        path.unlink()
    return f"{len(gone)} of {len(files)} files"


# ---- starts --------------------------------------------------------------------------


@dataclass
class Plan:
    """The file that tells `chaos.c` what to do, and what it has counted."""

    path: Path
    fault: Fault | None
    op: str = "open"
    nth: int = 0

    def write(self, project: Project, starter: int = 0) -> None:
        """Write it anew, or add the process that signals are for."""
        fault = self.fault or Fault(0)
        numbers = _OPS.index(self.op), self.nth, fault.action, fault.error
        folders = (
            f"{project.folder}/{one}/".encode() for one in ("results", "scratch")
        )
        packed = _PLAN.pack(0, 0, 0, *numbers, fault.goes_on, starter, 0, *folders, b"")
        if starter:
            with self.path.open("r+b") as file:  # others count meanwhile
                file.seek(64)
                file.write(struct.pack("=q", starter))
        else:
            self.path.write_bytes(packed)

    def read(self) -> tuple[dict[str, int], bool, str]:
        """Return the calls by kind, whether it happened, and at which file."""
        values = _PLAN.unpack(self.path.read_bytes())
        where = values[-1].split(b"\0")[0].decode("utf-8", "replace")
        return dict(zip(_OPS, values[:3], strict=True)), bool(values[9]), where


@dataclass
class Chaos:
    """Where experiments are kept, and how commands are started in them."""

    folder: Path
    library: Path
    made: dict[str, "Kept"] = field(default_factory=dict)

    def start(
        self, project: Project, targets: list[str], plan: Plan
    ) -> tuple[int, str]:
        """Start a target under a plan; return exit status and output."""
        plan.write(project)
        environment = project.environment | {
            "LD_PRELOAD": str(self.library),
            "CHAOS": str(plan.path),
        }
        log = self.folder / "output.txt"
        with log.open("w") as output:
            command = project.command(*targets, config="config/tiny.yaml")
            process = subprocess.Popen(
                command,
                cwd=project.folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            plan.write(project, process.pid)
            code = self._watch(project, process, plan)
        return code, log.read_text(errors="replace")

    def _watch(self, project: Project, process: subprocess.Popen, plan: Plan) -> int:
        """Wait for the end; kill all where the plan wants it, or after its grace."""
        action = plan.fault.action if plan.fault else 0
        end_s, since_s = time.monotonic() + _START_S, None
        while process.poll() is None:
            time.sleep(0.05)
            now_s = time.monotonic()
            if action in (4, 5, 6) and plan.read()[1]:
                since_s = since_s or now_s
            grace_s = _GRACE_S if action == 4 else 0
            if now_s > end_s or (since_s and now_s - since_s > grace_s):
                kill_all(project)
        if action in (5, 6):
            kill_all(project)
        return process.wait()


def kill_all(project: Project) -> None:
    """Kill every process that works in a project's folder, as a node that is off."""
    while found := processes_in(project.folder):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
        if all(_is_dead(pid) for pid in found):
            return


def _is_dead(pid: int) -> bool:
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        )
    except OSError:
        return True


def again(project: Project, targets: list[str]) -> tuple[int, str]:
    """Start a target once more, without a fault."""
    process = warm_python.fork(
        project.command(*targets, config="config/tiny.yaml"),
        project.folder,
        project.environment,
    )
    try:
        output, _ = process.communicate(timeout=_START_S)
    except subprocess.TimeoutExpired:
        kill_all(project)
        return -1, "hangs"
    return process.returncode, output


# ---- undisturbed runs, and comparison ------------------------------------------------


@dataclass
class Kept:
    """An experiment before and after each of its jobs, and what calls they make."""

    chaos: Chaos
    name: str

    @property
    def experiment(self) -> Experiment:
        return EXPERIMENTS[self.name]

    @cached_property
    def states(self) -> dict[str, tuple[Project, Project, dict[str, int]]]:
        """Return by job the project before it and after it, and its calls."""
        folder = self.chaos.folder / self.name
        folder.mkdir()
        (folder / "before").mkdir()
        project = first = Project(folder / "before")
        self.experiment.make(project)
        found = {}
        for job, targets in self.experiment.jobs.items():
            before, project = project, project.copied_to(folder / job)
            plan = Plan(self.chaos.folder / "plan", None)
            code, output = self.chaos.start(project, targets, plan)
            if code:
                raise SystemExit(f"{self.name}, {job}: fails undisturbed\n{output}")
            found[job] = before, project, plan.read()[0]
        calls = Counter()
        for *_, counts in found.values():
            calls.update(counts)
        return found | {"all": (first, project, dict(calls))}

    def targets(self, job: str, fault: Fault) -> list[str]:
        """Return what to ask for; files of earlier jobs, too, where some are lost."""
        jobs = self.experiment.jobs
        if fault.action and job != "all":
            return jobs[job]
        some = [*jobs][: [*jobs, "all"].index(job) + 1]
        return [target for one in some for target in jobs[one]]

    def differences(self, project: Project, job: str) -> Iterator[str]:
        """Yield what differs from the state after an undisturbed job."""
        wanted = self.states[job][1].path()
        found = project.path()
        for path in sorted(wanted.rglob("*")):
            name = path.relative_to(wanted)
            # A launch that fails after its runs are finished leaves no marker, and only
            # a launch reads what describes its scenario, or makes it again.
            of_launches = name.parts[0] == "launches" or name.name == "scenario.json"
            if path.is_dir() or of_launches or name.parts[0] == "logs":
                continue
            if not (found / name).is_file():
                if path.suffix in (".parquet", ".json", ".svg", ".html", ".txt"):
                    yield f"{name} is missing"
            elif is_torn(found / name):
                yield f"{name} is torn"
            elif path.suffix == ".parquet":
                yield from self._of_tables(path, found / name, str(name))

    def _of_tables(self, path: Path, other: Path, name: str) -> Iterator[str]:
        """Yield the columns in which two tables differ."""
        wanted = pd.read_parquet(path)
        try:
            found = pd.read_parquet(other)
        except (OSError, ValueError) as error:
            yield f"{name}: cannot be read: {error}"
            return
        if [*wanted] != [*found] or len(wanted) != len(found):
            yield f"{name}: got {found.shape}, expected {wanted.shape}"
            return
        columns = [
            column
            for column in wanted
            if not _is_of_this_run(column, self.experiment.is_timed, wanted[column])
        ]
        # Logs are kept in the order in which they were read.
        wanted, found = (
            one[columns].sort_values(columns, ignore_index=True)
            for one in (wanted, found)
        )
        for column in columns:
            if not wanted[column].equals(found[column]):
                yield f"{name}: column {column} differs"


def _is_of_this_run(column: str, is_timed: bool, values: pd.Series) -> bool:
    """Return whether values of a column differ from run to run."""
    # Folders, dates, and which run was the newest.
    if column in ("mtime_ns", "log", "path", "job", "prefix", "run"):
        return True
    # On directories counts, bytes and decisions are equal, but not words about times.
    of_times = ("pid", "rchar", "wchar", "read_bytes", "write_bytes", "answer", "words")
    return is_timed and (values.dtype.kind == "f" or column in of_times)


# ---- the list ------------------------------------------------------------------------


@dataclass
class Trial:
    """A fault of the list, and what became of it."""

    number: int
    kind: str
    job: str
    fault: str
    op: str = ""
    nth: int = 0
    happened: bool = False
    where: str = ""
    first: str = ""
    outcome: str = ""
    words: str = ""
    took_s: float = 0.0


def faults_of(n_faults: int, seed: int, kinds: list[str]) -> list[Trial]:
    """Return the list: each kind of fault in turn, on each kind of job in turn."""
    rng = Random(seed)
    jobs = [(kind, job) for kind in kinds for job in EXPERIMENTS[kind].jobs]
    whole = [(kind, "all") for kind in kinds for _ in range(2)]
    places = whole + [jobs[number % len(jobs)] for number in range(n_faults)]
    rng.shuffle(places)
    places = [*places[:n_faults]]
    lost = [one for one in whole if places.count(one) < 2]
    places[: len(lost)] = lost
    names = [*FAULTS]
    return [
        Trial(number, kind, job, names[number % len(names)])
        for number, (kind, job) in enumerate(places)
    ]


def last_lines(output: str) -> str:
    """Return what a start that failed says last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[:600]


def try_fault(chaos: Chaos, trial: Trial, seed: int) -> None:
    """Let a fault happen, start once more, and judge."""
    rng = Random(seed * 1000 + trial.number)
    kept = chaos.made.setdefault(trial.kind, Kept(chaos, trial.kind))
    before, after, calls = kept.states[trial.job]
    fault = FAULTS[trial.fault]
    targets = kept.targets(trial.job, fault)
    began_s, first = time.monotonic(), ""
    if trial.fault in (TORN, DELETED):
        project = _anew(after, chaos)
        trial.where, trial.happened = damage(project, trial.fault, rng), True
    else:
        trial.op = rng.choice([op for op in fault.ops if calls[op]])
        trial.nth = rng.randint(1, calls[trial.op])
        while trial.nth and not trial.happened:  # a start may make fewer calls
            project = _anew(before, chaos)
            first = _disturb(chaos, trial, project, targets)
            trial.nth -= (not trial.happened) * -(-trial.nth // 4)
    code, output = again(project, targets)
    (chaos.folder / f"again-{trial.number}.txt").write_text(output)
    trial.took_s = round(time.monotonic() - began_s, 1)
    if code:
        trial.outcome, trial.words = judge_failure(output)
    else:
        differences = [*kept.differences(project, trial.job)]
        may_fall_back = trial.kind in _COPIES and trial.first == _WELL
        told = first if may_fall_back else ""
        trial.outcome = judge_values(differences, fault, told)
        trial.words = "; ".join(differences[:5])


def judge_failure(output: str) -> tuple[str, str]:
    """Return what a start is that fails after a fault, and what it says last."""
    *_, last = ["", *filter(None, map(str.strip, output.splitlines()))]
    says = _SAYS.search(last) and _SAYS_NOTHING not in last
    is_refused = says and "Traceback" not in output
    return REFUSED if is_refused else WRONG, last_lines(output)


def judge_values(differences: list[str], fault: Fault, told: str) -> str:
    """Return what a start is that ends well, by how its values differ.

    `told` is what the start under the fault has said, if it ended well, too.
    """
    if not differences:
        return FINISHED
    # Such as a copy that failed, so that the GFS was read.
    return SAID if fault.error and os.strerror(fault.error) in told else WRONG


def _anew(state: Project, chaos: Chaos) -> Project:
    """Return a copy of a state in place of the last one."""
    shutil.rmtree(chaos.folder / "now", ignore_errors=True)
    return state.copied_to(chaos.folder / "now")


def _disturb(chaos: Chaos, trial: Trial, project: Project, targets: list[str]) -> str:
    """Start under the fault, note what became of that start, and return its output."""
    plan = Plan(chaos.folder / "plan", FAULTS[trial.fault], trial.op, trial.nth)
    code, output = chaos.start(project, targets, plan)
    (chaos.folder / f"first-{trial.number}.txt").write_text(output)
    _, trial.happened, where = plan.read()
    trial.where = where.removeprefix(f"{project.folder}/")
    trial.first = f"exit {code}: {last_lines(output)}" if code else _WELL
    if "Traceback (most recent" in output:
        trial.first = f"TRACEBACK {trial.first}"
    return output


def table_of(trials: list[Trial]) -> list[str]:
    """Return the lines of a table of faults in Markdown."""
    lines = [
        "|fault|tried|finished|said by the run|refused|wrong|",
        "|---|---|---|---|---|---|",
    ]
    for name in [*FAULTS, None]:
        some = [one for one in trials if name in (one.fault, None)]
        found = Counter(one.outcome for one in some)
        counts = (found[outcome] for outcome in (FINISHED, SAID, REFUSED, WRONG))
        lines.append(f"|{'|'.join(map(str, (name or 'all', len(some), *counts)))}|")
    return lines


def main() -> None:
    """Run the list, or some of it; the results are in FOLDER/chaos.json."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(EXPERIMENTS))
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the list")
    parser.add_argument("--folder", type=Path, default=Path("results/chaos"))
    given = parser.parse_args()
    folder = given.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    library = folder / "libchaos.so"
    source = TESTS / "faults" / "chaos.c"
    flags = ["-O2", "-shared", "-fPIC", "-o", library]
    subprocess.run(["cc", *flags, source], check=True)
    shared.begin()
    chaos, trials = Chaos(folder, library), []
    try:
        for trial in faults_of(given.faults, given.seed, given.kinds.split(",")):
            if given.only and trial.number not in given.only:
                continue
            try_fault(chaos, trial, given.seed)
            trials.append(trial)
            print(
                f"{trial.number}: {trial.kind}, {trial.job}, {trial.fault} "
                f"({trial.op} {trial.nth}, {trial.where}): {trial.outcome} "
                f"{trial.words} [{trial.took_s} s; {trial.first}]",
                flush=True,
            )
            content = json.dumps([vars(one) for one in trials], indent=1)
            (folder / "chaos.json").write_text(content + "\n")
    finally:
        shared.end()
    print("\n".join(table_of(trials)))
    sys.exit(any(one.outcome == WRONG for one in trials))


if __name__ == "__main__":
    main()
