"""Loader `posix`: open, read to the end of the file, close; nothing else."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TypeVar

from tierscope.benchmark.loaders.loader import DEFAULT_BUFFER_BYTES, Feed
from tierscope.core.description import LoaderSettings
from tierscope.storage.clock import Clock, Role

Item = TypeVar("Item")


def file_sizes(
    paths: Iterable[str], parts: list[bytearray], process: Callable[[], None] = int
) -> Iterator[int]:
    """Yield the length of each file when it has been read to its end.

    Each is closed when the next one is wanted. `parts` holds the buffer, and `process`
    is called with a sample in it.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            n_bytes = 0
            while n_read := os.readv(descriptor, parts):
                n_bytes += n_read
            process()
            yield n_bytes
        finally:
            os.close(descriptor)


class PosixLoader:
    """Reads whole files with plain system calls, the same calls as TensorFlow.

    It reads ahead as ``tf.data`` does: it begins the next batch when there is room for
    it, and closes a file when the next one is wanted. It reports a file to a feed when
    it closes the file.
    """

    teller = Role.READER
    reads_in_epochs_only = False

    def __init__(
        self,
        batch_size: int,
        settings: LoaderSettings,
        clock: Clock | None = None,
    ):
        self._batch_size = batch_size
        self._read_threads = settings.read_threads
        self._prefetch_batches = settings.prefetch_batches
        self._buffer_bytes = settings.buffer_bytes or DEFAULT_BUFFER_BYTES
        self._of_thread = threading.local()

    def epoch(self, paths: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Return an iterator over (samples, bytes) of each batch."""
        if self._read_threads == 1:
            return self._batches(self._sizes(paths))
        return self._batches(
            self._at_a_time(lambda path: sum(self._sizes([path])), paths)
        )

    def fed_epoch(self, feed: Feed) -> Iterator[tuple[int, int]]:
        """Do the same with files whose paths are not known before."""
        indices = range(len(feed))
        if self._read_threads == 1:
            return self._batches(self._fed_sizes(feed, indices))
        return self._batches(
            self._at_a_time(lambda index: sum(self._fed_sizes(feed, [index])), indices)
        )

    def _batches(self, sizes: Iterator[int]) -> Iterator[tuple[int, int]]:
        """Return an iterator over (samples, bytes) of each batch of files."""
        batches = iter(lambda: list(islice(sizes, self._batch_size)), [])
        counted = ((len(batch_sizes), sum(batch_sizes)) for batch_sizes in batches)
        return self._ahead(counted) if self._prefetch_batches else counted

    def _ahead(self, batches: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield batches, while a thread reads ahead as many as are held ready."""
        with ThreadPoolExecutor(1) as pool:
            ahead = deque(
                pool.submit(next, batches, None) for _ in range(self._prefetch_batches)
            )
            while (batch := ahead.popleft().result()) is not None:
                ahead.append(pool.submit(next, batches, None))
                yield batch

    def _at_a_time(
        self, read: Callable[[Item], int], items: Sequence[Item]
    ) -> Iterator[int]:
        """Yield the bytes of each file; at most `read_threads` are read at a time."""
        with ThreadPoolExecutor(self._read_threads) as pool:
            under_way = deque()
            for item in items:
                under_way.append(pool.submit(read, item))
                if len(under_way) == self._read_threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()

    def _sizes(self, paths: Sequence[str]) -> Iterator[int]:
        """Yield the length of each file when it has been read to its end."""
        return file_sizes(paths, self._parts())

    def _parts(self) -> list[bytearray]:
        """Return this thread's buffer; allocating one takes as long as the read."""
        try:
            return self._of_thread.parts
        except AttributeError:
            self._of_thread.parts = [bytearray(self._buffer_bytes)]
            return self._of_thread.parts

    def _fed_sizes(self, feed: Feed, indices: Iterable[int]) -> Iterator[int]:
        """Yield the length of each file of a feed; report each file once closed."""
        for index in indices:
            chunks, n_bytes = [], 0
            descriptor = os.open(feed.path(index), os.O_RDONLY)
            try:
                while chunk := os.pread(descriptor, self._buffer_bytes, n_bytes):
                    chunks.append(chunk)
                    n_bytes += len(chunk)
                yield n_bytes
            finally:
                os.close(descriptor)
            feed.finished(index, partial(b"".join, chunks))
