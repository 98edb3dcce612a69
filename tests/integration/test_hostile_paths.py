"""Folders whose names would like to be shell commands."""

import pytest
from integration.conftest import TINY_SYSTEM, Project

SCENARIO = "tiny-0ost-pinning-posix"
NAME = "a; touch pwned $(touch pwned) `touch pwned` & b"


@pytest.mark.parametrize("where", ["project", "tiers"])
def test_hostile_folder_is_only_a_name(tmp_path, where):
    folder = tmp_path / (NAME if where == "project" else "project")
    folder.mkdir()
    project = Project(folder)
    project.use_directories()
    if where == "tiers":
        tiers = {
            tier: {"kind": "directory", "root": f"scratch/{NAME}/{tier}"}
            for tier in ("gfs", "lfs")
        }
        project.change(TINY_SYSTEM, tiers)
    scene = {"dataset": "tiny", "n_osts": 0}
    sweep = {
        "datasets": ["tiny"],
        "n_osts": [0],
        "policies": ["pinning"],
        "loaders": ["posix"],
        "cache_rates_percent": [50],
    }
    figures = {"figures": {"scenario": {**scene, "loader": "posix"}}}
    project.change("config/tiny.yaml", {"sweep": sweep, **figures})
    project.snakemake(*project.audits_of(SCENARIO, 50))
    assert not list(tmp_path.rglob("pwned"))
