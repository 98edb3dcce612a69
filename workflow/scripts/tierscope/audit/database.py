"""Check a run whose samples are records of one LMDB file.

An open identifies a file, but a call does not identify a record. So the loader notes
every record and every call. These notes must agree with the order, the policy and the
computed offsets of the file, and exactly with the opens, calls and bytes of the tracer.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from tierscope.audit.check import Check, check_consumption, equal
from tierscope.core.description import Run
from tierscope.data.lmdb.layout import Provenance
from tierscope.data.record_order import first_records, order_of

_READER = ["rank", "epoch", "tier"]


def check_database(
    file_records: pd.DataFrame,
    epochs: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    run: Run,
) -> list[Check]:
    """Return the checks by record, which replace the checks by file.

    `tables` has `record_reads` and `read_calls` of the run, and `file_records` are
    those of the tracer's log.
    """
    reads, calls = tables["record_reads"], tables["read_calls"]
    provenance = Provenance(**run.database)
    n_read = reads.groupby(["rank", "epoch"]).size()
    return [
        *_check_records(reads, epochs, run),
        *check_consumption(
            epochs,
            n_read,
            n_read * provenance.value_bytes,
            "their records",
            "those of their records",
        ),
        *_check_calls(reads, calls, provenance),
        *_check_tracer(file_records, calls),
    ]


def _check_records(
    reads: pd.DataFrame, epochs: pd.DataFrame, run: Run
) -> Iterator[Check]:
    """Check that every epoch read each record once, on its tier, by its process."""
    n_records = run.dataset.n_files
    on_lfs = first_records(n_records, run.point.cache_rate_percent)
    order = order_of(run, run.point.repetition)
    nodes = epochs.drop_duplicates("rank").sort_values("rank")["node"].tolist()
    later = (reads["epoch"] >= run.training.epochs).sum()
    yield equal("records of other epochs", int(later), 0)
    for epoch in range(run.training.epochs):
        part = reads[reads["epoch"] == epoch]
        times = np.bincount(part["file_id"], minlength=n_records)
        once = int((times[:n_records] == 1).sum())
        yield equal(f"records read exactly once in epoch {epoch}", once, n_records)
        yield equal(f"records read in epoch {epoch}", len(part), n_records)
        part = part[part["file_id"] < n_records]
        decided = np.where(on_lfs[part["file_id"]], "lfs", "gfs")
        yield equal(
            f"records on the tier that the policy chose in epoch {epoch}",
            int((part["tier"] == decided).sum()),
            n_records,
        )
        reader = order.readers(nodes, epoch)[part["file_id"]]
        yield equal(
            f"records of the process that the shuffle chose in epoch {epoch}",
            int((part["rank"] == reader).sum()),
            n_records,
        )


def _check_calls(
    reads: pd.DataFrame,
    calls: pd.DataFrame,
    provenance: Provenance,
) -> Iterator[Check]:
    """Check that each record lies within one read of its reader, and no two overlap."""
    offsets, n_bytes = provenance.layout.offsets, provenance.value_bytes
    data = calls[calls["kind"] == "data"].sort_values([*_READER, "offset"])
    covered, overlaps = 0, 0
    places = {
        key: part[["offset", "bytes"]].to_numpy().T
        for key, part in data.groupby(_READER)
    }
    readers = reads[reads["file_id"] < len(offsets)].groupby(["reader", *_READER[1:]])
    for key, part in readers:
        if key not in places:
            continue
        starts, lengths = places[key]
        wanted = offsets[part["file_id"]]
        at = np.searchsorted(starts, wanted, side="right") - 1
        inside = (at >= 0) & (wanted + n_bytes <= starts[at] + lengths[at])
        covered += int(inside.sum())
    for _, part in data.groupby(["epoch", "tier"]):
        if part["tier"].iloc[0] == "gfs":
            overlaps += _overlaps(part)
    for _, part in data[data["tier"] == "lfs"].groupby(_READER):  # a copy on each node
        overlaps += _overlaps(part)
    yield equal("records within a read of their reader", covered, len(reads))
    yield equal("reads that overlap another read", overlaps, 0)


def _overlaps(calls: pd.DataFrame) -> int:
    """Return how many calls start before the end of the preceding call."""
    calls = calls.sort_values("offset")
    ends = (calls["offset"] + calls["bytes"]).to_numpy()
    return int((calls["offset"].to_numpy()[1:] < ends[:-1]).sum())


def _check_tracer(file_records: pd.DataFrame, calls: pd.DataFrame) -> Iterator[Check]:
    """Check that the tracer counted exactly the calls that the loader noted."""
    explicit = calls[~calls["mapped"]].groupby(_READER)["bytes"].agg(["size", "sum"])
    noted = calls.groupby(_READER).size()
    explicit = explicit.reindex(noted.index, fill_value=0)
    traced = file_records.groupby(_READER)[["opens", "reads", "bytes_read"]].sum()
    strange = len(traced.index.difference(noted.index))
    yield equal("processes and tiers in the log without a noted call", strange, 0)
    traced = traced.reindex(noted.index, fill_value=0)
    for name, wanted, what in (
        ("opens", 1, "one open"),
        ("reads", explicit["size"], "as many reads as it noted"),
        ("bytes_read", explicit["sum"], "the bytes it noted"),
    ):
        yield equal(
            f"readers, epochs and tiers with {what}",
            int((traced[name] == wanted).sum()),
            len(noted),
        )


def with_mapped_reads(
    file_records: pd.DataFrame, calls: pd.DataFrame, run: Run
) -> pd.DataFrame:
    """Return the records of the log with the page faults, which the log lacks.

    The time to touch all pages of a record counts as time of the tier's READ class, and
    every page fault as a read. The log of emulated tiers has the reads that are charged
    for faults.
    """
    mapped = calls[calls["mapped"] & ~calls["tier"].isin(run.system.emulated_tiers)]
    if mapped.empty:
        return file_records
    sums = mapped.groupby(_READER)[["faults", "bytes", "time_s"]].sum().reset_index()
    names = {"faults": "reads", "bytes": "bytes_read", "time_s": "read_time_s"}
    added = sums.rename(columns=names).assign(file_id=0, opens=0, meta_time_s=0.0)
    return pd.concat([file_records, added[list(file_records.columns)]])
