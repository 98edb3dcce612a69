"""Compare the estimates of rule and model with runs on faster devices."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from tierscope.analysis.whatif_truth import compare, summarise
from tierscope.core.description import RunDescription
from tierscope.core.files import log_to
from tierscope.core.scenario import Point
from tierscope.core.tables import read_table, write_table
from tierscope.model.calibration.fit import calibrated, read_devices
from tierscope.model.predict import predict


def predict_systems(
    descriptions: Sequence[RunDescription],
    points: Sequence[Point],
    model: str,
    devices: Mapping[str, Any] | None,
) -> pd.DataFrame:
    """Return the predictions of the same points on each described system.

    Parameters
    ----------
    descriptions : sequence of RunDescription
        Settings of a scenario on each system (`Experiment.description`).
    points : sequence of Point
        The points.
    model : str
        Name of the model.
    devices : mapping or None
        Calibrated devices for each system; None keeps those of its file.
    """
    parts = []
    for description in descriptions:
        if devices is not None:
            description = calibrated(description, devices)
        predicted = predict(description, points, model)
        parts.append(predicted.assign(system=description.system.name))
    return pd.concat(parts, ignore_index=True)


if __name__ == "__main__":
    log_to(snakemake.log[0])
    model = snakemake.params.model
    descriptions = list(map(RunDescription.from_json, snakemake.params.descriptions))
    points = [Point(**point) for point in snakemake.params.points]
    path = snakemake.input.get("devices")
    devices = read_devices(path) if path else None
    systems = [description.system for description in descriptions]
    table = compare(
        read_table(snakemake.input.io_time, "io_time"),
        {system.name: system.improvements for system in systems},
        predict_systems(descriptions, points, model, devices),
        model=model,
        calibration=snakemake.params.calibration,
    )
    summary = summarise(table)
    write_table(table, snakemake.output.table, "whatif_truth")
    write_table(summary, snakemake.output.summary, "whatif_truth_summary")
    print(table.to_string(index=False))
    print(summary.T.to_string(header=False))
