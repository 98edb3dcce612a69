"""Join the summaries of a job's logs: times of processes, and of the slowest one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.core.columns import BOUNDS, EXACT, INTERFACES, LOWER_BOUNDS
from tierscope.jobs.bounds import (
    ProcessTimes,
    slowest_bounds,
    slowest_candidates,
    slowest_class_bounds,
)
from tierscope.jobs.grouping import NO_PROCESS, LogFacts, LogGroup
from tierscope.jobs.summary import MPI_IO, SIZES, Summary, of_each_process

WHOLE_JOB = -1  # epoch of what covers all epochs, and files of no epoch
MOST_RANKS_NAMED = 10

_SECONDS = re.compile(r"\d{1,11}\.\d{1,9}", re.ASCII)  # since 1970

Class = tuple[str, str, str]  # tier, interface, operation


@dataclass(frozen=True)
class Phase:
    """The times of all processes of a job in an epoch, or in the whole job.

    Parameters
    ----------
    epoch : int
        `WHOLE_JOB` or the epoch.
    classes : list of (tier, interface, operation)
        Those that count, in the order of the columns of `times`.
    times : ProcessTimes
    """

    epoch: int
    classes: list[Class]
    times: ProcessTimes

    @property
    def times_are(self) -> str:
        """Return whether the times are exact, bounds, or lower bounds."""
        if not np.isfinite(self.times.total_most_s).all():
            return LOWER_BOUNDS
        return EXACT if self.times.is_exact else BOUNDS

    def slowest(self) -> tuple[np.ndarray, tuple[float, float], np.ndarray, np.ndarray]:
        """Return the slowest process: candidates, its time, and its time by class.

        If records were lost, it is the slowest one as far as is recorded.

        Returns
        -------
        ranks : ndarray of int
            The processes that may be the slowest.
        bounds : (float, float)
            Least and most seconds of the slowest process; NaN: unknown.
        least_s, most_s : ndarray, shape (n_classes,)
            Seconds by class of whichever of them is the slowest.
        """
        times = self.times
        if self.times_are == LOWER_BOUNDS:
            rank = int(np.argmax(times.total_least_s))
            unknown = np.full(len(self.classes), np.nan)
            total = (float(times.total_least_s[rank]), np.nan)
            return np.array([rank]), total, times.least_s[rank], unknown
        least_s, most_s = slowest_class_bounds(times)
        return slowest_candidates(times), slowest_bounds(times), least_s, most_s


@dataclass(frozen=True)
class JoinedJob:
    """A job: its facts, its phases, and the rows of its tables."""

    name: str
    facts: dict[str, Any]
    phases: list[Phase]  # the whole job first
    rows: dict[str, dict[str, list]]


def join(
    group: LogGroup,
    logs: Mapping[Path, tuple[LogFacts, Summary]],
    *,
    processes_per_node: int | None = None,
    most_files: int = 20,
) -> JoinedJob:
    """Join the summaries of a job's logs.

    Parameters
    ----------
    group : LogGroup
        The logs of the job, and the process of each.
    logs : mapping of Path to (LogFacts, Summary)
    processes_per_node : int, optional
        For the number of nodes, which no log says.
    most_files : int
        How many files and folders table ``job_files`` holds.
    """
    parts = [logs[path][1] for path in group.logs]
    cells = sorted({tuple(cell) for part in parts for cell in part.cells})
    times = _times(group, parts, cells)
    totals = _totals(group, parts)
    phases = [_phase(group, WHOLE_JOB, cells, times, totals, parts)]
    epochs = sorted({cell[0] for cell in cells} - {WHOLE_JOB})
    phases += [_phase(group, one, cells, times, totals, parts) for one in epochs]
    facts = _facts(group, logs, phases[0], processes_per_node)
    rows = {
        "job_times": _time_rows(cells, times),
        "job_processes": _process_rows(phases, group.n_processes),
        "job_slowest": _slowest_rows(phases, parts, group.n_processes),
        "job_breakdown": _breakdown_rows(phases, cells, parts),
        "job_files": _file_rows(parts, most_files),
        "job_sizes": _size_rows(parts),
    }
    for columns in rows.values():
        columns["job"] = [group.name] * len(next(iter(columns.values())))
    return JoinedJob(group.name, facts, phases, rows)


def user_of(log: LogFacts) -> str:
    """Return the user in a log's name as Darshan writes it, else the user's number."""
    name, found, _ = log.path.name.partition(f"_{log.interpreter}_id")
    return name if found and name else str(log.uid)


def _times(
    group: LogGroup, parts: Sequence[Summary], cells: Sequence[tuple]
) -> dict[str, np.ndarray]:
    """Return the times of each process by cell, summed over its logs."""
    number = {cell: position for position, cell in enumerate(cells)}
    keys = []
    columns = {name: [] for name in ("least_s", "most_s", "operations", "bytes")}
    for part, process in zip(parts, group.processes, strict=True):
        of_log = np.array([number[tuple(cell)] for cell in part.cells], np.int64)
        rows = of_each_process(part.times, "cell", part.facts["n_processes"])
        ranks = _ranks(rows["rank"], process)
        keys.append(ranks * len(cells) + of_log[rows["cell"]])
        for name, values in columns.items():
            values.append(rows[name])
    distinct, where = np.unique(np.concatenate(keys), return_inverse=True)
    sums = {}
    for name, values in columns.items():
        sums[name] = np.zeros(len(distinct))
        np.add.at(sums[name], where, np.concatenate(values))
    largest = np.zeros(len(distinct))
    np.maximum.at(largest, where, np.concatenate(columns["least_s"]))
    rank, cell = np.divmod(distinct, max(len(cells), 1))
    return sums | {"rank": rank, "cell": cell, "largest_s": largest}


def _ranks(ranks: np.ndarray, process: int) -> np.ndarray:
    """Return the processes of a log's ranks; `NO_PROCESS` for those of a helper."""
    return np.full_like(ranks, NO_PROCESS) if process == NO_PROCESS else ranks + process


def _totals(group: LogGroup, parts: Sequence[Summary]) -> dict[str, np.ndarray]:
    """Return rank, epoch, least and most of all counted times of all logs."""
    columns = {name: [] for name in ("rank", "epoch", "least_s", "most_s")}
    for part, process in zip(parts, group.processes, strict=True):
        rows = of_each_process(part.totals, "epoch", part.facts["n_processes"])
        rows["rank"] = _ranks(rows["rank"], process)
        for name, values in columns.items():
            values.append(rows[name])
    return {name: np.concatenate(values) for name, values in columns.items()}


def _phase(
    group: LogGroup,
    epoch: int,
    cells: Sequence[tuple],
    times: Mapping[str, np.ndarray],
    totals: Mapping[str, np.ndarray],
    parts: Sequence[Summary],
) -> Phase:
    """Return the times of the processes in an epoch, or in all of them."""
    counted = {
        cell for cell in cells if cell[2] != MPI_IO and epoch in (WHOLE_JOB, cell[0])
    }
    classes = sorted({cell[1:] for cell in counted})
    column = np.array(
        [classes.index(cell[1:]) if cell in counted else -1 for cell in cells],
        np.int64,
    )
    shape = (group.n_processes, len(classes))
    least_s, most_s = np.zeros(shape), np.zeros(shape)
    of_row = column[times["cell"]] if len(cells) else np.zeros(0, np.int64)
    inside = (of_row >= 0) & (times["rank"] >= 0)
    where = (times["rank"][inside], of_row[inside])
    np.add.at(least_s, where, times["least_s"][inside])
    np.add.at(most_s, where, times["most_s"][inside])
    total_least_s, total_most_s = (np.zeros(group.n_processes) for _ in range(2))
    rows = (totals["epoch"] == epoch) | (epoch == WHOLE_JOB)
    rows &= totals["rank"] >= 0
    np.add.at(total_least_s, totals["rank"][rows], totals["least_s"][rows])
    np.add.at(total_most_s, totals["rank"][rows], totals["most_s"][rows])
    # Which class a process has lost is unknown, and it may have no row of that class.
    most_s[np.isnan(total_most_s)] = np.nan
    sum_s = np.zeros(len(classes))
    for part, process in zip(parts, group.processes, strict=True):
        if process == NO_PROCESS:
            continue
        for position, cell in enumerate(part.cells):
            if tuple(cell) in counted:
                sum_s[classes.index(tuple(cell[1:]))] += part.sums["sum_s"][position]
    bounds = (least_s, most_s, total_least_s, total_most_s, sum_s)
    return Phase(epoch, classes, ProcessTimes(*bounds))


def _facts(
    group: LogGroup,
    logs: Mapping[Path, tuple[LogFacts, Summary]],
    whole: Phase,
    processes_per_node: int | None,
) -> dict[str, Any]:
    """Return the row of table ``jobs``."""
    parts = [logs[path][1] for path in group.logs]
    facts = [part.facts for part in parts]
    started_s, ended_s = _run_span(parts)
    hosts = sorted({one["metadata"].get("host", "") for one in facts} - {""})
    n_nodes = float(len(hosts)) if hosts else np.nan
    if processes_per_node:
        n_nodes = float(-(-group.n_processes // processes_per_node))
    ranked = zip(group.logs, group.processes, strict=True)
    first = logs[next(path for path, process in ranked if process >= 0)][0]
    return {
        "job": group.name,
        "exe": first.program,
        "user": user_of(first),
        "host": ", ".join(hosts),
        "started_s": started_s,
        "run_time_s": max(ended_s - started_s, 0.0),
        "n_processes": group.n_processes,
        "n_logs": len(parts),
        "n_nodes": n_nodes,
        "grouped_by": group.grouped_by,
        "times_are": whole.times_are,
        "remarks": " ".join([*_remarks(parts), *_missing_logs(group)]),
    }


def _missing_logs(group: LogGroup) -> list[str]:
    """Return which processes have no log, if each process should have one."""
    known = set(group.processes) - {NO_PROCESS}
    if len(group.logs) == 1 or len(known) == group.n_processes:
        return []
    missing = np.setdiff1d(np.arange(group.n_processes), sorted(known))
    return [
        f"No log is of rank {rank_words(missing, group.n_processes)}: without I/O "
        "there is none, or it is missing."
    ]


def _remarks(parts: Sequence[Summary]) -> list[str]:
    """Return what a reader must know of a job's logs, in sentences."""
    remarks = []
    lost = {module for part in parts for module in part.facts["partial"]}
    partial = sorted(lost & set(INTERFACES))
    if partial:
        remarks.append(
            f"The runtime lost records of {', '.join(partial)}, so times are at least "
            "those that are listed."
        )
    shared = sum(part.facts["n_shared_records"] for part in parts)
    if shared:
        words = "record holds" if shared == 1 else "records hold"
        remarks.append(
            f"{shared} {words} sums over all processes, so times of processes are "
            "bounds."
        )
    nameless = sum(part.facts["n_nameless_records"] for part in parts)
    if nameless:
        words = "record has" if nameless == 1 else "records have"
        remarks.append(f"{nameless} {words} no name.")
    n_negative = sum(part.facts["n_negative_times"] for part in parts)
    if n_negative:
        words = "time is" if n_negative == 1 else "times are"
        remarks.append(f"{n_negative} {words} below 0 in the logs and counted as 0.")
    if any(part.facts["hides_calls"] for part in parts):
        remarks.append(
            "The logs have MPI-IO calls without the POSIX calls that they make, so "
            "times are at least those that are listed."
        )
    if any(part.facts["ended_s"] < part.facts["started_s"] for part in parts):
        remarks.append("A log ends before it starts, so its run time is unknown.")
    n_killed = sum(part.facts["metadata"].get("end") == "last call" for part in parts)
    if n_killed:
        words = "process was killed; its log ends with its last call."
        if n_killed > 1:
            words = "processes were killed; their logs end with their last calls."
        remarks.append(f"{n_killed} {words}")
    if any(cell[2] == MPI_IO for part in parts for cell in part.cells):
        remarks.append("MPI-IO makes POSIX calls, so its times are not counted.")
    readers = {part.facts["reader"] for part in parts}
    if "PyDarshan" in readers:
        remarks.append("PyDarshan read logs that tierscope's own reader does not read.")
    return remarks


def _time_rows(cells: Sequence[tuple], times: Mapping[str, np.ndarray]) -> dict:
    """Return the rows of table ``job_times``."""
    names = ("epoch", "tier", "interface", "operation")
    rows = {}
    for k, name in enumerate(names):
        of_cell = np.array([cell[k] for cell in cells], object if k else np.int64)
        rows[name] = of_cell[times["cell"]]
    rows["counted"] = rows["interface"] != MPI_IO
    kept = ("rank", "least_s", "most_s", "largest_s", "operations", "bytes")
    return rows | {name: times[name] for name in kept}


def _process_rows(phases: Sequence[Phase], n_processes: int) -> dict:
    """Return the rows of table ``job_processes``: sharp bounds of each process."""
    ranks = np.arange(n_processes)
    can_be_slowest = [
        np.isin(ranks, phase.slowest()[0]) | (phase.times_are == LOWER_BOUNDS)
        for phase in phases
    ]
    return {
        "epoch": np.repeat([phase.epoch for phase in phases], n_processes),
        "rank": np.tile(ranks, len(phases)),
        "least_s": np.concatenate([phase.times.total_least_s for phase in phases]),
        "most_s": np.concatenate([phase.times.total_most_s for phase in phases]),
        "can_be_slowest": np.concatenate(can_be_slowest),
    }


def _run_span(parts: Sequence[Summary]) -> tuple[float, float]:
    """Return when a job began and ended, in seconds since 1970.

    Logs of `tierscope trace` hold when their command began and ended; a process may
    have no log or end early.
    """

    def times_s(name: str, key: str) -> Iterator[float]:
        for part in parts:
            yield part.facts[name]
            text = part.facts["metadata"].get(key, "")
            if _SECONDS.fullmatch(text):
                yield float(text)

    return (
        min(times_s("started_s", "command_began")),
        max(times_s("ended_s", "command_ended")),
    )


def _run_time_bounds(parts: Sequence[Summary]) -> tuple[float, float]:
    """Bound the run time in seconds: old logs have whole seconds, cut off."""
    started_s, ended_s = _run_span(parts)
    run_time_s = ended_s - started_s
    clock_s = max(part.facts["clock_s"] for part in parts)
    return max(run_time_s - clock_s, 0.0), run_time_s + clock_s


def _percent(part_s: float, whole_s: float) -> float:
    """Return a part in percent; missing if the whole is not known to be above 0."""
    return 100 * part_s / whole_s if whole_s > 0 else np.nan


def _slowest_rows(
    phases: Sequence[Phase], parts: Sequence[Summary], n_processes: int
) -> dict:
    """Return the rows of table ``job_slowest``, without words."""
    run_least_s, run_most_s = _run_time_bounds(parts)
    rows: dict[str, list] = {
        name: []
        for name in (
            *("epoch", "times_are", "n_slowest", "slowest_ranks", "least_s", "most_s"),
            *("run_least_percent", "run_most_percent"),
        )
    }
    for phase in phases:
        ranks, (least_s, most_s), *_ = phase.slowest()
        values = (
            *(phase.epoch, phase.times_are, len(ranks), rank_words(ranks, n_processes)),
            *(least_s, most_s),
            *(_percent(least_s, run_most_s), _percent(most_s, run_least_s)),
        )
        for name, value in zip(rows, values, strict=True):
            rows[name].append(value)
    return rows


def rank_words(ranks: np.ndarray, n_processes: int) -> str:
    """Return ranks in words: a list, cut if it is long."""
    if len(ranks) == n_processes > 1:
        return f"any of {n_processes}"
    named = ", ".join(map(str, ranks[:MOST_RANKS_NAMED].tolist()))
    left = len(ranks) - MOST_RANKS_NAMED
    return f"{named} and {left} more" if left > 0 else named


def _breakdown_rows(
    phases: Sequence[Phase], cells: Sequence[tuple], parts: Sequence[Summary]
) -> dict:
    """Return the rows of table ``job_breakdown``: of the slowest process, and sums."""
    names = ("epoch", "tier", "interface", "operation", "counted", "least_s", "most_s")
    names += ("sum_s", "operations", "bytes", "files")
    rows: dict[str, list] = {name: [] for name in names}
    for phase in phases:
        _, _, least_s, most_s = phase.slowest()
        bounds = dict(
            zip(phase.classes, zip(least_s, most_s, strict=True), strict=True)
        )
        inside = [cell for cell in cells if phase.epoch in (WHOLE_JOB, cell[0])]
        for one in sorted({cell[1:] for cell in inside}):
            of_class = {cell for cell in inside if cell[1:] == one}
            counted = one[1] != MPI_IO
            # MPI-IO has no slowest process of its own: its sum stands for itself.
            least, most = bounds.get(one, (0.0, 0.0))
            values = (phase.epoch, *one, counted, least, most, *_sums(parts, of_class))
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    return rows


def _sums(parts: Sequence[Summary], cells: set[tuple]) -> tuple[float, int, int, int]:
    """Return time, operations, bytes and distinct files of some cells of all logs."""
    sum_s, n_operations, n_bytes, n_files = 0.0, 0, 0, 0
    ids: set[int] = set()
    for part in parts:
        for position, cell in enumerate(part.cells):
            if tuple(cell) not in cells:
                continue
            sum_s += part.sums["sum_s"][position]
            n_operations += part.sums["operations"][position]
            n_bytes += part.sums["bytes"][position]
            if part.file_ids is None:
                n_files += part.sums["files"][position]
            else:
                ids.update(part.file_ids[position])
    return sum_s, n_operations, n_bytes, n_files + len(ids)


def _file_rows(parts: Sequence[Summary], most_files: int) -> dict:
    """Return the rows of table ``job_files``: the paths that cost most."""
    counts = ("time_s", "opens", "reads", "writes", "bytes_read", "bytes_written")
    rows: dict[str, list] = {
        name: [] for name in ("kind", "position", "path", "tier", *counts)
    }
    for kind in ("file", "folder"):
        found: dict[tuple[str, str], list] = {}
        for part in parts:
            table = getattr(part, f"{kind}s")
            values = zip(*(table[name] for name in counts), strict=True)
            for key, one in zip(
                zip(table["path"], table["tier"], strict=True), values, strict=True
            ):
                before = found.get(key, [0] * len(counts))
                found[key] = [a + b for a, b in zip(before, one, strict=True)]
        top = sorted(found, key=lambda key: (-found[key][0], key))[:most_files]
        for position, key in enumerate(top):
            for name, value in zip(
                rows, (kind, position, *key, *found[key]), strict=True
            ):
                rows[name].append(value)
    return rows


def _size_rows(parts: Sequence[Summary]) -> dict:
    """Return the rows of table ``job_sizes``."""
    sums: dict[tuple[str, str], np.ndarray] = {}
    for part in parts:
        for tier, operation, calls in part.sizes:
            key = (tier, operation)
            sums[key] = sums.get(key, 0) + np.array(calls, np.int64)
    rows: dict[str, list] = {
        name: [] for name in ("tier", "operation", "position", "size", "calls")
    }
    for (tier, operation), calls in sorted(sums.items()):
        for position, size in enumerate(SIZES):
            values = (tier, operation, position, size, int(calls[position]))
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    return rows
