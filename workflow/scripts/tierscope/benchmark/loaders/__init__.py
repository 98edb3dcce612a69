"""Loaders: how a process reads the files of an epoch.

A loader's epoch is a finite iterator over batches. It yields the number of samples and
of file bytes of each batch. The call builds the pipeline; reading starts with the first
step.

The LMDB loaders (`tierscope.benchmark.loaders.lmdb`) have the same interface. One file
holds all their samples, so they take `tierscope.benchmark.loaders.records.
RecordReference` in place of paths.
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
_VIRTUAL_TIME_LOADERS = FILE_LOADERS | {
    "tensorflow": ("tierscope.benchmark.loaders.tensorflow", "LeanTensorflowLoader"),
}


def make_loader(
    name: str,
    *,
    batch_size: int,
    read_threads: int,
    prefetch_batches: int,
    buffer_bytes: int,
    in_virtual_time: bool = False,
) -> Loader:
    """Return the loader of this name.

    Parameters
    ----------
    name : str
        One of `FILE_LOADERS`.
    batch_size : int
        Samples per step.
    read_threads : int
        Files read at the same time.
    prefetch_batches : int
        Batches read ahead of the consumer; 0 reads only on demand.
    buffer_bytes : int
        Size of a read.
    in_virtual_time : bool
        Whether the launch runs in virtual time, which has one reading thread.
    """
    module, kind = (_VIRTUAL_TIME_LOADERS if in_virtual_time else FILE_LOADERS)[name]
    with _without_garbage_collection():
        chosen = getattr(import_module(module), kind)
    return chosen(batch_size, read_threads, prefetch_batches, buffer_bytes)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Suspend garbage collection, a quarter of the time of so large an import."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # nor examine these objects again
        gc.enable()
