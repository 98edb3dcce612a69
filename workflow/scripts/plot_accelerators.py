"""Draw how many accelerators a storage feeds, and say it in words."""

from tierscope.analysis.training.accelerators import summary_text
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table, read_tables, write_table
from tierscope.figures.style import save_figure
from tierscope.figures.training.accelerators import plot_accelerators

if __name__ == "__main__":
    log_to(snakemake.log[0])
    table = read_tables(snakemake.input.tables, "accelerators")
    write_table(table, snakemake.output.table, "accelerators")
    fit = None
    if snakemake.input.fit:
        fit = read_table(snakemake.input.fit, "accelerators_fit")
    provenance = snakemake.params.provenance
    figure = plot_accelerators(table, provenance=provenance)
    save_figure(figure, [snakemake.output[kind] for kind in ("svg", "png", "pdf")])
    text = summary_text(table, fit, snakemake.params.sources, provenance)
    write_text(snakemake.output.text, f"{text}\n")
    print(text)
