"""A rate limit is found where there is one, by the whole of a calibration."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from snakemake.utils import update_config
from tierscope.core.description import ProbeDescription
from tierscope.core.scenario import Point, Scenario
from tierscope.core.validation import read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.model.calibration import objective
from tierscope.model.calibration.fit import calibrate
from tierscope.model.calibration.probe_times import probe_times
from tierscope.model.calibration.result import FITTED, LIMIT_PARAMETERS
from tierscope.model.calibration.starting_values import with_values
from tierscope.model.simulator.run import simulate_reads, tables_of
from tierscope.storage.probes import REPEATS, plan

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


def io_time_of(description, noise):
    """Simulate three points; every class time of an epoch errs by a factor."""
    generator, parts = np.random.default_rng(1), []
    for point in (Point(0, 0), Point(50, 0), Point(100, 0)):
        part, _ = tables_of(description, point, simulate_reads(description, point))
        factor = np.exp(noise * generator.standard_normal((part["epoch"].max() + 1, 4)))
        by_class = part["io_class"].astype("category").cat.codes
        part["time_s"] *= factor[part["epoch"], by_class]
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def probes_of(description, noise):
    """Simulate probes; every repeat errs by a factor."""
    generator, rows = np.random.default_rng(2), []
    probed = ProbeDescription.of(description)
    times_s = probe_times(probed, 4)
    for probe in plan(probed):
        for repeat in range(REPEATS):
            time_s = max(times_s[probe.name], 1e-6)
            time_s *= np.exp(noise * generator.standard_normal())
            rows.append(
                {
                    "dataset": "small",
                    "n_osts": 4,
                    "probe": probe.name,
                    "tier": probe.tier,
                    "operation": probe.operation,
                    "n_clients": probe.n_clients,
                    "repeat": repeat,
                    "operations": probe.n_operations,
                    "bytes": probe.n_bytes,
                    "time_s": time_s,
                }
            )
    return pd.DataFrame(rows)


@pytest.mark.parametrize("limit", [LIMIT, {}], ids=["limit", "plain"])
def test_rate_limit_is_found_where_there_is_one(description, limit, monkeypatch):
    monkeypatch.setattr(objective, "_READS", 0)  # simulate each point once
    truth = with_values(description, TRUTH | limit)
    data = io_time_of(truth, 0.02), probes_of(truth, 0.02)
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
