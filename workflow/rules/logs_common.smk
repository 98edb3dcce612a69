"""Shared by the rules of an analysis of logs: its chunks, and their needs."""

import json
import time

from tierscope.core.columns import logs as columns_of_logs
from tierscope.experiment.start import start_logs
from tierscope.logs.settings import CHUNKS, LISTING, READ_LOGS, worker_bytes

LISTS = f"{RESULTS}/{LISTING}"
LISTED = f"{LISTS}/chunks.json"
MIB = 1 << 20
CHUNK_MIB = 1200  # of the process that joins, besides those that read
CHUNK_THREADS = 4  # on another machine
LOGS_PER_THREAD = 250

PROVENANCE_OF_LOGS = "; ".join(
    filter(
        None, ["Darshan logs, measured", f"analysis {NAME}", ANALYSIS.filter_words()]
    )
)


def listed():
    """Return what is known of the chunks that are listed."""
    return json.loads(Path(LISTED).read_text())


def chunk_folders(wildcards):
    """Return the folders of the tables of all chunks, once they are listed."""
    checkpoints.list_logs.get()
    return [f"{RESULTS}/{CHUNKS}/{name}" for name in listed()["chunks"]]


def gathered(*names):
    """Return the function that names tables, once the logs are listed."""

    def files(wildcards):
        checkpoints.list_logs.get()
        return [f"{TABLES}/{name}.parquet" for name in names]

    return files


def chunk_threads(wildcards):
    """Return how many processes read a chunk.

    On this machine all chunks that have changed share the cores.
    """
    found = listed()
    useful = -(-found["chunks"][wildcards.chunk]["n_logs"] // LOGS_PER_THREAD)
    if try_to(SNAKEMAKE.executor, logger.warning, "local") != "local":
        return min(CHUNK_THREADS, useful)
    side_by_side = found["n_changed"] or len(found["chunks"])
    return max(1, min(workflow.cores // side_by_side, useful))


def chunk_memory(wildcards, threads):
    """Return the memory that a chunk needs, in MiB."""
    largest = listed()["chunks"][wildcards.chunk]["largest_bytes"]
    return CHUNK_MIB + threads * worker_bytes(largest) // MIB


def n_logs(wildcards):
    """Return the number of logs of a chunk."""
    return listed()["chunks"][wildcards.chunk]["n_logs"]


def figure_inputs(one):
    """Return the inputs of a declared figure."""
    return {name: gathered(name) for name in one.tables}


def figure_settings(one):
    """Return the parameters of a declared figure."""
    return {"provenance": PROVENANCE_OF_LOGS}
