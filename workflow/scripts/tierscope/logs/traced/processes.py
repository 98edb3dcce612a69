"""What processes a traced command had, and one Darshan log of each that made calls.

``workflow/native/trace`` appends a line to a file for each start, spool and end of a
process, for its foreign libraries, and for programs that escape: the event, its process
id, its parent's, when the kernel started it, the time in nanoseconds since 1970, its
rank, and a detail. A folder a host holds this file and the spools. A process that
executes another program goes on as the same process.
"""

import hashlib
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tierscope.core.certificate import Interference
from tierscope.core.files import read_regular
from tierscope.core.given.secrets import without_secrets
from tierscope.core.words import as_bytes, as_text, error_words
from tierscope.logs.grouping import LogFacts, nearest_parents, ranks_and_firsts
from tierscope.logs.traced.call import EVENTS, Call, Identity, ticks_of
from tierscope.logs.traced.certificate import ProcessReads, bytes_by_file_system
from tierscope.logs.traced.escapes import Escape
from tierscope.trace.darshan.container import LogError
from tierscope.trace.darshan.module_records import STDIO_RECORD
from tierscope.trace.log_writer import METADATA_BYTES, LoggedJob, write_log
from tierscope.trace.posix_records import END_TIMES, START_TIMES
from tierscope.trace.spool import Spool, join_spools, open_spool

# The first that any process has says the ranks: those inside it inherit the others.
RANK_VARIABLES = (
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
)
_STREAM_MARK = b"\1"  # before the path of a file used as a stream
_OTHER_MARK = b"\2"  # before the name of a sum of calls on files of no tier
# Counters of such a record that STDIO calls otherwise.
_STREAM_COUNTERS = {"STDIO_FDOPENS": "POSIX_DUPS", "STDIO_FLUSHES": "POSIX_FSYNCS"}
_MOST_PARENTS, _LONGEST_PROGRAM = 30, 100  # the metadata of a log has 1023 bytes
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.+-]+")
_MOST_EVENTS_BYTES = 1 << 28  # a million events
_EVENT = re.compile(
    r"(\w+) (\d{1,10}) (\d{1,10}) (\d{1,20}) (\d{1,19}) (-|\w+=\d{1,9}) (.*)", re.ASCII
)
_NUMBER = re.compile(r"[0-9]{1,19}")
_SPOOL = re.compile(
    r"rank-[0-9]+\.[0-9]+\.[0-9]+\.spool"
)  # in the folder of the events
_LIBRARIES = re.compile(r"(\d+)/([^/]*)/([^/]*)/([^/]*)")


class Libraries(NamedTuple):
    """Foreign libraries of a process.

    `n_preloaded` were preloaded, `preloaded` names those whose names had room. `before`
    and `behind` are those whose `posix_fadvise` stands before and behind the tracer's.
    """

    n_preloaded: int = 0
    preloaded: tuple[str, ...] = ()
    before: str = ""
    behind: str = ""


NO_LIBRARIES = Libraries()


@dataclass(frozen=True)
class TracedProcess:
    """A process of a traced command; times are nanoseconds since 1970.

    Its start in the kernel's `ticks` tells processes with one id apart. `launched_as`
    is what its launcher calls it, such as ``RANK=3``, or ``-``. No spools: it recorded
    no call on a traced path. `loss` says why the tracer could not start in it.
    `device_bytes` are what block devices have read for it; None: it did not tell. What
    it executed, or what it became, may not have loaded the tracer: `escapes`.
    """

    host: str
    pid: int
    parent: int
    ticks: int
    started_ns: int
    ended_ns: int | None
    launched_as: str
    exe: str
    spools: tuple[Path, ...]
    loss: str = ""
    libraries: Libraries = NO_LIBRARIES
    device_bytes: int | None = None
    escapes: tuple[Escape, ...] = ()

    @property
    def identity(self) -> Identity:
        """Return what no other process has."""
        return self.host, self.pid, self.ticks

    def still_runs(self) -> bool:
        """Return whether this process of this host has not ended."""
        if self.ended_ns is not None or self.host != os.uname().nodename:
            return False
        return ticks_of(self.pid) == self.ticks


def read_processes(spool_dir: Path) -> list[TracedProcess]:
    """Return the processes of all hosts that have traced into a folder, by start.

    An OSError names a file of events that cannot be read. Processes with other users
    may write there.
    """
    processes = []
    for events in sorted(spool_dir.glob(f"*/{EVENTS}")):
        content = as_text(read_regular(events, _MOST_EVENTS_BYTES))
        stories: dict[tuple[str, str], list[Sequence[str]]] = {}
        for line in content.split("\n")[:-1]:
            if event := _EVENT.fullmatch(line):  # a full disk may have cut one
                stories.setdefault(event.group(2, 4), []).append(event.groups())
        processes += [_process(events.parent, story) for story in stories.values()]
    return sorted(processes, key=lambda one: (one.started_ns, one.host, one.pid))


def _process(folder: Path, story: Sequence[Sequence[str]]) -> TracedProcess:
    """Return the process of some events."""
    _, pid, parent, ticks, started_ns, _, _ = story[0]
    told: dict[str, list[str]] = defaultdict(list)
    for event in story:
        told[event[0]].append(event[6])
    has_ended = story[-1][0] == "end"
    ranks = [event[5] for event in story if event[5] != "-"]
    return TracedProcess(
        host=folder.name,
        pid=int(pid),
        parent=int(parent),
        ticks=int(ticks),
        started_ns=int(started_ns),
        ended_ns=int(story[-1][4]) if has_ended else None,
        launched_as=ranks[-1] if ranks else "-",
        exe=told["start"][-1].strip() if told["start"] else "",
        spools=tuple(folder / name for name in told["spool"] if _SPOOL.fullmatch(name)),
        loss=next(iter(told["loss"]), ""),
        libraries=_libraries(told["libraries"]),
        device_bytes=int(story[-1][6])
        if has_ended and _NUMBER.fullmatch(story[-1][6])
        else None,
        escapes=tuple(filter(None, map(Escape.told, told["escape"]))),
    )


def _libraries(told: Sequence[str]) -> Libraries:
    """Return the libraries of all programs that a process has executed."""
    found = [one.groups() for one in map(_LIBRARIES.fullmatch, told) if one]
    names = dict.fromkeys(
        name for _, some, _, _ in found for name in some.split(":") if name
    )
    return Libraries(
        max((len(names), *(int(n) for n, *_ in found))),
        tuple(names),
        *(next((one[i] for one in found if one[i]), "") for i in (2, 3)),
    )


def parents_of(processes: Sequence[TracedProcess]) -> list[list[int]]:
    """Return the ids of each process's parents among some, the nearest first.

    The kernel gives ids again, so a parent is the latest process with its id that
    started before. Processes are sorted by start.
    """
    latest: dict[tuple[str, int], list[int]] = {}
    all_parents = []
    for process in processes:
        parents = latest.get((process.host, process.parent), [])
        all_parents.append(parents)
        latest[process.host, process.pid] = [process.pid, *parents][:_MOST_PARENTS]
    return all_parents


def ranks_of(processes: Sequence[TracedProcess]) -> dict[TracedProcess, int]:
    """Return the rank of each process that a launcher has given one.

    Launchers may be nested. So of the variables that processes have, only the first of
    `RANK_VARIABLES` counts: that of the inner launcher.
    """
    for name in RANK_VARIABLES:
        prefix = f"{name}="
        ranks = {
            one: int(one.launched_as.removeprefix(prefix))
            for one in processes
            if one.launched_as.startswith(prefix)
        }
        if ranks:
            return ranks
    return {}


class Written(NamedTuple):
    """What came of writing the logs of a call: what is missing, a sentence each.

    A log that cannot be written costs no other. Another try may give more
    (`may_succeed`), as after making room on a full disk. `counted` is what each
    process with a log has counted beside its records.
    """

    logs: list[Path]
    losses: list[str]
    may_succeed: bool
    counted: dict[TracedProcess, ProcessReads]


def write_process_logs(
    processes: Sequence[TracedProcess], logs: Path, call: Call
) -> Written:
    """Write a log of each process that recorded calls, into the folder of the logs."""
    written, losses, all_counted, may_succeed = [], [], {}, False
    for process, metadata in zip(processes, _metadata(processes, call), strict=True):
        if process.loss:
            losses.append(
                f"process {process.pid} could not record its calls ({process.loss}): "
                "no log."
            )
        if not process.spools:
            continue
        path = logs / _log_name(process, call)
        try:
            counted, reasons = _write_log(process, path, call, metadata)
        except (LogError, OSError, ValueError, ArithmeticError) as error:
            who = f"process {process.pid} ({without_secrets(process.exe)})"
            losses.append(f"no log of {who}: {error_words(error)}")
            may_succeed = True  # the counts are all that is left
            continue
        losses += [f"{path}: is partial, as {reason}." for reason in reasons]
        all_counted[process] = counted
        written.append(path)
    return Written(written, losses, may_succeed, all_counted)


def interference_of(
    processes: Sequence[TracedProcess], counted: Mapping[TracedProcess, ProcessReads]
) -> Interference:
    """Return who stood between some processes of a call and libc."""
    libraries = [one.libraries for one in processes]
    preloaded = Counter(name for one in libraries for name in one.preloaded)
    unnamed = (one.n_preloaded - len(one.preloaded) for one in libraries)
    drops = [counted[one].drops for one in processes if one in counted]
    made, failed, swallowed = (sum(int(calls[i]) for calls in drops) for i in range(3))
    return Interference(
        n_processes=len(processes),
        preloaded=dict(preloaded),
        n_unnamed=max(unnamed, default=0),
        before=dict(Counter(one.before for one in libraries if one.before)),
        behind=dict(Counter(one.behind for one in libraries if one.behind)),
        made=made,
        failed=failed,
        swallowed=swallowed,
    )


def _metadata(processes: Sequence[TracedProcess], call: Call) -> list[dict[str, str]]:
    """Return what the log of each process says of it."""
    facts = []
    ranks = ranks_of(processes)
    n_escaped = sum(len(one.escapes) for one in processes)
    for process, ids in zip(processes, parents_of(processes), strict=True):
        metadata = {"host": process.host, "pid": str(process.pid)}
        if ids:
            metadata["parents"] = ",".join(map(str, ids))
        if process in ranks:
            metadata["rank"] = str(ranks[process])
        if n_escaped:
            metadata["n_escaped"] = str(n_escaped)
        metadata["n_preloaded"] = str(process.libraries.n_preloaded)
        if process.libraries.preloaded:
            metadata["preloaded"] = ",".join(process.libraries.preloaded)
        times_s = process.started_ns * 1e-9, (process.ended_ns or 0) * 1e-9
        identity = Path(), os.getuid(), call.job_id, 1
        facts.append(LogFacts(*identity, *times_s, process.exe, metadata))
    all_metadata = []
    # Only here are all processes known, also those without a log, so this decides.
    parents = nearest_parents(facts)
    for one, rank, first in zip(facts, *ranks_and_firsts(facts, parents), strict=True):
        named = first  # what Python has started anew has no program of its own
        while facts[named].child_of_multiprocessing and parents[named] is not None:
            named = parents[named]
        metadata = {
            "tracer": "tierscope builtin",
            "group": call.group,
            **one.metadata,
            "process": f"{processes[first].pid}-{processes[first].ticks}",
            "program": facts[named].program[:_LONGEST_PROGRAM],
            "command_began": f"{call.began_s:.6f}",
        }
        if call.ended_s is not None:
            metadata["command_ended"] = f"{call.ended_s:.6f}"
        if rank is not None:
            metadata["rank"] = str(rank)
        all_metadata.append(metadata)
    return all_metadata


def _write_log(
    process: TracedProcess, path: Path, call: Call, metadata: Mapping[str, str]
) -> tuple[ProcessReads, list[str]]:
    """Write the log of a process; return what it counted, and why it is partial."""
    spools = [open_spool(spool) for spool in process.spools]
    records, names = join_spools(spools)
    reasons = sorted(
        {
            f"some calls were not recorded ({os.strerror(s.lost)})"
            for s in spools
            if s.lost
        }
    )
    if not len(records):
        raise LogError(process.spools[0], f"has no record{': '.join(['', *reasons])}.")
    # Those of a child count from where its parent's do.
    shift_s = (min(spool.origin_ns for spool in spools) - process.started_ns) * 1e-9
    for field in START_TIMES + END_TIMES:
        records[field] += np.where(records[field] == 0, 0, shift_s)
    ended_s, end = _end_of(process, records)
    modules, paths = split_streams(records, names)
    counted = _counted(process, spools, records, names)
    write_log(
        path,
        modules,
        paths,
        LoggedJob(
            n_processes=1,
            exe=process.exe,
            mounts=call.mounts,
            started_s=process.started_ns * 1e-9,
            ended_s=ended_s,
            metadata=fit_metadata({"end": end, **counted.as_metadata(), **metadata}),
            job_id=call.job_id,
            partial=[name for name in modules if reasons],
        ),
    )
    return counted, reasons


def _counted(
    process: TracedProcess,
    spools: Sequence[Spool],
    records: np.ndarray,
    names: Mapping[int, bytes],
) -> ProcessReads:
    """Return what a process counted beside its records."""
    device_bytes = process.device_bytes
    if device_bytes is not None:
        device_bytes = max(0, device_bytes - spools[0].device_bytes)
    paths = [names[one].removeprefix(_STREAM_MARK) for one in records["id"].tolist()]
    is_file = np.array([not path.startswith(_OTHER_MARK) for path in paths], bool)
    return ProcessReads(
        bytes_by_file_system(paths, records["POSIX_BYTES_READ"] * is_file),
        device_bytes,
        sum(spool.mapped_bytes for spool in spools),
        tuple(np.sum([spool.drops for spool in spools], axis=0).tolist()),
    )


def _end_of(process: TracedProcess, records: np.ndarray) -> tuple[float, str]:
    """Return when a process has ended, in seconds since 1970, and how that is known."""
    if process.ended_ns is not None:
        return process.ended_ns * 1e-9, "exit"
    if process.still_runs():
        return time.time(), "still running"
    last_s = max((records[field].max(initial=0) for field in END_TIMES), default=0)
    return process.started_ns * 1e-9 + float(last_s), "last call"


def fit_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return metadata that fit into a log: long values are cut, the longest first."""
    fitting = dict(metadata)
    while (
        sum(len(as_bytes(f"{key}={value}\n")) for key, value in fitting.items())
        >= METADATA_BYTES
    ):
        longest = max(fitting, key=lambda key: len(fitting[key]))
        value = fitting[longest]
        # Of a list of process ids, whole ones.
        fitting[longest] = value.rpartition(",")[0] or value[: len(value) // 2]
    return fitting


def split_streams(
    records: np.ndarray, names: Mapping[int, bytes]
) -> tuple[dict[str, np.ndarray], dict[int, bytes]]:
    """Return the records of the POSIX and STDIO modules, and the path of each id.

    A name has a mark before the path if its record is of streams.
    """
    ids = {name: record_id for record_id, name in names.items()}
    is_stream = np.array(
        [names[one].startswith(_STREAM_MARK) for one in records["id"].tolist()], bool
    )
    paths = {
        of: name.removeprefix(_OTHER_MARK)
        for of, name in names.items()
        if not name.startswith(_STREAM_MARK)
    }
    modules = {"POSIX": records[~is_stream]}
    if is_stream.any():
        streams = records[is_stream]
        converted = np.zeros(len(streams), STDIO_RECORD)
        for field in STDIO_RECORD.names:
            posix = field.replace("STDIO_", "POSIX_")
            converted[field] = streams[_STREAM_COUNTERS.get(field, posix)]
        for i, record_id in enumerate(converted["id"].tolist()):
            path = names[record_id].removeprefix(_STREAM_MARK)
            converted["id"][i] = ids.get(path, record_id)
            paths[int(converted["id"][i])] = path
        modules["STDIO"] = converted
    return modules, paths


def _log_name(process: TracedProcess, call: Call) -> str:
    """Return the name that Darshan would give a log."""
    program = os.path.basename(process.exe.partition(" ")[0])
    start = time.localtime(process.started_ns // 10**9)
    second = 3600 * start.tm_hour + 60 * start.tm_min + start.tm_sec
    identity = f"{process.host} {process.pid} {process.ticks} {process.started_ns}"
    number = int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest())
    return (
        f"{_safe(call.user)}_{_safe(program)}_id{call.job_id}-{process.pid}"
        f"_{start.tm_mon}-{start.tm_mday}-{second}-{number}.darshan"
    )


def _safe(name: str) -> str:
    """Return a name without what a file's name or Darshan's would not have."""
    return _NOT_IN_NAMES.sub("-", name)[:100].lstrip(".-") or "unknown"
