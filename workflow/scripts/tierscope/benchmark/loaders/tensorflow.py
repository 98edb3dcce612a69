"""Loader `tensorflow`: tf.data, as the paper's benchmark reads."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from tierscope.benchmark.loaders.loader import Feed
from tierscope.core.description import LoaderSettings
from tierscope.data.tfrecord import FRAMING_BYTES, framed
from tierscope.storage.clock import Clock, Role


class TensorflowLoader:
    """One finite ``TFRecordDataset`` pipeline an epoch.

    The autotuner is off: with it, epochs take 0.64, 1.28, 2.56 ... s for any I/O.
    """

    teller = Role.CONSUMER
    reads_in_epochs_only = False

    def __init__(
        self,
        batch_size: int,
        settings: LoaderSettings,
        clock: Clock | None = None,
    ):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self._batch_size = batch_size
        self._read_threads = settings.read_threads
        self._prefetch_batches = settings.prefetch_batches
        self._buffer_bytes = settings.buffer_bytes
        self._options = tf.data.Options()
        self._options.autotune.enabled = False
        self._options.threading.private_threadpool_size = settings.read_threads + 1

    def epoch(self, paths: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Return an iterator over (samples, bytes) of each batch."""
        return map(_count, self._pipeline(list(paths)))

    def fed_epoch(self, feed: Feed) -> Iterator[tuple[int, int]]:
        """Do the same with files whose paths are not known before.

        Only the names differ: they come from a generator, so TensorFlow asks for a path
        when it is about to open the file. A file counts as read when its batch is
        taken, because Python gets its bytes then.
        """
        names = tf.data.Dataset.from_generator(
            lambda: map(feed.path, range(len(feed))),
            output_signature=tf.TensorSpec((), tf.string),
        )
        return _report(self._pipeline(names), feed)

    def _pipeline(self, names: list[str] | tf.data.Dataset) -> tf.data.Dataset:
        """Return the pipeline that reads files of these names."""
        pipeline = self._samples(names).batch(self._batch_size)
        if self._prefetch_batches:
            pipeline = pipeline.prefetch(self._prefetch_batches)
        return pipeline.with_options(self._options)

    def _samples(self, names: list[str] | tf.data.Dataset) -> tf.data.Dataset:
        """Return the samples in files of these names."""
        threads = self._read_threads if self._read_threads > 1 else None
        return tf.data.TFRecordDataset(
            names, buffer_size=self._buffer_bytes, num_parallel_reads=threads
        )


class LeanTensorflowLoader(TensorflowLoader):
    """Loader of virtual time: the same calls in half the processor time.

    If all paths are known, one operation reads all files; `tf.data.TFRecordDataset`
    calls a function for each. No rewriting of the graph is worth its time here.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._options.experimental_optimization.apply_default_optimizations = False

    def _samples(self, names: list[str] | tf.data.Dataset) -> tf.data.Dataset:
        if isinstance(names, tf.data.Dataset):
            return super()._samples(names)
        files = tf.raw_ops.TFRecordDataset(
            filenames=names, compression_type="", buffer_size=self._buffer_bytes
        )
        return tf.data.experimental.from_variant(files, tf.TensorSpec((), tf.string))


def _report(batches: Iterable[tf.Tensor], feed: Feed) -> Iterator[tuple[int, int]]:
    """Yield (samples, bytes) of each batch after telling the feed of its files."""
    n_finished = 0
    for batch in batches:
        for at in range(batch.shape[0]):
            feed.finished(n_finished, partial(_file_of, batch, at))
            n_finished += 1
        yield _count(batch)


def _file_of(batch: tf.Tensor, at: int) -> bytes:
    """Return the file whose sample has this index in a batch."""
    return framed(batch[at].numpy())


def _count(batch: tf.Tensor) -> tuple[int, int]:
    """Return the samples of a batch and the file bytes they took."""
    payload_bytes = tf.strings.length(batch).numpy()  # summing in NumPy is cheaper
    n_samples = len(payload_bytes)
    return n_samples, int(payload_bytes.sum(dtype=int)) + n_samples * FRAMING_BYTES
