"""Make a folder for each kind of file that clients read, with the libraries' own code.

`python make_samples.py FOLDER` makes `FOLDER/KIND`. Files of a kind have about the same
size, so that cache rates can be met.
"""

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import datasets
import h5py
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import tensorflow as tf
import torch
from PIL import Image

N_FILES, N_SHARDS, PER_SHARD, WIDTH = 32, 8, 8, 16384
_random = np.random.default_rng(1)


def numbers(*shape: int) -> np.ndarray:
    """Return random numbers, float32."""
    return _random.random(shape, dtype=np.float32)


def folder_of(kind: str) -> Path:
    """Return the new folder of a kind."""
    folder = Path(sys.argv[1]) / kind
    folder.mkdir(parents=True)
    return folder


def make_single_samples() -> None:
    """Make files of one sample each: raw, NumPy's, PyTorch's and pictures."""
    kinds = ("raw", "npy", "torch", "png", "classes", "parts")
    raw, npy, saved, png, classes, parts = map(folder_of, kinds)
    train, held = (parts / name for name in ("train", "val"))
    for folder in (raw / "train", train, held, classes / "0", classes / "1"):
        folder.mkdir()
    for i in range(N_FILES):
        sample = numbers(WIDTH)
        sample.tofile(raw / "train" / f"{i:02}.bin")
        sample.tofile((train if i % 4 else held) / f"{i:02}.bin")
        np.save(npy / f"{i:02}.npy", sample)
        picture = (sample * 255).astype(np.uint8).reshape(128, -1)
        Image.fromarray(picture).save(png / f"{i:02}.png")
        Image.fromarray(picture).save(classes / str(i % 2) / f"{i:02}.png")
        torch.save(torch.from_numpy(sample), saved / f"{i:02}.pt")


def make_shards() -> None:
    """Make files of several samples each: HDF5, tar, Parquet, Arrow and LMDB."""
    kinds = ("hdf5", "tar", "parquet", "arrow", "lmdb")
    hdf5, tars, parquet, arrow, databases = map(folder_of, kinds)
    for i in range(N_SHARDS):
        samples = numbers(PER_SHARD, WIDTH)
        with h5py.File(hdf5 / f"{i}.h5", "w") as file:
            file["x"] = samples
        with tarfile.open(tars / f"{i}.tar", "w") as tar:
            for k, sample in enumerate(samples):
                member = tarfile.TarInfo(f"{i}-{k}.bin")
                member.size = sample.nbytes
                tar.addfile(member, BytesIO(sample.tobytes()))
        table = pa.table({"x": list(samples)})
        pa.parquet.write_table(table, parquet / f"{i}.parquet", use_dictionary=False)
        with pa.ipc.new_file(arrow / f"{i}.arrow", table.schema) as file:
            file.write_table(table)
        path = str(databases / f"{i}.lmdb")
        with (
            lmdb.open(path, subdir=False, lock=False) as database,
            database.begin(write=True) as transaction,
        ):
            for k, sample in enumerate(samples):
                transaction.put(b"%d" % k, sample.tobytes())


def make_files_of_hugging_face() -> None:
    """Make a folder of Hugging Face's datasets."""
    samples = numbers(N_SHARDS * PER_SHARD, WIDTH)
    made = datasets.Dataset.from_dict({"x": list(samples)})
    made.save_to_disk(folder_of("datasets"), num_shards=N_SHARDS)


def make_files_of_mds() -> None:
    """Let a process of its own make MDS shards: their package needs older ones."""
    script = Path(__file__).with_name("make_mds.py")
    subprocess.run([sys.executable, script, Path(sys.argv[1]) / "mds"], check=True)


def make_files_of_dlio() -> None:
    """Make what DLIO reads, with the names and contents of its generators."""
    kinds = ("tfrecord", "npz", "hdf5")
    folders = [folder_of(f"dlio-{kind}") for kind in kinds]
    for folder in folders:
        (folder / "train").mkdir()
        (folder / "valid").mkdir()  # which it lists, though it validates nothing
    for i in range(64):
        sample = _random.integers(255, size=(256, 256), dtype=np.uint8)
        tfrecord, npz, hdf5 = (
            str(folder / "train" / f"img_{i:02}_of_64.{kind}")
            for folder, kind in zip(folders, kinds, strict=True)
        )
        image = tf.train.BytesList(value=[sample.tobytes()])
        feature = {
            "image": tf.train.Feature(bytes_list=image),
            "size": tf.train.Feature(int64_list=tf.train.Int64List(value=[256])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        with tf.io.TFRecordWriter(tfrecord) as writer:
            writer.write(example.SerializeToString())
        np.savez(npz, x=sample[..., None], y=[0])
        with h5py.File(hdf5, "w") as file:
            file["records"], file["labels"] = sample[None], [0]


make_single_samples()
make_shards()
make_files_of_hugging_face()
make_files_of_dlio()
make_files_of_mds()
