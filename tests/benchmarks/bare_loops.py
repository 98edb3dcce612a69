"""Read a folder's files with a bare loop on all MPI ranks, epoch by epoch.

``mpiexec -n N python bare_loops.py {tfrecord,os} FOLDER BATCH_SIZE EPOCHS`` prints each
epoch's time, and that of building its pipeline before (slowest rank's), as JSON.
Measured as our driver measures: the pipeline is built, then barrier, reading, barrier.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np
from mpi4py import MPI

BUFFER_BYTES = 1 << 18
PREFETCH_BATCHES = 2


def tfrecord_batches(paths: Sequence[str], batch_size: int) -> Iterator[object]:
    """Return an iterator over the batches of the plainest good tf.data pipeline."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    pipeline = tf.data.TFRecordDataset(paths, buffer_size=BUFFER_BYTES)
    pipeline = pipeline.batch(batch_size).prefetch(PREFETCH_BATCHES)
    return iter(pipeline.with_options(options))


def os_reads(paths: Sequence[str]) -> Iterator[bytes]:
    """Yield the content of the files piece by piece."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        while piece := os.read(descriptor, BUFFER_BYTES):
            yield piece
        os.close(descriptor)


def main() -> None:
    """Read all epochs and print their times."""
    kind, folder, batch_size, epochs = sys.argv[1:]
    comm = MPI.COMM_WORLD
    names = sorted(os.listdir(folder))
    build_s, epoch_s = [], []
    for epoch in range(int(epochs)):
        order = np.random.default_rng(epoch).permutation(len(names))
        share = np.array_split(order, comm.size)[comm.rank]
        paths = [os.path.join(folder, names[i]) for i in share]
        start = time.perf_counter()
        if kind == "tfrecord":
            pieces = tfrecord_batches(paths, int(batch_size))
        else:
            pieces = os_reads(paths)
        build_s.append(comm.allreduce(time.perf_counter() - start, MPI.MAX))
        comm.Barrier()
        start = time.perf_counter()
        for _ in pieces:
            pass
        comm.Barrier()
        epoch_s.append(comm.allreduce(time.perf_counter() - start, MPI.MAX))
    if comm.rank == 0:
        print(json.dumps({"build": build_s, "epoch": epoch_s}), flush=True)


if __name__ == "__main__":
    main()
