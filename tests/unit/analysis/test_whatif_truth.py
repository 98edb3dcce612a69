from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tierscope.analysis.breakdown import (
    break_down,
    slowest_process,
    spread_over_repetitions,
)
from tierscope.analysis.whatif_truth import compare, pair_runs, summarise
from tierscope.core.io_class import IOClass
from tierscope.core.provenance import Origin
from tierscope.core.scenario import Point
from tierscope.core.tables import check_table
from tierscope.core.validation import read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.figures.whatif_truth import plot_whatif_truth, summary_text
from tierscope.model.simulator.run import simulate_reads, tables_of

ROOT = Path(__file__).parents[3]
SMALL = Origin("emulated, system small")
RUN = {
    "source": "emulated",
    "system": "small",
    "dataset": "tiny",
    "n_osts": 1,
    "policy": "pinning",
    "loader": "posix",
    "cache_rate_percent": 50,
    "repetition": 0,
}
FASTER = {"small": {}, "small+gfs_meta100": {"gfs_meta": 100}}
HOW = {"model": "simulation", "calibration": "as written"}


def io_time_of(times_s, **keys):
    """Return an I/O time table; times_s holds four seconds for each rank."""
    rows = [
        {"rank": rank, "io_class": str(io_class), "time_s": float(time_s)}
        for rank, process_s in enumerate(times_s)
        for io_class, time_s in zip(IOClass, process_s, strict=True)
    ]
    keys = RUN | {"epoch": 0, "operations": 1, "bytes": 0} | keys
    return check_table(pd.DataFrame(rows).assign(**keys), "io_time")


@pytest.fixture
def io_time():
    """Return two repetitions: 10 s become 6 and 8 s at 50 %, 8 s become 8 s at 60 %.

    By the rule, GFS-META +100 % leaves 7 s at 50 % (rank 1, which was not the slowest)
    and 6 s at 60 %.
    """
    runs = []
    for repetition in (0, 1):
        runs += [
            io_time_of([[1, 8, 1, 0], [0, 2, 6, 0]], repetition=repetition),
            io_time_of(
                [[1, 4, 1 + 2 * repetition, 0], [0, 0, 0, 1]],
                repetition=repetition,
                system="small+gfs_meta100",
            ),
            *(
                io_time_of(
                    [[0, 4, 4, 0]],
                    repetition=repetition,
                    cache_rate_percent=60,
                    system=system,
                )
                for system in FASTER
            ),
        ]
    return pd.concat(runs, ignore_index=True)


@pytest.fixture
def predictions(io_time):
    """Return a model that halves the I/O time at 50 % and keeps it at 60 %."""
    predictions = break_down(io_time)
    predictions = predictions[predictions["system"] == "small"].assign(time_s=5.0)
    halved = predictions["cache_rate_percent"] == 50
    faster = predictions.assign(system="small+gfs_meta100")
    faster["time_s"] = faster["time_s"].where(~halved, 2.5)
    columns = ["system", "cache_rate_percent", "repetition", "epoch", "io_class"]
    return pd.concat([predictions, faster])[[*columns, "time_s"]]


@pytest.fixture
def table(io_time, predictions):
    return compare(io_time, FASTER, predictions, **HOW)


def test_cuts_are_those_of_the_slowest_process_by_rule_by_model_and_measured(table):
    assert check_table(table, "whatif_truth").equals(table)
    assert table["system"].unique().tolist() == ["small"]
    assert table["cache_rate_percent"].tolist() == [50, 60]
    assert table["gfs_meta_improvement_percent"].tolist() == [100, 100]
    assert table["n_repetitions"].tolist() == [2, 2]
    assert table["base_io_time_s"].tolist() == [10, 8]
    assert table["improved_io_time_s"].tolist() == [7, 8]
    assert table["measured_cut_percent"].tolist() == pytest.approx([30, 0])
    assert table["rule_cut_percent"].tolist() == pytest.approx([30, 25])
    assert table["model_cut_percent"].tolist() == pytest.approx([50, 0])
    assert table["rule_error_points"].tolist() == pytest.approx([0, 25])
    assert table["model_error_points"].tolist() == pytest.approx([20, 0])


def test_intervals_are_those_of_pairs_of_runs(table):
    """Cuts of 40 and 20 %: a standard error of 10, times t of one degree of freedom."""
    half = 12.7062 * 10
    low = table["measured_cut_low_percent"].tolist()
    assert low == pytest.approx([30 - half, 0])
    high = table["rule_error_high_points"].tolist()
    assert high == pytest.approx([half, 25])


def test_epochs_of_a_repetition_are_no_repetitions(io_time, predictions):
    """Twice the same epoch leaves n and intervals as they are."""
    tables = [frame.assign(epoch=epoch) for frame in (io_time,) for epoch in (0, 1)]
    foreseen = [predictions.assign(epoch=epoch) for epoch in (0, 1)]
    twice = compare(pd.concat(tables), FASTER, pd.concat(foreseen), **HOW)
    pd.testing.assert_frame_equal(twice, compare(io_time, FASTER, predictions, **HOW))


def test_rates_that_cannot_be_told_from_the_best_are_named(table):
    """At 60 % always 8 s; at 50 % 10 s before, 6 and 8 s after the improvement."""
    assert table["base_among_best"].tolist() == [False, True]
    assert table["measured_among_best"].tolist() == [True, True]
    summary = summarise(table).iloc[0]
    assert summary["base_best_set_percent"] == "60"
    assert summary["measured_best_set_percent"] == "50 and 60"


def test_models_time_is_the_measured_one_times_its_own_ratio(table):
    assert table["model_io_time_s"].tolist() == pytest.approx([5, 8])


def test_improvements_come_in_the_order_in_which_they_are_given(io_time, predictions):
    other = "small+lfs_read50"
    more = io_time[io_time["system"] != "small"].assign(system=other)
    foreseen = predictions[predictions["system"] != "small"].assign(system=other)
    table = compare(
        pd.concat([io_time, more]),
        {other: {"lfs_read": 50}, **FASTER},
        pd.concat([predictions, foreseen]),
        **HOW,
    )
    assert table["lfs_read_improvement_percent"].tolist() == [50, 50, 0, 0]
    assert len(summarise(table)) == 2


def test_summary_has_mean_and_largest_errors_and_the_best_points(table):
    summary = summarise(table)
    assert check_table(summary, "whatif_truth_summary").equals(summary)
    row = summary.iloc[0]
    assert row["rule_mean_error_points"] == pytest.approx(12.5)
    assert row["rule_largest_error_points"] == pytest.approx(25)
    assert row["rule_largest_error_cache_rate_percent"] == 60
    assert row["model_mean_error_points"] == pytest.approx(10)
    assert row["model_largest_error_cache_rate_percent"] == 50
    assert row["base_best_cache_rate_percent"] == 60
    assert row["measured_best_cache_rate_percent"] == 50
    assert row["rule_best_cache_rate_percent"] == 60
    assert row["measured_best_cut_percent"] == pytest.approx(12.5)
    assert row["rule_best_cut_percent"] == pytest.approx(25)
    assert row["model_best_cut_percent"] == pytest.approx(37.5)
    assert row["n_points"] == 2
    assert row["n_repetitions"] == 2


def test_summary_has_the_median_width_beside_the_errors(table):
    row = summarise(table).iloc[0]
    assert row["cut_half_width_points"] == pytest.approx(12.7062 * 10 / 2)


def test_a_run_without_its_twin_is_named(io_time, predictions):
    alone = (io_time["repetition"] == 1) & (io_time["cache_rate_percent"] == 60)
    alone &= io_time["system"] == "small+gfs_meta100"
    with pytest.raises(
        ValueError, match="got cache rate 60 %, repetition 1, epoch 0 on"
    ):
        pair_runs(io_time[~alone], FASTER, predictions)


def test_a_run_without_prediction_is_named(io_time, predictions):
    kept = predictions["cache_rate_percent"] == 50
    message = "no prediction for system small, cache rate 60 %, repetition 0"
    with pytest.raises(ValueError, match=message):
        pair_runs(io_time, FASTER, predictions[kept])


def test_one_repetition_has_no_interval(io_time, predictions):
    once = io_time[io_time["repetition"] == 0]
    table = check_table(compare(once, FASTER, predictions, **HOW), "whatif_truth")
    assert table["measured_cut_low_percent"].isna().all()
    assert table["model_error_high_points"].isna().all()
    summary = check_table(summarise(table), "whatif_truth_summary")
    text = summary_text(table, summary)
    assert text.endswith("one repetition, no interval\n")
    assert "within 3 points at 0 of 2 cache rates, undecided at 2" in text


def test_something_must_be_as_it_is(io_time, predictions):
    faster = {"small+gfs_meta100": {"gfs_meta": 100}}
    with pytest.raises(ValueError, match="got 0 systems without improvement"):
        compare(io_time, faster, predictions, **HOW)


@pytest.fixture(scope="module")
def truth():
    """Return table `whatif_truth` of the default experiment, simulated and foreseen so.

    Rows by improved classes and cache rate.
    """
    config = read_yaml(ROOT / "config" / "config.yaml")
    experiment = read_experiment(config, ROOT / "resources")
    points = [Point(rate, 0) for rate in (50, 65, 80)]
    io_time, improvements = [], {}
    for scenario in experiment.studies["whatif-truth"]:
        description = experiment.description(scenario)
        improvements[description.system.name] = dict(scenario.improvements)
        for point in points:
            reads = simulate_reads(description, point)
            io_time.append(tables_of(description, point, reads)[0])
    io_time = pd.concat(io_time, ignore_index=True)
    table = compare(io_time, improvements, break_down(io_time), **HOW)
    classes = ["+".join(one) for one in improvements.values() if one]
    table["classes"] = np.repeat(classes, len(points))
    return table.set_index(["classes", "cache_rate_percent"])


class TestSimulatedScaleModel:
    """Truth, rule and model where all can be computed: the default experiment."""

    def test_a_model_that_made_the_runs_does_not_err(self, truth):
        assert truth["model_error_points"].abs().max() < 1e-9
        assert truth["model_error_low_points"].isna().all()  # one repetition

    def test_at_the_knee_the_rule_promises_too_much_of_one_class(self, truth):
        assert truth.loc[("gfs_meta", 65), "rule_error_points"] > 2
        assert truth.loc[("lfs_read", 65), "rule_error_points"] > 2

    def test_beyond_the_knee_the_other_class_brings_next_to_nothing(self, truth):
        assert abs(truth.loc[("gfs_meta", 80), "measured_cut_percent"]) < 2
        assert truth.loc[("gfs_meta", 80), "rule_cut_percent"] > 3
        assert abs(truth.loc[("lfs_read", 50), "measured_cut_percent"]) < 2
        assert truth.loc[("lfs_read", 50), "rule_cut_percent"] > 3

    def test_where_a_class_sets_the_pace_the_rule_promises_too_little(self, truth):
        """All I/O time follows the bottleneck: nearly a third less for +50 %."""
        for point in [("gfs_meta", 50), ("lfs_read", 80)]:
            assert 28 < truth.loc[point, "measured_cut_percent"] < 34
            assert truth.loc[point, "rule_error_points"] < -3

    def test_of_both_classes_together_the_rule_promises_too_little(self, truth):
        both = truth.loc["gfs_meta+lfs_read"]
        assert (both["rule_error_points"] < -2).all()


@pytest.fixture
def drawing(io_time, table):
    """Return table, summary and spread, as `plot_whatif_truth` takes them."""
    times = slowest_process(io_time).rename(columns={"io_time_s": "time_s"})
    spread = spread_over_repetitions(times.assign(quantity="I/O time"), 10)
    return table, summarise(table), spread


def words_of(figure):
    """Return all words of a figure."""
    figure.draw_without_rendering()
    texts = [figure._suptitle, figure._supxlabel, *figure.legends[0].texts]
    return " ".join(" ".join(text.get_text() for text in texts).split())


def test_panel_names_the_rules_largest_error_with_both_cuts(drawing):
    figure = plot_whatif_truth(*drawing, provenance=SMALL)
    title = figure.axes[0].get_title().split("\n")
    assert title == [
        "GFS-META +100 %",
        "the rule promises 25 %, 0 % was found at 60 %",
        "the model errs by 20.0 points at most",
        "best at 60 % \N{RIGHTWARDS ARROW} 50 and 60 % (rule 60 %, model 50 %)",
    ]


def test_figure_says_where_its_numbers_come_from(drawing):
    words = words_of(plot_whatif_truth(*drawing, provenance=SMALL))
    assert "(emulated)" in words
    assert "Source: emulated, system small; 2 repetitions" in words
    assert "Model: simulation, parameters as written." in words
    assert "measured, with 95 % confidence interval" in words
    assert "small+gfs_meta100" in words  # its repetitions of 6 and 8 s are flagged


def test_simulated_truth_is_not_called_measured(drawing):
    simulated = [frame.assign(source="simulated") for frame in drawing]
    figure = plot_whatif_truth(*simulated, provenance=Origin("simulated, system small"))
    words = words_of(figure)
    assert "easured" not in words
    assert "The same model made the runs, so it cannot err." in words
    assert "measured" not in summary_text(*simulated[:2])


def test_lines_are_the_three_cuts_and_the_bars_intervals(drawing):
    axes = plot_whatif_truth(*drawing, provenance=Origin("emulated")).axes[0]
    container = axes.containers[0]
    assert container[0].get_ydata().tolist() == pytest.approx([30, 0])
    bars = container[2][0].get_segments()[0]
    half = 12.7062 * 10
    assert bars[:, 1].tolist() == pytest.approx([30 - half, 30 + half])
    lines = {line.get_label().split()[-1]: line for line in axes.lines}
    assert lines["rule"].get_ydata().tolist() == pytest.approx([30, 25])
    assert 50 < axes.get_ylim()[1] < 70  # the model's 50 %, not the interval


def test_text_says_what_table_and_summary_say(drawing):
    text = summary_text(*drawing[:2])
    assert "GFS-META +100 %: cut of the slowest process's I/O time in percent" in text
    assert "60 %     8.000     8.000     0.0 +- 0.0     25.0 (+25.0)" in text
    assert "rule: mean error 12.5 points, largest +25.0 at 60 %" in text
    assert "50 %    10.000     7.000    30.0 +-127.1     30.0 ( +0.0)?" in text
    assert "model within 3 points at 1 of 2 cache rates, undecided at 1" in text
    assert (
        "+-: 95 % confidence interval of the mean over the repetitions, n = 2" in text
    )
