"""Emulated runs in virtual time equal simulated ones, and do so on every machine."""

import json

import numpy as np
import pytest
from integration.conftest import TINY_SYSTEM, Project
from tierscope.core.description import Run
from tierscope.core.tables import read_table
from tierscope.model.simulator.runs import simulate_run
from tierscope.policies import FILES, kind_of
from tierscope.trace.log import read_posix

POLICIES = ["none", "pinning", "stratified-pinning"]


def make_project(folder, n_processes, prefetch_batches, cache_rates_percent, exclude):
    """Return a project that has run static policies with our loaders on two nodes.

    The last batch of 4 is full or not: of 66 files, two of four processes read 16, the
    others 17; of 65 files, two processes read 32 and 33. Steps take longer than reads
    from the LFS and less than those from the GFS, so that sometimes readers wait for
    room and sometimes steps for batches. With a buffer of one batch, steps take random
    times and wait for all processes, and two loaders have an ideal run.
    """
    folder.mkdir()
    project = Project(folder)
    project.change(TINY_SYSTEM, {"processes_per_node": n_processes // 2})
    scenario = {"dataset": "tiny", "n_osts": 60, "loader": "posix"}
    training = {"compute_time_s": 0.3}
    targets = ["audits"]
    if prefetch_batches == 1:
        targets += [f"results/tiny/{ideal_run(loader)}/audit.json" for loader in IDEAL]
        varies = {"distribution": "normal", "mean_s": 0.3, "stdev_s": 0.2}
        training = {"compute_time_s": varies, "synchronise": "step"}
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [60, 1],
                "policies": POLICIES,
                "loaders": ["posix", "tensorflow", "pytorch"],
                "cache_rates_percent": cache_rates_percent,
                "ideal": prefetch_batches == 1,
                "exclude": exclude,
            },
            "datasets": {"tiny": {"n_files": 64 + n_processes // 2}},
            "training": {"epochs": 2, **training},
            "loader": {
                "prefetch_batches": prefetch_batches,
                "buffer_bytes": 3000,
                "workers": prefetch_batches + 1,
            },
            "figures": {"scenario": scenario},
        },
    )
    project.snakemake(*targets)
    return project


IDEAL = ["posix", "pytorch"]  # loaders with an ideal run


def ideal_run(loader):
    """Return the folder of a loader's ideal run, below the results."""
    return f"runs/tiny-60ost-pinning-{loader}+ideal/cache-100/rep-0"


OTHERS = ["none", "stratified-pinning"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Return a project that has run all static policies, with a buffer of 2 batches."""
    folder = tmp_path_factory.mktemp("virtual") / "project"
    exclude = {
        "one OST": {"n_osts": 1, "policy": OTHERS},
        "one OST, too": {"n_osts": 1, "loader": "tensorflow"},
        "loaders know no policy": {"loader": "tensorflow", "policy": OTHERS},
        "workers are another project's": {"loader": "pytorch"},
    }
    return make_project(folder, 4, 2, [0, 40, 100], exclude)


@pytest.fixture(scope="module", params=[0, 1])
def otherwise_buffered(request, tmp_path_factory):
    """Return a project that has run pinning without a buffer, or with one batch."""
    folder = tmp_path_factory.mktemp("buffer") / "project"
    exclude = {"one OST": {"n_osts": 1}, "others": {"policy": OTHERS}}
    if not request.param:
        exclude["workers are the other project's"] = {"loader": "pytorch"}
    return make_project(folder, 2, request.param, [40], exclude)


def runs_of(project, policy, loader):
    """Return the folders of a policy's runs with a loader."""
    pattern = f"tiny-*ost-{policy}-{loader}/cache-*/rep-*"
    return sorted(project.path("runs").glob(pattern))


def assert_equals_simulation(folder, simulate=simulate_run, least=2):
    """Assert that a run's times are those of the simulator, to the nanosecond.

    At least so many I/O classes take time.
    """
    run = Run.read(folder / "run.json")
    simulated = simulate(run, run.point)
    keys = ["epoch", "rank", "io_class"]
    emulated = read_table(folder / "io_time.parquet", "io_time").set_index(keys)
    expected = simulated["io_time"].set_index(keys).loc[emulated.index]
    for name in ("operations", "bytes"):
        assert emulated[name].tolist() == expected[name].tolist(), folder
    in_ns = [np.rint(table["time_s"] * 1e9) for table in (emulated, expected)]
    assert in_ns[0].tolist() == in_ns[1].tolist(), folder
    assert (in_ns[0].groupby("io_class").sum() > 0).sum() >= least
    assert least or not in_ns[0].any()
    epochs = read_table(folder / "epochs.parquet", "run_epochs")
    keys = ["epoch", "rank"]
    took_s = epochs.set_index(keys)["execution_time_s"]
    expected_s = simulated["epochs"].set_index(keys)["execution_time_s"]
    assert took_s.to_numpy() == pytest.approx(expected_s[took_s.index], abs=1e-9)
    if kind_of(run.scenario) is FILES:
        assert_spends_time_equally(epochs.set_index(keys), simulated["epochs"])
    assert set(epochs["lfs_fill_time_s"]) == {0.0}


def assert_spends_time_equally(epochs, simulated):
    """Assert that computation, stall and rest are equal, and add up, in nanoseconds."""
    parts = ["compute_time_s", "stall_s", "rest_s"]
    emulated, expected = (
        np.rint(table[parts] * 1e9)
        for table in (epochs, simulated.set_index(["epoch", "rank"]).loc[epochs.index])
    )
    assert emulated.equals(expected)
    took_ns = np.rint(epochs["execution_time_s"] * 1e9)
    assert emulated.sum(axis="columns").tolist() == took_ns.tolist()


@pytest.mark.parametrize(
    ("policy", "loader", "n_runs"),
    [
        ("none", "posix", 1),
        ("stratified-pinning", "posix", 3),
        ("pinning", "posix", 6),
        ("pinning", "tensorflow", 3),
    ],
)
def test_emulated_times_equal_simulated_ones_to_the_nanosecond(
    swept, policy, loader, n_runs
):
    runs = runs_of(swept, policy, loader)
    assert len(runs) == n_runs
    for folder in runs:
        assert_equals_simulation(folder)


@pytest.mark.parametrize("loader", ["posix", "tensorflow", "pytorch"])
def test_so_they_do_with_a_smaller_buffer_and_without(otherwise_buffered, loader):
    runs = runs_of(otherwise_buffered, "pinning", loader)
    for run in runs:
        assert_equals_simulation(run)
    waits_in_steps = {Run.read(run / "run.json").training.in_steps for run in runs}
    assert waits_in_steps or loader == "pytorch"  # which one of both projects has
    if True in waits_in_steps and loader in IDEAL:
        assert_equals_simulation(otherwise_buffered.path(ideal_run(loader)), least=0)
    audits = otherwise_buffered.path("runs").glob("*/cache-*/rep-*/audit.json")
    assert {json.loads(one.read_text())["passed"] for one in audits} == {True}


def test_devices_count_what_the_log_holds(swept):
    for folder in runs_of(swept, "pinning", "posix"):
        run = Run.read(folder / "run.json")
        records = read_table(folder / "file_records.parquet", "file_records")
        gfs, *lfs = run.emulation["statistics"]
        for tier, counted in (("gfs", [gfs]), ("lfs", lfs)):
            mine = records[records["tier"] == tier]
            for name, column in (("n_opens", "opens"), ("n_bytes", "bytes_read")):
                assert sum(one[name] for one in counted) == mine[column].sum()


def test_log_lasts_as_long_as_the_run_in_virtual_time(swept):
    for folder in runs_of(swept, "pinning", "posix"):
        job, _, _ = read_posix(folder / "log.darshan")
        epochs = read_table(folder / "epochs.parquet", "run_epochs")
        total_s = epochs.groupby("epoch")["execution_time_s"].max().sum()
        assert 0 <= job.end_time_s - job.start_time_s - total_s < 1
