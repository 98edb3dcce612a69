"""Join the execution times of all runs into one table, keyed by run."""

import pandas as pd
from tierscope.core.description import Run, run_keys
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table


def with_keys(epochs: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Return a run's table `run_epochs` with the run's keys: a table `epochs`."""
    return epochs.assign(**run_keys(run, run.point))


if __name__ == "__main__":
    log_to(snakemake.log[0])
    runs = [
        with_keys(read_table(epochs, "run_epochs"), Run.read(run))
        for epochs, run in zip(
            snakemake.input.epochs, snakemake.input.runs, strict=True
        )
    ]
    write_table(pd.concat(runs), snakemake.output[0], "epochs")
