"""A PyTorch program that knows nothing of tierscope, and reads with some library.

`python formats_client.py HOW FOLDER` goes through the samples three times.
"""

import os
import shutil
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

HOW, FOLDER, EPOCHS = sys.argv[1], sys.argv[2], 3
PER_SHARD = 8
PAUSE_S = 0.5  # for what else a program does after an epoch


def read_copy(path: str) -> np.ndarray:
    """Copy a file to a folder of our own, and read the copy."""
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfile(path, copy.name)
        return np.fromfile(copy.name, np.float32)


def read_picture(path: str) -> np.ndarray:
    """Read a picture."""
    from PIL import Image

    with Image.open(path) as picture:
        return np.array(picture.convert("RGB"))


def read_hdf5(path: str, place: int) -> np.ndarray:
    """Open a file for one of its samples."""
    import h5py

    with h5py.File(path) as file:
        return file["x"][place]


_kept = {}  # open files


def read_kept_hdf5(path: str, place: int) -> np.ndarray:
    """Read a sample of a file that is kept open."""
    import h5py

    if path not in _kept:
        _kept[path] = h5py.File(path)
    return _kept[path]["x"][place]


def read_lmdb(path: str, place: int) -> np.ndarray:
    """Read a sample of a database that is kept open."""
    import lmdb

    if path not in _kept:
        _kept[path] = lmdb.open(path, subdir=False, readonly=True, lock=False)
    with _kept[path].begin(buffers=True) as transaction:
        return np.frombuffer(transaction.get(b"%d" % place), np.float32)


def all_of_tar(path: str):
    """Yield the samples of a tar file."""
    with tarfile.open(path) as tar:
        for member in tar:
            yield np.frombuffer(tar.extractfile(member).read(), np.float32)


def all_of_tar_stream(path: str):
    """Yield the samples of a tar file that is read from begin to end."""
    with open(path, "rb") as file, tarfile.open(fileobj=file, mode="r|") as tar:
        for member in tar:
            yield np.frombuffer(tar.extractfile(member).read(), np.float32)


def all_of_hdf5(path: str):
    """Yield the samples of an HDF5 file."""
    import h5py

    with h5py.File(path) as file:
        yield from file["x"]


def all_of_parquet(path: str):
    """Yield the samples of a Parquet file."""
    from pyarrow import parquet

    yield from map(np.array, parquet.read_table(path)["x"].to_pylist())


def all_of_arrow(path: str):
    """Yield the samples of an Arrow file that is mapped into memory."""
    import pyarrow

    with pyarrow.memory_map(path) as file:
        table = pyarrow.ipc.open_file(file).read_all()
        yield from map(np.array, table["x"].to_pylist())


OF_FILES = {
    "read": lambda path: np.frombuffer(Path(path).read_bytes(), np.float32),
    "fromfile": lambda path: np.fromfile(path, np.float32),
    "copy": read_copy,
    "picture": read_picture,
    "numpy": np.load,
    "numpy-mmap": lambda path: np.array(np.load(path, mmap_mode="r")),
    "memmap": lambda path: np.array(np.memmap(path, np.float32, "r")),
    "checkpoint": lambda path: np.fromfile(path, np.float32),
    "torch": torch.load,
    "torch-mmap": lambda path: torch.load(path, mmap=True),
}
OF_SAMPLES = {"hdf5": read_hdf5, "hdf5-kept": read_kept_hdf5, "lmdb": read_lmdb}
OF_SHARDS = {
    "tar": all_of_tar,
    "tar-stream": all_of_tar_stream,
    "hdf5-shards": all_of_hdf5,
    "parquet": all_of_parquet,
    "arrow-mmap": all_of_arrow,
}


class Files(Dataset):
    """Samples of files, one or several in each."""

    def __init__(self, paths: list[str]):
        self.paths, self.per_file = paths, PER_SHARD if HOW in OF_SAMPLES else 1

    def __len__(self) -> int:
        return len(self.paths) * self.per_file

    def __getitem__(self, index: int) -> torch.Tensor:
        path, place = self.paths[index // self.per_file], index % self.per_file
        read = OF_FILES[HOW](path) if HOW in OF_FILES else OF_SAMPLES[HOW](path, place)
        return torch.as_tensor(np.array(read), dtype=torch.float32).sum()


class Shards(IterableDataset):
    """Samples of files that workers share out, each read from its begin to its end."""

    def __init__(self, paths: list[str]):
        self.paths = paths

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for path in self.paths[first::step]:
            for sample in OF_SHARDS[HOW](path):
                yield torch.as_tensor(sample, dtype=torch.float32).sum()


def by_webdataset(paths: list[str]):
    """Return the samples of tar shards as webdataset reads them."""
    import webdataset

    shards = webdataset.WebDataset(paths, shardshuffle=len(paths))
    return shards.map(lambda one: np.frombuffer(one["bin"], np.float32).sum())


def by_hugging_face(_):
    """Return the samples of a folder that datasets of Hugging Face has saved."""
    import datasets

    return datasets.load_from_disk(FOLDER).with_format("torch")


def by_mds(_):
    """Return the samples of a folder of MDS shards."""
    sys.path.insert(0, f"{sys.prefix}/mds")  # what it needs is older than the rest
    from streaming import StreamingDataset

    class Samples(StreamingDataset):
        """Each sample as a number."""

        def __getitem__(self, index: int) -> float:
            return np.frombuffer(super().__getitem__(index)["x"], np.float32).sum()

    return Samples(local=FOLDER, batch_size=4, shuffle=True)


def save(model: torch.nn.Module) -> None:
    """Write a checkpoint, and wait until it is on the device."""
    with open("checkpoint.pt", "wb") as file:
        torch.save(model.state_dict(), file)
        file.flush()
        os.fsync(file.fileno())


MADE_BY = {"webdataset": by_webdataset, "datasets": by_hugging_face, "mds": by_mds}


def main() -> None:
    """Go through the samples."""
    paths = sorted(str(path) for path in Path(FOLDER).rglob("*") if path.is_file())
    data = MADE_BY.get(HOW, Shards if HOW in OF_SHARDS else Files)(paths)
    loader = DataLoader(
        data,
        batch_size=4,
        shuffle=None if isinstance(data, IterableDataset) else True,
        # What is kept open is kept by this process.
        num_workers=0 if HOW in ("hdf5-kept", "lmdb") else 2,
    )
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in loader:
            total += float((batch["x"] if HOW == "datasets" else batch).sum())
        if HOW == "checkpoint":
            save(torch.nn.Linear(1024, 1024))
        print(f"epoch {epoch}: {total:.3f}", flush=True)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
