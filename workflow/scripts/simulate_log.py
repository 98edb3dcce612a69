"""Simulate a run and write the Darshan log that the benchmark would leave."""

import sys

from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.model.simulator.log import write_simulated_log
from tierscope.model.simulator.run import simulate_reads

if __name__ == "__main__":
    sys.stderr = open(snakemake.log[0], "w")
    description = RunDescription.from_json(snakemake.params.description)
    reads = simulate_reads(description, Point(**snakemake.params.point))
    write_simulated_log(snakemake.output.log, description, reads)
