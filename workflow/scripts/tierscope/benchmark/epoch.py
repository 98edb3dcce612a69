"""One epoch of reading and computing, timed from barrier to barrier."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

from tierscope.data.steps import StepTimes
from tierscope.storage.clock import Clock


class MeasuredEpoch(NamedTuple):
    """What a process read in an epoch, and how long it took from barrier to barrier."""

    execution_time_s: float
    samples: int
    bytes: int
    steps: StepTimes


def run_epoch(
    batches: Iterable[tuple[int, int]],
    clock: Clock,
    compute_ns: Iterable[int] = repeat(0),
    meet: Callable[[int], None] | None = None,
) -> MeasuredEpoch:
    """Read one epoch's files, and compute after each batch.

    `batches` are (samples, bytes); to iterate over them may start workers. `compute_ns`
    are the times that pass in place of the training's steps. `meet` waits for the other
    processes at the end of a step of this number. Raises the error with which the
    launch was stopped (`VirtualClock.check`).
    """
    compute_ns = iter(compute_ns)
    samples = n_bytes = n_steps = compute = stall = rest = 0
    first_step = first_compute = 0
    start_s = clock.barrier()
    started = clock.now_ns()
    iterator = iter(batches)
    asked = clock.now_ns()
    rest += asked - started
    while (batch := clock.next_batch(iterator)) is not None:
        taken = clock.now_ns()
        stall += taken - asked
        samples += batch[0]
        n_bytes += batch[1]
        clock.compute(next(compute_ns))
        computed = clock.now_ns()
        compute += computed - taken
        if n_steps == 0:
            first_step, first_compute = computed - started, computed - taken
        asked = computed
        if meet:
            meet(n_steps)
            asked = clock.now_ns()
            rest += asked - computed
        n_steps += 1
    end_s = clock.barrier()
    rest += clock.now_ns() - asked
    steps = StepTimes(compute, stall, rest, first_step, first_compute, n_steps)
    return MeasuredEpoch(end_s - start_s, samples, n_bytes, steps)


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
