"""Read the files of a folder with worker processes, without a framework.

It says itself when an epoch begins: it opens `.tierscope-epoch-N` in the folder. There
is no such file, so nothing happens without tierscope.
"""

import argparse
import random
import time
from contextlib import suppress
from multiprocessing import Pool
from pathlib import Path


def checksum(path: Path) -> int:
    """Read a whole file; return a number that depends on its bytes."""
    return sum(path.read_bytes()[::64])


def mark(data: str, epoch: int) -> None:
    """Say that an epoch begins: in any language, try to open this file."""
    with suppress(FileNotFoundError):
        open(f"{data}/.tierscope-epoch-{epoch}").close()


def compute(seconds: float) -> None:
    """Stand for what a trainer computes in an epoch."""
    time.sleep(seconds)


def main() -> None:
    """Read for some epochs."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", required=True)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--compute", type=float, default=0.0, help="seconds an epoch")
    given = options.parse_args()
    paths = sorted(path for path in Path(given.data).rglob("*") if path.is_file())
    order, total = random.Random(1), 0
    for epoch in range(given.epochs):
        mark(given.data, epoch)  # before the workers start, which read for this epoch
        order.shuffle(paths)
        with Pool(given.workers) as pool:
            total += sum(pool.map(checksum, paths, chunksize=given.batch))
            pool.close()
            pool.join()
        compute(given.compute)
        print(f"epoch {epoch}: {len(paths)} files, sum {total}", flush=True)


if __name__ == "__main__":
    main()
