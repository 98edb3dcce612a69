"""Draw the I/O of all jobs of an analysis of logs: side by side, and over the time."""

from tierscope.analysis.logs.asking import JobTables
from tierscope.core.files import log_to
from tierscope.core.provenance import Origin
from tierscope.core.tables import read_table
from tierscope.figures.logs.fleet import plot_fleet
from tierscope.figures.logs.fleet_over_time import plot_fleet_over_time
from tierscope.figures.style import save_figure

_KINDS = ("svg", "png", "pdf")

if __name__ == "__main__":
    log_to(snakemake.log[0])
    given, output = snakemake.input, snakemake.output
    tables = JobTables({name: given[name] for name in ("fleet", "fleet_classes")})
    prefixes = read_table(given.tier_prefixes, "tier_prefixes")
    known = {
        "provenance": Origin(snakemake.params.provenance),
        "tiers": list(prefixes["tier"].unique()),
    }
    save_figure(plot_fleet(tables, **known), [output[kind] for kind in _KINDS])
    over_time = plot_fleet_over_time(tables, **known)
    save_figure(over_time, [output[f"over_time_{kind}"] for kind in _KINDS])
