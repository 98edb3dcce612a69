"""The background traffic of a run: the copies of its nodes to their LFS."""

from collections.abc import Mapping, Sequence

import pandas as pd

from tierscope.core.columns import AFTER_TRAINING

# Columns to sum for records of each tier, and the names of the sums.
SUMS = {
    "gfs": {
        "opens": "gfs_opens",
        "reads": "gfs_reads",
        "bytes_read": "gfs_bytes",
        "read_time_s": "gfs_read_time_s",
        "meta_time_s": "gfs_meta_time_s",
    },
    "lfs": {
        "opens": "lfs_opens",
        "writes": "lfs_writes",
        "bytes_written": "lfs_bytes",
        "write_time_s": "lfs_write_time_s",
        "meta_time_s": "lfs_meta_time_s",
    },
}


def sum_background(
    records: pd.DataFrame,
    decisions: pd.DataFrame,
    node_of: Mapping[int, int],
    drain_time_s: Mapping[int, Sequence[float]],
) -> pd.DataFrame:
    """Return the copies of each node and epoch, with their bytes and times.

    Times are sums over copies, which overlap if there are several copy threads. A copy
    counts in the epoch in which it began. A node with reads after training has a row
    for copies that began then; it waits for these after the last epoch, too.

    Parameters
    ----------
    records, decisions : DataFrame
        Tables `background_records` and `decisions` of the run.
    node_of : mapping of int to int
        Node of each rank.
    drain_time_s : mapping of int to sequence of float
        Time that each node waited for its copies after each epoch.

    Returns
    -------
    DataFrame
        The table `run_background`.
    """
    after = set(decisions.loc[decisions["epoch"] == AFTER_TRAINING, "node"])
    rows = pd.MultiIndex.from_tuples(
        [
            (node, epoch)
            for node, times_s in sorted(drain_time_s.items())
            for epoch in [*[AFTER_TRAINING] * (node in after), *range(len(times_s))]
        ],
        names=["node", "epoch"],
    )
    columns = {}
    event, detail = decisions["event"], decisions["detail"]
    for name, wanted in (
        ("placed_files", event == "placed"),
        ("handed_over_files", (event == "placed") & (detail == "handed over")),
        ("failed_files", event == "failed"),
        ("evicted_files", event == "evict"),
    ):
        columns[name] = decisions[wanted].groupby(["node", "epoch"]).size()
    records = records.assign(node=records["rank"].map(node_of))
    for tier, names in SUMS.items():
        part = records[records["tier"] == tier].groupby(["node", "epoch"])
        columns |= {new: part[old].sum() for old, new in names.items()}
    table = pd.DataFrame(
        {name: column.reindex(rows, fill_value=0) for name, column in columns.items()},
        index=rows,
    )
    table["drain_time_s"] = [
        0.0 if epoch == AFTER_TRAINING else drain_time_s[node][epoch]
        for node, epoch in rows
    ]
    return table.reset_index()
