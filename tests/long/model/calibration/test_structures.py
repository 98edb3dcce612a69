"""A rate limit is found where there is one, by the whole of a calibration."""

from pathlib import Path

import pytest
from disturbed import io_time_of, probes_of
from snakemake.utils import update_config
from tierscope.core.scenario import Scenario
from tierscope.core.validation import read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.model.calibration import objective
from tierscope.model.calibration.fit import calibrate
from tierscope.model.calibration.result import FITTED, LIMIT_PARAMETERS
from tierscope.model.calibration.starting_values import with_values

ROOT = Path(__file__).parents[4]
LIMIT = dict(zip(LIMIT_PARAMETERS, (3e6, 1.5e6), strict=True))
TRUTH = {"gfs.open_s": 0.001, "gfs.request_s": 0.012, "lfs.request_s": 0.004}


@pytest.fixture(scope="module")
def description():
    """Return a GFS of four servers, of which four processes read 64 files."""
    config = read_yaml(ROOT / "config" / "config.yaml")
    update_config(config, read_yaml(ROOT / "config" / "realfs.yaml"))
    config["datasets"]["small"]["n_files"] = 64
    experiment = read_experiment(config, ROOT / "resources")
    scenario = Scenario("small", 4, "pinning", "tensorflow")
    return experiment.model_description(scenario)


@pytest.mark.parametrize("limit", [LIMIT, {}], ids=["limit", "plain"])
def test_rate_limit_is_found_where_there_is_one(description, limit, monkeypatch):
    monkeypatch.setattr(objective, "_READS", 0)  # simulate each point once
    truth = with_values(description, TRUTH | limit)
    data = io_time_of(truth, (0, 50, 100), 0.02), probes_of(truth, (4,), 0.02)
    found = calibrate(description, *data)
    values = {
        one.name: (value, finding.status)
        for one, value, finding in zip(
            found.parameters, found.values, found.findings, strict=True
        )
    }
    if not limit:
        assert set(found.left_out) == set(LIMIT)
        return
    for name, true in limit.items():
        assert values[name] == (pytest.approx(true, rel=0.15), FITTED)
    devices = found.devices()["gfs"]
    assert devices["limit_bytes_per_s"] == values["gfs.limit_bytes_per_s"][0]
