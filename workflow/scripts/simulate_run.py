"""Simulate a run and write the files of a benchmark: log, epochs and `run.json`."""

import json
import sys
from pathlib import Path

from tierscope.core.columns import RUN_KEYS
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.core.tables import write_table
from tierscope.model.simulator.log import simulated_run_json, write_simulated_log
from tierscope.model.simulator.run import simulate_reads, tables_of

if __name__ == "__main__":
    sys.stderr = open(snakemake.log[0], "w")
    description = RunDescription.from_json(snakemake.params.description)
    point = Point(**snakemake.params.point)
    reads = list(simulate_reads(description, point))
    _, epochs = tables_of(description, point, reads)
    epochs = epochs.drop(columns=list(RUN_KEYS))
    write_table(epochs, snakemake.output.epochs, "run_epochs")
    write_simulated_log(snakemake.output.log, description, reads)
    text = json.dumps(simulated_run_json(description, point), indent=1)
    Path(snakemake.output.run).write_text(text + "\n")
