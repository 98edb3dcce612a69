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
from tierscope.core.description import LoaderSettings
from tierscope.storage.clock import Clock
from tierscope.storage.pytorch import use_pytorch


def _tensorflow() -> type[Loader]:
    from tierscope.benchmark.loaders.tensorflow import TensorflowLoader

    return TensorflowLoader


def _lean_tensorflow() -> type[Loader]:
    from tierscope.benchmark.loaders.tensorflow import LeanTensorflowLoader

    return LeanTensorflowLoader


def _posix() -> type[Loader]:
    from tierscope.benchmark.loaders.posix import PosixLoader

    return PosixLoader


def _workers() -> type[Loader]:
    from tierscope.benchmark.loaders.workers import WorkerLoader

    return WorkerLoader


def _pytorch() -> type[Loader]:
    use_pytorch()
    from tierscope.benchmark.loaders.pytorch import PytorchLoader

    return PytorchLoader


# What imports the class of each: a launch imports one only, as TensorFlow takes
# seconds. By import statements, so that its digest of modules covers all loaders.
FILE_LOADERS = {"tensorflow": _tensorflow, "posix": _posix, "pytorch": _pytorch}
_VIRTUAL = FILE_LOADERS | {"tensorflow": _lean_tensorflow, "pytorch": _workers}
_LOADERS = {"real": FILE_LOADERS, "virtual": _VIRTUAL}


def make_loader(name: str, *, batch_size: int, clock: Clock, **settings: int) -> Loader:
    """Return the loader of this name, one of `FILE_LOADERS`, for epochs of a clock.

    `settings` are those of a `LoaderSettings`; where `read_threads` files are read at
    the same time, virtual time has one.
    """
    with _without_garbage_collection():
        chosen = _LOADERS[clock.name][name]()
    return chosen(batch_size, LoaderSettings(**settings), clock)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Suspend garbage collection, a quarter of the time of so large an import."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # nor examine these objects again
        gc.enable()
