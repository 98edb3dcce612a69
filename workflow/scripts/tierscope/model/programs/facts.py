"""How a program loads, and why the models do not know one that loads otherwise.

The models know a program that loads as loader `pytorch` or `tensorflow` does: in each
epoch one loop over one loader, which reads each file of the dataset once. What the hook
has noted of the runs tells whether a program does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from tierscope.core.description import PYTORCH, Run
from tierscope.core.given.secrets import command_words
from tierscope.core.words import count_words
from tierscope.storage.queueing_network import ModelError

TENSORFLOW = "tensorflow"
_READS_PERCENT = 2  # by which opens may differ from one of each file: padded samplers
_BYTES_PERCENT = 10  # by which bytes may differ: `numpy.load` reads a header twice
_AUTOTUNE = -1
_OF_LOADERS = {
    PYTORCH: ("batch_size", "workers", "prefetch_factor", "style", "in_steps"),
    TENSORFLOW: ("batch_size", "readers", "prefetch_batches"),
}
_READERS_WITHOUT_WORKERS = {PYTORCH: "no worker", TENSORFLOW: "one reader"}


@dataclass(frozen=True)
class SeenRun:
    """A run of a program, with its tables.

    Parameters
    ----------
    run : Run
        Its `run.json`.
    epochs, opens, io_time : DataFrame
        Tables `run_epochs`, `opens` and `io_time`.
    """

    run: Run
    epochs: pd.DataFrame
    opens: pd.DataFrame
    io_time: pd.DataFrame

    @property
    def loops(self) -> list[dict[str, Any]]:
        """Return the notes of the loops that trained."""
        return [one for one in self.run.observed["loops"] if not one["evaluation"]]

    @property
    def io_time_s(self) -> float:
        """Return the I/O time of all ranks and epochs together."""
        return float(self.io_time["time_s"].sum())


@dataclass(frozen=True)
class ProgramFacts:
    """How a program loads.

    Parameters
    ----------
    loader : {"pytorch", "tensorflow"}
        The loader of ours that loads alike.
    batch_size : int
        Samples of a step.
    workers, prefetch_factor : int
        Of `pytorch`; 0 for `tensorflow`.
    prefetch_batches : int
        Of `tensorflow`; 0 for `pytorch`.
    in_steps : bool
        Whether ranks meet in each step.
    n_ranks, n_epochs : int
        Ranks that train, and epochs of a run.
    """

    loader: str
    batch_size: int
    workers: int
    prefetch_factor: int
    prefetch_batches: int
    in_steps: bool
    n_ranks: int
    n_epochs: int

    @property
    def words(self) -> str:
        """Return the facts in words."""
        depth = self.prefetch_factor or self.prefetch_batches  # one has no number
        readers = _READERS_WITHOUT_WORKERS[self.loader]
        if self.workers:
            readers = f"{count_words(self.workers, 'worker')} a rank"
        ahead = f", {count_words(depth, 'batch', 'batches')} ahead" if depth else ""
        ranks = count_words(self.n_ranks, "rank")
        return (
            f"loads as {self.loader}: batches of {self.batch_size}, {readers}{ahead}, "
            f"{ranks}, {count_words(self.n_epochs, 'epoch')}"
        )


def program_facts(runs: Sequence[SeenRun], sizes: np.ndarray) -> ProgramFacts:
    """Return how a program loads, as all of its runs say.

    Parameters
    ----------
    runs : sequence of SeenRun
        All runs that are fitted or predicted, and the ideal ones.
    sizes : ndarray of int, shape (n_files,)
        Bytes of each file of the dataset.

    Raises
    ------
    ModelError
        If the models do not know how the program loads.
    """
    for one in runs:
        _check_framework(one)
        _check_loops(one)
        _check_reads(one, sizes)
    first = runs[0]
    found = [_as_loader(one) for one in runs]
    for one, facts in zip(runs, found, strict=True):
        if facts != found[0]:
            refuse(one, f"{facts.words} in {_point_of(one)}", f"{found[0].words} there")
    _check_batches(first, runs)
    return found[0]


def refuse(seen: SeenRun, got: str, expected: str) -> NoReturn:
    """Refuse a program in one line."""
    command = command_words(seen.run.program.command)
    raise ModelError(f"program {command}: got {got}, expected {expected}.")


def _point_of(seen: SeenRun) -> str:
    """Return which run this is, in words."""
    point = seen.run.point
    return f"repetition {point.repetition} of {point.cache_rate_percent} %"


def _check_framework(seen: SeenRun) -> None:
    """Refuse a program whose loops the hook has not seen, or the models do not know."""
    observed = seen.run.observed
    frameworks = {one["framework"] for one in observed["loaders"]}
    known = " or ".join(("PyTorch's DataLoader", "tf.data"))
    if observed["epochs_by"] != "hook" or len(frameworks) != 1:
        got = " and ".join(sorted(frameworks)) or "no loader that the hook knows"
        refuse(seen, got, f"loops over {known}")
    if not frameworks <= set(_OF_LOADERS):
        refuse(seen, f"loops of {frameworks.pop()}", f"those of {known}")
    if "loops" not in observed:
        refuse(seen, "runs whose loops were not timed", "new ones, by another --name")


def _check_loops(seen: SeenRun) -> None:
    """Refuse a program in whose epochs not one loop has taken all batches."""
    begun = zip(seen.epochs["rank"], seen.epochs["epoch"], strict=True)
    n_loops = dict.fromkeys(begun, 0)
    for one in seen.loops:
        rank, epoch = one["rank"], one["epoch"]
        where = f"in epoch {epoch} of rank {rank}"
        if (rank, epoch) not in n_loops:
            refuse(seen, f"a loop {where}", "loops in epochs in which this rank read")
        if one.get("left"):  # older notes have no such loops
            got = f"a loop {where} that was left before its end"
            refuse(seen, got, "loops that take all batches")
        n_loops[rank, epoch] += 1
    for (rank, epoch), n in n_loops.items():
        if n != 1:
            got = f"{n} loops that took all batches in epoch {epoch} of rank {rank}"
            refuse(seen, got, "1: the model knows programs that train on one loader")


def _check_reads(seen: SeenRun, sizes: np.ndarray) -> None:
    """Refuse a program that does not read each file once in an epoch, as a whole."""
    opens, io_time = seen.opens, seen.io_time
    for epoch in sorted(set(seen.epochs["epoch"])):
        here = opens[opens["epoch"] == epoch]
        n_files = here["file_id"].nunique()
        n_opens = here["opens"].sum() / len(sizes)
        n_bytes = io_time.loc[io_time["epoch"] == epoch, "bytes"].sum() / sizes.sum()
        once = f"1 (epoch {epoch}): the model knows programs that read each file once"
        if abs(n_opens - 1) > _READS_PERCENT / 100:
            refuse(seen, f"{n_opens:.3g} reads of each file in an epoch", once)
        if n_files < len(sizes) * (1 - _READS_PERCENT / 100):
            got = f"reads of {n_files} of {len(sizes)} files in epoch {epoch}"
            refuse(seen, got, "all: the model knows programs that read each file once")
        if abs(n_bytes - 1) > _BYTES_PERCENT / 100:
            refuse(seen, f"{n_bytes:.3g} of the bytes of each file", once)


def _as_loader(seen: SeenRun) -> ProgramFacts:
    """Return how the loader of a run's training loads."""
    streams = {one["stream"] for one in seen.loops}
    loaders = [one for one in seen.run.observed["loaders"] if one["stream"] in streams]
    framework = loaders[0]["framework"]
    facts = {
        name: _the_only(seen, name, (one.get(name) for one in loaders))
        for name in _OF_LOADERS[framework]
    }
    if not facts["batch_size"]:
        refuse(seen, "no batch size", "batches of one size")
    if facts.get("style", "map") != "map":
        refuse(seen, "an IterableDataset", "one of map style, a sample a file")
    if (n_calls := facts.get("readers", 1)) != 1:
        got = "AUTOTUNE" if n_calls == _AUTOTUNE else str(n_calls)
        refuse(seen, f"a pipeline with {got} parallel calls", "one that reads alone")
    if facts.get("prefetch_batches") == _AUTOTUNE:
        refuse(seen, "prefetch(AUTOTUNE)", "a number of batches: prefetch(2)")
    return ProgramFacts(
        framework,
        facts["batch_size"],
        facts.get("workers") or 0,
        facts.get("prefetch_factor") or 0,
        facts.get("prefetch_batches") or 0,
        bool(facts.get("in_steps")),
        seen.epochs["rank"].nunique(),
        seen.epochs["epoch"].nunique(),
    )


def _the_only(seen: SeenRun, name: str, values: Iterable[Any]) -> Any:
    """Return what all loaders of the training have in common."""
    values = list(dict.fromkeys(values))
    if len(values) != 1:
        words = " and ".join(map(str, values))
        refuse(seen, f"loaders with {name} {words}", "the same in all epochs")
    return values[0]


def _check_batches(first: SeenRun, runs: Sequence[SeenRun]) -> None:
    """Refuse a program whose epochs have different numbers of batches."""
    n_batches: dict[int, int] = {}
    for seen in runs:
        for loop in seen.loops:
            known = n_batches.setdefault(loop["rank"], loop["batches"])
            if loop["batches"] != known:
                got = f"{loop['batches']} batches in epoch {loop['epoch']}"
                refuse(first, got, f"{known}, as in the others")
