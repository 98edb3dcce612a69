"""Which comparisons an experiment allows, and the words of those that it does not."""

import pytest
from small_experiments import of_program, runs_of, small_experiment
from tierscope.core.validation import ConfigError
from tierscope.experiment.planned.comparisons import Comparisons

POLICIES = {"policies": ["pinning", "lru"]}
LOADERS = {"loaders": ["tensorflow", "lmdb"]}
ON_NODES = {"studies": {"nodes": {"n_nodes": [1, 2]}}}
TEXTS = [f"results/x/policies/{name}.txt" for name in ("summary", "claims")]


def comparisons_of(*given, **sections):
    return Comparisons(runs_of(small_experiment(*given, **sections)))


def refusal_of(refuse):
    """Return the line of a refusal, None if there is none."""
    try:
        return refuse()
    except ConfigError as error:
        return str(error)


@pytest.mark.parametrize(
    ("sweep", "sections", "possible"),
    [
        ({}, {}, []),
        (POLICIES, {}, ["policies"]),
        (LOADERS, {}, ["loaders"]),
        ({}, ON_NODES, ["nodes"]),
        (POLICIES | {"datasets": ["small", "large"]}, ON_NODES, ["policies", "nodes"]),
    ],
)
def test_what_the_sweep_allows_is_compared(sweep, sections, possible):
    comparisons = comparisons_of(sweep=sweep, **sections)
    assert comparisons.possible == possible
    assert comparisons.scores_claims == bool(possible)
    assert comparisons.texts == TEXTS[: 1 + bool(possible)]
    assert (refusal_of(comparisons.refuse_impossible) is None) == bool(possible)


def test_policies_of_another_scene_are_not_compared():
    n_osts = {"n_osts": [60, 1], "exclude": {"lru": {"policy": "lru", "n_osts": 60}}}
    assert comparisons_of(sweep=POLICIES | n_osts).possible == []


def test_a_single_policy_is_refused():
    assert refusal_of(comparisons_of().refuse_impossible) == (
        "sweep.policies: got pinning, expected several to compare, one with a cache "
        "rate above 0, or loaders of LMDB, as in config/policies.yaml"
    )


def test_a_sweep_without_a_reference_is_refused():
    sweep = POLICIES | {"cache_rates_percent": [50]}
    comparisons = comparisons_of(sweep=sweep)
    assert comparisons.possible == []
    assert refusal_of(comparisons.refuse_impossible) == (
        "sweep: small-60ost-pinning-tensorflow has no run at cache rate 0, expected a "
        "run of its loader to compare with, such as one of policy none"
    )


def test_policies_of_a_program_are_compared_but_no_claims_scored():
    comparisons = Comparisons(runs_of(of_program("pinning", "lru")))
    assert comparisons.possible == ["policies"]
    assert not comparisons.scores_claims
    assert comparisons.texts == TEXTS[:1]


def test_the_paper_s_claims_are_refused_for_a_program():
    program = Comparisons(runs_of(of_program("pinning")))
    assert refusal_of(program.refuse_programs("scorecard")) == (
        "scorecard: got loader.command, a program of yours; expected one of our "
        "loaders: the models and the paper's claims are about these."
    )
    assert refusal_of(comparisons_of().refuse_programs("scorecard")) is None


def test_the_study_of_nodes_has_tables_if_it_is_configured():
    without, study = comparisons_of(), comparisons_of(**ON_NODES)
    assert without.node_table("node_switches") == []
    assert refusal_of(without.refuse_without_nodes) == (
        "config: studies.nodes.n_nodes: got [], expected numbers of nodes, as in "
        "config/policies.yaml"
    )
    assert study.node_table("node_switches") == [
        "results/x/nodes/node_switches.parquet"
    ]
    assert refusal_of(study.refuse_without_nodes) is None


def test_ideal_runs_are_refused_where_there_are_none():
    assert refusal_of(comparisons_of().refuse_without_ideal) == (
        "config: sweep.ideal: got false, expected true: this target compares runs with "
        "ideal ones, whose storage costs nothing"
    )
    assert (
        refusal_of(comparisons_of(sweep={"ideal": True}).refuse_without_ideal) is None
    )


def test_tests_of_accuracy_judge_a_claim_if_they_are_wanted():
    assert comparisons_of().accuracy_tests() == []
    wanted = comparisons_of(studies={"accuracy": {"with_policies": True}})
    assert wanted.accuracy_tests() == ["results/x/accuracy/accuracy_tests.parquet"]


def test_a_scene_is_that_of_the_figures():
    comparisons = comparisons_of()
    assert comparisons.scene == {
        "dataset": "small",
        "n_osts": 60,
        "loader": "tensorflow",
    }
    assert comparisons.files_and_databases == {"dataset": "small", "n_osts": 60}
