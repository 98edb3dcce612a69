"""Check the paper's claims against the tables and write the scorecard."""

from tierscope.analysis.origin import origin_of
from tierscope.claims.paper import needed_sweep, read_claims, score_claims
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table, write_table
from tierscope.figures.scorecard import plot_scorecard
from tierscope.figures.style import save_figure
from tierscope.pages.scorecard import html, markdown

if __name__ == "__main__":
    log_to(snakemake.log[0])
    paper = read_claims(snakemake.input.paper)
    claims = score_claims(
        paper,
        read_table(snakemake.input.io_time, "io_time"),
        read_table(snakemake.input.breakdown, "breakdown"),
        read_table(snakemake.input.epochs, "epochs"),
        epoch=snakemake.params.epoch,
        policy=snakemake.params.policy,
        loader=snakemake.params.loader,
        model=snakemake.params.model,
        dataset_titles=snakemake.params.dataset_titles,
        computes=snakemake.params.computes,
    )
    write_table(claims, snakemake.output.claims, "claims")
    provenance, needs = str(origin_of(snakemake)), needed_sweep(paper, claims)
    for write, path in ((markdown, "markdown"), (html, "html")):
        text = write(claims, paper["paper"], provenance, needs)
        write_text(snakemake.output[path], text)
    figures = [snakemake.output[kind] for kind in ("svg", "png", "pdf")]
    save_figure(plot_scorecard(claims, provenance, needs), figures)
    columns = ["claim", "status", "measured", "accepted", "reason"]
    print(claims[columns].to_string(index=False))
