"""What is said of accelerators, of hand-made rows."""

import math

import pandas as pd
from tierscope.analysis.training.accelerators import rate_words, summary_text

SOURCES = {"net": "made up."}


def rows(*used, rate=0, numbers=(1, 2, 4, 8), limit_at=None, room=None, **keys):
    """Return rows of some utilisations; `limit_at` is the number with a limit."""
    table = pd.DataFrame(
        {
            "source": "simulated",
            "system": "pencil",
            "workload": "net",
            "cache_rate_percent": rate,
            "n_accelerators": numbers[: len(used)],
            "n_nodes": 1,
            "n_files": 1000,
            "n_steps": 500,
            "n_simulated_steps": 50,
            "n_repetitions": 1,
            "compute_time_s": 0.5,
            "goal_percent": 90.0,
            "utilisation_percent": [float(one) for one in used],
            "utilisation_low_percent": math.nan,
            "utilisation_high_percent": math.nan,
            "samples_per_second": [float(one) for one in used],
            "samples_per_second_low": math.nan,
            "samples_per_second_high": math.nan,
            "throughput": [1024.0 * one for one in used],
            "lfs_rate_percent": math.nan if room is None else room,
            "fits_lfs": True if room is None else room >= rate,
            "limit": "not asked",
        }
    )
    table.loc[table["n_accelerators"] == limit_at, "limit"] = "gfs_read"
    return table.assign(**keys)


def test_the_most_that_reach_the_goal_and_what_limits_the_next():
    words = rate_words(rows(100, 95, 60, 30, limit_at=4))
    assert words == (
        "cache rate 0 %: 2 accelerators (AU 95.0 %, 95.0 samples and 95 KiB a second); "
        "GFS-READ limits 4 (AU 60.0 %)."
    )


def test_if_none_reaches_it_what_limits_one():
    words = rate_words(rows(60, 30, limit_at=1))
    assert words == "cache rate 0 %: none; one has an AU of 60.0 %; GFS-READ limits."


def test_if_all_reach_it_the_number_is_where_the_simulation_ends():
    words = rate_words(rows(100, 99))
    assert words.endswith(
        "a second), the largest number that was simulated (an epoch has 500 steps)."
    )


def test_smaller_numbers_that_miss_the_goal_are_named():
    words = rate_words(rows(100, 80, 95, 30, limit_at=8))
    assert "4 accelerators" in words
    assert words.endswith("Fewer miss the goal: 2.")


def test_room_of_the_lfs_is_named_where_it_is_missing():
    table = rows(100, 99, rate=50, room=40)
    assert "no room for it: 40 % at most" in rate_words(table)
    table.loc[0, "fits_lfs"] = True
    assert (
        "Of the simulated numbers, the LFS of a node has room for it up to 1"
        in rate_words(table)
    )
    assert "room" not in rate_words(rows(100, 99, rate=50, room=60))


def test_the_summary_says_what_was_simulated_and_whose_numbers_it_has():
    text = summary_text(rows(100, 99), None, SOURCES, "made up")
    assert text.startswith("Source: made up.\nSimulated: a model of the whole")
    assert "net on pencil: 0.500 s of computation a step, goal AU 90 %" in text
    assert "50 of 500 steps of an epoch were simulated" in text
    assert text.endswith("Workload: made up.")
    whole = summary_text(rows(100, n_simulated_steps=500), None, SOURCES, "made up")
    assert "All steps of each epoch were simulated." in whole
    mixed = summary_text(rows(100, 99, n_steps=[500, 50]), None, SOURCES, "made up")
    assert "At most 50 of 50 to 500 steps" in mixed


def test_predictions_of_a_fit_have_their_bands():
    band = {"utilisation_low_percent": 50.0, "utilisation_high_percent": 58.0}
    band |= {"samples_per_second_low": 20.0, "samples_per_second_high": 24.0}
    fit = pd.DataFrame(
        {
            "parameter": ["gfs.read_latency_s"],
            "unit": "s",
            "value": 0.002,
            "value_low": 0.003,
            "value_high": 0.001,
            "n_accelerators": 1,
            "utilisation_percent": 54.0,
            "deviation_points": 4.0,
        }
    )
    text = summary_text(rows(54, limit_at=1, **band), fit, SOURCES, "made up")
    assert "gfs.read_latency_s = 0.002 s (0.001 to 0.003), which gives 1 acc" in text
    assert text.endswith(
        "  1 accelerator: AU 54.0 %, 50.0 to 58.0 %; 54.00 (20.00 to 24.00) samples a "
        "second"
    )
