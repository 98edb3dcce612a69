"""Truths about produced results: every experiment, and the paper's on the scale model.

They read `results/` (or TIERSCOPE_RESULTS), so they are skipped until an experiment has
been run.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from tierscope.analysis.breakdown import break_down, select_epoch, slowest_process
from tierscope.core.description import Run
from tierscope.core.io_class import IOClass
from tierscope.core.lmdb_loaders import LOADERS, VARIANTS
from tierscope.core.tables import read_table
from tierscope.data.lmdb.file import provenance_here
from tierscope.data.lmdb.pages import META_BYTES
from tierscope.model.simulator.runs import simulate_run
from tierscope.policies import FILES, PLACED, of_kind

PROJECT = Path(__file__).parents[2]
RESULTS = Path(os.environ.get("TIERSCOPE_RESULTS", PROJECT / "results"))
FINISHED = sorted(
    path.parents[1] for path in RESULTS.glob("*/tables/estimates.parquet")
)
PREDICTED = sorted(
    path.parents[1] for path in RESULTS.glob("*/predict/prediction_errors.parquet")
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


def test_runs_in_virtual_time_equal_the_simulator_to_the_nanosecond(experiment):
    n_compared = 0
    for path in sorted(experiment.glob("runs/*/cache-*/rep-*/run.json")):
        run = Run.read(path)
        scenario = run.scenario
        if run.source != "emulated" or scenario.reads_database:
            continue
        if scenario.policy in of_kind(PLACED) and scenario.loader != "posix":
            continue  # TensorFlow tells of a file after its batch
        keys = ["epoch", "rank", "io_class"]
        emulated = read_table(path.with_name("io_time.parquet"), "io_time")
        emulated = emulated.set_index(keys)
        simulated = simulate_run(run, run.point)["io_time"].set_index(keys)
        times_s = emulated["time_s"], simulated["time_s"].loc[emulated.index]
        ours, theirs = (np.rint(one * 1e9).tolist() for one in times_s)
        assert ours == theirs, path
        n_compared += 1
    if not n_compared:
        pytest.skip("no run of this experiment that the simulator equals")


def of_files(table):
    """Return the rows of loaders that read files; others open one for all samples."""
    return table[~table["loader"].isin(LOADERS)]


def test_every_epoch_reads_the_same_files_and_bytes(table):
    io_time = of_files(table("io_time"))
    sums = io_time.groupby([*RUN, "epoch"])["bytes"].sum()
    assert (sums.groupby(["dataset"]).nunique() == 1).all()
    opens = io_time[io_time["io_class"].isin(["gfs_meta", "lfs_meta", "net_read"])]
    opens = opens.groupby([*RUN, "epoch"])["operations"].sum()
    assert (opens.groupby(["dataset"]).nunique() == 1).all()


def test_every_epoch_of_a_database_reads_all_records(table):
    epochs = table("epochs")
    sums = epochs.groupby([*RUN, "epoch"])[["samples", "bytes", "lfs_files"]].sum()
    assert (sums["samples"].groupby("dataset").nunique() == 1).all()
    sums = sums[sums.index.isin(LOADERS, level="loader")]
    if sums.empty:
        pytest.skip("no loader of LMDB")
    held = sums.index.get_level_values("cache_rate_percent") * sums["samples"] / 100
    assert (abs(sums["lfs_files"] - held) <= 0.5).all()
    read = table("io_time").groupby([*RUN, "epoch"])["bytes"].sum()
    assert (read.reindex(sums.index) >= sums["bytes"]).all()


@pytest.mark.parametrize("loader", LOADERS)
def test_epoch_of_a_database_reads_no_more_than_records_and_walked_trees(table, loader):
    epochs, io_time = (
        one[one["loader"] == loader] for one in (table("epochs"), table("io_time"))
    )
    if epochs.empty:
        pytest.skip(f"no loader {loader}")
    keys = [*RUN, "epoch"]
    sums = epochs.groupby(keys)[["samples", "bytes"]].sum()
    is_open = io_time["io_class"].isin(["gfs_meta", "lfs_meta"])
    sums["opens"] = io_time[is_open].groupby(keys)["operations"].sum()
    sums["read"] = io_time.groupby(keys)["bytes"].sum()
    on = VARIANTS.get(loader, ())  # of lmdbio, whatever its switches
    for row in sums.to_dict("records"):
        value_bytes = row["bytes"] // row["samples"]
        provenance = provenance_here(row["samples"], value_bytes + 16, 1)
        assert provenance.value_bytes == value_bytes
        page_bytes = provenance.page_bytes
        walks = 0 if "prov" in on else 1 if "dm" in on else row["opens"]
        most = row["samples"] * (value_bytes + 2 * page_bytes)
        most += walks * len(provenance.layout.tree_pages) * page_bytes
        assert row["read"] <= most + 2 * META_BYTES * row["opens"]


@pytest.mark.parametrize("loader", LOADERS)
def test_every_reader_of_a_database_opens_it_once_on_a_tier(table, loader):
    epochs, io_time = (
        one[one["loader"] == loader] for one in (table("epochs"), table("io_time"))
    )
    if epochs.empty:
        pytest.skip(f"no loader {loader}")
    keys = [*RUN, "epoch"]
    opens = io_time[io_time["io_class"].isin(["gfs_meta", "lfs_meta"])]
    assert opens["operations"].max() == 1
    opened = opens.groupby([*keys, "rank"])["operations"].sum() > 0
    groups = ["node", "rank"]  # lmdbio: as its switches say
    if loader in VARIANTS:
        groups = groups[:1] if "lmm" in VARIANTS[loader] else groups[1:]
    expected = [
        (epochs.groupby([*keys, group])["samples"].sum() > 0).groupby(keys).sum()
        for group in groups
    ]
    assert any(opened.groupby(keys).sum().equals(busy) for busy in expected)


def test_hit_rate_of_static_policies_is_the_cache_rate(table):
    io_time = of_files(table("io_time"))
    io_time = io_time[io_time["policy"].isin(of_kind(FILES))]
    by_class = io_time.pivot_table(
        index=[*RUN, "epoch"], columns="io_class", values="operations", aggfunc="sum"
    )
    n_files = by_class["lfs_meta"] + by_class["gfs_meta"]
    hit_rate_percent = 100 * by_class["lfs_meta"] / n_files
    cache_rate_percent = by_class.index.get_level_values("cache_rate_percent")
    assert (abs(hit_rate_percent - cache_rate_percent) <= 50 / n_files).all()


def of_policy(table, name, policy):
    """Return a table's rows of a policy, or skip what an experiment does not run."""
    rows = table("io_time" if name == "io_time" else "epochs")
    if policy not in set(rows["policy"]):
        pytest.skip(f"no runs of {policy}")
    rows = table(name)
    return rows[rows["policy"] == policy]


def test_monarch_hits_what_its_nodes_have_seen_as_far_as_there_is_room(table):
    epochs = of_policy(table, "epochs", "monarch")
    n_nodes = epochs["node"].nunique()
    reads = epochs.groupby([*RUN, "epoch"])[["lfs_files", "samples"]].sum()
    room = reads.index.get_level_values("cache_rate_percent") / 100
    seen = 1 - (1 - 1 / n_nodes) ** reads.index.get_level_values("epoch")
    law = np.minimum(room, seen)
    reads["expected"] = law * reads["samples"]
    # Files are hits independently but for fixed sums, and a hit makes later ones of the
    # same file less likely: both make sums vary less than this.
    reads["variance"] = law * (1 - law) * reads["samples"]
    pooled = reads.groupby(RUN[:-1]).sum()  # over repetitions and epochs
    for sums in (reads, pooled):
        off = sums["lfs_files"] - sums["expected"]
        assert (abs(off) <= 4 * np.sqrt(sums["variance"]) + 1e-9).all()


@pytest.mark.parametrize("policy", of_kind(PLACED))
def test_nodes_hold_and_hit_no_more_than_fits(table, policy):
    epochs = of_policy(table, "epochs", policy)
    n_files = epochs.groupby([*RUN, "epoch"])["samples"].sum().groupby(RUN).first()
    background = table("background")
    background = background[background["policy"] == policy].sort_values("epoch")
    copies = background.groupby([*RUN, "node"])[["placed_files", "evicted_files"]]
    copies = copies.cumsum().set_axis(["placed", "evicted"], axis=1)
    background = background.assign(held=copies["placed"] - copies["evicted"])
    held = background.groupby([*RUN, "node"])["held"].max()
    # Nobody evicts within an epoch what is read again in it: each file is read once.
    hits = epochs.groupby([*RUN, "node", "epoch"])["lfs_files"].sum()
    for found in (held, hits.groupby([*RUN, "node"]).max()):
        room = found.index.get_level_values("cache_rate_percent") / 100
        room = room * n_files.reindex(found.index.droplevel("node")).to_numpy()
        assert len(found)
        assert (found <= room + 0.5).all()


def test_adhoc_stages_each_byte_once_and_reads_one_nth_of_it_at_home(experiment, table):
    epochs = of_policy(table, "epochs", "adhoc")
    n_nodes = epochs["node"].nunique()
    read = epochs.groupby([*RUN, "epoch"])[["bytes", "samples", "lfs_files"]].sum()
    rate = read.index.get_level_values("cache_rate_percent") / 100
    staged = table("stage_in").groupby(RUN)[["gfs_bytes", "lfs_bytes"]].sum()
    once = (read["bytes"] * rate).groupby(RUN).mean()
    assert np.allclose(staged["gfs_bytes"], once.reindex(staged.index), rtol=1e-3)
    runs = [
        json.loads(path.read_text()) for path in experiment.glob("runs/**/run.json")
    ]
    if any(run.get("policy", {}).get("mount") for run in runs):
        pytest.skip("a mount does not say who owns what")
    assert (staged["gfs_bytes"] == staged["lfs_bytes"]).all()
    n_staged = read["samples"] * rate
    error = np.sqrt(1 / n_nodes * (1 - 1 / n_nodes) / n_staged)
    assert (abs(read["lfs_files"] / n_staged - 1 / n_nodes) <= 4 * error).all()


@pytest.fixture(params=["estimates", "estimates_model"])
def estimates(request, experiment):
    """Return the table of estimates by the rule, and by the model if there is one."""
    path = experiment / "tables" / f"{request.param}.parquet"
    if not path.exists():
        pytest.skip("no estimates by the model")
    return read_table(path, "estimates")


def test_measured_rows_of_the_estimates_are_the_io_time(table, estimates):
    improvements = [f"{io_class}_improvement_percent" for io_class in IOClass]
    measured = estimates[(estimates[improvements] == 0).all(axis="columns")]
    keys = [*RUN, "epoch"]
    slowest = slowest_process(table("io_time")).set_index(keys)["io_time_s"]
    measured = measured.set_index(keys)["io_time_s"]
    assert len(measured)
    assert np.allclose(measured, slowest.reindex(measured.index), rtol=1e-12)


def test_classes_of_the_estimates_sum_to_their_io_time(estimates):
    classes_s = estimates[[f"{io_class}_s" for io_class in IOClass]].sum(axis=1)
    assert np.allclose(classes_s, estimates["io_time_s"], rtol=1e-12)


@pytest.fixture
def claims(experiment, table):
    """Return the experiment's table of claims."""
    if not (experiment / "scorecard.md").exists():
        pytest.skip("no scorecard: snakemake --profile local scorecard")
    return table("claims").set_index("claim")


def test_every_claim_has_a_verdict_or_a_reason(claims, table):
    assert claims.index.tolist() == [f"C{number}" for number in range(1, 25)]
    assert set(claims["source"]) == set(table("io_time")["source"])
    unmeasurable = claims["status"] == "not measurable here"
    assert (claims.loc[unmeasurable, "reason"] != "").all()
    assert (claims.loc[claims["status"] == "holds", "reason"] == "").all()
    assert claims.loc[claims["status"] == "holds", "value"].notna().all()
    assert (claims.loc[~unmeasurable, "measured"] != "").all()


def test_scorecard_tells_what_the_table_of_claims_tells(experiment, claims):
    for name in ("scorecard.md", "scorecard.html"):
        text = (experiment / name).read_text()
        n_holding = (claims["status"] == "holds").sum()
        n_missing = (claims["status"] == "not measurable here").sum()
        kind = "measurable claims" if n_missing else "claims"
        assert f"{n_holding} of {24 - n_missing} {kind} of the paper hold" in text
        assert (f"{n_missing} of 24 not measurable here" in text) == (n_missing > 0)
        assert claims["source"].iloc[0] in text
        failing = sum(claims["status"] == "does not hold")
        assert text.count("\N{MULTIPLICATION X} does not hold") == failing


def test_claim_about_the_hit_rate_follows_from_the_opened_files(claims, table):
    opens = table("io_time")
    is_pinned = (opens["policy"] == "pinning") & ~opens["loader"].isin(LOADERS)
    opens = opens[is_pinned & opens["io_class"].isin(["gfs_meta", "lfs_meta"])]
    total = opens.groupby([*RUN, "epoch"])["operations"].sum()
    hits = opens[opens["io_class"] == "lfs_meta"]
    hits = hits.groupby([*RUN, "epoch"])["operations"].sum()
    rates = total.index.get_level_values("cache_rate_percent")
    difference = abs(hits - total * rates / 100).max()
    assert claims.loc["C23", "value"] == pytest.approx(difference)
    assert (claims.loc["C23", "status"] == "holds") == (round(difference, 9) <= 0.5)


@pytest.fixture
def truth(experiment):
    """Return tables `whatif_truth` and its summary of the experiment."""
    folder = experiment / "whatif-truth"
    if not (folder / "whatif_truth_summary.parquet").exists():
        pytest.skip("no what-if truth study: snakemake --profile local whatif-truth")
    names = ("whatif_truth", "whatif_truth_summary")
    return [read_table(folder / f"{name}.parquet", name) for name in names]


def test_measured_cuts_follow_from_the_io_time_of_both_systems(experiment, truth):
    io_time = read_table(experiment / "whatif-truth" / "io_time.parquet", "io_time")
    mean_s = slowest_process(io_time).groupby(["system", "cache_rate_percent"])
    mean_s = mean_s["io_time_s"].mean()
    for row in truth[0].to_dict("records"):
        suffix = "".join(
            f"+{io_class}{percent}"
            for io_class in IOClass
            if (percent := row[f"{io_class}_improvement_percent"])
        )
        rate = row["cache_rate_percent"]
        assert row["base_io_time_s"] == pytest.approx(mean_s[row["system"], rate])
        improved_s = mean_s[row["system"] + suffix, rate]
        assert row["improved_io_time_s"] == pytest.approx(improved_s)


def test_cuts_of_the_model_are_within_3_points_where_noise_allows(truth):
    table, _ = truth
    low, high = (table[f"model_error_{end}_points"] for end in ("low", "high"))
    assert ((low <= 3) & (high >= -3)).all()


def test_summary_of_the_truth_names_the_largest_error_of_the_rule(truth):
    table, summary = truth
    by = [f"{io_class}_improvement_percent" for io_class in IOClass]
    largest = table["rule_error_points"].abs().groupby([table[key] for key in by]).max()
    named = summary.set_index(by)["rule_largest_error_points"].abs()
    assert np.allclose(named, largest.reindex(named.index))


@pytest.fixture(params=PREDICTED or [None], ids=lambda path: path.name if path else "-")
def predicted(request):
    """Return the tables of each prediction study: measured, predicted, errors."""
    if request.param is None:
        pytest.skip("no prediction study: snakemake --profile local predict")
    names = ("io_time", "predictions", "prediction_errors")
    return [read_table(request.param / "predict" / f"{n}.parquet", n) for n in names]


STUDY = ["dataset", "n_osts", "policy", "loader", "calibration", "model"]


def test_predictions_stand_beside_the_mean_of_what_was_measured(predicted):
    io_time, predictions, _ = predicted
    point = [*RUN[:-1], "io_class"]
    measured_s = break_down(io_time).groupby(point)["time_s"].mean()
    predictions = predictions.set_index(point)["measured_s"]
    assert np.allclose(predictions, measured_s.reindex(predictions.index), rtol=1e-12)


def test_errors_of_predictions_follow_from_them(predicted):
    _, predictions, errors = predicted
    times_s = (
        predictions[predictions["held_out"]]
        .groupby([*STUDY, "cache_rate_percent"])[["predicted_s", "measured_s"]]
        .sum()
    )
    relative = (times_s["predicted_s"] / times_s["measured_s"] - 1).abs()
    expected = 100 * relative.groupby(STUDY).mean()
    errors = errors.set_index(STUDY)["mape_percent"]
    assert np.allclose(errors, expected.reindex(errors.index))


class TestScaleModel:
    """The paper's findings on Fugaku in small (Sec. 5.3).

    Its devices were fitted to some of them, which `resources/paper/claims.yaml` lists.
    """

    @pytest.fixture
    def small_fast(self):
        """Return seconds by repetition, cache rate and rank (index) and class."""
        path = RESULTS / "scale-model" / "tables" / "io_time.parquet"
        if not path.exists():
            pytest.skip("the default experiment has not been run: make run")
        rows = select_epoch(read_table(path, "io_time"), 1)
        rows = rows[(rows["dataset"] == "small") & (rows["n_osts"] == 60)]
        keys = ["repetition", "cache_rate_percent", "rank"]
        return rows.pivot(index=keys, columns="io_class", values="time_s")

    @pytest.mark.parametrize(
        ("claim", "io_class", "unit"),
        [
            ("C1", None, "rate"),
            ("C15", "gfs_meta", "points"),
            ("C16", "gfs_meta", "percent"),
            ("C17", "lfs_read", "points"),
            ("C18", "lfs_read", "percent"),
        ],
    )
    def test_claims_about_the_best_point_follow_from_the_times(
        self, small_fast, claim, io_class, unit
    ):
        path = RESULTS / "scale-model" / "tables" / "claims.parquet"
        if not path.exists():
            pytest.skip("no scorecard: snakemake --profile local scorecard")
        claims = read_table(path, "claims").set_index("claim")

        def by_rate(times_s):
            slowest_s = times_s.sum(axis=1).groupby(level=[0, 1]).max()
            return slowest_s.groupby(level="cache_rate_percent").mean()

        before = by_rate(small_fast)
        improved = small_fast.copy()
        if io_class:
            improved[io_class] /= 1.5
        after = by_rate(improved)
        expected = {
            "rate": before.idxmin(),
            "points": after.idxmin() - before.idxmin(),
            "percent": 100 * (1 - after.min() / before.min()),
        }
        assert claims.loc[claim, "value"] == pytest.approx(expected[unit])

    @pytest.fixture
    def second_epoch(self):
        """Return the breakdown of the second epoch: means over the repetitions."""
        path = RESULTS / "scale-model" / "tables" / "breakdown.parquet"
        if not path.exists():
            pytest.skip("the default experiment has not been run: make run")
        return select_epoch(read_table(path, "breakdown"), 1)

    def scenario(self, breakdown, dataset, n_osts):
        """Return (seconds by cache rate and class, total, bottleneck)."""
        rows = breakdown[
            (breakdown["dataset"] == dataset) & (breakdown["n_osts"] == n_osts)
        ]
        times = rows.pivot_table(
            index="cache_rate_percent", columns="io_class", values="time_s"
        )
        return times, times.sum(axis="columns"), times.idxmax(axis="columns")

    def test_small_files_are_fastest_at_65_to_75_percent(self, second_epoch):
        _, total, _ = self.scenario(second_epoch, "small", 60)
        assert 65 <= total.idxmin() <= 75
        assert total.min() == pytest.approx(8.8, abs=0.3)

    def test_small_files_wait_for_metadata_below_and_for_the_lfs_above(
        self, second_epoch
    ):
        _, _, bottlenecks = self.scenario(second_epoch, "small", 60)
        assert set(bottlenecks.loc[0:60]) == {"gfs_meta"}
        assert set(bottlenecks.loc[75:100]) == {"lfs_read"}

    def test_with_one_ost_small_files_wait_for_it(self, second_epoch):
        one, _, bottlenecks = self.scenario(second_epoch, "small", 1)
        sixty, _, _ = self.scenario(second_epoch, "small", 60)
        assert set(bottlenecks.loc[0:70]) == {"gfs_read"}
        assert one.loc[0, "gfs_meta"] < sixty.loc[0, "gfs_meta"]

    def test_large_files_do_not_gain_from_the_lfs(self, second_epoch):
        _, total, bottlenecks = self.scenario(second_epoch, "large", 60)
        assert total.idxmin() <= 10
        assert set(bottlenecks.loc[40:100]) == {"lfs_read"}

    @pytest.fixture
    def prediction_errors(self):
        """Return the errors of predictions by calibration, scenario and model."""
        path = RESULTS / "scale-model" / "predict" / "prediction_errors.parquet"
        if not path.exists():
            pytest.skip("no prediction study: snakemake --profile local predict")
        errors = read_table(path, "prediction_errors")
        keys = ["calibration", "dataset", "n_osts", "model"]
        return errors.set_index(keys).sort_index()

    # Without large files on 60 OSTs from all-osts: small files hardly fill the link, so
    # its bandwidth takes a quiet machine to find.
    @pytest.mark.parametrize(
        ("calibration", "dataset", "n_osts"),
        [
            ("all-osts", "small", 60),
            ("all-osts", "small", 1),
            ("all-osts", "large", 1),
            ("one-ost", "small", 60),
            ("one-ost", "large", 60),
        ],
    )
    def test_calibrated_simulation_predicts_what_it_has_not_seen(
        self, prediction_errors, calibration, dataset, n_osts
    ):
        errors = prediction_errors.loc[calibration, dataset, n_osts, "simulation"]
        assert errors["error_goal_met"]
        assert errors["dominant_goal_met"]
        assert errors["best_within_one_step"]

    def test_scaling_from_one_ost_does_not_fit(self, prediction_errors):
        errors = prediction_errors.loc["one-ost", "small", 60]
        mape_percent = errors["mape_percent"]
        assert mape_percent["scaling"] > 2 * mape_percent["simulation"]
        assert not errors.loc["scaling", "error_goal_met"]


def test_every_miss_of_the_simulated_fugaku_is_explained(experiment, claims):
    if experiment.name != "fugaku-simulated":
        pytest.skip("another experiment")
    assert (claims["status"] != "not measurable here").sum() >= 20
    assert (claims.loc[claims["status"] == "does not hold", "reason"] != "").all()
