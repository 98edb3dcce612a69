"""Compare runs of the same processes on several numbers of nodes."""

import pandas as pd
from tierscope.analysis.comparing.policies import add_up, compare_epochs
from tierscope.analysis.nodes import count_switches, save_by_epoch, save_up_to
from tierscope.core.description import Run, run_keys
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table

if __name__ == "__main__":
    log_to(snakemake.log[0])
    epochs = read_table(snakemake.input.epochs, "epochs")
    policy_epochs = compare_epochs(
        read_table(snakemake.input.io_time, "io_time"),
        epochs,
        read_table(snakemake.input.background, "background"),
    )
    totals = add_up(policy_epochs, epochs)
    runs = map(Run.read, snakemake.input.runs)
    faults = [
        read_table(path, "faults").assign(**run_keys(run, run.point))
        for path, run in zip(snakemake.input.faults, runs, strict=True)
    ]
    switches = count_switches(pd.concat(faults), epochs)
    for name, table in (
        ("policy_epochs", policy_epochs),
        ("policy_totals", totals),
        ("node_epochs", save_by_epoch(policy_epochs, totals)),
        ("node_savings", save_up_to(totals)),
        ("node_switches", switches),
    ):
        write_table(table, snakemake.output[name], name)
