"""Compare the policies and loaders of an experiment."""

from tierscope.analysis.comparing.policies import add_up, compare_epochs, summarise
from tierscope.analysis.comparing.staging import fills_of
from tierscope.analysis.origin import origin_of
from tierscope.core.description import Run
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table, write_table
from tierscope.pages.policy_summary import summary_text

if __name__ == "__main__":
    log_to(snakemake.log[0])
    epochs = read_table(snakemake.input.epochs, "epochs")
    background = [read_table(path, "background") for path in snakemake.input.background]
    policy_epochs = compare_epochs(
        read_table(snakemake.input.io_time, "io_time"), epochs, *background
    )
    stage_in = [read_table(path, "stage_in") for path in snakemake.input.stage_in]
    fills = fills_of(map(Run.read, snakemake.input.runs))
    totals = add_up(policy_epochs, epochs, *stage_in, fills=fills)
    summary = summarise(totals)
    write_table(policy_epochs, snakemake.output.epochs, "policy_epochs")
    write_table(totals, snakemake.output.totals, "policy_totals")
    write_table(summary, snakemake.output.summary, "policy_summary")
    text = summary_text(summary, policy_epochs, provenance=str(origin_of(snakemake)))
    write_text(snakemake.output.text, text)
    print(text)
