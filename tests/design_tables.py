"""Tables of designs for tests, of hand-made numbers."""

import math
from dataclasses import replace

import pandas as pd
from tierscope.core.columns.designs import TABLES
from tierscope.core.tables import check_table, empty_table
from tierscope.data.costs import Cost, Unit

# A system of one node, on which everything is one.
PLAIN = {
    "source": "simulated",
    "system": "pencil",
    "workload": "net",
    "share": 1.0,
    "n_accelerators": 8,
    "n_nodes": 1,
    "object_servers": 1,
    "n_links": 1,
    "metadata_speed": 1.0,
    "lfs_devices": 1,
    "lfs_gib": math.nan,
    "n_lfs_devices": 1,
    "placement": "pinning",
    "cache_rate_percent": 0,
    "n_files": 1000,
    "n_steps": 500,
    "n_simulated_steps": 50,
    "n_repetitions": 1,
    "compute_time_s": 0.5,
    "goal": "utilisation_percent",
    "goal_value": 90.0,
    "fits_lfs": True,
    "known_by": "simulated",
    "limit": "not asked",
}
COST = Cost(
    unit="EUR",
    hours=1000,
    units={
        "object_server": Unit(price=100, watts=10),
        "lfs_device": Unit(price=30, price_per_gib=0.01),
    },
)
HOURLY = replace(COST, accelerator_hour=2)


def row(au=None, low=None, high=None, **keys):
    """Return a row of table `designs`: its AU, and the ends of its interval."""
    found = dict.fromkeys(TABLES["designs"], math.nan) | PLAIN | keys
    if au is not None:
        found |= {"utilisation_percent": float(au), "samples_per_second": float(au)}
        found |= {"throughput": 1024.0 * au}
    if low is not None:
        found |= {"utilisation_low_percent": low, "utilisation_high_percent": high}
    if "verdict" not in keys:
        ends = [one >= found["goal_value"] for one in (low or au, high or au)]
        found["verdict"] = {2: "meets", 1: "undecided", 0: "misses"}[sum(ends)]
    return found


def designs(*rows, **keys):
    """Return table `designs` of rows, numbered in their order."""
    frame = pd.DataFrame(rows).assign(**keys)
    if "design" not in keys and frame["design"].isna().any():
        frame["design"] = range(len(frame))
    return check_table(frame, "designs")


def servers(*used, **keys):
    """Return designs of 1, 2 ... object servers with these AU."""
    rows = [row(au, object_servers=n + 1) for n, au in enumerate(used)]
    return designs(*rows, **keys)


def inputs(*changes):
    """Return table `designs_inputs`: of parameters and their three choices."""
    columns = ("parameter", "choice", "choice_low", "choice_high")
    rows = [dict(zip(columns, one, strict=True)) for one in changes]
    known = {"workload": "net", "unit": "s", "origin": "assumed"}
    numbers = {"value": 0.002, "low": 0.001, "high": 0.004}
    if not rows:
        return empty_table("designs_inputs")
    return check_table(pd.DataFrame(rows).assign(**known, **numbers), "designs_inputs")
