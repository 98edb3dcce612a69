"""Break down the I/O time of the slowest process of each epoch by I/O class."""

from tierscope.analysis.breakdown import bottleneck, break_down
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table

if __name__ == "__main__":
    log_to(snakemake.log[0])
    breakdown = break_down(read_table(snakemake.input.io_time, "io_time"))
    write_table(breakdown, snakemake.output.breakdown, "breakdown")
    if snakemake.params.may_hide:  # what limits it stands in the log of decide_limits
        print("Most I/O time, which computation may hide:")
    print(bottleneck(breakdown).to_string(index=False))
