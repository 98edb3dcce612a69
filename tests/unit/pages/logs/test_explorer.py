import re
from dataclasses import replace

import job_tables
import pytest
from job_tables import LFS_META, LFS_READ, LFS_WRITE, META, READ, STDIO, tables_of
from pages import Page, embedded
from tierscope.analysis.breakdown import break_down
from tierscope.analysis.training.limit import Advice
from tierscope.core.provenance import Origin
from tierscope.pages.logs.explorer import ExplorerData, explorer_data, job_explorer
from tierscope.pages.logs.job_page import job_advice

EXPLORER = {
    "advice": Advice(),
    "provenance": Origin("Darshan logs, test"),
}


def data_of(job, tiers=("gfs", "lfs")):
    return explorer_data(tables_of(job)["job_times"], job.name, tiers)


def times_of(data, epoch=0):
    rows = data.io_time[data.io_time["epoch"] == epoch]
    return rows.pivot(index="rank", columns="io_class", values="time_s")


def test_a_job_has_the_four_classes_of_each_process():
    data = data_of(job_tables.exact_job())
    times = times_of(data)
    assert times.loc[1].to_dict() == {
        "gfs_read": 2,
        "gfs_meta": 4,
        "lfs_read": 1.5,
        "lfs_meta": 0.5,
    }
    assert set(data.io_time["source"]) == {"measured"}
    assert break_down(data.io_time)["slowest_rank"].unique().tolist() == [1]


def test_writes_and_stdio_are_left_out_and_this_is_said():
    job = job_tables.exact_job()
    job.times |= {(-1, LFS_WRITE): [4, 4], (-1, STDIO): [0.25, 0.25]}
    data = data_of(job)
    assert data.io_time["time_s"].sum() == 12.5
    assert "Writes, META of written files, STDIO and MPI-IO are not" in data.note
    assert "60 % of the I/O time" in data.note  # 12.5 s of 21 s


def test_processes_that_did_less_have_zeros():
    job = job_tables.exact_job()
    times = tables_of(job)["job_times"]
    lone = times[~((times["rank"] == 0) & (times["operation"] == "read"))]
    data = explorer_data(lone, "x", ["gfs", "lfs"])
    assert times_of(data).loc[0].to_dict()["gfs_read"] == 0
    assert len(data.io_time) == 8


def test_epochs_are_kept_and_files_of_no_epoch_left_out():
    job = job_tables.exact_job()
    job.times = {
        (epoch, one): seconds
        for epoch in (-1, 0, 1)
        for (_, one), seconds in job.times.items()
    }
    data = data_of(job)
    assert sorted(data.io_time["epoch"].unique()) == [0, 1]
    assert "epoch" not in data.note


def test_a_job_whose_only_epoch_is_not_the_first_says_which_it_is():
    times = {(7, READ): [2, 1], (7, LFS_READ): [1, 1]}
    assert (
        "Shown is epoch 7, the only one."
        in data_of(job_tables.exact_job(times=times)).note
    )


def test_many_epochs_are_cut_to_the_longest_and_counted_from_0():
    """Epoch n of 30 takes n + 1 s in each of two classes."""
    times = {
        (epoch, one): [epoch + 1.0, 0.5]
        for epoch in range(30)
        for one in (READ, LFS_READ)
    }
    data = data_of(job_tables.exact_job(times=times))
    assert sorted(data.io_time["epoch"].unique()) == list(range(20))
    assert times_of(data, 0)["gfs_read"].tolist() == [11, 0.5]
    assert "Shown are the 20 epochs that take longest." in data.note
    assert "are epochs 10, 11, 12" in data.note


def test_other_names_of_tiers_are_told():
    slow, fast = ("home", "POSIX", "read"), ("burst", "POSIX", "read")
    job = job_tables.exact_job(times={(-1, slow): [3, 2], (-1, fast): [1, 2]})
    data = data_of(job, ["home", "burst"])
    assert "READ and META of the tiers home and burst" in data.note
    assert list(data.labels.values()) == [
        "home READ",
        "home META",
        "burst READ",
        "burst META",
    ]
    assert times_of(data)["gfs_read"].tolist() == [3, 2]


def test_gfs_is_the_slow_tier_in_any_order():
    data = data_of(job_tables.exact_job(), ["lfs", "gfs"])
    assert times_of(data)["gfs_meta"].tolist() == [2, 4]


def one_tier():
    return job_tables.exact_job(times={(-1, READ): [1, 2], (-1, META): [1, 2]})


def three_tiers():
    job = job_tables.exact_job()
    job.times[-1, ("home", "POSIX", "read")] = [1, 1]
    return job


def two_tiers_with_bounds():
    times = {(-1, READ): ([1.0, 1], [2.0, 2]), (-1, LFS_READ): [1, 1]}
    return job_tables.exact_job(times=times)


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (one_tier(), "of only one named tier (gfs)."),
        (job_tables.exact_job(times={(-1, STDIO): [1, 2]}), "of no named tier."),
        (three_tiers(), "3 named tiers (gfs, home, lfs)"),
        (two_tiers_with_bounds(), "the logs hold bounds"),
    ],
)
def test_a_job_without_explorer_has_a_reason(job, reason):
    found = data_of(job, ["gfs", "home", "lfs"])
    assert isinstance(found, str)
    assert reason in found


def test_logs_of_no_process_are_left_out():
    times = tables_of(job_tables.exact_job())["job_times"]
    data = explorer_data(times.assign(rank=times["rank"] - 1), "x", ["gfs", "lfs"])
    assert data.io_time["rank"].unique().tolist() == [0]


def test_the_page_holds_the_slowest_processes_of_one_point():
    data = data_of(job_tables.exact_job())
    assert isinstance(data, ExplorerData)
    page = job_explorer(data, "train-1", **EXPLORER)
    (point,) = embedded(page)["points"]
    assert point["runs_s"] == [[[2, 4, 1.5, 0.5]]]  # process 1 is slower in every class
    assert point["cache_rate_percent"] == 0
    assert "What-if explorer: train-1" in page
    assert "6.40 s" in page  # the goal: 80 % of 8 s
    assert '<p class="note">The four classes are READ and META of' in page


def test_the_page_begins_with_the_longest_epoch_and_the_largest_classes():
    job = job_tables.exact_job()
    job.times = {
        (epoch, one): [second * factor for second in seconds]
        for epoch, factor in ((0, 1), (1, 3))
        for (_, one), seconds in job.times.items()
    }
    page = job_explorer(data_of(job), job.name, **EXPLORER)
    chosen = re.findall(r'<option value="(\w+)" selected>', page)
    assert chosen == ["1", "gfs_read", "gfs_meta"]


def test_the_page_of_a_job_has_no_words_about_sweeps():
    page = job_explorer(data_of(job_tables.exact_job()), "train-1", **EXPLORER)
    text = Page(page).text
    for word in ("LFS", "how many files", "interval", "scenario shown", "experiment"):
        assert word not in text


@pytest.mark.parametrize(("run_time_s", "is_given"), [(20.0, True), (100.0, False)])
def test_a_job_with_little_io_time_is_recommended_nothing(run_time_s, is_given):
    job = replace(job_tables.exact_job(), run_time_s=run_time_s)
    advice = job_advice(tables_of(job))
    page = job_explorer(data_of(job), job.name, **EXPLORER | {"advice": advice})
    assert embedded(page)["recommended"] == [is_given]
    text = Page(page).text
    assert text.count("so storage hardly limits this job") == (not is_given)
    assert ("Which storage must become faster" in text) == is_given


def test_a_hostile_name_is_no_html():
    job = job_tables.exact_job("</script><script>x</script>\u202e")
    page = job_explorer(data_of(job), job.name, **EXPLORER)
    assert "<script>x</script>" not in page
    assert "\u202e" not in page


def test_meta_alone_makes_a_tier_one_of_two():
    job = job_tables.exact_job(times={(-1, READ): [1, 2], (-1, LFS_META): [1, 1]})
    assert times_of(data_of(job))["lfs_meta"].tolist() == [1, 1]
