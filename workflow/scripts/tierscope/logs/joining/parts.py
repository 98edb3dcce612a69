"""The summaries of many jobs' logs in arrays: their cells, and the rows of each."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tierscope.logs.grouping import NO_PROCESS, LogFacts, LogGroup
from tierscope.logs.summary import Summary, lossy_interfaces, of_each_process

Cell = tuple[int, str, str, str]  # epoch, tier, interface, operation


@dataclass(frozen=True)
class Parts:
    """The logs of some jobs.

    A *cell of a log* is one of `Summary.cells`; those of all logs stand one after the
    other. A *cell of a job* is there once for all its logs.

    Parameters
    ----------
    logs : list of Summary
        Of all jobs, in their order.
    job, process : ndarray of int, shape (n_logs,)
        Position of a log's job, and the process in it; `NO_PROCESS` of a helper.
    n_processes : ndarray of int, shape (n_jobs,)
    log, job_cell : ndarray of int, shape (n_log_cells,)
        The log and the job's cell that a cell of a log is.
    is_lossy : ndarray of bool, shape (n_log_cells,)
        Whether the log may not count all time of the cell's interface.
    cells : list of Cell
        The distinct ones, sorted.
    cell_job, cell : ndarray of int, shape (n_job_cells,)
        The job of each of its cells, and the position in `cells`; sorted.
    """

    logs: list[Summary]
    job: np.ndarray
    process: np.ndarray
    n_processes: np.ndarray
    log: np.ndarray
    job_cell: np.ndarray
    is_lossy: np.ndarray
    cells: list[Cell]
    cell_job: np.ndarray
    cell: np.ndarray

    def by_job(self) -> list[list[Summary]]:
        """Return the logs of each job."""
        ends = np.cumsum(np.bincount(self.job, minlength=len(self.n_processes)))
        spans = itertools.pairwise([0, *ends.tolist()])
        return [self.logs[first:end] for first, end in spans]

    def rows_of(self, table: Literal["times", "totals"]) -> dict[str, np.ndarray]:
        """Return the rows of all processes of all logs (`of_each_process`).

        ``rank`` is the process in the job, `NO_PROCESS` of a helper. ``cell`` is one of
        a log.
        """
        rows = of_each_process(self.logs, table)
        process = self.process[rows["log"]]
        is_helper = process == NO_PROCESS
        rows["rank"] = np.where(is_helper, NO_PROCESS, rows["rank"] + process)
        if table == "times":
            n_cells = np.bincount(self.log, minlength=len(self.logs))
            rows["cell"] += (np.cumsum(n_cells) - n_cells)[rows["log"]]
        return rows

    def sums_of(self, name: str, kind: type) -> np.ndarray:
        """Return one of `Summary.sums` of all logs' cells."""
        values = itertools.chain.from_iterable(one.sums[name] for one in self.logs)
        return np.array(list(values), kind)


def parts_of(
    groups: Sequence[LogGroup], logs: Mapping[Path, tuple[LogFacts, Summary]]
) -> Parts:
    """Return the logs of some jobs."""
    summaries = [logs[path][1] for group in groups for path in group.logs]
    n_logs = [len(group.logs) for group in groups]
    job = np.repeat(np.arange(len(groups)), n_logs)
    process = [one for group in groups for one in group.processes]
    of_logs = [tuple(cell) for one in summaries for cell in one.cells]
    log = np.repeat(np.arange(len(job)), [len(one.cells) for one in summaries])
    cells = sorted(set(of_logs))
    number = {cell: position for position, cell in enumerate(cells)}
    of_all = np.array([number[cell] for cell in of_logs], np.int64)
    keys, job_cell = np.unique(job[log] * len(cells) + of_all, return_inverse=True)
    cell_job, cell = np.divmod(keys, max(len(cells), 1))
    lossy = [lossy_interfaces(one.facts) for one in summaries]
    is_lossy = [
        cell[2] in of_log
        for of_log, one in zip(lossy, summaries, strict=True)
        for cell in one.cells
    ]
    return Parts(
        summaries,
        job,
        np.array(process, np.int64),
        np.array([group.n_processes for group in groups], np.int64),
        log,
        job_cell,
        np.array(is_lossy, bool),
        cells,
        cell_job,
        cell,
    )
