"""Read a folder's files with a bare loop on all MPI ranks, epoch by epoch.

``mpiexec -n N python bare_loops.py {tfrecord,os,ahead} FOLDER BATCH_SIZE EPOCHS``
prints each epoch's time, and that of building its pipeline before (slowest rank's), as
JSON. Measured as our driver measures: the pipeline is built, then barrier, reading,
barrier.
"""

import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

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


def read_ahead(paths: Sequence[str], batch_size: int) -> Iterator[list[bytes]]:
    """Yield batches of files' contents, while a thread reads the next ones."""
    batches = [paths[at : at + batch_size] for at in range(0, len(paths), batch_size)]
    with ThreadPoolExecutor(1) as pool:
        waiting = deque()
        for batch in batches:
            waiting.append(pool.submit(lambda files: list(os_reads(files)), batch))
            if len(waiting) > PREFETCH_BATCHES:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


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
        elif kind == "ahead":
            pieces = read_ahead(paths, int(batch_size))
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
