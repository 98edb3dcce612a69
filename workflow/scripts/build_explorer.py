"""Build the explorer: one HTML page in which a reader tries improvements."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from tierscope.breakdown import select_epoch, select_scenario, slowest_process
from tierscope.explorer import MAX_GOAL_PERCENT, Start, build_explorer
from tierscope.tables import read_table
from tierscope.whatif import best_point, make_goal


def start_goal_percent(
    io_time: pd.DataFrame, epochs: pd.DataFrame, goal: Mapping[str, Any]
) -> int:
    """Return the configured goal in whole percent of the best I/O time.

    The tables are those of one epoch of one scenario. A goal outside the slider is
    moved to its end.
    """
    goal_s = make_goal(io_time, epochs, **goal).io_time_s
    best_s = best_point(slowest_process(io_time))["io_time_s"].iloc[0]
    percent = round(100 * goal_s / best_s) if best_s else MAX_GOAL_PERCENT
    return min(max(percent, 1), MAX_GOAL_PERCENT)


def write_text(text: str, path: str | Path) -> None:
    """Write a text under a temporary name, then rename."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.stdout = sys.stderr = open(snakemake.log[0], "w", buffering=1)
    params = snakemake.params
    io_time = read_table(snakemake.input.io_time, "io_time")
    epochs = read_table(snakemake.input.epochs, "epochs")
    shown = select_epoch(select_scenario(io_time, params.scenario), params.epoch)
    start = Start(
        scenario=params.scenario,
        epoch=params.epoch,
        goal_percent=start_goal_percent(shown, epochs, params.goal),
        pair=params.pair,
        **params.search,
    )
    explorer = build_explorer(
        io_time,
        start,
        page=Path(snakemake.input.page).read_text(encoding="utf-8"),
        computation=Path(snakemake.input.computation).read_text(encoding="utf-8"),
        title=f"What-if explorer: {params.experiment}",
        provenance=params.provenance,
        dataset_titles=params.dataset_titles,
    )
    write_text(explorer, snakemake.output.explorer)
    print(f"{len(explorer.encode()) / 2**20:.1f} MiB")
