"""Which process reads which file when (paper Sec. 2.1).

Every order is a permutation seeded by numbers that all processes share, so each
process computes its own part and nothing is communicated.
"""

import numpy as np


def process_share(n_files: int, rank: int, n_processes: int) -> slice:
    """Return a process's contiguous part of an order; parts differ by at most one."""
    return slice(n_files * rank // n_processes, n_files * (rank + 1) // n_processes)


def epoch_files(
    n_files: int,
    rank: int,
    n_processes: int,
    *,
    shuffle: str,
    seed: int,
    repetition: int,
    epoch: int,
) -> np.ndarray:
    """Return the files a process reads in an epoch, in reading order.

    Parameters
    ----------
    n_files, rank, n_processes : int
        Size of the dataset, this process, number of processes.
    shuffle : {"global", "local", "biased"}
        ``global`` deals all files anew every epoch; ``local`` deals them once and
        reorders each process's own part every epoch. ``biased`` is ``local`` for
        someone who forgot to shuffle before: the list of files is cut where it is, so
        files that are listed by class give each process few classes.
    seed, repetition, epoch : int
        Together they determine the order.

    Returns
    -------
    ndarray of int, shape (about n_files / n_processes,)
    """
    share = process_share(n_files, rank, n_processes)
    if shuffle == "global":
        return np.random.default_rng((seed, repetition, epoch)).permutation(n_files)[
            share
        ]
    if shuffle == "biased":
        dealt = np.arange(share.start, share.stop)
    else:
        dealt = np.random.default_rng((seed, repetition)).permutation(n_files)[share]
    return np.random.default_rng((seed, repetition, epoch, rank)).permutation(dealt)


def epoch_order(
    n_files: int,
    n_processes: int,
    *,
    shuffle: str,
    seed: int,
    repetition: int,
    epoch: int,
) -> np.ndarray:
    """Return the files that all processes read in an epoch, process after process.

    Parameters
    ----------
    n_files, n_processes, shuffle, seed, repetition, epoch
        As for `epoch_files`.

    Returns
    -------
    ndarray of int, shape (n_files,)
        `epoch_files` of rank 0, then of rank 1, and so on.
    """
    seeds = {"seed": seed, "repetition": repetition, "epoch": epoch}
    if shuffle == "global":  # one permutation holds all parts
        return epoch_files(n_files, 0, 1, shuffle=shuffle, **seeds)
    parts = [
        epoch_files(n_files, rank, n_processes, shuffle=shuffle, **seeds)
        for rank in range(n_processes)
    ]
    return np.concatenate(parts)
