"""Draw the I/O of all jobs of an analysis of Darshan logs."""

import sys

from tierscope.core.sources import Origin
from tierscope.figures.fleet import plot_fleet
from tierscope.figures.style import save_figure
from tierscope.pages.jobs.tables import read_job_tables

if __name__ == "__main__":
    sys.stdout = sys.stderr = open(snakemake.log[0], "w", buffering=1)
    tables = read_job_tables(snakemake.input, anonymous=snakemake.params.anonymous)
    figure = plot_fleet(
        tables["fleet"],
        tables["fleet_classes"],
        provenance=Origin(snakemake.params.provenance),
        tiers=list(tables["tier_prefixes"]["tier"].unique()),
    )
    save_figure(figure, [snakemake.output[kind] for kind in ("svg", "png", "pdf")])
