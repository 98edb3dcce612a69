"""Projects on a site that has a Darshan runtime, and what their runs hold."""

import json

import yaml
from integration.conftest import Project
from tierscope.core.tables import read_table

SYSTEM = {
    "description": "A site with a stand-in for Darshan",
    "n_nodes": 2,
    "processes_per_node": 1,
    "virtual_nodes": True,
    "points_per_launch": 1,
}
CONFIG = {
    "system": "site",
    "sweep": {
        "datasets": ["tiny"],
        "n_osts": [0],
        "loaders": ["posix"],
        "cache_rates_percent": [50],
    },
    "darshan": {"runtime": "auto"},
    "figures": {"scenario": {"dataset": "tiny", "n_osts": 0, "loader": "posix"}},
}
POSIX, TENSORFLOW = "tiny-0ost-pinning-posix", "tiny-0ost-pinning-tensorflow"


def make_project(tmp_path_factory, job, **config):
    """Return a project, its folder named with a space, on a site with these jobs."""
    folder = tmp_path_factory.mktemp("project with space")
    project = Project(folder)
    project.scratch = tmp_path_factory.mktemp("scratch")  # Darshan: without a space
    tiers = {
        tier: {"kind": "directory", "root": f"{project.scratch}/{tier}"}
        for tier in ("gfs", "lfs")
    }
    path = folder / "resources" / "systems" / "site.yaml"
    path.write_text(yaml.safe_dump({**SYSTEM, **tiers, "job": job}))
    project.change("config/tiny.yaml", CONFIG | config)
    return project


def run_folder(project, scenario=POSIX):
    """Return the folder of the scenario's only run."""
    return project.path("runs", scenario, "cache-050", "rep-0")


def run_json(project, scenario=POSIX):
    """Return what is written down of the scenario's only run."""
    return json.loads((run_folder(project, scenario) / "run.json").read_text())


def counts(project, scenario=POSIX):
    """Return what the log of a run counts: each record but its times."""
    records = read_table(
        run_folder(project, scenario) / "file_records.parquet", "file_records"
    )
    keys = ["epoch", "rank", "tier", "file_id"]
    counters = ["opens", "reads", "bytes_read"]
    return records[keys + counters].sort_values(keys).to_numpy().tolist()
