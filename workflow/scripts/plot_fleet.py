"""Draw the I/O of all jobs of an analysis of Darshan logs."""

from tierscope.core.files import log_to
from tierscope.core.provenance import Origin
from tierscope.core.tables import read_table
from tierscope.figures.fleet import plot_fleet
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    log_to(snakemake.log[0])
    prefixes = read_table(snakemake.input.tier_prefixes, "tier_prefixes")
    figure = plot_fleet(
        read_table(snakemake.input.fleet, "fleet"),
        read_table(snakemake.input.fleet_classes, "fleet_classes"),
        provenance=Origin(snakemake.params.provenance),
        tiers=list(prefixes["tier"].unique()),
    )
    save_figure(figure, [snakemake.output[kind] for kind in ("svg", "png", "pdf")])
