"""Draw the effect of the number of nodes, and write it as text."""

from tierscope.analysis.origin import origin_of
from tierscope.claims.other_papers import read_policy_claims, stated_numbers
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table
from tierscope.figures.nodes import plot_nodes, summary_text
from tierscope.figures.policies import failure_notes
from tierscope.figures.style import save_figure

if __name__ == "__main__":
    log_to(snakemake.log[0])
    epochs, savings, switches = (
        read_table(snakemake.input[name], name)
        for name in ("node_epochs", "node_savings", "node_switches")
    )
    notes = failure_notes(read_table(snakemake.input.policy_epochs, "policy_epochs"))
    figure = plot_nodes(
        epochs,
        savings,
        switches,
        stated_numbers(read_policy_claims(snakemake.input.claims)),
        provenance=origin_of(snakemake),
        dataset_titles=snakemake.params.dataset_titles,
        notes=notes,
    )
    save_figure(figure, [snakemake.output[kind] for kind in ("svg", "png", "pdf")])
    text = summary_text(
        savings,
        epochs,
        switches,
        provenance=origin_of(snakemake),
        notes=notes,
    )
    write_text(snakemake.output.text, text)
    print(text)
