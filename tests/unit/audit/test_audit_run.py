from types import SimpleNamespace

import audit_run
import pandas as pd
import pytest
from tierscope.audit.run import AuditError
from tierscope.core.tables import TableError, empty_table, write_table
from tierscope.trace.log import LogError


@pytest.fixture
def audit(monkeypatch):
    """Return a function that audits runs, each of which ends in a given way."""

    def run(*ends):
        def end(number):
            if isinstance(ends[number], Exception):
                raise ends[number]
            return ends[number]

        runs = [f"runs/{number}/run.json" for number in range(len(ends))]
        given = SimpleNamespace(input=SimpleNamespace(runs=runs))
        monkeypatch.setattr(audit_run, "snakemake", given, raising=False)
        monkeypatch.setattr(audit_run, "audit_one", end)
        audit_run.main()

    return run


def test_runs_that_pass_say_nothing(audit):
    audit(None, None)


def test_damaged_log_hides_no_failed_audit(audit):
    damaged = LogError("runs/1/log.darshan", "is cut short.")
    with pytest.raises(AuditError) as error:
        audit("runs/0: audit failed: opens", damaged, None, KeyError("epoch"))
    first, second, third = str(error.value).splitlines()
    assert first == "runs/0: audit failed: opens"
    assert second.startswith("runs/1: ")
    assert "is cut short" in second
    assert second.endswith("If it is damaged, delete the run's folder and start again.")
    assert third.startswith("runs/3: ")


def test_many_failures_are_counted(audit):
    with pytest.raises(AuditError, match=r"\nand 3 more runs$"):
        audit(*[f"runs/{number}: failed" for number in range(11)])


def test_run_of_another_list_of_the_dataset_is_refused():
    manifest = pd.DataFrame({"size_bytes": [10, 20]})
    run = SimpleNamespace(observed={"n_files": 2, "n_bytes": 30})
    audit_run.check_list(run, manifest)
    with pytest.raises(ValueError, match="has 1 files of 10 bytes, expected 2 of 30"):
        audit_run.check_list(run, manifest[:1])


def rows_of(name, **columns):
    """Return a table of one row that is 0 or empty where nothing else is said."""
    empty = empty_table(name)
    return pd.DataFrame({one: [columns.get(one, 0)] for one in empty}).astype(
        empty.dtypes
    )


BEGIN = {"event": "begin", "place": "gfs", "detail": ""}
RECORD, PEER = {"tier": "gfs"}, {"owner": -1}


@pytest.mark.parametrize(
    ("name", "row", "column", "most"),
    [
        ("decisions", BEGIN, "file_id", 2),
        ("decisions", BEGIN, "node", 3),
        ("peer_reads", PEER, "owner", 3),
        ("record_reads", RECORD, "reader", 6),
        ("record_reads", RECORD, "file_id", 2),
    ],
)
def test_table_of_a_run_with_a_number_out_of_range_is_refused(
    tmp_path, monkeypatch, name, row, column, most
):
    """With the file, and no error of an array."""
    monkeypatch.setattr(audit_run, "read_file_records", lambda *_, **__: None)
    roots = dict.fromkeys(("background_roots", "peer_roots", "tier_roots"))
    system = SimpleNamespace(n_nodes=3)
    run = SimpleNamespace(system=system, n_processes=6, **roots)
    epochs, manifest, table = (
        tmp_path / f"{one}.parquet" for one in ("epochs", "manifest", name)
    )
    write_table(empty_table("run_epochs"), epochs, "run_epochs")
    files = {"file_id": range(2), "path": ["a", "b"], "size_bytes": 1, "ost": -1}
    write_table(pd.DataFrame(files), manifest, "manifest")
    evidence = "log", epochs, manifest, [table]
    write_table(rows_of(name, **row | {column: most - 1}), table, name)
    assert len(audit_run.read_evidence(run, *evidence).tables[name]) == 1
    write_table(rows_of(name, **row | {column: most}), table, name)
    words = rf"{name}.parquet: .*{column}: got {most} in row 0, .* below {most}\.$"
    with pytest.raises(TableError, match=words):
        audit_run.read_evidence(run, *evidence)


@pytest.mark.parametrize(
    ("processes", "copiers", "ranks"),
    [
        ([(7, 0), (8, 1)], [(9, 0)], {7: 0, 8: 1, 9: 0}),
        ([(7, 0), (7, 1), (8, 1)], [], {8: 1}),
        ([(7, 0), (8, 1)], [(8, 0)], {7: 0}),
        ([(7, 0)], [(9, 0), (9, 1)], {7: 0}),
        ([], [(9, 2)], {9: 2}),
    ],
)
def test_number_that_processes_of_two_ranks_had_is_no_ones(processes, copiers, ranks):
    """A log of a site's Darshan has no rank: so it is refused, and not put to one."""
    table = pd.DataFrame(processes, columns=["pid", "rank"], dtype="int64")
    placement = [{"node": 0, "pid": pid, "rank": rank} for pid, rank in copiers]
    assert audit_run.ranks_of_processes(table, placement) == ranks
