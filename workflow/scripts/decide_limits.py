"""Decide what limits each point of a sweep: storage, and which class, or what else."""

from tierscope.analysis.breakdown import shown_epoch
from tierscope.analysis.training.limit import decide_limits
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table

if __name__ == "__main__":
    log_to(snakemake.log[0])
    given, params = snakemake.input, snakemake.params
    breakdown = read_table(given.breakdown, "breakdown")
    storage_time, stalls = (
        read_table(given[name], table) if given[name] else None
        for name, table in (("storage_time",) * 2, ("stalls", "class_stalls"))
    )
    epoch = shown_epoch(breakdown, params.epoch)
    limits = decide_limits(breakdown, storage_time, stalls, epoch, params.may_hide)
    write_table(limits, snakemake.output[0], "limits")
    print(limits.to_string(index=False))
