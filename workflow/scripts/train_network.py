"""Train a network of the accuracy study repeatedly with every shuffle."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from tierscope.benchmark.preparation import TENSORFLOW_ENVIRONMENT
from tierscope.core.files import log_to
from tierscope.core.output.streams import ending_on
from tierscope.core.tables import write_table
from tierscope.data.labelled_samples import PARTS, sample_paths
from tierscope.data.shuffle import epoch_order
from tierscope.data.tfrecord import DatasetError


def train_network(
    network: str,
    study: Mapping[str, Any],
    paths: Mapping[str, Sequence[str]],
    *,
    shuffles: Iterable[str],
    seed: int,
    say: Callable[[str], None],
) -> pd.DataFrame:
    """Return the accuracy after each epoch of all trainings of a network.

    Parameters
    ----------
    network : {"plain", "batch-norm", "sync-batch-norm"}
        Without or with batch normalisation, per process or over all of them.
    study : mapping
        Section `studies.accuracy` of the configuration.
    paths : mapping of str to sequence of str
        Files of parts ``train`` and ``test``.
    shuffles : iterable of str
        As for `tierscope.data.shuffle.epoch_order`. Trainings of one repetition start
        from the same weights.
    seed : int
        With the number of a repetition, determines weights and orders.
    say : callable
        Called with a line after each training.

    Returns
    -------
    DataFrame
        Table ``accuracy``.
    """
    from tierscope.benchmark.accuracy_study import (
        Schedule,
        Trainer,
        compute_as_written,
        read_samples,
    )

    compute_as_written()
    keys = ("n_processes", "batch_size", "epochs", "learning_rate")
    schedule = Schedule(**{key: study[key] for key in keys})
    train, test = (read_samples(paths[part]) for part in PARTS)
    trainer = Trainer(network, schedule, train, test, study["n_classes"])
    rows = []
    for repetition in range(study["repetitions"]):
        for shuffle in shuffles:
            orders = (
                epoch_order(
                    len(train[1]),
                    schedule.n_processes,
                    shuffle=shuffle,
                    seed=seed,
                    repetition=repetition,
                    epoch=epoch,
                )
                for epoch in range(schedule.epochs)
            )
            accuracy_percent = trainer.run((seed, repetition), orders)
            say(f"{network}, {shuffle}, {repetition}: {accuracy_percent[-1]:.2f} %")
            rows += [
                {
                    "shuffle": shuffle,
                    "repetition": repetition,
                    "epoch": epoch,
                    "accuracy_percent": percent,
                }
                for epoch, percent in enumerate(accuracy_percent)
            ]
    return pd.DataFrame(rows).assign(
        source="trained",
        network=network,
        n_ranks=schedule.n_processes,
        n_classes=study["n_classes"],
    )


if __name__ == "__main__":
    log_to(snakemake.log[0])
    os.environ |= TENSORFLOW_ENVIRONMENT
    study = snakemake.params.study
    with ending_on(DatasetError):
        accuracy = train_network(
            snakemake.wildcards.network,
            study,
            {
                part: sample_paths(
                    os.path.join(snakemake.input.samples, part),
                    study[f"n_{part}_files"],
                )
                for part in PARTS
            },
            shuffles=snakemake.params.shuffles,
            seed=snakemake.params.seed,
            say=print,
        )
    write_table(accuracy, snakemake.output.accuracy, "accuracy")
