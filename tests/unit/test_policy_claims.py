from pathlib import Path

import pandas as pd
import pytest
import yaml
from tierscope.policy_claims import (
    claims_text,
    read_policy_claims,
    score_policy_claims,
)
from tierscope.tables import TABLES, check_table
from tierscope.validation import ConfigError, read_yaml

CLAIMS = Path(__file__).parents[2] / "resources" / "paper" / "policy_claims.yaml"
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
            "reference_time_s": 10.0 * n,
            "io_time_s": 0.0,
            "reference_io_time_s": 0.0,
            "gfs_operations": n_calls,
            "background_gfs_operations": copies,
            "reference_gfs_operations": 100 * n,
        }
        | keys
        for n, (time_s, n_calls) in enumerate(zip(times_s, calls, strict=True), start=1)
    ]
    return check_table(pd.DataFrame(rows), "policy_totals")


def score(epochs, totals, loader="posix"):
    claims = score_policy_claims(
        read_policy_claims(CLAIMS), epochs, totals, loader=loader
    )
    return check_table(claims, "policy_claims").set_index("claim")


@pytest.fixture
def claims():
    epochs = [epochs_of([0, 250, 438, 500])]
    for loader, io_time_s, n_opens in (
        ("lmdb", 6.0, 8),
        ("lmdbio-lmm", 5.0, 4),
        ("lmdbio-lmm-dio-prov-coal-stag", 2.0, 4),
    ):
        keys = {"policy": "pinning", "cache_rate_percent": 0, "loader": loader}
        epochs.append(
            epochs_of([0], **keys, io_time_s=io_time_s).assign(gfs_opens=n_opens)
        )
    totals = totals_of([10, 19, 24, 30], [100, 180, 240, 290], copies=15)
    return score(pd.concat(epochs), totals)


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
    # 0, 1/4, 7/16 and, full by then, 1/2.
    assert claims.loc["P4", "value"] == pytest.approx(0, abs=0.02)
    fewer = score(epochs_of([0, 150, 338, 400]), totals_of([1], [1]))
    assert fewer.loc["P4", "value"] == pytest.approx(7.5, abs=0.02)
    assert fewer.loc["P4", "status"] == "does not hold"


def test_what_was_not_run_or_cannot_be_measured_says_why(claims):
    adhoc = claims.loc["P7"]
    assert adhoc["status"] == "not measurable here"
    assert adhoc["details"] == "no run of policy adhoc at a cache rate of 50 %"
    assert claims.loc["P2", "status"] == "not measurable here"
    short = score(epochs_of([0]), totals_of([10, 19], [100, 180]))
    assert short.loc["P1", "details"] == "runs of monarch have no 3 epochs"


def test_slower_monarch_does_not_hold():
    assert (
        score(epochs_of([0]), totals_of([11, 22, 33], [100, 200, 299])).loc[
            "P1", "status"
        ]
        == "does not hold"
    )


def test_text_names_what_is_not_comparable_of_each_claim(claims):
    text = claims_text(claims.reset_index(), "emulated, tests")
    assert text.count("- not comparable: ") == len(claims)
    assert "stated: up to 28 % less training time" in text
    assert "here: 20 % less time (24 instead of 30 s in 3 epochs)" in text
    assert "Source: emulated, tests." in text


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("formula", "guess", "claims.P1.formula: got guess, expected one of time_cut"),
        ("paper", "nobody", "claims.P1.paper: got nobody"),
        ("accept", None, "claims.P1: missing key accept"),
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
