"""Configurations of designs, with the systems and workloads of the project."""

import json
from pathlib import Path

import pytest
import yaml
from tierscope.analysis.designs.answer import PIECES
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.data.costs import Cost, Unit
from tierscope.data.designs import Goal, Storage, Study
from tierscope.experiment.designs.settings import is_of_designs, read_study

RESOURCES = Path(__file__).parents[4] / "resources"
DEFAULTS = {"experiment": "scale-model", "system": "scale-model", "sweep": {"a": 1}}


DEVICES = read_yaml(RESOURCES / "systems" / "nvme-servers.yaml")["devices"]
DEVICES |= {part: DEVICES[part] | {"request_bytes": 1 << 24} for part in ("gfs", "lfs")}

FIT = {
    "parameter": "gfs.read_latency_s",
    "accelerators": 4,
    "utilisation_percent": 50,
    "deviation_points": 2,
}


def written(folder, devices):
    path = folder / "devices.yaml"
    path.write_text(yaml.safe_dump({"devices": devices}))
    return str(path)


def study(system="fugaku", experiment="mine", most=4, choices=(), **designs):
    choices = ({"accelerators": {"most": most}} if most else {}) | dict(choices)
    given = {"workloads": ["unet3d_h100"], "choices": choices} | designs
    config = {"experiment": experiment, "system": system, "designs": given}
    return read_study(DEFAULTS | config, DEFAULTS, RESOURCES)


def workload_of(found):
    (workload,) = found.workloads
    return workload


def plan_of(found):
    (plan,) = found.study.plans.values()
    return plan


def test_what_is_not_given_has_its_default():
    found = study(most=None, dataset="fixed", steps=24)
    built = found.study
    assert (built.accelerators, built.storages) == ((), (Storage(),))
    assert built.most == 3072  # the processes of the system
    assert (built.repetitions, built.simulations) == (1, 120)
    assert built.goals == {"unet3d_h100": Goal("utilisation_percent", 90)}
    assert built.shares == {"unet3d_h100": 1.0}
    assert (built.draws, built.fit, built.cost) == (None, None, Cost())
    written = json.dumps(built.as_json())
    assert json.dumps(Study.from_json(json.loads(written)).as_json()) == written


def test_a_goal_goes_before_those_of_the_workloads():
    found = study(goal={"epoch_time_s": 70}, workloads=["unet3d_h100", "paper_small"])
    assert set(found.study.goals.values()) == {Goal("epoch_time_s", 70)}
    assert plan_of(study()).steps == 50


def test_for_a_goal_of_io_time_whole_epochs_are_simulated():
    found = study(goal={"io_time_s": 4}, workloads=["paper_large"], dataset="fixed")
    assert plan_of(found).n_simulated_steps(4) == plan_of(found).n_steps(4) == 768


def test_with_the_uncertainty_of_a_calibration_a_design_is_simulated_again(tmp_path):
    path = written(tmp_path, DEVICES)
    (tmp_path / "uncertainty.json").write_text('{"parameters": [], "sources": []}')
    assert study(devices=path).study.repetitions == 4
    assert study(devices=path, repetitions=1).study.repetitions == 1


def test_workloads_share_the_hours():
    found = study(workloads={"unet3d_h100": 3, "unet3d_a100": 1})
    assert found.study.shares == {"unet3d_h100": 0.75, "unet3d_a100": 0.25}
    equal = study(workloads=["unet3d_h100", "unet3d_a100"])
    assert set(equal.study.shares.values()) == {0.5}


def test_numbers_of_accelerators_are_whole_nodes_within_limits():
    found = study(choices={"accelerators": [8, 4, 12]}, limits={"nodes": 2})
    assert found.study.accelerators == (4, 8)
    assert found.study.most is None
    assert study(limits={"nodes": 2}, most=64).study.most == 8
    # Fugaku has four links for 3072 processes.
    found = study(limits={"links": 2}, most=3000, dataset="fixed")
    assert found.study.most == 1536
    found = study(limits={"links": 4}, most=64, choices={"links": [4, 8]})
    assert found.study.most == 64


def test_numbers_of_accelerators_may_be_a_range():
    numbers = {"from": 4, "to": 18, "step": 4}
    found = study(choices={"accelerators": numbers}, limits={"nodes": 3})
    assert found.study.accelerators == (4, 8, 12)


@pytest.mark.parametrize(
    "given",
    [8, [], {}, {"from": 4, "to": 8}, {"from": 4, "to": 8, "step": 4, "most": 8}],
)
def test_other_numbers_of_accelerators_are_refused_with_what_may_be(given):
    words = "accelerators: got .*, expected a list without duplicates, {from, to, step}"
    with pytest.raises(ConfigError, match=words + ", or {most}"):
        study(choices={"accelerators": given})


def test_a_limit_of_devices_leaves_storages_without_any():
    placement = {"placement": ["none", "pinning"], "lfs_devices": [2, 3]}
    found = study(limits={"lfs_devices": 1}, choices=placement)
    assert [one.placement for one in found.study.storages] == ["none"]


def test_costs_and_limits_are_as_given():
    unit = {"price": 5, "usable_tib": 40}
    cost = {"unit": "EUR", "hours": 100, "object_server": unit, "accelerator_hour": 2}
    room = {"dataset": 50, "checkpoints": 20}
    found = study(
        system="nvme-servers",
        most=8,
        cost=cost,
        limits={"usable_tib": room, "price": 30},
        choices={"object_servers": [1, 2, 4]},
    )
    assert found.study.limits == {"usable_tib": 70, "price": 30}
    assert [one.object_servers for one in found.study.storages] == [2, 4]
    assert found.study.cost == Cost("EUR", 100, {"object_server": Unit(**unit)}, 2)


def test_limits_of_pieces_are_those_of_the_page():
    given = {"object_servers": 70, "nodes": 2, "lfs_devices": 3}
    limits = study(limits=given).study.limits
    assert limits == {"object_server": 70, "node": 2, "lfs_devices": 3}
    assert {"object_server", "node"} < {*PIECES}


def test_a_compute_time_of_the_configuration_goes_before_the_workloads():
    assert workload_of(study(compute_time_s={"unet3d_h100": 2})).compute_time == 2
    others = study(compute_time_s={"paper_small": 2})
    assert workload_of(others).compute_time_s == 0.323


def test_what_computes_nothing_may_have_a_goal_of_time():
    found = study(goal={"epoch_time_s": 4}, workloads=["paper_large"])
    assert workload_of(found).compute_time_s == 0


def test_fitted_devices_are_named_in_place_of_the_systems(tmp_path):
    assert study().provenance.endswith("768 nodes), devices: reconstructed")
    path = written(tmp_path, DEVICES)
    found = study(devices=path)
    assert found.provenance.endswith(f"devices: {path}")
    assert plan_of(found).machine.devices["gfs"]["request_bytes"] == 1 << 24
    with pytest.raises(ConfigError, match=r"which make 1.2e\+09 requests"):
        study(most=3072)
    assert study(most=3072, devices=path).study.most == 3072  # its requests are larger


@pytest.mark.parametrize(
    "path",
    ["designs", "accelerators", "accelerators-nvme", "unet3d-study", "tier0"],
)
def test_a_configuration_of_the_project_is_one_of_designs(path):
    config = read_yaml(RESOURCES.parent / "config" / f"{path}.yaml")
    assert is_of_designs(config)
    found = read_study(DEFAULTS | config, DEFAULTS, RESOURCES)
    names = config["designs"]["workloads"]
    assert [one.name for one in found.workloads] == list(names)
    assert found.study.storages


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"workloads": ["resnet"]},
            "workloads: got 'resnet', expected some of paper_s",
        ),
        ({"workloads": ["results/no"]}, "got 'results/no', no such folder, expected"),
        ({"workloads": ["paper_small"]}, "compute_time_s: got none of paper_small"),
        ({"compute_time_s": {"small": 1}}, "compute_time_s: got 'small', expected"),
        ({"fit": {}}, "fit: missing key parameter, accelerators, utilisation_percent"),
        ({"fit": FIT | {"parameter": "gfs.speed"}}, "parameter: got 'gfs.speed', exp"),
        ({"system": "scale-model"}, "got scale-model, whose emulated devices are"),
        ({"system": "laptop"}, "got laptop, which has no devices"),
        ({"system": "fugaku-9216"}, "missing key job.memory_gib_per_node: the dataset"),
        ({"experiment": "scale-model"}, "expected a name for this study"),
        ({"steps": 9}, "steps: got 9, expected at least 10 for unet3d_h100"),
        ({"most": 3072}, "got 3072 accelerators of unet3d_h100, which make 1.2e\\+09"),
        ({"devices": "nowhere.yaml"}, "devices: got 'nowhere.yaml', expected a file"),
        ({"mots": 4}, "got unknown key mots"),
        ({"choices": {"accelerators": [6]}}, "got 6, expected whole nodes of 4 proc"),
        (
            {"choices": {"accelerators": [8]}, "limits": {"nodes": 1}},
            "limits: got nodes and links of 4 accelerators, expected at least those of",
        ),
        (
            {"choices": {"accelerators": [24]}, "dataset": "fixed", "steps": 24},
            "accelerators: got 24, whose epoch of unet3d_h100 has fewer than 2 steps",
        ),
        (
            {"choices": {"placement": ["adhoc"]}, "system": "nvme-servers"},
            "got adhoc with system nvme-servers, expected its devices to have a netw",
        ),
        (
            {
                "limits": {"object_servers": 59, "watts": 1},
                "cost": {"node": {"watts": 1}},
            },
            "got object_servers 59, limits that none of 1 storages meets",
        ),
        (
            {"cost": {"accelerator_hour": 2}},
            "got accelerator_hour without hours, exp",
        ),
        ({"goal": {"epoch_time_s": 0}}, "epoch_time_s: got 0, expected number above 0"),
        (
            {"limits": {"usable_tib": {"dataset": 1}}},
            "usable_tib: got 1, expected designs.cost to say usable_tib of some",
        ),
        ({"limits": {"watts": 9}, "cost": {"link": {"price": 1}}}, "watts: got 9, exp"),
        (
            {
                "choices": {
                    "accelerators": [4, 8],
                    "object_servers": {"from": 1, "to": 101, "step": 1},
                    "links": {"from": 1, "to": 101, "step": 1},
                }
            },
            "got 20402 designs, expected at most 20000",
        ),
        (
            {"goal": {"io_time_s": 4}, "workloads": ["unet3d_b200_7200"], "most": 3072},
            "which make",
        ),
        ({"dataset": "shrinks"}, "dataset: got 'shrinks', expected one of grows"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_one_line(change, words):
    with pytest.raises(ConfigError, match=words) as error:
        study(**change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gfs": {"open_s": 0}}, "devices.yaml: devices.gfs: missing key close_s"),
        ({"gsf": {}}, "devices.yaml: devices: got unknown key gsf, expected some of"),
        ({"lfs": None}, "devices.yaml: devices.lfs: got null, expected mapping"),
    ],
)
def test_devices_without_a_needed_key_are_refused(tmp_path, change, words):
    with pytest.raises(ConfigError, match=words) as error:
        study(devices=written(tmp_path, DEVICES | change))
    assert "\n" not in str(error.value)


def test_a_file_without_devices_is_refused(tmp_path):
    (tmp_path / "devices.yaml").write_text("a: 1\n")
    with pytest.raises(ConfigError, match="got unknown key a, expected some of"):
        study(devices=str(tmp_path / "devices.yaml"))


def test_a_fit_needs_one_workload_and_one_storage():
    assert study(fit=FIT).study.fit == FIT
    with pytest.raises(ConfigError, match="choices: got 2 storages with designs"):
        study(fit=FIT, choices={"cache_rates_percent": [0, 50]})
    with pytest.raises(ConfigError, match="workloads: got 2 workloads with designs"):
        study(fit=FIT, workloads=["unet3d_h100", "unet3d_a100"])


def test_a_fit_is_to_whole_nodes_and_steps():
    with pytest.raises(ConfigError, match="got 5, expected whole nodes of 4 processes"):
        study(fit=FIT | {"accelerators": 5})
    with pytest.raises(ConfigError, match="got 24, whose epoch of unet3d_h100 has few"):
        study(fit=FIT | {"accelerators": 24}, dataset="fixed", most=8, steps=24)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"accelerators": 800000}, "fit.accelerators: got 800000 accelerators of unet"),
        ({"deviation_points": 60}, "with utilisation_percent 50, which is -10 to 110 "),
        ({"utilisation_percent": 99}, "got 2 with utilisation_percent 99, which is 97"),
        ({"deviation_points": 50}, "which is 0 to 100 %, expected both ends above 0 "),
    ],
)
def test_a_fit_that_cannot_be_made_is_refused_while_parsing(change, words):
    with pytest.raises(ConfigError, match=words):
        study(fit=FIT | change)


def test_a_fit_does_not_hide_that_the_memory_is_not_known():
    with pytest.raises(ConfigError, match="missing key job"):
        study(system="fugaku-9216", fit=FIT)


def test_the_least_size_is_not_above_the_mean(tmp_path):
    text = "file_size_least_bytes: 1048576"
    changed = (RESOURCES / "workloads.yaml").read_text().replace(text, f"{text}000")
    (tmp_path / "workloads.yaml").write_text(changed)
    config = {
        "experiment": "mine",
        "system": "fugaku",
        "designs": {"workloads": ["unet3d_h100"]},
    }
    words = "h100: file_size_least_bytes: got 1048576000, expected at most the mean"
    with pytest.raises(ConfigError, match=words):
        read_study(DEFAULTS | config, DEFAULTS, tmp_path, RESOURCES)


def test_only_an_interleave_of_single_samples_is_known(tmp_path):
    text = (RESOURCES / "workloads.yaml").read_text()
    changed = text.replace("batch_size: 1\n", "batch_size: 2\n")
    (tmp_path / "workloads.yaml").write_text(changed)
    config = {
        "experiment": "mine",
        "system": "fugaku",
        "designs": {"workloads": ["cosmoflow_h100"]},
    }
    words = "workload cosmoflow_h100: got loader tensorflow with 4 workers and batches"
    with pytest.raises(ConfigError, match=words):
        read_study(DEFAULTS | config, DEFAULTS, tmp_path, RESOURCES)
    assert workload_of(read_study(DEFAULTS | config, DEFAULTS, RESOURCES)).depth == 8
