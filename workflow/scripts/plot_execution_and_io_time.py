"""Draw Fig. 1: execution time and I/O time of every epoch over the cache rate."""

from tierscope.analysis.breakdown import select_scenarios
from tierscope.analysis.origin import origin_of
from tierscope.core.files import log_to
from tierscope.core.tables import read_table
from tierscope.figures.execution_and_io_time import plot_execution_and_io_time
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    log_to(snakemake.log[0])
    io_time = read_table(snakemake.input.io_time, "io_time")
    io_time = select_scenarios(io_time, snakemake.params.scenarios)
    figure = plot_execution_and_io_time(
        read_table(snakemake.input.epochs, "epochs"),
        io_time,
        read_table(snakemake.input.spread, "spread"),
        provenance=origin_of(snakemake),
        dataset_titles=snakemake.params.dataset_titles,
    )
    save_figure(figure, snakemake.output)
