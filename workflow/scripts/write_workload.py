"""Write what a program of the user reads and computes as a workload file of DLIO."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from describe_program import seen_run
from tierscope.core.files import log_to, write_text
from tierscope.core.tables import read_table
from tierscope.core.words import count_words
from tierscope.data.steps import UsedSteps
from tierscope.experiment.designs.dlio import NO_WORKLOAD
from tierscope.experiment.designs.dlio_loaders import LOADERS
from tierscope.experiment.designs.dlio_text import workload_text
from tierscope.experiment.designs.workloads import Workload
from tierscope.model.programs.facts import (
    ProgramFacts,
    SeenRun,
    program_facts,
    refuse,
)
from tierscope.storage.queueing_network import ModelError

_LEAST_PERCENT = 90  # of the time: MLPerf Storage's goal of most workloads
_SAID = {
    "dataset.format": "assumed: a format of DLIO with files as large as their samples",
    "dataset.num_samples_per_file": "assumed; as many samples were read as files",
    "dataset.record_length_stdev": "files that DLIO makes vary by 0.7 times that",
    "reader.file_shuffle": "assumed",
    "reader.sample_shuffle": "assumed",
    "metric.au": "assumed: the least that MLPerf Storage asks of most workloads",
}


def program_text(
    name: str,
    path: str,
    runs: Sequence[SeenRun],
    ideal: Sequence[SeenRun],
    sizes: np.ndarray,
) -> str:
    """Return the text of the file of a program.

    Parameters
    ----------
    name, path : str
        Name of its dataset, and where the text will be.
    runs, ideal : sequence of SeenRun
        Its runs, and its ideal ones, which tell its computation if there are any.
    sizes : ndarray of int, shape (n_files,)
        Bytes of each file.

    Raises
    ------
    ModelError
        If it loads as no loader that DLIO has.
    """
    facts = program_facts([*runs, *ideal], sizes)
    _check_samples(runs[0], facts, len(sizes))
    timed = [loop for seen in ideal or runs for loop in seen.loops]
    compute_s = np.mean([UsedSteps.of_loop(loop).usual_s for loop in timed])
    loads = LOADERS[facts.loader].of_program(
        facts.workers, facts.prefetch_factor, facts.prefetch_batches
    )
    workload = Workload(
        name=name,
        n_files=len(sizes),
        file_size_bytes=max(round(sizes.mean()), 1),
        file_size_stdev_bytes=round(sizes.std()),
        batch_size=facts.batch_size,
        compute_time_s=round(float(compute_s), 6),
        loader=facts.loader,
        **loads,
        utilisation_percent=_LEAST_PERCENT,
        source=path,
    )
    of_what = count_words(len(ideal or runs), "ideal run" if ideal else "run")
    least = {one["least_because"] for one in timed if one.get("least_because")}
    words = f"mean of usual steps of {of_what}; assumed: the same in each step"
    words += "".join(f"; a least: {why}" for why in sorted(least))
    head = (
        f"The program: its workload file for DLIO and target designs is {path}.\n"
        f"It {facts.words}. What is assumed says so, all else was measured.\n"
        f"DLIO 2.0.0 and later: mpiexec -n {facts.n_ranks} dlio_benchmark --config-dir "
        f"{Path(path).parents[1]} workload={name}"
    )
    said = {**_SAID, "train.computation_time": words}
    said["train.computation_time_stdev"] = "assumed: steps are timed together"
    return workload_text(workload, head, facts.n_epochs, said)


def _check_samples(seen: SeenRun, facts: ProgramFacts, n_files: int) -> None:
    """Refuse a program with several samples a file, which nothing tells."""
    n_batches = sum(int(loop["batches"]) for loop in seen.loops) / facts.n_epochs
    # The last batch of each rank may be smaller, or left out.
    if abs(n_files - n_batches * facts.batch_size) > facts.n_ranks * facts.batch_size:
        got = f"{n_batches:g} batches of {facts.batch_size} in an epoch"
        refuse(seen, got, f"a sample of each of {count_words(n_files, 'file')}")


def main() -> None:
    """Write the file; if the program has none, a comment that says why."""
    path, given = snakemake.output[0], snakemake.input
    sizes = read_table(given.manifest, "user_manifest")["size_bytes"].to_numpy()
    runs, ideal = ([*map(seen_run, some)] for some in (given.runs, given.ideal_runs))
    try:
        text = program_text(snakemake.wildcards.dataset, path, runs, ideal, sizes)
    except ModelError as error:
        reason = " ".join(f"{error}".split())
        text = f"{NO_WORKLOAD}{reason}\n"
    write_text(path, text)


if __name__ == "__main__":
    log_to(snakemake.log[0])
    main()
