"""Join the certificates of all runs of a program into one table."""

import pandas as pd
from tierscope.analysis.page_cache import certificate_of
from tierscope.core.columns import RUN_KEYS
from tierscope.core.description import Run, run_keys
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table


def of_run(verdicts: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Return a run's rows of table `verdicts`."""
    keys = pd.Series(run_keys(run, run.point))[list(RUN_KEYS)]
    return verdicts[(verdicts[list(RUN_KEYS)] == keys).all(axis="columns")]


if __name__ == "__main__":
    log_to(snakemake.log[0])
    verdicts = read_table(snakemake.input.verdicts, "verdicts")
    runs = map(Run.read, snakemake.input.runs)
    said = [certificate_of(run, of_run(verdicts, run)) for run in runs]
    write_table(pd.concat(said), snakemake.output[0], "certificate")
