"""A simulated experiment goes through the same stages as a measured one."""

import html
import json
import re

import pandas as pd
import pytest
from integration.conftest import Project
from tierscope.analysis.breakdown import sum_io_time
from tierscope.core.description import Run, run_keys
from tierscope.core.io_class import IOClass
from tierscope.core.tables import read_table
from tierscope.model.predict import ANALYTIC


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """Return a project whose tiny experiment has been simulated: 3072 ranks."""
    project = Project(tmp_path_factory.mktemp("simulated"))
    project.change(
        "config/tiny.yaml",
        {
            "system": "fugaku",
            "simulate": True,
            "datasets": {"tiny": {"n_files": 6144}},
        },
    )
    project.first_output = project.snakemake()
    return project


def test_nothing_is_generated_or_measured(simulated):
    assert not (simulated.folder / "scratch").exists()
    assert "point 3 of 3: cache rate 100 %, slowest process" in simulated.first_output


@pytest.mark.parametrize(
    "stem",
    [
        "fig1_execution_and_io_time",
        "fig2_breakdown",
        "fig3_improvement",
        "fig4_gfs_meta_lfs_read",
        "fig5_cheapest",
    ],
)
def test_every_figure_says_that_it_is_simulated(simulated, stem):
    svg = simulated.path("figures", f"{stem}.svg").read_text()
    assert "(simulated)" in svg
    assert "simulated, parameters reconstructed, system fugaku" in svg


def test_report_is_of_simulated_runs_and_names_every_parameter(simulated):
    page = simulated.path("report.html").read_text()
    text = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())
    assert "5 simulated runs" in text
    assert "fitted to statements of the paper, not measured on the machine" in text
    devices = simulation(simulated)["system"]["devices"]
    for words in devices["sources"].values():
        for source in words.values():
            assert source in text
    for absent in ("not audited", "Tracer", "TIERSCOPE_GFS_ROOT"):
        assert absent not in text


def test_scenario_says_what_its_simulations_were_made_of(simulated):
    network = simulation(simulated)["network"]
    assert network["n_ranks"] == 3072
    assert network["gfs"]["n_object_servers"] == 60
    assert network["lfs"]["object_service"] == {"distribution": "lognormal", "cv": 1.35}


def test_explorer_and_scorecard_say_that_they_are_simulated(simulated):
    explorer = simulated.path("explorer.html").read_text()
    assert "What-if explorer: tiny (simulated)" in explorer
    assert "simulated, parameters reconstructed, system fugaku" in explorer
    for name in ("scorecard.html", "scorecard.md"):
        page = simulated.path(name).read_text()
        assert "simulated data" in page
        assert "simulated, parameters reconstructed, system fugaku" in page
    claims = read_table(simulated.path("tables", "claims.parquet"), "claims")
    claims = claims.set_index("claim")
    assert claims.loc["C23", "status"] == "holds"
    assert claims.loc["C1", "fitted"] == "target"


def simulation(project):
    """Return what a run was simulated of."""
    run = project.path("runs", "tiny-60ost-pinning-posix", "cache-050", "rep-0")
    return json.loads((run / "run.json").read_text())


def test_tables_hold_every_rank_epoch_and_class(simulated):
    io_time = read_table(simulated.path("tables", "io_time.parquet"), "io_time")
    assert len(io_time) == 5 * 2 * 3072 * 4  # runs, epochs, ranks, classes
    assert set(io_time["source"]) == {"simulated"}
    assert set(io_time["system"]) == {"fugaku"}
    epochs = read_table(simulated.path("tables", "epochs.parquet"), "epochs")
    assert len(epochs) == 5 * 2 * 3072


def test_runs_lie_where_measured_ones_lie(simulated):
    folders = {
        path.relative_to(simulated.path("runs")).as_posix()
        for path in simulated.path("runs").rglob("*.parquet")
    }
    scenarios = {"tiny-60ost-pinning-posix": (0, 50, 100)}
    scenarios["tiny-1ost-pinning-posix"] = (0, 50)
    assert folders == {
        f"{scenario}/cache-{rate:03d}/rep-0/{name}.parquet"
        for scenario, rates in scenarios.items()
        for rate in rates
        for name in ("io_time", "epochs")
    }


def test_second_run_does_nothing(simulated):
    assert "Nothing to be done" in simulated.snakemake()


def test_log_is_made_on_request_and_passes_the_audit(simulated):
    run = simulated.path("runs", "tiny-60ost-pinning-posix", "cache-050", "rep-0")
    simulated.snakemake(str((run / "audit.json").relative_to(simulated.folder)))
    assert json.loads((run / "audit.json").read_text())["passed"]
    records = read_table(run / "file_records.parquet", "file_records")
    log = Run.read(run / "run.json")
    keys = run_keys(log, log.point)
    from_log = sum_io_time(records, range(3072), range(2), keys, tuple(IOClass))
    simulated_s = read_table(run / "io_time.parquet", "io_time")
    pd.testing.assert_frame_equal(from_log, simulated_s)
    assert len(simulated_s) == 2 * 3072 * 4


def test_other_parameters_are_simulated_again(simulated):
    path = simulated.folder / "resources" / "systems" / "fugaku.yaml"
    text = path.read_text()
    path.write_text(text.replace("open_s: 0.00003625", "open_s: 0.000036"))
    plan = simulated.snakemake("--dry-run")
    path.write_text(text)
    assert "simulate_scenario" in plan
    assert "Params have changed" in plan


def test_analytic_models_are_compared_with_the_simulator(simulated):
    output = simulated.snakemake("predict")
    path = simulated.path("predict", "prediction_errors.parquet")
    errors = read_table(path, "prediction_errors")
    assert set(errors["calibration"]) == {"as written"}
    models = errors.groupby("n_osts", sort=False)["model"].agg(list).to_dict()
    assert models == {60: [*ANALYTIC, "scaling"], 1: [*ANALYTIC]}
    on_one_ost = (errors["n_osts"] == 1) | (errors["model"] == "scaling")
    assert (errors["n_points"] == 3 - on_one_ost).all()  # not all on the LFS
    assert simulated.path("predict", "summary.txt").read_text() in output
    assert simulated.path("figures", "prediction.svg").exists()
