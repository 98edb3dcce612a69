"""The loaders of DLIO whose rules the simulator knows.

`pytorch` is PyTorch's `DataLoader`. `tensorflow` reads TFRecord files by `tf.data`:
with one reader, or by an interleave if a batch is one file.
"""

from tierscope.core.description import PYTORCH
from tierscope.experiment.keys.dlio import ReaderKeys

TF_DATA = "tensorflow"
_PYTORCHS_FACTOR = 2  # that DLIO takes for no batch ahead
_TF_BUFFER_BYTES = 256 << 10  # of a TFRecordDataset that is told no size


class DataLoader:
    """PyTorch's: each worker reads whole batches."""

    name = PYTORCH
    formats = ("npz", "npy", "hdf5", "jpeg", "png")
    # Whether the samples of a file follow each other in a batch.
    reads_in_a_row = False

    def why_not(self, n_threads: int, batch_size: int) -> str:
        """Return what number of threads is expected instead; empty if any may be."""
        return ""

    def read(self, reader: ReaderKeys) -> dict[str, int]:
        """Return how a workload loads."""
        if not (n_workers := reader.read_threads):
            return _loads(0, 0, 0)
        a_worker = -(-reader.prefetch_size // n_workers)
        return _loads(n_workers, a_worker or _PYTORCHS_FACTOR, 0)

    def written(self, workers: int, ahead: int, buffer_bytes: int) -> dict[str, int]:
        """Return the keys of which `read` makes this."""
        return {"read_threads": workers, "prefetch_size": workers * ahead}

    def of_program(
        self, workers: int, prefetch_factor: int, prefetch_batches: int
    ) -> dict[str, int]:
        """Return what `read` does, of what is known of a program."""
        return _loads(workers, prefetch_factor, 0)


class TfData:
    """TensorFlow's: a reader of TFRecord files, or threads that read one each."""

    name = TF_DATA
    formats = ("tfrecord",)
    reads_in_a_row = True

    def why_not(self, n_threads: int, batch_size: int) -> str:
        """As `DataLoader.why_not`: batches of one file only can be interleaved."""
        is_known = n_threads < 2 or batch_size == 1
        wanted = f"1 with batches of {batch_size} files, or batches of one file"
        return "" if is_known else wanted

    def read(self, reader: ReaderKeys) -> dict[str, int]:
        """As `DataLoader.read`; each of several threads may be so far ahead."""
        n_threads = max(reader.read_threads, 1)
        ahead = max(reader.prefetch_size, min(n_threads - 1, 1))
        return _loads(n_threads, ahead, reader.transfer_size or _TF_BUFFER_BYTES)

    def written(self, workers: int, ahead: int, buffer_bytes: int) -> dict[str, int]:
        """As `DataLoader.written`."""
        given = {"read_threads": workers, "prefetch_size": ahead}
        return {**given, "transfer_size": buffer_bytes}

    def of_program(
        self, workers: int, prefetch_factor: int, prefetch_batches: int
    ) -> dict[str, int]:
        """As `DataLoader.of_program`: the models know those with one reader."""
        return self.read(ReaderKeys(prefetch_size=prefetch_batches))


def _loads(workers: int, prefetch_factor: int, buffer_bytes: int) -> dict[str, int]:
    """Return keys of a workload: readers, batches ahead of each, largest read call."""
    return {
        "workers": workers,
        "prefetch_factor": prefetch_factor,
        "buffer_bytes": buffer_bytes,
    }


LOADERS = {one.name: one for one in (DataLoader(), TfData())}
