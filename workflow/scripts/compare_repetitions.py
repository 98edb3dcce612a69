"""Compare the repetitions of each point: mean, standard deviation, variation."""

from tierscope.analysis.breakdown import epoch_times, spread_over_repetitions
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table

if __name__ == "__main__":
    log_to(snakemake.log[0])
    times = epoch_times(
        read_table(snakemake.input.epochs, "epochs"),
        read_table(snakemake.input.io_time, "io_time"),
    )
    spread = spread_over_repetitions(times, snakemake.params.max_spread_percent)
    write_table(spread, snakemake.output.spread, "spread")
    flagged = spread[spread["flagged"]]
    print(f"{len(flagged)} of {len(spread)} rows above the limit")
    print(flagged.to_string(index=False))
