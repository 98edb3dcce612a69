"""Devices that are made faster are so in real runs, which are audited like others."""

import json

import pytest
from integration.conftest import Project
from tierscope.core.tables import read_table

STUDY = {
    "sweep": {
        "datasets": ["tiny"],
        "n_osts": [60],
        "loaders": ["posix"],
        "cache_rates_percent": [0, 50],
        "repetitions": 1,
        "exclude": {},
    },
    "figures": {"scenario": {"dataset": "tiny", "n_osts": 60, "loader": "posix"}},
    "studies": {
        "whatif_truth": {
            "improvements": [{"gfs_meta": 300}],
            "cache_rates_percent": [0],
            "repetitions": 2,
        }
    },
}


@pytest.fixture(scope="module")
def improved(tmp_path_factory):
    """Return a project with the runs on the devices as they are and on faster ones."""
    project = Project(tmp_path_factory.mktemp("truth"))
    project.change("config/tiny.yaml", STUDY)
    project.snakemake("results/tiny/whatif-truth/io_time.parquet")
    return project


def run(project, suffix):
    """Return the content of a run's `run.json` and `audit.json`."""
    scenario = f"tiny-60ost-pinning-posix{suffix}"
    folder = project.path("runs", scenario, "cache-000", "rep-1")
    names = ("run.json", "audit.json")
    return [json.loads((folder / name).read_text()) for name in names]


def test_the_devices_of_an_improved_run_are_faster_in_that_class_only(improved):
    (base, _), (faster, _) = run(improved, ""), run(improved, "+gfs_meta300")
    assert faster["system"]["name"] == "tiny+gfs_meta300"
    before, after = (content["emulation"]["devices"] for content in (base, faster))
    for name in ("open_s", "close_s", "metadata_latency_s"):
        assert after[0][name] == pytest.approx(before[0].pop(name) / 4)
        del after[0][name]
    assert after == before


def test_an_improved_run_is_audited(improved):
    _, audit = run(improved, "+gfs_meta300")
    assert audit["passed"]


def test_the_time_of_the_improved_class_falls(improved):
    path = improved.path("whatif-truth", "io_time.parquet")
    io_time = read_table(path, "io_time")
    time_s = io_time.groupby(["system", "io_class", "repetition"])["time_s"].sum()
    fastest_s = time_s.groupby(["system", "io_class"]).min()
    before_s = fastest_s["tiny", "gfs_meta"]
    # Each call takes a quarter, and processes wait for shorter ones.
    assert 0.1 < fastest_s["tiny+gfs_meta300", "gfs_meta"] / before_s < 0.25


def test_study_of_simulated_devices_is_drawn_and_printed(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    project = Project(folder)
    project.change("config/tiny.yaml", STUDY | {"simulate": True})
    output = project.snakemake("whatif-truth")
    text = project.path("whatif-truth", "summary.txt").read_text()
    assert text in output
    assert text in project.snakemake("whatif-truth")  # again, though all is there
    assert "GFS-META +300 %: cut of the slowest process's I/O time" in output
    summary = read_table(
        project.path("whatif-truth", "whatif_truth_summary.parquet"),
        "whatif_truth_summary",
    )
    assert summary["calibration"].tolist() == ["as written"]
    assert summary["model_largest_error_points"].abs().max() < 1e-9  # its own truth
    svg = project.path("figures", "whatif_truth.svg").read_text()
    assert "(simulated)" in svg


def test_real_storage_is_refused_in_a_line(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    project = Project(folder)
    sweep = {"datasets": ["tiny"], "n_osts": [0], "exclude": {}}
    figures = {"scenario": {"dataset": "tiny", "n_osts": 0}}
    changes = {"system": "laptop", "sweep": sweep, "figures": figures}
    project.change("config/tiny.yaml", changes)
    output = project.snakemake("whatif-truth", "-n", expect=1)
    lines = [line for line in output.split("\n") if "make real storage faster" in line]
    assert len(lines) == 1
    assert "system laptop with gfs.kind directory" in lines[0]
