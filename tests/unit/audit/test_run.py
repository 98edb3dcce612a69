import re

import numpy as np
import pandas as pd
import pytest
from descriptions import changed, describe_run
from tierscope.audit.run import Evidence, as_json, audit, why_failed
from tierscope.core.description import run_keys
from tierscope.data.shuffle import epoch_files
from tierscope.policies import Pinning, strata

N_FILES, N_PROCESSES, SIZE = 8, 2, 100
LIMITS = {"io_time_tolerance_percent": 2}


@pytest.fixture
def run():
    return describe_run(
        **{
            "source": "emulated",
            "system": {"name": "scale-model"},
            "scenario": {
                "dataset": "tiny",
                "n_osts": 1,
                "policy": "pinning",
                "loader": "posix",
            },
            "point": {"cache_rate_percent": 50, "repetition": 0},
            "dataset": {"n_files": N_FILES},
            "training": {"epochs": 2, "shuffle": "global", "seed": 1},
            "loader": {"read_threads": 1},
            "n_processes": N_PROCESSES,
        }
    )


@pytest.fixture
def manifest():
    return pd.DataFrame({"file_id": range(N_FILES), "size_bytes": SIZE})


@pytest.fixture
def file_records(run):
    """Every process reads its four files an epoch, 0.1 s each."""
    return records_of(run)


def records_of(run):
    """Return what the processes of a run read, dealt by its policy."""
    rate = run.point.cache_rate_percent
    on_lfs = Pinning(N_FILES, rate, seed=1).on_lfs()
    rows = [
        {
            "rank": rank,
            "epoch": epoch,
            "tier": "lfs" if on_lfs[file_id] else "gfs",
            "file_id": file_id,
            "opens": 1,
            "reads": 2,
            "bytes_read": SIZE,
            "read_time_s": 0.06,
            "meta_time_s": 0.04,
        }
        for epoch in range(2)
        for rank in range(N_PROCESSES)
        for file_id in epoch_files(
            N_FILES,
            rank,
            N_PROCESSES,
            shuffle="global",
            seed=1,
            repetition=0,
            epoch=epoch,
            strata=strata(run.scenario.policy, on_lfs),
        )
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def epochs():
    """Every process takes 0.5 s an epoch."""
    keys = pd.MultiIndex.from_product([range(2), range(2)], names=["epoch", "rank"])
    rows = keys.to_frame(index=False)
    return rows.assign(execution_time_s=0.5, samples=4, bytes=4 * SIZE)


def audit_of(file_records, epochs, manifest, run, limits, **further):
    """Return the checks of a run that has left these tables."""
    return audit(Evidence(run, file_records, epochs, manifest, **further), limits)


def failed(*tables_and_run):
    """Return the names of the failed checks."""
    return [
        check.name for check in audit_of(*tables_and_run, LIMITS) if not check.passed
    ]


def test_good_run_passes(file_records, epochs, manifest, run):
    checks = audit_of(file_records, epochs, manifest, run, LIMITS)
    assert as_json(checks)["passed"]
    assert len(checks) > 10
    assert why_failed(checks, "run") is None


def test_missing_read_is_found_with_its_numbers(file_records, epochs, manifest, run):
    checks = audit_of(file_records.iloc[1:], epochs, manifest, run, LIMITS)
    reason = why_failed(checks, "runs/x")
    assert re.match(r"runs/x: .*opens in epoch 0: got 7, expec.*8", reason)
    (check,) = (c for c in checks if c.name == "files opened exactly once in epoch 0")
    assert (check.got, check.expected) == ("7", "8")


def test_file_read_twice_instead_of_another_is_found(
    file_records, epochs, manifest, run
):
    file_records.loc[0, "file_id"] = file_records.loc[1, "file_id"]
    names = failed(file_records, epochs, manifest, run)
    assert "files opened exactly once in epoch 0" in names
    assert "opens in epoch 0" not in names


def test_file_read_in_part_is_found(file_records, epochs, manifest, run):
    file_records.loc[0, "bytes_read"] -= 1
    names = failed(file_records, epochs, manifest, run)
    assert "files with every byte read once in epoch 0" in names
    assert "bytes read in epoch 0" in names
    assert "processes and epochs whose bytes equal those in the log" in names


def test_bytes_that_only_cancel_out_are_found(file_records, epochs, manifest, run):
    file_records.loc[0, "bytes_read"] -= 1
    file_records.loc[1, "bytes_read"] += 1
    names = failed(file_records, epochs, manifest, run)
    assert names == ["files with every byte read once in epoch 0"]


def test_read_from_the_wrong_tier_is_found(file_records, epochs, manifest, run):
    other = {"gfs": "lfs", "lfs": "gfs"}
    file_records.loc[3, "tier"] = other[file_records.loc[3, "tier"]]
    names = failed(file_records, epochs, manifest, run)
    assert names == ["records on the tier that the policy chose"]


def test_read_by_the_wrong_process_is_found(file_records, epochs, manifest, run):
    file_records["rank"] = 1 - file_records["rank"]
    names = failed(file_records, epochs, manifest, run)
    assert names == ["records of the process that the shuffle chose"]


def test_rank_that_did_not_finish_is_found(file_records, epochs, manifest, run):
    names = failed(file_records, epochs.iloc[:-1], manifest, run)
    assert names[:2] == ["ranks and epochs that finished", "rows of the epochs table"]


@pytest.mark.parametrize("file_id", [N_FILES, 99])
def test_record_of_an_unknown_epoch_or_file_is_found(
    file_records, epochs, manifest, run, file_id
):
    extra = file_records.iloc[[0]].assign(epoch=2, file_id=file_id)
    names = failed(pd.concat([file_records, extra]), epochs, manifest, run)
    assert "records of other epochs" in names
    assert "records on the tier that the policy chose" in names
    extra["epoch"] = 1
    names = failed(pd.concat([file_records, extra]), epochs, manifest, run)
    assert "records on the tier that the policy chose" in names


def test_more_io_time_than_time_is_found_with_one_read_thread_only(
    file_records, epochs, manifest, run
):
    file_records["read_time_s"] = np.where(file_records["rank"] == 1, 0.09, 0.06)
    names = failed(file_records, epochs, manifest, run)
    assert names == ["largest ratio of I/O time to execution time"]
    run = changed(run, loader={"read_threads": 2})
    assert failed(file_records, epochs, manifest, run) == []


@pytest.mark.parametrize(("workers", "limit"), [(0, 1.5), (1, 1.5), (3, 4.5)])
def test_io_time_of_workers_may_be_as_often_the_time_as_there_are_workers(
    file_records, epochs, manifest, run, workers, limit
):
    scenario = {"loader": "pytorch"}
    run = changed(run, scenario=scenario, loader={"workers": workers})
    limits = {"io_time_tolerance_percent": 50}
    check = audit_of(file_records, epochs, manifest, run, limits)[-1]
    assert (check.got, check.expected) == ("0.800", f"at most {limit:.3f}")


def test_limit_of_the_io_time_is_the_time_and_the_tolerance(
    file_records, epochs, manifest, run
):
    limits = {"io_time_tolerance_percent": 50}
    check = audit_of(file_records, epochs, manifest, run, limits)[-1]
    assert check.name == "largest ratio of I/O time to execution time"
    assert (check.got, check.expected) == ("0.800", "at most 1.500")


def test_io_time_may_be_all_of_the_time(file_records, epochs, manifest, run):
    times = file_records.groupby(["rank", "epoch"])[["read_time_s", "meta_time_s"]]
    io_time_s = times.sum().sum(axis=1)
    keys = pd.MultiIndex.from_frame(epochs[["rank", "epoch"]])
    epochs["execution_time_s"] = io_time_s.reindex(keys).to_numpy()
    limits = {"io_time_tolerance_percent": 0}
    assert audit_of(file_records, epochs, manifest, run, limits)[-1].passed


@pytest.mark.parametrize(("cache_rate", "difference"), [(50, 0), (38, 1), (0, 0)])
def test_stratified_processes_differ_by_a_file_only_if_they_must(
    epochs, manifest, run, cache_rate, difference
):
    run = changed(
        run,
        scenario={"policy": "stratified-pinning"},
        point={"cache_rate_percent": cache_rate},
    )
    checks = audit_of(records_of(run), epochs, manifest, run, LIMITS)
    (check,) = [check for check in checks if "difference of LFS reads" in check.name]
    assert check.passed
    assert check.expected == str(difference)


def test_only_reads_from_the_lfs_are_to_be_shared_equally(epochs, manifest, run):
    run = changed(run, scenario={"policy": "stratified-pinning"})
    records = records_of(run)
    twice = records[(records["tier"] == "gfs") & (records["rank"] == 0)]
    more = pd.concat([records, twice], ignore_index=True)
    checks = audit_of(more, epochs, manifest, run, LIMITS)
    (check,) = [check for check in checks if "difference of LFS reads" in check.name]
    assert (check.passed, check.got) == (True, "0")


def test_run_keys_are_the_keys_of_the_tables(run):
    assert run_keys(run, run.point) == {
        "source": "emulated",
        "system": "scale-model",
        "dataset": "tiny",
        "n_osts": 1,
        "policy": "pinning",
        "loader": "posix",
        "cache_rate_percent": 50,
        "repetition": 0,
    }


def counted(file_records, *more):
    """Return what devices have counted of a run: one GFS, two LFS servers."""
    lfs = file_records["tier"] == "lfs"
    counts = [
        {
            "n_opens": int(part["opens"].sum()),
            "n_bytes": int(part["bytes_read"].sum()),
        }
        for part in (
            file_records[~lfs],
            file_records[lfs & (file_records["rank"] == 0)],
            file_records[lfs & (file_records["rank"] == 1)],
        )
    ]
    for number, name, amount in more:
        counts[number][name] += amount
    return {"statistics": counts}


def test_devices_that_charged_for_what_is_in_the_log_pass(
    file_records, epochs, manifest, run
):
    run = changed(run, emulation=counted(file_records))
    assert failed(file_records, epochs, manifest, run) == []


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ((0, "n_opens", 1), "opens that the emulated GFS counted"),
        ((0, "n_bytes", -1), "bytes that the emulated GFS counted"),
        ((2, "n_opens", -1), "opens that the emulated LFS counted"),
        ((1, "n_bytes", 1), "bytes that the emulated LFS counted"),
    ],
)
def test_call_that_devices_or_log_have_alone_is_found(
    file_records, epochs, manifest, run, change, name
):
    run = changed(run, emulation=counted(file_records, change))
    assert failed(file_records, epochs, manifest, run) == [name]


def test_copies_and_reads_for_other_nodes_are_counted_too(
    file_records, epochs, manifest, run
):
    copies = file_records.head(2).assign(tier="lfs", bytes_read=0, bytes_written=SIZE)
    counts = counted(file_records, (1, "n_opens", 2), (1, "n_bytes", 2 * SIZE))
    run = changed(run, emulation=counts)
    checks = audit_of(file_records, epochs, manifest, run, LIMITS, background=copies)
    assert as_json(checks)["passed"]
    assert failed(file_records, epochs, manifest, run) == [
        "opens that the emulated LFS counted",
        "bytes that the emulated LFS counted",
    ]
