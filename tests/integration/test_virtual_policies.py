"""Policies that move files and ad hoc file systems in virtual time.

Emulated runs decide, copy and read as simulated ones do, to the nanosecond, and equal
runs give equal tables.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from integration.conftest import TINY_SYSTEM, Project, busy_machine
from integration.test_virtual_time import assert_equals_simulation, runs_of
from tierscope.core.description import Run
from tierscope.core.tables import read_table
from tierscope.model.simulator.placed_run import DynamicRun
from tierscope.model.simulator.runs import simulate_run
from tierscope.policies import PLACED, of_kind

MOVING = list(of_kind(PLACED))
N_FILES, EPOCHS = 66, 3
DECISIONS = ["event", "epoch", "rank", "file_id", "place", "detail"]


def make_project(folder, swept, reads_with="posix", **config):
    """Return a project with runs of policies on two nodes of two processes.

    Steps take longer than reads from the LFS and less than those from the GFS, so
    sometimes readers wait for room and sometimes steps for batches.
    """
    folder.mkdir()
    project = Project(folder)
    scenario = {"dataset": "tiny", "n_osts": 60, "loader": reads_with}
    project.change(
        "config/tiny.yaml",
        {
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [60],
                "policies": swept,
                "loaders": [reads_with],
                "cache_rates_percent": [40],
            },
            "datasets": {"tiny": {"n_files": N_FILES}},
            "training": {"epochs": EPOCHS, "compute_time_s": 0.3},
            "loader": {"prefetch_batches": 2, "buffer_bytes": 3000},
            "figures": {"scenario": {**scenario, "policy": swept[0]}},
            **config,
        },
    )
    return project


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    """Return a project that has run all of them, with the options of the default."""
    folder = tmp_path_factory.mktemp("moved") / "project"
    options = {"adhoc": {"server_threads": 1}}  # so that readers wait for each other
    project = make_project(folder, ["none", *MOVING, "adhoc"], policies=options)
    project.snakemake("audits")
    return project


@pytest.fixture(scope="module")
def moved_otherwise(tmp_path_factory):
    """Return a project whose one copier reads again, while the next epoch goes on.

    Nothing is read ahead, no step takes time, and all batches are full.
    """
    folder = tmp_path_factory.mktemp("otherwise") / "project"
    options = {"copy_threads": 1, "drain": False, "hand_over": False}
    project = make_project(
        folder,
        MOVING,
        policies=options,
        datasets={"tiny": {"n_files": 64}},
        training={"epochs": EPOCHS, "compute_time_s": 0},
        loader={"prefetch_batches": 0},
    )
    project.snakemake("audits")
    return project


def run_of(project, policy, loader="posix"):
    (folder,) = runs_of(project, policy, loader)
    return folder


def assert_decides_as_simulation(folder):
    """Assert that all nodes decided, in the same order, what they do in simulation."""
    run = Run.read(folder / "run.json")
    simulated = DynamicRun(run, run.point, with_decisions=True)
    for _ in simulated.epochs():
        pass
    made = read_table(folder / "decisions.parquet", "decisions")
    expected = simulated.placement.decisions()
    for node in range(2):
        pair = [table[table["node"] == node] for table in (made, expected)]
        rows = [part.sort_values("step")[DECISIONS].astype(str) for part in pair]
        assert rows[0].to_numpy().tolist() == rows[1].to_numpy().tolist()
        assert (np.diff(pair[0].sort_values("step")["time_s"]) >= 0).all()


def assert_equal_tables(folder, names):
    """Assert that further tables of a run are those of the simulator."""
    run = Run.read(folder / "run.json")
    simulated = simulate_run(run, run.point)
    for name in names:
        made = read_table(folder / f"{name}.parquet", name)
        expected = simulated[name]
        for column in set(made) & set(expected):
            values = [table[column].to_numpy() for table in (made, expected)]
            if pd.api.types.is_float_dtype(made[column]):
                assert values[0] == pytest.approx(values[1], abs=2e-9), column
            else:
                assert values[0].tolist() == values[1].tolist(), column


@pytest.mark.parametrize("policy", ["none", *MOVING, "adhoc"])
def test_emulated_times_equal_simulated_ones_to_the_nanosecond(moved, policy):
    assert_equals_simulation(run_of(moved, policy))


@pytest.mark.parametrize("policy", MOVING)
def test_emulated_decisions_and_copies_equal_simulated_ones(moved, policy):
    assert_decides_as_simulation(run_of(moved, policy))
    assert_equal_tables(run_of(moved, policy), ["background"])


@pytest.mark.parametrize("policy", MOVING)
def test_so_they_do_with_other_options(moved_otherwise, policy):
    folder = run_of(moved_otherwise, policy)
    assert_equals_simulation(folder)
    assert_decides_as_simulation(folder)
    assert_equal_tables(folder, ["background"])


def test_stage_in_and_reads_from_peers_equal_simulated_ones(moved):
    folder = run_of(moved, "adhoc")
    assert_equal_tables(folder, ["stage_in", "peers"])
    peers = read_table(folder / "peers.parquet", "peers")
    assert (peers["peer_files"].groupby(peers["epoch"]).sum() > 5).all()
    # Waiting for the only thread of an owner is no part of its LFS's time.
    waits_s = peers["network_time_s"] - 1e-3 * peers["peer_files"]
    assert (waits_s > 0).any()


def test_each_staged_byte_leaves_the_gfs_once(moved):
    stage_in = read_table(run_of(moved, "adhoc") / "stage_in.parquet", "stage_in")
    assert stage_in["gfs_opens"].sum() == round(0.4 * N_FILES)
    assert stage_in["lfs_opens"].sum() == stage_in["gfs_opens"].sum()


def test_tensorflow_tells_of_a_file_after_its_batch(tmp_path):
    project = make_project(tmp_path / "project", ["monarch"], "tensorflow")
    project.change(TINY_SYSTEM, {"processes_per_node": 1})
    project.snakemake("audits")
    folder = run_of(project, "monarch", "tensorflow")
    decisions = read_table(folder / "decisions.parquet", "decisions")
    first = decisions[(decisions["epoch"] == 0) & (decisions["rank"] == 0)]
    first = first[first["event"].isin(["begin", "end"])].sort_values("step")
    n_begun = (first["event"] == "begin").cumsum()
    batch = json.loads((folder / "run.json").read_text())["dataset"]["batch_size"]
    assert (n_begun[first["event"] == "end"] >= batch).all()
    ends_s = first.loc[first["event"] == "end", "time_s"].to_numpy()
    assert len(set(ends_s[:batch])) == 1  # all of a batch at one instant


def test_tables_of_another_run_are_equal_byte_for_byte_on_a_busy_machine(
    moved, tmp_path
):
    again = moved.copied_to(tmp_path / "again")
    with busy_machine():
        for policy in [*MOVING, "adhoc"]:
            first = run_of(moved, policy)
            shutil.rmtree(run_of(again, policy))
            launch = again.launch(first.parts[-3], "cache-040/rep-0")
            launch.finish()
            for table, content in launch.tables().items():
                assert (first / Path(table).name).read_bytes() == content, table
            assert len(launch.tables()) > 1
