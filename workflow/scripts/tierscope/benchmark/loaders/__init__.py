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

from tierscope.benchmark.loaders.loader import Loader


def _tensorflow(in_virtual_time: bool) -> type[Loader]:
    from tierscope.benchmark.loaders.tensorflow import (
        LeanTensorflowLoader,
        TensorflowLoader,
    )

    return LeanTensorflowLoader if in_virtual_time else TensorflowLoader


def _posix(in_virtual_time: bool) -> type[Loader]:
    from tierscope.benchmark.loaders.posix import PosixLoader

    return PosixLoader


# What imports the class of each: a launch imports one only, as TensorFlow takes
# seconds. By import statements, so that its digest of modules covers all loaders.
FILE_LOADERS = {"tensorflow": _tensorflow, "posix": _posix}


def make_loader(
    name: str,
    *,
    batch_size: int,
    read_threads: int,
    prefetch_batches: int,
    buffer_bytes: int,
    in_virtual_time: bool = False,
) -> Loader:
    """Return the loader of this name, one of `FILE_LOADERS`.

    `read_threads` files are read at the same time, of which virtual time has one. With
    `prefetch_batches` 0 it reads only on demand. `buffer_bytes` is the size of a read.
    """
    with _without_garbage_collection():
        chosen = FILE_LOADERS[name](in_virtual_time)
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
