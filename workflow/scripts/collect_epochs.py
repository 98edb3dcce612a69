"""Put the execution times of all runs into one table, keyed by run."""

import json
import sys
from pathlib import Path

import pandas as pd
from tierscope.core.columns import run_keys
from tierscope.core.tables import read_table, write_table


def with_keys(epochs: pd.DataFrame, run: dict) -> pd.DataFrame:
    """Return a run's table `run_epochs` with the run's keys: a table `epochs`."""
    return epochs.assign(**run_keys(run))


if __name__ == "__main__":
    sys.stderr = open(snakemake.log[0], "w")
    runs = [
        with_keys(read_table(epochs, "run_epochs"), json.loads(Path(run).read_text()))
        for epochs, run in zip(
            snakemake.input.epochs, snakemake.input.runs, strict=True
        )
    ]
    write_table(pd.concat(runs), snakemake.output[0], "epochs")
