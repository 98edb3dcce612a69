"""Configurations of accelerators, with the systems and workloads of the project."""

from pathlib import Path

import pytest
import yaml
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.experiment.designs.settings import is_of_accelerators, read_study

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


def study(system="fugaku", experiment="mine", **accelerators):
    given = {"workloads": ["unet3d_h100"], "most": 4} | accelerators
    config = {"experiment": experiment, "system": system, "accelerators": given}
    return read_study(DEFAULTS | config, DEFAULTS, RESOURCES)


def test_what_is_not_given_has_its_default():
    found = study(most=None, dataset="fixed", steps=24)
    assert found.most == 3072  # the processes of the system
    assert (found.cache_rates_percent, found.repetitions, found.fit) == ([0], 1, None)
    assert found.goal_of("unet3d_h100") == 90
    assert study(goal_percent=70).goal_of("unet3d_h100") == 70


def test_a_compute_time_of_the_configuration_goes_before_the_workloads():
    found = study(compute_time_s={"unet3d_h100": 2})
    assert found.workload("unet3d_h100").compute_time_s == 2
    others = study(compute_time_s={"paper_small": 2})
    assert others.workload("unet3d_h100").compute_time_s == 0.323


def test_fitted_devices_are_named_in_place_of_the_systems(tmp_path):
    assert study().provenance.endswith("768 nodes), devices: reconstructed")
    path = written(tmp_path, DEVICES)
    found = study(devices=path)
    assert found.provenance.endswith(f"devices: {path}")
    assert found.plan("unet3d_h100").machine.devices["gfs"]["request_bytes"] == 1 << 24
    with pytest.raises(ConfigError, match=r"which make 1.2e\+09 requests"):
        study(most=3072)
    assert study(most=3072, devices=path).most == 3072  # its requests are larger


@pytest.mark.parametrize("path", ["accelerators", "accelerators-nvme", "unet3d-study"])
def test_a_configuration_of_the_project_is_one_of_accelerators(path):
    config = read_yaml(RESOURCES.parent / "config" / f"{path}.yaml")
    assert is_of_accelerators(config)
    found = read_study(DEFAULTS | config, DEFAULTS, RESOURCES)
    assert [one.name for one in found.workloads] == config["accelerators"]["workloads"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"workloads": ["resnet"]},
            "workloads: got 'resnet', expected some of paper_s",
        ),
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


def test_a_fit_needs_one_workload_and_one_cache_rate():
    assert study(fit=FIT).fit == FIT
    with pytest.raises(ConfigError, match="cache_rates_percent: got 2 with acc"):
        study(fit=FIT, cache_rates_percent=[0, 50])
    with pytest.raises(ConfigError, match="workloads: got 2 with acc"):
        study(fit=FIT, workloads=["unet3d_h100", "unet3d_a100"])


def test_a_fit_is_to_whole_nodes_and_steps():
    with pytest.raises(ConfigError, match="got 5, expected whole nodes of 4 processes"):
        study(fit=FIT | {"accelerators": 5})
    with pytest.raises(ConfigError, match="got 24, whose epoch has fewer than 2"):
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
        "accelerators": {"workloads": ["unet3d_h100"], "most": 4},
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
        "accelerators": {"workloads": ["cosmoflow_h100"], "most": 4},
    }
    words = "workload cosmoflow_h100: got loader tensorflow with 4 workers and batches"
    with pytest.raises(ConfigError, match=words):
        read_study(DEFAULTS | config, DEFAULTS, tmp_path, RESOURCES)
    assert read_study(DEFAULTS | config, DEFAULTS, RESOURCES).workloads[0].depth == 8
