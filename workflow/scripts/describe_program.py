"""Describe a program of the user for the models: how it loads, and what it computes."""

import json
from pathlib import Path

import numpy as np
from tierscope.core.description import Run, RunDescription
from tierscope.core.files import log_to, write_text
from tierscope.core.output.streams import end
from tierscope.core.tables import read_table
from tierscope.model.programs.description import model_program
from tierscope.model.programs.facts import SeenRun
from tierscope.storage.queueing_network import ModelError
from tierscope.trace.program_intervals import times_between_reads


def seen_run(path: str) -> SeenRun:
    """Return a run by the path of its `run.json`."""
    folder = Path(path).parent
    return SeenRun(
        Run.read(path),
        read_table(folder / "epochs.parquet", "run_epochs"),
        read_table(folder / "opens.parquet", "opens"),
        read_table(folder / "io_time.parquet", "io_time"),
    )


def batch_size(run: SeenRun) -> int:
    """Return the batch size that the hook has noted first; 1 if it noted none."""
    sizes = (one["batch_size"] for one in run.run.observed["loaders"])
    return next(filter(None, sizes), 1)


def main() -> None:
    """Write the description, and say what the program is."""
    ideal = [seen_run(path) for path in snakemake.input.ideal_runs]
    between_s = [
        times_between_reads(
            Path(path).with_name("logs"), one.run.tier_roots, batch_size(one)
        )
        for path, one in zip(snakemake.input.ideal_runs, ideal, strict=True)
    ]
    modelled = model_program(
        RunDescription.from_json(snakemake.params.description),
        [seen_run(path) for path in snakemake.input.runs],
        ideal,
        read_table(snakemake.input.manifest, "user_manifest")["size_bytes"].to_numpy(),
        np.concatenate(between_s),
    )
    text = json.dumps(modelled.as_json(), indent=1)
    write_text(snakemake.output[0], text + "\n")
    print(modelled.words)


if __name__ == "__main__":
    log_to(snakemake.log[0])
    try:
        main()
    except ModelError as error:
        end(f"tierscope: predict: {error} Report and figures need no prediction.")
