"""Loaders: how a process reads the files of an epoch.

A loader's epoch is a finite iterator over batches that yields the number of samples and
of file bytes of each. Work that belongs to building the pipeline is done by the call,
reading starts with the first step.

The loaders of LMDB (`tierscope.benchmark.loaders.lmdb`) keep to this; in place of paths
their samples are referred to by `tierscope.benchmark.loaders.records.RecordReference`,
since one file holds them all.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from tierscope.benchmark.loaders.loader import Loader

# Module and class of each; a launch imports one only, as TensorFlow takes seconds.
FILE_LOADERS = {
    "tensorflow": ("tierscope.benchmark.loaders.tensorflow", "TensorflowLoader"),
    "posix": ("tierscope.benchmark.loaders.posix", "PosixLoader"),
}


def make_loader(
    name: str,
    *,
    batch_size: int,
    read_threads: int,
    prefetch_batches: int,
    buffer_bytes: int,
) -> Loader:
    """Return the loader of this name.

    Parameters
    ----------
    name : str
        One of `FILE_LOADERS`.
    batch_size : int
        Samples per step.
    read_threads : int
        Files read at a time.
    prefetch_batches : int
        Batches read ahead of the consumer; 0 reads only on demand.
    buffer_bytes : int
        Size of a read.
    """
    module, kind = FILE_LOADERS[name]
    with _without_garbage_collection():
        chosen = getattr(import_module(module), kind)
    return chosen(batch_size, read_threads, prefetch_batches, buffer_bytes)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Collect nothing meanwhile: a quarter of the time of an import as large."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # nor look at them ever again
        gc.enable()
