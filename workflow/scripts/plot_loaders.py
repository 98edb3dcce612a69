"""Draw the comparison of loaders of files and of one LMDB file."""

from tierscope.analysis.breakdown import select_scenarios
from tierscope.analysis.origin import origin_of
from tierscope.core.files import log_to
from tierscope.core.lmdb_loaders import LOADERS
from tierscope.core.tables import read_table
from tierscope.figures.loaders import plot_loaders
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    log_to(snakemake.log[0])
    table = read_table(snakemake.input.epochs, "policy_epochs")
    table = select_scenarios(table, [snakemake.params.scene])
    is_alone = table["policy"] == snakemake.params.policy
    is_nothing_held = table["policy"] == "none"
    table = table[is_alone | is_nothing_held]
    databases = table[table["loader"].isin(LOADERS)]
    rates = databases["cache_rate_percent"].unique()
    figure = plot_loaders(
        table[table["cache_rate_percent"].isin(rates)],
        provenance=origin_of(snakemake),
        dataset_titles=snakemake.params.dataset_titles,
    )
    save_figure(figure, [snakemake.output[kind] for kind in ("svg", "png", "pdf")])
