"""Join the tables of all runs, or of all simulated scenarios, into one of each kind."""

import sys

from tierscope.core.tables import read_tables, write_table

if __name__ == "__main__":
    sys.stderr = open(snakemake.log[0], "w")
    for name, path in snakemake.output.items():
        table = read_tables(snakemake.input[name], name)
        write_table(table, path, name)
