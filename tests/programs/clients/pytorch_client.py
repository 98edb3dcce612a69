"""A PyTorch program that knows nothing of tierscope, and notes what it truly reads.

Its truth folder has a file a process, with a line for each file that this opened: the
epoch in which the sampler drew the file, and its path.
"""

import argparse
import io
import os
import sys
import tarfile
import time
from contextlib import nullcontext
from pathlib import Path

import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    get_worker_info,
)


def told(truth: str, epoch: int, path: str) -> bytes:
    """Return the content of a file after a note of its epoch."""
    with open(f"{truth}/{os.getpid()}", "a") as notes:
        notes.write(f"{epoch} {path}\n")
    with open(path, "rb") as file:
        return file.read()


class Files(Dataset):
    """Files of a folder, asked for with the epoch in which they were drawn."""

    def __init__(self, folder: str, truth: str):
        self.paths = sorted(str(p) for p in Path(folder).rglob("*") if p.is_file())
        self.truth = truth

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, key: tuple[int, int]) -> torch.Tensor:
        epoch, index = key
        content = told(self.truth, epoch, self.paths[index])
        return torch.tensor(len(content))


class Shards(IterableDataset):
    """Samples of tar files, each read by one worker."""

    def __init__(self, folder: str, truth: str):
        self.paths, self.truth = sorted(map(str, Path(folder).glob("*.tar"))), truth
        self.epoch = 0  # of the next iteration; a persistent worker counts on

    def __iter__(self):
        epoch, self.epoch = self.epoch, self.epoch + 1
        info = get_worker_info()
        for path in self.paths[info.id :: info.num_workers] if info else self.paths:
            content = told(self.truth, epoch, path)
            with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                yield from (torch.tensor(member.size) for member in tar)


class Drawn(Sampler):
    """Indices of a sampler with the epoch in which it gave them."""

    def __init__(self, sampler: Sampler, epoch: int = 0):
        self.sampler, self.epoch = sampler, epoch

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self):
        return iter([(self.epoch, index) for index in self.sampler])


def options() -> argparse.Namespace:
    """Return what the test asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--truth", required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--method")
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--prefetch", type=int)
    parser.add_argument("--break-after", type=int, default=-1)
    parser.add_argument(
        "--validate", choices=["grad", "no_grad", "first", "often", "within"]
    )
    parser.add_argument("--same-files", action="store_true")
    parser.add_argument("--new-loaders", action="store_true")
    parser.add_argument("--one-line", action="store_true")
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--shards", action="store_true")
    parser.add_argument("--first", type=int, default=0, help="epoch of the run")
    parser.add_argument("--evaluate", action="store_true", help="and do not train")
    parser.add_argument("--restart-as", type=int, help="rank 1 fails in epoch 1")
    return parser.parse_args()


def make_loader(given: argparse.Namespace, part: str, train: bool, epoch: int = 0):
    """Return a loader and its noting sampler, or dataset of shards."""
    more = {"num_workers": given.workers, "batch_size": 4}
    if given.workers:
        more["persistent_workers"] = given.persistent
        more["multiprocessing_context"] = given.method
        more["prefetch_factor"] = given.prefetch
    if given.shards:
        data = Shards(f"{given.data}/{part}", given.truth)
        data.epoch = epoch
        return DataLoader(data, **more), data
    data = Files(f"{given.data}/{part}", given.truth)
    if given.ddp:
        size, rank = (int(os.environ[name]) for name in ("WORLD_SIZE", "RANK"))
        sampler = DistributedSampler(data, size, rank, shuffle=train)
    else:
        sampler = RandomSampler(data) if train else SequentialSampler(data)
    drawn = Drawn(sampler, epoch)
    return DataLoader(data, sampler=drawn, **more), drawn


def go_through(loader: DataLoader, break_after: int = -1, within=None) -> int:
    """Return the sum of a loader's samples, of some batches only if asked.

    Every five batches it goes through another loader, if there is one `within`.
    """
    total = 0
    for number, batch in enumerate(loader, 1):
        total += int(batch.sum())
        if number == break_after:
            break
        if within and number % 5 == 0:
            go_through(within)
    return total


def fail(here: Path) -> None:
    """End as rank 1 with an error once rank 0 is here, which waits to be ended.

    They meet by a file: gloo of PyTorch 2.13 does not always start a second time.
    """
    if os.environ["RANK"] == "0":
        here.touch()
        time.sleep(1000)
    while not here.exists():
        time.sleep(0.01)
    sys.exit("fails as asked")


def evaluate(given: argparse.Namespace) -> None:
    """Go through the training files without gradients."""
    loader, _ = make_loader(given, "train", False, given.first)
    with torch.no_grad():
        go_through(loader)


def main() -> None:
    """Train and validate as asked."""
    given = options()
    if given.evaluate:
        return evaluate(given)
    has_group = given.ddp and given.restart_as is None
    if has_group:
        torch.distributed.init_process_group("gloo")
    is_restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT") == "1"
    first = given.restart_as if is_restarted else given.first
    train_part = "shards" if given.shards else "train"
    held_part = "train" if given.same_files else "val"
    for epoch in range(given.epochs):
        if epoch == 0 or given.new_loaders:
            train, drawn = make_loader(given, train_part, True, epoch)
            held, held_drawn = make_loader(given, held_part, False, epoch)
        if not given.persistent or not given.shards:
            drawn.epoch = held_drawn.epoch = first + epoch
        if given.validate == "first" and epoch == 0:
            with torch.no_grad():
                go_through(held, 2)
        if given.one_line:
            for loader in (train, held):
                go_through(loader)
            continue
        if given.restart_as and epoch == 1 and not is_restarted:
            go_through(train, 2)
            fail(Path(f"{given.truth}.waits"))
        is_within = given.validate == "within"
        go_through(train, given.break_after, held if is_within else None)
        if not given.validate or is_within:
            continue
        with nullcontext() if given.validate == "grad" else torch.no_grad():
            for _ in range(3 if given.validate == "often" else 1):
                go_through(held)
    if has_group:
        torch.distributed.barrier()  # else others may not have connected yet
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
