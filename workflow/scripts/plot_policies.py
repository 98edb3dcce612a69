"""Draw the comparison of policies for the loader of the figures."""

from tierscope.analysis.breakdown import select_scenarios
from tierscope.analysis.origin import origin_of
from tierscope.core.files import log_to
from tierscope.core.tables import read_table
from tierscope.figures.policies import plot_policies
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    log_to(snakemake.log[0])
    tables = [
        select_scenarios(read_table(path, name), [snakemake.params.scene])
        for name, path in (
            ("policy_epochs", snakemake.input.epochs),
            ("policy_totals", snakemake.input.totals),
            ("policy_summary", snakemake.input.summary),
        )
    ]
    figure = plot_policies(
        *tables,
        provenance=origin_of(snakemake),
        dataset_titles=snakemake.params.dataset_titles,
    )
    save_figure(figure, [snakemake.output[kind] for kind in ("svg", "png", "pdf")])
