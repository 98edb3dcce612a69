"""All processes on one node instead of two, in real runs on plain directories."""

import json

import pytest
from integration.conftest import Project
from tierscope.core.tables import read_table

TIERS = {
    "gfs": {"root": "scratch/gfs", "kind": "directory"},
    "lfs": {"root": "scratch/lfs", "kind": "directory"},
}
STUDY = {
    "sweep": {
        "datasets": ["tiny"],
        "n_osts": [0],
        "policies": ["none"],
        "loaders": ["posix"],
        "cache_rates_percent": [0],
        "exclude": {},
    },
    "training": {"epochs": 3},
    "figures": {
        "scenario": {
            "dataset": "tiny",
            "n_osts": 0,
            "policy": "none",
            "loader": "posix",
        }
    },
    "studies": {
        "nodes": {
            "n_nodes": [1],
            "loaders": ["lmdb"],
            "cache_rate_percent": 50,
            "repetitions": 1,
        }
    },
}


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """Return a project whose four processes ran on one node."""
    project = Project(tmp_path_factory.mktemp("nodes"))
    project.change("resources/systems/tiny.yaml", TIERS)
    project.change("config/tiny.yaml", STUDY)
    project.output = project.snakemake("nodes")
    return project


def test_one_node_saves_what_the_law_says_exactly(studied):
    path = studied.path("nodes", "node_epochs.parquet")
    one = read_table(path, "node_epochs").set_index("epoch")
    assert one["n_nodes"].tolist() == [1, 1, 1]
    assert one["saved_percent"].tolist() == [0, 50, 50]
    assert one["gfs_reads"].tolist() == [
        one["reference_gfs_reads"][0] // part for part in (1, 2, 2)
    ]
    savings = read_table(studied.path("nodes", "node_savings.parquet"), "node_savings")
    cut = savings.set_index("n_epochs")["gfs_operations_cut_percent"]
    assert cut[3] == pytest.approx(100 / 3)


@pytest.mark.parametrize(
    ("scenario", "rate"), [("monarch-posix", "050"), ("pinning-lmdb", "000")]
)
def test_runs_are_on_as_many_nodes_as_asked_for_and_audited(studied, scenario, rate):
    name = f"tiny-0ost-{scenario}+nodes1"
    folder = studied.path("runs", name, f"cache-{rate}", "rep-0")
    run = json.loads((folder / "run.json").read_text())
    assert run["system"]["name"] == "tiny+nodes1"
    assert json.loads((folder / "audit.json").read_text())["passed"]
    epochs = read_table(folder / "epochs.parquet", "run_epochs")
    assert sorted(epochs["rank"].unique()) == [0, 1, 2, 3]
    assert epochs["node"].unique().tolist() == [0]


def test_switches_are_counted_by_processes_a_node(studied):
    path = studied.path("nodes", "node_switches.parquet")
    table = read_table(path, "node_switches")
    places = table[["n_nodes", "processes_per_node"]].to_numpy().tolist()
    assert places == [[1, 4]]
    assert (table["records"] == 3 * 32).all()
    assert (table["minor_faults"] + table["major_faults"] > 0).all()


def test_study_is_drawn_and_printed(studied):
    text = studied.path("nodes", "summary.txt").read_text()
    assert text in studied.output
    assert studied.path("figures", "nodes.svg").is_file()


def test_study_of_no_nodes_is_refused_in_a_line(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    output = Project(folder).snakemake("nodes", "-n", expect=1)
    (line,) = [one for one in output.split("\n") if "studies.nodes" in one]
    assert "studies.nodes.n_nodes: got [], expected numbers of nodes" in line
