"""Read the logs of runs, audit the runs and sum up their I/O time."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from tierscope.analysis.breakdown import sum_io_time
from tierscope.audit.check import Check
from tierscope.audit.program import ProgramEvidence, audit_program, statements
from tierscope.audit.run import AuditError, Evidence, as_json, audit, why_failed
from tierscope.core.description import Run, run_keys
from tierscope.core.files import log_to, write_text
from tierscope.core.output.streams import ending_on, say_error
from tierscope.core.tables import empty_table, read_table, write_table
from tierscope.policies import kind_of
from tierscope.trace.background import sum_background
from tierscope.trace.darshan.container import LogError
from tierscope.trace.file_records import read_background_records, read_file_records
from tierscope.trace.program_records import LoopEnds, read_program_records

MOST_FAILURES = 8  # of which an error names the runs


def read_evidence(
    run: Run, log: str, epochs: str, manifest: str, tables: list[str]
) -> Evidence:
    """Return the evidence of a run from these files."""
    names = {Path(path).stem: path for path in tables}
    files = read_table(manifest, "manifest")
    n_nodes, n_processes = run.system.n_nodes, run.n_processes
    below = {"file_id": len(files), "node": n_nodes, "rank": n_processes}
    below |= {"owner": n_nodes, "reader": n_processes}
    background = served = None
    if run.background_roots:
        background = read_background_records(log, run.background_roots, files)
    if run.peer_roots:
        served = read_background_records(log, run.peer_roots, files)
    return Evidence(
        run,
        read_file_records(
            log, run.tier_roots, files, may_be_empty="peer_reads" in names
        ),
        read_table(epochs, "run_epochs", below=below),
        files,
        {name: read_table(path, name, below=below) for name, path in names.items()},
        background,
        served,
    )


def read_program_evidence(
    run: Run, logs: str, epochs: str, manifest: str, tables: list[str]
) -> ProgramEvidence:
    """Return the evidence of a program's run from these files."""
    names = {Path(path).stem: path for path in tables}
    files = read_table(manifest, "user_manifest")
    check_list(run, files)
    processes = read_table(names["program_processes"], "program_processes")
    loop_ends = loop_ends_of(run, processes)
    records = read_program_records(
        Path(logs),
        run.tier_roots,
        run.observed["dataset"],
        files["path"].tolist(),
        run.observed["written"],
        ranks_of_processes(processes, run.placement),
        loop_ends,
    )
    below = {"file_id": len(files)}
    if run.placement:
        below["node"] = 1 + max(one["node"] for one in run.placement)
    options = {"after_training": True, "below": below}
    opens = read_table(names["opens"], "opens", **options)
    return ProgramEvidence(
        run,
        records,
        opens[~opens["for_writing"]],
        read_table(epochs, "run_epochs", after_training=True),
        files,
        read_table(names["decisions"], "decisions", **options)
        if "decisions" in names
        else None,
        read_table(names["marks"], "marks"),
        opens[opens["for_writing"]],
        loop_ends,
    )


def loop_ends_of(run: Run, processes: pd.DataFrame) -> LoopEnds:
    """Return where the loops of a program ended; old runs do not tell.

    `processes` is table `program_processes`.
    """
    ends = run.observed.get("loop_ends", ())
    return LoopEnds(
        {one["node"]: one["epochs"] for one in ends},
        dict(zip(processes["rank"], processes["node"], strict=True)),
    )


def check_list(run: Run, manifest: pd.DataFrame) -> None:
    """Refuse a run that was made with another list of the dataset's files."""
    listed = len(manifest), int(manifest["size_bytes"].sum())
    then = run.observed["n_files"], run.observed["n_bytes"]
    if listed != then:
        raise ValueError(
            f"the list of the dataset has {listed[0]:,} files of {listed[1]:,} bytes, "
            f"expected {then[0]:,} of {then[1]:,}, as when the run was made: it was "
            "made anew since. The new dataset needs another name (--name, experiment)."
        )


def ranks_of_processes(
    processes: pd.DataFrame, placement: Sequence[Mapping[str, Any]]
) -> dict[int, int]:
    """Return the rank of each process whose number no process of another rank had.

    They are those of a program, and those that copy on the nodes.
    """
    copiers = pd.DataFrame(placement, columns=["pid", "rank"])
    ranks = pd.concat([processes[["pid", "rank"]], copiers.astype("int64")])
    ranks = ranks.groupby("pid")["rank"].agg(["min", "max"])
    alone = ranks[ranks["min"] == ranks["max"]]["min"]
    return {int(pid): int(rank) for pid, rank in alone.items()}


def audit_program_run(
    run: Run, number: int, folder: Path, tables: list[str]
) -> str | None:
    """Audit a program's run and write what it gives; return why it failed."""
    files, written = snakemake.input, snakemake.output
    evidence = read_program_evidence(
        run, files.logs[number], files.epochs[number], files.manifest, tables
    )
    checks = audit_program(evidence)
    if failure := why_failed(checks, str(folder)):
        return failure
    records, keys = evidence.file_records, run_keys(run, run.point)
    write_table(records, written.file_records[number], "file_records")
    ranks, epochs = range(run.n_processes), evidence.epochs_with_opens
    io_time = sum_io_time(records, ranks, epochs, keys)
    write_table(io_time, written.io_time[number], "io_time")
    other_io = evidence.records.other_io.assign(**keys)
    write_table(other_io, written.other_io[number], "other_io")
    other_time = evidence.other_time.assign(**keys)
    write_table(other_time, written.other_time[number], "other_time")
    said = statements(evidence).assign(**keys)
    write_table(said, written.statements[number], "statements")
    if written.get("background"):  # a policy of the experiment moves files
        background = background_of(evidence).assign(**keys)
        write_table(background, written.background[number], "background")
    write_audit(checks, number)
    return None


def background_of(evidence: ProgramEvidence) -> pd.DataFrame:
    """Return the table `run_background` of a program's run."""
    if evidence.decisions is None:
        return empty_table("run_background")
    placement = evidence.run.placement
    return sum_background(
        evidence.records.background,
        evidence.decisions,
        {node["rank"]: node["node"] for node in placement},
        {node["node"]: node["drain_time_s"] for node in placement},
    )


def write_audit(checks: list[Check], number: int) -> None:
    """Write the audit of a run."""
    text = json.dumps(as_json(checks), indent=1)
    write_text(snakemake.output.audit[number], text + "\n")


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


def written_records(evidence: Evidence) -> pd.DataFrame:
    """Return a run's table `file_records`: those of the log and reads from peers."""
    has_peers = "peer_reads" in evidence.tables
    return evidence.all_records if has_peers else evidence.file_records


def audit_one(number: int) -> str | None:
    """Audit a run and write what it gives; return why it failed, if it did."""
    files, written = snakemake.input, snakemake.output
    run, folder = Run.read(files.runs[number]), Path(files.runs[number]).parent
    tables = [table for table in files.tables if Path(table).parent == folder]
    if run.program:
        return audit_program_run(run, number, folder, tables)
    log, epochs = files.logs[number], files.epochs[number]
    evidence = read_evidence(run, log, epochs, files.manifest, tables)
    checks = audit(evidence, snakemake.params.limits)
    if failure := why_failed(checks, str(folder)):
        return failure
    records = written_records(evidence)
    write_table(records, written.file_records[number], "file_records")
    if written.io_time:  # simulated runs have theirs already
        write_table(io_time_of(evidence), written.io_time[number], "io_time")
    write_audit(checks, number)
    return None


def main() -> None:
    """Audit all runs, and report all that failed at once."""
    failures = []
    for number, path in enumerate(snakemake.input.runs):
        try:
            failure = audit_one(number)
        except (ValueError, KeyError, OSError) as error:  # of a log or a table
            say_error(error)
            failure = f"{Path(path).parent}: {error}"
            if isinstance(error, LogError):
                failure += " If it is damaged, delete the run's folder and start again."
        if failure:
            failures.append(failure)
    if failures:
        first, n_more = failures[:MOST_FAILURES], len(failures) - MOST_FAILURES
        more = [f"and {n_more} more runs"] if n_more > 0 else []
        raise AuditError("\n".join([*first, *more]))


if __name__ == "__main__":
    log_to(snakemake.log[0])
    with ending_on(AuditError):
        main()
