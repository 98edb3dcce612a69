"""Fit the devices of a system to measured points and probes."""

from collections.abc import Mapping
from typing import Any

import yaml
from tierscope.core.files import log_to, write_text
from tierscope.core.output.streams import end, say_step
from tierscope.core.tables import read_tables, write_table
from tierscope.model.calibration.fit import as_fitted, calibrate
from tierscope.model.programs.description import read_model_description
from tierscope.storage.queueing_network import ModelError


def devices_text(devices: Mapping[str, Any], comment: str) -> str:
    """Return the section `devices` of a system file with a comment above."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    return head + yaml.safe_dump({"devices": devices}, sort_keys=False)


def main() -> None:
    """Fit the devices, and write table, devices and a summary."""
    name = snakemake.wildcards.calibration
    description, program = read_model_description(
        snakemake.params.description, snakemake.input.program
    )
    description = as_fitted(description, [], snakemake.input.manifest)
    tables = {
        key: read_tables(snakemake.input[key], key)
        for key in ("io_time", "probes")
        if snakemake.input[key]
    }
    if program:
        tables = {key: program.measured(table) for key, table in tables.items()}
    result = calibrate(
        description,
        tables["io_time"],
        tables.get("probes"),
        snakemake.params.parameters,
        snakemake.params.tries_structures,
        say=say_step,
    )
    head = f"Calibration {name} of system {description.system.name}"
    report = f"{head} ({description.source} data):\n{result.text()}"
    print(report)
    result.check()  # refuses only parameters that the configuration lists
    write_table(result.table(name), snakemake.output.calibration, "calibration")
    result.uncertainty.write(snakemake.output.uncertainty)
    text = devices_text(result.devices(), report)
    write_text(snakemake.output.devices, text)


if __name__ == "__main__":
    log_to(snakemake.log[0])
    try:
        main()
    except ModelError as error:
        instead = "To draw figures without the model, set figures.methods: [rule]."
        end(f"tierscope: {error} {instead}")
