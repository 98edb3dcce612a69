"""Put the tables of all simulated scenarios into one of each kind."""

import sys

import pandas as pd
from tierscope.tables import read_table, write_table

if __name__ == "__main__":
    sys.stderr = open(snakemake.log[0], "w")
    for name in ("io_time", "epochs"):
        tables = [read_table(path, name) for path in snakemake.input[name]]
        write_table(pd.concat(tables), snakemake.output[name], name)
