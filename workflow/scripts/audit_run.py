"""Read a run's log, audit the run and sum up its I/O time."""

import json
import sys
from pathlib import Path

import pandas as pd
from tierscope.analysis.breakdown import sum_io_time
from tierscope.audit.database import check_database, with_mapped_reads
from tierscope.audit.run import as_json, audit, raise_failed
from tierscope.benchmark.peers.report import with_peer_reads
from tierscope.core.columns import run_keys
from tierscope.core.description import Run
from tierscope.core.tables import read_table, write_table
from tierscope.policies import PEERS
from tierscope.trace.file_records import read_background_records, read_file_records


def io_time_of(file_records: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Return a run's table `io_time` from its table `file_records`."""
    return sum_io_time(
        file_records,
        range(run.n_processes),
        range(run.training.epochs),
        run_keys(run, run.point),
        has_peers=run.scenario.policy in PEERS,
    )


if __name__ == "__main__":
    sys.stderr = open(snakemake.log[0], "w")
    run = Run.read(snakemake.input.run)
    log, has_peers = snakemake.input.log, bool(snakemake.input.peer_reads)
    file_records = read_file_records(log, run.tier_roots, may_be_empty=has_peers)
    decisions = background = peer_reads = served = None
    if snakemake.input.decisions:
        decisions = read_table(snakemake.input.decisions, "decisions")
        background = read_background_records(log, run.background_roots)
    if has_peers:
        peer_reads = read_table(snakemake.input.peer_reads, "peer_reads")
        file_records = with_peer_reads(file_records, peer_reads)
        served = read_background_records(log, run.peer_roots)
        background = read_background_records(log, run.background_roots)
    epochs = read_table(snakemake.input.epochs, "run_epochs")
    all_records, database_checks = file_records, None
    if snakemake.input.reads:
        reads = {
            Path(path).stem: read_table(path, Path(path).stem)
            for path in snakemake.input.reads
        }
        database_checks = check_database(file_records, epochs, reads, run)
        all_records = with_mapped_reads(file_records, reads["read_calls"], run)
    checks = audit(
        all_records,
        epochs,
        read_table(snakemake.input.manifest, "manifest"),
        run,
        snakemake.params.limits,
        decisions,
        background,
        peer_reads,
        served,
        database_checks=database_checks,
    )
    raise_failed(checks, str(Path(snakemake.input.run).parent))
    write_table(file_records, snakemake.output.file_records, "file_records")
    write_table(io_time_of(all_records, run), snakemake.output.io_time, "io_time")
    Path(snakemake.output.audit).write_text(
        json.dumps(as_json(checks), indent=1) + "\n"
    )
