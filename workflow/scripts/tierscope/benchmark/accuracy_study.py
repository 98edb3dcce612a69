"""Train a small network on data divided among processes, synchronously.

Every process computes the gradients of its own batch. The average over the processes
updates the weights, so all processes keep the same weights. Here one process computes
the gradients of all processes, one after the other. The arithmetic is the same: a
gradient depends only on weights and batch, and the sum runs in the order of the ranks.
(The integration tests compare it with real MPI ranks, bit by bit.) Only the time would
differ, and this module does not measure time.

With batch normalisation each process normalises, as usual, by mean and variance of its
own batch and keeps moving averages of both for use after training. The averages over
the processes are used then. Averaging is linear, so it makes no difference that it is
done here in every step. Synchronised batch normalisation takes mean and variance over
the batches of all processes: a step equals that of one process with all of them. It
shows whether these statistics matter.
"""

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tierscope.data.labelled_samples import decode
from tierscope.data.tfrecord import DatasetError

PLAIN, SYNC_BATCH_NORM = "plain", "sync-batch-norm"  # and the usual "batch-norm"
HIDDEN_WIDTHS = (64, 64)
MOMENTUM = 0.9
DECAY = 0.9  # of the moving averages of batch normalisation
_EPSILON = 1e-3
_READ_TOGETHER = 1024

Tensors = Sequence[tf.Tensor]
Samples = tuple[np.ndarray, np.ndarray]


def compute_as_written() -> None:
    """Keep TensorFlow from dividing operations among threads and rewriting them.

    Then the same seeds give the same bits in one process and in many. A rewrite of the
    operations of several ranks together would change the rounding.
    """
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def read_samples(paths: Sequence[str]) -> Samples:
    """Return features and labels of sample files, read by a ``tf.data`` pipeline.

    Raises
    ------
    DatasetError
        If a file cannot be read or has unexpected content.
    """
    pipeline = tf.data.TFRecordDataset(list(paths)).batch(_READ_TOGETHER)
    try:
        payloads = [payload for batch in pipeline for payload in batch.numpy()]
    except tf.errors.OpError as error:
        raise DatasetError(f"{paths[0]} and others: {error.message}") from error
    return decode(payloads, paths)


def initial_weights(
    n_features: int, n_classes: int, network: str, seeds: Sequence[int]
) -> list[np.ndarray]:
    """Return random weights, as `logits` takes them; `seeds` determine them."""
    generator = np.random.default_rng(
        np.random.SeedSequence(tuple(seeds), spawn_key=(4,))
    )
    weights = []
    widths = [n_features, *HIDDEN_WIDTHS, n_classes]
    for layer, (width, next_width) in enumerate(itertools.pairwise(widths)):
        scale = np.sqrt(2 / width)  # of He et al., for rectifiers
        weights.append(generator.normal(scale=scale, size=(width, next_width)))
        weights.append(np.zeros(next_width))
        if network != PLAIN and layer < len(HIDDEN_WIDTHS):
            weights.append(np.ones(next_width))
    return [values.astype(np.float32) for values in weights]


def initial_statistics(network: str) -> list[np.ndarray]:
    """Return mean 0 and variance 1 of every layer that is normalised."""
    widths = () if network == PLAIN else HIDDEN_WIDTHS
    return [
        np.full(width, value, np.float32) for width in widths for value in (0.0, 1.0)
    ]


def logits(
    weights: Tensors, features: tf.Tensor, network: str, statistics: Tensors = ()
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Return a network's output and the statistics of its normalisation.

    `weights` has for each layer the matrix and the shift, and the scale for hidden
    layers with batch normalisation. `statistics` are mean and variance of each hidden
    layer; if empty, those of `features` (n_samples, n_features).
    """
    weights, known, used = iter(weights), iter(statistics), []
    layer = features
    for _ in HIDDEN_WIDTHS:
        layer, shift = layer @ next(weights), next(weights)
        if network != PLAIN:
            of_batch = () if statistics else tf.nn.moments(layer, axes=[0])
            mean, variance = of_batch or (next(known), next(known))
            used += [mean, variance]
            layer = tf.nn.batch_normalization(
                layer, mean, variance, shift, next(weights), _EPSILON
            )
        else:
            layer += shift
        layer = tf.nn.relu(layer)
    return layer @ next(weights) + next(weights), used


def process_step(
    weights: Tensors, features: tf.Tensor, labels: tf.Tensor, network: str
) -> list[tf.Tensor]:
    """Return the gradients, then the statistics, of one process's batch."""
    with tf.GradientTape() as tape:
        tape.watch(weights)
        output, statistics = logits(weights, features, network)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, output)
        loss = tf.reduce_mean(losses)
    return [*tape.gradient(loss, weights), *statistics]


def average(parts: Sequence[Tensors]) -> list[tf.Tensor]:
    """Return the averages over processes of their gradients and statistics.

    The sum runs in the order of the ranks. The order of `tf.add_n` depends on which
    memory is free, so its last bits depend on the load of the machine.
    """
    return [
        functools.reduce(tf.add, part) / len(part) for part in zip(*parts, strict=True)
    ]


class Model:
    """The weights that all processes share, and how a step changes them."""

    def __init__(self, weights: Sequence[np.ndarray], network: str):
        self.network = network
        self.weights = list(map(tf.Variable, weights))
        self.velocities = [tf.Variable(tf.zeros_like(one)) for one in weights]
        self.statistics = list(map(tf.Variable, initial_statistics(network)))

    def start(self, weights: Sequence[np.ndarray]) -> None:
        """Restart with these weights."""
        for variable, value in zip(self.weights, weights, strict=True):
            variable.assign(value)
        for variable in self.velocities:
            variable.assign(tf.zeros_like(variable))
        initial = initial_statistics(self.network)
        for variable, value in zip(self.statistics, initial, strict=True):
            variable.assign(value)

    def update(self, averages: Tensors, learning_rate: tf.Tensor) -> None:
        """Take a step of gradient descent with momentum."""
        n_weights = len(self.weights)
        for weight, velocity, gradient in zip(
            self.weights, self.velocities, averages[:n_weights], strict=True
        ):
            velocity.assign(MOMENTUM * velocity + gradient)
            weight.assign_sub(learning_rate * velocity)
        for moving, new in zip(self.statistics, averages[n_weights:], strict=True):
            moving.assign(DECAY * moving + (1 - DECAY) * new)

    def n_right(self, features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Return how many samples the network classifies correctly."""
        output, _ = logits(self.weights, features, self.network, self.statistics)
        guesses = tf.argmax(output, axis=1, output_type=labels.dtype)
        return tf.reduce_sum(tf.cast(guesses == labels, tf.int64))


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train; the rate falls linearly towards 0."""

    n_processes: int
    batch_size: int
    epochs: int
    learning_rate: float

    def learning_rate_of(self, epoch: int) -> float:
        """Return a rate that falls evenly to 0 after the last epoch."""
        return self.learning_rate * (1 - epoch / self.epochs)


class Trainer:
    """Trains a network repeatedly, with other initial weights or orders.

    Parameters
    ----------
    network : {"plain", "batch-norm", "sync-batch-norm"}
        Without or with batch normalisation, per process or over all of them.
    schedule : Schedule
        Processes, batches and epochs; a process's batches must divide its files.
    train, test : tuples of features and labels
        As `read_samples` returns them.
    n_classes : int
        Number of classes.
    """

    def __init__(
        self,
        network: str,
        schedule: Schedule,
        train: Samples,
        test: Samples,
        n_classes: int,
    ):
        self._schedule, self._train = schedule, train
        self._shape = (train[0].shape[1], n_classes, network)
        self.model = Model(initial_weights(*self._shape, seeds=(0,)), network)
        self._test = tuple(map(tf.constant, test))
        self._epoch = tf.function(self._run_epoch)
        self._evaluate = tf.function(lambda: self.model.n_right(*self._test))

    def run(self, seeds: Sequence[int], orders: Iterable[np.ndarray]) -> list[float]:
        """Return the accuracy on the test set after each epoch, in percent.

        Parameters
        ----------
        seeds : sequence of int
            Determine the initial weights.
        orders : iterable of ndarray, shape (n_files,)
            For each epoch, the files of all processes, one process after the other
            (`tierscope.data.shuffle.epoch_order`).
        """
        self.model.start(initial_weights(*self._shape, seeds=seeds))
        accuracy_percent = []
        for epoch, order in enumerate(orders):
            batches = batches_of(order, self._schedule)
            features, labels = (tf.constant(values[batches]) for values in self._train)
            rate = tf.constant(self._schedule.learning_rate_of(epoch), tf.float32)
            self._epoch(features, labels, rate)
            n_right = int(self._evaluate())
            accuracy_percent.append(100 * n_right / len(self._test[1]))
        return accuracy_percent

    def _run_epoch(
        self, features: tf.Tensor, labels: tf.Tensor, learning_rate: tf.Tensor
    ) -> None:
        """Take the steps of an epoch."""
        model = self.model
        if model.network == SYNC_BATCH_NORM:
            features, labels = as_one_process(features), as_one_process(labels)
        for step in tf.range(labels.shape[1]):
            parts = [
                process_step(
                    model.weights,
                    features[rank, step],
                    labels[rank, step],
                    model.network,
                )
                for rank in range(labels.shape[0])
            ]
            model.update(average(parts), learning_rate)


def as_one_process(values: tf.Tensor) -> tf.Tensor:
    """Return the batches of all processes as those of one.

    Shape (n_processes, n_steps, batch_size, ...) becomes (1, n_steps, n_processes *
    batch_size, ...).
    """
    n_processes, n_steps, batch_size, *rest = values.shape
    order = [1, 0, *range(2, len(values.shape))]
    by_step = tf.transpose(values, order)
    return tf.reshape(by_step, [1, n_steps, n_processes * batch_size, *rest])


def batches_of(order: np.ndarray, schedule: Schedule) -> np.ndarray:
    """Return every process's batches of files: (n_processes, n_steps, batch_size)."""
    return order.reshape(schedule.n_processes, -1, schedule.batch_size)
