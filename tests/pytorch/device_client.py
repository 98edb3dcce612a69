"""A training of PyTorch on a stand-in for a device, whose own account it writes.

The hook reads the clock that the stand-in reads, so both tell of the same moments.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

sys.path.append(str(Path(__file__).parents[1]))
from stand_in import Cuda, Queue, RealClock

_ASKED = [
    "is_initialized",
    "device_count",
    "memory_allocated",
    "memory_reserved",
    "current_stream",
    "is_current_stream_capturing",
    "Event",
    "Stream",
]


class Slow(Dataset):
    """Samples that take a time each, or files of a folder."""

    def __init__(self, n_samples: int, read_s: float, folder: str | None):
        self.n_samples, self.read_s = n_samples, read_s
        self.paths = sorted(Path(folder).iterdir()) if folder else []

    def __len__(self) -> int:
        return len(self.paths) or self.n_samples

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.paths:
            self.paths[index].read_bytes()
        time.sleep(self.read_s)
        return torch.tensor(index)


def options() -> argparse.Namespace:
    """Return what the test asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--account", required=True)
    parser.add_argument("--data")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--method")
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--read-s", type=float, default=0.008)
    parser.add_argument("--work-s", type=float, default=0.012)
    parser.add_argument("--launch-s", type=float, default=0.004)
    parser.add_argument("--first-s", type=float, default=0.1)
    parser.add_argument("--ahead-s", type=float, default=0.008)
    parser.add_argument("--synchronise", action="store_true")
    parser.add_argument("--break-after", type=int, default=-1)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--validate", choices=["after", "within"])
    parser.add_argument("--both", action="store_true", help="take from two loaders")
    return parser.parse_args()


class Training:
    """The program: it computes on a device that it knows by its queue alone."""

    def __init__(self, given: argparse.Namespace):
        self.given, self.clock = given, RealClock()
        self.queue = Queue(self.clock, given.ahead_s)
        time.monotonic_ns = self.clock.read
        cuda = Cuda(self.queue)
        for name in _ASKED:
            setattr(torch.cuda, name, getattr(cuda, name))

    def loader(self, n_samples: int) -> DataLoader:
        """Return a loader of batches of two samples."""
        given = self.given
        more = {"num_workers": given.workers}
        if given.workers:
            more["multiprocessing_context"] = given.method
            more["persistent_workers"] = given.persistent
        dataset = Slow(n_samples, given.read_s, given.data)
        return DataLoader(dataset, batch_size=2, **more)

    def step(self, number: int) -> None:
        """Compute a batch; the last of those that accumulate takes longer."""
        given = self.given
        work_s = given.work_s
        if not self.queue.steps:
            work_s += given.first_s
        if number % given.accumulate:
            work_s /= 2
        self.queue.launch(work_s, given.launch_s)
        if given.synchronise:
            self.queue.synchronise()

    @torch.no_grad()
    def validate(self, loader: DataLoader) -> None:
        """Compute the batches of a loader, which are none of the training's steps."""
        for _ in loader:
            self.queue.launch(self.given.work_s / 2, 0.001, counts=False)

    def epoch(self, loader: DataLoader, held: DataLoader) -> dict:
        """Train in an epoch, and return the device's account of it."""
        n_before = len(self.queue.steps)
        batches = zip(loader, held, strict=False) if self.given.both else loader
        for number, _ in enumerate(batches, 1):
            self.step(number)
            if number == self.given.break_after:
                break
            if self.given.validate == "within" and number == 4:
                self.validate(held)
        n_steps = len(self.queue.steps) - n_before
        if self.given.validate == "after":
            self.validate(held)
        used = n_before + n_steps - (self.given.break_after > 0)
        return {"steps": n_steps, **self.queue.account(n_before, used)}


def main() -> None:
    """Train as asked, and write the account of each epoch."""
    given = options()
    training = Training(given)
    loader, held = training.loader(given.samples), training.loader(given.samples)
    account = [training.epoch(loader, held) for _ in range(given.epochs)]
    Path(given.account).write_text(json.dumps(account))


if __name__ == "__main__":
    main()
