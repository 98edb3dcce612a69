"""Fit the devices of a system to measured points and probes."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tierscope.lateness import lateness_percent
from tierscope.model.calibration import calibrate
from tierscope.model.network import ModelError
from tierscope.tables import read_tables, write_table


def check_lateness(summary: Mapping[str, Any], limit_percent: float) -> None:
    """Refuse probes of emulated devices that a busy machine has spoilt.

    Raises
    ------
    ModelError
        With the lateness and the limit, both in percent of the waiting.
    """
    late = lateness_percent(summary)
    if late is not None and late > limit_percent:
        raise ModelError(
            f"probes of {summary['dataset']['name']} on "
            f"{summary['scenario']['n_osts']} OSTs: got {late:.1f} % of the emulated "
            f"waiting that is the machine's lateness, expected at most "
            f"{limit_percent:g} %; delete them to probe again."
        )


def devices_text(devices: Mapping[str, Any], comment: str) -> str:
    """Return the section `devices` of a system file with a comment above."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    return head + yaml.safe_dump({"devices": devices}, sort_keys=False)


def main() -> None:
    """Fit, write table and devices, and print what was found."""
    for path in snakemake.input.summaries:
        summary = json.loads(Path(path).read_text())
        check_lateness(summary, snakemake.params.max_lateness_percent)
    name = snakemake.wildcards.calibration
    description = snakemake.params.description
    probes = snakemake.input.probes
    result = calibrate(
        description,
        read_tables(snakemake.input.io_time, "io_time"),
        read_tables(probes, "probes") if probes else None,
        snakemake.params.parameters,
    )
    head = f"Calibration {name} of system {description['system']['name']}"
    report = f"{head} ({description['source']} data):\n{result.text()}"
    print(report, file=sys.stderr, flush=True)
    Path(snakemake.log[0]).write_text(f"{report}\n")
    result.check()
    write_table(result.table(name), snakemake.output.calibration, "calibration")
    text = devices_text(result.devices(), report)
    Path(snakemake.output.devices).write_text(text)


if __name__ == "__main__":
    try:
        main()
    except ModelError as error:
        instead = "Figures do without the model: figures.methods: [rule]."
        message = f"tierscope: {error} {instead}"
        with open(snakemake.log[0], "a") as log:
            print(message, file=log)
        sys.exit(message)
