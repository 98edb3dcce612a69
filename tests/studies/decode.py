"""Decode each file of a folder: a program whose time is all the processor's.

python decode.py DATASET ROUNDS EPOCHS makes a fixed number of operations of each file:
83 rounds of 112,640 bytes take about 16 ms.
"""

import os
import random
import sys
from contextlib import suppress
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np


def decode(path: Path, n_rounds: int) -> None:
    """Read a file and compute with its bytes."""
    sample = np.frombuffer(path.read_bytes(), np.uint8).astype(np.float32)
    for _ in range(n_rounds):
        sample = np.sqrt(sample * 1.0001 + 1.0)


def main(dataset: str, n_rounds: int, n_epochs: int) -> None:
    """Read all files in every epoch, in an order of its own."""
    paths = sorted(Path(dataset).iterdir())
    for epoch in range(n_epochs):
        with suppress(FileNotFoundError):
            open(f"{dataset}/.tierscope-epoch-{epoch}").close()
        for path in random.Random(epoch).sample(paths, len(paths)):
            decode(path, n_rounds)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
