"""Table `designs`: what was looked at, what it does and what it costs."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import TABLES
from tierscope.core.columns.designs import BOUND, NOT_ASKED, SIMULATED
from tierscope.data.costs import LINK, NODE, OBJECT_SERVER
from tierscope.data.designs import Design
from tierscope.model.designs.bounds import by_bandwidth
from tierscope.model.designs.evidence import Evidence

_AU = "utilisation_percent"
# Quantities, and what their ends are called.
_RESULTS = {
    _AU: "utilisation_{}_percent",
    "samples_per_second": "samples_per_second_{}",
    "epoch_time_s": "epoch_time_{}_s",
    "io_time_s": "io_time_{}_s",
}


def numbered(evidence: Evidence, others: Iterable[Design] = ()) -> dict[Design, int]:
    """Return all designs that were looked at, in the order of the study, with numbers.

    `others` are those that were not simulated.
    """
    places = {storage: at for at, storage in enumerate(evidence.study.storages)}
    looked_at = {*others, *(design for _, design in evidence.paces)}
    ordered = sorted(looked_at, key=lambda one: (places[one.storage], one.n))
    return {design: at for at, design in enumerate(ordered)}


def designs_table(evidence: Evidence, numbers: Mapping[Design, int]) -> pd.DataFrame:
    """Return table ``designs``, of which nobody knows what limits.

    Parameters
    ----------
    evidence : Evidence
        What is known.
    numbers : mapping of Design to int
        The designs (`numbered`). Of a search for the most accelerators a workload has
        only those that were simulated for it.
    """
    rows = [
        _row(evidence, workload, design, number)
        for workload in evidence.workloads
        for design, number in numbers.items()
        if evidence.study.most is None or evidence.n_draws(workload, design)
    ]
    table = pd.DataFrame(rows)
    table = table.assign(linear=_linear(table))
    return table[list(TABLES["designs"])]


def _row(
    evidence: Evidence, workload: str, design: Design, number: int
) -> dict[str, Any]:
    """Return a row, without what limits it and what follows from others."""
    (n, storage), plan = design, evidence.plan(workload)
    n_draws, goal = evidence.n_draws(workload, design), evidence.study.goals[workload]
    rate, room = plan.cache_rate_percent(*design), plan.lfs_rate_percent(*design)
    hardware, results = plan.hardware(*design), _results(evidence, workload, design)
    return {
        "source": plan.description.source,
        "system": plan.machine.name,
        "workload": workload,
        "share": evidence.study.shares[workload],
        "design": number,
        "n_accelerators": n,
        "n_nodes": hardware[NODE],
        "object_servers": hardware[OBJECT_SERVER],
        "n_links": hardware[LINK],
        "metadata_speed": storage.metadata_speed,
        "lfs_devices": plan.lfs_devices(storage),
        "lfs_gib": plan.lfs_gib(storage),
        "n_lfs_devices": plan.n_lfs_devices(*design),
        "placement": storage.placement,
        "cache_rate_percent": rate,
        "n_files": plan.n_files(n),
        "n_steps": plan.n_steps(n),
        "n_simulated_steps": plan.n_simulated_steps(n),
        "n_repetitions": n_draws,
        "compute_time_s": plan.description.training.compute_time.mean_s,
        "goal": goal.quantity,
        "goal_value": float(goal.value),
        **results,
        "throughput": results["samples_per_second"] * plan.mean_file_bytes,
        "lfs_rate_percent": math.nan if room is None else room,
        "fits_lfs": room is None or rate <= room,
        "verdict": evidence.verdict(workload, design),
        "limit": NOT_ASKED,
        "known_by": SIMULATED if n_draws else BOUND,
        "demand": getattr(by_bandwidth(plan, design), goal.quantity),
        **evidence.study.cost.sums(hardware),
    }


def _results(evidence: Evidence, workload: str, design: Design) -> dict[str, float]:
    """Return what was simulated, or is known by bounds."""
    found = {}
    for quantity, ends in _RESULTS.items():
        band = evidence.band(workload, design, quantity)
        found[quantity] = band.mean
        found |= {ends.format(end): getattr(band, end) for end in ("low", "high")}
    return found


def _linear(table: pd.DataFrame) -> pd.Series:
    """Return the goal's quantity if samples a second grow with all that is bought.

    They grow with accelerators and object servers from those of each workload's
    smallest design: the fewest accelerators, then object servers, and so on.
    """
    by = ["n_accelerators", "object_servers", "n_links", "metadata_speed"]
    simulated = table[table["n_repetitions"] > 0]
    ordered = simulated.sort_values([*by, "n_lfs_devices", "design"])
    smallest = ordered.drop_duplicates("workload").set_index("workload")
    first = smallest.reindex(table["workload"]).set_index(table.index)
    more = table["object_servers"] / first["object_servers"]
    parts = table["n_steps"] / first["n_steps"] / more
    computes_s = table["n_steps"] * table["compute_time_s"]
    found = {
        _AU: np.minimum(first[_AU] * more, 100.0),
        "epoch_time_s": np.maximum(first["epoch_time_s"] * parts, computes_s),
        "io_time_s": first["io_time_s"] * parts,
    }
    return pd.Series([found[goal][at] for at, goal in table["goal"].items()])
