"""Break down the I/O time of the slowest process of each epoch by I/O class."""

import sys

from tierscope.analysis.breakdown import bottleneck, break_down
from tierscope.core.tables import read_table, write_table

if __name__ == "__main__":
    sys.stdout = sys.stderr = open(snakemake.log[0], "w", buffering=1)
    breakdown = break_down(read_table(snakemake.input.io_time, "io_time"))
    write_table(breakdown, snakemake.output.breakdown, "breakdown")
    print(bottleneck(breakdown).to_string(index=False))
