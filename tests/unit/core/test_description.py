import json
from pathlib import Path

import pytest
from descriptions import changed, describe_run, describe_scenario
from snakemake.utils import update_config
from tierscope.core.description import (
    ProbeDescription,
    Run,
    RunDescription,
    content_hash,
    difference_words,
)
from tierscope.core.scenario import Point
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.experiment.config import defaults_of_programs, read_experiment

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def experiment():
    """Return an experiment with every policy and every loader."""
    config = read_yaml(ROOT / "config" / "config.yaml")
    config["system"] = "scale-model-4x2"
    config["figures"]["scenario"]["loader"] = "posix"
    config["sweep"] |= {
        "policies": ["pinning", "monarch", "adhoc"],
        "loaders": ["posix", "lmdbio"],
        "exclude": {
            "databases": {"policy": ["monarch", "adhoc"], "loader": "lmdbio"},
        },
    }
    return read_experiment(config, ROOT / "resources")


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in sorted((ROOT / "config").glob("*.yaml"))
        if not {"logs", "designs"} & read_yaml(path).keys()
    ],
)
def test_launches_of_an_experiment_run_each_point_once(path):
    config = read_yaml(ROOT / "config" / "config.yaml")
    own = read_yaml(path)
    update_config(config, defaults_of_programs([own]))
    update_config(config, own)
    experiment = read_experiment(config, ROOT / "resources")
    launched = [
        (scenario, point)
        for scenario, points in experiment.launches
        for point in points
    ]
    wanted = {
        (scenario, point)
        for scenario, points in experiment.all_points.items()
        for point in points
    }
    assert len(launched) == len(wanted)
    assert set(launched) == wanted


def test_description_survives_its_file(experiment, tmp_path):
    seen = set()
    for scenario in experiment.sweep:
        description = experiment.description(scenario)
        path = tmp_path / "scenario.json"
        path.write_text(json.dumps(description.as_json()))
        again = RunDescription.read(path)
        assert again == description
        assert (
            again.hash == description.hash == content_hash(json.loads(path.read_text()))
        )
        seen.add((bool(description.policy_options), description.lmdb is not None))
    assert seen == {(False, False), (True, False), (False, True)}


def test_probes_survive_their_file(experiment, tmp_path):
    described = experiment.probe_description("small", 60)
    path = tmp_path / "description.json"
    path.write_text(json.dumps(described.as_json()))
    assert ProbeDescription.read(path) == described
    run = experiment.description(experiment.scenario("small-60ost-pinning-posix"))
    assert ProbeDescription.of(run) == described


def test_run_takes_what_it_needs_of_its_file(tmp_path):
    run = describe_run(point={"cache_rate_percent": 5, "repetition": 1})
    content = run.as_json() | {
        "point": {"cache_rate_percent": 5, "repetition": 1},
        "n_processes": 1,
        "tier_roots": {},
        "versions": {"python": "3.11"},
    }
    path = tmp_path / "run.json"
    path.write_text(json.dumps(content))
    assert Run.read(path) == run
    assert run.point == Point(5, 1)
    del content["n_processes"]
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=r"run.json: missing key n_processes$"):
        Run.read(path)


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("training", {"epoch": 3}, "training: .*unexpected keyword argument 'epoch'"),
        ("dataset", {"n_file": 3}, "dataset: .*unexpected keyword argument 'n_file'"),
        ("system", {"cores": 3}, "system: .*unexpected keyword argument 'cores'"),
        ("lmdb", {"order": "blocks"}, "lmdb: missing .*'steps_per_fetch'"),
    ],
)
def test_unknown_and_missing_keys_are_named(section, change, message):
    content = describe_scenario().as_json()
    content[section] = content.get(section, {}) | change
    with pytest.raises(ConfigError, match=message) as error:
        RunDescription.from_json(content)
    assert "\n" not in str(error.value)


def test_training_stands_in_the_order_of_finished_runs():
    """To Snakemake another order of the same settings is a change."""
    own = {"synchronise": "step", "cold": True}
    described = changed(describe_scenario(source="measured"), training=own)
    keys = [*described.as_json()["training"]]
    first = ["epochs", "shuffle", "seed", "compute_time_s"]
    assert keys == [*first, "cold", "synchronise"]


def test_keys_outside_of_types_are_named():
    content = describe_scenario().as_json()
    with pytest.raises(ConfigError, match=r"^darshan: missing key runtime$"):
        RunDescription.from_json(content | {"darshan": {}})
    run = content | {"n_processes": 1, "tier_roots": {}, "point": {"repetition": 0}}
    with pytest.raises(ConfigError, match=r"^point: missing .*'cache_rate_percent'"):
        Run.from_json(run)


def test_file_that_is_no_json_is_named(tmp_path):
    path = tmp_path / "scenario.json"
    path.write_text('{"source": ')
    with pytest.raises(ConfigError, match=r"scenario.json: is damaged .Expecting"):
        RunDescription.read(path)
    path.write_text("{}")
    with pytest.raises(ConfigError, match=r"scenario.json: missing key source$"):
        RunDescription.read(path)


def test_improvements_and_options_are_in_the_file_only_where_there_are_some():
    plain = describe_scenario()
    faster = changed(plain, system={"improvements": {"gfs_meta": 50}})
    assert "improvements" not in plain.as_json()["system"]
    assert faster.as_json()["system"]["improvements"] == {"gfs_meta": 50}
    assert not {"policy", "lmdb"} & set(plain.as_json())
    assert plain.hash != faster.hash


def test_keys_of_a_mapping_are_hashed_as_the_file_has_them():
    assert content_hash({"pools": {60: "a", 7: "b"}}) == content_hash(
        {"pools": {"7": "b", "60": "a"}}
    )


def test_differences_are_named_by_their_keys():
    old = describe_scenario()
    new = changed(old, training={"seed": 2})
    assert difference_words(old.as_json(), new.as_json()) == "training.seed 1 (now 2)"


def test_difference_of_commands_has_no_secret():
    old, new = (
        describe_scenario(program={"command": ["train", *more], "in_place": True})
        for more in (["--token", "mine"], ["--lr", "1"])
    )
    words = "program.command train --token HIDDEN (now train --lr 1)"
    assert difference_words(old.as_json(), new.as_json()) == words


def test_description_of_a_program_has_no_settings_of_our_loaders():
    program = {"command": ["train", "{dataset}"], "in_place": False}
    described = describe_scenario(program=program)
    content = described.as_json()
    assert content["training"] == {"seed": 1, "cold": False}
    assert "loader" not in content
    assert content["dataset"] == {"name": "mine", "path": "/mine"}
    again = RunDescription.from_json(json.loads(json.dumps(content)))
    assert again.as_json() == json.loads(json.dumps(content))
    assert again.hash == described.hash
    other = describe_scenario(program=program | {"in_place": True})
    assert other.hash != described.hash


def test_unknown_key_of_a_programs_description_is_refused():
    with pytest.raises(ConfigError, match=r"program: .*'threads'"):
        describe_scenario(program={"command": [], "in_place": False, "threads": 1})
