"""Lack of fit of made-up residuals whose pure error and structure are known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f as f_distribution
from tierscope.model.calibration.lack_of_fit import (
    Disagreement,
    LackOfFit,
    discrepancy,
    hint_of,
    lack_of_fit,
    visible,
)
from tierscope.model.calibration.replicates import (
    EPOCHS,
    LABELS,
    NOTHING,
    PROBE,
    REPETITIONS,
    SLOWEST,
    Block,
    observations_of,
)

NOISE = 1e-6  # so small that it does not matter
RATES = (0, 65, 100)
CLASSES = ("gfs_read", "gfs_meta", SLOWEST)


def labels_of(rates=RATES, repetitions=3, epochs=2, what=CLASSES):
    rows = [
        (rate, repetition, epoch, name, 4, "" if name == SLOWEST else name)
        for rate in rates
        for repetition in range(repetitions)
        for epoch in range(epochs)
        for name in what
    ]
    return pd.DataFrame(rows, columns=LABELS)


def observed(labels, terms, jacobian=None, noise=NOISE):
    terms = np.asarray(terms, dtype=float)
    jacobian = np.zeros((len(terms), 0)) if jacobian is None else jacobian
    own = np.where(labels["what"] == SLOWEST, 1.0, 0.5)
    return observations_of(labels, terms, jacobian, own, noise)


def of_runs(labels, generator, deviation, common=0.0):
    """Return terms that differ between runs, together by `common`; epochs share all."""
    runs = labels.groupby(["rate_percent", "repetition"]).ngroup().to_numpy()
    names = labels.groupby(["rate_percent", "repetition", "what"]).ngroup().to_numpy()
    own = deviation * generator.standard_normal(names.max() + 1)[names]
    return own + common * generator.standard_normal(runs.max() + 1)[runs]


def test_epochs_of_a_run_are_averaged_and_repetitions_are_the_replicates():
    labels = labels_of((0,), 2, 2, ("gfs_read",))
    found = observed(labels, [1.0, 3.0, 5.0, 7.0])  # means of runs: 2 and 6
    assert found.of == REPETITIONS
    assert found.terms == pytest.approx([4])
    assert found.counts.tolist() == [4]
    assert found.covariance[0, 0] == pytest.approx(8 / 2)
    assert found.blocks[0].degrees == 1


def test_epochs_are_the_replicates_of_one_repetition():
    labels = labels_of((0,), 1, 2, ("gfs_read",))
    found = observed(labels, [1.0, 3.0])
    assert found.of == EPOCHS
    assert found.covariance[0, 0] == pytest.approx(2 / 2)
    assert observed(labels_of((0,), 1, 1), np.zeros(3)).of == NOTHING


def test_no_time_is_more_exact_than_the_noise():
    labels = labels_of((0,), 2, 1)
    exact = observed(labels, np.zeros(6), noise=0.01)
    expected = (
        np.array([0.005, 0.005, 0.01]) ** 2 / 2
    )  # half of the I/O time, all of it
    assert np.diag(exact.covariance) == pytest.approx(expected)


def test_a_single_group_is_the_f_test_of_a_mean():
    """Without parameters F = n mean^2 / s^2, with 1 and n - 1 degrees of freedom."""
    labels = labels_of((0,), 4, 1, ("gfs_read",))
    values = np.array([0.5, 1.0, 1.5, 2.0])
    expected = 4 * values.mean() ** 2 / values.var(ddof=1)
    found = lack_of_fit(observed(labels, values))
    assert found.p_value == pytest.approx(f_distribution.sf(expected, 1, 3), rel=1e-4)


def test_parameters_take_up_what_they_can_explain():
    labels = labels_of((0, 65), 2, 1, ("gfs_read",))
    jacobian = np.ones((4, 1))
    seen = visible(observed(labels, np.zeros(4), jacobian))
    assert seen == pytest.approx(np.array([[0.5, -0.5], [-0.5, 0.5]]))
    found = lack_of_fit(observed(labels, [1.0, 1.1, 1.0, 1.1], jacobian))
    assert found.p_value < 0.05  # these are the terms after the fit: not explained


def drawn(form, runs):
    """Return observations with the runs' terms: shape (rate, repetition, class)."""
    n = runs.shape[1]
    blocks = [
        Block(3 * rate + np.arange(3), np.cov(part, rowvar=False) / n, n - 1.0)
        for rate, part in enumerate(runs)
    ]
    return replace(form, terms=runs.mean(axis=1).ravel(), blocks=tuple(blocks))


@pytest.mark.parametrize(("deviation", "common"), [(0.03, 0.0), (0.01, 0.03)])
def test_false_alarms_are_as_rare_as_the_level_says(deviation, common):
    """400 fits of two parameters to 9 observations, three of each run."""
    generator = np.random.default_rng(3)
    labels = labels_of(RATES, 3, 1)
    numbers = labels.groupby(["rate_percent", "what"], sort=False).ngroup().to_numpy()
    directions = generator.standard_normal((9, 2))
    form = observed(labels, np.zeros(27), directions[numbers])
    left, alarms = visible(form), 0
    for _ in range(400):
        runs = deviation * generator.standard_normal((3, 3, 3))
        runs += common * generator.standard_normal((3, 3, 1))
        found = drawn(form, runs)
        alarms += lack_of_fit(replace(found, terms=left @ found.terms)).is_reported
    assert 2 <= alarms <= 32  # 20 are expected at 5 %; few replicates are cautious


def test_a_wrong_structure_is_reported_and_its_size_known():
    labels, generator = labels_of(), np.random.default_rng(4)
    wrong = np.where(labels["rate_percent"] == 65, 0.2, 0.0)
    terms = of_runs(labels, generator, 0.02) + wrong * (labels["what"] == "gfs_read")
    found = lack_of_fit(observed(labels, terms))
    assert found.is_reported
    assert found.lack_of_fit_percent == pytest.approx(100 * 0.2 / 3, rel=0.2)
    first = found.disagreements[0]
    assert (first.what, first.rate_percent) == ("gfs_read", 65)
    assert first.ratio == pytest.approx(1 / 1.4, rel=0.1)  # 0.2 of a part of 0.5
    deviation, degrees = discrepancy(observed(labels, terms))
    # Of 9 observations, 6 are of classes that take half of the time.
    assert deviation == pytest.approx(0.2 / np.sqrt(6 * 0.5 + 3), rel=0.1)
    assert degrees == pytest.approx((6 * 0.5 + 3) ** 2 / (6 * 0.5**2 + 3))


def test_the_slowest_process_is_named_where_no_class_says_the_same():
    labels, generator = labels_of(), np.random.default_rng(5)
    at = {rate: labels["rate_percent"] == rate for rate in RATES}
    is_slowest = labels["what"] == SLOWEST
    wrong = 0.2 * at[0] + 0.2 * (at[65] & is_slowest)  # all, the slowest only
    terms = of_runs(labels, generator, 0.01) + wrong
    named = lack_of_fit(observed(labels, terms)).disagreements
    assert {(one.what, one.rate_percent) for one in named} == {
        ("gfs_read", 0),
        ("gfs_meta", 0),
        (SLOWEST, 65),
    }


def test_discrepancy_is_none_where_pure_error_explains_all():
    labels = labels_of((0,), 2, 1)
    assert discrepancy(observed(labels, [1, -1, 1, -1, 1, -1]))[0] == 0


def test_nothing_is_tested_without_replicates_or_without_freedom():
    alone = lack_of_fit(observed(labels_of(RATES, 1, 1), np.ones(9)))
    assert np.isnan(alone.p_value)
    assert not alone.is_reported
    assert "nothing was repeated" in alone.sentence()
    labels = labels_of((0,), 2, 1, ("gfs_read",))
    exact = lack_of_fit(observed(labels, [0.1, -0.1], np.ones((2, 1))))
    assert "as many parameters as observations" in exact.sentence()


def reads(ratio, rate, what="gfs_read"):
    return Disagreement(what, what if what != SLOWEST else "", rate, 4, ratio)


ALONE = "gfs_file_read_latency"


def probe(ratio, name="gfs_read_rate"):
    return Disagreement(name, "gfs_read", PROBE, 4, ratio)


def test_sentence_names_direction_size_and_cause():
    named = (reads(1 / 1.34, 67), reads(1.2, 0))
    found = LackOfFit(0.001, 2.0, 12.0, named, REPETITIONS)
    assert found.sentence() == (
        "The structure of the model does not describe this storage: reads from the GFS "
        "are 34 % faster than modelled at cache rate 67 %, reads from the GFS are 20 % "
        "slower than modelled at cache rate 0 %; reads from the GFS are faster when "
        "there are few of them: a cache, or a rate limit whose credit is not used up? "
        "Lack of fit 12.0 %, pure error 2.0 % of the I/O time (p = 0.001)."
    )


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ((reads(0.8, 0), reads(1.2, 65)), ""),
        ((reads(1.2, 0), probe(0.7)), "faster in probes than in runs"),
        ((reads(0.8, 65), probe(1.3)), "slower in probes than in runs"),
        ((probe(0.7, ALONE), probe(1.3)), "faster when one process is alone"),
        ((probe(0.7, ALONE), reads(1.2, 0)), "lie unequally on the servers"),
        (
            (reads(0.8, 0, "lfs_read"), reads(1.2, 100, "lfs_read")),
            "when there are few",
        ),
        ((reads(0.8, 100, "lfs_read"), reads(1.2, 0, "lfs_read")), ""),
        ((reads(1.3, 0, SLOWEST),), "served unequally"),
        ((reads(0.7, 0, SLOWEST), reads(1.3, 0)), ""),
        ((), ""),
    ],
)
def test_hints_follow_from_the_direction_only(named, words):
    hint = hint_of(named)
    assert words in hint
    assert bool(words) == bool(hint)


def test_probes_and_the_slowest_process_are_named_as_such():
    assert (
        probe(2.0).words()
        == "probe gfs_read_rate on 4 OSTs is 100 % slower than modelled"
    )
    words = reads(0.5, 0, SLOWEST).words()
    assert (
        words == "the slowest process is 100 % faster than modelled at cache rate 0 %"
    )


def test_a_good_structure_is_said_in_a_sentence():
    said = LackOfFit(0.4, 1.5, 0.2, (), EPOCHS).sentence()
    assert said.startswith(
        "The structure of the model describes this storage as far as"
    )
    assert "pure error 1.5 %" in said
    assert "tested against the epochs of one repetition" in said


def test_large_differences_that_may_be_chance_confirm_nothing():
    said = LackOfFit(0.11, 9.0, 10.9, (), REPETITIONS).sentence()
    assert said.startswith("These data cannot tell whether the structure of the model")
    assert "leaves 10.9 % of the I/O time beyond the pure error of 9.0 %" in said
