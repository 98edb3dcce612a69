"""What limits a training, and what may be recommended, on hand-made tables."""

import math

import pandas as pd
import pytest
from descriptions import SCENARIO
from tierscope.analysis.training.limit import (
    advice_on,
    besides_storage,
    decide,
    decide_limits,
    is_plain,
    limit_notes,
    limited_words,
    limits_method,
    limits_of,
    point_words,
)
from tierscope.core.columns import CLASSES, TOGETHER
from tierscope.core.tables import check_table, empty_table, with_later_columns
from tierscope.core.words import scenario_titles


def breakdown(*rates):
    """Return a breakdown with most time in GFS-META, at the rate 100 in LFS-READ."""
    rows = [
        SCENARIO
        | {"cache_rate_percent": rate, "repetition": 0, "epoch": 1, "slowest_rank": 0}
        | {"io_class": name, "time_s": one, "share": 0.25}
        for rate in rates
        for name, one in zip(CLASSES, (0, 4, 9 * (rate == 100), 1), strict=True)
    ]
    return pd.DataFrame(rows)


def storage(points, **changes):
    """Return epochs of 10 s; `points` are storage's part and its interval by rate."""
    rows = [
        SCENARIO
        | {"cache_rate_percent": rate, "epoch": 1, "n_repetitions": 3}
        | {"execution_time_s": 10.0, "storage_s": mean_s, "storage_interval_s": half_s}
        | {"compute_time_s": 6.0, "ideal_time_s": 10.0 - mean_s}
        | {"other_s": 0.0, "ideal_other_s": 0.0}
        | changes
        for rate, (mean_s, half_s) in points.items()
    ]
    return with_later_columns(pd.DataFrame(rows), "storage_time")


def limits(points, stalls=None, may_hide=True, **changes):
    """Return table `limits` of points as for `storage`, checked."""
    table = None if points is None else storage(points, **changes)
    rates = [0, 50, 100] if points is None else list(points)
    found = decide_limits(breakdown(*rates), table, stalls, 1, may_hide)
    return check_table(found, "limits")


def class_stalls(points):
    """Return table `class_stalls` of epochs of 100 s; `points` are parts by rate."""
    rows = [
        SCENARIO
        | {"cache_rate_percent": rate, "epoch": 1, "part": part, "stall_s": one}
        for rate, parts in points.items()
        for part, one in zip([*CLASSES, TOGETHER], parts, strict=True)
    ]
    return pd.DataFrame(rows).assign(execution_time_s=100.0, first_wait_s=0.0)


def plain(words):
    return words.replace("\N{NO-BREAK SPACE}", " ").splitlines()


@pytest.mark.parametrize(
    ("mean_s", "half_s", "storage", "n_deciding"),
    [
        (0.5, 0.49, "does not limit", None),  # upper end 0.99 s of 10 s
        (0.3, 0.1, "does not limit", None),  # above 0, but little
        (-0.5, 1.4, "does not limit", None),
        (-3.0, 1.0, "does not limit", None),  # the ideal run takes longer
        (0.0, 0.0, "does not limit", None),
        (0.5, 0.5, "undecided", 4),  # holds 0, and reaches 10 %
        (2.0, 2.1, "undecided", 4),
        (0.1, 3.0, "undecided", 10),  # half the interval must fall below 0.9 s
        (1.0, 20.0, "undecided", 252),  # wider than the epoch itself
        (0.5, 0.45, "does not limit", None),
        (0.6, 0.5, "limits", None),  # 0.1 to 1.1 s
        (5.0, 0.1, "limits", None),
    ],
)
def test_the_interval_of_storages_part_decides(mean_s, half_s, storage, n_deciding):
    row = {"execution_time_s": 10.0, "storage_s": mean_s, "n_repetitions": 3}
    found = decide(row | {"storage_interval_s": half_s}, may_hide=True)
    assert found.storage == storage
    assert found.most_s == pytest.approx(min(max(0.0, mean_s + half_s), 10.0))
    assert found.most_percent == pytest.approx(10 * found.most_s)
    if n_deciding is None:
        assert math.isnan(found.n_deciding)
    else:
        assert found.n_deciding == n_deciding


def test_without_an_interval_it_is_undecided_unless_nothing_hides_io_time():
    once = {"execution_time_s": 10.0, "storage_s": 9.0, "n_repetitions": 1}
    once |= {"storage_interval_s": math.nan}
    assert decide(once, may_hide=True)[:2] == ("undecided", "one repetition")
    assert decide(None, may_hide=True)[:2] == ("undecided", "no ideal runs")
    for row in (once, None):
        found = decide(row, may_hide=False)
        assert found[:2] == ("limits", "nothing hides I/O time")


def test_each_stretch_of_cache_rates_says_what_limits_it():
    table = limits({0: (5, 1), 20: (4, 1), 50: (0.5, 1), 80: (0.2, 0.3), 100: (0, 0.7)})
    assert plain(limited_words(table)) == [
        "GFS-META at 0 to 20 %",
        "undecided at 50 % (GFS-META if storage limits; about 5 repetitions would "
        "decide)",
        "computation at 80 to 100 % (storage at most 7.0 % of the epoch)",
    ]
    assert plain(point_words(table.iloc[3])) == [
        "computation (storage at most 5.0 % of the epoch)"
    ]


@pytest.mark.parametrize("rates", [(0, 50), (50, 0)])
def test_repetitions_of_a_stretch_decide_only_if_they_decide_all_its_points(rates):
    """One point has a spread that no number of repetitions makes small enough."""
    parts = zip(rates, ((0.5, 1), (1.0, 60.0)), strict=True)
    table = limits(dict(sorted(parts)))
    (words,) = plain(limited_words(limits_of(table, SCENARIO)))
    assert "even 1000 repetitions would not decide" in words


def test_the_largest_stall_names_the_class_where_a_model_tells_it():
    stalls = class_stalls(
        {0: (0, 0, 9, 0, 0), 50: (2, 0, 0, 0, 9), 100: (0, 0, 0, 0, 0)}
    )
    table = limits({rate: (5, 1) for rate in (0, 50, 100)}, stalls)
    assert plain(limited_words(table)) == [
        "LFS-READ at 0 %",
        "several classes together at 50 %",
        "storage, of which class is not known, at 100 %",
    ]
    open_words = plain(limited_words(limits(None, stalls)))
    assert open_words[0].startswith(
        "undecided at 0 % (LFS-READ if storage limits; only"
    )
    assert "(of which class is not known if storage limits" in open_words[2]
    assert "largest stall by the model" in limits_method(table)


def test_where_nothing_hides_io_time_the_class_with_most_limits_without_a_word():
    table = limits(None, may_hide=False)
    assert is_plain(table)
    assert plain(limited_words(table)) == ["GFS-META at 0 to 50 %", "LFS-READ at 100 %"]
    titles = scenario_titles(pd.DataFrame([SCENARIO]))
    assert (limit_notes(table, titles), limits_method(table)) == ([], "")
    assert advice_on(table) == (True, "")


def test_ideal_runs_of_a_training_that_computes_nothing_do_not_say_that_it_hides():
    table = limits({0: (5, 1), 50: (0.2, 0.3)}, may_hide=False, compute_time_s=0.0)
    head, ours = limit_notes(table, scenario_titles(pd.DataFrame([SCENARIO])))
    assert head.startswith("The processor may take most of the time. Storage limits ")
    assert "where there is none" not in head
    assert "GFS-META at 0" in ours
    assert "processor at 50" in ours
    assert "omputation" not in head + ours


def test_a_program_without_ideal_runs_is_undecided_with_the_way_to_decide():
    table = limits(None)
    assert limits_of(table, SCENARIO)["storage"].tolist() == ["undecided"] * 3
    advice = advice_on(table)
    assert advice.is_given
    assert "only ideal runs tell, by --ideal DIRECTORY or sweep.ideal" in advice.words
    titles = scenario_titles(pd.DataFrame([SCENARIO, SCENARIO | {"policy": "lru"}]))
    head, ours, other = limit_notes(table, titles)
    assert head.endswith("If it limits, it is by the class with most I/O time.")
    assert "undecided at 100\N{NO-BREAK SPACE}% (LFS-READ if storage" in ours
    assert other == "small dataset, 60 OSTs, lru: not known."


def test_nothing_is_recommended_if_storage_does_not_limit_where_epochs_are_shortest():
    points = {0: (5, 1), 50: (0.2, 0.3)}
    table = storage(points)
    table.loc[1, "execution_time_s"] = 5.2
    found = decide_limits(breakdown(0, 50), table, None, 1, True)
    advice = advice_on(found)
    assert not advice.is_given
    assert advice.words.replace("\N{NO-BREAK SPACE}", " ") == (
        "Computation limits at cache rate 50 %: no faster storage of the dataset saves "
        "more than 0.500 s (9.6 %) of the epoch. So no improvement of storage is "
        "recommended."
    )
    table["execution_time_s"] = [5.0, 5.2]  # now the rate 0 is the best
    assert advice_on(decide_limits(breakdown(0, 50), table, None, 1, True)) == (
        True,
        "",
    )


def test_an_undecided_improvement_is_named_with_its_doubt():
    advice = advice_on(limits({0: (0.5, 1)}), "run")
    assert advice.is_given
    assert advice.words.replace("\N{NO-BREAK SPACE}", " ") == (
        "It is undecided whether storage limits at cache rate 0 %: its part may be 0 "
        "or up to 1.50 s (15.0 %) of the run; about 5 repetitions would decide, 3 were "
        "run. Improvements save time only if it does."
    )
    once = advice_on(limits({0: (0.5, math.nan)}))
    assert "one repetition has no interval, two or more tell" in once.words


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "computation"),
        ({"compute_time_s": 3.0}, "processor"),
        ({"compute_time_s": math.nan}, "computation and processor"),
        ({"least_because": "no events"}, "computation and processor"),
        ({"other_s": 7.0, "ideal_other_s": 7.0}, "other storage I/O"),
        ({"compute_time_s": 1.0, "warmup_s": 6.0, "ideal_warmup_s": 6.0}, "warm-up"),
        ({"compute_time_s": 1.0, "loader_end_s": 6.0}, "end of the loader"),
    ],
)
def test_what_limits_besides_storage_is_the_longest_part_as_far_as_it_is_known(
    changes, expected
):
    table = storage({0: (0.2, 0.1)}, **changes)
    assert besides_storage(table, True).tolist() == [expected]
    assert besides_storage(empty_table("storage_time"), True).empty
