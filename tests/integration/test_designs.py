"""Target `designs` from the command line: with fitted devices and a fit, and as is."""

from pathlib import Path

import pytest
import yaml
from tierscope.core.tables import read_table

CONFIG = Path(__file__).parents[2] / "config" / "designs.yaml"


@pytest.fixture(scope="module")
def fed(finished):
    """Return the project after a study on devices that make all opens slow."""
    gfs = {
        "open_s": 0.1,
        "close_s": 0.0,
        "metadata_latency_s": 0.0,
        "n_osts": 60,
        "ost_bandwidth_bytes_per_s": 1.0e9,
        "read_latency_s": 0.0,
        "link_bytes_per_s": 1.0e11,
        "request_bytes": 1048576,
    }
    devices = finished.folder / "devices of a calibration.yaml"
    lfs = {
        "request_bytes": 1048576,
        "request_s": 0.0,
        "latency_s": 0.0,
        "processes_per_server": 16,
    }
    parts = {"origin": "calibrated", "gfs": gfs, "lfs": lfs}
    devices.write_text(yaml.safe_dump({"devices": parts}))
    config = {
        "experiment": "fed",
        "system": "fugaku",
        "designs": {
            "workloads": ["paper_large"],
            "compute_time_s": {"paper_large": 1},
            "devices": devices.name,
            "choices": {"accelerators": {"most": 32}, "cache_rates_percent": [0]},
            "steps": 200,  # of opens that vary by 135 %
            "fit": {
                "parameter": "gfs.open_s",
                "accelerators": 32,
                "utilisation_percent": 50,
                "deviation_points": 5,
            },
        },
    }
    (finished.folder / "fed.yaml").write_text(yaml.safe_dump(config))
    finished.fed_output = finished.snakemake("designs", config="fed.yaml")
    return finished


def test_a_study_says_how_many_are_fed_by_the_fitted_devices(fed):
    """At an AU of 50 %, 32 accelerators open 32 files a second: one takes 1 / 32 s."""
    folder = fed.folder / "results" / "fed"
    table = read_table(folder / "tables" / "designs.parquet", "designs")
    of_32 = table[table["n_accelerators"] == 32].iloc[0]
    assert of_32["utilisation_percent"] == pytest.approx(50, abs=1)
    assert of_32["utilisation_low_percent"] == pytest.approx(45, abs=1)
    fit = folder / "tables" / "designs_fit.parquet"
    value_s = read_table(fit, "designs_fit")["value"].iloc[0]
    assert value_s == pytest.approx(1 / 32, rel=0.1)
    reaching = table[table["utilisation_percent"] >= 90]
    assert 16 <= reaching["n_accelerators"].max() <= 20
    text = (folder / "summary.txt").read_text()
    assert "GFS-META limits" in text
    assert text.rstrip().splitlines()[-1] in fed.fed_output
    assert (folder / "figures" / "fig7_designs.svg").exists()


def test_the_example_says_what_to_buy(finished):
    """Its configuration is that of the project, on declared devices."""
    finished.snakemake("designs", config=str(CONFIG))
    folder = finished.folder / "results" / "designs"
    table = read_table(folder / "tables" / "designs.parquet", "designs")
    assert set(table["workload"]) == {"unet3d_h100", "cosmoflow_h100"}
    assert table["design"].nunique() == 9
    assert {"meets", "misses"} <= set(table["verdict"])
    assert "object server" in (folder / "summary.txt").read_text().splitlines()[0]
    assert (folder / "designs.html").exists()


def test_designs_without_a_study_says_what_to_type(finished):
    output = finished.snakemake("designs", expect=1)
    assert "--configfile config/designs.yaml" in output
