"""Read a run's log, audit the run and sum up its I/O time."""

import json
import sys
from pathlib import Path

import pandas as pd
from tierscope.analysis.breakdown import sum_io_time
from tierscope.audit.run import Evidence, as_json, audit, raise_failed
from tierscope.core.columns import run_keys
from tierscope.core.description import Run
from tierscope.core.tables import read_table, write_table
from tierscope.policies import kind_of
from tierscope.trace.file_records import read_background_records, read_file_records


def read_evidence(
    run: Run, log: str, epochs: str, manifest: str, tables: list[str]
) -> Evidence:
    """Return what a run has left in these files."""
    names = {Path(path).stem: path for path in tables}
    background = served = None
    if run.background_roots:
        background = read_background_records(log, run.background_roots)
    if run.peer_roots:
        served = read_background_records(log, run.peer_roots)
    return Evidence(
        run,
        read_file_records(log, run.tier_roots, may_be_empty="peer_reads" in names),
        read_table(epochs, "run_epochs"),
        read_table(manifest, "manifest"),
        {name: read_table(path, name) for name, path in names.items()},
        background,
        served,
    )


def io_time_of(evidence: Evidence) -> pd.DataFrame:
    """Return a run's table `io_time`."""
    run = evidence.run
    return sum_io_time(
        evidence.all_records,
        range(run.n_processes),
        range(run.training.epochs),
        run_keys(run, run.point),
        kind_of(run.scenario).classes,
    )


if __name__ == "__main__":
    sys.stderr = open(snakemake.log[0], "w")
    files = snakemake.input
    run = Run.read(files.run)
    evidence = read_evidence(run, files.log, files.epochs, files.manifest, files.tables)
    checks = audit(evidence, snakemake.params.limits)
    raise_failed(checks, str(Path(files.run).parent))
    file_records = evidence.file_records
    if "peer_reads" in evidence.tables:
        file_records = evidence.all_records
    write_table(file_records, snakemake.output.file_records, "file_records")
    write_table(io_time_of(evidence), snakemake.output.io_time, "io_time")
    Path(snakemake.output.audit).write_text(
        json.dumps(as_json(checks), indent=1) + "\n"
    )
