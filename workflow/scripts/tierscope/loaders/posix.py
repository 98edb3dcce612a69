"""Loader `posix`: open, read to the end of the file, close; nothing else."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from tierscope.loaders import Feed

Item = TypeVar("Item")

DEFAULT_BUFFER_BYTES = 1 << 18


class PosixLoader:
    """Reads whole files with plain system calls, in the calls TensorFlow makes."""

    def __init__(
        self,
        batch_size: int,
        read_threads: int,
        prefetch_batches: int,
        buffer_bytes: int,
    ):
        self._batch_size = batch_size
        self._read_threads = read_threads
        self._n_ahead = prefetch_batches * batch_size
        self._buffer_bytes = buffer_bytes or DEFAULT_BUFFER_BYTES

    def epoch(self, paths: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Return an iterator over (samples, bytes) of each batch."""
        return self._batches(self._read, paths)

    def fed_epoch(self, feed: Feed) -> Iterator[tuple[int, int]]:
        """Do the same with files whose paths are not known before."""
        return self._batches(partial(self._read_fed, feed), range(len(feed)))

    def _batches(
        self, read: Callable[[Item], int], items: Sequence[Item]
    ) -> Iterator[tuple[int, int]]:
        """Yield (samples, bytes) of each batch; `read` returns the bytes of a file."""
        sizes = self._sizes(read, items)
        for start in range(0, len(items), self._batch_size):
            n_samples = min(self._batch_size, len(items) - start)
            yield n_samples, sum(next(sizes) for _ in range(n_samples))

    def _sizes(
        self, read: Callable[[Item], int], items: Sequence[Item]
    ) -> Iterator[int]:
        """Yield the bytes read of each file, reading ahead in the background."""
        if not self._n_ahead:
            yield from map(read, items)
            return
        with ThreadPoolExecutor(self._read_threads) as pool:
            ahead = deque()
            for item in items:
                ahead.append(pool.submit(read, item))
                if len(ahead) > self._n_ahead:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def _read(self, path: str) -> int:
        """Read a file to its end and return its length."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            n_bytes = 0
            while chunk := os.pread(descriptor, self._buffer_bytes, n_bytes):
                n_bytes += len(chunk)
            return n_bytes
        finally:
            os.close(descriptor)

    def _read_fed(self, feed: Feed, index: int) -> int:
        """Read a file of a feed to its end, keep its bytes, and return its length."""
        chunks, n_bytes = [], 0
        descriptor = os.open(feed.path(index), os.O_RDONLY)
        try:
            while chunk := os.pread(descriptor, self._buffer_bytes, n_bytes):
                chunks.append(chunk)
                n_bytes += len(chunk)
        finally:
            os.close(descriptor)
        feed.finished(index, lambda: b"".join(chunks))
        return n_bytes
