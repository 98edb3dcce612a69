"""Simulate all runs of a scenario: I/O time, execution times, copies, peers."""

import json
import sys
from pathlib import Path

import pandas as pd
from tierscope.analysis.breakdown import slowest_process
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.core.tables import empty_table, write_table
from tierscope.model.simulator.database_run import describe_database
from tierscope.model.simulator.run import describe
from tierscope.model.simulator.runs import simulate_run

TABLES = ("io_time", "epochs", "background", "stage_in", "peers")


def progress(scenario: str, number: int, total: int, io_time: pd.DataFrame) -> str:
    """Return a line about a run that has been simulated."""
    slowest_s = ", ".join(
        f"{time_s:.3g}" for time_s in slowest_process(io_time)["io_time_s"]
    )
    rate = io_time["cache_rate_percent"].iloc[0]
    return (
        f"{scenario}, point {number} of {total}: cache rate {rate} %, slowest process "
        f"{slowest_s} s"
    )


if __name__ == "__main__":
    description = RunDescription.from_json(snakemake.params.description)
    points = [Point(**point) for point in snakemake.params.points]
    runs = []
    sys.stderr = open(snakemake.log[0], "w", buffering=1)
    for point in points:
        tables = simulate_run(description, point)
        runs.append(tables)
        name = snakemake.wildcards.scenario
        line = progress(name, len(runs), len(points), tables["io_time"])
        print(line, file=sys.stderr)
    for name in TABLES:
        parts = [tables[name] for tables in runs if name in tables]
        table = pd.concat(parts) if parts else empty_table(name)
        write_table(table, snakemake.output[name], name)
    content = describe_database if description.lmdb else describe
    text = json.dumps(content(description), indent=1)
    Path(snakemake.output.simulation).write_text(text + "\n")
