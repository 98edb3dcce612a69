"""Check a run before believing it.

A run counts only if every epoch read every file exactly once, from the tier of the
policy and by the process of the shuffle, and if the times are plausible.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tierscope.audit.check import Check, check_consumption, equal
from tierscope.audit.database import check_database, with_mapped_reads
from tierscope.audit.decisions import check_decisions
from tierscope.audit.peers import check_peers
from tierscope.core.description import Run
from tierscope.data.shuffle import process_share, run_order
from tierscope.policies import (
    DATABASE,
    FILES,
    PEERS,
    PLACED,
    POLICIES,
    held_files,
    kind_of,
    strata,
)
from tierscope.trace.peers import with_peer_reads


class AuditError(RuntimeError):
    """A run failed its audit; the message holds the numbers."""


@dataclass(frozen=True)
class Evidence:
    """The results of a run.

    Parameters
    ----------
    run : Run
        The run.
    file_records, epochs, manifest : DataFrame
        Tables `file_records` (of the log alone), `run_epochs` and `manifest`.
    tables : mapping of str to DataFrame
        The tables of its kind (`tierscope.policies.kinds.RunKind.tables`).
    background, served : DataFrame, optional
        Tables `background_records` of copies or stage-in, and of servers' reads for
        other nodes, if the run's kind has them.
    """

    run: Run
    file_records: pd.DataFrame
    epochs: pd.DataFrame
    manifest: pd.DataFrame
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    background: pd.DataFrame | None = None
    served: pd.DataFrame | None = None

    @cached_property
    def all_records(self) -> pd.DataFrame:
        """Return `file_records` with the reads that are not in any log."""
        if "peer_reads" in self.tables:
            return with_peer_reads(self.file_records, self.tables["peer_reads"])
        if "read_calls" in self.tables:
            calls = self.tables["read_calls"]
            return with_mapped_reads(self.file_records, calls, self.run)
        return self.file_records


def audit(evidence: Evidence, limits: Mapping[str, float]) -> list[Check]:
    """Return all checks of a run, passed and failed.

    Parameters
    ----------
    evidence : Evidence
        The results of the run.
    limits : mapping
        `io_time_tolerance_percent`.
    """
    run, records = evidence.run, evidence.all_records
    return [
        *_check_ranks(evidence.epochs, run),
        *CHECKS[kind_of(run.scenario)](evidence),
        *_check_devices([records, evidence.background, evidence.served], run),
        *_check_times(records, evidence.epochs, run, limits),
    ]


def _check_files(evidence: Evidence) -> Iterator[Check]:
    """Check a run whose files were on their tiers before the first epoch."""
    yield from _check_each_file(
        evidence, _check_static_tiers(evidence.file_records, evidence.run)
    )


def _check_placed(evidence: Evidence) -> Iterator[Check]:
    """Check a run whose policy decided while it ran."""
    decisions, run = evidence.tables["decisions"], evidence.run
    yield from _check_each_file(
        evidence,
        check_decisions(evidence.file_records, decisions, evidence.background, run),
    )


def _check_peers(evidence: Evidence) -> Iterator[Check]:
    """Check a run that read from other nodes."""
    yield from _check_each_file(
        evidence,
        check_peers(
            evidence.all_records,
            evidence.tables["peer_reads"],
            evidence.served,
            evidence.background,
            evidence.epochs,
            evidence.run,
        ),
    )


def _check_each_file(evidence: Evidence, decided: Iterable[Check]) -> Iterator[Check]:
    """Check the rules of all runs that read files, and this kind's decisions."""
    records, run = evidence.all_records, evidence.run
    yield from _check_reads(records, evidence.manifest, run)
    yield from decided
    yield from _check_readers(records, run)
    read = records.groupby(["rank", "epoch"])[["opens", "bytes_read"]].sum()
    yield from check_consumption(
        evidence.epochs,
        read["opens"],
        read["bytes_read"],
        "their opens",
        "those in the log",
    )


def _check_database(evidence: Evidence) -> list[Check]:
    """Check a run whose samples are records of one file."""
    return check_database(
        evidence.file_records, evidence.epochs, evidence.tables, evidence.run
    )


CHECKS = {
    FILES: _check_files,
    PLACED: _check_placed,
    PEERS: _check_peers,
    DATABASE: _check_database,
}


def why_failed(checks: list[Check], where: str) -> str | None:
    """Return which checks of a run failed, with the numbers; None if it passed."""
    failed = [check for check in checks if not check.passed]
    if not failed:
        return None
    numbers = "; ".join(
        f"{check.name}: got {check.got}, expected {check.expected}" for check in failed
    )
    return f"{where}: audit failed: {numbers}. Delete this run to measure it again."


def as_json(checks: list[Check]) -> dict[str, Any]:
    """Return the content of `audit.json`."""
    return {
        "passed": all(check.passed for check in checks),
        "checks": [asdict(check) for check in checks],
    }


def _check_ranks(epochs: pd.DataFrame, run: Run) -> Iterator[Check]:
    """Check that all ranks finished all epochs."""
    finished = set(zip(epochs["rank"], epochs["epoch"], strict=True))
    wanted = {
        (rank, epoch)
        for rank in range(run.n_processes)
        for epoch in range(run.training.epochs)
    }
    yield equal("ranks and epochs that finished", len(finished & wanted), len(wanted))
    yield equal("rows of the epochs table", len(epochs), len(wanted))


def _check_reads(
    file_records: pd.DataFrame, manifest: pd.DataFrame, run: Run
) -> Iterator[Check]:
    """Check that every epoch read every file once and whole."""
    for epoch in range(run.training.epochs):
        records = file_records[file_records["epoch"] == epoch]
        opens = records.groupby("file_id")["opens"].sum()
        opens = opens.reindex(manifest["file_id"], fill_value=0)
        yield equal(
            f"files opened exactly once in epoch {epoch}",
            int((opens == 1).sum()),
            len(manifest),
        )
        yield equal(
            f"opens in epoch {epoch}", int(records["opens"].sum()), len(manifest)
        )
        n_bytes = records.groupby("file_id")["bytes_read"].sum()
        sizes = manifest.set_index("file_id")["size_bytes"]
        n_bytes = n_bytes.reindex(sizes.index, fill_value=0)
        yield equal(
            f"files with every byte read once in epoch {epoch}",
            int((n_bytes == sizes).sum()),
            len(manifest),
        )
        yield equal(
            f"bytes read in epoch {epoch}",
            int(records["bytes_read"].sum()),
            int(manifest["size_bytes"].sum()),
        )
    later = file_records["epoch"] >= run.training.epochs
    yield equal("records of other epochs", int(later.sum()), 0)


def _check_static_tiers(file_records: pd.DataFrame, run: Run) -> Iterator[Check]:
    """Check that each read used the tier that a static policy decided."""
    on_lfs = held_files(run, run.point)
    known = file_records[file_records["file_id"] < len(on_lfs)]
    decided = np.where(on_lfs[known["file_id"]], "lfs", "gfs")
    yield equal(
        "records on the tier that the policy chose",
        int((known["tier"] == decided).sum()),
        len(file_records),
    )
    if POLICIES[run.scenario.policy].is_stratified:
        yield from _check_equal_hits(file_records, on_lfs, run)


def _check_equal_hits(
    file_records: pd.DataFrame, on_lfs: np.ndarray, run: Run
) -> Iterator[Check]:
    """Check that LFS reads per process are equal, if the numbers allow it."""
    if len(on_lfs) % run.n_processes:
        return
    keys = pd.MultiIndex.from_product(
        [range(run.n_processes), range(run.training.epochs)],
        names=["rank", "epoch"],
    )
    reads = file_records[file_records["tier"] == "lfs"].groupby(["rank", "epoch"])
    n_hits = reads["opens"].sum().reindex(keys, fill_value=0)
    yield equal(
        "largest difference of LFS reads between processes in an epoch",
        int((n_hits.groupby("epoch").max() - n_hits.groupby("epoch").min()).max()),
        int(on_lfs.sum() % run.n_processes > 0),
    )


def _check_readers(file_records: pd.DataFrame, run: Run) -> Iterator[Check]:
    """Check that the process that the shuffle decided made each read."""
    n_files, training = run.dataset.n_files, run.training
    known = file_records[file_records["file_id"] < n_files]
    dealt_apart = strata(run.scenario.policy, held_files(run, run.point))
    reader = np.empty((training.epochs, n_files), dtype=np.int64)
    n_processes = run.n_processes
    shares = [process_share(n_files, rank, n_processes) for rank in range(n_processes)]
    reader_of_read = np.repeat(
        np.arange(n_processes), [share.stop - share.start for share in shares]
    )
    order = run_order(run, run.point.repetition)
    for epoch in range(training.epochs):
        files = order.of_all(epoch, dealt_apart)
        reader[epoch, files] = reader_of_read
    known = known[known["epoch"] < training.epochs]
    yield equal(
        "records of the process that the shuffle chose",
        int((reader[known["epoch"], known["file_id"]] == known["rank"]).sum()),
        len(file_records),
    )


def _check_devices(tables: Iterable[pd.DataFrame | None], run: Run) -> Iterator[Check]:
    """Check that emulated devices charged for exactly the calls of the log."""
    if not run.emulation:
        return
    logged = pd.concat([table for table in tables if table is not None])
    logged["bytes"] = logged.filter(["bytes_read", "bytes_written"]).sum(axis="columns")
    gfs, *lfs = run.emulation["statistics"]
    for tier, devices in (("gfs", [gfs]), ("lfs", lfs)):
        of_tier = logged[logged["tier"] == tier]
        for name in ("opens", "bytes"):
            yield equal(
                f"{name} that the emulated {tier.upper()} counted",
                sum(int(device[f"n_{name}"]) for device in devices),
                int(of_tier[name].sum()),
            )


def _check_times(
    file_records: pd.DataFrame,
    epochs: pd.DataFrame,
    run: Run,
    limits: Mapping[str, float],
) -> Iterator[Check]:
    """Check that I/O time does not exceed the execution time of all who read."""
    if run.loader.read_threads > 1:
        return  # thread-seconds may exceed seconds
    keys = ["rank", "epoch"]
    times = file_records.groupby(keys)[["read_time_s", "meta_time_s"]].sum()
    execution_time_s = epochs.set_index(keys)["execution_time_s"]
    ratio = times.sum(axis="columns").reindex(execution_time_s.index) / execution_time_s
    n_readers = max(run.loader.workers, 1)
    limit = n_readers * (1 + limits["io_time_tolerance_percent"] / 100)
    yield Check(
        "largest ratio of I/O time to execution time",
        bool(ratio.max() <= limit),
        f"{ratio.max():.3f}",
        f"at most {limit:.3f}",
    )
