"""Samples with a class label, in TFRecord files (`tierscope.data.tfrecord`).

Each class is a mixture of normal distributions around its own centres. The classes
overlap, so no network is always right, and the accuracy of the best one is known. Files
are listed by class, like typical folders of images.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from tierscope.data.tfrecord import (
    FRAMING_BYTES,
    HEADER,
    MAGIC,
    DatasetError,
    SampleWriter,
    framed,
    make_directory,
)

N_FEATURES = 32
CENTRES_PER_CLASS = 4
# Spread of the centres, in standard deviations of a sample around its centre.
CENTRE_SPREAD = 0.6
# Payload of a file: the sample, then the header at the end of all our files.
RECORD = np.dtype(
    [
        ("features", "<f4", N_FEATURES),
        ("label", "<i8"),
        ("magic", "S16"),
        ("file_id", "<u8"),
        ("file_size_bytes", "<u8"),
    ]
)
FILE_SIZE_BYTES = RECORD.itemsize + FRAMING_BYTES
PARTS = ("train", "test")


class Distribution:
    """The distribution of samples: classes that overlap.

    Parameters
    ----------
    n_classes : int
        Number of classes, all equally likely.
    seed : int
        Determines the centres and all samples.
    """

    def __init__(self, n_classes: int, seed: int):
        self._seed = seed
        self.n_classes = n_classes
        shape = (n_classes, CENTRES_PER_CLASS, N_FEATURES)
        self._centres = self._generator(0).normal(scale=CENTRE_SPREAD, size=shape)

    def _generator(self, stream: int) -> np.random.Generator:
        """Return the generator of a stream, separate from those of the shuffle."""
        return np.random.default_rng(
            np.random.SeedSequence(self._seed, spawn_key=(3, stream))
        )

    def draw(self, n_samples: int, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the samples of a part, in the order of their classes.

        Parameters
        ----------
        n_samples : int
            Number of samples.
        part : {"train", "test"}
            The part; each is drawn independently.

        Returns
        -------
        features : ndarray of float32, shape (n_samples, `N_FEATURES`)
        labels : ndarray of int64, shape (n_samples,)
        """
        generator = self._generator(1 + PARTS.index(part))
        labels = np.arange(n_samples) * self.n_classes // n_samples
        chosen = generator.integers(CENTRES_PER_CLASS, size=n_samples)
        noise = generator.normal(size=(n_samples, N_FEATURES))
        return (self._centres[labels, chosen] + noise).astype(np.float32), labels

    def most_likely_labels(self, features: np.ndarray) -> np.ndarray:
        """Return the best guess for each sample, given the known distribution."""
        flat = self._centres.reshape(-1, N_FEATURES)
        # Half the squared distance to each centre, minus the sample's constant term.
        distance = (flat**2).sum(axis=1) / 2 - features.astype(float) @ flat.T
        exponent = (distance.min(axis=1, keepdims=True) - distance).reshape(
            len(features), self.n_classes, CENTRES_PER_CLASS
        )
        return np.exp(exponent).sum(axis=2).argmax(axis=1)


def best_possible_percent(n_classes: int, n_test_files: int, seed: int) -> float:
    """Return the accuracy of the best guess on the test set, in percent."""
    distribution = Distribution(n_classes, seed)
    features, labels = distribution.draw(n_test_files, "test")
    return float(100 * (distribution.most_likely_labels(features) == labels).mean())


def records_of(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the payloads of samples' files, as an array of type `RECORD`."""
    records = np.zeros(len(labels), RECORD)
    records["features"], records["label"] = features, labels
    records["magic"], records["file_size_bytes"] = MAGIC, FILE_SIZE_BYTES
    records["file_id"] = np.arange(len(labels))
    return records


class LabelledSampleWriter(SampleWriter):
    """Writes files of one sample and its label; a file's id is its record's index."""

    def __init__(self, records: np.ndarray):
        super().__init__(FILE_SIZE_BYTES)
        self._records = records

    def frame(self, file_id: int) -> bytes:
        """Return a file's content."""
        return framed(self._records[file_id].tobytes())


def sample_paths(folder: str | Path, n_files: int) -> list[str]:
    """Return the paths of a folder's files, in the order of their ids."""
    return [os.path.join(folder, f"{i:07d}.tfrecord") for i in range(n_files)]


def write_samples(folder: Path, features: np.ndarray, labels: np.ndarray) -> None:
    """Write samples into a folder, one file per sample.

    Raises
    ------
    DatasetError
        If the folder cannot be made or a file cannot be written.
    """
    make_directory(folder)
    writer = LabelledSampleWriter(records_of(features, labels))
    for file_id, path in enumerate(sample_paths(folder, len(labels))):
        writer.write(path, file_id)


def decode(
    payloads: Iterable[bytes], paths: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples in the payloads of files, after checking their headers.

    Returns
    -------
    features : ndarray of float32, shape (n_files, `N_FEATURES`)
    labels : ndarray of int64, shape (n_files,)

    Raises
    ------
    DatasetError
        If a payload has another length or the header of another file.
    """
    payloads = list(payloads)
    if len(payloads) != len(paths):
        raise DatasetError(f"got {len(payloads)} samples, expected {len(paths)}.")
    for file_id, (payload, path) in enumerate(zip(payloads, paths, strict=True)):
        header = HEADER.pack(MAGIC, file_id, FILE_SIZE_BYTES)
        if len(payload) != RECORD.itemsize or not payload.endswith(header):
            raise DatasetError(
                f"{path}: got {len(payload)} bytes that are not sample {file_id}, "
                f"expected {RECORD.itemsize} bytes with its header."
            )
    records = np.frombuffer(b"".join(payloads), RECORD)
    return records["features"].copy(), records["label"].copy()
