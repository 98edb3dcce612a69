"""Estimate the I/O time of an epoch after improving some I/O classes."""

import sys
from collections.abc import Iterable, Mapping

from tierscope.tables import read_table, write_table
from tierscope.whatif import best_point, estimate, improvement_grid


def wanted_improvements(
    improvements: Iterable[Mapping[str, int]],
    grid: Mapping[str, int | list[str]],
) -> list[Mapping[str, int]]:
    """Return no improvement (what was measured), the single ones and the grid."""
    return [{}, *improvements, *improvement_grid(**grid)]


if __name__ == "__main__":
    sys.stdout = sys.stderr = open(snakemake.log[0], "w", buffering=1)
    improvements = wanted_improvements(
        snakemake.params.improvements, snakemake.params.grid
    )
    estimates = estimate(
        read_table(snakemake.input.io_time, "io_time"),
        improvements,
        epochs=[snakemake.params.epoch],
    )
    write_table(estimates, snakemake.output.estimates, "estimates")
    print(best_point(estimates).to_string(index=False))
