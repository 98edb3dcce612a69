import json
import os
import re
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tierscope
from darshan_containers import build_log
from job_logs import write_job_log
from tierscope.core.columns import TABLES
from tierscope.core.tables import check_table, write_table
from tierscope.core.validation import ConfigError
from tierscope.logs.analyse import tables_of
from tierscope.logs.chunks.listing import list_logs
from tierscope.logs.chunks.store import ReadLogs
from tierscope.logs.combinations import combinations_of_jobs
from tierscope.logs.grouping import LogFacts, group_logs
from tierscope.logs.jobs import JOB_TABLES, tables_of_jobs
from tierscope.logs.join import join
from tierscope.logs.joining.sentences import bottleneck
from tierscope.logs.reading import read_logs, reading_key
from tierscope.logs.settings import settings_of
from tierscope.trace.posix_records import POSIX_RECORD

READ = {"opens": 1, "reads": 2, "bytes_read": 100, "read_s": 3.0, "meta_s": 1.0}
TIERS = {"gfs": "/gfs", "lfs": "/lfs"}
GFS, META, LFS = (
    ("gfs", "POSIX", "read"),
    ("gfs", "POSIX", "meta"),
    ("lfs", "POSIX", "read"),
)


def fleet_of(folder, n_jobs=6, slow=()):
    """Write the logs of jobs of one program; slow ones take half of the run time."""
    for number in range(n_jobs):
        rows = [
            ("POSIX", 0, "/gfs/a", READ | {"read_s": 8.0 if number in slow else 0.05}),
            ("POSIX", 1, "/lfs/b", READ | {"read_s": 0.01, "meta_s": 0.02}),
        ]
        ended_s = 1_790_000_030.0 + number
        write_job_log(
            folder / f"{number}.darshan",
            rows,
            n_processes=2,
            job_id=number,
            ended_s=ended_s,
        )
    return folder


def test_tables_have_their_contracts_columns(tmp_path):
    tables = tierscope.analyse(fleet_of(tmp_path), TIERS)
    assert set(tables) == set(JOB_TABLES)
    for name, table in tables.items():
        assert list(table) == list(TABLES[name])
        assert len(table) or name in ("refusals", "job_sizes")
    assert tables["jobs"]["job"].is_unique


def test_a_job_is_told_in_a_sentence(tmp_path):
    rows = [
        ("POSIX", 0, "/gfs/a", READ),
        ("POSIX", 1, "/gfs/a", READ | {"read_s": 6.0}),
    ]
    log = write_job_log(tmp_path / "a.darshan", rows, n_processes=2)
    slowest = tierscope.analyse(log, TIERS)["job_slowest"]
    assert slowest["sentence"].tolist() == [
        "Rank 1 of 2 processes spent 7.00 s (70.0 % of the run time) on I/O, 86 % of "
        "it on gfs READ. If META on gfs were twice as fast, it would save 0.500 s."
    ]
    assert slowest["bottleneck"].tolist() == ["gfs READ"]


def test_each_epoch_has_its_slowest_process_and_sentence(tmp_path):
    rows = [
        ("POSIX", rank, f"/gfs/x.ep{epoch}/a", READ | {"read_s": 3.0 + epoch * rank})
        for epoch in range(2)
        for rank in range(2)
    ]
    log = write_job_log(tmp_path / "a.darshan", rows, n_processes=2)
    tables = tierscope.analyse(log, TIERS, epochs=r"\.ep(\d+)/")
    slowest = tables["job_slowest"]
    assert slowest["epoch"].tolist() == [-1, 0, 1]
    assert slowest["least_s"].tolist() == [9, 4, 5]
    assert (
        slowest["sentence"]
        .iloc[2]
        .startswith("Rank 1 of 2 processes spent 5.00 s on I/O")
    )
    assert slowest["sentence"].str.contains("in epoch 1").tolist() == [
        False,
        False,
        True,
    ]


def test_estimates_follow_the_rule_and_meet_the_default_goal(tmp_path):
    """4 s, of which 3 s are reads: 100 % more throughput leaves 2.5 s."""
    log = write_job_log(tmp_path / "a.darshan", [("POSIX", 0, "/gfs/a", READ)])
    tables = tierscope.analyse(log, TIERS)
    estimates = tables["job_estimates"].set_index("improvement")
    assert estimates.loc["gfs READ +100 %", "least_s"] == pytest.approx(2.5)
    assert estimates.loc["gfs READ +100 %", "saved_most_s"] == pytest.approx(1.5)
    assert set(estimates["method"]) == {"rule"}
    best = tables["job_combinations"].iloc[0]
    assert best["goal_s"] == pytest.approx(3.2)
    assert best["most_s"] <= 3.2
    assert best["certain"]


def test_a_given_goal_is_one_of_the_whole_job(tmp_path):
    rows = [("POSIX", 0, f"/gfs/x.ep{epoch}/a", READ) for epoch in range(3)]
    log = write_job_log(tmp_path / "a.darshan", rows)
    epochs = r"\.ep(\d+)/"
    table = tierscope.analyse(log, TIERS, epochs=epochs, goal_s=8.0)["job_combinations"]
    assert set(table["epoch"]) == {-1}
    assert set(table["goal_s"]) == {8.0}
    table = tierscope.analyse(log, TIERS, epochs=epochs)["job_combinations"]
    goals = table.groupby("epoch")["goal_s"].first()
    assert goals.to_dict() == pytest.approx({-1: 9.6, 0: 3.2, 1: 3.2, 2: 3.2})


OF_EPOCHS = {"tiers": {"gfs": ["/gfs*"]}, "epochs": r"\.ep(\d+)/"}


def odd_fleet(folder):
    """Write logs of jobs with a helper, lost and shared records, and epochs."""
    folder.mkdir()
    fleet_of(folder, 2, slow=[1])
    shell = {"exe": "/bin/bash x", "uid": 5, "started_s": 1_790_000_001.0}
    rows = [("POSIX", 0, f"/gfs/x.ep{epoch}/a", READ) for epoch in range(2)]
    name = folder / "u_solve_id9-1_1.darshan"
    write_job_log(name, rows, exe="solve", uid=5, job_id=9)
    write_job_log(folder / "u_bash_id9-2_1.darshan", rows[:1], job_id=9, **shell)
    lost = [("POSIX", rank, "/gfs/a", READ) for rank in range(2)]
    write_job_log(folder / "z", lost, n_processes=2, partial=["POSIX"], job_id=8)
    shared = {
        "opens": 5,
        "reads": 9,
        "read_s": 9.0,
        "slowest_rank": 2,
        "slowest_s": 4.0,
    }
    shared |= {"slowest_s": 4.0, "fastest_rank": 0, "fastest_s": 1.0}
    shared |= {"variance_s2": 1.0}
    rows = [("POSIX", -1, "/gfs/a", shared), ("MPI-IO", 1, "/gfs/a", READ)]
    write_job_log(folder / "y", rows, n_processes=5, job_id=7)
    return folder


def test_jobs_together_have_the_tables_of_each_alone_to_the_last_bit(tmp_path):
    settings = settings_of("x", [f"{odd_fleet(tmp_path / 'logs')}/*"], **OF_EPOCHS)
    chunks = list_logs(settings.logs, tmp_path / "lists", keep_vanished=False).chunks
    listed = [log for logs in chunks.values() for log in logs]
    key = reading_key(settings.tiers, settings.epochs)
    with ReadLogs(tmp_path / "kept", "all", listed, key) as read:
        read_logs(listed, settings.tiers, settings.epochs, keep=read.add)
        logs = {
            Path(path): (LogFacts(Path(path), **facts), read.summary(path))
            for path, facts in read.facts.items()
        }
    groups = group_logs([facts for facts, _ in logs.values()])
    assert [len(group.logs) for group in groups].count(2) == 1
    together, refused = tables_of_jobs(groups, logs, settings)
    alone = [tables_of_jobs([group], logs, settings)[0] for group in groups]
    assert not refused
    for name, table in together.items():
        expected = pd.concat([tables[name] for tables in alone], ignore_index=True)
        pd.testing.assert_frame_equal(table, expected, check_exact=True)


def test_combinations_are_searched_for_jobs_with_pages_and_on_demand(tmp_path):
    logs = odd_fleet(tmp_path / "logs")
    found = {}
    for pages in (1, 9):
        settings = settings_of("x", [f"{logs}/*"], pages=pages, **OF_EPOCHS)
        found[pages] = tables_of(settings, tmp_path / "kept")
    first = found[9]["fleet"]["job"].iloc[0]
    assert set(found[1]["job_combinations"]["job"]) == {first}
    every = found[9]["job_combinations"]
    assert set(every["job"]) == set(found[9]["jobs"]["job"])
    of_solve = every[every["job"] == "solve-9"].reset_index(drop=True)
    assert of_solve["epoch"].unique().tolist() == [-1, 0, 1]
    again = combinations_of_jobs(found[1], ["solve-9"])
    pd.testing.assert_frame_equal(again, of_solve)
    goals_s = of_solve.groupby("epoch")["goal_s"].first()
    assert goals_s.to_dict() == pytest.approx({-1: 6.4, 0: 3.2, 1: 3.2})
    assert not every.loc[every["job"] == "train-8", "certain"].any()


def test_an_outlier_is_named_beside_jobs_of_its_program(tmp_path):
    fleet = tierscope.analyse(fleet_of(tmp_path, slow=[3]), TIERS)["fleet"]
    assert fleet["job"].iloc[0].endswith("-3")  # the most hours first
    assert (
        fleet["outlier"].iloc[0].startswith("27 % of the run time is I/O, 3 % in the")
    )
    assert (fleet["outlier"].iloc[1:] == "").all()
    assert set(fleet["hours_of"]) == {"processes"}
    assert fleet["io_hours"].iloc[0] == pytest.approx(9 * 2 / 3600)


def test_hours_are_of_nodes_if_their_number_is_known(tmp_path):
    fleet = tierscope.analyse(fleet_of(tmp_path), TIERS, processes_per_node=2)["fleet"]
    assert set(fleet["hours_of"]) == {"nodes"}
    assert fleet["io_hours"].iloc[0] == pytest.approx(1.05 / 3600)
    saved = fleet["meta_saved_least_hours"].iloc[0] * 3600
    assert saved == pytest.approx(0.5)
    assert fleet["meta_tier"].iloc[0] == "gfs"


def test_refused_logs_do_not_stop_the_others(tmp_path):
    (fleet_of(tmp_path, 2) / "bad.darshan").write_bytes(b"no log")
    tables = tierscope.analyse([tmp_path, tmp_path / "no.darshan"], TIERS)
    assert len(tables["jobs"]) == 2
    assert tables["refusals"]["reason"].tolist() == [
        "is not a Darshan log.",
        "cannot be read: No such file or directory.",
    ]


def test_a_command_with_line_breaks_makes_no_tier(tmp_path):
    log = tmp_path / "a.darshan"
    counters = {"POSIX_OPENS": 1, "POSIX_READS": 2, "POSIX_F_READ_TIME": 3.0}
    posix = np.zeros(1, POSIX_RECORD)
    posix["id"] = 1
    for name, value in counters.items():
        posix[name] = value
    command = b"bash -c set -e\ncd /scratch/run1\n\techo '\xff' "
    mounts = b"\nlu\xeb\t/m\xff\nlustre\t/scratch"
    text = command + mounts
    build_log(log, {"POSIX": (4, posix)}, [(1, b"/scratch/run1/a")], text=text)
    tables = tierscope.analyse(log)
    assert tables["tier_prefixes"]["prefix"].tolist() == ["/scratch"]
    assert set(tables["job_times"]["tier"]) == {"lustre"}
    assert tables["jobs"]["exe"].tolist() == ["bash"]
    assert tables["logs"]["exe"].tolist() == [
        "bash -c set -e\ncd /scratch/run1\n\techo '\\xff'"
    ]
    build_log(log, {"POSIX": (4, posix)}, [(1, b"/m\xff/a")], text=text)
    prefixes = tierscope.analyse(log)["tier_prefixes"]
    assert prefixes.values.tolist() == [["lu\\xeb", "/m\\xff", "lu\\xeb", 1]]


def test_a_user_whose_name_is_no_utf_8_is_told(tmp_path):
    name = os.fsdecode(b"\xe9va_train_id7-1_1-1-1-1.darshan")
    log = write_job_log(tmp_path / name, [("POSIX", 0, "/gfs/a", READ)])
    assert tierscope.analyse(log, TIERS)["jobs"]["user"].tolist() == ["\\xe9va"]


def test_logs_that_are_all_refused_are_an_error_with_their_reasons(tmp_path):
    for number in range(7):
        (tmp_path / f"{number}.darshan").write_bytes(b"" if number else b"no log")
    with pytest.raises(ConfigError) as caught:
        tierscope.analyse(tmp_path)
    assert str(caught.value) == (
        "config: logs: got 7 logs, none of which can be used, expected one that can: "
        f"{tmp_path}/0.darshan: is not a Darshan log; "
        + "; ".join(
            f"{tmp_path}/{number}.darshan: is empty, expected a Darshan log"
            for number in range(1, 5)
        )
        + "; and 2 more"
    )


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    missing = tmp_path / "no\nfolder"
    with pytest.raises(ConfigError, match="which does not exist") as caught:
        tierscope.analyse(missing)
    assert "\n" not in str(caught.value)


def test_a_second_analysis_reads_no_log_again(tmp_path, monkeypatch):
    fleet_of(tmp_path / "logs", 2)
    first = tierscope.analyse(tmp_path / "logs", TIERS, keep=tmp_path / "kept")
    (kept,) = (tmp_path / "kept" / "read-logs").iterdir()
    written_ns = kept.stat().st_mtime_ns

    def read_none(*arguments, **options):
        raise AssertionError

    monkeypatch.setattr("tierscope.logs.chunks.chunk.read_logs", read_none)
    again = tierscope.analyse(tmp_path / "logs", TIERS, keep=tmp_path / "kept")
    assert kept.stat().st_mtime_ns == written_ns
    for name, table in first.items():
        pd.testing.assert_frame_equal(table, again[name])


def test_what_is_kept_of_other_logs_is_in_no_table(tmp_path):
    rows = [("POSIX", 0, "/gfs/a", READ)]
    for job_id in (1, 2):
        path = write_job_log(tmp_path / f"{job_id}.darshan", rows, job_id=job_id)
        tables = tierscope.analyse(path, TIERS, keep=tmp_path / "kept")
        assert tables["logs"]["job_id"].tolist() == [job_id]
        path.unlink()


def test_odd_logs_of_a_fleet_do_not_stop_the_others(tmp_path):
    """A negative time, only MPI-IO, a shared record without calls, a pipe, years."""
    for number, rows in enumerate(
        [
            [("POSIX", 0, "/gfs/a", READ | {"read_s": -1.0})],
            [("MPI-IO", 0, "/gfs/a", READ)],
            [("POSIX", -1, "/lfs/z", {}), ("POSIX", 0, "/gfs/a", READ)],
            [("POSIX", 0, "/gfs/late", READ)],
        ]
    ):
        path = tmp_path / f"{number}.darshan"
        ended_s = 0.0 if number == 3 else 1_790_000_010.0
        write_job_log(path, rows, n_processes=2, job_id=number, ended_s=ended_s)
    build_log(tmp_path / "year.darshan", {}, [], whole_s=(100, 10**15))
    os.mkfifo(tmp_path / "pipe.darshan")
    (tmp_path / os.fsdecode(b"l\xe9.darshan")).touch()
    tables = tierscope.analyse(tmp_path, TIERS, goal_s=1.0)
    remarks = tables["jobs"]["remarks"].tolist()
    assert len(remarks) == 4
    slowest = tables["job_slowest"].set_index("job")
    (only_mpi_io,) = slowest.index[slowest["bottleneck"] == "unknown"]
    assert slowest.loc[only_mpi_io, "sentence"] == (
        "No I/O time is recorded, but not all I/O is recorded."
    )
    assert slowest["times_are"].eq("lower bounds").sum() == 2
    assert (
        "1 time is below 0 in the logs and counted as 0, so times are at least those "
        "that are listed."
    ) in remarks
    assert sorted(tables["refusals"]["reason"]) == [
        "corrupt in its job data: got end_s 1000000000000000, expected seconds since "
        "1970.",
        "is empty, expected a Darshan log.",
        "is not a file.",
    ]
    assert any("l\\xe9" in log for log in tables["refusals"]["log"])


def test_odd_metadata_do_not_stop_an_analysis(tmp_path):
    """Anyone can write a log: its metadata are words, not what the tracer tells."""
    odd = ["soon", "nan", "inf", "-1.0", "1" * 80 + ".0", "1e9", "\u0663.5", ""]
    for number, value in enumerate(odd):
        names = ["group", "rank", "pid", "parents", "process", "end"]
        metadata = dict.fromkeys(names, value)
        metadata |= {"group": "7.0", "command_began": value, "command_ended": value}
        path = tmp_path / f"{number}.darshan"
        rows = [("POSIX", 0, f"/gfs/{number}", READ)]
        write_job_log(path, rows, job_id=7, metadata=metadata)
    tables = tierscope.analyse(tmp_path, TIERS)
    assert tables["refusals"].empty
    assert len(tables["logs"]) == len(odd)
    assert {f"/gfs/{n}" for n in range(len(odd))} < set(tables["job_files"]["path"])


def test_costs_of_combinations_are_those_of_their_words(tmp_path):
    """80 % of the time of a single class is met by 25 %, and by nothing dearer."""
    shared = {"opens": 3, "reads": 9, "read_s": 9.0, "slowest_rank": 2}
    shared |= {
        "slowest_s": 5.0,
        "fastest_rank": 0,
        "fastest_s": 1.0,
        "variance_s2": 2.0,
    }
    rows = [
        ("POSIX", -1, "/gfs/a", shared),
        ("POSIX", 1, "/gfs/b", READ | {"meta_s": 0.5}),
    ]
    log = write_job_log(tmp_path / "a.darshan", rows, n_processes=3)
    combinations = tierscope.analyse(log, TIERS)["job_combinations"]
    words = combinations["improvement"].str.findall(r"\+(\d+) %")
    sums = [sum(map(int, found)) for found in words]
    assert combinations["cost"].tolist() == sums
    assert combinations["improvement"].is_unique


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="which names no log"):
        tierscope.analyse(tmp_path)
    for wrong in ({"group": "two"}, {"goal_s": -1}, {"tiers": "automatic"}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            tierscope.analyse(tmp_path / "x", **wrong)
    with pytest.raises(AttributeError, match="no attribute 'analyze'"):
        tierscope.analyze  # noqa: B018


GENUINE = Path(__file__).parents[2] / "data" / "darshan-logs"
ROOTS = {"gfs": "/srv/gfs*", "lfs": "/dev/shm/lfs*"}


@pytest.mark.parametrize(
    ("name", "by_epoch"),
    [
        ("mpi2_small_noreduce", False),
        ("mpi4_small_alias", True),
        ("mpi4_large_alias", True),
        ("mpi4_small_perepoch1", False),
        ("nonmpi_small_alias", True),
    ],
)
def test_genuine_logs_hold_the_opens_of_each_process(name, by_epoch):
    truth = pd.DataFrame(json.loads((GENUINE / f"{name}.truth.json").read_text()))
    epochs = r"\.ep([0-9]+)/" if by_epoch else None
    tables = tierscope.analyse(GENUINE / f"{name}.darshan", ROOTS, epochs=epochs)
    times = tables["job_times"]
    assert set(times["tier"]) == {"gfs", "lfs"}
    opens = times[times["operation"] == "meta"]
    by = ["rank", "epoch"] if by_epoch else ["rank"]
    for tier in ("gfs", "lfs"):
        expected = truth.groupby(by)[tier].sum()
        found = opens[opens["tier"] == tier].groupby(by)["operations"].sum()
        found = found.reindex(expected.index, fill_value=0)
        assert found.tolist() == expected.tolist()
    assert tables["jobs"]["times_are"].tolist() == ["exact"]


def test_a_genuine_log_that_lost_records_gives_lower_bounds_below_the_truth():
    truth = pd.DataFrame(
        json.loads((GENUINE / "mpi4_small_partial64.truth.json").read_text())
    )
    tables = tierscope.analyse(GENUINE / "mpi4_small_partial64.darshan", ROOTS)
    opens = tables["job_breakdown"].query("operation == 'meta'").set_index("tier")
    assert opens["operations"].to_dict() == {"gfs": 174, "lfs": 188}
    assert truth[["gfs", "lfs"]].sum().tolist() == [300, 300]
    assert tables["jobs"]["times_are"].tolist() == ["lower bounds"]
    assert tables["job_slowest"]["most_s"].isna().all()
    assert tables["job_times"]["most_s"].isna().all()
    assert "at least" in tables["job_slowest"]["sentence"].iloc[0]
    assert "lost records of POSIX" in tables["jobs"]["remarks"].iloc[0]


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ({"user": "anna"}, ["a"]),
        ({"user": 1000, "executable": "solve"}, ["b"]),
        ({"month": "2026-09"}, ["a", "b"]),
        ({"executable": None}, ["a", "b"]),
    ],
)
def test_a_filter_keeps_jobs(tmp_path, wanted, kept):
    for uid, user, program in ((7, "anna", "a"), (1000, "ben", "solve")):
        write_job_log(
            tmp_path / "logs" / f"{user}_{program}_id7_9-1-1-1.darshan",
            [("POSIX", 0, "/gfs/a", READ), ("POSIX", 1, "/gfs/a", READ)],
            n_processes=2,
            exe=f"/bin/{program}",
            uid=uid,
        )
    settings = settings_of("x", [str(tmp_path / "logs")], TIERS, filter=wanted)
    fleet = tables_of(settings, tmp_path / "kept")["fleet"]
    assert sorted(fleet["exe"]) == sorted({"a": "a", "b": "solve"}[one] for one in kept)


def test_a_filter_that_keeps_nothing_is_refused(tmp_path):
    fleet_of(tmp_path / "logs", 2)
    settings = settings_of("x", [str(tmp_path / "logs")], filter={"user": "nobody"})
    with pytest.raises(ConfigError, match=r"none of the 2 jobs meets.* user is 1000$"):
        tables_of(settings, tmp_path / "kept")


def test_the_example_of_the_docs_runs(capsys, monkeypatch):
    root = GENUINE.parents[2]
    monkeypatch.chdir(root)
    text = (root / "docs" / "jobs.md").read_text()
    (block,) = re.findall(
        r"^    import tierscope\n(?:.*\n)*?^        print.*\n", text, re.MULTILINE
    )
    exec(textwrap.dedent(block), {})
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert [line.split()[0] for line in lines] == ["-1", "0", "1", "2"]
    assert lines[0].startswith("-1 2 Rank 2 of 4 processes spent 0.00789 s (0.127")


def test_the_docs_open_tables_in_a_line_each(tmp_path, monkeypatch):
    text = (GENUINE.parents[2] / "docs" / "jobs.md").read_text()
    (block,) = re.findall(r"^    import duckdb\n(?:    .*\n|\n)*", text, re.MULTILINE)
    *imports, by_pandas, by_pyarrow, by_duckdb = filter(None, block.split("\n"))
    tables = tierscope.analyse(fleet_of(tmp_path / "logs", 4), TIERS)
    folder = tmp_path / "results" / "november" / "tables"
    fleet = tables["fleet"].assign(io_hours=[3.0, 2, 0.5, 0.1])
    for name, frame in {"fleet": fleet, "job_times": tables["job_times"]}.items():
        for number, part in enumerate((frame.head(3), frame.tail(-3))):
            path = folder / f"{name}.parquet" / "2026-09" / f"{number}.parquet"
            write_table(part, path, name)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(textwrap.dedent("\n".join(imports)), names)
    found = [eval(line.strip(), names) for line in (by_pandas, by_pyarrow, by_duckdb)]
    pd.testing.assert_frame_equal(found[0], fleet)
    assert (
        found[1].to_pandas()["job"].tolist() == tables["job_times"]["job"][:9].tolist()
    )
    assert found[2].df()["job"].tolist() == fleet["job"][:2].tolist()


def test_lazy_tables_are_the_same_and_kept(tmp_path):
    logs = fleet_of(tmp_path / "logs")
    tables = tierscope.analyse(logs, TIERS)
    lazy = tierscope.analyse(logs, TIERS, keep=tmp_path / "kept", lazy=True)
    assert list(lazy) == list(tables)
    for name, table in lazy.items():
        read = check_table(table.to_table().to_pandas(), name)
        pd.testing.assert_frame_equal(read, tables[name])
    columns = lazy["fleet"].to_table(columns=["job", "io_hours"])
    assert columns.column_names == ["job", "io_hours"]
    with pytest.raises(ConfigError, match="lazy: got True without keep"):
        tierscope.analyse(logs, TIERS, lazy=True)


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        ([6, 3, 1], [6, 3, 1], ("gfs READ", "60 % of it")),
        ([6, 1, 0], [7, 2, 1], ("gfs READ", "most of it")),
        ([4, 1, 0], [5, 3, 3], ("gfs READ", "the largest part of it")),
        ([2, 1, 0], [5, 3, 1], ("gfs READ or gfs META", "the largest part of it")),
        ([0, 0, 0], [2, 3, 1], ("gfs META or gfs READ or lfs READ",) * 1),
        ([5, 1, 0], [np.nan] * 3, ("gfs READ", "the largest recorded part of it")),
        ([0, 0, 0], [0, 0, 0], ("none", "")),
    ],
)
def test_the_bottleneck_is_named_as_far_as_bounds_tell(least, most, expected):
    found = bottleneck([GFS, META, LFS], least, most)
    assert found[: len(expected)] == expected


def test_a_process_that_is_nearly_certainly_the_slowest_is_named(tmp_path):
    """Rank 3 has 60 of 122 s in a file; 1 or 2 may have as much, and 0.02 s more."""
    shared = {"opens": 4, "reads": 4, "bytes_read": 4, "read_s": 122.0}
    shared |= {"slowest_rank": 3, "slowest_s": 60.0, "fastest_rank": 0}
    shared |= {"fastest_s": 1.0, "variance_s2": np.var([1.0, 1.0, 60.0, 60.0])}
    other = {"opens": 4, "reads": 4, "read_s": 0.04, "slowest_rank": 1}
    other |= {"slowest_s": 0.02, "fastest_rank": 0, "fastest_s": 0.0}
    rows = [("POSIX", -1, "/gfs/a", shared), ("POSIX", -1, "/gfs/b", other)]
    log = write_job_log(tmp_path / "a.darshan", rows, n_processes=4)
    slowest = tierscope.analyse(log, TIERS)["job_slowest"].iloc[0]
    assert slowest["slowest_ranks"] == "1, 2, 3"
    who = "Rank 3 of 4 processes, or another within 0.0200 s of it, spent 60.0 s"
    assert slowest["sentence"].startswith(who)
    own = ("POSIX", 1, "/gfs/c", READ)
    log = write_job_log(tmp_path / "b.darshan", [*rows, own], n_processes=4)
    sentence = tierscope.analyse(log, TIERS)["job_slowest"]["sentence"].iloc[0]
    assert sentence.startswith("The slowest process of 4 (1, 2, 3) spent 60.0 to")


def test_a_filter_keeps_all_logs_of_a_job(tmp_path):
    """A worker of another program, and a process that starts in the next month."""
    month_s = 1_790_812_800.0 - 1  # 2026-09-30, 23:59:59
    for number, exe in enumerate(["python train.py", "python -c spawn_main"]):
        rows = [("POSIX", 0, f"/gfs/{number}", READ)]
        times = {"started_s": month_s + 2 * number, "ended_s": month_s + 60}
        write_job_log(tmp_path / f"{number}_id9-{number}_", rows, exe=exe, **times)
    logs = [f"{tmp_path}/*_"]
    for wanted in ({"executable": "train.py"}, {"month": "2026-09"}):
        settings = settings_of("x", logs, TIERS, filter=wanted)
        tables = tables_of(settings, tmp_path / "kept")
        assert tables["jobs"]["n_logs"].tolist() == [2]
    settings = settings_of("x", logs, TIERS, filter={"month": "2026-10"})
    with pytest.raises(ConfigError, match="month is 2026-09"):
        tables_of(settings, tmp_path / "kept")


def test_a_job_whose_numbers_cannot_be_is_refused(tmp_path, monkeypatch):
    def join_some(groups, *arguments, **options):
        if any(group.name.endswith("-0") for group in groups):
            raise ValueError("odd numbers")
        found = join(groups, *arguments, **options)
        for job, group in enumerate(groups):
            if group.name.endswith("-1"):  # it breaks the contract
                of_job = found.columns["job_files"]["job"] == job
                times_s = np.array(found.columns["job_files"]["time_s"])
                times_s = np.where(of_job, -1.0, times_s)
                found.columns["job_files"]["time_s"] = times_s
        return found

    monkeypatch.setattr("tierscope.logs.jobs.join", join_some)
    tables = tierscope.analyse(fleet_of(tmp_path, 3), TIERS)
    assert tables["jobs"]["job"].tolist() == ["train-2"]
    first, second = tables["refusals"]["reason"]
    assert first == "its job train-0 cannot be analysed: odd numbers"
    assert "train-1 cannot be analysed: table column job_files.time_s: got -1" in second
    assert set(tables["logs"]["job"]) == {"train-2"}


def test_jobs_that_are_all_refused_are_an_error(tmp_path, monkeypatch):
    def join_none(*arguments, **options):
        raise ValueError("odd numbers")

    monkeypatch.setattr("tierscope.logs.jobs.join", join_none)
    with pytest.raises(ConfigError, match="job train-0 cannot be analysed: odd"):
        tierscope.analyse(fleet_of(tmp_path, 1), TIERS)


def test_refused_logs_of_a_job_are_said(tmp_path):
    """Of three logs with one job id, one is empty and one is a copy."""
    rows = [("POSIX", 0, "/gfs/a", READ)]
    log = write_job_log(tmp_path / "u_train_id77-1_1-1-1-1.darshan", rows)
    (tmp_path / "u_train_id77-2_1-1-1-2.darshan").touch()
    (tmp_path / "u_train_id77-3_1-1-1-3.darshan").write_bytes(log.read_bytes())
    (remarks,) = tierscope.analyse(tmp_path, TIERS)["jobs"]["remarks"]
    assert remarks == "1 log has the job's id in the name and cannot be used."
