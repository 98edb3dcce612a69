from dataclasses import replace

import numpy as np
import pytest
from descriptions import describe_scenario
from tierscope.core.description import ProbeDescription, ProbedStorage
from tierscope.core.scenario import Dataset, Point
from tierscope.model.calibration.observations import ProbeTime, probes_of_program
from tierscope.storage.probes import plan

NOTHING = np.nan


@pytest.fixture
def description():
    """Return eight files that one process reads."""
    probed = ProbedStorage(Dataset("tiny", 8, 100, 1), 1, 1)
    one = describe_scenario(dataset={"n_files": 8, "file_size_bytes": 100})
    system = replace(one.system, devices={"gfs": {}, "lfs": {}})
    return replace(one, probed=probed, system=system)


@pytest.fixture
def probes(description):
    """Return probes of which each call takes 0.01 s, on four OSTs."""
    calls = plan(ProbeDescription.of(description))
    times = {one.name: ProbeTime(0.01 * one.n_operations, 0.03) for one in calls}
    return {4: times}


def test_no_probe_counts_as_more_exact_than_the_runs_need(description, probes):
    """1 % of a file takes 40 % of a call on the GFS, and 10 % on the LFS."""
    measured = {
        Point(0, 0): np.array([[3.0, 0.2, NOTHING, NOTHING, 3.2]]),
        Point(50, 0): np.array([[9.0, 9.0, 9.0, 9.0, 36.0]]),
        Point(100, 0): np.array([[NOTHING, NOTHING, 0.5, 0.3, 0.8]]),
    }
    (found,) = probes_of_program(description, measured, probes, 0.01).values()
    assert found["gfs_close_rate"].time_s == probes[4]["gfs_close_rate"].time_s
    errors = {name: one.error for name, one in found.items()}
    assert errors["gfs_close_rate"] == pytest.approx(np.hypot(0.03, 0.4))
    assert errors["lfs_open_latency"] == pytest.approx(np.hypot(0.03, 0.1))
    left_out = probes[4].keys() - found.keys()
    assert left_out == {"lfs_small_read_latency"}


def test_a_tier_that_no_run_read_tells_nothing_of_its_probes(description, probes):
    measured = {Point(0, 0): np.array([[3.0, 0.2, NOTHING, NOTHING, 3.2]])}
    (found,) = probes_of_program(description, measured, probes, 0.01).values()
    assert found["lfs_open_rate"] == probes[4]["lfs_open_rate"]
