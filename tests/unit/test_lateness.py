"""How late emulated devices were, from the files of the runs."""

import math
from pathlib import Path

import pandas as pd
import yaml
from tierscope.lateness import (
    LIMIT_PERCENT,
    late_warnings,
    lateness_notes,
    lateness_table,
)
from tierscope.tables import RUN_KEYS

CONFIG = Path(__file__).parents[2] / "config" / "config.yaml"


def run_of(policy, emulation):
    """Return what `run.json` holds of a run's keys and devices."""
    scenario = {"dataset": "tiny", "n_osts": 1, "policy": policy, "loader": "posix"}
    return {
        "source": "emulated",
        "system": {"name": "small"},
        "scenario": scenario,
        "point": {"cache_rate_percent": 50, "repetition": 1},
        "emulation": emulation,
    }


def test_devices_in_virtual_time_are_never_late():
    table = lateness_table([run_of("none", {"devices": []})])
    assert math.isnan(table["lateness_percent"][0])
    assert lateness_notes(table["lateness_percent"]) == []
    assert late_warnings(table["lateness_percent"]) == []


def test_lateness_is_that_of_the_attempt_that_counts():
    late = {"lateness_percent": 8.5, "lateness_percent_of_attempts": [40.0, 8.5]}
    table = lateness_table([run_of("lru", late), run_of("none", None)])
    assert list(table) == [*RUN_KEYS, "lateness_percent"]
    assert table["policy"].tolist() == ["lru", "none"]
    assert table["lateness_percent"][0] == 8.5
    assert math.isnan(table["lateness_percent"][1])
    assert (table["repetition"] == 1).all()


def test_no_runs_have_a_table_that_joins_with_others():
    table = lateness_table(())
    assert table.empty
    assert table.dtypes["lateness_percent"] == "float64"
    assert table.dtypes["n_osts"] == "int64"


def test_marked_is_what_the_audit_refuses_by_default():
    audit = yaml.safe_load(CONFIG.read_text())["audit"]
    assert audit["max_lateness_percent"] == LIMIT_PERCENT


def test_nothing_is_said_of_devices_that_were_not_emulated():
    assert lateness_notes(pd.Series([math.nan], index=["none"])) == []
