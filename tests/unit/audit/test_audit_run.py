from types import SimpleNamespace

import audit_run
import pandas as pd
import pytest
from tierscope.audit.run import AuditError
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
