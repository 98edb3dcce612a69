"""One epoch of reading, timed from barrier to barrier."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


def run_epoch(
    batches: Iterator[tuple[int, int]],
    barrier: Callable[[], None],
    compute_time_s: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, int, int]:
    """Read one epoch's files and return (time from barrier to barrier, samples, bytes).

    Parameters
    ----------
    batches : iterator of (samples, bytes)
        This process's epoch, as a loader returns it.
    barrier : callable
        Waits for all processes.
    compute_time_s : float
        Sleep after each batch, in seconds, in place of a training step.
    clock : callable
        Seconds since some instant.
    """
    barrier()
    start = clock()
    samples = n_bytes = 0
    for batch_samples, batch_bytes in batches:
        samples += batch_samples
        n_bytes += batch_bytes
        if compute_time_s:
            time.sleep(compute_time_s)
    barrier()
    return clock() - start, samples, n_bytes


@dataclass(frozen=True)
class KnownFiles:
    """A loader's `Feed` of files whose paths are known."""

    paths: Sequence[str]

    def __len__(self) -> int:
        return len(self.paths)

    def path(self, index: int) -> str:
        """Return the path of the file of this index."""
        return self.paths[index]

    def finished(self, index: int, content: Callable[[], bytes]) -> None:
        """Do nothing: nobody wants to know."""
