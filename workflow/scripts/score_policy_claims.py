"""Compare the results with the claims of other papers on policies and loaders."""

from tierscope.analysis.breakdown import select_scenarios
from tierscope.analysis.origin import origin_of
from tierscope.claims.other_papers import (
    NodeTables,
    claims_lines,
    claims_text,
    read_policy_claims,
    score_policy_claims,
)
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table, write_table

if __name__ == "__main__":
    log_to(snakemake.log[0])
    scene = [snakemake.params.scene]
    of_nodes = NodeTables(
        *(
            select_scenarios(table, scene) if len(table) else table
            for name, paths in (
                ("policy_epochs", snakemake.input.node_epochs),
                ("policy_totals", snakemake.input.node_totals),
                ("node_switches", snakemake.input.node_switches),
            )
            for table in (read_table(path, name) for path in paths)
        )
    )
    claims = score_policy_claims(
        read_policy_claims(snakemake.input.claims),
        select_scenarios(read_table(snakemake.input.epochs, "policy_epochs"), scene),
        select_scenarios(read_table(snakemake.input.totals, "policy_totals"), scene),
        loader=snakemake.params.loader,
        of_nodes=of_nodes,
        accuracy=next(
            (read_table(path, "accuracy_tests") for path in snakemake.input.accuracy),
            None,
        ),
    )
    write_table(claims, snakemake.output.claims, "policy_claims")
    text = claims_text(claims, str(origin_of(snakemake)))
    write_text(snakemake.output.markdown, text)
    lines = claims_lines(claims, snakemake.output.markdown)
    write_text(snakemake.output.lines, lines)
    print(lines)
