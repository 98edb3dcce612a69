"""Devices of a study, and how sure a calibration is of them."""

import json
from pathlib import Path

import pytest
import yaml
from tierscope.core.validation import ConfigError, read_yaml
from tierscope.experiment.designs.devices import read_devices

ROOT = Path(__file__).parents[4]
DEVICES = read_yaml(ROOT / "resources" / "systems" / "nvme-servers.yaml")["devices"]
FITTED = {
    "origin": "calibrated",
    "gfs": DEVICES["gfs"] | {"open_s": 1.0},
    "lfs": DEVICES["lfs"],
}
KNOWN = {
    "parameters": ["gfs.open_s", "lfs.latency_s"],
    "sources": [
        {
            "name": "untold",
            "degrees": None,
            "deviation": 0.1,
            "covariance": [[1.0, 0.0], [0.0, 1.0]],
        }
    ],
}


@pytest.fixture
def calibration(tmp_path):
    """Return the folder of a calibration in the results of an experiment."""
    folder = tmp_path / "results" / "mine" / "model" / "all"
    folder.mkdir(parents=True)
    (folder / "devices.yaml").write_text(yaml.safe_dump({"devices": FITTED}))
    (folder / "uncertainty.json").write_text(json.dumps(KNOWN))
    return folder


@pytest.mark.parametrize("given", [None, {}])
def test_without_others_they_are_those_of_the_system(given):
    found = read_devices(DEVICES, given)
    assert (found.devices, found.origin) == (DEVICES, "declared")
    assert found.uncertainty is None


def test_calibrated_devices_have_their_uncertainty(calibration):
    found = read_devices(DEVICES, str(calibration / "devices.yaml"))
    assert found.devices["gfs"]["open_s"] == 1
    assert found.devices["simulation"] == DEVICES["simulation"]
    assert found.uncertainty == KNOWN
    assert found == read_devices(DEVICES, str(calibration.parents[1]))


def test_devices_without_a_calibration_have_none(calibration):
    (calibration / "uncertainty.json").unlink()
    assert read_devices(DEVICES, str(calibration.parents[1])).uncertainty is None


def test_several_calibrations_are_named(calibration):
    other = calibration.with_name("other")
    other.mkdir()
    (other / "devices.yaml").write_text("")
    with pytest.raises(ConfigError, match=r"all/devices.yaml, .*other/devices.yaml; "):
        read_devices(DEVICES, str(calibration.parents[1]))


def test_results_without_a_calibration_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"with no model/\*/devices.yaml in it; exp"):
        read_devices(DEVICES, str(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps(KNOWN | {"parameters": 3}),
        json.dumps(KNOWN | {"sources": [{}]}),
        json.dumps(KNOWN | {"sources": [{"covariance": [[1.0]]}]}),
        json.dumps(KNOWN | {"sources": [{"covariance": 3}]}),
    ],
)
def test_another_uncertainty_is_refused_in_one_line(calibration, text):
    (calibration / "uncertainty.json").write_text(text)
    with pytest.raises(ConfigError, match="got no uncertainty of a calib") as error:
        read_devices(DEVICES, str(calibration / "devices.yaml"))
    assert "\n" not in str(error.value)
