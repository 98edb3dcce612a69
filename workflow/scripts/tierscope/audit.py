"""Check a run before believing it.

A run counts only if every file was read exactly once in every epoch, from the tier the
policy names, by the process the shuffle names, and if times are plausible.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from tierscope.policies import Pinning
from tierscope.shuffle import epoch_order, process_share


class AuditError(RuntimeError):
    """A run failed its audit; the message holds the numbers."""


@dataclass(frozen=True)
class Check:
    """One truth about a run: what was found and what was expected."""

    name: str
    passed: bool
    got: str
    expected: str


def audit(
    file_records: pd.DataFrame,
    epochs: pd.DataFrame,
    manifest: pd.DataFrame,
    run: Mapping[str, Any],
    limits: Mapping[str, float],
    database_checks: list[Check] | None = None,
) -> list[Check]:
    """Return all checks of a run, passed and failed.

    Parameters
    ----------
    file_records, epochs, manifest : DataFrame
        Tables `file_records`, `run_epochs` and `manifest` of the run.
    run : mapping
        Content of `run.json`.
    limits : mapping
        `io_time_tolerance_percent` and `max_lateness_percent`.
    database_checks : list of Check, optional
        What stands in place of the checks that go by file, where all samples are in one
        (`tierscope.database_audit`).
    """
    if database_checks is None:
        samples = [
            *_check_reads(file_records, manifest, run),
            *_check_decisions(file_records, run),
            *_check_consumption(file_records, epochs),
        ]
    else:
        samples = database_checks
    return [
        *_check_ranks(epochs, run),
        *samples,
        *_check_times(file_records, epochs, run, limits),
        *_check_lateness(run, limits),
    ]


def raise_failed(checks: list[Check], where: str) -> None:
    """Raise an AuditError that lists the failed checks of a run, if there are any."""
    if failed := [check for check in checks if not check.passed]:
        numbers = "; ".join(
            f"{check.name}: got {check.got}, expected {check.expected}"
            for check in failed
        )
        raise AuditError(
            f"{where}: audit failed: {numbers}. Delete this run to measure it again."
        )


def as_json(checks: list[Check]) -> dict[str, Any]:
    """Return the content of `audit.json`."""
    return {
        "passed": all(check.passed for check in checks),
        "checks": [asdict(check) for check in checks],
    }


def _check(name: str, got: Any, expected: Any) -> Check:
    """Return a check that two values are equal."""
    return Check(name, bool(got == expected), str(got), str(expected))


def _check_ranks(epochs: pd.DataFrame, run: Mapping[str, Any]) -> Iterator[Check]:
    """Check that all ranks finished all epochs."""
    finished = set(zip(epochs["rank"], epochs["epoch"], strict=True))
    wanted = {
        (rank, epoch)
        for rank in range(run["n_processes"])
        for epoch in range(run["training"]["epochs"])
    }
    yield _check("ranks and epochs that finished", len(finished & wanted), len(wanted))
    yield _check("rows of the epochs table", len(epochs), len(wanted))


def _check_reads(
    file_records: pd.DataFrame, manifest: pd.DataFrame, run: Mapping[str, Any]
) -> Iterator[Check]:
    """Check that every epoch read every file once and whole."""
    for epoch in range(run["training"]["epochs"]):
        records = file_records[file_records["epoch"] == epoch]
        opens = records.groupby("file_id")["opens"].sum()
        opens = opens.reindex(manifest["file_id"], fill_value=0)
        yield _check(
            f"files opened exactly once in epoch {epoch}",
            int((opens == 1).sum()),
            len(manifest),
        )
        yield _check(
            f"opens in epoch {epoch}", int(records["opens"].sum()), len(manifest)
        )
        n_bytes = records.groupby("file_id")["bytes_read"].sum()
        sizes = manifest.set_index("file_id")["size_bytes"]
        n_bytes = n_bytes.reindex(sizes.index, fill_value=0)
        yield _check(
            f"files of which epoch {epoch} read every byte once",
            int((n_bytes == sizes).sum()),
            len(manifest),
        )
        yield _check(
            f"bytes read in epoch {epoch}",
            int(records["bytes_read"].sum()),
            int(manifest["size_bytes"].sum()),
        )
    later = file_records["epoch"] >= run["training"]["epochs"]
    yield _check("records of other epochs", int(later.sum()), 0)


def _check_decisions(
    file_records: pd.DataFrame, run: Mapping[str, Any]
) -> Iterator[Check]:
    """Check that tier and process of each read are what policy and shuffle decided."""
    n_files, training = run["dataset"]["n_files"], run["training"]
    on_lfs = Pinning(
        n_files, run["point"]["cache_rate_percent"], training["seed"]
    ).on_lfs()
    known = file_records[file_records["file_id"] < n_files]
    decided = np.where(on_lfs[known["file_id"]], "lfs", "gfs")
    yield _check(
        "records on the tier that the policy chose",
        int((known["tier"] == decided).sum()),
        len(file_records),
    )
    reader = np.full((training["epochs"], n_files), -1)
    n_processes = run["n_processes"]
    shares = [process_share(n_files, rank, n_processes) for rank in range(n_processes)]
    reader_of_read = np.repeat(
        np.arange(n_processes), [share.stop - share.start for share in shares]
    )
    for epoch in range(training["epochs"]):
        files = epoch_order(
            n_files,
            n_processes,
            shuffle=training["shuffle"],
            seed=training["seed"],
            repetition=run["point"]["repetition"],
            epoch=epoch,
        )
        reader[epoch, files] = reader_of_read
    known = known[known["epoch"] < training["epochs"]]
    yield _check(
        "records of the process that the shuffle chose",
        int((reader[known["epoch"], known["file_id"]] == known["rank"]).sum()),
        len(file_records),
    )


def _check_consumption(
    file_records: pd.DataFrame, epochs: pd.DataFrame
) -> Iterator[Check]:
    """Check that the training saw what the log says was read."""
    keys = ["rank", "epoch"]
    read = file_records.groupby(keys)[["opens", "bytes_read"]].sum()
    seen = epochs.set_index(keys)
    read = read.reindex(seen.index, fill_value=0)
    yield _check(
        "processes and epochs whose samples equal their opens",
        int((seen["samples"] == read["opens"]).sum()),
        len(seen),
    )
    yield _check(
        "processes and epochs whose bytes equal those in the log",
        int((seen["bytes"] == read["bytes_read"]).sum()),
        len(seen),
    )


def _check_times(
    file_records: pd.DataFrame,
    epochs: pd.DataFrame,
    run: Mapping[str, Any],
    limits: Mapping[str, float],
) -> Iterator[Check]:
    """Check that no process has more I/O time than time, if one thread reads."""
    if run["loader"]["read_threads"] > 1:
        return  # thread-seconds may exceed seconds
    keys = ["rank", "epoch"]
    times = file_records.groupby(keys)[["read_time_s", "meta_time_s"]].sum()
    execution_time_s = epochs.set_index(keys)["execution_time_s"]
    ratio = times.sum(axis="columns").reindex(execution_time_s.index) / execution_time_s
    limit = 1 + limits["io_time_tolerance_percent"] / 100
    yield Check(
        "largest ratio of I/O time to execution time",
        bool(ratio.max() <= limit),
        f"{ratio.max():.3f}",
        f"at most {limit:.3f}",
    )


def _check_lateness(
    run: Mapping[str, Any], limits: Mapping[str, float]
) -> Iterator[Check]:
    """Check that an emulated run's waiting is the devices', not the machine's."""
    if run["emulation"] is None:
        return
    late, limit = run["emulation"]["lateness_percent"], limits["max_lateness_percent"]
    yield Check(
        "share of the emulated waiting that is the machine's lateness",
        late <= limit,
        f"{late:.1f} %",
        f"at most {limit:g} %",
    )
