"""Which Darshan logs form a job, and of which of its processes each log is.

A log of several processes is a job. Programs without MPI leave one log a process, and
mostly no log names the others. Our tracer's do, in their metadata: `group`, `host`,
`pid`, `parents` and `rank`, and `process` and `program` of the process with which the
log counts, which may have no log. Darshan's have the process id in their names
(``idJOB-PID_...``), and those of forked processes their parent in the metadata
(`fork_parent`). Without a scheduler, Darshan's job id is the process id, of forked
processes that of their first parent.
"""

import math
import os
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path

from tierscope.core.words import count_words

START_WINDOW_S = 60  # in which the processes of a job start, if nothing else joins them
NO_PROCESS = -1

_PID = re.compile(r"_id-?\d+-(\d+)_")
_SHELLS = "bash|sh|dash|zsh"
_SHELL = re.compile(rf"-?({_SHELLS})$")
_INTERPRETER = re.compile(rf"-?(python|pypy|{_SHELLS}|perl|Rscript)[\d.]*$")
_SECONDS = re.compile(r"\d{1,11}\.\d{1,9}", re.ASCII)  # since 1970
# Letters of an interpreter's options behind which code stands, or a value.
_CODE = {"python": "c", "pypy": "c", "perl": "eE", "Rscript": "e"}
_VALUE = {"python": "WX", "pypy": "WX", "perl": "IMmi", "Rscript": ""}
_SHELL_VALUE = "oO"
_WITH_VALUE = {"--rcfile", "--init-file", "--check-hash-based-pycs"}
_CHILD = re.compile(r"from multiprocessing\.(spawn|forkserver|resource_tracker) import")
_UNKNOWN = "<unknown"  # Darshan writes <unknown args>
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")
_LONGEST_NAME = 100
_BY_PATTERN = "process "
_MOST_RANKS = 1 << 20  # a larger number is a name, and no rank


def command_times_s(metadata: Mapping[str, str]) -> tuple[float, float] | None:
    """Return when the command of a traced log began and ended, if its metadata say so.

    Seconds since 1970.
    """
    texts = [metadata.get(f"command_{what}", "") for what in ("began", "ended")]
    if not all(map(_SECONDS.fullmatch, texts)):
        return None
    began_s, ended_s = map(float, texts)
    return (began_s, ended_s) if began_s <= ended_s else None


@dataclass(frozen=True)
class LogFacts:
    """What a log says about its job; times are seconds since 1970.

    `has_io` says whether it has a record on a tier; a shell or another helper may have
    none. `user` is the name of the user, or the number.
    """

    path: Path
    uid: int
    job_id: int
    n_processes: int
    started_s: float
    ended_s: float
    exe: str
    metadata: Mapping[str, str]
    has_io: bool = True
    user: str = ""

    def order(self) -> tuple[float, int, str]:
        """Return a key that sorts by start; parents stand before their children."""
        pid = int(self.pid) if self.pid and self.pid.isdecimal() else 0
        return self.started_s, pid, str(self.path)

    @cached_property
    def pid(self) -> str | None:
        """The process id, of the metadata or the log's name."""
        if found := _PID.search(self.path.name):
            return self.metadata.get("pid", found[1])
        return self.metadata.get("pid")

    @cached_property
    def parents(self) -> list[str]:
        """Ids of parent processes, the nearest first, as far as they are known."""
        known = self.metadata.get("parents") or self.metadata.get("fork_parent", "")
        return known.split(",") if known else []

    @cached_property
    def interpreter(self) -> str:
        """The name of the executable file, such as ``python3``."""
        return os.path.basename(self.exe.partition(" ")[0])

    @cached_property
    def program(self) -> str:
        """The name of the program, such as ``train.py``; of a worker, its trainer's."""
        if known := self.metadata.get("program"):
            return known
        if not (found := _INTERPRETER.match(self.interpreter)):
            return self.interpreter
        # Darshan puts a blank between words; other blanks and breaks are within them.
        words = [word for word in self.exe.split(" ")[1:] if word]
        return os.path.basename(_script(found[1], words)) or self.interpreter

    @property
    def counts_with_another(self) -> bool:
        """Whether its tracer says that it counts with another process."""
        known = self.metadata.get("process")
        return known is not None and known.partition("-")[0] != self.pid

    @property
    def works(self) -> bool:
        """Whether it has I/O on a tier of its own, as no shell or tracker has."""
        is_helper = self.child_of_multiprocessing == "resource_tracker"
        return self.has_io and not is_helper and not _SHELL.match(self.interpreter)

    @cached_property
    def child_of_multiprocessing(self) -> str:
        """The part of Python's multiprocessing that it runs, or nothing."""
        found = _CHILD.search(self.exe)
        return found[1] if found else ""


@dataclass(frozen=True)
class LogGroup:
    """The logs of a job, by start; its name can be that of a folder.

    `stem` is the name before it was made different from those of other jobs. Of each
    log `processes` has its process, which may have several logs; `NO_PROCESS`
    for a helper, and 0, the first one, for a log of several processes.
    """

    name: str
    logs: tuple[Path, ...]
    processes: tuple[int, ...]
    n_processes: int
    grouped_by: str
    stem: str = ""


@dataclass(frozen=True)
class _Cluster:
    """Logs of a job, why they are together, and its name if the user has given one."""

    logs: list[LogFacts]
    because: str
    name: str = ""


def _script(interpreter: str, arguments: Iterable[str]) -> str:
    """Return the script or module that an interpreter runs; nothing if it runs code."""
    code = _CODE.get(interpreter, "c")
    with_value = _VALUE.get(interpreter, _SHELL_VALUE)
    words = iter(arguments)
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word in ("-", _UNKNOWN):
            return ""
        elif word[0] not in "-+":
            return word
        elif not word.startswith("--"):
            for at, letter in enumerate(word[1:], 2):
                rest = word[at:]
                if letter in code:
                    return ""
                if letter == "m" and interpreter in ("python", "pypy"):
                    return rest or next(words, "")
                if letter in with_value:
                    if not rest:
                        next(words, None)
                    break
    return ""


def group_logs(
    facts: Iterable[LogFacts], group: str | Mapping[str, str] = "auto"
) -> list[LogGroup]:
    """Return the jobs of some logs, by start.

    With ``one`` each log is a job. A mapping has regular expressions for the paths of
    logs of one process: `job` and, optionally, `process`. Their first group, or what
    they match if they have none, names the job and the process.
    """
    ordered = sorted(facts, key=LogFacts.order)
    process_of = None
    if group == "one":
        clusters = [_Cluster([log], "each log is a job") for log in ordered]
    elif isinstance(group, str):
        clusters = _by_facts(ordered)
    else:
        clusters = _by_pattern(ordered, name_finder(group["job"]))
        process_of = name_finder(group["process"]) if group.get("process") else None
    clusters.sort(key=lambda one: one.logs[0].order())
    taken: dict[str, int] = {}
    return [_as_group(cluster, taken, process_of) for cluster in clusters]


def name_finder(pattern: str) -> Callable[[Path], str | None]:
    """Return a function that finds the group of a pattern in a log's path."""
    compiled = re.compile(pattern)

    def find(path: Path) -> str | None:
        found = compiled.search(str(path))
        return found[1 if compiled.groups else 0] if found else None

    return find


def _by_pattern(
    logs: Sequence[LogFacts], job_of: Callable[[Path], str | None]
) -> list[_Cluster]:
    """Return the logs of one process by name of their job; others are alone."""
    named: dict[str, list[LogFacts]] = defaultdict(list)
    clusters = []
    for log in logs:
        name = job_of(log.path)
        if log.n_processes > 1:
            clusters.append(_Cluster([log], "one log of all processes", name or ""))
        elif name is None:
            clusters.append(_Cluster([log], "its path does not match the pattern"))
        else:
            named[name].append(log)
    return clusters + [_Cluster(logs, "pattern", name) for name, logs in named.items()]


# ---- Without a pattern


def _by_facts(logs: Sequence[LogFacts]) -> list[_Cluster]:
    """Return the jobs of logs, from what the logs say."""
    clusters = []
    traced: dict[str, list[LogFacts]] = defaultdict(list)
    numbered: dict[tuple[int, int], list[LogFacts]] = defaultdict(list)
    for log in logs:
        if log.n_processes > 1:
            clusters.append(_Cluster([log], "one log of all processes"))
        elif log.metadata.get("group"):
            traced[log.metadata["group"]].append(log)
        else:
            numbered[log.uid, log.job_id].append(log)
    clusters += [
        _Cluster(calls, "call of tierscope trace")
        for found in traced.values()
        for calls in _split_by_call(found)
    ]
    loose = []
    for found in numbered.values():
        runs = _split_by_time(found)
        if _is_numbered_by_process(found):
            loose += runs
        else:
            clusters += [_Cluster(run, "job id and time") for run in runs]
    return clusters + _by_program(loose)


def _split_by_call(logs: Sequence[LogFacts]) -> list[list[LogFacts]]:
    """Return logs of one launcher or step as runs that follow each other."""
    calls: dict[tuple[float, float, str], list[LogFacts]] = defaultdict(list)
    for log in logs:
        times_s = command_times_s(log.metadata) or (-math.inf, math.inf)
        calls[*times_s, log.metadata.get("rank", "")].append(log)
    runs: list[list[LogFacts]] = []
    ends_s: dict[str, float] = {}  # by rank, in the last run
    for (began_s, ended_s, rank), found in sorted(calls.items(), key=itemgetter(0)):
        # Each rank may call, so a run has many calls; a second one begins the next run.
        if not runs or began_s >= ends_s.get(rank, math.inf):
            runs.append([])
            ends_s = {}
        runs[-1] += found
        ends_s[rank] = ended_s
    return [sorted(run, key=LogFacts.order) for run in runs]


def _is_numbered_by_process(logs: Sequence[LogFacts]) -> bool:
    """Return whether logs of one job id have it from a process, not a scheduler."""
    job_id = str(logs[0].job_id)
    return any(job_id in (log.pid, log.metadata.get("fork_parent")) for log in logs)


class _Overlap:
    """Logs that overlap, when the first of them starts and the last one ends."""

    def __init__(self, logs: Sequence[LogFacts]):
        self.logs: list[LogFacts] = []
        self.started_s, self.ended_s = math.inf, -math.inf
        self.add(logs)

    def meets(self, log: LogFacts) -> bool:
        """Return whether a log that starts later overlaps.

        Old logs hold whole seconds: one that starts in the second in which all others
        end follows them, unless that is the second in which they start.
        """
        return log.started_s < self.ended_s or log.started_s == self.started_s

    def add(self, logs: Sequence[LogFacts]) -> None:
        """Add logs, and widen the time from the first start to the last end."""
        self.logs += logs
        self.started_s = min(self.started_s, *(log.started_s for log in logs))
        self.ended_s = max(self.ended_s, *(log.ended_s for log in logs))


def _split_by_time(logs: Sequence[LogFacts]) -> list[list[LogFacts]]:
    """Return logs, sorted by start, as runs that follow each other."""
    # A shell that runs one program after the other does not make them one run.
    working = {log.interpreter for log in logs if log.works}
    runs: list[_Overlap] = []
    helpers = []
    for log in logs:
        if working and not log.works and log.interpreter not in working:
            helpers.append(log)
        elif runs and runs[-1].meets(log):
            runs[-1].add([log])
        else:
            runs.append(_Overlap([log]))
    # The runs do not overlap, so the first that a helper meets is found by its end.
    ends_s = [run.ended_s for run in runs]
    alone = []
    for helper in helpers:
        at = bisect_left(ends_s, helper.started_s)
        if at < len(runs) and runs[at].logs[0].started_s <= helper.ended_s:
            runs[at].logs.append(helper)
        else:
            alone.append([helper])
    return [sorted(run.logs, key=LogFacts.order) for run in runs] + alone


def _by_program(families: Sequence[list[LogFacts]]) -> list[_Cluster]:
    """Return the jobs of families, which are processes with those they have forked."""
    because = "user, program and time, as no log names its job"
    runs: list[_Overlap] = []
    latest: dict[tuple[int, str], _Overlap] = {}
    for family in sorted(families, key=lambda logs: logs[0].started_s):
        first = family[0]
        keys = [(first.uid, f"program {first.program}")]
        if first.child_of_multiprocessing:  # Python started it anew
            keys = [(first.uid, f"interpreter {first.interpreter}")]
        elif not any(log.works for log in family):
            keys.append((first.uid, ""))
        for key in keys:
            joined = latest.get(key)
            if joined and _belongs(first, joined, is_alike=key == keys[0]):
                joined.add(family)
                break
        else:
            runs.append(_Overlap(family))
            names = first.program, first.interpreter
            for kind, name in zip(("program", "interpreter"), names, strict=True):
                latest[first.uid, f"{kind} {name}"] = runs[-1]
            latest[first.uid, ""] = runs[-1]
    return [
        _Cluster(
            sorted(logs, key=LogFacts.order),
            because if len({log.job_id for log in logs}) > 1 else "process that forked",
        )
        if len(logs) > 1
        else _Cluster(logs, "a log of its own")
        for logs in (run.logs for run in runs)
    ]


def _belongs(first: LogFacts, run: _Overlap, is_alike: bool) -> bool:
    """Return whether a family that starts with a log is of the same job as others."""
    if not run.meets(first):
        return False
    if first.child_of_multiprocessing or not is_alike:
        return True
    return first.started_s - run.logs[0].started_s <= START_WINDOW_S


# ---- Processes and names


def _as_group(
    cluster: _Cluster,
    taken: dict[str, int],
    process_of: Callable[[Path], str | None] | None,
) -> LogGroup:
    """Return a cluster with its name and processes."""
    logs = cluster.logs
    if logs[0].n_processes > 1:
        processes, remarks, n_processes = [0], [], logs[0].n_processes
    else:
        owners, remarks = _owners(logs, process_of)
        processes = _number(logs, owners, remarks)
        n_processes = max(processes) + 1
    stem = _NOT_IN_NAMES.sub("-", cluster.name or _name(logs))  # as a folder's can be
    stem = stem[:_LONGEST_NAME].lstrip(".-") or "job"
    return LogGroup(
        name=unused_name(stem, taken),
        logs=tuple(log.path for log in logs),
        processes=tuple(processes),
        n_processes=n_processes,
        grouped_by="; ".join([cluster.because, *remarks]),
        stem=stem,
    )


def _owners(
    logs: Sequence[LogFacts], process_of: Callable[[Path], str | None] | None
) -> tuple[list[int | str], list[str]]:
    """Return what identifies the process of each log: a rank or a text; and remarks."""
    if process_of:
        return _owners_by_pattern(logs, process_of)
    parents = nearest_parents(logs)
    ranks, firsts = ranks_and_firsts(logs, parents)
    owners: list[int | str] = []
    for log, rank, first in zip(logs, ranks, firsts, strict=True):
        if rank is not None:
            owners.append(rank)
        elif known := log.metadata.get("process"):
            owners.append(f"of {log.metadata.get('host')} {known}")
        else:
            owners.append(f"log {first}")
    return owners, _remarks(logs, parents, owners)


def ranks_and_firsts(
    logs: Sequence[LogFacts], parents: Sequence[int | None]
) -> tuple[list[int | None], list[int]]:
    """Return the rank of each log's process, and the position of whom it counts with.

    Logs are sorted by start. A rank is what a launcher has given the process or the
    nearest parent that has one. A worker counts with its trainer, others with
    themselves.
    """
    workers = _workers(logs, parents)
    ranks: list[int | None] = []
    firsts: list[int] = []
    for i, (log, parent) in enumerate(zip(logs, parents, strict=True)):
        own = log.metadata.get("rank", "")
        inherited = None if parent is None else ranks[parent]
        is_rank = own.isdecimal() and int(own) < _MOST_RANKS
        ranks.append(int(own) if is_rank else inherited)
        firsts.append(firsts[parent] if i in workers else i)
    return ranks, firsts


def _owners_by_pattern(
    logs: Sequence[LogFacts], process_of: Callable[[Path], str | None]
) -> tuple[list[int | str], list[str]]:
    """Return the process that a pattern finds; numbers from 0 on are ranks."""
    found = [process_of(log.path) for log in logs]
    named = {name for name in found if name is not None}
    remarks = ["processes by pattern"]
    if others := found.count(None):
        each = "log does not match it: it is", "logs do not match it: each is"
        remarks.append(f"{count_words(others, *each)} a process")
    are_ranks = all(map(str.isdecimal, named)) and "0" in {
        name.lstrip("0") or "0" for name in named
    }
    are_ranks = are_ranks and max(map(int, named)) < _MOST_RANKS
    return [
        f"log {i}" if name is None else int(name) if are_ranks else _BY_PATTERN + name
        for i, name in enumerate(found)
    ], remarks


def nearest_parents(logs: Sequence[LogFacts]) -> list[int | None]:
    """Return the position of the log of each process's nearest parent that has one.

    The logs are in the order of `LogFacts.order`.
    """
    positions: dict[tuple[str | None, str | None], list[int]] = defaultdict(list)
    for i, log in enumerate(logs):
        positions[log.metadata.get("host"), log.pid].append(i)

    def nearest(at: int) -> int | None:
        host = logs[at].metadata.get("host")
        for pid in logs[at].parents:
            for i in reversed(positions.get((host, pid), [])):
                if i < at:  # ids come again; the latest before
                    return i
        return None

    return [nearest(at) for at in range(len(logs))]


def _workers(logs: Sequence[LogFacts], parents: Sequence[int | None]) -> set[int]:
    """Return the positions of logs that are of a worker of their parent."""
    alike = {
        i
        for i, parent in enumerate(parents)
        if parent is not None and _is_like(logs[i], logs[parent])
    }
    # One with children like itself is no worker; every process may have a tracker.
    with_workers = {
        parents[i]
        for i in alike
        if logs[i].child_of_multiprocessing != "resource_tracker"
    }
    return {
        i
        for i in alike
        if i not in with_workers
        or logs[i].child_of_multiprocessing in ("forkserver", "resource_tracker")
    }


def _is_like(log: LogFacts, parent: LogFacts) -> bool:
    """Return whether a process runs its parent's program."""
    return (log.exe == parent.exe != "") or bool(
        log.child_of_multiprocessing and log.interpreter == parent.interpreter
    )


def _remarks(
    logs: Sequence[LogFacts],
    parents: Sequence[int | None],
    owners: Sequence[int | str],
) -> list[str]:
    """Return what must be known about the processes of logs, in words."""
    remarks = []
    if any(isinstance(owner, int) for owner in owners):
        remarks.append("ranks of the launcher")
    with_own_log = {
        owner
        for log, owner in zip(logs, owners, strict=True)
        if isinstance(owner, int) or not log.counts_with_another
    }
    if n_joined := len(owners) - len(with_own_log):
        each = "log of a worker counts with its", "logs of workers count with their"
        remarks.append(f"{count_words(n_joined, *each)} process")
    if any("process" in log.metadata for log in logs):
        return remarks
    lost = sum(
        log.child_of_multiprocessing in ("spawn", "forkserver") and parent is None
        for log, parent in zip(logs, parents, strict=True)
    )
    if lost and len(set(owners)) > 1 and not remarks:
        each = "log is of a worker", "logs are of workers"
        remarks.append(
            f"{count_words(lost, *each)}, and none names its trainer: each is a process"
        )
    elif len(set(owners)) > 1 and not remarks and not any(log.parents for log in logs):
        remarks.append("workers cannot be told from trainers: each log is a process")
    return remarks


def _number(
    logs: Sequence[LogFacts], owners: Sequence[int | str], remarks: list[str]
) -> list[int]:
    """Return the number of each log's process; helpers get none, and a remark."""
    working = {owner for log, owner in zip(logs, owners, strict=True) if log.works}
    programs = {log.program for log in logs if log.works}
    kept = {
        owner
        for log, owner in zip(logs, owners, strict=True)
        if owner in working
        or not working
        or isinstance(owner, int)
        or (log.program in programs and not log.child_of_multiprocessing)
    }
    ranks = {owner for owner in kept if isinstance(owner, int)}
    numbers: dict[int | str, int] = {rank: rank for rank in ranks}
    named = kept - ranks
    others = [owner for owner in dict.fromkeys(owners) if owner in named]
    for number, owner in enumerate(
        sorted(others, key=_natural), max(ranks, default=-1)
    ):
        numbers[owner] = number + 1
    processes = [numbers.get(owner, NO_PROCESS) for owner in owners]
    if n_helpers := processes.count(NO_PROCESS):
        remarks.append(count_words(n_helpers, "log of a helper", "logs of helpers"))
    return processes


def _natural(owner: str) -> tuple[bool, list[tuple[bool, int, str]]]:
    """Return a key that sorts patterns' names by the numbers in them, before others."""
    if not owner.startswith(_BY_PATTERN):
        return True, []
    parts = re.split(r"(\d+)", owner)
    return False, [
        (part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts
    ]


def _name(logs: Sequence[LogFacts]) -> str:
    """Return the name of a job: the program of most of its logs, and its id."""
    main = [
        log
        for log in logs
        if not log.child_of_multiprocessing or log.metadata.get("program")
    ] or logs
    working = [log for log in main if log.works] or main
    (program, _), *_ = Counter(log.program for log in working).most_common(1)
    return f"{program}-{working[0].job_id}"


def unused_name(name: str, taken: dict[str, int]) -> str:
    """Return a name for a folder that no other job has, and take it.

    `taken` has the number of the last job by name; it saves trying all of them.
    """
    unused, number = name, taken.get(name, 0) + 1
    if number > 1:
        unused = f"{name}-{number}"
    while unused in taken:
        number += 1
        unused = f"{name}-{number}"
    taken[name] = number
    taken.setdefault(unused, 1)
    return unused
