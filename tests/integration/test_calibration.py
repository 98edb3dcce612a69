"""Probes under MPI on emulated devices, and the calibration that takes them."""

import json

import pandas as pd
import pytest
import yaml
from integration.conftest import Project
from tierscope.core.description import ProbeDescription
from tierscope.core.tables import read_table
from tierscope.core.validation import read_yaml
from tierscope.model.calibration.probe_times import probe_times
from tierscope.storage.probes import REPEATS

PROBES = "results/tiny/probes/tiny-60ost/probes.parquet"
FITTED = ["gfs.open_s", "lfs.request_s"]
MODEL = {
    "calibration": "all-osts",
    "calibrations": {
        "all-osts": {
            "scenario": {"dataset": "tiny", "n_osts": 60, "loader": "posix"},
            "cache_rates_percent": [0, 100],
            "probed_n_osts": [60],
            "parameters": FITTED,
        },
        "two-osts": {"scenario": {"n_osts": 2}},
    },
}


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """Return a project whose storage has been probed: 4 processes, 32 files."""
    project = Project(tmp_path_factory.mktemp("probed"))
    project.change("config/tiny.yaml", {"model": MODEL})
    project.first_output = project.snakemake(PROBES)
    return project


@pytest.fixture(scope="module")
def probes(probed):
    return read_table(probed.folder / PROBES, "probes")


@pytest.fixture(scope="module")
def modelled_s(probed):
    """Return the time of each probe according to the model, in seconds."""
    described = ProbeDescription.read((probed.folder / PROBES).with_suffix(".json"))
    return pd.Series(probe_times(described, n_osts=60))


def test_probes_take_the_models_time_in_every_repeat(probes, modelled_s):
    assert (modelled_s > 0).sum() == 12  # closes on the LFS are free
    expected_s = modelled_s[probes["probe"]].to_numpy()
    assert probes["time_s"].to_numpy() == pytest.approx(expected_s, rel=1e-3, abs=1e-9)


def test_every_repeat_makes_all_calls(probes):
    assert (probes.groupby("probe")["repeat"].nunique() == REPEATS).all()
    assert set(probes["source"]) == {"emulated"}
    rate = probes[probes["probe"] == "gfs_read_rate"]
    assert (rate["n_clients"] == 4).all()
    assert (rate["bytes"] == 32 * 4096).all()


def test_summary_says_what_was_probed(probed):
    summary = json.loads((probed.folder / PROBES).with_suffix(".json").read_text())
    assert len(summary["emulation"]["devices"]) == 2
    assert summary["versions"]["mpi"].startswith("MPICH")
    (log,) = probed.path("logs", "probe_storage").glob("*.log")
    assert f"repeat {REPEATS} of {REPEATS}" in log.read_text()


def test_local_file_systems_are_empty_afterwards(probed):
    assert not (probed.folder / "scratch" / "lfs").exists()


def test_calibration_finds_devices_and_prints_them(probed):
    target = "results/tiny/model/all-osts/devices.yaml"
    output = probed.snakemake(target)
    assert "Calibration all-osts of system tiny (emulated data):" in output
    assert "observations, met within" in output
    text = (probed.folder / target).read_text()
    fitted = yaml.safe_load(text)["devices"]
    truth = read_yaml(probed.folder / "resources" / "systems" / "fugaku.yaml")
    for name in FITTED:
        tier, key = name.split(".")
        assert fitted[tier][key] == pytest.approx(truth["devices"][tier][key], rel=0.05)
    table = read_table(
        (probed.folder / target).with_name("calibration.parquet"), "calibration"
    )
    assert table["parameter"].tolist() == FITTED
    assert (table["standard_error"] > 0).all()


def test_runs_and_probes_of_a_calibration_are_compared(probed):
    target = "results/tiny/model/all-osts/run_facts.parquet"
    probed.snakemake(target)
    facts = read_table(probed.folder / target, "run_facts").set_index("fact")
    n_runs = facts["n_runs"]
    assert n_runs["library of the devices"] == 2 + 1
    assert n_runs["modules of the benchmark"] == n_runs["library of the tracer"] == 2
    assert n_runs["modules of the probes"] == 1
    assert "unknown" not in set(facts["value"])


def test_failure_before_finished_probes_does_not_launch_them_again(probed):
    (first,) = (probed.folder / "scratch" / "gfs").rglob("0000000.tfrecord")
    dataset = first.parent
    hidden = dataset.rename(dataset.with_name("hidden"))
    dataset.touch()  # a file where the folder belongs
    output = probed.snakemake(PROBES, "--forcerun", "generate_dataset", expect=1)
    assert "Failed: Generating dataset tiny" in output
    dataset.unlink()
    hidden.rename(dataset)
    assert "probe_storage" not in probed.snakemake("--dry-run", PROBES)


def test_a_calibration_of_what_is_not_run_is_refused_if_its_file_is_wanted(probed):
    output = probed.snakemake("results/tiny/model/two-osts/devices.yaml", expect=1)
    lines = [line for line in output.splitlines() if "two-osts.scenario" in line]
    (line,) = set(map(str.strip, lines))
    assert line.startswith(
        "config: model.calibrations.two-osts.scenario: got tiny-2ost-pinning-posix"
    )


def test_prediction_leaves_it_out_and_chooses_parameters(probed):
    output = probed.snakemake("predict")
    left_out = "Calibration two-osts left out: config: model.calibrations.two-osts."
    assert left_out in output
    summary = probed.path("predict", "summary.txt").read_text()
    assert left_out in summary
    said = summary.split("Calibration all-osts: ")[1]
    assert "structure of the model" in said.splitlines()[0], said
    assert "measured points that were held out" in summary, summary
    table = read_table(probed.path("predict", "predictions.parquet"), "predictions")
    is_simulated = table["model"] == "simulation"
    assert table["predicted_low_s"].notna().equals(is_simulated)
    assert (table["predicted_low_s"] <= table["predicted_high_s"])[is_simulated].all()
    errors = read_table(
        probed.path("predict", "prediction_errors.parquet"), "prediction_errors"
    )
    errors = errors[(errors["model"] == "simulation") & (errors["n_osts"] == 60)]
    assert set(errors["calibration"]) == {"all-osts", "one-ost"}
    fitted = read_table(
        probed.path("model", "one-ost", "calibration.parquet"), "calibration"
    ).set_index("parameter")
    assert len(fitted) == 8
    link = fitted.loc["gfs.link_bytes_per_s"]
    assert (link["status"] == "fitted") == (link["reason"] == "these data determine it")
    assert fitted.loc["gfs.open_s", "status"] == "fitted"


def test_other_targets_need_no_calibration(probed):
    assert "probe_storage" not in probed.snakemake("--dry-run", "fig2")
