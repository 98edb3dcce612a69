"""Read a folder's files with a bare loop on all MPI ranks, epoch by epoch.

``mpiexec -n N python bare_loops.py {tfrecord,os,ahead} FOLDER BATCH_SIZE EPOCHS``
prints each epoch's time, and that of building its pipeline before (slowest rank's), as
JSON, with the amount that all ranks read in it: samples of ``tfrecord``, else bytes.
`device_bytes` are those that came from devices, not from the page cache. Measured as
our driver measures: the pipeline is built, then barrier, reading, barrier.
"""

import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from mpi4py import MPI
from tierscope.storage.page_cache import device_bytes

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


def n_samples(batch: Any) -> int:
    """Return the number of records of a batch of TensorFlow."""
    return batch.shape[0]


def n_bytes_of_batch(pieces: Sequence[bytes]) -> int:
    """Return the bytes of all pieces of a batch."""
    return sum(map(len, pieces))


def main() -> None:
    """Read all epochs and print their times."""
    kind, folder, batch_size, epochs = sys.argv[1:]
    amount_of = {"tfrecord": n_samples, "os": len, "ahead": n_bytes_of_batch}[kind]
    comm = MPI.COMM_WORLD
    names = sorted(os.listdir(folder))
    done = {"build": [], "epoch": [], "amount": [], "device_bytes": []}
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
        done["build"].append(comm.allreduce(time.perf_counter() - start, MPI.MAX))
        amount, from_devices = 0, device_bytes() or 0
        comm.Barrier()
        start = time.perf_counter()
        for piece in pieces:
            amount += amount_of(piece)
        comm.Barrier()
        done["epoch"].append(comm.allreduce(time.perf_counter() - start, MPI.MAX))
        from_devices = (device_bytes() or 0) - from_devices
        done["amount"].append(comm.allreduce(amount))
        done["device_bytes"].append(comm.allreduce(from_devices))
    if comm.rank == 0:
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
