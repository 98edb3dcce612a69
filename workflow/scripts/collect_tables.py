"""Join the tables of all runs, or of all simulated scenarios, into one of each kind."""

from tierscope.core.files import log_to
from tierscope.core.tables import read_tables, write_table

if __name__ == "__main__":
    log_to(snakemake.log[0])
    for name, path in snakemake.output.items():
        table = read_tables(snakemake.input[name], name, after_training=True)
        write_table(table, path, name)
