"""Workloads of results: those of a program, and those of an experiment."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from descriptions import describe_run
from tierscope.core.validation import ConfigError
from tierscope.experiment.designs.dlio_text import workload_text
from tierscope.experiment.designs.workloads import read_workloads

RESOURCES = Path(__file__).parents[4] / "resources"


def read(path):
    (found,) = read_workloads([str(path)], {}, [RESOURCES])
    return found


@pytest.fixture
def program(tmp_path):
    """Return the results of a program that loads as UNet3D does."""
    (unet3d,) = read_workloads(["unet3d_h100"], {}, [RESOURCES])
    path = tmp_path / "results" / "mine" / "dlio" / "workload" / "scans.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(workload_text(unet3d, "", 1, {}))
    return tmp_path / "results" / "mine", replace(unet3d, name="scans")


def test_results_of_a_program_are_its_workload(program):
    folder, workload = program
    found = read(folder)
    assert found == replace(workload, source=found.source, file_size_least_bytes=1)
    assert "scans.yaml, workload file of DLIO; " in found.source
    assert found.computed == "measured"
    (again,) = read_workloads([str(folder)], {"scans": 1.0}, [RESOURCES])
    assert again.computed == "declared"
    assert found.source.endswith(
        "; assumed: on other nodes each rank reads alike, its share of the files"
    )


def test_a_program_without_a_workload_file_says_why(program):
    folder, _ = program
    text = "# The program: no workload file for DLIO: it has no loops.\n"
    (folder / "dlio" / "workload" / "scans.yaml").write_text(text)
    with pytest.raises(ConfigError, match="it has no loops"):
        read(folder)


def test_results_of_several_workloads_are_refused(program):
    folder, _ = program
    path = folder / "dlio" / "workload" / "scans.yaml"
    path.with_name("other.yaml").write_text(path.read_text())
    with pytest.raises(ConfigError, match="with other, scans, expected the folder of"):
        read(folder)


@pytest.fixture
def experiment(tmp_path):
    """Return a function that writes a run of an experiment and returns its results."""

    def write(loader="pytorch", **training):
        run = describe_run(
            scenario={"loader": loader},
            training=training,
            loader={"workers": 3, "prefetch_factor": 2, "buffer_bytes": 64},
        )
        path = tmp_path / "mine" / "runs" / "tiny" / "cache-000" / "rep-0" / "run.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        own = {"point": asdict(run.point), "n_processes": 1, "tier_roots": {}}
        path.write_text(json.dumps({**run.as_json(), **own}))
        return tmp_path / "mine"

    return write


def test_results_of_an_experiment_are_its_workload(experiment):
    times = {"distribution": "normal", "mean_s": 0.2, "stdev_s": 0.1}
    found = read(experiment(compute_time_s=times))
    assert (found.name, found.n_files, found.file_size_bytes) == ("tiny", 8, 100)
    assert (found.batch_size, found.compute_time) == (2, times)
    assert (found.loader, found.workers, found.prefetch_factor) == ("pytorch", 3, 2)
    assert found.source.startswith("measured run ")
    assert "; measured with 1 process a node; assumed: on other nod" in found.source


def test_results_of_a_loader_that_is_not_simulated_are_refused(experiment):
    with pytest.raises(ConfigError, match="got loader posix with 1 read threads, exp"):
        read(experiment("posix"))


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="with no runs, expected the folder of the"):
        read(tmp_path)
