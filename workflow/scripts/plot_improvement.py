"""Draw Fig. 3: breakdown of the slowest process after improving I/O classes."""

import sys

from tierscope.breakdown import select_epoch, select_scenario
from tierscope.plot import save_figure
from tierscope.plot_whatif import plot_improvement
from tierscope.tables import read_table
from tierscope.whatif import break_down_improved

if __name__ == "__main__":
    sys.stdout = sys.stderr = open(snakemake.log[0], "w", buffering=1)
    io_time = read_table(snakemake.input.io_time, "io_time")
    io_time = select_scenario(io_time, snakemake.params.scenario)
    io_time = select_epoch(io_time, snakemake.params.epoch)
    figure = plot_improvement(
        break_down_improved(io_time, [{}, *snakemake.params.improvements]),
        read_table(snakemake.input.spread, "spread"),
        snakemake.params.epoch,
        provenance=snakemake.params.provenance,
        dataset_titles=snakemake.params.dataset_titles,
    )
    save_figure(figure, snakemake.output)
