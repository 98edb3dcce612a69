import copy
import math
import re
import shutil
import textwrap
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from snakemake.utils import update_config
from tierscope.core.description import difference_words
from tierscope.core.scenario import Dataset, Point, Scenario
from tierscope.core.studies import without_reference
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.experiment.config import goal_origin, read_experiment
from tierscope.experiment.system import read_system
from tierscope.storage.emulated.library import DEVICES_VERSION

ROOT = Path(__file__).parents[3]
RESOURCES = ROOT / "resources"


@pytest.fixture
def config():
    return read_yaml(ROOT / "config" / "config.yaml")


@pytest.fixture
def four_nodes(config):
    """Return the configuration for a system of four nodes."""
    return config | {"system": "scale-model-4x2"}


def changed(config, path, value):
    """Return a copy of the configuration with one key path set."""
    config = copy.deepcopy(config)
    *parents, key = path.split(".")
    target = config
    for parent in parents:
        target = target[parent]
    target[key] = value
    return config


def on_laptop(config):
    """Return the configuration for a system of plain directories."""
    config = changed(config, "sweep.n_osts", [0]) | {"system": "laptop"}
    return changed(config, "figures.scenario.n_osts", 0)


class KeysOnce(yaml.SafeLoader):
    """YAML takes the last of several equal keys in silence; this reader does not."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: {keys}"
        return super().construct_mapping(node, deep)


@pytest.mark.parametrize(
    "path",
    [*ROOT.glob("config/*.yaml"), *ROOT.glob("workflow/schemas/*.yaml")],
    ids=lambda path: path.name,
)
def test_no_key_of_configurations_and_schemas_is_there_twice(path):
    with path.open() as file:
        assert yaml.load(file, KeysOnce)


def test_default_experiment_is_the_product_of_its_lists(config):
    experiment = read_experiment(config, RESOURCES)
    names = [scenario.name for scenario in experiment.sweep]
    assert names == [
        f"{dataset}-{n_osts}ost-pinning-tensorflow"
        for dataset in ("small", "large")
        for n_osts in (60, 1)
    ]
    rates = set(range(0, 101, 5))
    runs = {
        scenario.name: [
            {one.cache_rate_percent for one in points if one.repetition == repetition}
            for repetition in range(5)
        ]
        for scenario, points in experiment.sweep.items()
    }
    bottom = set(range(50, 81, 5))
    assert runs.pop("small-60ost-pinning-tensorflow") == [rates, *[bottom] * 4]
    assert [*runs.values()] == [[rates, *[set()] * 4]] * 3
    assert experiment.system.n_processes == 8
    assert {one.n_files for one in experiment.datasets.values()} == {192 * 8, 2 * 8}
    assert experiment.system.source == "emulated"


def test_paper_config_is_what_the_paper_ran(config):
    paper = read_yaml(ROOT / "config" / "paper.yaml")
    update_config(config, paper)
    experiment = read_experiment(config, RESOURCES)
    assert experiment.system.n_nodes == 768
    assert experiment.system.n_processes == 3072
    assert experiment.datasets["small"] == Dataset("small", 589824, 131072, 12)
    assert experiment.datasets["large"] == Dataset("large", 6144, 12582912, 2)
    assert [len(points) for points in experiment.sweep.values()] == [21] * 4
    assert {scenario.n_osts for scenario in experiment.sweep} == {60, 1}
    assert experiment.settings["training"]["epochs"] == 3
    assert experiment.settings["training"]["compute_time_s"] == 0
    assert experiment.settings["loader"]["prefetch_batches"] > 0
    assert experiment.system.source == "measured"
    assert experiment.settings["whatif"]["goal"]["seconds"] == 4


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            "sweep.cache_rates_percent",
            [0, 105],
            ["cache_rates_percent.1", "105", "100"],
        ),
        ("sweep.cache_rates_percent", [], ["cache_rates_percent", "[]", "at least 1"]),
        ("studies.accuracy.repetitions", 4, ["repetitions", "4", "from 5 to"]),
        (
            "studies.accuracy.n_train_files",
            5000,
            ["n_train_files", "5000", "multiple of 128"],
        ),
        ("studies.accuracy.n_test_files", 9, ["n_test_files", "9", "at least 10"]),
        ("sweep.cache_rates_percent", [5, 0, 5], ["got 5 2 times", "without dupl"]),
        (
            "sweep.cache_rates_percent",
            [0.5],
            ["cache_rates_percent.0", "0.5", "integer"],
        ),
        ("sweep.repetitions", 0, ["sweep.repetitions", "0", "from 1 to"]),
        ("sweep.repetitions", [], ["sweep.repetitions", "list of at least 1 item"]),
        (
            "sweep.repetitions",
            [{"n_repetitions": 1}],
            ["sweep.repetitions.0.n_repetitions", "from 2 to"],
        ),
        ("sweep.repetitions", [{"n_osts": 60}], ["repetitions.0", "n_repetitions"]),
        (
            "sweep.repetitions",
            [{"n_repetitions": 2, "dataset": "medium"}],
            ["sweep.repetitions.0.dataset", "'medium'", "some of small, large"],
        ),
        ("sweep.datasets", ["huge"], ["sweep.datasets", "huge", "small"]),
        ("sweep.loaders", ["torch"], ["sweep.loaders.0", "torch", "posix"]),
        ("sweep.n_osts", [61], ["sweep.n_osts", "61", "1 to 60"]),
        ("sweep.n_osts", [0], ["sweep.n_osts", "0", "1 to 60"]),
        ("training.epochs", "3", ["training.epochs", "'3'", "integer"]),
        ("training.epochs", True, ["training.epochs", "true", "integer"]),
        ("training.epochs", 3.0, ["training.epochs", "3.0", "integer"]),
        ("datasets.small.n_files", 768.0, ["n_files", "768.0", "integer"]),
        ("sweep.cache_rates_percent", [50.0], ["rates_percent.0", "50.0", "integer"]),
        ("sweep.n_osts", [60.0], ["sweep.n_osts.0", "60.0", "integer"]),
        ("training.compute_time_s", float("nan"), ["compute_time_s", "nan", "number"]),
        ("training.compute_time_s", float("inf"), ["compute_time_s", "inf", "number"]),
        ("figures.improvements", [{"gfs_meta": 0}], ["gfs_meta", "0", "from 1 to"]),
        ("experiment", "bench", ["experiment", "bench", "a name of letters"]),
        ("darshan.runtime", "/x/libdarshan.so", ["darshan.runtime", "/x/", "builtin"]),
        ("training.epohcs", 3, ["training", "epohcs", "epochs"]),
        ("training.compute_time_s", "2 ms", ["compute_time_s", "2 ms", "number"]),
        ("training.compute_time_s", -1, ["compute_time_s", "-1", "from 0 to"]),
        ("training.shuffle", "none", ["training.shuffle", "none", "global, local"]),
        ("datasets.small.n_files", 4, ["datasets.small.n_files", "4", "8 processes"]),
        ("datasets.small.file_size", 9, ["datasets.small", "file_size", "file_size_"]),
        ("datasets.small.file_size_bytes", "128 KiB", ["128 KiB", "integer"]),
        ("datasets.other", {}, ["datasets", "other", "tiny"]),
        ("experiment", "../x", ["experiment", "../x", "a name of letters"]),
        ("system", "cray", ["system", "cray", "scale-model"]),
        ("figures.epoch", 3, ["figures.epoch", "3", "0 to 2"]),
        (
            "figures.scenario.n_osts",
            7,
            ["figures.scenario: got n_osts 7", "figures: {scenario: {n_osts: 60}}"],
        ),
        ("figures.improvements", [{"gfs_write": 5}], ["gfs_write", "gfs_read"]),
        (
            "figures.improvements",
            [{"gfs_meta": 50}, {"gfs_meta": 50}],
            ["figures.improvements", "without duplicates"],
        ),
        ("figures.pairs", [["gfs_meta"]], ["figures.pairs.0", "of 2 items"]),
        ("figures.pairs", [["gfs_meta", "gfs_meta"]], ["pairs.0", "without dupl"]),
        ("figures.pairs", [["gfs_meta", "read"]], ["pairs.0.1", "read", "one of"]),
        ("figures.methods", [], ["figures.methods", "at least 1 item"]),
        ("figures.methods", ["guess"], ["figures.methods.0", "rule, model"]),
        ("model.whatif", "mva", ["model.whatif", "simulation, order-statistics"]),
        ("figures.max_spread_percent", -1, ["max_spread_percent", "-1", "from 0 to"]),
        ("whatif.goal.seconds", 0, ["whatif.goal.seconds", "0", "above 0"]),
        ("whatif.goal.seconds", math.nan, ["whatif.goal.seconds", "nan", "above 0"]),
        ("whatif.goal.of", "meta_time", ["goal.of", "io_time, execution_time"]),
        ("whatif.goal.percent", 0, ["goal.percent", "0", "above 0, at most 100"]),
        ("whatif.goal.percent", 101, ["goal.percent", "101", "at most 100"]),
        ("whatif.goal.percent", 90, ["percent: got 90 with of: io_time", "null"]),
        ("whatif.goal.percent_of_best", 0, ["percent_of_best", "0", "from 1 to 100"]),
        ("whatif.search.step_percent", 1, ["step_percent", "1 to 100 steps", "200"]),
        ("whatif.search.step_percent", 300, ["step_percent", "300", "1 to 100"]),
        ("whatif.search.cost_per_percent.lfs_read", -1, ["cost", "lfs_read", "-1"]),
        ("sweep.exclude", {"a": {"n_osts": 5}}, ["sweep.exclude.a", "5", "match"]),
        ("sweep.exclude", {"a": {"osts": 5}}, ["sweep.exclude.a", "osts", "n_osts"]),
        ("sweep.exclude", {"a": {"n_osts": []}}, ["exclude.a.n_osts", "1 items"]),
        (
            "sweep.exclude",
            {"a": {"policy": "pining", "n_osts": 60}},
            ["sweep.exclude.a.policy", "'pining'", "one of none, pinning, stratified"],
        ),
        (
            "sweep.exclude",
            {"a": {"policy": [], "n_osts": 60}},
            ["exclude.a.policy", "got []", "one of none", "adhoc, or list of at least"],
        ),
        (
            "sweep.exclude",
            {"a": {"loader": ["tensorflow", "lmbd"], "n_osts": 60}},
            [
                "sweep.exclude.a.loader.1",
                "'lmbd'",
                "one of tensorflow, posix, pytorch, lmdb",
            ],
        ),
        (
            "sweep.exclude",
            {"a": {"dataset": ["large", "huge"], "n_osts": 60}},
            ["sweep.exclude.a.dataset", "'huge'", "some of small, large"],
        ),
        ("sweep.policies", "lru", ["sweep.policies", "list", "each one of none, pinn"]),
    ],
)
def test_wrong_value_is_refused_in_one_line_with_key_value_and_expectation(
    config, path, value, words
):
    with pytest.raises(ConfigError) as error:
        read_experiment(changed(config, path, value), RESOURCES)
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_missing_key_is_named(config):
    del config["training"]["seed"]
    with pytest.raises(ConfigError, match="training: missing key seed"):
        read_experiment(config, RESOURCES)


def test_exclusion_leaves_out_what_matches_all_its_keys(config):
    config["sweep"]["exclude"] = {
        "no large files on one OST": {"dataset": "large", "n_osts": 1},
        "one point": {"dataset": "small", "n_osts": 60, "cache_rate_percent": 65},
    }
    sweep = read_experiment(config, RESOURCES).sweep
    assert Scenario("large", 1, "pinning", "tensorflow") not in sweep
    small = sweep[Scenario("small", 60, "pinning", "tensorflow")]
    assert len(small) == 21 - 1 + 4 * 6
    assert 65 not in {point.cache_rate_percent for point in small}


def test_repetitions_are_those_of_all_points_or_of_some(config):
    def numbers(repetitions):
        sweep = read_experiment(
            changed(config, "sweep.repetitions", repetitions), RESOURCES
        ).sweep
        return {
            (one.dataset, one.n_osts): Counter(p.cache_rate_percent for p in points)
            for one, points in sweep.items()
        }

    assert set(numbers(2)["large", 1].values()) == {2}
    some = numbers(
        [
            {"n_repetitions": 3, "dataset": "small", "n_osts": [60, 1]},
            {"n_repetitions": 2, "cache_rate_percent": 50},
        ]
    )
    assert set(some["small", 60].values()) == {3}
    assert some["large", 60][50] == 2
    assert some["large", 60][55] == 1


def test_points_of_a_launch_are_ordered_by_repetition_then_cache_rate(config):
    config = changed(config, "sweep.cache_rates_percent", [65, 0, 50])
    sweep = read_experiment(changed(config, "sweep.repetitions", 2), RESOURCES).sweep
    points = [Point(rate, repetition) for repetition in (0, 1) for rate in (0, 50, 65)]
    assert [*sweep.values()] == [tuple(points)] * 4


def test_policies_and_databases_are_compared_where_each_can_be(config):
    update_config(config, read_yaml(ROOT / "config" / "policies.yaml"))
    sweep = read_experiment(config, RESOURCES).sweep
    rates = {
        (scenario.policy, scenario.loader): sorted(
            {point.cache_rate_percent for point in points}
        )
        for scenario, points in sweep.items()
    }
    policies = config["sweep"]["policies"]
    files = {(policy, "tensorflow"): [50, 100] for policy in policies}
    files["none", "tensorflow"] = [0]
    databases = {
        ("pinning", loader): [0, 50]
        for loader in config["sweep"]["loaders"]
        if loader != "tensorflow"
    }
    assert rates == files | databases
    assert without_reference(sweep) is None


def test_exclusion_may_list_values_of_a_key(config):
    config["sweep"]["exclude"] = {
        "large": {"dataset": ["large"], "n_osts": [60, 1]},
        "some rates": {"n_osts": 1, "cache_rate_percent": [0, 65, 100]},
    }
    sweep = read_experiment(config, RESOURCES).sweep
    numbers = {(one.dataset, one.n_osts): len(points) for one, points in sweep.items()}
    assert numbers == {("small", 60): 21 + 4 * 7, ("small", 1): 18}


def test_exclusion_may_name_what_this_sweep_leaves_out(config):
    config["sweep"]["exclude"] = {
        "large": {"dataset": ["large", "tiny"], "policy": ["pinning", "lru"]},
    }
    sweep = read_experiment(config, RESOURCES).sweep
    assert {scenario.dataset for scenario in sweep} == {"small"}


@pytest.mark.parametrize(
    ("lists", "fit"),
    [
        ({"policies": ["adhoc", "none", "lru"]}, "{policy: lru}"),
        ({"policies": ["adhoc", "none"]}, "{policy: none}"),
        ({"policies": ["lru"], "loaders": ["posix"]}, "{policy: lru, loader: posix}"),
        (
            {"datasets": ["large"], "loaders": ["posix", "tensorflow"]},
            "{dataset: large}",
        ),
    ],
)
def test_scenario_of_the_figures_that_is_not_run_is_answered_by_one_that_fits(
    config, lists, fit
):
    config["sweep"] |= lists
    with pytest.raises(ConfigError, match="such as figures: ") as error:
        read_experiment(config, RESOURCES)
    setting = yaml.safe_load(str(error.value).split("such as ")[1])
    assert setting == {"figures": {"scenario": yaml.safe_load(fit)}}
    update_config(config, setting)
    config["model"]["calibration"] = None
    config["system"] = "scale-model-4x2"
    assert read_experiment(config, RESOURCES)


@pytest.fixture
def example():
    """Return the example of a comparison in docs/policies.md."""
    text = (ROOT / "docs" / "policies.md").read_text()
    (block,) = re.findall(r"^    experiment: mine\n(?:    .+\n)+", text, re.M)
    return yaml.safe_load(textwrap.dedent(block))


def test_example_of_the_page_can_be_run_as_it_stands(config, example):
    update_config(config, example)
    sweep = read_experiment(config, RESOURCES).sweep
    assert {scenario.policy for scenario in sweep} == set(example["sweep"]["policies"])
    assert without_reference(sweep) is None


def test_scenario_proposed_for_the_figures_uses_the_local_file_system(config, example):
    del example["figures"]
    update_config(config, example)
    with pytest.raises(
        ConfigError, match=r"figures: \{scenario: \{policy: monarch\}\}"
    ):
        read_experiment(config, RESOURCES)


def test_hash_depends_on_what_the_measurement_depends_on_only(config):
    def hash_of(config):
        experiment = read_experiment(config, RESOURCES)
        scenario = Scenario("small", 60, "pinning", "tensorflow")
        return experiment.description(scenario).hash

    reference = hash_of(config)
    assert hash_of(changed(config, "sweep.cache_rates_percent", [0, 50])) == reference
    assert hash_of(changed(config, "figures.epoch", 0)) == reference
    assert hash_of(changed(config, "training.seed", 2)) != reference
    assert hash_of(changed(config, "datasets.small.n_files", 800)) != reference


@pytest.mark.parametrize("path", sorted(RESOURCES.glob("systems/*.yaml")))
def test_every_system_file_is_accepted(path):
    assert read_system(path.stem, path.parent).name == path.stem


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gfs": {"kind": "emulated", "root": "x"}}, ["missing key emulation"]),
        ({"lfs": {"kind": "lustre", "root": "x"}}, ["lfs.kind", "lustre"]),
        ({"gfs": {"kind": "lustre", "root": "x"}}, ["gfs", "missing key n_osts"]),
        ({"lfs": {"kind": "directory", "root": "scratch/gfs"}}, ["lfs.root", "apart"]),
        ({"n_nodes": 2.0}, ["n_nodes", "2.0", "integer"]),
        ({"n_nodes": 0}, ["n_nodes", "0", "from 1 to"]),
        (
            {"gfs": {"kind": "directory", "root": "a\tb"}},
            ["gfs.root", "a path without NUL, tabs"],
        ),
        ({"ndoes": 2}, ["ndoes", "n_nodes"]),
    ],
)
def test_wrong_system_file_is_refused_with_its_name(tmp_path, change, words):
    system = read_yaml(RESOURCES / "systems" / "laptop.yaml") | change
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(system))
    with pytest.raises(ConfigError) as error:
        read_system("bad", tmp_path)
    for word in ["bad.yaml", *words]:
        assert word in str(error.value)


def test_source_of_a_number_that_is_not_there_is_refused(tmp_path):
    system = read_yaml(RESOURCES / "systems" / "fugaku.yaml")
    system["devices"]["sources"]["lfs"]["open_s"] = "a guess"
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(system))
    words = r"bad.yaml: devices.sources.lfs: got unknown key open_s, expected"
    with pytest.raises(ConfigError, match=words):
        read_system("bad", tmp_path)


def test_impossible_emulation_is_refused(config, tmp_path):
    shutil.copytree(RESOURCES, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "systems" / "fugaku.yaml"
    system = read_yaml(path)
    system["devices"]["gfs"]["open_s"] = 10
    path.write_text(yaml.safe_dump(system))
    with pytest.raises(ConfigError, match=r"system scale-model: emulation: .*open_s"):
        read_experiment(config, tmp_path)


EMULATED = {"kind": "emulated", "root": "scratch/gfs"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"lfs": {"kind": "directory", "root": "scratch/lfs"}},
            "lfs.kind: got directory, expected emulated as the other tier",
        ),
        (
            {"emulation": {"model_of": "fugaku", "processes_per_lfs_server": 3}},
            "processes_per_lfs_server: got 3, expected a multiple of processes_per_no",
        ),
        (
            {"emulation": {"model_of": "fugaku", "processes_per_lfs_server": 0}},
            "processes_per_lfs_server: got 0, expected integer from 1 to 9999999",
        ),
    ],
)
def test_emulation_that_does_not_fit_is_refused(tmp_path, change, words):
    shutil.copytree(RESOURCES / "systems", tmp_path, dirs_exist_ok=True)
    system = read_yaml(tmp_path / "scale-model.yaml") | change
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(system))
    with pytest.raises(ConfigError, match=re.escape(words)) as error:
        read_system("bad", tmp_path)
    assert "\n" not in str(error.value)


def test_emulation_has_its_defaults(tmp_path):
    shutil.copytree(RESOURCES / "systems", tmp_path, dirs_exist_ok=True)
    path = tmp_path / "scale-model.yaml"
    changed = read_yaml(path) | {"emulation": {"model_of": "fugaku"}}
    path.write_text(yaml.safe_dump(changed))
    system = read_system("scale-model", tmp_path)
    assert system.emulation == {
        "model_of": "fugaku",
        "processes_per_lfs_server": 64,
    }


VARYING = {"distribution": "normal", "mean_s": 1, "stdev_s": 0.1}


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("training.synchronise", "step", "training.synchronise: got step with policy"),
        ("training.compute_time_s", VARYING, "compute_time_s: got a distribution with"),
        (
            "sweep.loaders",
            ["pytorch"],
            "sweep.loaders: got pytorch with policy monarch",
        ),
    ],
)
def test_steps_and_workers_are_for_files_that_do_not_move(config, path, value, words):
    here = changed(config, path, value)
    loader = here["sweep"]["loaders"][0]
    here = changed(here, "figures.scenario.loader", loader)
    read_experiment(changed(here, "sweep.policies", ["none", "pinning"]), RESOURCES)
    moving = changed(here, "sweep.policies", ["pinning", "monarch"])
    with pytest.raises(ConfigError, match=re.escape(words)) as error:
        read_experiment(moving, RESOURCES)
    assert "expected policy none, pinning or stratified-pinning" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        (-1, "got -1, expected a number from 0 to 86400, or {distribution"),
        (
            {"distribution": "gamma", "mean_s": 1, "stdev_s": 0},
            "got 'gamma', expected one of constant",
        ),
        ({"distribution": "normal", "mean_s": 1}, "missing key stdev_s"),
        (VARYING | {"distribution": "constant"}, "stdev_s: got 0.1, expected 0 with"),
        (
            VARYING | {"distribution": "lognormal", "mean_s": 0},
            "lognormal and mean_s 0",
        ),
        (VARYING | {"cv": 1}, "got unknown key cv, expected some of distribution"),
    ],
)
def test_wrong_compute_time_is_refused_in_one_line(config, compute, words):
    with pytest.raises(ConfigError, match=re.escape(words)) as error:
        read_experiment(changed(config, "training.compute_time_s", compute), RESOURCES)
    assert "training.compute_time_s" in str(error.value)


@pytest.mark.parametrize(
    ("workers", "factor", "words"),
    [
        (65, 1, "loader.workers: got 65, expected at most 64 on the emulated tiers"),
        (
            4,
            63,
            "prefetch_factor: got 63 with 4 workers, 252 batches, expected at most",
        ),
    ],
)
def test_virtual_time_has_room_for_some_workers(config, workers, factor, words):
    config = changed(config, "sweep.loaders", ["pytorch"])
    config = changed(config, "figures.scenario.loader", "pytorch")
    config["loader"] |= {"workers": workers, "prefetch_factor": factor}
    with pytest.raises(ConfigError, match=re.escape(words)):
        read_experiment(config, RESOURCES)
    read_experiment(config | {"simulate": True}, RESOURCES)


def test_loader_pytorch_depends_on_no_setting_of_other_loaders(config):
    config = changed(config, "sweep.loaders", ["pytorch"])
    config = changed(config, "figures.scenario.loader", "pytorch")
    config["loader"] |= {"read_threads": 4, "prefetch_batches": 300, "workers": 1}
    config["whatif"]["goal"] |= {"of": "execution_time"}
    for simulate in (True, False):
        read_experiment(config | {"simulate": simulate}, RESOURCES)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sweep.loaders", ["pytorch"]),
        ("training.synchronise", "step"),
        ("training.compute_time_s", VARYING),
    ],
)
def test_only_the_simulation_knows_steps_and_workers(config, path, value):
    config = changed(changed(config, path, value), "simulate", True)
    loader = config["sweep"]["loaders"][0]
    config = changed(config, "figures.scenario.loader", loader)
    assert read_experiment(config, RESOURCES).why_no_model is None
    other = changed(config, "model.whatif", "order-statistics")
    words = "model.whatif: got order-statistics, expected simulation"
    assert words in read_experiment(other, RESOURCES).why_no_model


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("loader.prefetch_batches", 251, "prefetch_batches: got 251, expected at most"),
        ("loader.read_threads", 2, "loader.read_threads: got 2, expected 1 on the emu"),
        ("policies.copy_threads", 65, "copy_threads: got 65, expected at most 64 on"),
    ],
)
def test_what_virtual_time_cannot_do_is_refused_unless_simulated(
    config, path, value, words
):
    wrong = changed(config, path, value)
    with pytest.raises(ConfigError, match=re.escape(words)) as error:
        read_experiment(wrong, RESOURCES)
    assert "\n" not in str(error.value)
    if value != 2:  # the simulator knows no threads either
        read_experiment(wrong | {"simulate": True}, RESOURCES)


def test_site_darshan_is_for_real_tiers(config, tmp_path):
    shutil.copytree(RESOURCES, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "systems" / "scale-model.yaml"
    text = path.read_text()
    assert "launch: all" in text
    path.write_text(text.replace("launch: all", "launch: 1"))
    experiment = read_experiment(config, tmp_path)
    assert experiment.runtime == "builtin"
    config["darshan"]["runtime"] = "/x/libdarshan.so"
    with pytest.raises(ConfigError, match=r"got '/x/libdarshan.so', expected auto or"):
        read_experiment(config, tmp_path)


@pytest.mark.parametrize("runtime", ["auto", "/x/libdarshan.so"])
def test_site_darshan_does_not_see_workers(config, tmp_path, runtime):
    shutil.copytree(RESOURCES, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "systems" / "laptop.yaml"
    path.write_text(path.read_text().replace("launch: all", "launch: 1"))
    config = on_laptop(changed(config, "sweep.loaders", ["pytorch"]))
    config["figures"]["scenario"]["loader"] = "pytorch"
    config["darshan"]["runtime"] = runtime
    alone = changed(config, "loader.workers", 0)
    assert read_experiment(alone, tmp_path).runtime == runtime
    if runtime == "auto":
        assert read_experiment(config, tmp_path).runtime == "builtin"
        return
    message = r"got '/x/libdarshan.so', expected auto or builtin .* loader.workers 2: "
    with pytest.raises(ConfigError, match=message):
        read_experiment(config, tmp_path)


def test_time_of_workers_is_no_part_of_the_execution_time(config):
    config = on_laptop(changed(config, "sweep.loaders", ["pytorch"]))
    config["figures"]["scenario"]["loader"] = "pytorch"
    config["whatif"]["goal"]["of"] = "execution_time"
    for workers in (0, 1):
        read_experiment(changed(config, "loader.workers", workers), RESOURCES)
    with pytest.raises(ConfigError, match=r"pytorch and loader.workers 2: I/O time is"):
        read_experiment(config, RESOURCES)


def test_emulated_runs_depend_on_the_version_of_the_devices(config):
    experiment = read_experiment(config, RESOURCES)
    description = experiment.description(next(iter(experiment.sweep)))
    assert description.system.emulation == {
        "devices_version": DEVICES_VERSION,
        "model_of": "fugaku",
        "processes_per_lfs_server": 4,
    }
    old = copy.deepcopy(description.as_json())
    old["system"]["emulation"] |= {"devices_version": 2, "clock": "virtual"}
    assert difference_words(old, description.as_json(), most=1) == (
        f"system.emulation.devices_version 2 (now {DEVICES_VERSION})"
    )
    simulated = read_experiment(config | {"simulate": True}, RESOURCES)
    described = simulated.description(next(iter(experiment.sweep)))
    assert "devices_version" not in described.system.emulation


def test_auto_runtime_is_builtin_where_launches_run_several_points(config):
    experiment = read_experiment(config, RESOURCES)
    (scenario, *_) = experiment.sweep
    assert experiment.description(scenario).runtime == "builtin"


def test_dataset_title_names_the_file_size():
    assert Dataset("small", 8, 131072, 1).title == "128 KiB files"
    assert Dataset("large", 8, 12582912, 1).title == "12 MiB files"


def for_utilisation(config):
    """Return the configuration, simulated, with a goal of utilisation."""
    config = changed(config, "training.compute_time_s", 0.4) | {"simulate": True}
    config["whatif"]["goal"] |= {"of": "utilisation", "percent": 90}
    return config


def test_a_goal_of_utilisation_leaves_the_rule_out(config):
    experiment = read_experiment(for_utilisation(config), RESOURCES)
    assert experiment.methods == ("model",)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("whatif.goal.percent", None, "goal.percent: got null, expected the least"),
        ("training.compute_time_s", 0, "compute_time_s: got 0, expected more"),
        ("figures.methods", ["rule"], "methods: got only rule, expected model"),
        ("model.whatif", "order-statistics", "got order-statistics, expected simul"),
        ("sweep.policies", ["lru"], "no model: figures.scenario: got policy lru"),
        ("sweep.loaders", ["lmdb"], "no model: figures.scenario: got policy pinning"),
        ("datasets.small.batch_size", 192, "batch_size: got 192 for 192 files"),
    ],
)
def test_a_goal_of_utilisation_needs_a_model_that_knows_it(config, path, value, words):
    config = changed(for_utilisation(config), path, value)
    for key, name in (("policies", "policy"), ("loaders", "loader")):
        config["figures"]["scenario"][name] = config["sweep"][key][0]
    config["sweep"]["repetitions"] = 1
    with pytest.raises(ConfigError, match=words):
        read_experiment(config, RESOURCES)


def test_a_goal_of_utilisation_needs_a_calibration_unless_simulated(config):
    config = changed(for_utilisation(config), "model.calibration", None)
    read_experiment(config, RESOURCES)
    with pytest.raises(ConfigError, match=r"no model: model.calibration: got null"):
        read_experiment(config | {"simulate": False}, RESOURCES)


def test_execution_time_of_several_read_threads_is_no_goal(config):
    config["whatif"]["goal"]["of"] = "execution_time"
    config = on_laptop(config)
    read_experiment(config, RESOURCES)
    config["loader"]["read_threads"] = 2
    with pytest.raises(ConfigError, match=r"whatif\.goal\.of.*thread-seconds"):
        read_experiment(config, RESOURCES)


def test_studies_take_the_sweep_and_improve_its_main_scenario(config):
    config["studies"]["whatif_truth"] = {
        "improvements": [{"gfs_meta": 50}, {"gfs_meta": 140, "lfs_read": 120}],
        "cache_rates_percent": [65, 60],
        "repetitions": 3,
    }
    experiment = read_experiment(config, RESOURCES)
    predict, truth = experiment.studies["predict"], experiment.studies["whatif-truth"]
    assert predict == experiment.sweep
    assert [scenario.name for scenario in truth] == [
        "small-60ost-pinning-tensorflow",
        "small-60ost-pinning-tensorflow+gfs_meta50",
        "small-60ost-pinning-tensorflow+gfs_meta140+lfs_read120",
    ]
    assert set(truth.values()) == {
        tuple(Point(rate, repetition) for repetition in range(3) for rate in (60, 65))
    }


def test_launch_runs_the_points_that_no_earlier_sweep_has(config):
    small = Scenario("small", 60, "pinning", "tensorflow")
    config = changed(config, "sweep.cache_rates_percent", [0, 65])
    experiment = read_experiment(config, RESOURCES)
    of_truth = experiment.studies["whatif-truth"][small]
    assert experiment.launch_of(small, Point(65, 1)) == experiment.sweep[small]
    new = tuple(point for point in of_truth if point not in experiment.sweep[small])
    assert experiment.launch_of(small, Point(55, 0)) == new
    everything = experiment.all_points[small]
    assert len(everything) == len(set(everything))
    assert set(everything) == {*experiment.sweep[small], *of_truth}


def test_launch_on_real_tiers_runs_a_repetition_in_an_order_of_the_seed(config):
    update_config(config, read_yaml(ROOT / "config" / "realfs.yaml"))
    experiment = read_experiment(config, RESOURCES)
    (scenario,) = experiment.sweep
    launch = experiment.launch_of(scenario, Point(40, 0))
    order = (90, 80, 50, 70, 30, 10, 40, 0, 60, 100, 20)
    assert tuple(point.cache_rate_percent for point in launch) == order
    assert {point.repetition for point in launch} == {0}
    assert (scenario, tuple(sorted(launch))) in experiment.launches


def test_launch_of_a_cluster_runs_one_point(config):
    config = changed(config, "system", "cluster")
    config["darshan"]["runtime"] = "builtin"
    experiment = read_experiment(config, RESOURCES)
    assert {len(points) for _, points in experiment.launches} == {1}


def test_default_studies_run_nothing_twice(config):
    experiment = read_experiment(config, RESOURCES)
    small = Scenario("small", 60, "pinning", "tensorflow")
    for scenario, points in experiment.all_points.items():
        assert scenario.improvements or points == experiment.sweep[scenario]
    truth = experiment.studies["whatif-truth"]
    assert len(truth) == 4
    assert {len(points) for points in truth.values()} == {7 * 3}
    assert set(truth[small]) < set(experiment.sweep[small])


def test_improved_scenario_is_run_by_a_system_of_another_name(config):
    experiment = read_experiment(config, RESOURCES)
    small = Scenario("small", 60, "pinning", "tensorflow")
    improved = replace(small, improvements=(("gfs_meta", 50),))
    plain = experiment.description(small)
    assert "improvements" not in plain.as_json()["system"]
    description = experiment.description(improved)
    assert description.scenario == plain.scenario
    assert description.system.name == "scale-model+gfs_meta50"
    assert description.system.improvements == {"gfs_meta": 50}
    assert description.hash != plain.hash


NODES = {
    "n_nodes": [1, 4, 8],
    "loaders": ["lmdb"],
    "cache_rate_percent": 50,
    "repetitions": 2,
}


def test_study_of_nodes_divides_the_processes_among_them(four_nodes):
    assert read_experiment(four_nodes, RESOURCES).studies["nodes"] == {}
    four_nodes["studies"]["nodes"] = NODES
    experiment = read_experiment(four_nodes, RESOURCES)
    study = experiment.studies["nodes"]
    points = {
        scenario.name: {point.path for point in some}
        for scenario, some in study.items()
        if scenario.n_nodes == 8
    }
    both = ("rep-0", "rep-1")
    assert points == {
        "small-60ost-none-tensorflow+nodes8": {f"cache-000/{one}" for one in both},
        "small-60ost-monarch-tensorflow+nodes8": {f"cache-050/{one}" for one in both},
        "small-60ost-pinning-lmdb+nodes8": {f"cache-000/{one}" for one in both},
    }
    assert len(study) == 9
    # Four nodes are the system's own: named like the scenarios of its sweep.
    assert [scenario.n_nodes for scenario in study] == [1] * 3 + [None] * 3 + [8] * 3
    systems = {
        scenario.n_nodes: experiment.description(scenario).system for scenario in study
    }
    arranged = {
        system.name: (system.n_nodes, system.processes_per_node)
        for system in systems.values()
    }
    assert arranged == {
        "scale-model-4x2+nodes1": (1, 8),
        "scale-model-4x2": (4, 2),
        "scale-model-4x2+nodes8": (8, 1),
    }
    sharing = {
        n_nodes: system.emulation["processes_per_lfs_server"]
        for n_nodes, system in systems.items()
    }
    assert sharing == {1: 8, None: 8, 8: 8}  # one server for all
    one_node = next(iter(study))
    assert experiment.job(one_node, study[one_node]).system.processes_per_node == 8


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            "studies.nodes.n_nodes",
            [2, 3],
            r"studies.nodes.n_nodes: got 3, expected divisors of 8",
        ),
        (
            "figures.scenario.loader",
            "lmdb",
            r"studies.nodes.n_nodes: got .*, expected \[\] with loader lmdb",
        ),
        (
            "simulate",
            True,
            r"studies.nodes.n_nodes: got .*, expected \[\] for simul",
        ),
        ("studies.nodes.loaders", ["posix"], r"studies.nodes.loaders.0: got 'posix'"),
        ("studies.nodes.n_nodes", [0], r"studies.nodes.n_nodes.0: got 0"),
    ],
)
def test_study_of_nodes_that_cannot_be_made_is_refused(config, path, value, words):
    config["studies"]["nodes"] = NODES
    config["sweep"]["loaders"] = ["tensorflow", "lmdb"]
    with pytest.raises(ConfigError, match=words):
        read_experiment(changed(config, path, value), RESOURCES)


def test_measured_storage_cannot_be_made_faster(config):
    config["system"] = "fugaku"
    config["datasets"] = {name: {"n_files": 6144} for name in config["datasets"]}
    experiment = read_experiment(config, RESOURCES)
    assert experiment.studies["whatif-truth"] == {}
    assert experiment.studies["predict"]


def test_improvements_are_estimated_by_rule_and_model(config):
    experiment = read_experiment(config, RESOURCES)
    assert experiment.methods == ("rule", "model")
    assert experiment.used_calibration == "all-osts"
    by_model = read_experiment(changed(config, "figures.methods", ["model"]), RESOURCES)
    assert by_model.methods == ("model",)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("model.calibration", None, "model.calibration: got null"),
        (
            "model.calibrations.all-osts.cache_rates_percent",
            [0, 64],
            "cache_rates_percent: got 64",
        ),
    ],
)
def test_without_a_model_the_rule_remains_and_the_reason_is_known(
    config, path, value, words
):
    config["whatif"]["goal"]["of"] = "io_time"
    config = changed(config, path, value)
    experiment = read_experiment(config, RESOURCES)
    assert experiment.methods == ("rule",)
    assert words in experiment.why_no_model
    with pytest.raises(ConfigError, match=r"figures\.methods: got only model") as error:
        read_experiment(changed(config, "figures.methods", ["model"]), RESOURCES)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("rates", "fitted"),
    [
        ([0, 5, 60, 65, 70, 100], [0, 65, 100]),
        ([10, 20, 30, 40], [10, 30, 40]),
        ([0, 50, 100], [0, 100]),
        ([0, 50], [50]),
        ([0, 100], [0]),
        ([30], [30]),
    ],
)
def test_calibration_takes_rates_of_the_sweep_and_leaves_some(config, rates, fitted):
    experiment = read_experiment(
        changed(config, "sweep.cache_rates_percent", rates), RESOURCES
    )
    assert list(experiment.calibration("all-osts").calibrated_percent) == fitted
    assert experiment.methods == ("rule", "model")


def test_calibration_takes_all_repetitions_of_measured_runs(config):
    config["sweep"]["repetitions"] = 3
    config["sweep"]["cache_rates_percent"] = [0, 50, 100]
    plan = read_experiment(config, RESOURCES).calibration("all-osts")
    assert plan.points == (Point(0, 0), Point(100, 0))  # emulated
    config["system"], config["sweep"]["n_osts"] = "realfs", [4]
    config["figures"]["scenario"]["n_osts"] = 4
    plan = read_experiment(config, RESOURCES).calibration("all-osts")
    assert plan.points == tuple(Point(rate, n) for rate in (0, 100) for n in range(3))
    assert plan.calibrated_percent == (0, 100)


def test_calibrations_follow_the_osts_of_the_sweep(config):
    config = changed(config, "sweep.n_osts", [24, 3])
    config = changed(config, "figures.scenario.n_osts", 24)
    config["sweep"]["repetitions"] = 1
    experiment = read_experiment(config, RESOURCES)
    (plan,) = experiment.calibrations.values()
    assert (plan.name, plan.scenario.n_osts) == ("all-osts", 24)
    assert plan.probed_n_osts == (24, 3)
    assert plan.parameters is None
    assert plan.tries_structures
    config["model"]["calibrations"]["all-osts"] = {"structures": "none"}
    plan = read_experiment(config, RESOURCES).calibration("all-osts")
    assert not plan.tries_structures
    (reason,) = experiment.left_out_calibrations.values()
    assert "one-ost.scenario: got small-1ost-pinning-tensorflow, expected" in reason


def test_calibration_takes_what_the_models_know_if_the_figures_show_something_else(
    config,
):
    config["sweep"]["loaders"].append("lmdb")
    config["figures"]["scenario"]["loader"] = "lmdb"
    config["system"] = "scale-model-4x2"
    plan = read_experiment(config, RESOURCES).calibration("all-osts")
    assert plan.scenario.name == "small-60ost-pinning-tensorflow"


@pytest.mark.parametrize("key", ["cache_rates_percent", "probed_n_osts", "parameters"])
def test_only_auto_is_a_word_for_what_a_calibration_takes(config, key):
    path = f"model.calibrations.all-osts.{key}"
    with pytest.raises(ConfigError, match=rf"{key}: got 'all', expected auto, or list"):
        read_experiment(changed(config, path, "all"), RESOURCES)


@pytest.mark.parametrize("name", ["limit_bytes_per_s", "limit_credit_bytes"])
def test_calibration_of_emulated_devices_fits_no_rate_limit(config, name):
    path = "model.calibrations.all-osts.parameters"
    config = changed(config, path, ["gfs.open_s", f"gfs.{name}", "lfs.request_s"])
    experiment = read_experiment(config, RESOURCES)
    reason = experiment.left_out_calibrations["all-osts"]
    assert f"{path}: got gfs.{name}, expected parameters of emulated" in reason
    real = replace(experiment, system=replace(experiment.system, emulation=None))
    assert len(real.calibration("all-osts").parameters) == 3


@pytest.mark.parametrize("loader", ["lmdb", "lmdbio"])
def test_databases_are_read_in_virtual_time_if_their_tokens_are_remembered(
    config, loader
):
    config = changed(config, "sweep.loaders", ["tensorflow", loader])
    read_experiment(config, RESOURCES)
    config = changed(config, "datasets.small.n_files", 8 * 12 * 4001)
    config = changed(config, "lmdb.coalesced_bytes", 1)
    if loader == "lmdb":  # without tokens
        read_experiment(config, RESOURCES)
    else:
        words = "got lmdbio, whose readers give 4001 tokens in an epoch of small, expec"
        with pytest.raises(ConfigError, match=words):
            read_experiment(config, RESOURCES)


def test_a_system_without_devices_has_no_model(config):
    experiment = read_experiment(on_laptop(config), RESOURCES)
    assert experiment.methods == ("rule",)
    assert "system laptop has no devices" in experiment.why_no_model


@pytest.mark.parametrize(
    ("key", "value", "model"),
    [
        ("policy", "stratified-pinning", "order-statistics"),
        ("policy", "monarch", "simulation"),
        ("loader", "lmdbio", "simulation"),
    ],
)
def test_what_a_model_does_not_know_is_estimated_by_rule_only(
    config, key, value, model
):
    config["model"]["whatif"] = model
    listed = {"policy": "policies", "loader": "loaders"}[key]
    config["sweep"][listed].append(value)
    config["system"] = "scale-model-4x2"
    assert read_experiment(config, RESOURCES).methods == ("rule", "model")
    studied = read_experiment(config, RESOURCES).sweeps["predict"]
    assert value not in {getattr(scenario, key) for scenario in studied}
    config["figures"]["scenario"][key] = value
    experiment = read_experiment(config, RESOURCES)
    assert experiment.methods == ("rule",)
    assert value in experiment.why_no_model


@pytest.mark.parametrize("policy", ["none", "stratified-pinning"])
def test_the_simulation_knows_all_policies_of_files_that_do_not_move(config, policy):
    config["sweep"]["policies"].append(policy)
    config["figures"]["scenario"]["policy"] = policy
    config["system"] = "scale-model-4x2"
    assert read_experiment(config, RESOURCES).methods == ("rule", "model")


def test_a_simulated_experiment_needs_no_calibration(config):
    config["simulate"] = True
    config["model"]["calibration"] = None
    experiment = read_experiment(config, RESOURCES)
    assert experiment.methods == ("rule", "model")
    assert experiment.used_calibration is None


def test_options_of_policies_belong_to_the_runs_that_use_them(four_nodes):
    def described(path=None, value=None):
        wanted = changed(four_nodes, "sweep.policies", ["pinning", "lru", "monarch"])
        if path:
            wanted = changed(wanted, path, value)
        experiment = read_experiment(wanted, RESOURCES)
        return {
            scenario.policy: experiment.description(scenario)
            for scenario in experiment.sweep
        }

    before, after = described(), described("policies.stop", "first-fit")
    assert "policy" not in before["pinning"].as_json()
    assert before["monarch"].policy_options["stop"] == "first-misfit"
    assert [policy for policy in before if before[policy] != after[policy]] == [
        "monarch"
    ]
    after = described("policies.copy_threads", 1)
    assert before["pinning"] == after["pinning"]
    assert before["lru"] != after["lru"]


@pytest.fixture
def with_adhoc(four_nodes):
    return changed(four_nodes, "sweep.policies", ["pinning", "adhoc"])


def test_options_of_adhoc_belong_to_its_runs_only(with_adhoc):
    def described(config):
        experiment = read_experiment(config, RESOURCES)
        return {
            scenario.policy: experiment.description(scenario)
            for scenario in experiment.sweep
        }

    before = described(with_adhoc)
    after = described(changed(with_adhoc, "policies.adhoc.server_threads", 9))
    assert before["pinning"] == after["pinning"]
    assert before["adhoc"].policy_options == {"mount": None, "server_threads": 4}
    assert after["adhoc"].policy_options["server_threads"] == 9


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("policies.adhoc.mount", "relative", "expected an absolute path"),
        ("policies.adhoc.mount", "/gkfs", "expected null with the emulated devices"),
        ("figures.scenario.policy", "adhoc", "got adhoc, expected one that reads from"),
    ],
)
def test_what_adhoc_cannot_do_is_refused(with_adhoc, path, value, message):
    with pytest.raises(ConfigError, match=f"{path}: .*{message}"):
        read_experiment(changed(with_adhoc, path, value), RESOURCES)


def test_run_without_lfs_is_made_at_cache_rate_0_only(config):
    config = changed(config, "sweep.policies", ["none", "pinning"])
    config = changed(config, "sweep.cache_rates_percent", [50, 100])
    sweep = read_experiment(config, RESOURCES).sweep
    rates = {
        scenario.policy: [point.cache_rate_percent for point in points]
        for scenario, points in sweep.items()
    }
    assert rates == {"none": [0], "pinning": [50, 100]}


def test_hash_of_the_default_pinning_run_is_that_of_finished_runs(config):
    experiment = read_experiment(config, RESOURCES)
    hashes = {
        scenario.name: experiment.description(scenario).hash
        for scenario in experiment.sweep
    }
    assert hashes["small-60ost-pinning-tensorflow"] == "1c76891e8b90"


@pytest.mark.parametrize("simulate", [True, False])
def test_only_reads_from_other_nodes_need_a_network(config, tmp_path, simulate):
    shutil.copytree(RESOURCES, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "systems" / "fugaku.yaml"
    fugaku = yaml.safe_load(path.read_text())
    for part in (fugaku["devices"], fugaku["devices"]["sources"]):
        del part["network"]
    path.write_text(yaml.safe_dump(fugaku))
    policies = ["pinning", "lru", "monarch", "clairvoyant"]
    config = changed(config, "sweep.policies", policies) | {"simulate": simulate}
    read_experiment(config, tmp_path)
    config = changed(config, "sweep.policies", ["pinning", "adhoc"])
    read_experiment(config, RESOURCES)
    with pytest.raises(ConfigError, match=r"got adhoc, but .* lacks devices.network"):
        read_experiment(config, tmp_path)
    config = changed(config, "policies.adhoc.mount", "/mount")
    with pytest.raises(ConfigError, match=r"mount: got '/mount', expected null w"):
        read_experiment(config, RESOURCES)


def test_description_has_a_section_for_databases_only(four_nodes):
    config = changed(four_nodes, "sweep.loaders", ["tensorflow", "lmdb", "lmdbio"])
    experiment = read_experiment(config, RESOURCES)
    for scenario in experiment.sweep:
        description = experiment.description(scenario)
        assert ("lmdb" in description.as_json()) == scenario.reads_database
    lmdbio = experiment.description(experiment.scenario("small-60ost-pinning-lmdbio"))
    assert asdict(lmdbio.lmdb) == {
        "order": "blocks",
        "records_per_commit": 16,
        "coalesced_bytes": 4194304,
        "stagger_size": 1,
        "fault_bytes": 131072,
        "optimisations": ["lmm", "dio", "prov", "coal", "stag"],
        "block_records": 48,  # 2 steps of 2 processes' batches of 12: 6 MiB, enough
        "steps_per_fetch": 2,
    }


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("lmdb.lmdbio.dm", True, "dm: got true, expected false with prov"),
        ("loader.read_threads", 2, "read_threads: got 2, expected 1 with loader lmdb"),
        ("lmdb.order", "random", "lmdb.order: got 'random', expected one of blocks"),
    ],
)
def test_what_the_lmdb_loaders_cannot_do_is_refused(four_nodes, path, value, words):
    config = changed(four_nodes, "sweep.loaders", ["tensorflow", "lmdb"])
    with pytest.raises(ConfigError, match=words):
        read_experiment(changed(config, path, value), RESOURCES)


def test_loaders_of_databases_can_be_simulated(config):
    config = changed(config, "sweep.loaders", ["lmdb", "lmdbio", "tensorflow"])
    experiment = read_experiment(changed(config, "simulate", True), RESOURCES)
    assert experiment.source == "simulated"
    assert {one.loader for one in experiment.sweep} == {"lmdb", "lmdbio", "tensorflow"}


def test_system_has_the_devices_of_another_one_for_other_processes():
    fugaku = read_system("fugaku", RESOURCES / "systems")
    system = read_system("fugaku-9216", RESOURCES / "systems")
    assert (system.n_processes, system.devices_of) == (9216, "fugaku")
    # 16 nodes share an LFS server.
    assert system.devices["lfs"]["processes_per_server"] == 16 * 48
    for part, values in fugaku.devices.items():
        changes = {"processes_per_server": 64} if part == "lfs" else {}
        others = system.devices[part]
        assert (others | changes if changes else others) == values


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "of: fugaku",
            "of: laptop",
            "devices_of: got 'laptop', expected a system with",
        ),
        ("of: fugaku", "of: scale-model", "got 'scale-model', expected a system with"),
        ("of: fugaku", "of: elsewhere", "system: got 'elsewhere', expected one of"),
    ],
)
def test_devices_of_a_system_without_its_own_are_refused(tmp_path, old, new, words):
    shutil.copytree(RESOURCES / "systems", tmp_path, dirs_exist_ok=True)
    path = tmp_path / "fugaku-9216.yaml"
    path.write_text(path.read_text().replace(f"devices_{old}", f"devices_{new}"))
    with pytest.raises(ConfigError, match=words):
        read_system("fugaku-9216", tmp_path)


def test_database_on_several_emulated_object_servers_is_refused(four_nodes, tmp_path):
    shutil.copytree(RESOURCES, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "systems" / "scale-model-4x2.yaml"
    path.write_text(path.read_text().replace("n_nodes: 4", "n_nodes: 80"))
    config = changed(four_nodes, "sweep.datasets", ["small"])
    config = changed(config, "sweep.loaders", ["lmdb", "tensorflow"])
    with pytest.raises(ConfigError, match="GFS has 3 object servers for 60 OSTs and"):
        read_experiment(config, tmp_path)


@pytest.mark.parametrize(("text", "number"), [("1.5e3", "1500"), ("5.5", "5.5")])
def test_number_that_yaml_takes_for_text_is_said_so(config, text, number):
    wrong = changed(config, "audit.io_time_tolerance_percent", text)
    message = f"got '{text}', expected .* \\(to YAML this is text: write {number}\\)"
    with pytest.raises(ConfigError, match=message):
        read_experiment(wrong, RESOURCES)


@pytest.mark.parametrize("text", ["much", "nan", "1e999"])
def test_other_text_gets_no_advice(config, text):
    with pytest.raises(ConfigError, match=r"expected number from 0 to 1000000$"):
        read_experiment(
            changed(config, "audit.io_time_tolerance_percent", text), RESOURCES
        )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"training.epochs": 10**20},
            "training.epochs: got 100000000000000000000, exp",
        ),
        (
            {"training.epochs": 100_000},
            "training.epochs: got 100000 with 1536 files of dataset small, expected at "
            "most 100000000 reads",
        ),
        (
            {"datasets.small.file_size_bytes": 2**40, "training.epochs": 9000},
            "datasets.small: got .* bytes in 9000 epochs, expected at most",
        ),
        (
            {"training.epochs": 60_000, "training.compute_time_s": 86400},
            "datasets.small: got reads, steps and devices of system .* that may take ",
        ),
        (
            {
                "sweep.cache_rates_percent": list(range(101)),
                "sweep.repetitions": 1000,
            },
            "config: sweep: got 404000 points .*, expected at most 100000",
        ),
    ],
)
def test_what_cannot_be_computed_is_refused(config, changes, words):
    for path, value in changes.items():
        config = changed(config, path, value)
    for simulated in (True, False):
        with pytest.raises(ConfigError, match=words):
            read_experiment(changed(config, "simulate", simulated), RESOURCES)


@pytest.mark.parametrize("name", ["systems/mine.yaml", "datasets.yaml"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: \xff", ", line 1: got byte 0xff"),
        (b"", ": got nothing"),
        (b"a: 1\na: 2", ", line 2: got key a twice"),
        (None, ": cannot be read: Is a directory"),
    ],
)
def test_file_that_cannot_be_read_is_named(config, tmp_path, name, content, words):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"{name}{words}"):
        read_experiment(changed(config, "system", "mine"), tmp_path, RESOURCES)


@pytest.mark.parametrize(
    ("dataset", "n_osts", "known"),
    [
        ("small", 1, "f1f5e0f98244"),
        ("small", 60, "84f45dbf0c64"),
        ("large", 1, "1114f0061b48"),
        ("large", 60, "c76eff252e28"),
    ],
)
def test_finished_probes_stay_valid(config, dataset, n_osts, known):
    experiment = read_experiment(config, ROOT / "resources")
    assert experiment.probe_description(dataset, n_osts).hash == known


def test_roots_of_the_configuration_replace_those_of_the_system(config):
    config = changed(on_laptop(config), "roots", {"gfs": "/mnt/nfs/me", "lfs": None})
    system = read_experiment(config, RESOURCES).system
    assert system.gfs.root == "/mnt/nfs/me"
    assert system.lfs.root == "scratch/lfs"


@pytest.mark.parametrize(
    ("roots", "words"),
    [
        ({"gfs": "/a", "lfs": "/a/b"}, r"lfs.root: got '/a/b', expected a directory"),
        ({"gfs": "/a", "lfs": "/a/"}, r"lfs.root: got '/a/', expected a directory"),
        (
            {"gfs": "", "lfs": None},
            r"roots.gfs: got '', expected a path without NUL, tabs",
        ),
        ({"gfs": None}, r"roots: missing key lfs"),
    ],
)
def test_wrong_roots_are_refused(config, roots, words):
    with pytest.raises(ConfigError, match=words):
        read_experiment(changed(on_laptop(config), "roots", roots), RESOURCES)


def ideal_of(config):
    """Return the sweep of ideal runs: names, and repetitions of each."""
    config = changed(config, "sweep.ideal", True)
    sweep = read_experiment(config, RESOURCES).sweeps["ideal"]
    assert {point.cache_rate_percent for one in sweep.values() for point in one} == {
        100
    }
    return {
        scenario.name: [point.repetition for point in points]
        for scenario, points in sweep.items()
    }


def test_scenarios_that_differ_in_policy_share_their_ideal_runs(config):
    config["sweep"]["policies"] = ["none", "pinning", "stratified-pinning"]
    config["sweep"]["datasets"] = ["small"]
    config["sweep"]["loaders"] = ["tensorflow", "posix"]
    config["sweep"]["repetitions"] = [
        {"n_repetitions": 3, "policy": "pinning", "loader": "tensorflow", "n_osts": 60}
    ]
    assert ideal_of(config) == {
        "small-60ost-pinning-tensorflow+ideal": [0, 1, 2],
        "small-60ost-pinning-posix+ideal": [0],
        "small-1ost-pinning-tensorflow+ideal": [0],
        "small-1ost-pinning-posix+ideal": [0],
    }


def test_ideal_runs_have_a_system_of_their_own_and_change_no_other_run(config):
    plain = read_experiment(config, RESOURCES)
    experiment = read_experiment(changed(config, "sweep.ideal", True), RESOURCES)
    assert "ideal" not in plain.sweeps
    assert plain.sweep == experiment.sweep
    scenario = next(iter(experiment.sweep))
    described = experiment.description(scenario).as_json()
    assert described == plain.description(scenario).as_json()
    (ideal, *_) = experiment.sweeps["ideal"]
    other = experiment.description(ideal).as_json()
    system = other["system"]
    assert (system.pop("is_ideal"), system["name"]) == (True, "scale-model+ideal")
    assert other["system"] | {"name": "scale-model"} == described["system"]
    assert other | {"system": described["system"]} == described


def test_ideal_runs_on_real_tiers_have_their_lfs_in_memory(config):
    config = changed(on_laptop(config), "roots.ideal", "/dev/shm/me")
    experiment = read_experiment(changed(config, "sweep.ideal", True), RESOURCES)
    ((scenario, points), *_) = experiment.sweeps["ideal"].items()
    machine = experiment.description(scenario).system
    assert (machine.gfs, machine.is_ideal) == (experiment.system.gfs, True)
    assert (machine.lfs.kind, machine.lfs.root) == ("directory", "/dev/shm/me")
    job = experiment.job(scenario, points)
    plain = experiment.job(replace(scenario, is_ideal=False), points)
    assert job.memory_mib == plain.memory_mib + plain.lfs_mib


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "system laptop names no directory in memory, expected roots: {ideal: "),
        (
            {"roots.ideal": "scratch/lfs/x"},
            "ideal.root: got 'scratch/lfs/x', expected a directory apart from lfs.root",
        ),
        (
            {"sweep.policies": ["pinning", "lru"]},
            "got true with policy lru and loader tensorflow, expected policy none",
        ),
        (
            {"sweep.loaders": ["lmdb"], "figures.scenario.loader": "lmdb"},
            "got true with policy pinning and loader lmdb, expected policy none",
        ),
    ],
)
def test_impossible_ideal_runs_are_refused(config, changes, words):
    config = changed(on_laptop(config), "sweep.ideal", True)
    for path, value in changes.items():
        config = changed(config, path, value)
    with pytest.raises(ConfigError, match=re.escape(words)):
        read_experiment(config, RESOURCES)


def test_goal_is_the_papers_that_of_programs_or_of_the_configuration():
    program = {"loader": {"command": ["python"]}}
    assert goal_origin([{}, {"whatif": {"search": {}}}]) == "the paper's, the default"
    assert goal_origin([program, {}]) == "80 % of the best, the default"
    asked = {"whatif": {"goal": {"seconds": 2}}}
    assert goal_origin([program, asked]) == "whatif.goal of the configuration"
