"""Join the execution times of all runs, and how they were spent, keyed by run."""

from collections.abc import Iterable

import pandas as pd
from tierscope.core.columns import TABLES
from tierscope.core.description import Run, run_keys
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table


def with_keys(epochs: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Return a run's table `run_epochs` with the run's keys: a table `epochs`."""
    return epochs.assign(**run_keys(run, run.point))


def joined_epochs(
    epochs: Iterable[str], runs: Iterable[str], *, after_training: bool = False
) -> pd.DataFrame:
    """Return table `epochs` of some runs, by their tables and their `run.json`."""
    options = {"after_training": after_training}
    return pd.concat(
        with_keys(read_table(path, "run_epochs", **options), Run.read(run))
        for path, run in zip(epochs, runs, strict=True)
    )


def utilisation(epochs: pd.DataFrame) -> pd.DataFrame:
    """Return table `utilisation`: the rows of `epochs` that say how time was spent."""
    known = epochs[epochs["compute_time_s"].notna()]
    return known[list(TABLES["utilisation"])]


if __name__ == "__main__":
    log_to(snakemake.log[0])
    epochs = joined_epochs(
        snakemake.input.epochs, snakemake.input.runs, after_training=True
    )
    write_table(epochs, snakemake.output.epochs, "epochs")
    write_table(utilisation(epochs), snakemake.output.utilisation, "utilisation")
