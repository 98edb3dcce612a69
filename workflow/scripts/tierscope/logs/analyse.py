"""Analyse Darshan logs of any jobs: from logs to tables."""

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pandas as pd
import pyarrow.dataset as ds

from tierscope.core.tables import open_table, read_table
from tierscope.core.validation import ConfigError, check
from tierscope.core.words import shortened
from tierscope.logs.chunks.chunk import Progress, read_chunk
from tierscope.logs.chunks.datasets import places_in
from tierscope.logs.chunks.gather import gather
from tierscope.logs.chunks.listing import list_logs
from tierscope.logs.settings import (
    CHUNKS,
    DROP,
    KEEP,
    LISTING,
    LOGS,
    READ_LOGS,
    TABLES,
    Settings,
    settings_of,
)
from tierscope.logs.tiers import AUTO

_MOST_SEARCHED = 100  # jobs of a call of `analyse`, for combinations


class JobSettings(TypedDict, total=False):
    """What `analyse` takes besides, as keys of a configuration of logs."""

    group: str | Mapping[str, str]
    epochs: str | None
    goal_s: float | None
    processes_per_node: int | None
    inflation: Mapping[str, int]


def analyse(
    logs: str | Path | Sequence[str | Path],
    tiers: str | Mapping[str, str | Sequence[str]] = AUTO,
    *,
    keep: str | Path | None = None,
    lazy: bool = False,
    n_workers: int | None = None,
    **settings: Unpack[JobSettings],
) -> dict[str, pd.DataFrame] | dict[str, ds.Dataset]:
    """Analyse Darshan logs of any jobs.

    Parameters
    ----------
    logs : path or sequence of paths
        Logs, folders of logs, and patterns.
    tiers : mapping of str to str or sequence of str, or ``auto``
        Prefixes of paths by tier. ``auto``: one tier for each kind of file system in
        the mount table of a log.
    keep : path, optional
        A folder in which to keep the tables and what was read, so that a later analysis
        does not read the same logs again. The tables have the jobs of `logs` only.
    lazy : bool, optional
        Whether to write the tables to ``tables`` in `keep`, and to return what reads
        them in parts.
    n_workers : int, optional
        Number of processes that read.

    Other Parameters
    ----------------
    group : {"auto", "one"} or mapping
        Which logs form a job (`tierscope.logs.grouping.group_logs`).
    epochs : str, optional
        Regular expression on the paths of files; its group is the epoch's number.
    goal_s : float, optional
        Goal for the I/O time of the slowest process in the whole job. By default 80 %
        of today's, for the whole job and for each epoch.
    processes_per_node : int, optional
        For node-hours; no log says it.
    inflation : mapping of str to int, optional
        What names and records of a log may inflate to (`Inflation`).

    Returns
    -------
    dict of str to DataFrame, or to pyarrow's Dataset if `lazy`
        The tables `JOB_TABLES`; docs/tables.md lists their columns. A log that cannot
        be used is a row of ``refusals``. ``job_combinations`` has rows of the 100 jobs
        with the most hours (``io_hours`` in ``fleet``); for others call
        `tierscope.logs.combinations.combinations_of_jobs` with these tables.

    Raises
    ------
    ConfigError
        If an argument is wrong, or no log is found, or none can be used.
    """
    for unknown in settings.keys() - JobSettings.__annotations__.keys():
        raise TypeError(f"analyse() got an unexpected keyword argument {unknown!r}")
    given = {"experiment": "analysis", "logs": _paths_of(logs), "tiers": tiers}
    check(given | settings, LOGS, "analyse")
    checked = settings_of(**given, **settings, pages=_MOST_SEARCHED, vanished=DROP)
    if lazy and keep is None:
        raise ConfigError(
            "analyse: lazy: got True without keep, expected keep: a folder for tables"
        )
    if keep is not None:
        folder = Path(_path_of("keep", keep))
        if not lazy:
            return tables_of(checked, folder, n_workers=n_workers)
        tables = write_tables(checked, folder, n_workers=n_workers)
        return {name: open_table(path, name) for name, path in tables.items()}
    with tempfile.TemporaryDirectory() as folder:
        return tables_of(checked, Path(folder), n_workers=n_workers)


def _paths_of(logs: Any) -> list[str]:
    """Return the paths that are given, one or several."""
    is_one = isinstance(logs, str | bytes | Mapping) or not isinstance(logs, Iterable)
    return [_path_of("logs", one) for one in ([logs] if is_one else logs)]


def _path_of(argument: str, given: Any) -> str:
    """Return a path as text; a ConfigError says what else was given."""
    try:
        return os.fsdecode(given)
    except TypeError:
        raise ConfigError(
            f"analyse: {argument}: got {shortened(repr(given), 80)}, expected a path"
        ) from None


def tables_of(
    settings: Settings,
    folder: Path,
    *,
    n_workers: int | None = None,
) -> dict[str, pd.DataFrame]:
    """Return the tables of an analysis; what was read is kept in a folder.

    Errors are those of `write_tables`.
    """
    places = write_tables(settings, folder, n_workers=n_workers)
    found = {name: read_table(place, name) for name, place in places.items()}
    order = ["io_hours", "job"]
    fleet = found["fleet"].sort_values(order, ascending=[False, True])
    return found | {"fleet": fleet.reset_index(drop=True)}


def write_tables(
    settings: Settings,
    folder: Path,
    *,
    n_workers: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> dict[str, Path]:
    """Write the tables of an analysis and what was read to a folder; return places.

    Raises
    ------
    ConfigError
        If no log is found, none can be used, or a filter keeps none.
    """
    listing = list_logs(
        settings.logs,
        folder / LISTING,
        keep_vanished=settings.vanished == KEEP,
    )
    for chunk, logs in listing.chunks.items():
        read_chunk(
            logs,
            settings,
            chunk=chunk,
            kept=folder / READ_LOGS,
            output=folder / CHUNKS / chunk,
            n_workers=n_workers,
            progress=progress,
        )
    chunks = [folder / CHUNKS / chunk for chunk in listing.chunks]
    tables = folder / TABLES
    gather(chunks, settings, kept=folder / READ_LOGS, tables=tables)
    return places_in(tables)
