"""The report of a run on its reads from peers: a table and part of `run.json`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tierscope.core.tables import write_table
from tierscope.storage.tier import background_roots, peer_root


def write_peer_reads(
    folder: Path,
    reports: Iterable[Mapping[str, Any]],
    tier_roots: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Write the table `peer_reads` of a run; return its part of `run.json`.

    Parameters
    ----------
    folder : Path
        The run's folder.
    reports : iterable of mapping
        Reports of all processes (`NodePeers.report`), rank 0 first.
    tier_roots : mapping of str to sequence of str
        Data directories by tier.
    """
    reports = list(reports)
    parts = [pd.DataFrame(report["peer_reads"]) for report in reports]
    reads = pd.concat(parts, ignore_index=True)
    reads = reads.sort_values(["epoch", "rank", "file_id"], kind="stable")
    write_table(reads, folder / "peer_reads.parquet", "peer_reads")
    served = {"lfs": [str(peer_root(Path(root))) for root in tier_roots["lfs"]]}
    return {
        "background_roots": background_roots(tier_roots),
        "peer_roots": served,
        "stage_in_time_s": reports[0]["stage_in_time_s"],
        "peer_interfaces": sorted({report["interface"] for report in reports} - {None}),
    }
