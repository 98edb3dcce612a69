"""Drift of the machine, by the reads of the sentinel."""

import pytest
from descriptions import describe_run
from tierscope.analysis.drift import drift_of, drift_words
from tierscope.core.tables import check_table


def run(rate, before_s, after_s, repetition=0, **scenario):
    point = {"cache_rate_percent": rate, "repetition": repetition}
    sentinel = None
    if before_s:
        sentinel = {"before_s": {"gfs": before_s}, "after_s": {"gfs": after_s}}
    return describe_run(point=point, sentinel=sentinel, scenario=scenario)


def table_of(*runs, limit=20):
    return check_table(drift_of(runs, limit), "drift")


def test_run_beside_another_user_is_flagged_and_the_others_are_not():
    calm = [run(rate, 0.10, 0.11) for rate in (0, 25, 75, 100)]
    drift = table_of(*calm, run(50, 0.10, 0.21)).set_index("cache_rate_percent")
    assert drift.index[drift["flagged"]].to_list() == [50]
    assert drift.loc[50, "drift_percent"] == pytest.approx(100 * (0.21 / 0.105 - 1))
    assert drift["median_s"].unique() == pytest.approx(0.105)


def test_faster_reads_are_drift_too():
    drift = table_of(*(run(r, 0.1, 0.1) for r in (0, 50, 100)), run(25, 0.05, 0.1))
    assert drift["flagged"].to_list() == [False, False, False, True]
    assert drift["drift_percent"].iloc[-1] == pytest.approx(-50)


def test_reads_of_other_files_have_a_median_of_their_own():
    drift = table_of(run(0, 0.1, 0.1), run(0, 0.4, 0.4, n_osts=2))
    assert not drift["flagged"].any()


def test_runs_without_a_sentinel_have_no_rows():
    assert table_of(run(0, None, None)).empty
    assert table_of().empty


def test_words_name_the_worst_points_once_and_what_to_do():
    calm = [run(rate, 0.1, 0.1) for rate in (0, 25, 75)]
    drift = table_of(*calm, run(50, 0.15, 0.3, repetition=2))
    (words,) = drift_words(drift)
    assert "more than 20 % at cache rate 50 %, repetition 2 (GFS +200 %)" in words
    assert "delete these runs" in words
    assert drift_words(table_of(*calm)) == []
