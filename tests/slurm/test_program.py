"""A program of the user on four nodes of a real Slurm, started by srun."""

import json
import os

import pandas as pd
import pytest
from integration.conftest import TINY_SYSTEM
from slurm.test_sweep import SlurmProject

N_FILES, N_NODES, N_RANKS, RATES = 40, 4, 8, [50, 100]
N_EPOCHS = 2 * len(RATES)  # of all runs
PROGRAM = """\
import os, random, sys
root = sys.argv[1]
rank, size = (int(os.environ[n]) for n in ("SLURM_PROCID", "SLURM_NTASKS"))
names = sorted(os.listdir(root))
for epoch in range(2):
    try:
        open(f"{root}/.tierscope-epoch-{epoch}")
    except FileNotFoundError:
        pass
    for name in random.Random(epoch).sample(names, len(names))[rank::size]:
        open(f"{root}/{name}", "rb").read()
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory, slurm_cluster):
    """Return a project with runs of a program at two cache rates."""
    folder = tmp_path_factory.mktemp("program")
    project = SlurmProject(folder, slurm_cluster)
    project.change(TINY_SYSTEM, {"n_nodes": N_NODES, "processes_per_node": 2})
    (folder / "data").mkdir()
    for number in range(N_FILES):
        (folder / "data" / f"{number:02d}").write_bytes(os.urandom(1000 + number))
    (folder / "program.py").write_text(PROGRAM)
    scenario = {"dataset": "mine", "n_osts": 0, "loader": "program"}
    rates = {"cache_rates_percent": RATES, "repetitions": 1}
    sections = {
        "loader": {
            "command": ["python", "program.py", "{dataset}"],
            "minutes": 5,
            "memory_gib_per_process": 0.2,
        },
        "datasets": {"mine": {"path": "data"}},
        "sweep": {"datasets": ["mine"], "n_osts": [0], "loaders": ["program"]} | rates,
        "figures": {"scenario": scenario, "methods": ["rule"]},
    }
    project.change("config/tiny.yaml", sections)
    names = ("io_time", "statements", "epochs")
    project.snakemake(*(f"results/tiny/tables/{name}.parquet" for name in names))
    return project


def table(project, name):
    return pd.read_parquet(project.path("tables", f"{name}.parquet"))


def test_each_of_four_nodes_has_an_lfs_a_table_and_a_keeper_of_its_own(swept):
    runs = swept.runs()
    assert len({run["scheduler_job"] for run in runs}) == len(RATES)
    for run in runs:
        assert len(set(run["hosts"])) == N_NODES
        assert len(run["tier_roots"]["lfs"]) == N_NODES
        assert run["n_processes"] == N_RANKS
        assert run["observed"]["lost_events"] == 0
    swept.assert_nothing_left()


def test_every_epoch_reads_every_file_once_from_the_decided_tier(swept):
    statements = table(swept, "statements")
    wanted = ("tier", "seen", "epochs", "cover", "once", "whole")
    answers = statements[statements["statement"].isin(wanted)]["answer"]
    assert len(answers) == 3 * len(RATES) + 3 * N_EPOCHS
    assert set(answers) == {"yes"}
    for run in swept.path("runs").glob("*/cache-050/*/run.json"):
        held = json.loads(run.read_text())["observed"]["lfs_files"]
        assert len(set(held)) == 1
        opens = pd.read_parquet(run.with_name("opens.parquet"))
        by_tier = opens[opens["epoch"] == 1].groupby("tier")["opens"].sum()
        assert by_tier["lfs"] == held[0]
        assert by_tier.sum() == N_FILES


def test_io_time_has_every_rank_and_epoch(swept):
    io_time, epochs = table(swept, "io_time"), table(swept, "epochs")
    assert len(io_time) == N_EPOCHS * N_RANKS * 4
    assert len(epochs) == N_EPOCHS * N_RANKS
    assert sorted(epochs["node"].unique()) == list(range(N_NODES))
    opens = io_time[io_time["io_class"].str.endswith("meta")]["operations"].sum()
    assert opens == N_EPOCHS * N_FILES
