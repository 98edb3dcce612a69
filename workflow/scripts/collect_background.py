"""Put the background traffic of all runs into one table."""

import sys

import pandas as pd
from tierscope.tables import read_table, write_table

if __name__ == "__main__":
    sys.stderr = open(snakemake.log[0], "w")
    runs = [read_table(path, "background") for path in snakemake.input.background]
    write_table(pd.concat(runs), snakemake.output[0], "background")
