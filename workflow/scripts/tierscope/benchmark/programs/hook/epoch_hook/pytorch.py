"""PyTorch: a DataLoader tells its iterations, and batches carry their epoch to workers.

Workers read ahead, and after a break they still read for the epoch before. So the epoch
goes with the indices of each batch. Nothing looks at these between the iterator and the
fetcher. Both are internal to PyTorch: if one is missing, only marks are left.
"""

from __future__ import annotations

import os
import sys
import time

from epoch_hook.loops import (
    FETCHES,
    LOOPS,
    around,
    library_function,
    note_wrapped,
    safely,
    take,
)
from epoch_hook.streams import Loader, Stream, place_of_caller

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

MODULE = "torch.utils.data.dataloader"
LIBRARY = ("torch.utils.data.", "torchdata.")  # whose frames tell nothing of a program
_INTERNAL = (
    "_BaseDataLoaderIter.__init__",
    "_BaseDataLoaderIter._reset",
    "_BaseDataLoaderIter._next_index",
    "_BaseDataLoaderIter.__next__",
    "_utils.fetch._MapDatasetFetcher.fetch",
    "_utils.fetch._IterableDatasetFetcher.fetch",
    "_utils.fetch._IterableDatasetFetcher.__init__",
)
# All else works without it.
_SHUTDOWN = "_MultiProcessingDataLoaderIter._shutdown_workers"
# A spawned worker has the hook if it starts with this, as this process did.
_PYTHONPATH = os.environ.get("PYTHONPATH")
_here = None


class Batch:
    """The indices of a batch, in which epoch and by which process they were drawn."""

    __slots__ = ("epoch", "indices", "pid")

    def __init__(self, epoch: int, indices: object, pid: int) -> None:
        self.epoch, self.indices, self.pid = epoch, indices, pid

    def __reduce__(self) -> tuple:
        return Batch, (self.epoch, self.indices, self.pid)


def wrap(module: ModuleType) -> None:
    """Wrap the module of the DataLoader."""
    missing = [name for name in _INTERNAL if _find(module, name) is None]
    note_wrapped("pytorch", missing, "torch.__version__")
    if missing:
        _wrap_loader(module.DataLoader)
        return
    _wrap_iterators(module._BaseDataLoaderIter)
    if _find(module, _SHUTDOWN) is not None:
        _wrap_shutdown(module._MultiProcessingDataLoaderIter)
    _wrap_fetch(module._utils.fetch._MapDatasetFetcher)
    _wrap_fetch(module._utils.fetch._IterableDatasetFetcher)
    _wrap_start(module._utils.fetch._IterableDatasetFetcher)


def _find(found: object, name: str) -> object:
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _wrap_loader(loader: type) -> None:
    """Mark only: each iteration of a loader begins an epoch of its stream."""

    @around(loader, "__iter__")
    def __iter__(original: Callable, self: object) -> object:
        begun = _begin(self)
        if begun is not None:
            begun[1].expect()
        return original(self)


def _wrap_iterators(iterator: type) -> None:
    """Begin where an iterator is made or used again, and mark the batches it draws."""

    @around(iterator, "__init__")
    def __init__(
        start: Callable, self: object, loader: object, *more: object, **named: object
    ) -> None:
        self._tierscope = _begin(loader, self)
        start(self, loader, *more, **named)

    @around(iterator, "_reset")
    def _reset(
        reset: Callable,
        self: object,
        loader: object,
        first_iter: bool = False,
        *more: object,
    ) -> None:
        if not first_iter:  # persistent workers go on
            self._tierscope = _begin(loader, self)
        reset(self, loader, first_iter, *more)

    @around(iterator, "__next__")
    def __next__(next_batch: Callable, self: object) -> object:
        _, stream = getattr(self, "_tierscope", None) or (None, None)
        return next_batch(self) if stream is None else take(stream, next_batch, self)

    @around(iterator, "_next_index")
    def _next_index(next_index: Callable, self: object) -> object:
        indices = next_index(self)
        epoch, _ = getattr(self, "_tierscope", None) or (None, None)
        if epoch is None or os.environ.get("PYTHONPATH") != _PYTHONPATH:
            return indices
        return Batch(epoch, indices, os.getpid())


def _wrap_shutdown(iterator: type) -> None:
    """Note how long the workers of a loop that is left need to end.

    CPython lets an iterator end them before it tells that the iterator is gone.
    """

    @around(iterator, "_shutdown_workers")
    def _shutdown_workers(original: Callable, self: object) -> None:
        began_ns = time.monotonic_ns()
        try:
            original(self)
        finally:
            _add_stop(self, time.monotonic_ns() - began_ns)


@safely
def _add_stop(iterator: object, stop_ns: int) -> None:
    _, stream = getattr(iterator, "_tierscope", None) or (None, None)
    if stream is not None:
        stream.add_stop(iterator, stop_ns)


def _wrap_fetch(fetcher: type) -> None:
    """Let what a batch reads be of its epoch."""

    @around(fetcher, "fetch")
    def fetch(original: Callable, self: object, batch: object) -> object:
        if type(batch) is not Batch:
            return original(self, batch)
        _enter(batch.epoch)
        began_ns = time.perf_counter_ns()
        try:
            return original(self, batch.indices)
        finally:
            _add_fetch(batch, time.perf_counter_ns() - began_ns)
            if batch.pid == os.getpid():  # the trainer, which also reads other things
                _enter(-1)


def _wrap_start(fetcher: type) -> None:
    """Let what a dataset reads before its first sample be of the trainer's epoch.

    A persistent worker makes a fetcher when the trainer has begun its next iteration.
    """

    @around(fetcher, "__init__")
    def __init__(original: Callable, *arguments: object, **named: object) -> None:
        _enter(-1)
        original(*arguments, **named)


@safely
def _enter(epoch: int) -> None:
    global _here
    if _here is None:
        _here = library_function("tierscope_epoch_here")
    _here(epoch)


@safely
def _add_fetch(batch: Batch, time_ns: int) -> None:
    """Note a batch; a sampler of whole batches may draw a single index."""
    n_samples = len(batch.indices) if isinstance(batch.indices, (list, tuple)) else 1
    FETCHES.add(batch.epoch, n_samples, time_ns)


@safely
def _begin(loader: object, iterator: object = None) -> tuple[int, Stream] | None:
    """Return epoch and stream of an iteration; None in a worker, which follows."""
    torch = sys.modules["torch"]
    if torch.utils.data.get_worker_info() is not None:
        return None
    dataset, sampler = loader.dataset, getattr(loader, "sampler", None)
    is_evaluation = not torch.is_grad_enabled()
    shuffle = getattr(sampler, "shuffle", None) is True  # of a DistributedSampler
    begun = LOOPS.begin(
        "pytorch",
        Loader(
            loader,
            kind=(type(loader), type(dataset), type(sampler), shuffle, is_evaluation),
            size=_length(dataset),
            source=_dataset,
        ),
        place_of_caller(LIBRARY),
        _facts(loader),
        is_evaluation,
    )
    if iterator is not None:
        begun[1].follow(iterator)
    return begun


def _dataset(loader: object) -> object:
    return loader.dataset


def _length(dataset: object) -> int | None:
    try:
        return len(dataset)
    except Exception:  # an IterableDataset need not have one
        return None


def _facts(loader: object) -> dict:
    sampler = getattr(loader, "batch_sampler", None)
    batch = loader.batch_size or getattr(sampler, "batch_size", None)
    return {
        "workers": int(loader.num_workers),
        "prefetch_factor": loader.prefetch_factor if loader.num_workers else None,
        "batch_size": batch if isinstance(batch, int) else None,
        "persistent": bool(loader.persistent_workers),
        "style": _style(loader),
        "in_steps": _has_peers(),
    }


def _style(loader: object) -> str:
    """Return how a dataset is read: ``map`` by index, or ``iterable``."""
    iterable = getattr(sys.modules["torch"].utils.data, "IterableDataset", ())
    return "iterable" if isinstance(loader.dataset, iterable) else "map"


def _has_peers() -> bool:
    """Return whether ranks train together, so that they meet in each step."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return False
    return distributed.is_initialized() and distributed.get_world_size() > 1
