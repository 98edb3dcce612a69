"""Train a tiny model with TensorFlow on the files of a folder, one sample a file."""

import argparse
import os
from pathlib import Path

import tensorflow as tf

WIDTH = 1024  # bytes of a sample that the model sees


def rank_and_size() -> tuple[int, int]:
    """Return which process of how many this is, as mpiexec or srun tell it."""
    for rank, size in (("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
        if rank in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def sample(path: tf.Tensor) -> tf.Tensor:
    """Read a whole file; return its first bytes as numbers from 0 to 1."""
    content = tf.io.read_file(path)
    return tf.io.decode_raw(content, tf.uint8, fixed_length=WIDTH) / 255


options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--data", required=True)
options.add_argument("--epochs", type=int, default=3)
options.add_argument("--batch", type=int, default=16)
options.add_argument("--workers", type=int, default=2)
given = options.parse_args()

rank, size = rank_and_size()
paths = sorted(str(path) for path in Path(given.data).rglob("*") if path.is_file())
files = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths), seed=1)
data = files.shard(size, rank).map(sample, num_parallel_calls=given.workers)
threads = tf.data.Options()
threads.autotune.enabled = False
threads.threading.private_threadpool_size = given.workers + 1
data = data.batch(given.batch).prefetch(2).with_options(threads)
weights = tf.Variable(tf.zeros([WIDTH, 1]))
for epoch in range(given.epochs):
    n_files, loss = 0, tf.zeros([])
    for batch in data:
        error = tf.matmul(batch, weights) - 0.5
        weights.assign_sub(tf.matmul(batch, error, transpose_a=True) / 1e5)
        n_files, loss = n_files + len(batch), tf.reduce_mean(error**2)
    print(f"rank {rank}, epoch {epoch}: {n_files} files, loss {loss:.4f}", flush=True)
