"""Loader `pytorch` on real tiers: the `DataLoader` of PyTorch.

Each epoch starts its workers and ends them. Reading begins when all of them have
started, so that their start is no wait for a batch. When they end, the kernel adds
what they have read to the counters of their process.
"""

import os
import signal
import warnings
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch.utils.data import DataLoader, Dataset

from tierscope.benchmark.loaders.loader import BatchLoader
from tierscope.benchmark.loaders.posix import file_sizes
from tierscope.core.description import LoaderSettings
from tierscope.core.processes.children import end_with_parent
from tierscope.storage.clock import Clock

Size = int | OSError
Result = tuple[int, int] | OSError


class PytorchLoader(BatchLoader):
    """Reads batches of whole files by worker processes, or by itself without any.

    A worker hands over the numbers of a batch, not its samples.
    """

    reads_in_epochs_only = False

    def __init__(
        self, batch_size: int, settings: LoaderSettings, clock: Clock | None = None
    ):
        torch.set_num_threads(1)
        # Every process would say that there are more workers than processors.
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        super().__init__(batch_size, settings, clock)
        self._files = Files(self._buffer_bytes)

    def epoch(self, paths: Sequence[str]) -> Iterable[tuple[int, int]]:
        """Return an iterable of (samples, bytes) of each batch; `iter` starts workers.

        An OSError of a worker is raised where its batch is received.
        """
        return WorkerBatches(self._files, self._batches(paths), self._settings)


class Files(Dataset):
    """Reads files; the index of each is its path."""

    def __init__(self, buffer_bytes: int):
        self._parts = [bytearray(buffer_bytes)]

    def __getitem__(self, path: str) -> Size:
        """Return the length of a file after reading it, or why that failed."""
        try:
            return sum(file_sizes([path], self._parts))
        except OSError as error:  # PyTorch would pass on its text only
            return error


class WorkerBatches:
    """The batches of an epoch, each a list of the indices of a dataset."""

    def __init__(
        self,
        dataset: Dataset,
        batches: Sequence[Sequence[str]],
        settings: LoaderSettings,
    ):
        self._dataset, self._batches, self._settings = dataset, batches, settings

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Start the workers and, when all have started, send the first batches."""
        sent: list[Sequence[str]] = []
        loader = self._loader(sent)
        iter(loader)
        sent.extend(self._batches)
        return _received(iter(loader))  # a second time: it waits for all workers

    def _loader(self, sent: Sequence[Sequence[str]]) -> DataLoader:
        """Return a `DataLoader` of the batches in a list when it is iterated over."""
        n_workers = self._settings.workers
        of_workers = {}
        if n_workers:
            of_workers = {
                "prefetch_factor": self._settings.prefetch_factor,
                "persistent_workers": True,
                "multiprocessing_context": "fork",  # it takes the tracer along
                "worker_init_fn": _Start(os.getpid()),
            }
        return DataLoader(
            self._dataset,
            batch_sampler=sent,
            num_workers=n_workers,
            collate_fn=_joined,
            **of_workers,
        )


class _Start:
    """What a worker does first: it will end with its process, and as PyTorch says."""

    def __init__(self, parent: int):
        self._parent = parent

    def __call__(self, worker: int) -> None:
        end_with_parent(self._parent)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process heeds it


def _joined(sizes: Sequence[Size]) -> Result:
    """Return (samples, bytes) of a batch, or the first error."""
    errors = (size for size in sizes if isinstance(size, OSError))
    return next(errors, None) or (len(sizes), sum(sizes))


def _received(results: Iterator[Result]) -> Iterator[tuple[int, int]]:
    """Yield what workers deliver; they end when nobody holds `results` any more."""
    for result in results:
        if isinstance(result, OSError):
            del results
            raise result
        yield result
