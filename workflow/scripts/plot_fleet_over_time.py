"""Draw the I/O of all jobs of an analysis of Darshan logs over the time."""

from tierscope.analysis.logs.asking import JobTables
from tierscope.core.files import log_to
from tierscope.core.provenance import Origin
from tierscope.core.tables import read_table
from tierscope.figures.logs.fleet_over_time import plot_fleet_over_time
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    log_to(snakemake.log[0])
    given = snakemake.input
    prefixes = read_table(given.tier_prefixes, "tier_prefixes")
    names = ("fleet", "fleet_classes")
    figure = plot_fleet_over_time(
        JobTables({name: given[name] for name in names}),
        provenance=Origin(snakemake.params.provenance),
        tiers=list(prefixes["tier"].unique()),
    )
    save_figure(figure, [snakemake.output[kind] for kind in ("svg", "png", "pdf")])
