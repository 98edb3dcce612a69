"""Take steps with a real process for each rank, and compare with one process.

mpiexec -n 3 python steps_under_mpi.py: prints, for each network, the largest difference
of any weight or moving average (JSON). Three ranks, as a sum of two terms has no order.
"""

import json
import os

import numpy as np
from tierscope.benchmark.preparation import TENSORFLOW_ENVIRONMENT
from tierscope.data.labelled_samples import N_FEATURES, Distribution
from tierscope.data.shuffle import epoch_files, epoch_order

os.environ |= TENSORFLOW_ENVIRONMENT

from mpi4py import MPI

N_CLASSES, BATCH_SIZE, N_STEPS = 10, 16, 3
SEEDS = {"seed": 1, "repetition": 2, "epoch": 0}


def initial(network):
    """Return the weights that all begin with."""
    from tierscope.benchmark.accuracy_study import initial_weights

    return initial_weights(N_FEATURES, N_CLASSES, network, (1, 2))


def train_apart(comm, network, samples, schedule):
    """Return the model of a rank that computes gradients of its own files only.

    Also return how far the sums of an MPI_Allreduce, in an order of its own, lie from
    the averages used, relative to the largest.
    """
    import tensorflow as tf
    from tierscope.benchmark.accuracy_study import Model, average, process_step

    files = epoch_files(
        len(samples[1]), comm.rank, comm.size, shuffle="biased", **SEEDS
    )
    model = Model(initial(network), network)
    compute = tf.function(
        lambda features, labels: process_step(model.weights, features, labels, network)
    )
    rate, farthest = tf.constant(schedule.learning_rate_of(0), tf.float32), 0.0
    for batch in files.reshape(N_STEPS, BATCH_SIZE):
        mine = [part.numpy() for part in compute(*(one[batch] for one in samples))]
        averages = average(comm.allgather(mine))
        for part, used in zip(mine, averages, strict=True):
            total = np.empty_like(part)
            comm.Allreduce(part, total)
            error = abs(total / comm.size - used.numpy()).max()
            farthest = max(farthest, float(error / abs(used.numpy()).max()))
        model.update(averages, rate)
    return model, farthest


def state(model):
    """Return all that steps change, as one array."""
    variables = [*model.weights, *model.velocities, *model.statistics]
    return np.concatenate([variable.numpy().ravel() for variable in variables])


def main():
    """Compare on the first rank."""
    comm = MPI.COMM_WORLD
    from tierscope.benchmark.accuracy_study import Schedule, Trainer, compute_as_written

    compute_as_written()
    n_files = comm.size * BATCH_SIZE * N_STEPS
    samples = Distribution(N_CLASSES, 1).draw(n_files, "train")
    schedule = Schedule(comm.size, BATCH_SIZE, epochs=1, learning_rate=0.1)
    result = {}
    for network in ("plain", "batch-norm"):
        apart, farthest = train_apart(comm, network, samples, schedule)
        if comm.rank:
            continue
        together = Trainer(network, schedule, samples, samples, N_CLASSES)
        together.model.start(initial(network))
        before = state(together.model)
        order = epoch_order(n_files, comm.size, shuffle="biased", **SEEDS)
        together.run((1, 2), [order])
        result[network] = {
            "n_compared": before.size,
            "moved": float(abs(state(apart) - before).max()),
            "largest_difference": float(
                abs(state(apart) - state(together.model)).max()
            ),
            "allreduce_relative_difference": farthest,
        }
    if comm.rank == 0:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
