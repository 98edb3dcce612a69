"""Sum up the background traffic of a run by node and epoch."""

from tierscope.core.description import Run, run_keys
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table
from tierscope.trace.background import sum_background
from tierscope.trace.file_records import read_background_records

if __name__ == "__main__":
    log_to(snakemake.log[0])
    run = Run.read(snakemake.input.run)
    epochs = read_table(snakemake.input.epochs, "run_epochs")
    background = sum_background(
        read_background_records(
            snakemake.input.log,
            run.background_roots,
            read_table(snakemake.input.manifest, "manifest"),
        ),
        read_table(snakemake.input.decisions, "decisions"),
        epochs.drop_duplicates("rank").set_index("rank")["node"],
        {node["node"]: node["drain_time_s"] for node in run.placement},
    )
    background = background.assign(**run_keys(run, run.point))
    write_table(background, snakemake.output[0], "background")
