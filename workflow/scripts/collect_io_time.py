"""Put the I/O time of all runs into one table."""

import sys

import pandas as pd
from tierscope.tables import read_table, write_table

if __name__ == "__main__":
    sys.stderr = open(snakemake.log[0], "w")
    runs = [read_table(path, "io_time") for path in snakemake.input.io_time]
    write_table(pd.concat(runs), snakemake.output[0], "io_time")
