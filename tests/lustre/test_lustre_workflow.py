"""Datasets on Lustre by the real workflow, with a stand-in for its command `lfs`."""

import os

import pytest
import yaml
from integration.conftest import ROOT, Project
from lustre.standin import lustre_environment
from tierscope.core.tables import read_table

SYSTEM = {
    "description": "A stand-in for Lustre",
    "gfs": {"kind": "lustre", "root": "scratch/gfs", "n_osts": 4, "pools": {2: [3, 1]}},
    "lfs": {"kind": "directory", "root": "scratch/lfs"},
}

UNTIL_DATASET = ("--until", "generate_dataset")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a project that was refused on another file system, then generated."""
    project = Project(tmp_path_factory.mktemp("lustre"))
    laptop = yaml.safe_load((ROOT / "resources/systems/laptop.yaml").read_text())
    path = project.folder / "resources" / "systems" / "standin.yaml"
    path.write_text(yaml.safe_dump(laptop | SYSTEM))
    project.change(
        "config/tiny.yaml",
        {
            "system": "standin",
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [1, 2, 4],
                "cache_rates_percent": [0],
            },
            "figures": {"scenario": {"dataset": "tiny", "n_osts": 4}},
        },
    )
    project.environment |= lustre_environment(project.folder, mount="/nowhere")
    project.refusal = project.snakemake(*UNTIL_DATASET, expect=1)
    project.left_by_refusal = [
        *project.path().glob("datasets"),
        *(project.folder / "scratch").rglob("*.tfrecord"),
    ]
    project.environment |= lustre_environment(project.folder)
    project.snakemake(*UNTIL_DATASET)
    return project


def manifest(project, n_osts):
    """Return the manifest of a dataset."""
    return read_table(project.path("datasets", f"tiny-{n_osts}ost.parquet"), "manifest")


def test_dataset_not_on_lustre_is_refused_with_the_commands_words(project):
    assert "tierscope: lfs setstripe -c 1 -i " in project.refusal
    assert "exit code 19: lfs setstripe: '" in project.refusal
    assert "not on a mounted Lustre filesystem" in project.refusal
    assert "Traceback" not in project.refusal
    assert project.left_by_refusal == []


def test_datasets_lie_on_the_osts_asked_for(project):
    assert list(manifest(project, 1)["ost"]) == [0] * 32
    assert list(manifest(project, 2)["ost"]) == [3, 1] * 16
    assert set(manifest(project, 4)["ost"]) == {0, 1, 2, 3}
    data = project.folder / "scratch" / "gfs" / "data"
    for n_osts in (1, 2, 4):
        paths = manifest(project, n_osts)["path"]
        (folder,) = {os.path.dirname(path) for path in paths}
        assert sorted(os.listdir(data / folder)) == list(map(os.path.basename, paths))
