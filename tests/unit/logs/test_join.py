import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from darshan_containers import build_log
from job_logs import write_job_log
from tierscope.analysis.slowest.improved import improved_slowest
from tierscope.logs.grouping import LogFacts, LogGroup
from tierscope.logs.join import Phases, join
from tierscope.logs.joining.remarks import rank_words
from tierscope.logs.joining.texts import Texts
from tierscope.logs.summary import summarise
from tierscope.logs.tiers import tiers_of
from tierscope.trace.darshan.module_records import RECORD_TYPES
from tierscope.trace.log import read_any_log

READ = {"opens": 1, "reads": 2, "bytes_read": 100, "read_s": 3.0, "meta_s": 1.0}
TIERS = tiers_of({"gfs": "/gfs*", "lfs": "/lfs"})
EPOCHS = r"\.ep([0-9]+)/"


def facts_of(path, n_processes=1, **metadata):
    """Return what a log says about its job."""
    return LogFacts(Path(path), 1000, 7, n_processes, 0.0, 10.0, "train", metadata)


def joined(tmp_path, *logs, n_processes=1, processes=None, epochs=None, **options):
    """Write logs of (rows, facts), sum them up and join them as one job."""
    found = {}
    for number, (rows, facts) in enumerate(logs):
        path = tmp_path / f"{number}.darshan"
        write_job_log(path, rows, **facts)
        summary = summarise(read_any_log(path), str(number), TIERS, epochs)
        found[path] = (facts_of(path, facts.get("n_processes", 1)), summary)
    processes = processes or tuple(range(len(logs)))
    group = LogGroup("job", tuple(found), processes, n_processes, "tests")
    return Joined.of(join([group], found, **options))


@dataclass
class Joined:
    """The only job: its facts, its rows by table and column, and its phases."""

    facts: dict
    rows: dict
    phases: Phases

    @classmethod
    def of(cls, jobs):
        (facts,) = jobs.facts
        rows = {
            table: {name: listed(values) for name, values in columns.items()}
            for table, columns in jobs.columns.items()
        }
        return cls(facts, rows, jobs.phases)


def listed(values):
    """Return a column; texts as a list."""
    return values.series().tolist() if isinstance(values, Texts) else values


def slowest_of(job, epoch=-1):
    """Return the row of the slowest process."""
    table = job.rows["job_slowest"]
    position = table["epoch"].tolist().index(epoch)
    return {name: values[position] for name, values in table.items()}


def test_the_slowest_process_is_broken_down(tmp_path):
    rows = [
        ("POSIX", 0, "/gfs/a", READ),
        ("POSIX", 1, "/gfs/b", READ | {"read_s": 5.0}),
        ("STDIO", 1, "/lfs/c", READ),
        ("MPI-IO", 1, "/gfs/b", READ),
    ]
    job = joined(tmp_path, (rows, {"n_processes": 2}), n_processes=2)
    slowest = slowest_of(job)
    assert slowest["slowest_ranks"] == "1"
    assert (slowest["least_s"], slowest["most_s"]) == (10.0, 10.0)
    assert slowest["run_least_percent"] == pytest.approx(100)
    assert slowest["times_are"] == "exact"
    table = job.rows["job_breakdown"]
    keys = zip(table["tier"], table["interface"], table["operation"], strict=True)
    times = dict(zip(keys, table["least_s"], strict=True))
    assert times["gfs", "POSIX", "read"] == 5.0
    assert times["lfs", "STDIO", "meta"] == 1.0
    most = dict(zip(table["interface"], table["most_s"], strict=True))
    assert math.isnan(most["MPI-IO"])  # it is not told which process is the slowest
    sums = dict(zip(table["tier"], table["sum_s"], strict=True))
    assert sums["lfs"] in (3.0, 1.0)
    assert (
        job.facts["remarks"]
        == "MPI-IO makes POSIX calls, so its times are not counted."
    )


def test_the_whole_job_comes_first_and_then_each_epoch(tmp_path):
    rows = [
        ("POSIX", 0, "/gfs.ep0/a", READ),
        ("POSIX", 1, "/gfs.ep1/a", READ | {"read_s": 4.0}),
        ("POSIX", 0, "/gfs/no-epoch", READ | {"read_s": 8.0}),
    ]
    logs = (rows, {"n_processes": 2})
    job = joined(tmp_path, logs, n_processes=2, epochs=EPOCHS)
    assert job.phases.epoch.tolist() == [-1, 0, 1]
    found = {epoch: slowest_of(job, epoch) for epoch in (-1, 0, 1)}
    assert {e: one["least_s"] for e, one in found.items()} == {-1: 13.0, 0: 4.0, 1: 5.0}
    assert {e: one["slowest_ranks"] for e, one in found.items()} == {
        -1: "0",
        0: "0",
        1: "1",
    }


def test_logs_of_one_process_are_added_and_the_largest_is_shown(tmp_path):
    """A trainer and two workers: 4, 4 and 6 s; another trainer: 4 s."""
    slow = ("POSIX", 0, "/gfs/b", READ | {"read_s": 5.0})
    rows = [("POSIX", 0, "/gfs/a", READ)]
    logs = [(rows, {}), (rows, {}), ([slow], {}), (rows, {})]
    job = joined(tmp_path, *logs, n_processes=2, processes=(0, 0, 0, 1))
    assert slowest_of(job)["least_s"] == 14.0
    times = job.rows["job_times"]
    read = [
        (rank, least, largest)
        for rank, what, least, largest in zip(
            times["rank"],
            times["operation"],
            times["least_s"],
            times["largest_s"],
            strict=True,
        )
        if what == "read"
    ]
    assert read == [(0, 11.0, 5.0), (1, 3.0, 3.0)]
    table = job.rows["job_breakdown"]
    assert dict(zip(table["operation"], table["files"], strict=True))["read"] == 2
    assert job.rows["job_files"]["time_s"][0] == 12.0  # /gfs/a, in three logs


def test_a_helper_has_rows_but_is_no_process(tmp_path):
    rows = [("POSIX", 0, "/gfs/a", READ)]
    helper = [("POSIX", 0, "/etc/x", READ | {"read_s": 50.0})]
    job = joined(tmp_path, (rows, {}), (helper, {}), processes=(0, -1))
    assert slowest_of(job)["least_s"] == 4.0
    assert -1 in job.rows["job_times"]["rank"]
    assert "other" in job.rows["job_breakdown"]["tier"]


def test_bounds_leave_several_processes_that_may_be_the_slowest(tmp_path):
    """100 s of 4 processes; rank 3 has 40 s, rank 0 10 s; two have 25 s each or not."""
    values = np.array([10.0, 20.0, 30.0, 40.0])
    shared = {
        **{"opens": 4, "reads": 4, "bytes_read": 4, "read_s": 100.0},
        **{"slowest_rank": 3, "slowest_s": 40.0, "fastest_rank": 0, "fastest_s": 10.0},
        "variance_s2": values.var(),
    }
    own = READ | {"read_s": 14.0, "meta_s": 0.0}
    rows = [("POSIX", -1, "/gfs/a", shared), ("POSIX", 1, "/gfs/b", own)]
    job = joined(tmp_path, (rows, {"n_processes": 4}), n_processes=4)
    slowest = slowest_of(job)
    assert slowest["times_are"] == "bounds"
    assert slowest["slowest_ranks"] == "1, 3"
    assert slowest["least_s"] == pytest.approx(40)
    assert slowest["most_s"] == pytest.approx(
        44
    )  # 30 s of the file and 14 s of its own
    assert "1 record holds sums over all processes" in job.facts["remarks"]


def test_lost_records_leave_a_lower_bound(tmp_path):
    rows = [
        ("POSIX", 0, "/gfs/a", READ),
        ("POSIX", 1, "/gfs/b", READ | {"read_s": 9.0}),
    ]
    facts = {"n_processes": 2, "partial": ["POSIX"]}
    job = joined(tmp_path, (rows, facts), n_processes=2)
    slowest = slowest_of(job)
    assert slowest["times_are"] == job.facts["times_are"] == "lower bounds"
    assert slowest["least_s"] == 10.0
    assert math.isinf(slowest["most_s"]) or math.isnan(slowest["most_s"])
    assert "lost records of POSIX" in job.facts["remarks"]


def test_nodes_are_given_or_counted_by_hosts(tmp_path):
    rows = [("POSIX", rank, "/gfs/a", READ) for rank in range(6)]
    facts = {"n_processes": 6}
    assert math.isnan(joined(tmp_path, (rows, facts), n_processes=6).facts["n_nodes"])
    job = joined(tmp_path, (rows, facts), n_processes=6, processes_per_node=4)
    assert job.facts["n_nodes"] == 2
    hosts = [
        ([("POSIX", 0, f"/gfs/{one}", READ)], {"metadata": {"host": one}})
        for one in ("n1", "n2", "n1")
    ]
    job = joined(tmp_path, *hosts, n_processes=3)
    assert (job.facts["n_nodes"], job.facts["host"]) == (2, "n1, n2")


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([4], "4"),
        ([1, 3], "1, 3"),
        (range(64), "any of 64"),
        (range(12), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"),
    ],
)
def test_ranks_in_words(ranks, words):
    assert rank_words(np.array(ranks), 64) == words


def test_a_rank_without_a_log_is_named(tmp_path):
    rows = [("POSIX", 0, "/gfs/a", READ)]
    job = joined(tmp_path, (rows, {}), (rows, {}), n_processes=3, processes=(0, 2))
    assert "No log is of rank 1: without I/O there is none" in job.facts["remarks"]


def test_what_a_process_may_have_lost_is_not_saved(tmp_path):
    """Rank 1 has lost its records: it may be the slowest, without any read."""
    rows = [("POSIX", 0, "/gfs/a", READ | {"read_s": 9.0})]
    facts = {"n_processes": 2, "partial": ["POSIX"]}
    phases = joined(tmp_path, (rows, facts), n_processes=2).phases
    found = improved_slowest(phases.times, np.array([[100, 100]]))
    assert found.saved_least_s.tolist() == [0.0]
    assert found.saved_most_s.tolist() == [math.inf]
    rows = [("POSIX", 0, "/gfs/a", READ), ("STDIO", 0, "/lfs/a", READ)]
    job = joined(tmp_path, (rows, {"partial": ["POSIX"]}))
    alone = improved_slowest(job.phases.times, np.array([[100, 100, 0, 0]]))
    assert alone.saved_least_s.tolist() == [2.0]  # whatever it has lost


def test_run_times_of_whole_seconds_are_bounds(tmp_path):
    """A job of 100 s to 160 s ran 59 to 61 s."""
    record = np.zeros(1, RECORD_TYPES["STDIO"][1])
    record["id"], record["STDIO_READS"], record["STDIO_F_READ_TIME"] = 1, 1, 6.0
    parts = []
    for version in ("3.21", "3.41"):
        log = tmp_path / version
        build_log(log, {"STDIO": (1, record)}, [(1, b"/gfs/a")], version=version)
        parts.append(summarise(read_any_log(log), version, TIERS, None))
    for part, bounds in zip(parts, [(59, 61), (60.5, 60.5)], strict=True):
        group = LogGroup("job", (tmp_path,), (0,), 2, "tests")
        job = Joined.of(join([group], {tmp_path: (facts_of(tmp_path, 2), part)}))
        slowest = slowest_of(job)
        assert slowest["run_most_percent"] == pytest.approx(600 / bounds[0])
        assert slowest["run_least_percent"] == pytest.approx(600 / bounds[1])


def test_run_time_is_that_of_the_command_if_a_log_says_it(tmp_path):
    """Its logs are of 2 to 3 s and 4 to 9 s of a command of 0 to 8 s."""
    rows = [("POSIX", 0, "/gfs/a", READ)]
    command = {"command_began": "1790000000.0", "command_ended": "1790000008.0"}
    first = {"started_s": 1_790_000_002.0, "ended_s": 1_790_000_003.0}
    later = {"started_s": 1_790_000_004.0, "ended_s": 1_790_000_009.0}
    job = joined(tmp_path, (rows, first | {"metadata": command}))
    assert (job.facts["started_s"], job.facts["run_time_s"]) == (1_790_000_000, 8)
    assert slowest_of(job)["run_least_percent"] == slowest_of(job)["run_most_percent"]
    assert slowest_of(job)["run_most_percent"] == 50
    both = [(rows, one | {"metadata": command}) for one in (first, later)]
    job = joined(tmp_path, *both, n_processes=2)
    assert job.facts["run_time_s"] == 9  # a process has outlived the command
    odd = {"command_began": "soon", "command_ended": "inf"}
    job = joined(tmp_path, (rows, first | {"metadata": odd}))
    assert job.facts["run_time_s"] == 1


@pytest.mark.parametrize(
    ("n_killed", "remark"),
    [
        (0, ""),
        (1, "1 process was killed; its log ends with its last call."),
        (2, "2 processes were killed; their logs end with their last calls."),
    ],
)
def test_killed_processes_are_told(tmp_path, n_killed, remark):
    rows = [("POSIX", 0, "/gfs/a", READ)]
    ends = [*n_killed * ["last call"], *(2 - n_killed) * ["exit"]]
    logs = [(rows, {"metadata": {"end": end}}) for end in ends]
    assert joined(tmp_path, *logs, n_processes=2).facts["remarks"] == remark


def test_a_log_that_ends_before_it_starts_has_no_run_time(tmp_path):
    rows = [("POSIX", 0, "/gfs/a", READ)]
    job = joined(tmp_path, (rows, {"ended_s": 0.0}))
    assert math.isnan(job.facts["run_time_s"])
    assert "so its run time is unknown" in job.facts["remarks"]
    slowest = slowest_of(job)
    assert math.isnan(slowest["run_least_percent"])
    assert math.isnan(slowest["run_most_percent"])


def test_one_log_without_an_end_leaves_the_run_time_unknown(tmp_path):
    rows = [("POSIX", 0, "/gfs/a", READ)]
    command = {"command_began": "1789999990.0", "command_ended": "1790000020.0"}
    logs = [(rows, {}), (rows, {"started_s": 0.0})]
    job = joined(tmp_path, *logs, n_processes=2)
    assert job.facts["started_s"] == 1_790_000_000
    assert math.isnan(job.facts["run_time_s"])
    logs = [(rows, {"metadata": command}), (rows, {"ended_s": 0.0})]
    assert joined(tmp_path, *logs, n_processes=2).facts["run_time_s"] == 30


def test_nodes_are_unknown_unless_each_process_names_its_host(tmp_path):
    rows = [("POSIX", 0, "/gfs/a", READ)]
    hosts = [{"metadata": {"host": name}} for name in ("n0", "n1")]
    job = joined(tmp_path, *((rows, one) for one in hosts), n_processes=2)
    assert job.facts["n_nodes"] == 2
    job = joined(tmp_path, (rows, hosts[0]), (rows, {}), n_processes=2)
    assert math.isnan(job.facts["n_nodes"])


@pytest.mark.parametrize(
    ("interface", "counters", "facts"),
    [
        ("POSIX", {"meta_s": -1.0}, {}),
        ("STDIO", {"writes": -1}, {}),
        ("POSIX", {"bytes_written": 5}, {}),
        ("POSIX", {"read_s": 0.0}, {}),
        ("POSIX", {}, {"metadata": {"end": "still running"}}),
    ],
)
def test_values_that_cannot_be_make_times_lower_bounds(
    tmp_path, interface, counters, facts
):
    """Of rank 1; the times of rank 0 in another log stay exact."""
    rows = [(interface, 0, "/gfs/a", READ | counters)]
    exact = ([("POSIX", 0, "/gfs/b", READ)], {})
    job = joined(tmp_path, exact, (rows, facts), n_processes=2)
    assert job.facts["times_are"] == "lower bounds"
    processes = job.rows["job_processes"]
    assert np.isnan(processes["most_s"]).tolist() == [False, True]
    times = job.rows["job_times"]
    assert np.isnan(times["most_s"]).tolist() == (times["rank"] == 1).tolist()
    mpi_io = [*exact[0], ("MPI-IO", 0, "/gfs/b", READ | counters)]
    if not facts:
        job = joined(tmp_path, (mpi_io, {}))
        assert job.facts["times_are"] == "exact"
        times = job.rows["job_times"]
        is_unknown = np.isnan(times["most_s"]) == ~times["counted"]
        assert is_unknown.all()


def test_bytes_without_calls_are_counted(tmp_path):
    rows = [("POSIX", 0, "/gfs/a", {"opens": 1, "bytes_written": 5, "meta_s": 1.0})]
    times = joined(tmp_path, (rows, {})).rows["job_times"]
    kept = dict(zip(times["operation"], times["bytes"], strict=True))
    assert kept == {"write": 5, "write meta": 0}


def test_reduced_records_of_a_partial_log_leave_several_candidates(tmp_path):
    """Rank 1 has 24 s at least and 44 s at most of what is recorded, rank 3 40 s."""
    values = np.array([10.0, 20.0, 30.0, 40.0])
    shared = {
        **{"opens": 4, "reads": 4, "bytes_read": 4, "read_s": 100.0},
        **{"slowest_rank": 3, "slowest_s": 40.0, "fastest_rank": 0, "fastest_s": 10.0},
        "variance_s2": values.var(),
    }
    own = READ | {"read_s": 14.0, "meta_s": 0.0}
    rows = [("POSIX", -1, "/gfs/a", shared), ("POSIX", 1, "/gfs/b", own)]
    facts = {"n_processes": 4, "partial": ["POSIX"]}
    job = joined(tmp_path, (rows, facts), n_processes=4)
    slowest = slowest_of(job)
    assert slowest["times_are"] == "lower bounds"
    assert slowest["slowest_ranks"] == "1, 3"
    assert slowest["least_s"] == pytest.approx(40)
    assert math.isinf(slowest["most_s"])
    processes = job.rows["job_processes"]
    assert processes["can_be_slowest"].all()
    assert np.isnan(processes["most_s"]).all()


def test_an_epoch_that_a_partial_log_lacks_is_not_exact(tmp_path):
    """Rank 0 may have lost all of epoch 1."""
    first = ([("POSIX", 0, "/gfs.ep0/a", READ)], {"partial": ["POSIX"]})
    second = ([("POSIX", 0, f"/gfs.ep{one}/a", READ) for one in (0, 1)], {})
    job = joined(tmp_path, first, second, n_processes=2, epochs=EPOCHS)
    assert {one: slowest_of(job, one)["times_are"] for one in (-1, 0, 1)} == {
        one: "lower bounds" for one in (-1, 0, 1)
    }


def test_modules_that_no_class_counts_leave_lower_bounds(tmp_path):
    rows = [("POSIX", 0, "/gfs/a", READ)]
    path = tmp_path / "a.darshan"
    log = read_any_log(write_job_log(path, rows))
    summary = summarise(replace(log, modules=("POSIX", "DFS")), "x", TIERS, None)
    group = LogGroup("job", (path,), (0,), 1, "tests")
    job = Joined.of(join([group], {path: (facts_of(path), summary)}))
    assert slowest_of(job)["times_are"] == "lower bounds"
    assert "Calls of DFS are not counted" in job.facts["remarks"]


def test_waiting_in_mpi_io_is_said(tmp_path):
    rows = [
        ("POSIX", 0, "/gfs/a", READ),
        ("MPI-IO", 0, "/gfs/a", READ | {"read_s": 20.0}),
    ]
    remarks = joined(tmp_path, (rows, {"n_processes": 2}), n_processes=2).facts[
        "remarks"
    ]
    assert "A process spent 10.5 s on average in MPI-IO calls" in remarks
    rows[1] = ("MPI-IO", 0, "/gfs/a", READ | {"read_s": 6.0})
    remarks = joined(tmp_path, (rows, {"n_processes": 2}), n_processes=2).facts[
        "remarks"
    ]
    assert "on average" not in remarks


def test_files_that_are_not_counted_are_said(tmp_path, monkeypatch):
    monkeypatch.setattr("tierscope.logs.summed_files.MOST_FILES", 2)
    monkeypatch.setattr("tierscope.logs.joining.remarks.MOST_FILES", 2)
    rows = [("POSIX", 0, f"/gfs/{one}", READ) for one in range(3)]
    job = joined(tmp_path, (rows, {}))
    assert "count the 2 with the most time of each log" in job.facts["remarks"]


def test_a_helper_does_not_stretch_the_run_time(tmp_path):
    rows = [("POSIX", 0, "/gfs/a", READ)]
    shell = {"started_s": 1_789_999_000.0, "ended_s": 1_790_001_000.0}
    job = joined(tmp_path, (rows, {}), (rows, shell), processes=(0, -1))
    assert job.facts["run_time_s"] == pytest.approx(10)
    assert slowest_of(job)["run_least_percent"] == pytest.approx(40)
