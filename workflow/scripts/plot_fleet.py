"""Draw the I/O of all jobs of an analysis of Darshan logs."""

import sys

from tierscope.core.provenance import Origin
from tierscope.core.tables import read_table
from tierscope.figures.fleet import plot_fleet
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    sys.stdout = sys.stderr = open(snakemake.log[0], "w", buffering=1)
    prefixes = read_table(snakemake.input.tier_prefixes, "tier_prefixes")
    figure = plot_fleet(
        read_table(snakemake.input.fleet, "fleet"),
        read_table(snakemake.input.fleet_classes, "fleet_classes"),
        provenance=Origin(snakemake.params.provenance),
        tiers=list(prefixes["tier"].unique()),
    )
    save_figure(figure, [snakemake.output[kind] for kind in ("svg", "png", "pdf")])
