"""Loader `pytorch` in virtual time: the rule of PyTorch's `DataLoader`.

Batch b is read by worker b mod W. It is sent to the worker when the training receives
batch b - W x prefetch factor, before it computes. Batches are received in order.
Without workers the training reads each batch when it asks for it.
"""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from tierscope.benchmark.loaders.loader import BatchLoader
from tierscope.benchmark.loaders.posix import file_sizes
from tierscope.storage.clock import Role


class WorkerLoader(BatchLoader):
    """Reads batches of whole files by threads, each of which is an actor `worker i`."""

    reads_in_epochs_only = True

    def epoch(self, paths: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Return an iterator over (samples, bytes) of each batch."""
        batches = self._batches(paths)
        if self._settings.workers:
            return self._received(batches)
        return self._read(Role.CONSUMER, batches)

    def _read(
        self, role: int, batches: Sequence[Sequence[str]]
    ) -> Iterator[tuple[int, int]]:
        """Yield (samples, bytes) of each batch when a role has read it."""
        parts = [bytearray(self._buffer_bytes)]
        for batch in batches:
            with self._clock.act(self._clock.rank, role):
                sizes = [
                    sum(file_sizes([path], parts, self._clock.process_sample))
                    for path in batch
                ]
            yield len(sizes), sum(sizes)

    def _received(self, batches: Sequence[Sequence[str]]) -> Iterator[tuple[int, int]]:
        """Yield (samples, bytes) of each batch when a worker has delivered it."""
        results = [Future() for _ in batches]
        workers = [
            threading.Thread(target=self._work, args=(i, batches, results), daemon=True)
            for i in range(self._settings.workers)
        ]
        for worker in workers:
            worker.start()
        for result in results:
            yield result.result()
        for worker in workers:
            worker.join()  # before another epoch makes it an actor again

    def _work(
        self, worker: int, batches: Sequence[Sequence[str]], results: Sequence[Future]
    ) -> None:
        """Read the batches of a worker, each when it is sent."""
        role, n_workers = Role.WORKER + worker, self._settings.workers
        numbers = range(worker, len(batches), n_workers)
        read = self._read(role, [batches[number] for number in numbers])
        for number in numbers:
            try:
                self._clock.await_sent(worker, number)
                result = next(read)
                self._clock.deliver(worker, number)
            except BaseException as error:
                self._fail(results, error)
                return
            with suppress(InvalidStateError):  # another worker has failed
                results[number].set_result(result)
        self._clock.rest(worker)

    @staticmethod
    def _fail(results: Sequence[Future], error: BaseException) -> None:
        """Let any awaited batch raise: in virtual time none goes on past this one."""
        for result in results:
            with suppress(InvalidStateError):  # it has been read
                result.set_exception(error)
