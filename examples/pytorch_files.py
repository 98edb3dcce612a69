"""Train a tiny model with PyTorch on the files of a folder, one sample a file."""

import argparse
import os
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WIDTH = 1024  # bytes of a sample that the model sees


class Files(Dataset):
    """Files of a folder; a sample is the first bytes of one, as numbers from 0 to 1."""

    def __init__(self, folder: str):
        self.paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        content = self.paths[index].read_bytes()[:WIDTH].ljust(WIDTH, b"\0")
        return torch.frombuffer(bytearray(content), dtype=torch.uint8) / 255


def main() -> None:
    """Train for some epochs."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", required=True)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--workers", type=int, default=2)
    given = options.parse_args()
    # As torchrun tells them, or srun; without both it is one process.
    rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", 0)))
    size = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", 1)))
    data = Files(given.data)
    sampler = DistributedSampler(data, size, rank, shuffle=True, seed=1)
    loader = DataLoader(data, given.batch, sampler=sampler, num_workers=given.workers)
    model = torch.nn.Linear(WIDTH, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for epoch in range(given.epochs):
        sampler.set_epoch(epoch)
        n_files = 0
        for batch in loader:
            loss = (model(batch) - 0.5).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            n_files += len(batch)
        done = f"rank {rank}, epoch {epoch}: {n_files} files"
        print(f"{done}, loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
