"""Join the verdicts on where the reads of all runs came from into one table."""

import pandas as pd
from tierscope.analysis.page_cache import verdicts_of
from tierscope.core.description import Run
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table

if __name__ == "__main__":
    log_to(snakemake.log[0])
    runs = [
        verdicts_of(
            Run.read(run),
            read_table(epochs, "run_epochs"),
            read_table(io_time, "io_time"),
        )
        for run, epochs, io_time in zip(
            snakemake.input.runs,
            snakemake.input.epochs,
            snakemake.input.io_time,
            strict=True,
        )
    ]
    write_table(pd.concat(runs), snakemake.output[0], "verdicts")
