"""Simulate runs of a scenario: I/O time, execution times, copies, peers, `run.json`."""

import json

import pandas as pd
from tierscope.analysis.breakdown import slowest_process
from tierscope.core.columns import RUN_KEYS
from tierscope.core.description import RunDescription
from tierscope.core.files import log_to, write_text
from tierscope.core.scenario import Point
from tierscope.core.tables import write_table
from tierscope.model.simulator.log import simulated_run_json
from tierscope.model.simulator.runs import simulate_run


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
    log_to(snakemake.log[0])
    description = RunDescription.from_json(snakemake.params.description)
    points = [Point(**point) for point in snakemake.params.points]
    written = snakemake.output
    for number, point in enumerate(points):
        tables = simulate_run(description, point)
        name, total = snakemake.params.name, len(points)
        print(progress(name, number + 1, total, tables["io_time"]))
        epochs = tables.pop("epochs").drop(columns=list(RUN_KEYS))
        write_table(epochs, written.epochs[number], "run_epochs")
        for name, table in tables.items():
            write_table(table, written[name][number], name)
        text = json.dumps(simulated_run_json(description, point), indent=1)
        write_text(written.runs[number], text + "\n")
