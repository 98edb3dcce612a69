"""The order in which processes read files (paper Sec. 2.1).

Every order is a permutation with a seed that all processes share, so each process
computes its own part without communication.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tierscope.core.description import RunDescription

if TYPE_CHECKING:
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
    strata: "np.ndarray | None" = None,
) -> "np.ndarray":
    """Return the files that a process reads in an epoch, in reading order.

    Parameters
    ----------
    n_files, rank, n_processes : int
        Size of the dataset, this process, number of processes.
    shuffle : {"global", "local", "biased"}
        ``global`` redistributes all files every epoch. ``local`` distributes them once
        and reorders each process's own part every epoch. ``biased`` is ``local``
        without the initial shuffle: the list of files is cut as it is, so if files are
        listed by class, each process gets few classes.
    seed, repetition, epoch : int
        Seeds of the order.
    strata : ndarray of bool, shape (n_files,), optional
        Files to distribute separately from the others, so that each process gets its
        part of both (`stratified_shares`).

    Returns
    -------
    ndarray of int, shape (about n_files / n_processes,)
    """
    order = _dealt(n_files, shuffle, seed, repetition, epoch)
    parts = _parts(
        order, [rank], n_processes, shuffle, (seed, repetition, epoch), strata
    )
    return next(parts)


def _parts(
    order: "np.ndarray",
    ranks: Iterable[int],
    n_processes: int,
    shuffle: str,
    seeds: tuple[int, int, int],
    strata: "np.ndarray | None",
) -> "Iterator[np.ndarray]":
    """Yield the parts of processes from distributed files, in reading order."""
    import numpy as np

    if strata is not None:
        shares = stratified_shares(order, strata, ranks, n_processes)
        for rank, part in zip(ranks, shares, strict=True):
            yield _order_within(*seeds, rank).permutation(part)
        return
    for rank in ranks:
        part = order[process_share(len(order), rank, n_processes)]
        if shuffle != "global":  # otherwise already in reading order
            part = np.random.default_rng((*seeds, rank)).permutation(part)
        yield part


def _dealt(
    n_files: int, shuffle: str, seed: int, repetition: int, epoch: int
) -> "np.ndarray":
    """Return the order in which files are distributed to the processes."""
    import numpy as np

    if shuffle == "biased":
        return np.arange(n_files)
    seeds = (seed, repetition, epoch) if shuffle == "global" else (seed, repetition)
    return np.random.default_rng(seeds).permutation(n_files)


def _order_within(*seeds: int) -> "np.random.Generator":
    """Return the generator of the order of a process's part of both strata."""
    import numpy as np

    return np.random.default_rng(np.random.SeedSequence(seeds, spawn_key=(2,)))


def stratified_shares(
    order: "np.ndarray", strata: "np.ndarray", ranks: Iterable[int], n_processes: int
) -> "Iterator[np.ndarray]":
    """Yield processes' parts of an order whose two strata are distributed separately.

    Let the share of rank r (`process_share`) be positions T_r to T_r+1 of n, and let K
    of the n files be in the first stratum. The rank gets files floor(K T_r / n) to
    floor(K T_r+1 / n) of the first stratum, in the given order, and fills its share
    with other files. All ranks get equally many files of the first stratum if the
    number of ranks divides n and K; if it divides only n, these differ by at most one.

    Parameters
    ----------
    order : ndarray of int, shape (n_files,)
        All files.
    strata : ndarray of bool, shape (n_files,)
        Whether each file is in the first stratum.
    ranks : iterable of int
        The processes.
    n_processes : int
        Number of processes.
    """
    import numpy as np

    in_first = strata[order]
    first, others = order[in_first], order[~in_first]
    for rank in ranks:
        share = process_share(len(order), rank, n_processes)
        start, stop = (len(first) * t // len(order) for t in (share.start, share.stop))
        rest = others[share.start - start : share.stop - stop]
        yield np.concatenate([first[start:stop], rest])


def epoch_order(
    n_files: int,
    n_processes: int,
    *,
    shuffle: str,
    seed: int,
    repetition: int,
    epoch: int,
    strata: "np.ndarray | None" = None,
) -> "np.ndarray":
    """Return the files that all processes read in an epoch, by process.

    Parameters
    ----------
    n_files, n_processes, shuffle, seed, repetition, epoch, strata
        As for `epoch_files`.

    Returns
    -------
    ndarray of int, shape (n_files,)
        `epoch_files` of rank 0, then of rank 1, and so on.
    """
    import numpy as np

    order = _dealt(n_files, shuffle, seed, repetition, epoch)
    if shuffle == "global" and strata is None:  # all parts, one after the other
        return order
    seeds, ranks = (seed, repetition, epoch), range(n_processes)
    parts = _parts(order, ranks, n_processes, shuffle, seeds, strata)
    return np.concatenate(list(parts))


@dataclass(frozen=True)
class RunOrder:
    """The orders in which the processes of a run read its files, epoch by epoch.

    Parameters
    ----------
    n_files, n_processes, shuffle, seed, repetition
        As for `epoch_files`.
    """

    n_files: int
    n_processes: int
    shuffle: str
    seed: int
    repetition: int

    def of_process(
        self, rank: int, epoch: int, strata: "np.ndarray | None" = None
    ) -> "np.ndarray":
        """Return the files that a process reads in an epoch (`epoch_files`)."""
        return epoch_files(rank=rank, epoch=epoch, strata=strata, **asdict(self))

    def of_all(self, epoch: int, strata: "np.ndarray | None" = None) -> "np.ndarray":
        """Return the files of all processes, by process (`epoch_order`)."""
        return epoch_order(epoch=epoch, strata=strata, **asdict(self))


def run_order(description: RunDescription, repetition: int) -> RunOrder:
    """Return the orders of a repetition of a scenario."""
    return RunOrder(
        description.dataset.n_files,
        description.system.n_processes,
        description.training.shuffle,
        description.training.seed,
        repetition,
    )
