"""Estimate the I/O time of an epoch after improving some I/O classes, by the model."""

from tierscope.analysis.breakdown import select_scenario
from tierscope.analysis.whatif import best_point, map_percents, wanted_improvements
from tierscope.core.files import log_to
from tierscope.core.output.streams import end
from tierscope.core.tables import read_table, write_table
from tierscope.model.calibration.fit import read_described
from tierscope.model.calibration.uncertainty import Uncertainty
from tierscope.model.improve import estimate_by_model
from tierscope.storage.queueing_network import ModelError


def main() -> None:
    """Estimate, write the table, and print the best point after each improvement."""
    params, files = snakemake.params, snakemake.input
    description = read_described(params.description, files.devices, files.manifest)
    io_time = read_table(snakemake.input.io_time, "io_time")
    percents = map_percents(**params.grid)
    estimates = estimate_by_model(
        select_scenario(io_time, params.scenario),
        wanted_improvements(params.improvements, params.pairs, percents),
        params.epoch,
        description,
        params.model,
        select_scenario(read_table(snakemake.input.epochs, "epochs"), params.scenario),
        Uncertainty.read(snakemake.input.uncertainty)
        if snakemake.input.uncertainty
        else None,
    )
    write_table(estimates, snakemake.output.estimates, "estimates")
    print(best_point(estimates).to_string(index=False))


if __name__ == "__main__":
    log_to(snakemake.log[0])
    try:
        main()
    except ModelError as error:
        end(f"tierscope: {error}")
