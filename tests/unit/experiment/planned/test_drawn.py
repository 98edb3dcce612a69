"""What declared figures are drawn from, and which of them a report has."""

import pytest
from small_experiments import of_program, runs_of, small_experiment, wildcards
from tierscope.core.output.declared import Declared, declared_figures
from tierscope.core.validation import ConfigError
from tierscope.experiment.planned.comparisons import Comparisons
from tierscope.experiment.planned.drawn import ExperimentFigures
from tierscope.experiment.planned.models import Models

CLAIMS = "resources/paper/policy_claims.yaml"
DECLARED = declared_figures("experiment")
PROVENANCE = (
    "emulated, system scale-model-4x2 (Fugaku in small on four nodes, emulated "
    "devices), 8 processes on "
)
ALWAYS = ["fig1", "fig2", "fig3", "fig4", "fig5"]
ON_NODES = {"studies": {"nodes": {"n_nodes": [1, 2]}}}


def figures_of(experiment):
    runs = runs_of(experiment)
    return ExperimentFigures(runs, Models(runs), Comparisons(runs), CLAIMS)


def declared(name):
    """Return what a figure of tierscope declares."""
    return next(one for one in DECLARED if one.name == name)


@pytest.mark.parametrize(
    ("sweep", "sections", "further"),
    [
        ({}, {}, []),
        ({"ideal": True}, {}, ["fig6"]),
        (
            {"policies": ["pinning", "lru"], "loaders": ["tensorflow", "lmdb"]}
            | {"exclude": {"lru": {"policy": "lru", "loader": "lmdb"}}},
            ON_NODES,
            ["policies", "loaders", "nodes"],
        ),
    ],
)
def test_a_report_has_the_paper_s_figures_and_those_of_comparisons(
    sweep, sections, further
):
    figures = figures_of(small_experiment(sweep=sweep, **sections))
    reported = figures.reported(DECLARED)
    assert [one.file.partition("_")[0] for one in reported] == [*ALWAYS, *further]


def test_each_figure_has_all_that_it_declares():
    """A name that nobody knows is no file and no setting."""
    figures = figures_of(small_experiment())
    for one in DECLARED:
        assert {*one.tables, *one.inputs} < set(figures.inputs(one)), one.name
        assert set(one.settings) <= set(figures.settings(one)), one.name
    unknown = Declared(file="x", title="X", settings=("no such setting",))
    with pytest.raises(
        ValueError, match="got 'no such setting', expected one of epoch"
    ):
        figures.settings(unknown)


def test_tables_are_those_of_the_main_sweep_or_of_a_study():
    figures = figures_of(small_experiment("laptop"))
    breakdown = figures.inputs(declared("breakdown"))
    assert breakdown["breakdown"] == "results/x/tables/breakdown.parquet"
    assert breakdown["observations"] == [
        f"results/x/tables/{name}.parquet" for name in ("verdicts", "drift")
    ]
    predicted = figures.inputs(declared("prediction"))
    assert predicted["predictions"] == "results/x/predict/predictions.parquet"
    assert predicted["observations"][0] == "results/x/predict/verdicts.parquet"
    policies = figures.inputs(declared("policies"))
    assert policies["policy_epochs"] == "results/x/policies/policy_epochs.parquet"
    assert policies["observations"][0] == "results/x/tables/verdicts.parquet"
    assert figures.inputs(declared("nodes"))["policy_claims"] == CLAIMS


def test_a_figure_of_trainings_depends_on_no_run():
    figures, one = figures_of(small_experiment("laptop")), declared("accuracy")
    assert figures.inputs(one)["observations"] == []
    assert list(figures.settings(one)) == ["study"]
    study = figures.settings(one)["study"]
    assert "n_train_files" in study
    assert not {"networks", "margin_points", "with_policies"} & set(study)


def test_figures_say_where_numbers_come_from():
    figures = figures_of(small_experiment(**ON_NODES))
    settings = figures.settings(declared("breakdown"))
    assert settings["provenance"] == f"{PROVENANCE}4 nodes"
    assert settings["dataset_titles"] == {"small": "128 KiB files"}
    assert (
        figures.settings(declared("nodes"))["provenance"] == f"{PROVENANCE}1, 2 nodes"
    )


def test_settings_are_those_of_the_configuration():
    experiment = small_experiment(
        figures={"epoch": 1, "pairs": [["gfs_read", "lfs_read"]]}
    )
    figures = figures_of(experiment)
    shown = figures.settings(declared("sufficient_combinations"))
    assert shown["epoch"] == 1
    assert shown["grid"] == {"max_improvement_percent": 200, "step_percent": 10}
    assert shown["classes"](wildcards(pair="gfs_read_lfs_read")) == [
        "gfs_read",
        "lfs_read",
    ]
    assert list(figures.titles(declared("sufficient_combinations"))) == [
        "fig4_gfs_read_lfs_read"
    ]
    drawn = figures.settings(declared("execution_and_io_time"))["scenarios"]
    assert drawn == [scenario.keys for scenario in experiment.sweep]


@pytest.mark.parametrize("goal", ["io_time", "utilisation"])
def test_the_cheapest_combination_names_the_model_only_if_it_searches(goal):
    goals = {"of": goal, "percent": 50 if goal == "utilisation" else None}
    used = {"whatif": {"goal": goals}, "training": {"compute_time_s": 0.1}}
    figures = figures_of(small_experiment(**used))
    settings = figures.settings(declared("cheapest_combination"))
    assert bool(settings["searching_model"]) == (goal == "utilisation")


def test_policies_of_a_program_have_a_caption_of_their_own():
    ours, program = figures_of(small_experiment()), figures_of(of_program("pinning"))
    assert ours.caption(declared("policies")) == "policies"
    assert program.caption(declared("policies")) == "policies_of_program"
    assert program.caption(declared("breakdown")) == "breakdown"


def test_a_figure_of_ideal_runs_is_refused_without_them():
    figures = figures_of(small_experiment())
    with pytest.raises(ConfigError, match=r"config: sweep\.ideal: got false"):
        figures.refuse(declared("stalls"))()
    assert figures.refuse(declared("breakdown"))() is None
