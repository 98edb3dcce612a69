"""Estimate the I/O time of an epoch after improving some I/O classes."""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from tierscope.analysis.breakdown import shown_epoch
from tierscope.analysis.whatif import best_point, estimate, improvement_grid
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table


def wanted_improvements(
    improvements: Iterable[Mapping[str, int]],
    pairs: Iterable[Sequence[str]],
    grid: Mapping[str, int],
) -> list[Mapping[str, int]]:
    """Return no improvement (the measurement), the single ones, each pair's grid."""
    grids = [improvement_grid(pair, **grid) for pair in pairs]
    return [{}, *improvements, *itertools.chain.from_iterable(grids)]


if __name__ == "__main__":
    log_to(snakemake.log[0])
    improvements = wanted_improvements(
        snakemake.params.improvements, snakemake.params.pairs, snakemake.params.grid
    )
    io_time = read_table(snakemake.input.io_time, "io_time")
    epoch = shown_epoch(io_time, snakemake.params.epoch)
    estimates = estimate(io_time, improvements, epochs=[epoch])
    write_table(estimates, snakemake.output.estimates, "estimates")
    print(best_point(estimates).to_string(index=False))
