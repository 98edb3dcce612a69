import math
from pathlib import Path

import pandas as pd
import pytest
import yaml
from tierscope.claims.other_papers import (
    NodeTables,
    claims_lines,
    claims_text,
    read_policy_claims,
    score_policy_claims,
    stated_numbers,
)
from tierscope.core.columns import TABLES
from tierscope.core.tables import check_table, empty_table
from tierscope.core.validation import ConfigError, read_yaml

CLAIMS = Path(__file__).parents[3] / "resources" / "paper" / "policy_claims.yaml"
RUN = {
    "source": "emulated",
    "system": "small",
    "dataset": "tiny",
    "n_osts": 1,
    "policy": "monarch",
    "loader": "posix",
    "cache_rate_percent": 50,
    "repetition": 0,
}
N_NODES = 4


def epochs_of(hits, **keys):
    """Return table policy_epochs of a run that opens 1000 files an epoch."""
    zeros = {name: 0 for name in TABLES["policy_epochs"] if name not in RUN}
    rows = [
        RUN
        | zeros
        | {"epoch": epoch, "lfs_opens": n, "gfs_opens": 1000 - n, "io_time_s": 2.0}
        | keys
        for epoch, n in enumerate(hits)
    ]
    times = {k: "float64" for k, v in TABLES["policy_epochs"].items() if v == "float64"}
    return check_table(pd.DataFrame(rows).astype(times), "policy_epochs")


def totals_of(times_s, calls, copies=0, **keys):
    """Return table policy_totals; the reference takes 10 s and 100 calls an epoch."""
    rows = [
        RUN
        | {
            "n_nodes": N_NODES,
            "n_epochs": n,
            "staging": "while training",
            "staging_time_s": 0.0,
            "staging_gfs_operations": 0,
            "time_s": float(time_s),
            "once_time_s": 0.0,
            "reference_time_s": 10.0 * n,
            "io_time_s": 0.0,
            "reference_io_time_s": 0.0,
            "gfs_operations": n_calls,
            "background_gfs_operations": copies,
            "background_bytes": 8 * copies,
            "reference_gfs_operations": 100 * n,
        }
        | keys
        for n, (time_s, n_calls) in enumerate(zip(times_s, calls, strict=True), start=1)
    ]
    return check_table(pd.DataFrame(rows), "policy_totals")


def switches_of(involuntary, **keys):
    """Return table node_switches of a run of 100 records."""
    row = RUN | {
        "policy": "pinning",
        "cache_rate_percent": 0,
        "n_nodes": 1,
        "processes_per_node": 4,
        "records": 100,
        "access_time_s": 1.0,
        "major_faults": 5,
        "minor_faults": 0,
        "voluntary_switches": 0,
        "involuntary_switches": involuntary,
    }
    return check_table(pd.DataFrame([row | keys]), "node_switches")


def score(epochs, totals, loader="posix", of_nodes=None, accuracy=None):
    claims = score_policy_claims(
        read_policy_claims(CLAIMS),
        epochs,
        totals,
        loader=loader,
        of_nodes=of_nodes or NodeTables(),
        accuracy=accuracy,
    )
    return check_table(claims, "policy_claims").set_index("claim")


def databases(slow_s, fast_s):
    """Return table policy_epochs of LMDB's loaders, whole epochs of each repetition."""
    times_s = {
        "lmdb": slow_s,
        "lmdbio-lmm": slow_s,
        "lmdbio-lmm-dio-prov-coal-stag": fast_s,
    }
    return [
        epochs_of(
            [0],
            policy="pinning",
            cache_rate_percent=0,
            loader=loader,
            repetition=repetition,
            execution_time_s=time_s,
            io_time_s=1.0,
        ).assign(gfs_opens=8 if loader == "lmdb" else 4)
        for loader, of_loader_s in times_s.items()
        for repetition, time_s in enumerate(of_loader_s)
    ]


@pytest.fixture
def claims():
    epochs = [epochs_of([0, 250, 438, 500])]
    epochs += databases((6.0, 6.3), (2.0, 2.1))
    totals = [
        totals_of([10, 19, time_s, 30], [100, 180, 240, 290], copies=15, repetition=n)
        for n, time_s in enumerate((23.7, 24, 24.3))
    ]
    return score(pd.concat(epochs), pd.concat(totals))


@pytest.mark.parametrize(
    ("claim", "value", "status"),
    [
        ("P1", 20, "holds"),  # 24 of 30 s
        ("P3", 15, "holds"),  # 240 + 15 of 300 calls
        ("P5", 3, "holds"),
        ("P6", 2, "holds"),
    ],
)
def test_number_stands_beside_what_the_paper_states(claims, claim, value, status):
    row = claims.loc[claim]
    assert row["value"] == pytest.approx(value)
    assert row["status"] == status


def test_hits_follow_the_law_of_several_nodes(claims):
    # 0, 1/4, 7/16 and, full by then, 1/2; 437.5 expected.
    assert claims.loc["P4", "value"] == 0
    assert claims.loc["P4", "status"] == "holds"


@pytest.mark.parametrize(
    ("hits", "value"),
    [
        # Of 1000 reads half a one is rounding.
        ([0, 150, 438, 500], 99.5 / math.sqrt(1000 * 3 / 16)),
        ([0, 150, 438, 600], 99.5 / math.sqrt(1000 * 3 / 16)),  # errors do not cancel
        ([1, 250, 438, 500], None),  # nothing is on the LFS before the first epoch
    ],
)
def test_hits_off_the_law_in_an_epoch_are_found(hits, value):
    row = score(epochs_of(hits), totals_of([1], [1])).loc["P4"]
    assert row["status"] == "does not hold"
    if value is None:
        assert row["here"] == "none"
        assert "epoch 1: 1 reads from the LFS, 0 " in row["details"]
    else:
        assert row["value"] == pytest.approx(value)
        assert "epoch 2: 150 reads from the LFS, 250 " in row["details"]


@pytest.mark.parametrize(
    ("hits", "status"),
    [([0, 8, 16, 24], "holds"), ([0, 0, 0, 0], "does not hold")],
)
def test_no_hits_on_hundreds_of_nodes_are_found(hits, status):
    epochs = epochs_of(hits)
    epochs["gfs_opens"] = 6144 - epochs["lfs_opens"]
    row = score(epochs, totals_of([1], [1], n_nodes=768)).loc["P4"]
    assert row["status"] == status


def test_hits_of_one_node_are_exact():
    one = {"n_nodes": 1, "system": "small+nodes1"}
    for hits, points in (([0, 500, 500], 0), ([0, 499, 501], 0.1)):
        epochs = epochs_of(hits, system="small+nodes1")
        totals = totals_of([1, 2, 3], [1, 2, 3], **one)
        row = score(epochs, totals, of_nodes=NodeTables(epochs, totals)).loc["P11"]
        assert row["value"] == pytest.approx(points)
        assert row["status"] == ("does not hold" if points else "holds")


@pytest.mark.parametrize(
    ("slow_s", "fast_s", "status", "words"),
    [
        ((2.0, 2.02), (1.0, 1.0), "holds", ""),
        ((1.0, 1.0), (2.0, 2.02), "does not hold", ""),
        (
            (1.0, 1.0),
            (1.04, 1.2),
            "undecided",
            "the interval crosses the bound; ",
        ),
        (
            (2.0,),
            (1.0,),
            "undecided",
            "one repetition, no interval; ",
        ),
    ],
)
def test_loaders_are_judged_by_the_whole_epoch(slow_s, fast_s, status, words):
    epochs = pd.concat(databases(slow_s, fast_s))
    row = score(epochs, totals_of([1], [1])).loc["P5"]
    assert row["status"] == status
    ratios = [slow / fast for slow, fast in zip(slow_s, fast_s, strict=True)]
    assert row["value"] == pytest.approx(sum(ratios) / len(ratios))
    assert row["here"] == f"{row['value']:.3g} times as long with LMDB"
    slow, fast = (
        f"{sum(times_s) / len(times_s):.3g} s" for times_s in (slow_s, fast_s)
    )
    assert row["details"].startswith(
        f"{words}an epoch takes {slow} with lmdb, {fast} with "
        "lmdbio-lmm-dio-prov-coal-stag; I/O of the slowest process alone 1 s and 1 s"
    )


def test_times_of_loaders_are_of_the_repetitions_that_both_have():
    epochs = pd.concat(databases((2.0, 2.0, 50.0), (1.0, 1.0)))
    row = score(epochs, totals_of([1], [1])).loc["P5"]
    assert row["value"] == 2
    assert "an epoch takes 2 s with lmdb, 1 s with lmdbio-" in row["details"]


def test_loaders_of_different_repetitions_are_not_compared():
    epochs = pd.concat(databases((1.0, 1.0), (2.0, 2.0)), ignore_index=True)
    epochs.loc[epochs["loader"] != "lmdb", "repetition"] += 7
    row = score(epochs, totals_of([1], [1])).loc["P5"]
    assert row["details"].startswith("no repetition has runs of both lmdb and ")


@pytest.mark.parametrize(
    ("keys", "claim", "reason"),
    [
        ({}, "P7", "no run with loader posix and policy adhoc in the sweep"),
        ({}, "P5", "no run with loader lmdb in the sweep"),
        ({}, "P6", "no run with loader lmdb in the sweep"),
        ({"loader": "lmdb"}, "P5", "no run with loader lmdb and policy pinning in "),
        ({"loader": "lmdb"}, "P1", "no run with loader posix in the sweep"),
        (
            {"loader": "lmdb", "policy": "pinning"},
            "P6",
            "no run with loader lmdb and policy pinning at a cache rate of 0 % in the "
            "sweep (only at 50 %)",
        ),
        (
            {"cache_rate_percent": 100},
            "P3",
            "no run with loader posix and policy monarch at a cache rate of 50 % in "
            "the sweep (only at 100 %)",
        ),
        ({}, "P1", "runs have 2 epochs (training.epochs), 3 are needed"),
    ],
)
def test_what_the_sweep_lacks_is_named(keys, claim, reason):
    epochs = epochs_of([0, 250], **keys)
    totals = totals_of([10, 19], [100, 180], **keys)
    row = score(epochs, totals).loc[claim]
    assert row["status"] == "not measurable here"
    assert row["details"].startswith(reason)


def test_claim_that_nothing_can_measure_says_why(claims):
    row = claims.loc["P2"]
    assert row["status"] == "not measurable here"
    assert row["details"] == row["not_comparable"]


def accuracy_of(shown=(0.3, 0.6), **columns):
    """Return table accuracy_tests of two unbiased arms and a biased one."""
    return pd.DataFrame(
        {
            "n_ranks": 4,
            "low_95_points": [-0.4, -0.7, -23],
            "high_95_points": [0.2, shown[1] + 0.1, -19],
            "difference_p": [0.5, 0.6, 1e-6],
            "margin_points": 1.0,
            "equivalent": [shown[0] < 1, shown[1] < 1, False],
            "shuffle": ["local", "local", "biased"],
            "network": ["plain", "batch-norm", "batch-norm"],
            "shown_margin_points": [*shown, 22],
            "difference_points": [-0.1, 0.2, -21],
            "low_90_points": [-0.3, -0.6, -22],
            "high_90_points": [0.1, shown[1], -20],
            "global_accuracy_percent": [75, 76, 76],
            "n_repetitions": 10,
            "source": "trained",
        }
        | columns
    )


@pytest.mark.parametrize(
    ("shown", "status"), [((0.3, 0.6), "holds"), ((0.3, 1.4), "does not hold")]
)
def test_partition_is_judged_by_the_network_that_shows_least(shown, status):
    run = (epochs_of([0]), totals_of([10], [100]))
    claim = score(*run, accuracy=accuracy_of(shown)).loc["P8"]
    assert (claim["status"], claim["value"]) == (status, shown[1])
    assert (claim["source"], score(*run).loc["P8", "source"]) == ("trained", "emulated")
    assert "4 processes, network batch-norm: +0.20 points" in claim["details"]
    assert claim["accepted"] == "at most 1 point of accuracy"
    without = score(*run)
    for claim in ("P8", "P13"):
        assert "study accuracy is not part" in without.loc[claim, "details"]


@pytest.mark.parametrize(
    ("p", "differences", "shown", "status", "words"),
    [
        ((0.5, 0.02), (-0.1, -0.3), (0.3, 0.6), "holds", "batch-norm: -0.30 points"),
        # By Bonferroni, 0.03 is not enough of two networks.
        ((0.5, 0.03), (-0.1, -0.3), (0.3, 0.6), "does not hold", "no loss is shown"),
        ((0.5, 0.001), (-0.1, 0.3), (0.3, 0.6), "does not hold", "no loss is shown"),
        ((0.5, 0.6), (-0.1, -0.3), (0.3, 1.4), "undecided", "neither a loss nor"),
    ],
)
def test_loss_by_local_shuffle_has_to_be_shown_and_so_has_its_absence(
    p, differences, shown, status, words
):
    columns = {"difference_p": [*p, 1e-6], "difference_points": [*differences, -21]}
    run = (epochs_of([0]), totals_of([10], [100]))
    claim = score(*run, accuracy=accuracy_of(shown, **columns)).loc["P13"]
    assert claim["status"] == status
    assert words in claim["details"]
    if status in ("holds", "undecided"):
        assert claim["here"] == "0.3 points of accuracy lost"
    else:
        assert claim["here"] == "none"


@pytest.mark.parametrize(
    ("times_s", "status", "words"),
    [
        (
            (24, 24.3),
            "holds",
            "24.1 instead of 30 s in 3 epochs; interval 13.1 to 25.9 % (n = 2)",
        ),
        ((32, 32.1), "does not hold", "32 instead of 30 s in 3 epochs; "),
        ((32, 33), "undecided", "8.33 % more time, the interval crosses "),
        ((30, 30), "does not hold", "0 % less time, 30 instead of 30 s"),
        ((29.999, 30.2, 29.7), "undecided", " % less time, the interval crosses "),
        (
            (24,),
            "undecided",
            "20 % less time, one repetition, no interval; 24 instead",
        ),
    ],
)
def test_time_is_judged_by_the_spread_of_the_repetitions(times_s, status, words):
    totals = [
        totals_of([10, 20, time_s], [100, 200, 299], repetition=repetition)
        for repetition, time_s in enumerate(times_s)
    ]
    row = score(epochs_of([0]), pd.concat(totals)).loc["P1"]
    assert row["status"] == status
    assert row["value"] == pytest.approx(100 - 100 * sum(times_s) / len(times_s) / 30)
    assert words in f"{row['here']}, {row['details']}"


def test_more_than_the_reference_is_said_without_a_sign():
    totals = pd.concat(
        totals_of([10, 22, time_s], [100, 200, 300], copies=30, repetition=repetition)
        for repetition, time_s in enumerate((33, 33.1))
    )
    claims = score(epochs_of([0]), totals)
    assert claims.loc["P1", "here"] == "10.2 % more time"
    assert claims.loc["P1", "value"] == pytest.approx(-10.1667, abs=1e-3)
    assert claims.loc["P3", "here"] == "10 % more operations"
    even = score(epochs_of([0]), totals.assign(background_gfs_operations=0))
    assert even.loc["P3", "here"] == "0 % fewer operations"
    assert even.loc["P3", "status"] == "does not hold"


def test_nothing_is_judged_by_runs_whose_copies_failed():
    totals = pd.concat(
        totals_of([10, 19, 24], [100, 180, 240], repetition=n) for n in (0, 1)
    )
    for n_failed, status in ((0, "holds"), (1, "not measurable here")):
        epochs = epochs_of([0, 250, 438, 500])
        epochs.loc[1, "failed_files"] = n_failed
        claims = score(epochs, totals)
        for claim in ("P1", "P3", "P4"):
            assert claims.loc[claim, "status"] == status
    assert claims.loc["P3", "details"] == "1 copy of monarch failed"
    epochs, one = epochs.assign(system="one"), totals.assign(system="one", n_nodes=1)
    claims = score(epochs, totals, of_nodes=NodeTables(epochs, one))
    for claim in ("P9", "P10", "P11"):
        assert claims.loc[claim, "details"] == "1 copy of monarch failed"


def test_text_names_what_is_not_comparable_of_each_claim(claims):
    text = claims_text(claims.reset_index(), "emulated, tests")
    assert text.count("- not comparable: ") == len(claims)
    assert "stated: up to 28 % less training time" in text
    assert "here: 20 % less time (24 instead of 30 s in 3 epochs; interval " in text
    assert "Source: emulated, tests." in text


def test_claims_on_the_terminal_can_be_read_alone(claims):
    path = "results/a-rather-long-name-of-a-run/policies/claims.md"
    text = claims_lines(claims.reset_index(), path)
    assert (
        text
        == f"""
What other papers say, and what is found here (all in
{path})
P1   holds          Monarch saves time: 20 % less time (paper: up to 28 %)
P3   holds          Monarch saves GFS operations: 15 % fewer operations (paper:
                    up to 56 %)
P4   holds          hits of Monarch follow the law of n nodes: 0 standard errors
                    from the law
P5   holds          LMDBIO beats LMDB: 3 times as long with LMDB (paper: up to
                    65-fold)
P6   holds          localised mmap opens the database less often: 2 times as
                    many opens with LMDB
not measurable here: P2, P7, P8, P9, P10, P11, P12, P13 (reasons in claims.md)
"""
    )


def test_claims_are_in_the_order_of_their_numbers(claims):
    assert list(claims.index) == [f"P{number}" for number in range(1, 14)]


def test_each_claim_that_is_not_measurable_has_its_reason_in_the_text(claims):
    text = claims_text(claims.reset_index(), "emulated, tests")
    missing = claims[claims["status"] == "not measurable here"]
    assert len(missing) == 8
    for claim, row in missing.iterrows():
        assert f"## {claim}, {row['title']}: not measurable here" in text
        assert f"- here: not measurable here ({row['details']})" in text


def test_no_line_is_for_what_is_not_measurable_where_there_is_nothing(claims):
    measured = claims[claims["status"] == "holds"].reset_index()
    assert "not measurable" not in claims_lines(measured, "claims.md")


def test_number_that_is_not_told_from_equal_says_so_on_the_terminal():
    epochs = pd.concat(databases((1.0, 1.2), (1.0, 1.0)))
    claims = score(epochs, totals_of([1], [1])).reset_index()
    words = " ".join(claims_lines(claims, "claims.md").split())
    number = "LMDBIO beats LMDB: 1.1 times as long with LMDB (paper: up to 65-fold)"
    reason = "the interval crosses the bound"
    assert f"P5 undecided {number}, {reason} P6 " in words


def test_claim_without_a_number_says_what_was_found_on_the_terminal():
    row = score(epochs_of([1, 250, 438, 500]), totals_of([1], [1])).loc[["P4"]]
    words = " ".join(claims_lines(row.reset_index(), "claims.md").split())
    found = "epoch 1: 1 reads from the LFS, 0 \N{PLUS-MINUS SIGN} 0 by the law"
    assert words.endswith(f"follow the law of n nodes: {found}")


def test_number_that_a_paper_states_is_part_of_what_it_states():
    for claim in read_policy_claims(CLAIMS)["claims"]:
        has_number = any(letter.isdigit() for letter in claim["stated"])
        assert ("stated_number" in claim) == has_number
        assert claim.get("stated_number", "") in claim["stated"]
        if "number" in claim:
            assert f"{claim['number']['percent']} %" in claim["stated_number"]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("formula", "guess", "claims.P1.formula: got guess, expected one of time_cut"),
        ("paper", "nobody", "claims.P1.paper: got nobody, expected one of adhoc, "),
        ("accept", None, "claims.P1: missing key accept"),
        ("title", None, "claims.0: missing key title"),
    ],
)
def test_wrong_claim_is_refused_in_one_line(tmp_path, key, value, words):
    content = read_yaml(CLAIMS)
    content["claims"][0][key] = value
    if value is None:
        del content["claims"][0][key]
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match=words):
        read_policy_claims(path)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (
            {"policy": "monarch", "at_percent": 50},
            "claims.P1: got parameters at_percent, policy, expected those of "
            "time_cut .missing a required argument: 'n_epochs'",
        ),
        (
            {"policy": "lru", "at_percent": 50, "n_epochs": 3, "slow": "lmdb"},
            "expected those of time_cut .got an unexpected keyword argument 'slow'",
        ),
        (None, "got parameters none, expected those of time_cut"),
        ({"policies": "monarch"}, "policies"),
    ],
)
def test_parameters_that_a_formula_does_not_take_are_refused(
    tmp_path, parameters, words
):
    content = read_yaml(CLAIMS)
    claim = content["claims"][0]
    del claim["parameters"]
    if parameters is not None:
        claim["parameters"] = parameters
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match=words) as error:
        read_policy_claims(path)
    assert "\n" not in str(error.value)


def test_claims_of_one_node_are_judged_by_the_study_of_nodes():
    one = {"system": "small+nodes1"}
    study = NodeTables(
        pd.concat([epochs_of([0, 250]), epochs_of([0, 500, 500], **one)]),
        pd.concat(
            [
                totals_of([10, 20, 30], [100, 200, 300]),
                totals_of([10, 17, 24], [100, 150, 200], n_nodes=1, **one),
                totals_of(
                    [10, 17, 24], [100, 150, 200], n_nodes=1, repetition=1, **one
                ),
            ]
        ),
    )
    several = (
        epochs_of([0, 250, 438]),
        pd.concat(
            totals_of([10, 20, 30], [100, 200, 300], repetition=n) for n in (0, 1)
        ),
    )
    claims = score(*several, of_nodes=study)
    assert claims.loc["P9", "value"] == pytest.approx(20)  # 24 of 30 s
    assert claims.loc["P10", "value"] == pytest.approx(100 / 3)
    assert claims.loc["P11", "value"] == pytest.approx(0)
    assert claims.loc["P1", "value"] == 0  # that of several nodes
    without = score(*several)
    for claim in ("P9", "P10", "P11", "P12"):
        assert without.loc[claim, "status"] == "not measurable here"
        assert "study nodes is not part" in without.loc[claim, "details"]
    others = NodeTables(*several, None)
    assert "no run with n_nodes 1" in score(*several, of_nodes=others).loc["P9"].details


@pytest.mark.parametrize(
    ("keys", "status", "words"),
    [
        ({"source": "measured"}, "holds", "lmdb 0.1 and 0.6, lmdbio-lmm 0.1 and 0.2"),
        (
            {"source": "measured", "major_faults": 0},
            "not measurable here",
            "no page fault waited for the device",
        ),
    ],
)
def test_context_switches_are_judged_where_processes_contend(keys, status, words):
    switches = pd.concat(
        switches_of(count, loader=loader, processes_per_node=n, **keys)
        for loader, counts in (("lmdb", (10, 60)), ("lmdbio-lmm", (10, 20)))
        for n, count in zip((1, 4), counts, strict=True)
    )
    run = (epochs_of([0]), totals_of([10], [100]))
    claims = score(*run, of_nodes=NodeTables(*run, switches))
    assert claims.loc["P12", "status"] == status
    assert words in claims.loc["P12", "details"]
    if status == "holds":
        assert claims.loc["P12", "value"] == pytest.approx(3)


def test_context_switches_are_not_judged_on_emulated_devices():
    run = (epochs_of([0]), totals_of([10], [100]))
    claims = score(*run, of_nodes=NodeTables(*run, empty_table("node_switches")))
    assert claims.loc["P12", "status"] == "not measurable here"
    assert "no context switches are reported" in claims.loc["P12", "details"]


def test_numbers_to_draw_are_those_that_are_stated():
    content = read_policy_claims(CLAIMS)
    assert [one["percent"] for one in stated_numbers(content)] == [28, 37, 56]
