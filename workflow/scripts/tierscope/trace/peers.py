"""Reads from peers and stage-in of a run, as tables."""

from collections.abc import Iterable, Mapping

import pandas as pd

from tierscope.core.columns import TABLES
from tierscope.core.tables import check_table
from tierscope.trace.background import SUMS


def as_file_records(peer_reads: pd.DataFrame) -> pd.DataFrame:
    """Return reads from peers as rows of `file_records`, of tier `net`.

    A request counts as one open and one read. Its time, from the request to the last
    byte, is read time; it includes the time of the owner's LFS.
    """
    records = peer_reads.rename(
        columns={"bytes": "bytes_read", "time_s": "read_time_s"}
    )
    records = records.assign(tier="net", opens=1, reads=1, meta_time_s=0.0)
    return check_table(records[list(TABLES["file_records"])], "file_records")


def with_peer_reads(
    file_records: pd.DataFrame, peer_reads: pd.DataFrame
) -> pd.DataFrame:
    """Return all reads of a run: those of its log, and those from peers."""
    both = pd.concat([file_records, as_file_records(peer_reads)], ignore_index=True)
    keys = ["epoch", "rank", "tier", "file_id"]
    return both.sort_values(keys, kind="stable", ignore_index=True)


def sum_stage_in(
    records: pd.DataFrame, node_of: Mapping[int, int], stage_in_time_s: float
) -> pd.DataFrame:
    """Return the traffic of each node during stage-in.

    Parameters
    ----------
    records : DataFrame
        Table `background_records` of the run.
    node_of : mapping of int to int
        Node of each rank.
    stage_in_time_s : float
        Time from barrier to barrier, the same for all nodes.

    Returns
    -------
    DataFrame, shape (n_nodes, 12)
        The table `run_stage_in`. The times of calls are sums over the node's
        processes, which copy at the same time.
    """
    nodes = pd.Index(sorted(set(dict(node_of).values())), name="node")
    records = records.assign(node=records["rank"].map(node_of))
    columns = {}
    for tier, names in SUMS.items():
        part = records[records["tier"] == tier].groupby("node")
        columns |= {
            new: part[old].sum().reindex(nodes, fill_value=0)
            for old, new in names.items()
        }
    table = pd.DataFrame(columns, index=nodes)
    return table.assign(stage_in_time_s=stage_in_time_s).reset_index()


def sum_peers(
    peer_reads: pd.DataFrame, node_of: Mapping[int, int], epochs: Iterable[int]
) -> pd.DataFrame:
    """Return the reads of each process from peers in each epoch.

    Parameters
    ----------
    peer_reads : DataFrame
        Table `peer_reads` of the run.
    node_of : mapping of int to int
        Node of each rank.
    epochs : iterable of int
        All epochs of the run.

    Returns
    -------
    DataFrame, shape (n_epochs * n_ranks, 9)
        The table `run_peers`. `net_read_time_s` is the total time of the class. It is
        the sum of the owners' LFS time, as they report it, and `network_time_s`, the
        rest.
    """
    node_of = dict(node_of)
    keys = pd.MultiIndex.from_product(
        [sorted(epochs), sorted(node_of)], names=["epoch", "rank"]
    )
    groups = peer_reads.groupby(["epoch", "rank"])
    sums = groups[["bytes", "time_s", "lfs_read_time_s", "lfs_meta_time_s"]].sum()
    sums["files"] = groups.size()
    names = {
        "files": "peer_files",
        "bytes": "peer_bytes",
        "time_s": "net_read_time_s",
        "lfs_read_time_s": "peer_lfs_read_time_s",
        "lfs_meta_time_s": "peer_lfs_meta_time_s",
    }
    table = sums.rename(columns=names).reindex(keys, fill_value=0).reset_index()
    lfs_s = table["peer_lfs_read_time_s"] + table["peer_lfs_meta_time_s"]
    table["network_time_s"] = table["net_read_time_s"] - lfs_s
    table["node"] = table["rank"].map(node_of)
    return table[list(TABLES["run_peers"])]
