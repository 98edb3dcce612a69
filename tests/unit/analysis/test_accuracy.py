import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tierscope.analysis.accuracy import compare, judge, margin_of_power, power
from tierscope.core.tables import TableError, check_table
from tierscope.figures.accuracy import plot_accuracy, summary_text, training_words

# Final accuracy in percent of five repetitions; differences of local: 0, +-0.1, +-0.2.
FINAL = {
    "global": [70.0, 71.0, 72.0, 73.0, 74.0],
    "local": [70.0, 71.2, 71.8, 73.1, 73.9],
    "biased": [50.0, 52.0, 51.0, 53.0, 55.0],
}
STUDY = {
    "n_train_files": 64,
    "n_test_files": 100,
    "n_classes": 10,
    "n_processes": 8,
    "batch_size": 4,
    "epochs": 2,
}


WORSE = "worse, not equivalent"


@pytest.fixture
def accuracy():
    """Return the table of two networks with the same accuracy: 40 %, then `FINAL`."""
    rows = [
        {
            "source": "trained",
            "network": network,
            "shuffle": shuffle,
            "n_ranks": 8,
            "n_classes": 10,
            "repetition": repetition,
            "epoch": epoch,
            "accuracy_percent": percent if epoch else 40.0,
        }
        for network in ("plain", "batch-norm")
        for shuffle, final in FINAL.items()
        for repetition, percent in enumerate(final)
        for epoch in (0, 1)
    ]
    return check_table(pd.DataFrame(rows), "accuracy")


@pytest.fixture
def tests(accuracy):
    """Return what is judged of them."""
    return compare(accuracy, margin_points=1, best_possible_percent=80)


def test_pairs_of_the_last_epoch_are_compared(tests):
    checked = check_table(tests, "accuracy_tests")
    assert checked["network"].tolist() == ["plain", "plain", "batch-norm", "batch-norm"]
    local, biased = checked.iloc[:2].to_dict("records")
    assert local["global_accuracy_percent"] == biased["global_accuracy_percent"] == 72
    assert local["difference_points"] == pytest.approx(0, abs=1e-12)
    assert biased["difference_points"] == pytest.approx(-19.8)
    assert (local["chance_percent"], local["best_possible_percent"]) == (10, 80)


def test_equal_arms_are_equivalent_and_others_differ(tests):
    local, biased = tests.iloc[:2].to_dict("records")
    assert (local["equivalent"], local["different"]) == (True, False)
    assert (biased["equivalent"], biased["different"]) == (False, True)


def test_interval_and_margin_of_numbers_from_a_t_table():
    """t of 4 degrees of freedom is 2.132 at 95 %, 2.776 at 97.5 %; sd^2 is 0.1 / 4."""
    result = judge(np.array([0, 0.2, -0.2, 0.1, -0.1]), 1)
    error = np.sqrt(0.1 / 4 / 5)
    assert result["high_90_points"] == pytest.approx(2.132 * error, rel=1e-3)
    assert result["low_95_points"] == pytest.approx(-2.776 * error, rel=1e-3)
    assert result["shown_margin_points"] == pytest.approx(0.1508, abs=1e-4)
    assert result["difference_p"] == pytest.approx(1)


def test_a_small_sure_difference_is_equivalent_and_yet_not_zero():
    result = judge(np.array([0.3, 0.31, 0.32, 0.3, 0.29]), 1)
    assert (result["equivalent"], result["different"]) == (True, True)


def test_wide_spread_shows_neither_difference_nor_equivalence():
    result = judge(np.array([-3.0, 3.0, -2.0, 2.5, 0.1]), 1)
    assert (result["equivalent"], result["different"]) == (False, False)


@given(
    differences=st.lists(st.integers(-300, 300), min_size=5, max_size=12).filter(
        lambda values: len(set(values)) > 1
    ),
    margin=st.integers(1, 300),
)
def test_arms_are_equivalent_exactly_if_the_interval_lies_inside_the_margin(
    differences, margin
):
    result = judge(np.array(differences) / 100, margin / 100)
    shown = result["shown_margin_points"]
    if abs(shown - margin / 100) > 1e-9:
        assert result["equivalent"] == (shown < margin / 100)
    assert result["low_95_points"] < result["low_90_points"]
    assert result["difference_p"] < 0.05 or result["low_95_points"] <= 0


@pytest.mark.parametrize(("n_pairs", "margin_sds"), [(5, 1.2), (10, 0.9), (10, 2)])
def test_power_is_how_often_equal_arms_are_shown_to_be_equivalent(n_pairs, margin_sds):
    drawn = np.random.default_rng(1).normal(size=(40_000, n_pairs))
    t_95 = {5: 2.131847, 10: 1.833113}[n_pairs]
    half = t_95 * drawn.std(axis=1, ddof=1) / np.sqrt(n_pairs)
    shown = (abs(drawn.mean(axis=1)) + half < margin_sds).mean()
    assert power(n_pairs, margin_sds) == pytest.approx(shown, abs=0.01)


def test_more_pairs_show_smaller_margins_with_the_same_power():
    five, ten = margin_of_power(5), margin_of_power(10)
    assert ten < five
    assert power(10, ten) == pytest.approx(0.8, abs=1e-6)
    assert power(5, 100) == pytest.approx(1, abs=1e-6)


def test_a_training_without_a_twin_is_refused(accuracy):
    is_missing = (accuracy["shuffle"] == "local") & (accuracy["repetition"] == 3)
    with pytest.raises(
        ValueError, match="network plain: got trainings without a counterpart"
    ):
        compare(accuracy[~is_missing], margin_points=1, best_possible_percent=80)


def test_differences_without_spread_are_refused():
    with pytest.raises(ValueError, match=r"got 5 differences of 0\.0 points"):
        judge(np.zeros(5), 1)


def test_tables_know_their_words(accuracy):
    with pytest.raises(TableError, match="sorted-by-size"):
        check_table(accuracy.assign(shuffle="sorted-by-size"), "accuracy")


def test_figure_shows_each_network_and_says_what_was_found(accuracy, tests):
    words = training_words(STUDY)
    figure = plot_accuracy(accuracy, tests, training=words)
    assert len(figure.axes) == 4
    assert figure.axes[0].get_title() == "without batch normalisation"
    texts = [text.get_text() for text in figure.axes[2].texts]
    assert texts[0].endswith("equivalent within \N{PLUS-MINUS SIGN}1 point")
    assert texts[1].endswith(WORSE)
    notes = figure.get_supxlabel()
    assert "Real trainings with TensorFlow on generated data" in notes
    assert "8 processes with batches of 4" in " ".join(notes.split())
    assert "One process computes the gradients of all" in " ".join(notes.split())
    lines = figure.axes[0].get_lines()
    assert len(lines) == 3 * (5 + 1) + 1  # trainings, mean; best possible


def test_the_figure_shows_its_worst_differences_and_the_whole_margin(accuracy, tests):
    figure = plot_accuracy(accuracy, tests, training="")
    low, high = figure.axes[2].get_xlim()
    assert low < -21
    assert high > 1


def test_summary_tells_the_power_unless_accuracy_is_another_one(tests):
    parts = summary_text(tests, training="").split("  Fixed partition, ")[1:]
    told = "80 % power, and one of 1 point with 100 %."
    assert [told in part for part in parts] == [True, False, True, False]
    assert ["power" in part for part in parts] == [True, False, True, False]


def test_summary_names_every_test(tests):
    text = summary_text(tests, training=training_words(STUDY))
    equivalent, worse = (
        text.count(f"It is {words} (two one-sided tests: p = ")
        for words in ("equivalent within \N{PLUS-MINUS SIGN}1 point", WORSE)
    )
    assert (equivalent, worse) == (2, 2)
    assert "Without batch normalisation: global shuffle reaches 72.00 %." in text
    assert "72.00 %, +0.00 points from global shuffle (90 % CI -0.15 to +0.15" in text
    assert "-19.80 points from global shuffle" in text
    assert "chance is 10 %, the best classifier reaches 80.0 %" in text
