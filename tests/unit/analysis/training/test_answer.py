"""The sentences that report and terminal begin with."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tierscope.analysis.training.answer import Evidence, answer
from tierscope.core.columns import CLASSES, IMPROVEMENTS
from tierscope.core.columns.analysis import (
    HOLDS_0,
    LIMITS,
    NO_LIMIT,
    NOTHING_HIDES,
    UNDECIDED,
)
from tierscope.core.tables import read_table

REAL = Path(__file__).parents[3] / "data" / "answers"
SCENE = {"dataset": "small", "n_osts": 60, "loader": "tensorflow"}
KEYS = {"source": "emulated", "system": "x", "policy": "pinning", **SCENE}
# Of GFS-READ, GFS-META, LFS-READ, LFS-META at cache rates; sums 10, 6, 8 s.
SECONDS = {0: (2, 8, 0, 0), 50: (1, 1, 4, 0), 100: (0, 0, 8, 0)}


def breakdown_of(n_repetitions=3, **keys):
    rows = [
        KEYS
        | keys
        | {"cache_rate_percent": rate, "repetition": one, "epoch": 1, "share": 1.0}
        | {"io_class": name, "time_s": time_s * (1 + one / 100), "slowest_rank": 0}
        for rate, times_s in SECONDS.items()
        for one in range(n_repetitions)
        for name, time_s in zip(CLASSES, times_s, strict=True)
    ]
    return pd.DataFrame(rows)


def limits_of(**columns):
    rows = [
        KEYS
        | {"cache_rate_percent": rate, "epoch": 1, "is_shortest": False}
        | {"limit": CLASSES[int(np.argmax(times_s))], "named_by": "I/O time"}
        | {"storage": LIMITS, "why": NOTHING_HIDES, "besides": "computation"}
        | {"most_s": 0.3, "most_percent": 5.0, "n_deciding": 9.0, "n_repetitions": 3}
        | columns
        for rate, times_s in SECONDS.items()
    ]
    return pd.DataFrame(rows)


def goals_of(n=1):
    goal = {"goal_of": "io_time", "goal_s": 4.0, "difference_s": 0.0}
    return pd.DataFrame([KEYS | goal | {"epoch": 1, "best_io_time_s": 6.0}] * n)


def combinations_of(n=1, **percents):
    row = KEYS | {"epoch": 1, "cost": 150, "cheapest": True}
    row |= {"in_every_repetition": True}
    row |= dict.fromkeys(IMPROVEMENTS, 0) | percents
    return pd.DataFrame([row] * n, columns=[*row])


@pytest.fixture
def found():
    """Return what an experiment shows that storage limits at 50 %."""
    bought = combinations_of(**{IMPROVEMENTS[2]: 150})
    return Evidence(
        breakdown_of(), limits_of(), goals_of(), bought, None, None, SCENE, 1
    )


def test_it_says_what_limits_what_helps_and_how_sure_that_is(found):
    limit, help_, sure = answer(found)
    assert limit == (
        "At cache rate 50 % (policy pinning) LFS-READ is the largest part of the I/O "
        "time of the slowest process: 4.04 s of 6.06 s."
    )
    assert help_ == (
        "50 % of the files on the LFS bring the I/O time from 10.1 s (at 0 %) to 6.06 "
        "s; the goal of 4.00 s of I/O time needs LFS-READ +150 %, the "
        "cheapest by the paper's rule."
    )
    assert sure.startswith("All this is emulated, not measured: the devices are a")
    assert sure.endswith("is 5.91 s to 6.21 s (95 % confidence).")
    assert "with 3 seeds the I/O time at cache rate 50 % (policy pinning) is " in sure


def test_goal_that_is_met_by_the_mean_only_says_so(found):
    bought = found.combinations.assign(in_every_repetition=False)
    assert answer(replace(found, combinations=bought))[1].endswith(
        "the cheapest by the paper's rule (met by the mean only)."
    )


def test_goal_says_where_it_comes_from(found):
    said = answer(replace(found, goal_origin="the paper's, the default"))[1]
    assert "; the goal of 4.00 s of I/O time (the paper's, the default) needs" in said


def test_goal_that_is_met_or_out_of_reach(found):
    met = replace(found, combinations=combinations_of())
    assert "which meets the goal of 4.00 s of I/O time." in answer(met)[1]
    none = replace(found, combinations=combinations_of(0))
    assert "; no improvement that was searched meets the goal" in answer(none)[1]


def test_nothing_is_bought_where_storage_does_not_limit(found):
    limits = limits_of(storage=NO_LIMIT, why="", is_shortest=True)
    limit, help_, _ = answer(replace(found, limits=limits))
    assert limit.startswith("Computation limits at cache rate 50 %: no faster storage")
    assert "goal" not in help_


def test_what_decides_is_said_where_it_is_undecided(found):
    limits = limits_of(storage=UNDECIDED, why=HOLDS_0)
    limit, help_, _ = answer(replace(found, limits=limits))
    assert "; if storage limits, the goal of 4.00 s of I/O time needs" in help_
    assert limit.startswith("It is undecided whether storage limits at cache rate 50 %")
    assert "about 9 repetitions would decide" in limit


def test_storage_that_limits_a_training_that_computes_is_told_by_its_part(found):
    limits = limits_of(why="")
    limits["is_shortest"] = limits["cache_rate_percent"] == 100
    cost = {"storage_s": 0.9, "storage_interval_s": 0.2, "execution_time_s": 6.0}
    cost |= KEYS | {"epoch": 1, "cache_rate_percent": 100}
    costs = pd.DataFrame([cost])
    limit, *_ = answer(replace(found, limits=limits, storage_time=costs))
    assert limit == (
        "At cache rate 100 % (policy pinning) storage takes 0.900 s (± 0.200 s) of the "
        "6.00 s of the epoch; its largest class is LFS-READ."
    )


def with_policy(cut, low, high):
    """Return the evidence of a sweep that compares `lru` with no LFS."""
    tables = [
        pd.concat([make(), make(policy="lru")]) for make in (breakdown_of, limits_of)
    ]
    row = KEYS | {"policy": "lru", "cache_rate_percent": 100, "n_epochs": 4}
    cuts = {"": cut, "_low": low, "_high": high}
    row |= {f"time_cut{end}_percent": value for end, value in cuts.items()}
    policies = pd.DataFrame([row])
    return Evidence(*tables, goals_of(), combinations_of(), policies, None, SCENE, 1)


def test_best_policy_is_answered_for():
    limit, help_, _ = answer(with_policy(30.0, 25.0, 35.0))
    assert limit.startswith("At cache rate 100 % (policy lru)")
    assert help_ == (
        "Of the policies, lru at a cache rate of 100 % saves most time in 4 epochs, "
        "staging and copies included: 30.0 % (95 % confidence interval 25.0 to 35.0 %)."
    )


def test_policy_that_is_undecided_or_saves_nothing_is_no_help():
    *_, help_, _ = answer(with_policy(3.0, -1.0, 7.0))
    assert "; it is undecided whether that saves or loses time" in help_
    *_, help_, _ = answer(with_policy(-3.0, -5.0, -1.0))
    assert help_.startswith("No policy with files on the LFS saves time")


def test_sweep_whose_lowest_rate_is_best_says_that_more_does_not_help(found):
    higher = found.breakdown[found.breakdown["cache_rate_percent"] >= 50]
    *_, help_, _ = answer(replace(found, breakdown=higher))
    assert help_.startswith("More files on the LFS than 50 % do not shorten the I/O")


def test_rates_that_cannot_be_told_apart_are_no_help(found):
    noisy = found.breakdown.assign(
        time_s=found.breakdown["time_s"] * (1 + found.breakdown["repetition"])
    )
    *_, help_, sure = answer(replace(found, breakdown=noisy))
    assert help_.startswith("By their I/O time the cache rates cannot be told apart")
    assert " is 0.00 s to " in sure  # no time is below 0


def test_numbers_that_are_not_those_of_devices_say_so(found):
    *_, sure = answer(replace(found, mark="from the page cache"))
    assert "the devices are a model (from the page cache); with 3 seeds" in sure


def test_one_repetition_asks_for_more(found):
    *_, sure = answer(replace(found, breakdown=breakdown_of(1)))
    assert sure.endswith(
        "one repetition, no interval, so repeat to know how sure it is."
    )


def test_sweep_without_the_scene_has_no_answer(found):
    assert answer(replace(found, scene=SCENE | {"n_osts": 1})) == []


@pytest.mark.parametrize(
    "name", ["emulated-default", "fugaku-simulated", "limits", "computes", "undecided"]
)
def test_real_results_are_answered_as_a_reader_found_clear(name):
    """Their tables, and where they come from, are in tests/data/answers."""
    names = ("breakdown", "limits", "goals", "combinations", "storage_time")
    paths = {one: REAL / name / f"{one}.parquet" for one in names}
    tables = {
        one: read_table(path, one) for one, path in paths.items() if path.exists()
    }
    about = json.loads((REAL / name / "about.json").read_text())
    empty = {"storage_time": None, "policy_summary": None}
    said = answer(Evidence(**{**empty, **tables}, **about))
    assert said == (REAL / name / "answer.txt").read_text().splitlines()
