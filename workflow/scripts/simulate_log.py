"""Simulate a run and write the Darshan log that the benchmark would leave."""

from tierscope.core.description import RunDescription
from tierscope.core.files import log_to
from tierscope.core.scenario import Point
from tierscope.model.simulator.log import write_simulated_log
from tierscope.model.simulator.run import simulate_reads

if __name__ == "__main__":
    log_to(snakemake.log[0])
    description = RunDescription.from_json(snakemake.params.description)
    reads = simulate_reads(description, Point(**snakemake.params.point))
    write_simulated_log(snakemake.output.log, description, reads)
