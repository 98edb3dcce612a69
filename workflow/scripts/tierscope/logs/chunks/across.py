"""Which logs may form a job with logs of another chunk."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from tierscope.core.words import as_utf8
from tierscope.logs.grouping import name_finder


def related_logs(logs: pd.DataFrame, group: str | Mapping[str, str]) -> np.ndarray:
    """Return a number for each log of one process; logs of one job have the same.

    The converse does not hold: it is enough that logs could be compared with each
    other when jobs are found (`tierscope.logs.grouping`).

    Parameters
    ----------
    logs : DataFrame, one row a log
        Columns `log`, `uid`, `job_id`, `started_s`, `ended_s` and `group`.
    group : str or mapping
        The setting.
    """
    if group == "one":
        return np.arange(len(logs))
    if not isinstance(group, str):
        return _by_pattern(logs["log"], group["job"])
    is_traced = (logs["group"] != "").to_numpy()
    traced = pd.Series(np.where(is_traced, logs["group"], ""), index=logs.index)
    own = pd.Series(np.arange(len(logs)), index=logs.index)
    ids = logs.groupby(["uid", "job_id"]).ngroup()
    keys = [
        pd.factorize(traced.where(is_traced, own))[0],
        pd.factorize(ids.where(~is_traced, -1 - own))[0],
        pd.factorize(_overlaps(logs).where(~is_traced, -1 - own))[0],
    ]
    return _connected(keys)


def _by_pattern(paths: pd.Series, pattern: str) -> np.ndarray:
    """Return a number for each name that a pattern finds in paths."""
    find = name_finder(pattern)
    names = [find(Path(os.fsdecode(path))) for path in paths]
    keys = [
        f"log {i}" if name is None else f"job {as_utf8(name)}"
        for i, name in enumerate(names)
    ]
    return pd.factorize(np.array(keys, object))[0]


def _overlaps(logs: pd.DataFrame) -> pd.Series:
    """Return a number for the logs of a user that overlap, one with the other."""
    ordered = logs.sort_values(["uid", "started_s"])
    ended_s = ordered[["started_s", "ended_s"]].max(axis=1).astype(float)
    latest_s = ended_s.groupby(ordered["uid"]).cummax()
    before_s = latest_s.groupby(ordered["uid"]).shift().fillna(-np.inf)
    return (ordered["started_s"] > before_s).cumsum().reindex(logs.index)


def _connected(keys: list[np.ndarray]) -> np.ndarray:
    """Return a number for the rows that keys connect: each is a number for each row."""
    n_rows, edges, n_nodes = len(keys[0]), [], len(keys[0])
    for key in keys:
        edges.append(key + n_nodes)
        n_nodes += key.max(initial=-1) + 1
    rows = np.tile(np.arange(n_rows), len(keys))
    ends = np.concatenate(edges)
    graph = coo_matrix((np.ones(len(rows), bool), (rows, ends)), (n_nodes, n_nodes))
    return connected_components(graph, directed=False)[1][:n_rows]
