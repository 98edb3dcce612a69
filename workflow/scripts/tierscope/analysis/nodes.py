"""Compare the same processes on one node and on several: Monarch's hits, LMDB's waits.

A node rereads what it holds. With a global shuffle it reads other files every epoch,
so one of n nodes finds what Monarch has placed there in one of n reads (Dantas et al.,
CCGrid 2022, measured one node). Processes of a node that map one file wait for its
pages together (Pumma et al., TOPC 2019), so context switches are counted against the
processes a node.
"""

import numpy as np
import pandas as pd

from tierscope.analysis.comparing.savings import PAIR_KEYS, RUN, VARIANT, mean_cuts
from tierscope.analysis.intervals import mean_intervals
from tierscope.core.columns import TABLES

_ON_NODES = [*VARIANT, "n_nodes"]
_PAIR_KEYS_AND_EPOCH = [*PAIR_KEYS, "epoch"]
_SWITCHES = ["voluntary_switches", "involuntary_switches"]


def hit_law(n_nodes: int, epochs: np.ndarray, part: float) -> np.ndarray:
    """Return the expected part of an epoch's reads that Monarch serves from the LFS.

    One of n nodes has seen a file in e epochs with probability 1 - (1 - 1/n)^e, and has
    room for a part f. So the part is min(f, 1 - (1 - 1/n)^e) in epoch e, counted from
    0. On one node it is exactly f from epoch 1 on.

    Parameters
    ----------
    n_nodes : int
        Number of nodes under a global shuffle.
    epochs : ndarray of int
        Epochs from 0 on.
    part : float
        Part of the dataset for which a node has room.
    """
    seen = 1 - (1 - 1 / n_nodes) ** np.asarray(epochs)
    return np.minimum(part, seen)


def save_by_epoch(policy_epochs: pd.DataFrame, totals: pd.DataFrame) -> pd.DataFrame:
    """Return the part of the GFS reads that Monarch saves in each epoch, and the law.

    Parameters
    ----------
    policy_epochs, totals : DataFrame
        Tables ``policy_epochs`` and ``policy_totals`` of the study.

    Returns
    -------
    DataFrame, shape (n_numbers_of_nodes * n_epochs, 16)
        Table ``node_epochs``: reads are exact sums over the repetitions, including
        those of copies; ``saved_low_percent`` to ``saved_high_percent`` is the interval
        over the repetitions.
    """
    reads = policy_epochs["gfs_reads"] + policy_epochs["background_gfs_reads"]
    table = policy_epochs.assign(gfs_reads=reads)
    reference = table[table["policy"] == "none"].set_index(_PAIR_KEYS_AND_EPOCH)[
        "gfs_reads"
    ]
    table = table[table["policy"] == "monarch"]
    table = table.join(reference.rename("reference_gfs_reads"), on=_PAIR_KEYS_AND_EPOCH)
    nodes = totals.drop_duplicates(RUN).set_index(RUN)["n_nodes"]
    table = table.join(nodes, on=RUN)
    table["saved"] = 100 * (1 - table["gfs_reads"] / table["reference_gfs_reads"])
    by = [*_ON_NODES, "epoch"]
    points = table.groupby(by)
    sums = points[["gfs_reads", "reference_gfs_reads"]].sum()
    sums["n_repetitions"] = points.size()
    sums["saved_percent"] = 100 * (1 - sums["gfs_reads"] / sums["reference_gfs_reads"])
    found = mean_intervals(table, by, "saved")
    sums["saved_low_percent"], sums["saved_high_percent"] = found["low"], found["high"]
    sums = sums.reset_index()
    return _with_law(sums, sums["epoch"])[list(TABLES["node_epochs"])]


def _with_law(table: pd.DataFrame, epoch: pd.Series) -> pd.DataFrame:
    """Return the table with the law of each row's number of nodes and epoch."""
    law = [
        100 * float(hit_law(n_nodes, e, rate / 100))
        for n_nodes, e, rate in zip(
            table["n_nodes"], epoch, table["cache_rate_percent"], strict=True
        )
    ]
    return table.assign(law_percent=law)


def save_up_to(totals: pd.DataFrame) -> pd.DataFrame:
    """Return Monarch's savings up to each number of epochs, by number of nodes.

    Parameters
    ----------
    totals : DataFrame
        Table ``policy_totals`` of the study.

    Returns
    -------
    DataFrame, shape (n_numbers_of_nodes * n_epochs, 16)
        Table ``node_savings``. Cuts of the time, in which waiting for copies between
        epochs counts, and of the slowest process's I/O time are `mean_cuts`.
        Operations on the GFS are opens and reads, those of copies included, summed over
        the repetitions; ``law_percent`` is the mean of the law over the epochs, so
        f (E - 1) / E on one node.
    """
    table = totals[totals["policy"] == "monarch"].copy()
    table["operations"] = table["gfs_operations"] + table["background_gfs_operations"]
    by = [*_ON_NODES, "n_epochs"]
    result = mean_cuts(table, by)
    sums = table.groupby(by)[["operations", "reference_gfs_operations"]].sum()
    left = sums["operations"] / sums["reference_gfs_operations"]
    result["gfs_operations_cut_percent"] = 100 * (1 - left)
    result = result.reset_index()
    result = _with_law(result, result["n_epochs"] - 1)
    by_nodes = result.groupby(_ON_NODES)["law_percent"]
    result["law_percent"] = by_nodes.cumsum() / result["n_epochs"]
    return result[list(TABLES["node_savings"])]


def count_switches(faults: pd.DataFrame, epochs: pd.DataFrame) -> pd.DataFrame:
    """Return the context switches of each run of a loader of LMDB while it reads.

    Parameters
    ----------
    faults : DataFrame
        Tables ``faults`` of the runs, with the keys of the runs; on emulated tiers
        without rows.
    epochs : DataFrame
        Table ``epochs`` of the same runs and others.

    Returns
    -------
    DataFrame, shape (n_runs, 16)
        Table ``node_switches``: sums over processes and epochs.
    """
    runs = epochs.groupby(RUN)
    n_nodes = runs["node"].nunique()
    sizes = pd.DataFrame(
        {
            "records": runs["samples"].sum(),
            "n_nodes": n_nodes,
            "processes_per_node": runs["rank"].nunique() // n_nodes,
        }
    )
    counted = [
        "access_time_s",
        "major_faults",
        "minor_faults",
        *_SWITCHES,
    ]
    table = faults.groupby(RUN)[counted].sum().join(sizes, how="inner")
    return table.reset_index()[list(TABLES["node_switches"])]


def per_record(switches: pd.DataFrame) -> pd.DataFrame:
    """Return table ``node_switches`` with columns of its switches per record."""
    rates = {
        f"{name}_per_record": switches[name] / switches["records"] for name in _SWITCHES
    }
    return switches.assign(**rates)
