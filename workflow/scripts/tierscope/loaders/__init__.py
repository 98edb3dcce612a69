"""Loaders: how a process reads the files of an epoch.

A loader has one method, ``epoch(paths)``: a finite iterator over batches that yields
the number of samples and of file bytes of each. Work that belongs to building the
pipeline is done by the call, reading starts with the first step.

The loaders of LMDB (`tierscope.loaders.lmdb`) keep to this; in place of paths their
samples are referred to by `tierscope.loaders.records.RecordReference`, since one file
holds them all.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol


class Loader(Protocol):
    """Reads files of one sample each in the order given."""

    def epoch(self, paths: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Return an iterator over (samples, bytes) of each batch."""


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
    name : {"tensorflow", "posix"}
        Which loader.
    batch_size : int
        Samples per step.
    read_threads : int
        Files read at a time.
    prefetch_batches : int
        Batches read ahead of the consumer; 0 reads only on demand.
    buffer_bytes : int
        Size of a read.
    """
    if name == "tensorflow":
        from tierscope.loaders.tensorflow import TensorflowLoader as Chosen
    else:
        from tierscope.loaders.posix import PosixLoader as Chosen
    return Chosen(batch_size, read_threads, prefetch_batches, buffer_bytes)
