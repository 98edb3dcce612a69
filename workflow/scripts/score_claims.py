"""Check the paper's claims against the tables and write the scorecard."""

from tierscope.analysis.origin import origin_of
from tierscope.claims.paper import (
    needed_sweep,
    read_claims,
    score_claims,
    tables_of_scenarios,
)
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table, write_table
from tierscope.figures.scorecard import plot_scorecard
from tierscope.figures.style import save_figure
from tierscope.pages.scorecard import html, markdown

TABLES = ("io_time", "breakdown", "epochs")


if __name__ == "__main__":
    log_to(snakemake.log[0])
    paper = read_claims(snakemake.input.paper)
    params = snakemake.params
    scenarios = tables_of_scenarios(
        *(read_table(snakemake.input[name], name) for name in TABLES),
        params.epoch,
        {"policy": params.policy, "loader": params.loader},
        params.dataset_titles,
    )
    claims = score_claims(paper, scenarios, params.model, computes=params.computes)
    write_table(claims, snakemake.output.claims, "claims")
    provenance, needs = str(origin_of(snakemake)), needed_sweep(paper, claims)
    for write, path in ((markdown, "markdown"), (html, "html")):
        text = write(claims, paper["paper"], provenance, needs)
        write_text(snakemake.output[path], text)
    figures = [snakemake.output[kind] for kind in ("svg", "png", "pdf")]
    save_figure(plot_scorecard(claims, provenance, needs), figures)
    columns = ["claim", "status", "measured", "accepted", "reason"]
    print(claims[columns].to_string(index=False))
