"""Simulate all runs of a scenario: their I/O time and execution times."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from tierscope.breakdown import slowest_process
from tierscope.model.simulated_database import describe_database, simulate_database
from tierscope.model.simulated_run import describe, simulate_reads, tables_of
from tierscope.tables import write_table


def simulate_points(
    description: Mapping[str, Any], points: Iterable[Mapping[str, int]]
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield the tables `io_time` and `epochs` of each point."""
    if "lmdb" in description:
        yield from simulate_database(description, points)
        return
    for point in points:
        yield tables_of(description, point, simulate_reads(description, point))


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
    description, points = snakemake.params.description, snakemake.params.points
    io_time, epochs = [], []
    with open(snakemake.log[0], "w", buffering=1) as log:
        for tables in simulate_points(description, points):
            io_time.append(tables[0])
            epochs.append(tables[1])
            name = snakemake.wildcards.scenario
            line = progress(name, len(io_time), len(points), tables[0])
            print(line, file=log)
            print(line, file=sys.stderr, flush=True)
    write_table(pd.concat(io_time), snakemake.output.io_time, "io_time")
    write_table(pd.concat(epochs), snakemake.output.epochs, "epochs")
    content = describe_database if "lmdb" in description else describe
    text = json.dumps(content(description), indent=1)
    Path(snakemake.output.simulation).write_text(text + "\n")
