"""Policies that move files, simulated: the same comparison as of measured runs."""

import numpy as np
import pytest
from golden import assert_golden
from integration.conftest import Project
from tierscope.core.tables import read_table

POLICIES = ["none", "pinning", "lru", "monarch", "clairvoyant", "adhoc"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Return a project whose policies have been compared: 768 nodes of 4 ranks."""
    project = Project(tmp_path_factory.mktemp("simulated"))
    scene = {"dataset": "tiny", "n_osts": 60, "loader": "tensorflow"}
    project.change(
        "config/tiny.yaml",
        {
            "system": "fugaku",
            "simulate": True,
            "datasets": {"tiny": {"n_files": 6144}},
            "sweep": {
                "datasets": ["tiny"],
                "n_osts": [60],
                "policies": POLICIES,
                "loaders": ["tensorflow"],
                "cache_rates_percent": [100],
            },
            "training": {"epochs": 2},
            "figures": {"scenario": {**scene, "policy": "pinning"}},
        },
    )
    project.first_output = project.snakemake("policies")
    return project


def test_comparison_says_that_it_is_simulated(compared):
    svg = compared.path("figures", "policies.svg").read_text()
    assert "simulated, parameters reconstructed, system fugaku" in svg
    claims = compared.path("policies", "claims.md").read_text()
    assert "Source: simulated, parameters reconstructed" in claims
    summary = compared.path("policies", "summary.txt").read_text()
    assert summary.startswith("Source: simulated, parameters reconstructed, system fug")
    assert summary in compared.first_output


def test_copies_stage_in_and_peers_have_the_tables_of_measured_runs(
    compared,
):
    tables = {
        name: read_table(compared.path("tables", f"{name}.parquet"), name)
        for name in ("epochs", "background", "stage_in", "peers")
    }
    assert set(tables["background"]["policy"]) == {"lru", "monarch", "clairvoyant"}
    assert set(tables["peers"]["policy"]) == {"adhoc"}
    assert len(tables["background"]) == 3 * 768 * 2
    assert len(tables["peers"]) == 3072 * 2
    assert tables["stage_in"]["gfs_opens"].sum() == 6144
    hits = tables["epochs"].groupby(["policy", "epoch"])["lfs_files"].sum()
    assert hits["lru", 0] == hits["monarch", 0] == 0
    assert abs(hits["monarch", 1] - 6144 / 768) <= 4 * np.sqrt(2 * 6144 / 768)


def test_numbers_are_golden(compared):
    folders = [compared.path("tables"), compared.path("policies")]
    assert_golden("policies", [p for f in folders for p in f.glob("*.parquet")])


def test_log_of_a_run_that_moves_files_is_refused_in_one_line(compared):
    run = "results/tiny/runs/tiny-60ost-lru-tensorflow/cache-100/rep-0/audit.json"
    output = compared.snakemake(run, expect=1)
    assert "policy lru: simulated runs have no log" in output
