"""Estimate by the model how long the processes wait for each I/O class."""

from collections.abc import Iterator
from itertools import groupby

import pandas as pd
from tierscope.analysis.training.stalls import largest_stalls
from tierscope.core.files import log_to
from tierscope.core.output.streams import ending_on
from tierscope.core.scenario import Point
from tierscope.core.tables import write_table
from tierscope.model.calibration.fit import read_described
from tierscope.model.stalls import estimate_class_stalls
from tierscope.storage.queueing_network import ModelError


def cache_rates(points: list[dict[str, int]]) -> Iterator[tuple[int, list[Point]]]:
    """Yield each cache rate with its points, the repetitions."""
    ordered = sorted(Point(**point) for point in points)
    for rate, some in groupby(ordered, key=lambda point: point.cache_rate_percent):
        yield rate, list(some)


def main() -> None:
    """Estimate every cache rate of every scenario, with a line about each."""
    tables = []
    scenarios, devices = snakemake.params.scenarios, snakemake.input.devices
    manifests = snakemake.input.manifests or [[]] * len(scenarios)
    for scenario, manifest in zip(scenarios, manifests, strict=True):
        description = read_described(scenario["description"], devices, manifest)
        rates = list(cache_rates(scenario["points"]))
        for number, (rate, points) in enumerate(rates, start=1):
            tables.append(
                estimate_class_stalls(description, points, snakemake.params.epoch)
            )
            print(
                f"{scenario['name']}, point {number} of {len(rates)}: cache rate "
                f"{rate} %, stall {tables[-1]['stall_s'].sum():.3g} s of "
                f"{tables[-1]['execution_time_s'].iloc[0]:.3g} s"
            )
    stalls = pd.concat(tables, ignore_index=True)
    write_table(stalls, snakemake.output.stalls, "class_stalls")
    print("The largest stall of each point:")
    print(largest_stalls(stalls).reset_index().to_string(index=False))


if __name__ == "__main__":
    log_to(snakemake.log[0])
    with ending_on(ModelError):
        main()
