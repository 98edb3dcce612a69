"""The files and folders that cost jobs most, and the sizes of their calls."""

import itertools
from collections.abc import Sequence
from operator import add

import numpy as np

from tierscope.logs.joining.texts import Texts, coded
from tierscope.logs.summary import SIZES, Summary

_COUNTS = ("time_s", "opens", "reads", "writes", "bytes_read", "bytes_written")
_KINDS = ("file", "folder")


def file_columns(
    jobs: Sequence[Sequence[Summary]], most_files: int
) -> dict[str, np.ndarray | list | Texts]:
    """Return the columns of table ``job_files``: the paths that cost most.

    `jobs` are the logs of each job; ``job`` is its position.
    """
    rows: dict[str, list] = {name: [] for name in ("path", "tier", *_COUNTS)}
    n_rows = []
    for logs, kind in itertools.product(jobs, _KINDS):
        top = _top([getattr(log, f"{kind}s") for log in logs], most_files)
        n_rows.append(len(top["path"]))
        for name, values in rows.items():
            values += top[name]
    repeats = np.array(n_rows, np.int64)
    first = np.cumsum(repeats) - repeats
    number, kinds = np.arange(len(n_rows)), np.arange(len(n_rows)) % len(_KINDS)
    return rows | {
        "job": np.repeat(number // len(_KINDS), repeats),
        "kind": Texts(_KINDS, np.repeat(kinds, repeats)),
        "position": np.arange(repeats.sum()) - np.repeat(first, repeats),
        "tier": coded(rows["tier"]),
    }


def _top(tables: Sequence[dict[str, list]], most_files: int) -> dict[str, list]:
    """Return the paths with the most time of some logs of a job, and their sums."""
    if len(tables) == 1:
        (table,) = tables
        if len(set(table["path"])) == len(table["path"]):
            return _first(table, most_files)
    found: dict[tuple[str, str], list] = {}
    for table in tables:
        values = zip(*(table[name] for name in _COUNTS), strict=True)
        keys = zip(table["path"], table["tier"], strict=True)
        for key, one in zip(keys, values, strict=True):
            before = found.get(key)
            summed = one if before is None else map(add, before, one)
            found[key] = list(summed)
    columns = [*zip(*found, strict=True)] or [(), ()]
    columns += [*zip(*found.values(), strict=True)] or [()] * len(_COUNTS)
    names = ("path", "tier", *_COUNTS)
    return _first(dict(zip(names, columns, strict=True)), most_files)


def _first(table: dict[str, Sequence], most_files: int) -> dict[str, list]:
    """Return the rows with the most time; of equal ones those with the first path."""
    times_s, paths, tiers = (table[name] for name in ("time_s", "path", "tier"))
    order = range(len(times_s))
    if len(order) > most_files:  # most logs have more: sort few of them by path
        least_s = sorted(times_s, reverse=True)[most_files - 1]
        order = [i for i in order if times_s[i] >= least_s]
    order = sorted(order, key=lambda i: (-times_s[i], paths[i], tiers[i]))
    return {
        name: [values[i] for i in order[:most_files]] for name, values in table.items()
    }


def size_columns(
    jobs: Sequence[Sequence[Summary]],
) -> dict[str, np.ndarray | list | Texts]:
    """Return the columns of table ``job_sizes``; ``job`` is the position of the job."""
    keys, calls = [], []
    for job, logs in enumerate(jobs):
        for log in logs:
            for tier, operation, of_sizes in log.sizes:
                keys.append((job, tier, operation))
                calls.append(of_sizes)
    distinct = sorted(set(keys))
    number = {key: position for position, key in enumerate(distinct)}
    where = np.array([number[key] for key in keys], np.int64)
    sums = np.zeros((len(distinct), len(SIZES)), np.int64)
    np.add.at(sums, where, np.reshape(np.array(calls, np.int64), (-1, len(SIZES))))
    row, position = (one.ravel() for one in np.indices(sums.shape))
    job, tier, operation = ([key[k] for key in distinct] for k in range(3))
    return {
        "job": np.array(job, np.int64)[row],
        "tier": coded(tier).of(row),
        "operation": coded(operation).of(row),
        "position": position,
        "size": Texts(SIZES, position),
        "calls": sums.ravel(),
    }
