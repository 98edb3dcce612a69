"""Draw Fig. 2: breakdown of the slowest process over the cache rate."""

from tierscope.analysis.breakdown import select_scenarios, shown_epoch
from tierscope.analysis.origin import origin_of
from tierscope.core.files import log_to
from tierscope.core.tables import read_table
from tierscope.figures.breakdown import plot_breakdown
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    log_to(snakemake.log[0])
    breakdown = read_table(snakemake.input.breakdown, "breakdown")
    breakdown = select_scenarios(breakdown, snakemake.params.scenarios)
    stalls = snakemake.input.stalls
    figure = plot_breakdown(
        breakdown,
        read_table(snakemake.input.spread, "spread"),
        shown_epoch(breakdown, snakemake.params.epoch),
        provenance=origin_of(snakemake),
        dataset_titles=snakemake.params.dataset_titles,
        limits=read_table(snakemake.input.limits, "limits"),
        stalls=read_table(stalls, "class_stalls") if stalls else None,
    )
    save_figure(figure, snakemake.output)
