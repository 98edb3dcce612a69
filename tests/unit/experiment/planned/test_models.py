"""What models and estimates are made of, where an experiment has them."""

import pytest
from small_experiments import of_program, runs_of, small_experiment, wildcards
from tierscope.core.scenario import IDEAL_SWEEP
from tierscope.core.validation import ConfigError
from tierscope.experiment.planned.models import Models

PINNING = "small-60ost-pinning-tensorflow"
RATES = {"cache_rates_percent": [0, 50, 65, 100]}
BY_RULE = {"model": {"calibration": None}, "figures": {"methods": ["rule"]}}
BY_MODEL = {"figures": {"methods": ["model"]}, "training": {"compute_time_s": 0.1}}
TO_BE_USED = {"whatif": {"goal": {"of": "utilisation", "percent": 50}}} | BY_MODEL
OF_IDEAL = {"roots": {"ideal": "/dev/shm/x"}, "sweep": {"ideal": True}}
ALL_OSTS = wildcards(calibration="all-osts")
NO_IDEAL = (
    "config: sweep.ideal: got false, expected true (option --ideal of tierscope "
    "sweep): ideal runs tell the models what a program computes"
)


def models_of(experiment):
    return Models(runs_of(experiment))


def refusal_of(ask, *given):
    """Return the line of the error that a question ends with."""
    with pytest.raises(ConfigError) as refused:
        ask(*given)
    return str(refused.value)


def test_estimates_are_those_of_the_rule_and_of_the_model():
    both, rule = models_of(small_experiment()), small_experiment(**BY_RULE)
    tables = "results/x/tables"
    by_rule = [f"{tables}/estimates.parquet"]
    assert both.estimates == [*by_rule, f"{tables}/estimates_model.parquet"]
    assert both.estimates_by_model == f"{tables}/estimates_model.parquet"
    assert "service times of calibration all-osts" in both.words
    assert models_of(rule).estimates == by_rule
    assert models_of(rule).estimates_by_model == []
    assert models_of(rule).words == ""


def test_estimates_use_the_files_of_the_calibration():
    devices = "results/x/model/all-osts/devices.yaml"
    measured = models_of(small_experiment())
    assert measured.of_estimates("devices.yaml") == devices
    assert measured.of_calibration("devices.yaml") == devices
    by_rule = small_experiment(figures={"methods": ["rule"]})
    assert models_of(by_rule).of_estimates("devices.yaml") == []
    assert models_of(by_rule).of_calibration("devices.yaml") == devices
    simulated = models_of(small_experiment(simulate=True))
    assert simulated.of_estimates("devices.yaml") == []
    assert simulated.of_calibration("devices.yaml") == []
    assert "service times of the system's file" in simulated.words


def test_stalls_are_told_by_the_model_and_limit_where_there_is_computation():
    table = "results/x/tables/class_stalls.parquet"
    without, computing = small_experiment(), small_experiment(**TO_BE_USED)
    assert models_of(without).stalls == table
    assert models_of(without).stalls_of_training == []
    assert models_of(computing).stalls_of_training == table
    by_rule = small_experiment(figures={"methods": ["rule"]})
    assert models_of(by_rule).stalls == models_of(by_rule).stalls_of_training == []
    (told,) = models_of(computing).stalling
    assert told["name"] == PINNING
    assert told["points"] == [
        {"cache_rate_percent": rate, "repetition": 0} for rate in (0, 50)
    ]
    assert told["description"]["source"] == "emulated"


def test_a_goal_of_utilisation_has_tables_of_its_own():
    time, used = (
        models_of(small_experiment()),
        models_of(small_experiment(**TO_BE_USED)),
    )
    assert time.if_goal_of_utilisation("goals") == []
    assert time.searching_words == ""
    assert time.time_goal == {"of": "io_time", "seconds": 4, "percent_of_best": 50}
    assert time.goal_percent is None
    assert used.if_goal_of_utilisation("goals") == "results/x/tables/goals.parquet"
    assert used.searching_words == used.words != ""
    assert used.goal_percent == 50


def test_models_read_the_servers_of_files_on_real_storage_only():
    laptop = small_experiment("laptop", {"loaders": ["tensorflow", "lmdb"]})
    files, database = laptop.sweep
    models = models_of(laptop)
    assert models.manifest(files) == "results/x/datasets/small-0ost.parquet"
    assert models.manifest(database) == []
    assert models.manifests([files]) == [models.manifest(files)]
    assert models.manifests([files, database]) == []
    (program,) = of_program("pinning").sweep
    assert models_of(of_program("pinning")).manifest(program) == []
    (emulated,) = small_experiment().sweep
    assert models_of(small_experiment()).manifest(emulated) == []


def test_each_dataset_of_a_program_has_a_workload_file_of_all_runs_that_read_it():
    models = models_of(of_program("pinning", "none", **OF_IDEAL))
    assert models.workload_files == ["results/x/dlio/workload/small.yaml"]
    asked = wildcards(dataset="small")
    read = models.read_runs("run.json")(asked)
    assert {one.split("/")[3].split("-")[2] for one in read} == {"pinning", "none"}
    (ideal,) = models.read_runs("run.json", IDEAL_SWEEP)(asked)
    assert "+ideal/" in ideal
    manifest = "results/x/datasets/small-0ost-files.parquet"
    assert models.read_manifest(asked) == manifest


def test_programs_are_told_by_their_ideal_runs():
    (ours,) = small_experiment().sweep
    assert models_of(small_experiment()).programs(ours) == []
    with_ideal = models_of(of_program("pinning", **OF_IDEAL))
    name = "small-0ost-pinning-program"
    told = [f"results/x/model/programs/{name}.json"]
    assert with_ideal.predicted_programs(None) == told
    without = models_of(of_program("pinning"))
    assert refusal_of(without.predicted_programs, None) == NO_IDEAL
    seen = with_ideal.seen_runs("io_time.parquet")(wildcards(scenario=name))
    assert len(seen) == 2
    assert with_ideal.seen_ideal_runs("io_time.parquet")(wildcards(scenario=name)) == [
        f"results/x/runs/{name}+ideal/cache-100/rep-0/io_time.parquet"
    ]


def test_runs_of_other_datasets_tell_nothing_of_a_program():
    two = small_experiment(sweep={"datasets": ["small", "large"]})
    seen = models_of(two).seen_runs("io_time.parquet")(wildcards(scenario=PINNING))
    assert len(seen) == 2
    assert all(PINNING in path for path in seen)


def test_probes_read_the_listed_files_of_a_program():
    ours, program = models_of(small_experiment()), models_of(of_program("pinning"))
    probed = wildcards(dataset="small", n_osts=0)
    folder = "results/x/datasets/small-0ost"
    assert ours.probed_manifest(probed) == f"{folder}.parquet"
    assert program.probed_manifest(probed) == f"{folder}-files.parquet"
    description = ours.probe_description(wildcards(dataset="small", n_osts=60))
    assert description["scenario"] == {"n_osts": 60}
    assert description["source"] == "emulated"


def test_a_calibration_is_fitted_to_runs_and_probes():
    models = models_of(small_experiment(sweep=RATES))
    assert models.fitted_runs(ALL_OSTS) == [
        f"results/x/runs/{PINNING}/cache-{rate}/rep-0/io_time.parquet"
        for rate in ("000", "065", "100")
    ]
    probes = "results/x/probes/small-60ost"
    assert models.fitted_probes(ALL_OSTS) == [f"{probes}/probes.parquet"]
    marker = f"results/x/launches/{PINNING}/cache-000_rep-0/1.txt"
    assert models.fitted_facts(ALL_OSTS) == [marker, f"{probes}/probes.json"]
    assert models.fitted_program(ALL_OSTS) == models.fitted_manifest(ALL_OSTS) == []
    assert models.fitted_description(ALL_OSTS)["scenario"]["policy"] == "pinning"
    fitted = ("calibration.parquet", "devices.yaml", "uncertainty.json")
    assert models.fitted(None) == [f"results/x/model/all-osts/{one}" for one in fitted]


def test_calibrations_are_refused_only_on_request():
    simulated = models_of(small_experiment(simulate=True))
    words = (
        "config: model.calibrations.all-osts: got simulated runs, expected measured "
        "ones: the parameters of simulated runs are those of system scale-model-4x2"
    )
    assert refusal_of(simulated.fitted, None) == words
    assert refusal_of(simulated.calibration, ALL_OSTS) == words
    none = {"calibrations": {}, "calibration": None}
    experiment = small_experiment(**BY_RULE)
    experiment.settings["model"].update(none)
    assert refusal_of(models_of(experiment).fitted, None) == (
        "config: model.calibrations: got none"
    )


def test_measured_points_are_predicted_by_calibrations_and_simulated_ones_without():
    measured = models_of(small_experiment(sweep=RATES))
    folder = "results/x/model/all-osts"
    assert measured.predicting_devices(None) == [f"{folder}/devices.yaml"]
    assert measured.predicting_judgements(None) == [
        f"{folder}/calibration.parquet",
        f"{folder}/uncertainty.json",
    ]
    simulated = models_of(small_experiment(sweep=RATES, simulate=True))
    assert simulated.predicting_devices(None) == []
    assert simulated.predicting_judgements(None) == []
    for models in (measured, simulated):
        (pair,) = models.predicted_pairs()
        assert pair[1].name == PINNING
        (study,) = models.predicted_studies(None)
        assert study["pair"]["scenario"]["dataset"] == "small"
        assert study["description"]["scenario"]["policy"] == "pinning"
        assert models.predicted_manifests(None) == []
    assert measured.predicted_pairs()[0][0] != simulated.predicted_pairs()[0][0]


def test_a_prediction_of_fitted_points_only_is_refused():
    models = models_of(small_experiment(sweep={"cache_rates_percent": [50]}))
    assert refusal_of(models.predicted_pairs) == (
        "config: sweep.cache_rates_percent: got only rates that the calibrations fit, "
        "expected others to predict"
    )


def test_only_emulated_and_simulated_devices_become_faster():
    emulated = models_of(small_experiment())
    emulated.refuse_real_devices()
    assert len(emulated.improved_descriptions) == 4
    assert emulated.improved_points[0] == {"cache_rate_percent": 50, "repetition": 0}
    laptop = models_of(small_experiment("laptop"))
    assert refusal_of(laptop.refuse_real_devices) == (
        "whatif-truth: got system laptop with gfs.kind directory, expected emulated "
        "(or simulate: true): the workflow cannot make real storage faster."
    )
    assert laptop.improved_descriptions == laptop.improved_points == []
