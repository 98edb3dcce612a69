"""The analysis of Darshan logs: our own, and a fleet, from the command line."""

import json
import time
from copy import copy

import numpy as np
import pandas as pd
import pytest
import sessions
import tierscope
import yaml
from job_logs import holding_readers, write_job_log
from tierscope.core.tables import read_table
from tierscope.storage.lease import Lease

READ = {"opens": 1, "reads": 2, "bytes_read": 100, "read_s": 3.0, "meta_s": 1.0}
MADE = ("chunks", "listing", "read-logs", "tables")
EPOCHS = r"\.ep([0-9]+)/"


def tables_of(project, experiment):
    """Return the tables of an analysis by name."""
    folder = project.folder / "results" / experiment / "tables"
    return {path.stem: read_table(path, path.stem) for path in folder.glob("*.parquet")}


def configured(project, name, **values):
    """Write a configuration of logs and return its path."""
    path = project.folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"experiment": name, **values}))
    return path


def states_in(results):
    """Return when each file of tables, and of what was read, was changed."""
    found = (path for part in MADE for path in (results / part).rglob("*"))
    return {path: path.stat().st_mtime_ns for path in found}


def wait_for(path):
    """Wait until there is a file."""
    end_s = time.monotonic() + sessions.HANG_S
    while not path.exists():
        assert time.monotonic() < end_s
        time.sleep(0.05)


@pytest.fixture(scope="module")
def fleet(finished):
    """Return the project after an analysis of 40 jobs and three logs of no use."""
    logs = finished.folder / "fleet logs"
    for number in range(40):
        rows = [
            ("POSIX", rank, f"/gfs/{rank}", READ | {"read_s": 1.0 + rank + number})
            for rank in range(4)
        ]
        write_job_log(
            logs / f"anna_train_id{number}_11-1-{number}-1.darshan",
            rows,
            n_processes=4,
            job_id=number,
            ended_s=1_790_000_100.0,
        )
    good = next(logs.glob("*.darshan")).read_bytes()
    (logs / "corrupt.darshan").write_bytes(good[:-40] + b"\xff" * 40)
    (logs / "empty.darshan").touch()
    (logs / "foreign.darshan").write_text("a file of another program\n" * 20)
    config = configured(
        finished,
        "fleet",
        logs=[str(logs)],
        tiers={"gfs": "/gfs"},
        pages=2,
        processes_per_node=2,
    )
    finished.fleet_output = finished.snakemake("analyse", config=config.name)
    return finished


def test_our_own_logs_give_the_times_of_our_own_tables(finished):
    runs = sorted(finished.path("runs").rglob("log.darshan"))
    assert len(runs) == 5
    for log in runs:
        run = json.loads((log.parent / "run.json").read_text())
        tiers = {
            tier: [f"{root}.ep*" for root in roots]
            for tier, roots in run["tier_roots"].items()
        }
        found = tierscope.analyse(log, tiers, epochs=EPOCHS)
        times = found["job_times"]
        assert set(times["interface"]) == {"POSIX"}
        assert (times["least_s"] == times["most_s"]).all()
        keys = ["epoch", "rank", "io_class"]
        times["io_class"] = times["tier"] + "_" + times["operation"]
        times = times.rename(columns={"least_s": "time_s"})
        columns = [*keys, "time_s", "operations", "bytes"]
        expected = read_table(log.parent / "io_time.parquet", "io_time")
        expected = expected[(expected["time_s"] > 0) | (expected["operations"] > 0)]
        pd.testing.assert_frame_equal(
            times[columns].sort_values(keys, ignore_index=True),
            expected[columns].sort_values(keys, ignore_index=True),
            check_dtype=False,
            rtol=1e-12,
        )
        slowest = found["job_slowest"].set_index("epoch")
        sums = expected.groupby(["epoch", "rank"])["time_s"].sum()
        for epoch in sums.index.unique("epoch"):
            assert slowest.loc[epoch, "least_s"] == pytest.approx(sums[epoch].max())


def test_a_fleet_has_tables_and_three_refusals(fleet):
    tables = tables_of(fleet, "fleet")
    assert len(tables["jobs"]) == len(tables["fleet"]) == 40
    reasons = tables["refusals"].set_index("log")["reason"]
    reasons.index = [path.rpartition("/")[2] for path in reasons.index]
    assert sorted(reasons.index) == [
        "corrupt.darshan",
        "empty.darshan",
        "foreign.darshan",
    ]
    assert reasons["foreign.darshan"] == "is not a Darshan log."
    assert "corrupt" in reasons["corrupt.darshan"]
    most = tables["fleet"].iloc[0]
    assert most["job"].endswith("-39")
    assert most["user"] == "anna"
    assert most["io_hours"] == pytest.approx((1 + 3 + 39 + 1) * 2 / 3600)
    assert np.isfinite(tables["fleet"]["meta_saved_least_hours"]).all()


def test_the_terminal_says_tiers_and_refusals(fleet):
    assert "40 of 43 logs can be used. Jobs: 40." in fleet.fleet_output
    assert "Tier gfs: /gfs." in fleet.fleet_output
    assert "empty.darshan: is empty, expected a Darshan log." in fleet.fleet_output


def test_pages_are_made_of_the_fleet_and_of_the_most_costly_jobs(fleet):
    folder = fleet.folder / "results" / "fleet"
    page = (folder / "fleet_report.html").read_text()
    assert "is not a Darshan log." in page
    pages = sorted(path.parent.name for path in folder.glob("jobs/*/report.html"))
    assert len(pages) == 2
    for name in pages:
        assert name in page
    assert (folder / "figures" / "fleet.png").stat().st_size > 10_000


def test_a_new_log_is_read_and_the_others_are_not(fleet):
    folder = fleet.folder / "results" / "fleet"
    made = [*folder.glob("chunks/*/*"), *folder.glob("*/*.parquet/*/*.parquet")]
    made += [folder / "fleet_report.html", *folder.glob("jobs/*/*")]
    before = {path: path.stat().st_mtime_ns for path in made}
    output = fleet.snakemake("analyse", config="fleet.yaml")
    assert "Reading Darshan logs" not in output
    assert {path: path.stat().st_mtime_ns for path in made} == before
    log = fleet.folder / "fleet logs" / "anna_train_id999_3-1-1-1.darshan"
    write_job_log(log, [("POSIX", 0, "/gfs/new", READ)], job_id=999)
    fleet.snakemake("analyse", config="fleet.yaml")
    assert len(tables_of(fleet, "fleet")["jobs"]) == 41
    log.unlink()
    output = fleet.snakemake("analyse", config="fleet.yaml")
    assert "1 log has vanished. What was read before stays (vanished: keep)." in output
    assert len(tables_of(fleet, "fleet")["jobs"]) == 41
    config = yaml.safe_load((fleet.folder / "fleet.yaml").read_text())
    configured(fleet, config.pop("experiment"), **config, vanished="drop")
    fleet.snakemake("analyse", config="fleet.yaml")
    assert len(tables_of(fleet, "fleet")["jobs"]) == 40


def test_a_second_start_of_an_analysis_is_refused_while_one_runs(fleet):
    lease = fleet.folder / "results" / "fleet" / ".lease"
    assert not lease.exists()  # a start that has ended holds none
    first = Lease(lease, "snakemake of analysis fleet in /elsewhere")
    first.take()
    output = fleet.snakemake("analyse", config="fleet.yaml", expect=1)
    assert "snakemake of analysis fleet in /elsewhere (process" in output
    assert "wait until it has ended" in output
    assert "Listing Darshan logs" not in output
    fleet.snakemake("analyse", "--dry-run", config="fleet.yaml")
    first.give_back()


def test_the_start_after_a_kill_finishes_with_equal_tables(finished):
    """Also if a job of the killed one ends after it."""
    folder = finished.folder
    for year in (2024, 2025):
        for number in range(3):
            name = f"{year}/7/1/anna_train_id{year}{number}_7-1-{number}-1_1.darshan"
            rows = [("POSIX", 0, f"/gfs/{year}", READ | {"reads": number})]
            job_id = 10 * year + number
            write_job_log(folder / "two years" / name, rows, job_id=job_id)
    given = {"logs": str(folder / "two years"), "tiers": {"gfs": "/gfs"}}
    values = given | {"logs": [given["logs"]], "pages": 0}
    config = configured(finished, "killed", **values)
    held = copy(finished)
    held.environment = finished.environment | holding_readers(folder)
    (folder / "hold").touch()
    (folder / "free").touch()
    chunks = folder / "results" / "killed" / "chunks"
    running = held.start("analyse", "--cores", "1", config=config.name)
    try:
        wait_for(folder / "waits")
        (first,) = chunks.iterdir()
        left = {*sessions.processes_in(folder)} - {running.pid}
        assert left
        running.kill()
        before = first.stat().st_mtime_ns
        finished.snakemake("analyse", config=config.name)
        assert first.stat().st_mtime_ns == before
        made = states_in(folder / "results" / "killed")
    finally:
        (folder / "hold").unlink()
    for pid in left:
        sessions.wait_until_ended(pid)
    assert states_in(folder / "results" / "killed") == made
    found = tables_of(finished, "killed")
    expected = tierscope.analyse(**given)
    del expected["job_combinations"]  # of jobs with a page
    for name, table in expected.items():
        frames = (
            one.sort_values(list(one), ignore_index=True)
            for one in (found[name], table)
        )
        pd.testing.assert_frame_equal(*frames, obj=name)


def test_an_anonymous_analysis_names_nobody(finished):
    secret = finished.folder / "secret logs"
    rows = [("POSIX", rank, f"/gfs/hush/{rank}.h5", READ) for rank in range(2)]
    write_job_log(
        secret / "anna_nuclear_id5_11-1-5-1.darshan",
        rows,
        n_processes=2,
        exe="/home/anna/nuclear --fast",
        job_id=4711,
    )
    config = configured(
        finished,
        "nobody",
        logs=[str(secret)],
        tiers={"gfs": "/gfs"},
        group={"job": "(anna)_"},
        epochs="hush/([0-9]+)",
        anonymous=True,
    )
    finished.snakemake("analyse", config=config.name)
    folder = finished.folder / "results" / "nobody"
    assert "matches no" not in (folder / "summary.txt").read_text()
    shown = [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not {"read-logs", "chunks"} & set(path.parts)
        and path.suffix in (".html", ".svg", ".txt", ".parquet")
    ]
    assert len(shown) > 15
    for path in shown:
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content = pd.read_parquet(path).to_csv().encode()
        for word in (b"anna", b"nuclear", b"hush", b"4711", b"secret"):
            assert word not in content, (path, word)
    assert not any("nuclear" in path.name for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"logs": ["/no/such/*.darshan"]}, "which names no log"),
        ({"logs": ["/no/such"]}, "which does not exist, expected paths"),
        ({"logs": ["x"], "teirs": {}}, "got unknown key teirs"),
        ({"logs": ["x"], "epochs": "ep"}, "with 0 groups, expected 1"),
    ],
)
def test_a_wrong_configuration_is_refused_in_one_line(finished, values, words):
    config = configured(finished, "wrong", **values)
    output = finished.snakemake("analyse", config=config.name, expect=1)
    assert words in output
    assert "Traceback" not in output


def test_analyse_without_logs_says_what_to_type(finished):
    output = finished.snakemake("analyse", expect=1)
    assert "--configfile config/logs.yaml" in output
