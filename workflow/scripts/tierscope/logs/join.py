"""Join the summaries of jobs' logs: times of processes, and of the slowest ones.

All jobs are joined at once: rows of all of them stand in one array, and sums are made
by group. The result of a job does not depend on the others, not even by rounding.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from tierscope.analysis.slowest.times import (
    ProcessTimes,
    slowest_bounds,
    slowest_candidates,
    slowest_class_bounds,
)
from tierscope.core.columns import BOUNDS, EXACT, JOB_CLASS, LOWER_BOUNDS
from tierscope.logs.grouping import (
    NO_PROCESS,
    LogFacts,
    LogGroup,
    command_times_s,
)
from tierscope.logs.joining.parts import Parts, parts_of
from tierscope.logs.joining.paths import file_columns, size_columns
from tierscope.logs.joining.remarks import rank_words, remarks_of
from tierscope.logs.joining.texts import Texts, coded
from tierscope.logs.summary import NO_RUN_TIME, Summary, loses_time
from tierscope.trace.log import MPI_IO

WHOLE_JOB = -1  # epoch of what covers all epochs, and files of no epoch

JobClass = tuple[str, str, str]  # tier, interface, operation
Column = np.ndarray | list | Texts
Columns = dict[str, Column]


@dataclass(frozen=True)
class Slowest:
    """The slowest process of each phase: candidates, and bounds in seconds.

    Infinite or missing bounds are unknown. Those by class are of whichever candidate is
    the slowest. If records were lost, any process may be it, and this is the one with
    the most recorded time.
    """

    are_candidates: np.ndarray  # by row of the times
    least_s: np.ndarray
    most_s: np.ndarray
    class_least_s: np.ndarray
    class_most_s: np.ndarray


@dataclass(frozen=True)
class Phases:
    """Jobs in an epoch or in all of them (`WHOLE_JOB`); of a job the whole comes first.

    `job` is the position of the job. `classes` are those that count, in the order of
    the columns of `times`. These have no upper bound where a log lost records;
    `recorded` is what the logs hold.
    """

    job: np.ndarray
    epoch: np.ndarray
    classes: list[tuple[JobClass, ...]]
    times: ProcessTimes
    recorded: ProcessTimes

    @cached_property
    def times_are(self) -> np.ndarray:
        """Whether the times of each phase are exact, bounds, or lower bounds."""
        is_bounded = self.times.smallest(np.isfinite(self.times.total_most_s))
        words = np.where(self.times.is_exact, EXACT, BOUNDS)
        return np.where(is_bounded, words, LOWER_BOUNDS)

    @cached_property
    def is_whole(self) -> np.ndarray:
        """Which phases are whole jobs: one of each job, in their order."""
        return self.epoch == WHOLE_JOB

    @cached_property
    def slowest(self) -> Slowest:
        """The slowest process of each phase."""
        least_s, most_s = slowest_class_bounds(self.recorded)
        is_lost = self.times_are == LOWER_BOUNDS
        return Slowest(
            slowest_candidates(self.recorded),
            slowest_bounds(self.recorded)[0],
            slowest_bounds(self.times)[1],
            least_s,
            np.where(is_lost[:, np.newaxis], np.nan, most_s),
        )


@dataclass(frozen=True)
class JoinedJobs:
    """Jobs: their phases and the columns of their tables, in which `job` is a number.

    It is the position of the job, whose row of table ``jobs`` is in `facts`.
    """

    names: list[str]
    facts: list[dict[str, Any]]
    phases: Phases
    columns: dict[str, Columns]


def join(
    groups: Sequence[LogGroup],
    logs: Mapping[Path, tuple[LogFacts, Summary]],
    *,
    processes_per_node: int | None = None,
    most_files: int = 20,
) -> JoinedJobs:
    """Join the summaries of the logs of one or more jobs.

    No log says `processes_per_node`, for the number of nodes. Table ``job_files`` holds
    `most_files` files of each job, and as many folders.
    """
    parts = parts_of(groups, logs)
    layout, times, sums = _Layout.of(parts), _times(parts), _sums(parts)
    phases = _phases(parts, layout, times, sums["own_s"])
    by_job = parts.by_job()
    of_processes = [_of_processes(*one) for one in zip(groups, by_job, strict=True)]
    facts = [
        _facts(group, logs, of_group, own, processes_per_node)
        for group, of_group, own in zip(groups, by_job, of_processes, strict=True)
    ]
    whole_most_s = phases.slowest.most_s[phases.is_whole].tolist()
    times_are = phases.times_are[phases.is_whole].tolist()
    for row, group, of_group, known, most_s in zip(
        facts, groups, by_job, times_are, whole_most_s, strict=True
    ):
        row |= {"times_are": known, "remarks": remarks_of(group, of_group, most_s)}
    run_times_s = np.reshape(list(map(_run_time_bounds, of_processes)), (-1, 2))
    columns = {
        "job_times": _time_columns(parts, times),
        "job_processes": _process_columns(phases),
        "job_slowest": _slowest_columns(phases, run_times_s),
        "job_breakdown": _breakdown_columns(phases, layout, sums),
        "job_files": file_columns(by_job, most_files),
        "job_sizes": size_columns(by_job),
    }
    return JoinedJobs([one.name for one in groups], facts, phases, columns)


def main_log(group: LogGroup) -> Path:
    """Return the first log that is not of a helper."""
    ranked = zip(group.logs, group.processes, strict=True)
    return next(path for path, process in ranked if process >= 0)


def _times(parts: Parts) -> dict[str, np.ndarray]:
    """Return times by process and cell of a job (`Parts.cell`) over all its logs."""
    rows = parts.rows_of("times")
    job_cell = parts.job_cell[rows["cell"]]
    n_cells, n_ranks = len(parts.cells), int(parts.n_processes.max(initial=0)) + 1
    key = parts.cell_job[job_cell] * n_ranks + rows["rank"] + 1  # helpers have -1
    key = key * n_cells + parts.cell[job_cell]
    distinct, first, where = np.unique(key, return_index=True, return_inverse=True)
    n_rows = len(distinct)
    times = {
        name: np.bincount(where, rows[name], n_rows)
        for name in ("least_s", "most_s", "operations", "bytes")
    }
    times["largest_s"], times["is_lost"] = np.zeros(n_rows), np.zeros(n_rows, bool)
    np.maximum.at(times["largest_s"], where, rows["least_s"])
    times["is_lost"][where[parts.is_lossy[rows["cell"]]]] = True
    return times | {"job_cell": job_cell[first], "rank": rows["rank"][first]}


def _sums(parts: Parts) -> dict[str, np.ndarray]:
    """Return time, operations, bytes and distinct files of each cell of a job."""
    n_cells, where = len(parts.cell), parts.job_cell
    sum_s, is_own = parts.sums_of("sum_s", float), parts.process[parts.log] >= 0
    return {
        "sum_s": np.bincount(where, sum_s, n_cells),
        "own_s": np.bincount(where[is_own], sum_s[is_own], n_cells),  # no helpers
        "operations": whole_sums(where, parts.sums_of("operations", np.int64), n_cells),
        "bytes": whole_sums(where, parts.sums_of("bytes", np.int64), n_cells),
        "files": _n_files(parts),
    }


def whole_sums(where: np.ndarray, numbers: np.ndarray, n_sums: int) -> np.ndarray:
    """Return sums of whole numbers; an OverflowError if one has more than 63 bits."""
    largest = np.bincount(where, numbers, n_sums).max(initial=0)
    if largest >= np.iinfo(np.int64).max:
        raise OverflowError(f"the sum of a counter is too large: {largest:.3g}")
    sums = np.zeros(n_sums, np.int64)
    np.add.at(sums, where, numbers)
    return sums


def _n_files(parts: Parts) -> np.ndarray:
    """Return the distinct files of each job's cells: logs of one may share files."""
    has_ids = np.array([one.file_ids is not None for one in parts.logs], bool)
    has_ids = has_ids[parts.log]
    counts = np.where(has_ids, 0, parts.sums_of("files", np.int64))
    n_files = whole_sums(parts.job_cell, counts, len(parts.cell))
    by_cell = [some for one in parts.logs for some in one.file_ids or ()]
    cell = np.repeat(parts.job_cell[has_ids], [len(some) for some in by_cell])
    ids = np.array(list(itertools.chain.from_iterable(by_cell)), np.uint64)
    order = np.lexsort([ids, cell])
    cell, ids = cell[order], ids[order]
    is_new = np.ones(len(ids), bool)
    is_new[1:] = (cell[1:] != cell[:-1]) | (ids[1:] != ids[:-1])
    return n_files + np.bincount(cell[is_new], minlength=len(n_files))


@dataclass(frozen=True)
class _Layout:
    """Which phases there are, and which cells and classes each of them has."""

    job: np.ndarray  # by phase; of each job the whole and its epochs
    epoch: np.ndarray  # by phase
    job_cell: np.ndarray  # by cell of a phase; most are twice if there are epochs
    row: np.ndarray  # by cell of a phase: the row below that it adds to
    phase: np.ndarray  # by row: one for each class of each phase, in this order
    class_number: np.ndarray  # by row
    column: np.ndarray  # by row: place among the phase's classes that count, or -1
    classes: list[JobClass]  # distinct, sorted

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """Return the phases of jobs."""
        classes = sorted({cell[1:] for cell in parts.cells})
        number = {one: position for position, one in enumerate(classes)}
        of_cell = np.array([number[cell[1:]] for cell in parts.cells], np.int64)
        epochs = np.array([cell[0] for cell in parts.cells], np.int64)
        epochs, epoch_of = np.unique(np.append(epochs, WHOLE_JOB), return_inverse=True)
        whole = np.arange(len(parts.n_processes)) * len(epochs)  # it is the first
        in_epoch = np.flatnonzero(epoch_of[parts.cell] > 0)
        of_epoch = whole[parts.cell_job] + epoch_of[parts.cell]
        phases = np.unique(np.concatenate([whole, of_epoch[in_epoch]]))
        job_cell = np.append(np.arange(len(parts.cell)), in_epoch)
        phase = np.append(whole[parts.cell_job], of_epoch[in_epoch])
        key = np.searchsorted(phases, phase) * len(classes)
        key += of_cell[parts.cell[job_cell]]
        rows, row = np.unique(key, return_inverse=True)
        phase, class_number = np.divmod(rows, max(len(classes), 1))
        is_counted = np.array([one[1] != MPI_IO for one in classes], bool)
        is_counted = is_counted[class_number]
        n_before = np.cumsum(is_counted) - is_counted
        first = np.searchsorted(phase, phase)  # the first row of its phase
        column = np.where(is_counted, n_before - n_before[first], -1)
        job, epoch = np.divmod(phases, len(epochs))
        return cls(
            job, epochs[epoch], job_cell, row, phase, class_number, column, classes
        )

    def counted(self) -> list[tuple[JobClass, ...]]:
        """Return the classes of each phase that count."""
        rows = self.column >= 0
        n_classes = np.bincount(self.phase[rows], minlength=len(self.job))
        numbers = np.split(self.class_number[rows], np.cumsum(n_classes)[:-1])
        return [tuple(self.classes[one] for one in some.tolist()) for some in numbers]


def _phases(
    parts: Parts, layout: _Layout, times: Mapping[str, np.ndarray], own_s: np.ndarray
) -> Phases:
    """Return the times of the processes in each phase; `own_s` is by cell of a job."""
    n_processes = parts.n_processes[layout.job]
    first, n_rows = np.cumsum(n_processes) - n_processes, int(n_processes.sum())
    width = max(1, int(layout.column.max(initial=0)) + 1)
    column = layout.column[layout.row]
    is_counted = column >= 0
    phase = layout.phase[layout.row]
    sum_s = np.bincount(
        (phase * width + column)[is_counted],
        own_s[layout.job_cell[is_counted]],
        len(first) * width,
    ).reshape(-1, width)
    chosen, phase_cell = _rows_of_phases(times, layout, is_counted, len(parts.cell))
    place = first[phase[phase_cell]] + times["rank"][chosen]
    place = place * width + column[phase_cell]
    least_s, most_s = (
        np.bincount(place, times[name][chosen], n_rows * width).reshape(-1, width)
        for name in ("least_s", "most_s")
    )
    totals_s = _totals(parts, layout, first, n_rows)
    recorded = ProcessTimes(least_s, most_s, *totals_s, sum_s, first)
    lost = _lost_processes(parts, layout, recorded)
    exact = recorded
    if lost.any():
        # Which class a process has lost is unknown; it may have no row of that class.
        n_classes = np.bincount(layout.phase[layout.column >= 0], minlength=len(first))
        is_class = np.arange(width) < n_classes[recorded.phase, np.newaxis]
        exact = replace(
            recorded,
            most_s=np.where(lost[:, np.newaxis] & is_class, np.nan, most_s),
            total_most_s=np.where(lost, np.nan, recorded.total_most_s),
        )
    return Phases(layout.job, layout.epoch, layout.counted(), exact, recorded)


def _rows_of_phases(
    times: Mapping[str, np.ndarray],
    layout: _Layout,
    is_counted: np.ndarray,
    n_cells: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of `_times` that count, and the phases' cells that they add to."""
    counted = np.flatnonzero(is_counted)
    counted = counted[np.argsort(layout.job_cell[counted], kind="stable")]
    n_phases = np.bincount(layout.job_cell[counted], minlength=n_cells)
    n_each = np.where(times["rank"] >= 0, n_phases[times["job_cell"]], 0)
    row = np.repeat(np.arange(len(n_each)), n_each)
    shift = (np.cumsum(n_phases) - n_phases)[times["job_cell"]]
    shift -= np.cumsum(n_each) - n_each
    return row, counted[np.arange(len(row)) + shift[row]]


def _totals(
    parts: Parts, layout: _Layout, first: np.ndarray, n_rows: int
) -> list[np.ndarray]:
    """Return least and most of the counted times of each process in each phase."""
    rows = parts.rows_of("totals")
    job = parts.job[rows["log"]]
    in_epoch = np.flatnonzero(rows["epoch"] != WHOLE_JOB)
    phases = pd.MultiIndex.from_arrays([layout.job, layout.epoch])
    of_epoch = [job[in_epoch], rows["epoch"][in_epoch]]
    of_epoch = phases.get_indexer(pd.MultiIndex.from_arrays(of_epoch))
    chosen = np.append(np.arange(len(job)), in_epoch)
    phase = np.append(np.flatnonzero(layout.epoch == WHOLE_JOB)[job], of_epoch)
    is_own = rows["rank"][chosen] >= 0
    chosen, place = chosen[is_own], first[phase[is_own]]
    place = place + rows["rank"][chosen]
    return [
        np.bincount(place, rows[name][chosen], n_rows) for name in ("least_s", "most_s")
    ]


def _lost_processes(parts: Parts, layout: _Layout, times: ProcessTimes) -> np.ndarray:
    """Return which processes may have spent more time than their logs hold, by row."""
    first = np.cumsum(parts.n_processes) - parts.n_processes
    lost = np.zeros(int(parts.n_processes.sum()), bool)
    for log, process, job in zip(
        parts.logs, parts.process.tolist(), parts.job.tolist(), strict=True
    ):
        if process != NO_PROCESS and loses_time(log.facts):
            begin = first[job] + process
            lost[begin : begin + log.facts["n_processes"]] = True
    return lost[first[layout.job[times.phase]] + times.rank]


def _facts(
    group: LogGroup,
    logs: Mapping[Path, tuple[LogFacts, Summary]],
    parts: Sequence[Summary],
    of_processes: Sequence[Summary],
    processes_per_node: int | None,
) -> dict[str, Any]:
    """Return the row of table ``jobs``, but what the times and remarks are."""
    started_s, run_time_s = _run_span(of_processes)
    hosts = {part.facts["metadata"].get("host", "") for part in parts} - {""}
    all_named = all(part.facts["metadata"].get("host") for part in of_processes)
    n_nodes = float(len(hosts)) if all_named else np.nan
    if processes_per_node:
        n_nodes = float(-(-group.n_processes // processes_per_node))
    first, _ = logs[main_log(group)]
    return {
        "exe": first.program,
        "user": first.user,
        "host": ", ".join(sorted(hosts)),
        "started_s": started_s,
        "run_time_s": run_time_s,
        "n_processes": group.n_processes,
        "n_logs": len(parts),
        "n_nodes": n_nodes,
        "grouped_by": group.grouped_by,
    }


def _time_columns(parts: Parts, times: Mapping[str, np.ndarray]) -> Columns:
    """Return the columns of table ``job_times``."""
    cell = parts.cell[times["job_cell"]]
    epochs = np.array([one[0] for one in parts.cells], np.int64)
    classes = class_columns([one[1:] for one in parts.cells], cell)
    is_counted = np.array([one[2] != MPI_IO for one in parts.cells], bool)
    kept = ("rank", "least_s", "largest_s", "operations", "bytes")
    return {
        "job": parts.cell_job[times["job_cell"]],
        "epoch": epochs[cell],
        **classes,
        "counted": is_counted[cell],
        **{name: times[name] for name in kept},
        "most_s": np.where(times["is_lost"], np.nan, times["most_s"]),
    }


def class_columns(classes: Sequence[JobClass], rows: np.ndarray) -> dict[str, Texts]:
    """Return tier, interface and operation of each row, which has a class's number."""
    return {
        name: coded([one[k] for one in classes]).of(rows)
        for k, name in enumerate(JOB_CLASS)
    }


def _process_columns(phases: Phases) -> Columns:
    """Return the columns of table ``job_processes``: sharp bounds of each process."""
    times = phases.times
    is_lost = (phases.times_are == LOWER_BOUNDS)[times.phase]
    return {
        "job": phases.job[times.phase],
        "epoch": phases.epoch[times.phase],
        "rank": times.rank,
        "least_s": times.total_least_s,
        "most_s": times.total_most_s,
        "can_be_slowest": phases.slowest.are_candidates | is_lost,
    }


def _of_processes(group: LogGroup, parts: Sequence[Summary]) -> list[Summary]:
    """Return the summaries of logs that are not of helpers, which may run for long."""
    return [
        part
        for part, process in zip(parts, group.processes, strict=True)
        if process != NO_PROCESS
    ]


def _run_span(parts: Sequence[Summary]) -> tuple[float, float]:
    """Return when a job began, in seconds since 1970, and how long it ran."""
    # Traced commands tell theirs, too: a process may have no log or end early.
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


def _percent(part_s: np.ndarray, whole_s: np.ndarray) -> np.ndarray:
    """Return parts in percent; missing if the whole is not known to be above 0."""
    is_known = whole_s > 0
    return np.where(is_known, 100 * part_s / np.where(is_known, whole_s, 1.0), np.nan)


def _slowest_columns(phases: Phases, run_times_s: np.ndarray) -> Columns:
    """Return the columns of table ``job_slowest``, without words."""
    slowest, times = phases.slowest, phases.times
    run_least_s, run_most_s = run_times_s[phases.job].T
    n_slowest = np.add.reduceat(slowest.are_candidates, times.first, dtype=np.int64)
    ranks = np.split(times.rank[slowest.are_candidates], np.cumsum(n_slowest)[:-1])
    words = list(map(rank_words, ranks, times.n_processes.tolist()))
    return {
        "job": phases.job,
        "epoch": phases.epoch,
        "times_are": coded(phases.times_are.tolist()),
        "n_slowest": n_slowest,
        "slowest_ranks": words,
        "least_s": slowest.least_s,
        "most_s": slowest.most_s,
        "run_least_percent": _percent(slowest.least_s, run_most_s),
        "run_most_percent": _percent(slowest.most_s, run_least_s),
    }


def _breakdown_columns(
    phases: Phases, layout: _Layout, sums: Mapping[str, np.ndarray]
) -> Columns:
    """Return columns of table ``job_breakdown``: of the slowest process, and sums."""
    phase, column = layout.phase, layout.column
    is_counted, n_rows = column >= 0, len(column)
    known = phases.slowest
    columns = {
        "job": phases.job[phase],
        "epoch": phases.epoch[phase],
        **class_columns(layout.classes, layout.class_number),
        "counted": is_counted,
        # Times that do not count do not tell the slowest process from others.
        "least_s": np.where(is_counted, known.class_least_s[phase, column], 0.0),
        "most_s": np.where(is_counted, known.class_most_s[phase, column], np.nan),
        "sum_s": np.bincount(layout.row, sums["sum_s"][layout.job_cell], n_rows),
    }
    for name in ("operations", "bytes", "files"):
        columns[name] = whole_sums(layout.row, sums[name][layout.job_cell], n_rows)
    return columns
