"""Simulate runs whose samples are records of one LMDB file, as tables of the benchmark.

The customers are the readers. Other processes wait for their reader and have no I/O
time. The model includes the requests and the queues of the storage. It omits effects
inside a node: how processes that fault in one map wake each other up, context switches,
copies and checksums. LMDBIO's authors name the wake-ups as the main cause of LMDB's
slowness.
"""

from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import CLASSES
from tierscope.core.description import RunDescription
from tierscope.core.io_class import IOClass
from tierscope.core.scenario import Point
from tierscope.data.lmdb.layout import Provenance
from tierscope.data.record_order import first_records, order_of
from tierscope.data.tfrecord import FRAMING_BYTES
from tierscope.model.simulator.database_calls import STRIPE_BYTES, DatabaseEpoch
from tierscope.model.simulator.programs import (
    TIERS,
    SimulatedPrograms,
    simulate_programs,
)
from tierscope.model.simulator.run import (
    SERVICES,
    SLOWNESS,
    describe,
    draw_slowness,
    epochs_table,
    io_time_table,
    run_tables,
    stream,
)
from tierscope.storage.queueing_network import network_of

# Usual page size of the machine that writes the file, on any simulating machine.
PAGE_BYTES = 4096


def provenance_of(description: RunDescription) -> Provenance:
    """Return how the simulated file was written."""
    dataset = description.dataset
    value_bytes = dataset.file_size_bytes - FRAMING_BYTES
    per_commit = description.lmdb.records_per_commit
    return _provenance(dataset.n_files, value_bytes, per_commit)


@cache
def _provenance(n_records: int, value_bytes: int, per_commit: int) -> Provenance:
    """Return how a file was written; cached, as its layout takes long to compute."""
    return Provenance(n_records, value_bytes, per_commit, PAGE_BYTES)


def simulate_database(
    description: RunDescription, point: Point
) -> dict[str, pd.DataFrame]:
    """Simulate a run and return its tables ``io_time`` and ``epochs``.

    Parameters
    ----------
    description : RunDescription
        Settings of the scenario, with `lmdb`.
    point : Point
        Cache rate and repetition.
    """
    provenance = provenance_of(description)
    io_time, epochs = [], []
    for reads, done in _epochs(description, point, provenance):
        io_time.append(_io_time(reads, done))
        epochs.append(_execution_times(reads, done, description, provenance))
    return run_tables(description, point, io_time, epochs)


def _epochs(
    description: RunDescription, point: Point, provenance: Provenance
) -> Iterator[tuple[DatabaseEpoch, SimulatedPrograms]]:
    """Yield the reads of each epoch of a run, and their times."""
    network = network_of(description.system, description.scenario.n_osts)
    training, repetition = description.training, point.repetition
    seeds = training.seed, repetition
    order = order_of(description, repetition)
    on_lfs = first_records(provenance.n_records, point.cache_rate_percent)
    slowness = draw_slowness(network, stream(SLOWNESS, *seeds))
    for epoch in range(training.epochs):
        reads = DatabaseEpoch(description.lmdb, order, provenance, on_lfs, epoch)
        done = simulate_programs(
            network,
            reads.programs(network, training.compute_time.mean_s),
            stream(SERVICES, *seeds, epoch),
            slowness,
        )
        yield reads, done


def _io_time(reads: DatabaseEpoch, done: SimulatedPrograms) -> pd.DataFrame:
    """Return the rank, class, time, operations and bytes of an epoch."""
    n_ranks = len(reads.records_of_rank)
    times_s = np.zeros((n_ranks, len(CLASSES)))
    times_s[reads.readers] = done.class_times_s
    operations = np.zeros((n_ranks, len(CLASSES)), np.int64)
    n_bytes = np.zeros_like(operations)
    calls = reads.calls
    for column, io_class in enumerate(IOClass):
        tier = TIERS.index(io_class.tier)
        if not io_class.is_read:
            operations[reads.readers, column] = reads.uses[:, tier]
            continue
        mine = calls.tier == tier
        n_readers = len(reads.readers)
        reader = calls.reader[mine]
        operations[reads.readers, column] = np.bincount(reader, minlength=n_readers)
        n_bytes[reads.readers, column] = np.bincount(
            reader, calls.n_bytes[mine], n_readers
        )
    return io_time_table(tuple(IOClass), times_s, operations, n_bytes)


def _execution_times(
    reads: DatabaseEpoch,
    done: SimulatedPrograms,
    description: RunDescription,
    provenance: Provenance,
) -> pd.DataFrame:
    """Return the columns of the table `run_epochs` of an epoch, without the epoch."""
    n_records = reads.records_of_rank
    n_lfs = np.bincount(reads.rank_of[reads.on_lfs], minlength=len(n_records))
    time_s, size = float(done.finished_s.max()), provenance.value_bytes
    return epochs_table(description, time_s, size, n_records, n_lfs, n_records - n_lfs)


def describe_database(description: RunDescription) -> dict[str, Any]:
    """Return the description of a scenario's simulations, ready for JSON."""
    return {
        **describe(description),
        "database": asdict(provenance_of(description)),
        "stripe_bytes": STRIPE_BYTES,
    }
