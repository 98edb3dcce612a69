"""The report of a run on its reads from peers: a table and part of `run.json`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.run_folder import joined
from tierscope.core.tables import write_columns
from tierscope.storage.tier import background_roots, peer_root


def write_peer_reads(
    folder: Path,
    reports: Iterable[Mapping[str, Any]],
    tier_roots: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Write the table `peer_reads` of a run; return its part of `run.json`.

    `reports` are those of `NodePeers.report` of all processes, rank 0 first.
    """
    reports = list(reports)
    reads = joined([report["peer_reads"] for report in reports])
    order = np.lexsort([reads[name] for name in ("file_id", "rank", "epoch")])
    reads = {name: column[order] for name, column in reads.items()}
    write_columns(reads, folder / "peer_reads.parquet", "peer_reads")
    served = {"lfs": [str(peer_root(Path(root))) for root in tier_roots["lfs"]]}
    return {
        "background_roots": background_roots(tier_roots),
        "peer_roots": served,
        "stage_in_time_s": reports[0]["stage_in_time_s"],
        "peer_interfaces": sorted({report["interface"] for report in reports} - {None}),
    }
