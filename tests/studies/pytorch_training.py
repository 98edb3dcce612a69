"""Train on nothing with PyTorch: read and decode each file once an epoch, then sleep.

docs/results.md has what `predict` says of it.
"""

import argparse
import time
import zlib
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

DECODE_ROUNDS, COMPUTE_S = 20, 0.02  # of a sample, of a step


class Files(Dataset):
    """Files of a folder; a sample is the first bytes of one that was decoded."""

    def __init__(self, folder: str):
        self.paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        with open(self.paths[index], "rb", buffering=0) as file:
            content = file.read()
        for _ in range(DECODE_ROUNDS):
            zlib.adler32(content)
        return torch.frombuffer(bytearray(content[:1024]), dtype=torch.uint8) / 255


options = argparse.ArgumentParser(description=__doc__)
options.add_argument("data")
options.add_argument("--workers", type=int, default=2)
options.add_argument("--epochs", type=int, default=3)
given = options.parse_args()
torch.set_num_threads(1)
loader = DataLoader(Files(given.data), 8, shuffle=True, num_workers=given.workers)
for _ in range(given.epochs):
    for _batch in loader:
        time.sleep(COMPUTE_S)
