"""Estimate the I/O time of an epoch after improving some I/O classes."""

from tierscope.analysis.breakdown import shown_epoch
from tierscope.analysis.whatif import (
    best_point,
    estimate,
    grid_percents,
    wanted_improvements,
)
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table

if __name__ == "__main__":
    log_to(snakemake.log[0])
    params = snakemake.params
    percents = grid_percents(**params.grid)
    improvements = wanted_improvements(params.improvements, params.pairs, percents)
    io_time = read_table(snakemake.input.io_time, "io_time")
    epoch = shown_epoch(io_time, params.epoch)
    estimates = estimate(io_time, improvements, epochs=[epoch])
    write_table(estimates, snakemake.output.estimates, "estimates")
    print(best_point(estimates).to_string(index=False))
