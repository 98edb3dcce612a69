"""Check a run that read from other nodes: stage-in, owners, both sides of a read."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from tierscope.audit.check import Check, equal
from tierscope.core.description import Run
from tierscope.policies import AdHoc, node_policy
from tierscope.storage.tier import STAGE_IN_EPOCH

_READ = ["epoch", "file_id"]


def check_peers(
    file_records: pd.DataFrame,
    peer_reads: pd.DataFrame,
    served: pd.DataFrame,
    staged: pd.DataFrame,
    epochs: pd.DataFrame,
    run: Run,
) -> Iterator[Check]:
    """Yield the checks of a run of an ad hoc file system.

    `file_records` has the reads from peers. `served` and `staged` are tables
    `background_records` of the servers' reads for peers, and of stage-in.
    """
    node_of = epochs.drop_duplicates("rank").set_index("rank")["node"]
    n_nodes = run.system.n_nodes
    is_mounted = run.policy_options["mount"] is not None
    # Owners and staged files are the same for all nodes, so one policy is enough.
    policy = node_policy(run, run.point, [], node=0)
    yield from _check_places(file_records, node_of, policy)
    yield from _check_stage_in(staged, node_of, policy, run, is_mounted)
    if is_mounted:
        yield equal("reads that our servers made for peers", len(served), 0)
        return
    yield _check_owners(staged, node_of, policy)
    yield _check_local_share(file_records, policy, n_nodes)
    yield _check_reads_of_owners(peer_reads, policy)
    yield from _check_servers(peer_reads, served, node_of, run)


def _check_places(
    file_records: pd.DataFrame, node_of: pd.Series, policy: AdHoc
) -> Iterator[Check]:
    """Check that each read used the tier that the reader's node must use."""
    staged, owners = policy.staged, policy.owners
    known = file_records[file_records["file_id"] < len(staged)]
    files = known["file_id"].to_numpy()
    nodes = known["rank"].map(node_of).to_numpy()
    is_mounted = policy.node < 0
    is_own = (owners[files] == nodes) & (not is_mounted)
    decided = np.where(staged[files], np.where(is_own, "lfs", "net"), "gfs")
    yield equal(
        "records on the tier that the policy chose",
        int((known["tier"].to_numpy() == decided).sum()),
        len(file_records),
    )


def _check_owners(staged: pd.DataFrame, node_of: pd.Series, policy: AdHoc) -> Check:
    """Check that stage-in wrote each staged file to the LFS of exactly one node."""
    lfs = staged[staged["tier"] == "lfs"]
    written = lfs.assign(node=lfs["rank"].map(node_of))
    written = written.drop_duplicates(["node", "file_id"])
    n_nodes = np.bincount(written["file_id"], minlength=len(policy.staged))
    return equal(
        "staged files with exactly one owner",
        int((n_nodes[: len(policy.staged)][policy.staged] == 1).sum()),
        int(policy.staged.sum()),
    )


def _check_stage_in(
    staged: pd.DataFrame,
    node_of: pd.Series,
    policy: AdHoc,
    run: Run,
    is_mounted: bool,
) -> Iterator[Check]:
    """Check that every staged byte left the GFS once and went to its owner."""
    size, n_staged = run.dataset.file_size_bytes, int(policy.staged.sum())
    gfs, lfs = (staged[staged["tier"] == tier] for tier in ("gfs", "lfs"))
    read = gfs.groupby("file_id")[["opens", "bytes_read"]].sum()
    is_right = (read["opens"] == 1) & (read["bytes_read"] == size)
    right = read.index[is_right].to_numpy()
    yield equal(
        "files that stage-in read whole and exactly once",
        int(policy.staged[right].sum()),
        n_staged,
    )
    yield equal(
        "bytes read from the GFS in stage-in",
        int(gfs["bytes_read"].sum()),
        n_staged * size,
    )
    n_written = 0 if is_mounted else n_staged
    yield equal(
        "bytes written to the LFS in stage-in",
        int(lfs["bytes_written"].sum()),
        n_written * size,
    )
    yield equal(
        "other bytes moved in stage-in",
        int(lfs["bytes_read"].sum() + gfs["bytes_written"].sum()),
        0,
    )
    nodes = lfs["rank"].map(node_of).to_numpy()
    owners = policy.owners[lfs["file_id"].to_numpy()]
    whole = (lfs["bytes_written"] == size).to_numpy()
    n_at_owner = int(((owners == nodes) & whole).sum())
    yield equal("files written at the node that owns them", n_at_owner, n_written)
    yield equal("files written to any LFS", len(lfs), n_written)
    later = int((staged["epoch"] != STAGE_IN_EPOCH).sum())
    yield equal("records of stage-in in later epochs", later, 0)


def _check_local_share(
    file_records: pd.DataFrame, policy: AdHoc, n_nodes: int
) -> Check:
    """Check the number of reads of staged files, and report the local share.

    With n nodes the share is 1/n on average. Its value in this run follows from hash
    and shuffle; `_check_places` has checked each read.
    """
    n_local = int((file_records["tier"] == "lfs").sum())
    n_net = int((file_records["tier"] == "net").sum())
    n_epochs = file_records["epoch"].nunique()
    n_reads, n_wanted = n_local + n_net, int(policy.staged.sum()) * n_epochs
    share = f"{100 * n_local / n_reads:.2f} %" if n_reads else "none"
    return Check(
        "reads of staged files from the reader's LFS or a peer",
        n_reads == n_wanted,
        f"{n_reads}, {share} of them local (1/{n_nodes}: {100 / n_nodes:.2f} %)",
        str(n_wanted),
    )


def _check_reads_of_owners(peer_reads: pd.DataFrame, policy: AdHoc) -> Check:
    """Check that each peer was asked only for files that it owns."""
    owners = policy.owners[peer_reads["file_id"].to_numpy()]
    return equal(
        "reads from the peer that owns the file",
        int((peer_reads["owner"].to_numpy() == owners).sum()),
        len(peer_reads),
    )


def _read_whole_once(
    served: pd.DataFrame, node_of: pd.Series, run: Run
) -> pd.DataFrame:
    """Return the records of whole reads for peers, with the reading node."""
    size = run.dataset.file_size_bytes
    is_whole = (
        (served["opens"] == 1)
        & (served["bytes_read"] == size)
        & (served["bytes_written"] == 0)
    )
    return served[is_whole].assign(owner=served["rank"].map(node_of))


def _check_servers(
    peer_reads: pd.DataFrame,
    served: pd.DataFrame,
    node_of: pd.Series,
    run: Run,
) -> Iterator[Check]:
    """Check that servers read exactly the data that peers received."""
    n_reads = len(peer_reads)
    by_server = _read_whole_once(served, node_of, run)
    both = peer_reads.merge(by_server[[*_READ, "owner"]], on=[*_READ, "owner"])
    yield equal("records of servers that read for peers", len(served), n_reads)
    yield equal("reads from peers that their servers made", len(both), n_reads)
    received = int(peer_reads["bytes"].sum())
    yield equal("bytes that peers received", received, int(served["bytes_read"].sum()))
    lfs_time_s = peer_reads["lfs_read_time_s"] + peer_reads["lfs_meta_time_s"]
    yield equal(
        "reads from peers that took less time than the peer's LFS",
        int((lfs_time_s > peer_reads["time_s"]).sum()),
        0,
    )
