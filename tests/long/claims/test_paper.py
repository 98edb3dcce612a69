"""The paper's claims: each holds on tables made to fit it and breaks on its own."""

import copy
import math
import re
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg
from snakemake.utils import update_config
from tierscope.analysis.breakdown import break_down
from tierscope.analysis.scorecard import scorecard_title, unmeasurable_groups
from tierscope.analysis.whatif import make_goal
from tierscope.claims.paper import (
    needed_sweep,
    read_claims,
    score_claims,
    tables_of_scenarios,
)
from tierscope.claims.paper_formulas import claims_that_hold, goal_s
from tierscope.claims.tables import ScenarioTables
from tierscope.core.tables import check_table
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.core.verdict import (
    FAILS,
    HOLDS,
    UNDECIDED,
    UNMEASURABLE,
    Measured,
    accept_words,
    judge,
    measured_words,
)
from tierscope.experiment.config import read_experiment
from tierscope.figures.scorecard import plot_scorecard
from tierscope.figures.style import save_figure
from tierscope.pages.scorecard import claims_table, html, markdown, notes

ROOT = Path(__file__).parents[3]
CLAIMS = ROOT / "resources" / "paper" / "claims.yaml"
PAPER = read_claims(CLAIMS)
IDS = [claim["id"] for claim in PAPER["claims"]]
CLASSES = ["gfs_read", "gfs_meta", "lfs_read", "lfs_meta"]
FAST, SLOW, LARGE = ("small", 60), ("small", 1), ("large", 60)
TITLES = {"small": "128 KiB files", "large": "12 MiB files"}
FILE_SIZE_BYTES = {"small": 131072, "large": 12582912}
N_FILES = 200
MINUS = "\N{MINUS SIGN}"

# Seconds of GFS-READ, GFS-META, LFS-READ and LFS-META of the slowest process by cache
# rate. With the fast GFS the sums are 20, 17, 12.5, 10.2, 9.3, 8.2, 8, 8.36, 9.16, 9.86
# and 10.36 s, and LFS-READ grows by 1.2 s in 10 points above 65 %.
TIMES_S = {
    FAST: {
        0: (0.7, 19.3, 0, 0),
        20: (0.6, 15.4, 0.8, 0.2),
        40: (0.5, 10.0, 1.8, 0.2),
        50: (0.5, 6.9, 2.6, 0.2),
        55: (0.5, 5.6, 3.0, 0.2),
        60: (0.5, 3.7, 3.8, 0.2),
        65: (0.5, 1.44, 5.76, 0.3),
        70: (0.5, 1.2, 6.36, 0.3),
        80: (0.4, 0.8, 7.56, 0.4),
        90: (0.3, 0.4, 8.76, 0.4),
        100: (0, 0, 9.96, 0.4),
    },
    SLOW: {
        0: (45.3, 2.7, 0, 0),
        20: (36.4, 2.2, 1.0, 0.2),
        40: (27.0, 2.0, 2.0, 0.2),
        50: (23.0, 1.8, 2.5, 0.2),
        55: (20.0, 1.5, 2.7, 0.2),
        60: (18.0, 1.2, 3.0, 0.3),
        65: (16.0, 1.0, 3.3, 0.3),
        70: (14.0, 0.9, 4.0, 0.3),
        80: (7.0, 0.5, 8.0, 0.4),
        90: (3.0, 0.3, 9.0, 0.4),
        100: (0, 0, 10.0, 0.4),
    },
    LARGE: {0: (1.5, 0.1, 0, 0)}
    | {
        rate: (0, 0, 1.7 + rate / 10, 0.1)
        for rate in (10, 20, 40, 50, 55, 60, 65, 70, 80, 90, 100)
    },
}


def tables(times_s=TIMES_S, epochs=2, **keys):
    """Return (io_time, breakdown, epochs): one rank, execution 2 s above I/O time.

    The repetitions take 0.999 and 1.001 times the seconds; epoch 0 takes twice as long.
    """
    rows = []
    for (dataset, n_osts), by_rate in times_s.items():
        for rate, seconds in by_rate.items():
            n_lfs = round(N_FILES * rate / 100)
            for repetition, epoch in np.ndindex(2, epochs):
                factor = (0.999, 1.001)[repetition] * (2 if epoch == 0 else 1)
                for io_class, time_s in zip(CLASSES, seconds, strict=True):
                    n = n_lfs if io_class.startswith("lfs") else N_FILES - n_lfs
                    read = io_class.endswith("read")
                    rows.append(
                        {
                            "dataset": dataset,
                            "n_osts": n_osts,
                            "cache_rate_percent": rate,
                            "repetition": repetition,
                            "epoch": epoch,
                            "io_class": io_class,
                            "time_s": time_s * factor,
                            "operations": n,
                            "bytes": n * FILE_SIZE_BYTES[dataset] * read,
                        }
                    )
    origin = {"source": "emulated", "system": "scale-model"}
    run = {"policy": "pinning", "loader": "posix", "rank": 0}
    io_time = check_table(pd.DataFrame(rows).assign(**origin | run | keys), "io_time")
    return io_time, break_down(io_time), executions(io_time)


def executions(io_time, more_s=2.0):
    """Return the table ``epochs`` of runs that take so much longer than their I/O."""
    columns = ["io_class", "time_s", "operations", "bytes"]
    keys = [key for key in io_time if key not in columns]
    times = io_time.groupby(keys)["time_s"].sum().reset_index()
    times = times.assign(execution_time_s=times["time_s"] + more_s)
    others = ["node", "samples", "bytes", "lfs_files", "gfs_files"]
    times = times.assign(**dict.fromkeys(others, 0), lfs_fill_time_s=0.0)
    return check_table(times.drop(columns="time_s"), "epochs")


def score(
    io_time,
    breakdown=None,
    epochs=None,
    paper=PAPER,
    *,
    epoch=1,
    loader="posix",
    model="fugaku",
    computes=False,
):
    """Return the table of claims, indexed by the claim."""
    breakdown = break_down(io_time) if breakdown is None else breakdown
    epochs = executions(io_time) if epochs is None else epochs
    wanted = {"policy": "pinning", "loader": loader}
    scenarios = tables_of_scenarios(io_time, breakdown, epochs, epoch, wanted, TITLES)
    claims = score_claims(paper, scenarios, model, computes=computes)
    return check_table(claims, "claims").set_index("claim", drop=False)


def paper_of(*claims):
    """Return a paper that states only these claims."""
    return PAPER | {"claims": [c for c in PAPER["claims"] if c["id"] in claims]}


def changed_times(changes):
    """Return TIMES_S with other seconds at some scenarios and cache rates."""
    times_s = copy.deepcopy(TIMES_S)
    for scenario, by_rate in changes.items():
        times_s[scenario].update(by_rate)
    return times_s


def every_large_rate_but_100_reads_the_gfs():
    return {
        rate: (seconds[2], 0.1, 0, 0)
        for rate, seconds in TIMES_S[LARGE].items()
        if 0 < rate < 100
    }


def as_predicted_from_one_ost():
    """Return times with one OST that scale to those of 60, but for less GFS-META."""
    return {
        rate: (60 * gfs_read, 0.9 * gfs_meta, lfs_read, lfs_meta)
        for rate, (gfs_read, gfs_meta, lfs_read, lfs_meta) in TIMES_S[FAST].items()
    }


def execution_time_that_does_not_follow():
    io_time, breakdown, epochs = tables()
    odd = (epochs["cache_rate_percent"] / 5) % 4 >= 2
    later_s = epochs["execution_time_s"] + 30 * odd
    return io_time, breakdown, epochs.assign(execution_time_s=later_s)


def a_file_from_the_wrong_tier():
    io_time, *others = tables()
    at = (io_time["cache_rate_percent"] == 50) & (io_time["epoch"] == 0)
    moved = io_time["io_class"].map({"lfs_meta": 1, "gfs_meta": -1}).fillna(0)
    operations = (io_time["operations"] + moved * at).astype("int64")
    return io_time.assign(operations=operations), *others


SLOWER_LFS_CUT = {65: (0.74, 2.76, 4.3, 0.2), 70: (0.5, 2.46, 5.1, 0.3)}

# What breaks each claim, and the claims that cannot hold either then.
BREAKS = {
    # Best at 80 %: faster GFS-META moves it by 20 points, LFS-READ alone is enough.
    "C1": ({FAST: {80: (0.2, 0.28, 7.1, 0.4)}}, {"C15", "C21", "C24"}),
    "C2": ({FAST: {40: (0.5, 5.8, 6.0, 0.2)}}, set()),
    "C3": ({FAST: {90: (0.3, 9.0, 8.76, 0.4)}}, set()),
    "C4": ({FAST: {100: (0, 0, 6.0, 4.36)}}, set()),
    "C5": ({FAST: {60: (3.6, 3.7, 0.7, 0.2)}}, set()),
    "C6": ({FAST: {60: (0.5, 5.8, 2.4, 0.2)}}, set()),
    "C7": ({FAST: {50: (0.7, 3.9, 3.5, 0.2)}}, set()),
    "C8": (execution_time_that_does_not_follow, set()),
    "C9": ({SLOW: {0: (22.3, 2.7, 0, 0)}}, set()),
    "C10": ({SLOW: {40: (12.0, 2.0, 13.0, 0.2)}}, set()),
    "C11": ({SLOW: {40: (27.0, 10.5, 2.0, 0.2)}}, set()),
    "C12": ({LARGE: {20: (0, 0, 0.9, 0.1)}}, set()),
    "C13": ({LARGE: every_large_rate_but_100_reads_the_gfs()}, set()),
    "C14": ({LARGE: {100: (0, 0, 1.5, 0.08)}}, set()),
    # GFS-META is all at 50 %, so faster it is best there. C24 says C15 again.
    "C15": ({FAST: {50: (0.1, 9.9, 0.1, 0.1)}}, {"C24"}),
    "C16": ({FAST: {60: (0.2, 6.6, 1.2, 0.2)}}, set()),
    # Faster LFS-READ takes 6.01 s at 80 % then, 6.08 s at 65 %.
    "C17": ({FAST: {80: (0.4, 0.25, 7.56, 0.32)}}, set()),
    # C24 says C18 again.
    "C18": ({FAST: SLOWER_LFS_CUT}, {"C24"}),
    # If LFS-READ needs more than +120 %, nothing is enough with +120 %.
    "C19": ({FAST: {65: (1.2, 0.9, 5.6, 0.3)}}, {"C20"}),
    "C20": ({FAST: {65: (0.6, 1.34, 5.76, 0.3)}}, set()),
    "C21": ({FAST: {65: (0.45, 1.22, 6.03, 0.3)}}, set()),
    "C22": ({SLOW: as_predicted_from_one_ost()}, set()),
    "C23": (a_file_from_the_wrong_tier, set()),
    "C24": ({FAST: SLOWER_LFS_CUT}, {"C18"}),
}


def test_every_claim_holds_on_tables_that_fit_the_paper(base):
    assert base["status"].to_dict() == dict.fromkeys(IDS, HOLDS)
    assert base["value"].notna().all()
    assert (base["reason"] == "").all()


def test_there_are_24_claims_and_each_is_broken_below():
    assert [f"C{number}" for number in range(1, 25)] == IDS
    assert sorted(BREAKS) == sorted(IDS)


@pytest.mark.parametrize("claim", IDS)
def test_a_claim_breaks_and_nothing_that_does_not_depend_on_it(claim):
    change, tied = BREAKS[claim]
    broken = change() if callable(change) else tables(changed_times(change))
    claims = score(*(table[table["repetition"] == 0] for table in broken))
    assert set(claims.index[claims["status"] == FAILS]) == {claim} | tied
    assert set(claims["status"]) == {HOLDS, FAILS}


@pytest.mark.parametrize(
    ("claim", "measured", "details"),
    [
        ("C1", "65 %", "8 s; n = 2"),
        ("C2", "100 % of rates", "5 of 5 cache rates"),
        ("C4", "100 % of the variance", "1.2 s per 10 points"),
        ("C5", "18 %", "GFS-META at 65 %"),
        ("C6", "2.44 %", "65 % instead of 60 %, within tolerance"),
        ("C7", "90 GB", "60 % is enough"),
        ("C8", "100 % of the variance", "2 s longer; least in 128 KiB files, 60 OSTs"),
        ("C9", "1.85 x", "4.62 x against 2.5 x"),
        ("C15", f"{MINUS}5 points", "65 → 60 %"),
        ("C16", "12.9 %", "8 → 6.97 s"),
        ("C17", "0 points", "stays at 65 %"),
        ("C18", "24 %", "8 → 6.08 s"),
        ("C19", "120 %", "with GFS-META +150 %; goal 4 s"),
        ("C20", "150 %", "with LFS-READ +120 %; goal 4 s"),
        (
            "C21",
            "104 % of the goal",
            "LFS-READ +200 % at 65 %: 4.16 s, goal 4 s; "
            "LFS-READ +200 % would meet it at 100 %",
        ),
        ("C23", "0 files", "136 epochs of all runs"),
        ("C24", "2 of 2", "C15 holds, C18 holds"),
    ],
)
def test_numbers_are_what_the_seconds_say(base, claim, measured, details):
    assert base.loc[claim, ["measured", "details"]].tolist() == [measured, details]


@pytest.fixture(scope="module")
def base():
    """Return the claims on tables that fit the paper."""
    return score(*tables())


@pytest.fixture(scope="module")
def without_one_ost():
    """Return the claims of an experiment without the slow GFS, one of them broken."""
    times_s = changed_times({FAST: {90: (0.3, 9.0, 8.76, 0.4)}})
    del times_s[SLOW]
    return score(*tables(times_s))


def test_a_missing_scenario_is_named(without_one_ost):
    unmeasurable = without_one_ost[without_one_ost["status"] == UNMEASURABLE]
    assert set(unmeasurable.index) == {"C9", "C10", "C11", "C22"}
    assert unmeasurable["value"].isna().all()
    assert (unmeasurable["measured"] == "").all()
    assert set(unmeasurable["reason"]) == {
        "no scenario of 128 KiB files on one OST "
        "(the scenarios are: 128 KiB files, 60 OSTs; 12 MiB files, 60 OSTs)"
    }


def test_one_epoch_is_not_the_second():
    claims = score(*tables(epochs=1), epoch=0)
    needs_two = {c["id"] for c in PAPER["claims"] if c["least_epochs"] == 2}
    unmeasurable = claims[claims["status"] == UNMEASURABLE]
    assert set(unmeasurable.index) == needs_two
    assert unmeasurable["reason"].str.startswith("the runs have one epoch").all()
    assert {"C8", "C9", "C12", "C23"}.isdisjoint(needs_two)


def test_cache_rates_too_coarse_for_a_claim_are_named():
    io_time = tables()[0]
    coarse = io_time[io_time["cache_rate_percent"] % 20 == 0]
    claims = score(coarse)
    assert claims.loc["C5", "reason"] == (
        "cache rates are missing in 128 KiB files, 60 OSTs (policy pinning, loader "
        "posix: no run within 2.5 points of 65 %; only at 0, 20, 40, 60, 80, "
        "100 %)"
    )
    few = score(io_time[io_time["cache_rate_percent"].isin([50, 100])])
    assert "no run within 2.5 points of 0, 60, 70 %; only" in few.loc["C1", "reason"]
    assert "no run within 2.5 points of 0 %; only" in few.loc["C8", "reason"]
    reasons = {names: reason for names, reason, _ in unmeasurable_groups(few)}
    together = (names for names in reasons if names.startswith("C1 to "))
    assert (
        reasons[next(together)] == "cache rates are missing in 128 KiB files, 60 OSTs"
    )
    assert claims.loc["C14", "status"] == HOLDS
    assert claims.loc["C24", "status"] == UNMEASURABLE


def test_a_neighbouring_cache_rate_will_do():
    io_time = tables()[0]
    rates = io_time["cache_rate_percent"].replace({65: 67})
    paper = paper_of("C1", "C19")
    claims = score(io_time.assign(cache_rate_percent=rates), paper=paper)
    assert claims.loc["C19", "measured"] == "120 %"
    assert claims.loc["C1", "measured"] == "67 %"


def test_claims_of_a_bottleneck_are_not_measurable_where_the_training_computes():
    claims = score(*tables(), computes=True)
    hidden = claims[claims["status"] != HOLDS]
    assert hidden["status"].to_dict() == dict.fromkeys(
        ["C2", "C3", "C10", "C13"], UNMEASURABLE
    )
    (reason,) = hidden["reason"].unique()
    assert reason.startswith("the training computes, so the class with most I/O time")
    assert needed_sweep(PAPER, claims) == ""  # another sweep would not help


def test_runs_without_execution_times_leave_c8_unmeasurable():
    io_time, breakdown, epochs = tables()
    claims = score(io_time, breakdown, epochs.iloc[:0])
    assert claims.index[claims["status"] != HOLDS].tolist() == ["C8"]
    assert claims.loc["C8", "reason"] == "no execution times of 128 KiB files, 60 OSTs"


@pytest.mark.parametrize("flat", ["small", "large"])
def test_an_execution_time_that_never_varies_is_named(flat):
    io_time, breakdown, epochs = tables()
    same = epochs["dataset"] == flat
    flat_s = epochs["execution_time_s"].mask(same, 30.1)
    claims = score(io_time, breakdown, epochs.assign(execution_time_s=flat_s))
    assert claims.index[claims["status"] != HOLDS].tolist() == ["C8"]
    assert claims.loc["C8", "reason"].startswith(
        f"the execution time of {TITLES[flat]}"
    )
    assert "never varies" in claims.loc["C8", "reason"]


def test_execution_time_that_is_all_io_time_leaves_c8_unmeasurable():
    io_time, breakdown, _ = tables(source="simulated")
    claims = score(io_time, breakdown, executions(io_time, more_s=1e-15))
    assert claims.index[claims["status"] != HOLDS].tolist() == ["C8"]
    assert "equals the I/O time: nothing else takes time" in claims.loc["C8", "reason"]


def test_scenarios_without_a_common_cache_rate_are_named():
    io_time = tables()[0]
    slow = io_time["n_osts"] == 1
    rates = io_time["cache_rate_percent"]
    moved = rates.mask(slow, (rates - 1).where(rates > 0, 1))
    paper = paper_of("C11", "C22")
    claims = score(io_time.assign(cache_rate_percent=moved), paper=paper)
    words = "128 KiB files, 1 OST and 128 KiB files, 60 OSTs share no cache rate"
    assert claims.loc[["C11", "C22"], "reason"].tolist() == [words, words]


def test_a_claim_that_holds_by_its_tolerance_only_says_so():
    times_s = changed_times({LARGE: {10: (0, 0, 1.45, 0.1)}})
    claims = score(*tables(times_s), paper=paper_of("C12"))
    assert claims.loc["C12", ["status", "details"]].tolist() == [
        HOLDS,
        "best at 10 %, within tolerance",
    ]


def test_the_goal_is_rounded_as_that_of_the_figures():
    best_s, percent = 0.1, 55
    assert best_s * percent / 100 != best_s * (percent / 100)
    io_time = tables({FAST: {0: (best_s, 0, 0, 0)}})[0]
    one = io_time.query("epoch == 1 and repetition == 0")
    one = one.assign(time_s=[best_s, 0.0, 0.0, 0.0])
    scenario = ScenarioTables(one, break_down(one), executions(one), 1, "")
    goal = {"system": "fugaku", "seconds": 4, "percent_of_best": percent}
    assert goal_s(scenario, goal) == make_goal(one, percent_of_best=percent).seconds


def test_a_plain_directory_is_the_fast_gfs_but_of_unknown_osts():
    io_time = tables()[0]
    io_time = io_time.assign(n_osts=io_time["n_osts"].replace({60: 0}))
    claims = score(io_time, paper=paper_of("C1", "C22"))
    assert claims.loc["C1", "status"] == HOLDS
    assert claims.loc["C1", "scenarios"] == "128 KiB files"
    assert claims.loc["C22", "status"] == UNMEASURABLE


def test_files_of_another_size_are_another_dataset():
    io_time = tables()[0]
    twice = io_time.assign(bytes=2 * io_time["bytes"])
    claims = score(twice, paper=paper_of("C1", "C23"))
    assert claims.loc["C1", "reason"].startswith("no scenario of 128 KiB files on the")
    assert claims.loc["C23", "status"] == HOLDS


def test_the_scenario_with_the_most_osts_is_the_fast_one():
    times_s = TIMES_S | {("small", 8): TIMES_S[SLOW]}
    claims = score(*tables(times_s), paper=paper_of("C1"))
    assert claims.loc["C1", "scenarios"] == "128 KiB files, 60 OSTs"


def test_two_datasets_of_one_file_size_are_ambiguous():
    io_time = tables()[0]
    twin = io_time[io_time["dataset"] == "small"].assign(dataset="twin")
    claims = score(pd.concat([io_time, twin]), paper=paper_of("C1"))
    assert claims.loc["C1", "reason"] == (
        "several scenarios of 128 KiB files on the fast GFS: 128 KiB files, 60 OSTs; "
        "twin dataset, 60 OSTs"
    )


def test_means_over_repetitions_count_not_a_single_one():
    io_time = tables()[0]
    outlier = (io_time["cache_rate_percent"] == 90) & (io_time["repetition"] == 0)
    lower = io_time.assign(time_s=io_time["time_s"].mask(outlier, 0.01))
    claims = score(lower, paper=paper_of("C1"))
    assert claims.loc["C1", "measured"] == "90 %"
    calm = io_time["time_s"].mask(outlier, 0.8 * io_time["time_s"])
    claims = score(io_time.assign(time_s=calm), paper=paper_of("C1"))
    assert claims.loc["C1", "measured"] == "65 %"


def test_the_slowest_process_is_picked_after_the_improvement():
    """A second rank, 8 s of GFS-META at 65 %, leaves no cut to faster LFS-READ."""
    io_time = tables()[0]
    other = io_time.assign(rank=1, time_s=0.0, operations=0, bytes=0)
    at = (io_time["cache_rate_percent"] == 65) & (io_time["io_class"] == "gfs_meta")
    other["time_s"] = at * 8.0 * (0.999 + 0.002 * io_time["repetition"])
    claims = score(pd.concat([io_time, other]), paper=paper_of("C17", "C18"))
    assert claims.loc["C18", "details"] == "8 → 6.24 s"
    assert claims.loc["C17", "details"] == "65 → 70 %, within tolerance"


def test_times_of_zero_are_not_measurable_or_do_not_hold():
    io_time = tables()[0]
    claims = score(io_time.assign(time_s=0.0))
    assert claims.loc["C16", "reason"] == ("a time of zero leaves the number undefined")
    assert set(claims.loc[["C2", "C6", "C9", "C12", "C14", "C22"], "status"]) == {
        UNMEASURABLE,
        FAILS,
    }


def test_on_fugaku_itself_the_goal_is_4_s():
    faster = {
        scenario: {rate: tuple(0.9 * s for s in row) for rate, row in by_rate.items()}
        for scenario, by_rate in TIMES_S.items()
    }
    paper = paper_of("C19")
    measured = tables(faster, system="fugaku", source="measured")
    claims = score(*measured, paper=paper)
    assert claims.loc["C19", "details"].endswith("goal 4 s")
    claims = score(*tables(faster), paper=paper)
    assert claims.loc["C19", "details"].endswith("goal 3.6 s")


def test_no_improvement_that_meets_the_goal_does_not_hold():
    times_s = changed_times({FAST: {65: (8.0, 0, 0, 0)}})
    claims = score(*tables(times_s), paper=paper_of("C19"))
    assert claims.loc["C19", "status"] == FAILS
    assert claims.loc["C19", "measured"] == "none"
    assert claims.loc["C19", "details"] == "not up to +200 %; goal 4 s"
    assert math.isnan(claims.loc["C19", "value"])


@pytest.mark.parametrize(
    ("source", "model", "expected"),
    [
        (
            "emulated",
            "fugaku",
            {"C1": "target", "C10": "by hand", "C2": "no"}
            | dict.fromkeys(["C6", "C7", "C9", "C21", "C24"], "derived"),
        ),
        ("simulated", "fugaku", {"C1": "target", "C10": "by hand", "C2": "no"}),
        ("emulated", "other", {"C1": "no", "C10": "no", "C2": "no"}),
        ("measured", "fugaku", {"C1": "no", "C10": "no", "C2": "no"}),
    ],
)
def test_claims_that_the_devices_were_fitted_to_are_marked(source, model, expected):
    paper = paper_of(*expected, "C15", "C18")  # C24 is about these
    claims = score(*tables(source=source), paper=paper, model=model)
    assert claims.loc[list(expected), "fitted"].to_dict() == expected


HERE = {"loader": "posix", "n_processes": 1, "n_files": N_FILES}  # of `tables`


def misses_of(*claims, **facts):
    """Return some claims, with reasons for misses that are true of other sweeps."""
    paper = copy.deepcopy(paper_of(*claims))
    for of in paper["fitted"]["misses"]["of"].values():
        of.update(facts)
    return paper


@pytest.mark.parametrize(
    ("source", "model", "facts", "explained"),
    [
        ("simulated", "fugaku", HERE, True),
        ("simulated", "fugaku", {}, False),
        ("simulated", "fugaku", HERE | {"n_processes": 3072}, False),
        ("simulated", "fugaku", HERE | {"n_files": N_FILES + 1}, False),
        ("simulated", "fugaku", HERE | {"n_osts": 59}, False),
        ("simulated", "fugaku", HERE | {"policy": "other"}, False),
        ("simulated", "fugaku", HERE | {"loader": "tensorflow"}, False),
        ("simulated", "other", HERE, False),
        ("emulated", "fugaku", HERE, False),
        ("measured", "fugaku", HERE, False),
    ],
)
def test_a_miss_of_the_fitted_model_is_explained_where_the_papers_sweep_was_simulated(
    source, model, facts, explained
):
    words = PAPER["fitted"]["misses"]["why"]["C16"] if explained else ""
    broken = tables(changed_times(BREAKS["C16"][0]), source=source)
    claims = score(*broken, paper=misses_of("C12", "C16", **facts), model=model)
    assert claims.loc["C16", "status"] == FAILS
    assert (claims["reason"] != "").sum() == bool(words)
    assert claims.loc["C16", "reason"] == words
    text = markdown(claims, "Paper", PROVENANCE)
    assert ("## Why some do not hold" in text) == bool(words)
    assert words in text
    assert words in html(claims, "Paper", PROVENANCE).replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(("claim", "explained"), [("C16", False), ("C12", True)])
def test_only_the_scenarios_of_a_claim_have_to_agree(claim, explained):
    paper = misses_of(claim, **HERE)
    paper["fitted"]["misses"]["of"]["small_fast"]["n_files"] += 1
    broken = tables(changed_times(BREAKS[claim][0]), source="simulated")
    claims = score(*broken, paper=paper)
    assert claims.loc[claim, "status"] == FAILS
    assert bool(claims.loc[claim, "reason"]) == explained


def test_misses_are_explained_of_the_simulated_experiment_as_written():
    config = read_yaml(ROOT / "config" / "config.yaml")
    update_config(config, read_yaml(ROOT / "config" / "fugaku-simulated.yaml"))
    experiment = read_experiment(config, ROOT / "resources")
    assert experiment.system.name == PAPER["fitted"]["system"]
    for name, of in PAPER["fitted"]["misses"]["of"].items():
        size_bytes = PAPER["scenarios"][name]["file_size_bytes"]
        simulated = [
            asdict(scenario)
            | {"n_processes": experiment.system.n_processes}
            | {"n_files": experiment.datasets[scenario.dataset].n_files}
            for scenario in experiment.sweep
            if experiment.datasets[scenario.dataset].file_size_bytes == size_bytes
        ]
        assert any(of.items() <= facts.items() for facts in simulated)


def test_only_runs_of_the_policy_and_loader_count():
    io_time = tables()[0]
    other = io_time.assign(loader="tensorflow", time_s=1.0)
    assert set(score(pd.concat([io_time, other]))["status"]) == {HOLDS}
    with pytest.raises(ValueError, match=r"got runs of \[\] with .*lmdb.*expected one"):
        score(io_time, loader="lmdb")


def test_several_systems_are_refused():
    io_time = tables()[0]
    both = pd.concat([io_time, io_time.assign(system="other")])
    with pytest.raises(ValueError, match=r"scale-model.*other.*expected one"):
        score(both)


def test_an_epoch_that_was_not_run_is_refused():
    with pytest.raises(ValueError, match=r"epoch: got 7, expected one of \[0, 1\]"):
        score(*tables(), epoch=7)


def assert_refused(paper, path, message):
    """Assert that a paper is refused with a message of one line."""
    path.write_text(yaml.safe_dump(paper))
    with pytest.raises(ConfigError, match=message) as error:
        read_claims(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"formula": "guess"}, r"claims.C1.formula: got guess, expected one of best_"),
        ({"scenarios": ["huge"]}, r"claims.C1.scenarios: got huge, expected some of"),
        ({"id": "C2"}, r"claims.C2.id: got it twice"),
        ({"accept": {"about": 1}}, r"accept: got unknown key about, expected some of"),
        ({"extra": 1}, r"got unknown key extra"),
        (
            {"parameters": {"io_clas": "gfs_read"}},
            r"parameters: got unknown key io_clas, expected some of io_class",
        ),
        (
            {"formula": "gain_above", "parameters": {"at_percent": "60"}},
            r"at_percent: got '60', expected ",
        ),
        (
            {"parameters": {"at_percent": 60}},
            r"claims.C1: got scenarios .* and parameters at_percent, expected those of "
            r"best_cache_rate \(got an unexpected keyword argument",
        ),
        (
            {"formula": "gain_above"},
            r"parameters none, expected those of gain_above \(missing a required",
        ),
        ({"scenarios": ["small_fast", "small_slow"]}, r"\(too many positional"),
        (
            {"formula": "claims_that_hold"},
            r"those of claims_that_hold \(missing a required argument",
        ),
    ],
)
def test_wrong_claims_are_refused_in_one_line(tmp_path, change, message):
    paper = yaml.safe_load(CLAIMS.read_text())
    paper["claims"][0].update(change)
    assert_refused(paper, tmp_path / "claims.yaml", message)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("why", {"C99": "why"}, r"fitted.misses.why: got C99, expected some of C1"),
        ("why", {"C9": "why"}, r"why.C9.scenarios: got small_slow, expected some of"),
        ("why", {"C23": "why"}, r"why.C23.scenarios: got all, expected some of"),
        ("of", {"huge": None}, r"fitted.misses.of: got huge, expected some of"),
        ("of", {"small_fast": {}}, r"fitted.misses.of.small_fast: missing key"),
    ],
)
def test_wrong_misses_are_refused_in_one_line(tmp_path, part, change, message):
    paper = yaml.safe_load(CLAIMS.read_text())
    misses = paper["fitted"]["misses"]
    of = misses["of"]["small_fast"]
    change = {name: of if what is None else what for name, what in change.items()}
    misses[part].update(change)
    assert_refused(paper, tmp_path / "claims.yaml", message)


@pytest.mark.parametrize(
    ("accept", "words"),
    [
        ({"at_least": 60, "at_most": 70}, "60 to 70 %"),
        ({"at_least": 0, "at_most": 0}, "0 %"),
        ({"at_most": 5}, "at most 5 %"),
        ({"more_than": 50}, "more than 50 %"),
        ({"at_least": -10, "at_most": -5}, f"{MINUS}10 to {MINUS}5 %"),
    ],
)
def test_bounds_in_words(accept, words):
    assert accept_words(accept, "%") == words


@pytest.mark.parametrize(
    ("accept", "unit", "words"),
    [
        ({"at_most": 1}, "points of accuracy", "at most 1 point of accuracy"),
        ({"at_most": 2}, "points", "at most 2 points"),
        ({"at_least": 1, "at_most": 1}, "files", "1 file"),
        ({"more_than": 1}, "times as long", "more than 1 times as long"),
    ],
)
def test_unit_of_a_bound_of_one_is_in_the_singular(accept, unit, words):
    assert accept_words(accept, unit) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (21.549, "21.5 %"),  # not by way of 21.55
        (-3.2449, f"{MINUS}3.24 %"),
        (0.3636, "0.364 %"),
        (0.996, "0.996 %"),
        (0.9996, "1 %"),
        (-1e-17, "0 %"),
    ],
)
def test_number_of_a_claim_is_rounded_once(value, words):
    assert measured_words(Measured(value, ""), HOLDS, "%") == words


PROVENANCE = "emulated, system <scale-model> & more"


@pytest.mark.parametrize(
    ("source", "model", "words"),
    [
        ("emulated", "fugaku", " (emulated data; 8 of the 8 not fitted hold)"),
        ("simulated", "other", " (simulated data)"),
        ("measured", "fugaku", ""),
    ],
)
def test_the_title_counts_and_names_what_was_not_measured(source, model, words):
    claims = score(*tables(source=source), model=model)
    expected = f"24 of 24 claims of the paper hold{words}"
    assert scorecard_title(claims) == expected
    assert f"<h1>{expected}</h1>" in html(claims, "Paper", PROVENANCE)
    assert markdown(claims, "Paper", PROVENANCE).startswith(f"# {expected}\n")
    assert plot_scorecard(claims, PROVENANCE).get_suptitle() == expected


def statuses(claims, status_by_claim):
    """Return some of the claims with other statuses."""
    return claims.loc[list(status_by_claim)].assign(status=status_by_claim)


@pytest.mark.parametrize(
    ("status_by_claim", "words"),
    [
        (
            {"C1": HOLDS, "C2": UNMEASURABLE, "C8": HOLDS, "C23": HOLDS},
            "3 of 3 measurable claims of the paper hold; 1 of 4 not measurable here "
            "(emulated data; 2 of the 2 not fitted hold)",
        ),
        (
            {"C1": UNMEASURABLE, "C8": FAILS, "C23": HOLDS},
            "1 of 2 measurable claims of the paper holds, 1 does not; 1 of 3 not "
            "measurable here (emulated data; 1 of the 2 not fitted holds)",
        ),
        (
            {"C1": HOLDS, "C24": FAILS, "C2": UNMEASURABLE},
            "1 of 2 measurable claims of the paper holds, 1 does not; 1 of 3 not "
            "measurable here (emulated data; all fitted)",
        ),
    ],
)
def test_the_title_tells_evidence_from_fits_and_from_gaps(base, status_by_claim, words):
    assert scorecard_title(statuses(base, status_by_claim)) == words


def test_counts_agree_with_their_verbs(base):
    few = {"C1": HOLDS, "C2": FAILS, "C3": UNMEASURABLE}
    counted = notes(statuses(base, few), "Paper", PROVENANCE)[1]
    assert counted.endswith(
        "Of 3 claims 1 holds, 1 does not hold, 1 is not measurable here."
    )


def test_fitted_claims_are_called_a_check_of_consistency(base):
    for text in (
        markdown(base, "Paper", PROVENANCE),
        html(base, "Paper", PROVENANCE),
        plot_scorecard(base, PROVENANCE).get_supxlabel(),
    ):
        assert "a check of consistency, not a validation" in " ".join(text.split())


def test_points_that_were_run_once_are_mentioned(base):
    words = "One repetition, no interval: "
    assert (base["n_repetitions"] == 2).all()
    assert words not in markdown(base, "Paper", PROVENANCE)
    io_time = tables()[0]
    once = score(io_time[io_time["repetition"] == 0])
    assert words in markdown(once, "Paper", PROVENANCE)
    assert words in html(once, "Paper", PROVENANCE)


def varied(times_s, by_rate, repetitions=5):
    """Return io_time: a rate takes a factor of its time in each repetition.

    Only these rates are run in all repetitions, the others in the first.
    """
    io_time = tables(times_s)[0]
    io_time = io_time[io_time["repetition"] == 0]
    rates = io_time["cache_rate_percent"]
    parts = [io_time]
    for repetition in range(1, repetitions):
        again = io_time[rates.isin(list(by_rate))].assign(repetition=repetition)
        of_rates = {rate: factors[repetition] for rate, factors in by_rate.items()}
        factors = again["cache_rate_percent"].map(of_rates)
        parts.append(again.assign(time_s=again["time_s"] * factors))
    return pd.concat(parts, ignore_index=True)


def test_a_best_rate_that_repetitions_cannot_tell_apart_leaves_its_claim_undecided():
    """8 s at 65 % vary by 0.1 s; 80 %, at 8.1 s, cannot be told from them."""
    near = {FAST: {80: (0.4, 0.8, 6.5, 0.4)}}
    several = {65: (1, 1.01, 0.99, 1.02, 0.98), 80: (1, 0.98, 1.02, 0.97, 1.03)}
    io_time = varied(changed_times(near), several)
    claim = score(io_time, paper=paper_of("C1")).loc["C1"]
    assert claim["status"] == UNDECIDED
    assert claim["measured"] == "65 %"
    assert (claim["low"], claim["high"]) == (65, 80)
    assert claim["details"] == (
        "7.99 s; 80 cannot be told from 65 at n = 5; 0 to 60, 70, 90 and 100 run once"
    )
    page = markdown(score(io_time, paper=paper_of("C1")), "Paper", PROVENANCE)
    assert "0 of 1 claims of the paper hold, 1 is undecided" in page
    assert "? undecided" in page


def test_the_interval_of_the_repetitions_decides():
    """60 % takes 8.2 s, 65 % 8 s in the mean: gains around the bound of 5 %."""
    paper = paper_of("C6")
    wide = {60: (1, 1.05, 0.97, 1.04, 0.96), 65: (1, 0.99, 1.01, 1, 1)}
    claim = score(varied(TIMES_S, wide), paper=paper).loc["C6"]
    assert claim["status"] == UNDECIDED
    assert claim["low"] < claim["value"] < 5 < claim["high"]
    assert claim["interval"].endswith("% (n = 5, without the spread of rates run once)")
    narrow = {60: (1, 1.001, 0.999, 1, 1), 65: (1, 0.999, 1.001, 1, 1)}
    claim = score(varied(TIMES_S, narrow), paper=paper).loc["C6"]
    assert claim["status"] == HOLDS
    assert claim["high"] < 5


@pytest.mark.parametrize(
    ("source", "status"), [("measured", UNDECIDED), ("emulated", HOLDS)]
)
def test_one_launch_on_real_storage_decides_nothing(source, status):
    io_time = tables(source=source)[0]
    once = io_time[io_time["repetition"] == 0]
    claims = score(once, paper=paper_of("C1", "C23"))
    assert claims.loc["C1", "status"] == status
    assert claims.loc["C1", "interval"] == "one repetition, no interval"
    assert claims.loc["C23", "status"] == HOLDS  # an exact count


def test_a_conclusion_of_an_undecided_claim_is_undecided():
    results = {"C15": HOLDS, "C18": UNDECIDED}
    counted = claims_that_hold(results, ["C15", "C18"])
    assert counted.ends == (1, 2)
    assert judge({"at_least": 2}, counted.value, counted.ends) == UNDECIDED
    assert judge({"at_least": 1}, counted.value, counted.ends) == HOLDS


class Page(HTMLParser):
    """Collect the tags of a page and check that they close."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_whole_and_needs_no_other_file(without_one_ost):
    text = html(without_one_ost, "Paper", PROVENANCE)
    page = Page()
    page.feed(text)
    assert page.open == []
    assert not re.search(r"https?:|src=|href=(?!\"data:,)|@import|url\(", text)
    statuses = [a["class"] for tag, a in page.seen if tag == "tr" and "class" in a]
    assert len(statuses) == 24 - 3  # four lack the same
    assert set(statuses) == {"holds", "fails", "unmeasurable"}
    for words in ("✓ holds", "✕ does not hold", "\N{EN DASH} not measurable here"):
        assert words in page.text
    assert "no scenario of 128 KiB files on one OST" in text


def test_texts_are_escaped(base):
    wild = base.assign(statement="<script>|</script>", details="a < b & c", reason="")
    page = html(wild, "<b>", PROVENANCE)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "a &lt; b &amp; c" in page
    assert "system &lt;scale-model&gt; &amp; more" in page
    lines = markdown(wild, "<b>", PROVENANCE).splitlines()
    rows = [line for line in lines if line.startswith("| C")]
    assert len(rows) == 24
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 7 for row in rows)
    assert all("&lt;script&gt;\\|&lt;/script&gt;" in row for row in rows)


def test_the_table_alone_can_stand_in_another_page(base):
    table = claims_table(base)
    assert table.style == "scorecard"
    assert len(table.frame) == len(table.row_styles) == 24


def test_the_figure_has_a_row_for_each_claim_with_word_and_shape(without_one_ost):
    figure = plot_scorecard(without_one_ost, PROVENANCE)
    (ax,) = figure.axes
    words = [text.get_text() for text in ax.texts]
    for status in (HOLDS, FAILS):
        assert words.count(status) == (without_one_ost["status"] == status).sum()
    assert words.count(UNMEASURABLE) == 1
    lacking = "C9 to C11, C22: no scenario of 128 KiB files on one OST"
    assert sum(word.startswith(lacking) for word in words) == 1
    measurable = set(IDS) - {"C9", "C10", "C11", "C22"}
    assert all(words.count(claim) == 1 for claim in measurable)
    shapes = {
        (len(mark.get_paths()[0]), tuple(mark.get_facecolor()[0]))
        for mark in ax.collections
    }
    assert len(shapes) == 3
    assert "Source: emulated, system" in figure.get_supxlabel()


def test_texts_of_the_figure_do_not_overlap(without_one_ost):
    figure = plot_scorecard(without_one_ost, PROVENANCE)
    FigureCanvasAgg(figure).draw()
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    boxes = [text.get_window_extent() for text in texts]
    for number, box in enumerate(boxes):
        assert box.x1 <= figure.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def test_what_to_run_for_claims_that_are_not_measurable(base, without_one_ost):
    assert needed_sweep(PAPER, base) == ""
    needs = needed_sweep(PAPER, without_one_ost)
    assert "128 KiB files on the fast GFS, 128 KiB files on one OST; cache" in needs
    assert "cache rates 0, 20, 40, 50, 60, 70, 80, 100 %; 2 epochs or more" in needs
    for text in (
        html(without_one_ost, "Paper", PROVENANCE, needs),
        markdown(without_one_ost, "Paper", PROVENANCE, needs),
        plot_scorecard(without_one_ost, PROVENANCE, needs).get_supxlabel(),
    ):
        assert " ".join(needs.split()) in " ".join(text.split())


def test_the_same_claims_give_the_same_bytes(tmp_path, base):
    suffixes = ("svg", "png", "pdf")
    written = [[tmp_path / f"{name}.{suffix}" for suffix in suffixes] for name in "ab"]
    for paths in written:
        save_figure(plot_scorecard(base, PROVENANCE), paths)
    for first, second in zip(*written, strict=True):
        assert first.read_bytes() == second.read_bytes()
