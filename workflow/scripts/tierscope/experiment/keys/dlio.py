"""The keys of DLIO's workload files that decide what an accelerator reads and computes.

They are those of DLIO 2.0.0 and of its source of June 2026, with DLIO's defaults.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from tierscope.core.given.keys import Seconds, from_to, rules

_MOST_BYTES = 1 << 40
Bytes = Annotated[float, from_to(1, _MOST_BYTES)]
Deviation = Annotated[float, from_to(0, _MOST_BYTES)]


@dataclass(frozen=True)
class DatasetKeys:
    """Section `dataset`."""

    format: Annotated[
        Literal["tfrecord", "npz", "npy", "hdf5", "jpeg", "png"],
        "Format of the files; a file is taken to have the size of its samples. Loader "
        "`tensorflow` reads `tfrecord`, `pytorch` the others.",
    ] = "tfrecord"
    num_files_train: Annotated[
        int, from_to(1, 1_000_000_000), "Files of the dataset."
    ] = 8
    num_samples_per_file: Annotated[
        int,
        from_to(1, 1_000_000_000),
        "Samples of a file; 1 with loader `pytorch`. With `tensorflow`, those of a "
        "batch that are in one file are simulated as one file.",
    ] = 1
    record_length_bytes: Annotated[Bytes, "Mean size of a sample in bytes."] = 65536
    record_length_bytes_stdev: Annotated[
        Deviation, "Its standard deviation from file to file, in bytes."
    ] = 0
    record_length: Annotated[
        Bytes | None, "What DLIO 2.0.0 calls `record_length_bytes`."
    ] = None
    record_length_stdev: Annotated[
        Deviation | None, "What DLIO 2.0.0 calls `record_length_bytes_stdev`."
    ] = None
    record_dims: Annotated[
        Sequence[Annotated[int, from_to(1, _MOST_BYTES)]],
        rules(maxItems=0, expected="[]: its size, record_length_bytes"),
        "Shape of a sample, in place of its size.",
    ] = ()


@dataclass(frozen=True)
class ReaderKeys:
    """Section `reader`, which older versions call `data_reader`."""

    data_loader: Annotated[Literal["pytorch", "tensorflow"], "Loader."] = "tensorflow"
    batch_size: Annotated[
        int, from_to(1, 1_000_000), "Samples that an accelerator takes per step."
    ] = 1
    read_threads: Annotated[
        int,
        from_to(0, 1024),
        "Workers of the `DataLoader`, or files that `tf.data` reads at a time: one, "
        "unless a batch is one file.",
    ] = 1
    prefetch_size: Annotated[
        int,
        from_to(0, 1 << 20),
        "Batches ahead. With loader `pytorch`, each worker has prefetch_size / "
        "read_threads of them, rounded up, or 2 if that is 0.",
    ] = 2
    transfer_size: Annotated[
        int | None,
        from_to(1, _MOST_BYTES),
        "Largest read call of `tf.data` in bytes; by default TensorFlow's 262144.",
    ] = None


@dataclass(frozen=True)
class ComputationTime:
    """A computation that differs from step to step; its schema is that of the keys."""

    mean: Annotated[Seconds, "Mean time of a step, in seconds."]
    stdev: Annotated[Seconds, "Standard deviation, in seconds."] = 0
    type: Annotated[Literal["normal"], "How it is distributed."] = "normal"


@dataclass(frozen=True)
class TrainKeys:
    """Section `train`; a `ComputationTime` is held as in the file: a mapping."""

    computation_time: Annotated[
        float | ComputationTime,
        from_to(0, 86400),
        rules(
            expected="a number from 0 to 86400, or {mean, stdev} of a normal "
            "distribution"
        ),
        "Computation of a step, in seconds; a time below 0 that is drawn counts as 0. "
        "For 0, `designs.compute_time_s` has to say it.",
    ] = 0
    computation_time_stdev: Annotated[
        Seconds | None, "Its standard deviation, in seconds."
    ] = None


@dataclass(frozen=True)
class MetricKeys:
    """Section `metric`."""

    au: Annotated[
        float, from_to(0.01, 1), "Accelerator utilisation to reach, as a part of 1."
    ] = 0.9


@dataclass(frozen=True)
class DlioKeys:
    """A workload file."""

    framework: Annotated[
        Literal["pytorch", "tensorflow"] | None,
        "Framework, which has to be that of the loader.",
    ] = None
    dataset: Annotated[DatasetKeys, "The files."] = DatasetKeys()
    reader: Annotated[ReaderKeys, "How they are read."] = ReaderKeys()
    train: Annotated[TrainKeys, "What is computed."] = TrainKeys()
    metric: Annotated[MetricKeys, "What is to be reached."] = MetricKeys()
