"""Loader `posix`: open, read to the end of the file, close; nothing else."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

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
        sizes = self._sizes(paths)
        for start in range(0, len(paths), self._batch_size):
            n_samples = min(self._batch_size, len(paths) - start)
            yield n_samples, sum(next(sizes) for _ in range(n_samples))

    def _sizes(self, paths: Sequence[str]) -> Iterator[int]:
        """Yield the bytes read of each file, reading ahead in the background."""
        if not self._n_ahead:
            yield from map(self._read, paths)
            return
        with ThreadPoolExecutor(self._read_threads) as pool:
            ahead = deque()
            for path in paths:
                ahead.append(pool.submit(self._read, path))
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
