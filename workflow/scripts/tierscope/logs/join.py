"""Join the summaries of a job's logs: times of processes, and of the slowest one."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.core.columns import BOUNDS, EXACT, LOWER_BOUNDS
from tierscope.core.words import as_utf8
from tierscope.logs.bounds import (
    ProcessTimes,
    slowest_bounds,
    slowest_candidates,
    slowest_class_bounds,
)
from tierscope.logs.grouping import (
    NO_PROCESS,
    LogFacts,
    LogGroup,
    command_times_s,
)
from tierscope.logs.remarks import rank_words, remarks_of
from tierscope.logs.summary import (
    NO_RUN_TIME,
    SIZES,
    Summary,
    loses_time,
    lossy_interfaces,
    of_each_process,
)
from tierscope.trace.log import MPI_IO

WHOLE_JOB = -1  # epoch of what covers all epochs, and files of no epoch

Class = tuple[str, str, str]  # tier, interface, operation


@dataclass(frozen=True)
class Phase:
    """The times of all processes of a job in an epoch or the whole job (`WHOLE_JOB`).

    `classes` are those that count, in the order of the columns of `times`. These have
    no upper bound where a log lost records; `recorded` is what the logs hold.
    """

    epoch: int
    classes: list[Class]
    times: ProcessTimes
    recorded: ProcessTimes

    @property
    def n_processes(self) -> int:
        """Return the number of processes of the job, with I/O or without."""
        return len(self.times.total_least_s)

    @property
    def times_are(self) -> str:
        """Return whether the times are exact, bounds, or lower bounds."""
        if not np.isfinite(self.times.total_most_s).all():
            return LOWER_BOUNDS
        return EXACT if self.times.is_exact else BOUNDS

    def slowest(self) -> tuple[np.ndarray, tuple[float, float], np.ndarray, np.ndarray]:
        """Return the slowest process: candidates, and bounds of its time and classes.

        Bounds are seconds; infinite: unknown. Those by class are of whichever candidate
        is the slowest. If records were lost, any process may be it, and this is the one
        with the most recorded time.
        """
        total_s = slowest_bounds(self.recorded)[0], slowest_bounds(self.times)[1]
        least_s, most_s = slowest_class_bounds(self.recorded)
        if self.times_are == LOWER_BOUNDS:
            most_s = np.full_like(least_s, np.nan)
        return slowest_candidates(self.recorded), total_s, least_s, most_s


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

    No log says `processes_per_node`, for the number of nodes. Table ``job_files`` holds
    `most_files` files, and as many folders.
    """
    parts = [logs[path][1] for path in group.logs]
    cells = sorted({tuple(cell) for part in parts for cell in part.cells})
    times = _times(group, parts, cells)
    totals = _totals(group, parts)
    sums = _sums(group, parts, cells)
    given = (cells, times, totals, sums["own_s"], _lost_processes(group, parts))
    epochs = sorted({cell[0] for cell in cells} - {WHOLE_JOB})
    phases = [_phase(group, one, *given) for one in (WHOLE_JOB, *epochs)]
    facts = _facts(group, logs, phases[0], processes_per_node)
    rows = {
        "job_times": _time_rows(cells, times),
        "job_processes": _process_rows(phases),
        "job_slowest": _slowest_rows(phases, _of_processes(group, parts)),
        "job_breakdown": _breakdown_rows(phases, cells, sums),
        "job_files": _file_rows(parts, most_files),
        "job_sizes": _size_rows(parts),
    }
    for columns in rows.values():
        columns["job"] = [group.name] * len(next(iter(columns.values())))
    return JoinedJob(group.name, facts, phases, rows)


def main_log(
    group: LogGroup, logs: Mapping[Path, tuple[LogFacts, Summary]]
) -> LogFacts:
    """Return what the first log that is not of a helper says."""
    ranked = zip(group.logs, group.processes, strict=True)
    return logs[next(path for path, process in ranked if process >= 0)][0]


def user_of(log: LogFacts) -> str:
    """Return the user in a log's name as Darshan writes it, else the user's number."""
    name, found, _ = as_utf8(log.path.name).partition(f"_{log.interpreter}_id")
    return name if found and name else str(log.uid)


def _times(
    group: LogGroup, parts: Sequence[Summary], cells: Sequence[tuple]
) -> dict[str, np.ndarray]:
    """Return the times of each process by cell, summed over its logs."""
    number = {cell: position for position, cell in enumerate(cells)}
    keys, lost = [], []
    columns = {name: [] for name in ("least_s", "most_s", "operations", "bytes")}
    for part, process in zip(parts, group.processes, strict=True):
        of_log = np.array([number[tuple(cell)] for cell in part.cells], np.int64)
        rows = of_each_process(part.times, "cell", part.facts["n_processes"])
        ranks = _ranks(rows["rank"], process)
        keys.append(ranks * len(cells) + of_log[rows["cell"]])
        for name, values in columns.items():
            values.append(rows[name])
        lossy = lossy_interfaces(part.facts)
        is_lossy = np.array([cell[2] in lossy for cell in part.cells], bool)
        lost.append(is_lossy[rows["cell"]])
    distinct, where = np.unique(np.concatenate(keys), return_inverse=True)
    sums = {}
    for name, values in columns.items():
        sums[name] = np.zeros(len(distinct))
        np.add.at(sums[name], where, np.concatenate(values))
    largest = np.zeros(len(distinct))
    np.maximum.at(largest, where, np.concatenate(columns["least_s"]))
    is_lost = np.zeros(len(distinct), bool)
    np.logical_or.at(is_lost, where, np.concatenate(lost))
    rank, cell = np.divmod(distinct, max(len(cells), 1))
    of_row = {"rank": rank, "cell": cell, "largest_s": largest, "is_lost": is_lost}
    return sums | of_row


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


def _lost_processes(group: LogGroup, parts: Sequence[Summary]) -> np.ndarray:
    """Return which processes may have spent more time than their logs hold."""
    lost = np.zeros(group.n_processes, bool)
    for part, process in zip(parts, group.processes, strict=True):
        if loses_time(part.facts) and process != NO_PROCESS:
            lost[process : process + part.facts["n_processes"]] = True
    return lost


def _phase(
    group: LogGroup,
    epoch: int,
    cells: Sequence[tuple],
    times: Mapping[str, np.ndarray],
    totals: Mapping[str, np.ndarray],
    sums_s: np.ndarray,
    lost: np.ndarray,
) -> Phase:
    """Return the times of the processes in an epoch, or in all of them.

    `sums_s` is by cell, `lost` by process.
    """
    counted = [cell[2] != MPI_IO and epoch in (WHOLE_JOB, cell[0]) for cell in cells]
    classes = sorted({cell[1:] for cell in itertools.compress(cells, counted)})
    number = {one: position for position, one in enumerate(classes)}
    column = np.array(
        [
            number[cell[1:]] if is_counted else -1
            for cell, is_counted in zip(cells, counted, strict=True)
        ],
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
    sum_s = np.zeros(len(classes))
    np.add.at(sum_s, column[column >= 0], sums_s[column >= 0])
    recorded = ProcessTimes(least_s, most_s, total_least_s, total_most_s, sum_s)
    if not lost.any():
        return Phase(epoch, classes, recorded, recorded)
    # Which class a process has lost is unknown, and it may have no row of that class.
    most_s = np.where(lost[:, np.newaxis], np.nan, most_s)
    total_most_s = np.where(lost, np.nan, total_most_s)
    times = replace(recorded, most_s=most_s, total_most_s=total_most_s)
    return Phase(epoch, classes, times, recorded)


def _facts(
    group: LogGroup,
    logs: Mapping[Path, tuple[LogFacts, Summary]],
    whole: Phase,
    processes_per_node: int | None,
) -> dict[str, Any]:
    """Return the row of table ``jobs``."""
    parts = [logs[path][1] for path in group.logs]
    facts = [part.facts for part in parts]
    of_processes = _of_processes(group, parts)
    started_s, run_time_s = _run_span(of_processes)
    hosts = sorted({one["metadata"].get("host", "") for one in facts} - {""})
    all_named = all(part.facts["metadata"].get("host") for part in of_processes)
    n_nodes = float(len(hosts)) if all_named else np.nan
    if processes_per_node:
        n_nodes = float(-(-group.n_processes // processes_per_node))
    first = main_log(group, logs)
    _, (_, whole_most_s), *_ = whole.slowest()
    return {
        "job": group.name,
        "exe": first.program,
        "user": user_of(first),
        "host": ", ".join(hosts),
        "started_s": started_s,
        "run_time_s": run_time_s,
        "n_processes": group.n_processes,
        "n_logs": len(parts),
        "n_nodes": n_nodes,
        "grouped_by": group.grouped_by,
        "times_are": whole.times_are,
        "remarks": remarks_of(group, parts, whole_most_s),
    }


def _time_rows(cells: Sequence[tuple], times: Mapping[str, np.ndarray]) -> dict:
    """Return the rows of table ``job_times``."""
    names = ("epoch", "tier", "interface", "operation")
    rows = {}
    for k, name in enumerate(names):
        of_cell = np.array([cell[k] for cell in cells], object if k else np.int64)
        rows[name] = of_cell[times["cell"]]
    rows["counted"] = rows["interface"] != MPI_IO
    kept = ("rank", "least_s", "most_s", "largest_s", "operations", "bytes")
    rows |= {name: times[name] for name in kept}
    rows["most_s"] = np.where(times["is_lost"], np.nan, times["most_s"])
    return rows


def _process_rows(phases: Sequence[Phase]) -> dict:
    """Return the rows of table ``job_processes``: sharp bounds of each process."""
    n_processes = phases[0].n_processes
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


def _of_processes(group: LogGroup, parts: Sequence[Summary]) -> list[Summary]:
    """Return the summaries of logs that are not of helpers, which may run for long."""
    return [
        part
        for part, process in zip(parts, group.processes, strict=True)
        if process != NO_PROCESS
    ]


def _run_span(parts: Sequence[Summary]) -> tuple[float, float]:
    """Return when a job began, in seconds since 1970, and how long it ran.

    The run time is missing if a log does not tell it. Logs of `tierscope trace` hold
    when their command began and ended; a process may have no log or end early.
    """
    commands_s = [command_times_s(part.facts["metadata"]) for part in parts]
    spans_s = list(filter(None, commands_s))
    known = [part.facts for part in parts if NO_RUN_TIME not in part.facts["lacks"]]
    spans_s += [(facts["started_s"], facts["ended_s"]) for facts in known]
    if not spans_s:
        return min(part.facts["started_s"] for part in parts), np.nan
    began_s, ended_s = zip(*spans_s, strict=True)
    is_known = len(known) == len(parts) or any(commands_s)
    return min(began_s), max(ended_s) - min(began_s) if is_known else np.nan


def _run_time_bounds(parts: Sequence[Summary]) -> tuple[float, float]:
    """Bound the run time in seconds: old logs have whole seconds, cut off."""
    _, run_time_s = _run_span(parts)
    clock_s = max(part.facts["clock_s"] for part in parts)
    return max(run_time_s - clock_s, 0.0), run_time_s + clock_s


def _percent(part_s: float, whole_s: float) -> float:
    """Return a part in percent; missing if the whole is not known to be above 0."""
    return 100 * part_s / whole_s if whole_s > 0 else np.nan


def _slowest_rows(phases: Sequence[Phase], parts: Sequence[Summary]) -> dict:
    """Return the rows of table ``job_slowest``, without words."""
    run_least_s, run_most_s = _run_time_bounds(parts)
    rows: dict[str, list] = {
        name: []
        for name in (
            "epoch",
            "times_are",
            "n_slowest",
            "slowest_ranks",
            "least_s",
            "most_s",
            "run_least_percent",
            "run_most_percent",
        )
    }
    for phase in phases:
        ranks, (least_s, most_s), *_ = phase.slowest()
        values = (
            phase.epoch,
            phase.times_are,
            len(ranks),
            rank_words(ranks, phase.n_processes),
            least_s,
            most_s,
            _percent(least_s, run_most_s),
            _percent(most_s, run_least_s),
        )
        for name, value in zip(rows, values, strict=True):
            rows[name].append(value)
    return rows


def _breakdown_rows(
    phases: Sequence[Phase], cells: Sequence[tuple], sums: Mapping[str, np.ndarray]
) -> dict:
    """Return the rows of table ``job_breakdown``: of the slowest process, and sums."""
    names = ("epoch", "tier", "interface", "operation", "counted", "least_s", "most_s")
    counts = ("sum_s", "operations", "bytes", "files")
    rows: dict[str, list] = {name: [] for name in (*names, *counts)}
    of_epoch: dict[int, list[int]] = {WHOLE_JOB: list(range(len(cells)))}
    for position, cell in enumerate(cells):
        if cell[0] != WHOLE_JOB:
            of_epoch.setdefault(cell[0], []).append(position)
    for phase in phases:
        _, _, least_s, most_s = phase.slowest()
        bounds = dict(
            zip(phase.classes, zip(least_s, most_s, strict=True), strict=True)
        )
        of_class: dict[Class, list[int]] = {}
        for position in of_epoch[phase.epoch]:
            of_class.setdefault(cells[position][1:], []).append(position)
        for one in sorted(of_class):
            # The slowest process is not told from others by times that do not count.
            least, most = bounds.get(one, (0.0, np.nan))
            values = (phase.epoch, *one, one[1] != MPI_IO, least, most)
            values += tuple(sums[name][of_class[one]].sum() for name in counts)
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    return rows


def _sums(
    group: LogGroup, parts: Sequence[Summary], cells: Sequence[tuple]
) -> dict[str, np.ndarray]:
    """Return time, operations, bytes and distinct files of each cell of all logs.

    `own_s` is the time without helpers. Files of two epochs are never the same.
    """
    number = {cell: position for position, cell in enumerate(cells)}
    kinds = {"sum_s": float, "own_s": float, "operations": object, "bytes": object}
    sums = {name: np.zeros(len(cells), kind) for name, kind in kinds.items()}
    files = np.zeros(len(cells), np.int64)
    ids: dict[int, list[np.ndarray]] = {}
    for part, process in zip(parts, group.processes, strict=True):
        of_log = np.array([number[tuple(cell)] for cell in part.cells], np.int64)
        for name in ("sum_s", "operations", "bytes"):
            sums[name][of_log] += np.array(part.sums[name], sums[name].dtype)
        if process != NO_PROCESS:
            sums["own_s"][of_log] += np.array(part.sums["sum_s"])
        if part.file_ids is None:
            files[of_log] += np.array(part.sums["files"], np.int64)
            continue
        for cell, some in zip(of_log.tolist(), part.file_ids, strict=True):
            ids.setdefault(cell, []).append(some)
    for cell, some in ids.items():
        files[cell] += len(np.unique(np.concatenate(some)))
    return sums | {"files": files}


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
