"""Loader `tensorflow`: tf.data, as the paper's benchmark reads."""

from collections.abc import Iterator, Sequence

import tensorflow as tf

from tierscope.dataset import FRAMING_BYTES


class TensorflowLoader:
    """One finite ``TFRecordDataset`` pipeline an epoch.

    The autotuner is off: with it, epochs take 0.64, 1.28, 2.56 ... s whatever the I/O.
    """

    def __init__(
        self,
        batch_size: int,
        read_threads: int,
        prefetch_batches: int,
        buffer_bytes: int,
    ):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self._batch_size = batch_size
        self._read_threads = read_threads
        self._prefetch_batches = prefetch_batches
        self._buffer_bytes = buffer_bytes
        self._options = tf.data.Options()
        self._options.autotune.enabled = False
        self._options.threading.private_threadpool_size = read_threads + 1

    def epoch(self, paths: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Return an iterator over (samples, bytes) of each batch."""
        threads = self._read_threads if self._read_threads > 1 else None
        pipeline = tf.data.TFRecordDataset(
            list(paths), buffer_size=self._buffer_bytes, num_parallel_reads=threads
        ).batch(self._batch_size)
        if self._prefetch_batches:
            pipeline = pipeline.prefetch(self._prefetch_batches)
        return map(_count, pipeline.with_options(self._options))


def _count(batch: tf.Tensor) -> tuple[int, int]:
    """Return the samples of a batch and the file bytes they took."""
    n_samples = int(batch.shape[0])
    payload_bytes = int(tf.reduce_sum(tf.strings.length(batch)))
    return n_samples, payload_bytes + n_samples * FRAMING_BYTES
