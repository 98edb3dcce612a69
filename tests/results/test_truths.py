"""Truths about produced results: every experiment, and the paper's on the scale model.

They read `results/` (or TIERSCOPE_RESULTS), so they are skipped until an experiment has
been run.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from tierscope.breakdown import bottleneck, select_epoch, slowest_process
from tierscope.io_class import IOClass
from tierscope.tables import read_table

PROJECT = Path(__file__).parents[2]
RESULTS = Path(os.environ.get("TIERSCOPE_RESULTS", PROJECT / "results"))
FINISHED = sorted(
    path.parents[1] for path in RESULTS.glob("*/tables/estimates.parquet")
)
RUN = ["dataset", "n_osts", "policy", "loader", "cache_rate_percent", "repetition"]


@pytest.fixture(params=FINISHED or [None], ids=lambda path: path.name if path else "-")
def experiment(request):
    """Return the result folder of each experiment there is."""
    if request.param is None:
        pytest.skip("no experiment has been run: make run")
    return request.param


@pytest.fixture
def table(experiment):
    """Return a function that reads a table of the experiment."""
    return lambda name: read_table(experiment / "tables" / f"{name}.parquet", name)


def test_shares_of_the_slowest_process_sum_to_one(table):
    shares = table("breakdown").groupby([*RUN, "epoch"])["share"].sum()
    assert np.allclose(shares, 1)


def test_breakdown_sums_to_the_largest_io_time(table):
    keys = [*RUN, "epoch"]
    largest = slowest_process(table("io_time")).set_index(keys)["io_time_s"]
    summed = table("breakdown").groupby(keys)["time_s"].sum()
    assert np.allclose(summed.reindex(largest.index), largest, rtol=1e-12)


def test_every_epoch_reads_the_same_files_and_bytes(table):
    io_time = table("io_time")
    sums = io_time.groupby([*RUN, "epoch"])["bytes"].sum()
    assert (sums.groupby(["dataset"]).nunique() == 1).all()
    opens = io_time[io_time["io_class"].isin(["gfs_meta", "lfs_meta"])]
    opens = opens.groupby([*RUN, "epoch"])["operations"].sum()
    assert (opens.groupby(["dataset"]).nunique() == 1).all()


def test_hit_rate_is_the_cache_rate(table):
    io_time = table("io_time")
    by_class = io_time.pivot_table(
        index=[*RUN, "epoch"], columns="io_class", values="operations", aggfunc="sum"
    )
    n_files = by_class["lfs_meta"] + by_class["gfs_meta"]
    hit_rate_percent = 100 * by_class["lfs_meta"] / n_files
    cache_rate_percent = by_class.index.get_level_values("cache_rate_percent")
    assert (abs(hit_rate_percent - cache_rate_percent) <= 50 / n_files).all()


def test_measured_rows_of_the_estimates_are_the_io_time(table):
    estimates = table("estimates")
    improvements = [f"{io_class}_improvement_percent" for io_class in IOClass]
    measured = estimates[(estimates[improvements] == 0).all(axis="columns")]
    keys = [*RUN, "epoch"]
    slowest = slowest_process(table("io_time")).set_index(keys)["io_time_s"]
    measured = measured.set_index(keys)["io_time_s"]
    assert np.allclose(measured, slowest.reindex(measured.index), rtol=1e-12)


class TestScaleModel:
    """The paper's findings on Fugaku in small (Sec. 5.3); nothing is fitted to them."""

    @pytest.fixture
    def second_epoch(self):
        """Return the breakdown of the second epoch of the default experiment."""
        path = RESULTS / "scale-model" / "tables" / "breakdown.parquet"
        if not path.exists():
            pytest.skip("the default experiment has not been run: make run")
        breakdown = read_table(path, "breakdown")
        return select_epoch(breakdown[breakdown["repetition"] == 0], 1)

    def scenario(self, breakdown, dataset, n_osts):
        """Return (seconds by cache rate and class, total, bottleneck)."""
        rows = breakdown[
            (breakdown["dataset"] == dataset) & (breakdown["n_osts"] == n_osts)
        ]
        times = rows.pivot(
            index="cache_rate_percent", columns="io_class", values="time_s"
        )
        classes = bottleneck(rows).set_index("cache_rate_percent")["io_class"]
        return times, times.sum(axis="columns"), classes

    def test_small_files_are_fastest_at_60_to_70_percent(self, second_epoch):
        _, total, _ = self.scenario(second_epoch, "small", 60)
        assert 60 <= total.idxmin() <= 70

    def test_small_files_wait_for_metadata_below_and_for_the_lfs_above(
        self, second_epoch
    ):
        _, _, bottlenecks = self.scenario(second_epoch, "small", 60)
        assert set(bottlenecks.loc[0:50]) == {"gfs_meta"}
        assert set(bottlenecks.loc[80:100]) == {"lfs_read"}

    def test_with_one_ost_small_files_wait_for_it(self, second_epoch):
        one, _, bottlenecks = self.scenario(second_epoch, "small", 1)
        sixty, _, _ = self.scenario(second_epoch, "small", 60)
        assert set(bottlenecks.loc[0:70]) == {"gfs_read"}
        assert one.loc[0, "gfs_meta"] < sixty.loc[0, "gfs_meta"]

    def test_large_files_do_not_gain_from_the_lfs(self, second_epoch):
        _, total, bottlenecks = self.scenario(second_epoch, "large", 60)
        assert total.idxmin() <= 10
        assert set(bottlenecks.loc[40:100]) == {"lfs_read"}
