"""Put stage-in and reads from peers of all runs into one table of each kind."""

import sys

import pandas as pd
from tierscope.tables import read_table, write_table

if __name__ == "__main__":
    sys.stderr = open(snakemake.log[0], "w")
    for name in ("stage_in", "peers"):
        runs = [read_table(path, name) for path in snakemake.input[name]]
        write_table(pd.concat(runs), snakemake.output[name], name)
