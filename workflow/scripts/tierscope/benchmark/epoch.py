"""One epoch of reading, timed from barrier to barrier."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tierscope.storage.clock import Clock


def run_epoch(
    batches: Iterator[tuple[int, int]], clock: Clock, compute_time_s: float = 0.0
) -> tuple[float, int, int]:
    """Read one epoch's files and return (time from barrier to barrier, samples, bytes).

    `batches` are (samples, bytes), and `compute_time_s` passes after each of them in
    place of a training step. Raises the error with which the launch was stopped
    (`Clock.check`).
    """
    start_s = clock.barrier()
    samples = n_bytes = 0
    while (batch := _next_batch(batches, clock)) is not None:
        samples += batch[0]
        n_bytes += batch[1]
        clock.compute(compute_time_s)
    return clock.barrier() - start_s, samples, n_bytes


def _next_batch(
    batches: Iterator[tuple[int, int]], clock: Clock
) -> tuple[int, int] | None:
    """Return the next batch, None at the end."""
    clock.ask()
    try:
        batch = next(batches, None)
    except Exception:
        clock.check()  # calls fail once the launch is stopped
        raise
    clock.take()
    return batch


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
        """Do nothing: a static policy needs no notification."""
