"""Synthetic datasets: TFRecord files with one sample and an exact size.

A file is one TFRecord frame: length (8 bytes), masked CRC-32C of the length (4),
payload, masked CRC-32C of the payload (4). The payload is a random block, the same for
all files, and then a header with the file's id. The block's checksum is extended by the
header, so a file costs one write, without new random numbers or a pass over its bytes.
(A storage system with deduplication would recognise the block.)
"""

import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import google_crc32c
import numpy as np

from tierscope.core.files import named_at_end, os_errors_as
from tierscope.core.output.streams import say
from tierscope.core.processes.children import end_with_parent

FRAMING_BYTES = 16
HEADER = struct.Struct("<16sQQ")
MAGIC = b"tierscope sample"
_CRC = struct.Struct("<I")
_END_BYTES = HEADER.size + _CRC.size
MINIMUM_FILE_BYTES = FRAMING_BYTES + HEADER.size
TEMPORARY_PREFIX = ".writing-"
_LIST_PREFIX = f"{TEMPORARY_PREFIX}list-"
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_FILES_PER_TASK = 512
_CRC_MASK_DELTA = 0xA282EAD8


class DatasetError(RuntimeError):
    """A dataset file cannot be written or has unexpected content."""


def masked_crc32c(crc: int) -> int:
    """Return the masked form of a CRC-32C that TFRecord stores."""
    return (((crc >> 15) | (crc << 17)) + _CRC_MASK_DELTA) & 0xFFFFFFFF


def framed(payload: bytes) -> bytes:
    """Return the file of one sample, with the frame that TFRecord readers remove."""
    length = struct.pack("<Q", len(payload))
    crcs = [_CRC.pack(masked_crc32c(google_crc32c.value(p))) for p in (length, payload)]
    return b"".join((length, crcs[0], payload, crcs[1]))


class SampleWriter:
    """Writes files of one exact size with framing, at least `MINIMUM_FILE_BYTES`."""

    def __init__(self, file_size_bytes: int):
        if file_size_bytes < MINIMUM_FILE_BYTES:
            raise DatasetError(
                f"file_size_bytes: got {file_size_bytes}, expected at least "
                f"{MINIMUM_FILE_BYTES}."
            )
        self.file_size_bytes = file_size_bytes
        payload_bytes = file_size_bytes - FRAMING_BYTES
        length = struct.pack("<Q", payload_bytes)
        # The whole file, of which only the end changes: one write is faster than a
        # vectored write of its parts.
        self._frame = bytearray(file_size_bytes)
        self._frame[: len(length)] = length
        start = len(length) + _CRC.size
        crc = masked_crc32c(google_crc32c.value(length))
        self._frame[len(length) : start] = _CRC.pack(crc)
        block = _random_bytes(file_size_bytes - start - _END_BYTES)
        memoryview(self._frame)[start:-_END_BYTES] = block
        self._block_crc = google_crc32c.value(block)

    def frame(self, file_id: int) -> bytearray:
        """Return a file's content, valid until the next call."""
        header = HEADER.pack(MAGIC, file_id, self.file_size_bytes)
        crc = google_crc32c.extend(self._block_crc, header)
        self._frame[-_END_BYTES:] = header + _CRC.pack(masked_crc32c(crc))
        return self._frame

    def payload(self, file_id: int) -> memoryview:
        """Return the sample of a file, without its frame; valid until the next call."""
        return memoryview(self.frame(file_id))[FRAMING_BYTES - _CRC.size : -_CRC.size]

    def write(self, path: str, file_id: int, write_in: str | None = None) -> None:
        """Write a file under a temporary name and rename it.

        The temporary file may be in another folder on the same file system
        (`write_in`). After a DatasetError no file remains.
        """
        folder, name = os.path.split(path)
        temporary = os.path.join(
            write_in or folder, f"{TEMPORARY_PREFIX}{os.getpid()}-{name}"
        )
        try:
            with named_at_end(temporary, path):
                self._write_whole(temporary, file_id)
        except OSError as error:
            raise self._error(path, error) from error

    def write_listed(self, path: str, file_id: int) -> None:
        """Write a file that a list names as unfinished, otherwise like `write`."""
        try:
            self._write_whole(path, file_id)
        except OSError as error:
            raise self._error(path, error) from error

    def _write_whole(self, path: str, file_id: int) -> None:
        """Write a file, and remove it if that fails."""
        descriptor = os.open(path, _WRITE_FLAGS, 0o644)  # at least cost: files are many
        try:
            write_all(descriptor, self.frame(file_id))
        except BaseException:
            _remove_quietly(path)
            raise
        finally:
            os.close(descriptor)

    def _error(self, path: str, error: OSError) -> DatasetError:
        """Return the error of a file that cannot be written."""
        size = self.file_size_bytes
        return DatasetError(f"{path}: cannot write {size} bytes: {error.strerror}.")


def _random_bytes(n_bytes: int) -> np.ndarray:
    """Return the same bytes as method `bytes` of generator 0, but faster."""
    raw = np.random.default_rng(0).bit_generator.random_raw(-(-n_bytes // 8))
    block = raw.astype("<u8", copy=False).view(np.uint8)[:n_bytes]
    block.flags.writeable = False  # required by google_crc32c
    return block


def write_all(descriptor: int, content: bytes | bytearray) -> None:
    """Write everything; repeat a short write until the system returns an error."""
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, memoryview(content)[written:])


def read_timed(
    path: str, buffer_bytes: int, now_ns: Callable[[], int] = time.perf_counter_ns
) -> tuple[bytes, float, float]:
    """Return a file's content, and the seconds of reading and of open and close."""
    start = now_ns()
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    opened = now_ns()
    try:
        chunks, n_bytes = [], 0
        while chunk := os.pread(descriptor, buffer_bytes, n_bytes):
            chunks.append(chunk)
            n_bytes += len(chunk)
        read = now_ns()
    finally:
        os.close(descriptor)
    meta_ns = opened - start + now_ns() - read
    return b"".join(chunks), (read - opened) / 1e9, meta_ns / 1e9


def _remove_quietly(path: str) -> None:
    """Remove one of our files if it exists."""
    with suppress(OSError):
        os.unlink(path)


def present_files(folder: Path, file_size_bytes: int) -> set[str]:
    """Return the names of the dataset files in a folder, after checking their sizes.

    Temporary and unfinished files are removed. A DatasetError names a file of another
    size: it is not ours, because ours appear complete.
    """
    present = set()
    _remove_unfinished(folder, file_size_bytes)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(TEMPORARY_PREFIX):
                _remove_quietly(entry.path)
            elif entry.name.endswith(".tfrecord"):
                size = entry.stat().st_size
                if size != file_size_bytes:
                    raise DatasetError(
                        f"{entry.path}: got {size} bytes, expected {file_size_bytes}; "
                        "this file was not written by tierscope, or a power cut has "
                        "damaged it: remove it, or all files of the folder."
                    )
                present.add(entry.name)
    return present


@contextmanager
def _listed(folder: Path, file_names: Sequence[str]) -> Iterator[None]:
    """Keep a list of files that may be unfinished; it stays if a signal ends us."""
    # Renaming every file instead would take a third of the time of a small file.
    path = os.path.join(folder, f"{_LIST_PREFIX}{os.getpid()}-{file_names[0]}")
    try:
        with os_errors_as(DatasetError, f"{path}: cannot write it"):
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(file_names))
            yield
    except Exception:  # the file that could not be written is gone
        _remove_quietly(path)
        raise
    _remove_quietly(path)


def _remove_unfinished(folder: Path, file_size_bytes: int) -> None:
    """Remove the unfinished files of a killed process, then its list."""
    for path in Path(folder).glob(f"{_LIST_PREFIX}*"):
        for name in path.read_text(encoding="utf-8").splitlines():
            file = Path(folder, os.path.basename(name))
            with suppress(OSError):
                if file.stat().st_size != file_size_bytes:
                    file.unlink()
        _remove_quietly(str(path))


def make_directory(folder: Path) -> None:
    """Make a directory; raise a DatasetError if that fails."""
    with os_errors_as(DatasetError, f"{folder}: cannot make it"):
        folder.mkdir(parents=True, exist_ok=True)


@lru_cache(maxsize=1)
def _writer(file_size_bytes: int) -> SampleWriter:
    """Return this process's writer; its random block is made once."""
    return SampleWriter(file_size_bytes)


def generate_files(
    folder: Path,
    file_names: Sequence[str],
    file_ids: Sequence[int],
    file_size_bytes: int,
    write_in: Sequence[Path] = (),
) -> None:
    """Write files one after the other in this process.

    Parameters
    ----------
    folder : Path
        Existing directory.
    file_names, file_ids : sequences of equal length
        Names inside the folder, and the ids in the headers.
    file_size_bytes : int
        Exact size of each file.
    write_in : sequence of Path
        Folders for the temporary files, in turn by file id; default: `folder`.

    Raises
    ------
    DatasetError
        If a file cannot be written; earlier files stay.
    """
    writer = _writer(file_size_bytes)
    folders = [str(path) for path in write_in]
    paths = [os.path.join(folder, name) for name in file_names]
    if folders:
        for path, file_id in zip(paths, file_ids, strict=True):
            writer.write(path, int(file_id), folders[file_id % len(folders)])
    elif paths:
        with _listed(folder, file_names):
            for path, file_id in zip(paths, file_ids, strict=True):
                writer.write_listed(path, int(file_id))


def generate_dataset(
    folder: Path,
    file_names: Sequence[str],
    file_size_bytes: int,
    n_workers: int,
    report: Callable[[int, int], None] = lambda done, total: None,
    write_in: Sequence[Path] = (),
) -> None:
    """Write the missing files of a dataset on all cores.

    Parameters
    ----------
    folder : Path
        Directory, made if it is missing.
    file_names : sequence of str
        Name of each file; its position is its id.
    file_size_bytes : int
        Exact size of each file.
    n_workers : int
        Number of processes.
    report : callable
        Called with the number of existing files and the number wanted.
    write_in : sequence of Path
        Folders for the temporary files, in turn by file id; default: `folder`.

    Raises
    ------
    DatasetError
        If there is too little space, a file cannot be written, or a file with another
        size exists. Written files stay, and the next call continues.
    """
    from concurrent.futures import ProcessPoolExecutor, as_completed  # large

    make_directory(folder)
    with os_errors_as(DatasetError, f"{folder}: cannot use it"):
        present = present_files(folder, file_size_bytes)
        free_bytes = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    missing = [i for i, name in enumerate(file_names) if name not in present]
    if (needed_bytes := len(missing) * file_size_bytes) > free_bytes:
        raise DatasetError(
            f"{folder}: needs {needed_bytes} bytes for {len(missing)} files, but only "
            f"{free_bytes} are free."
        )
    done = len(file_names) - len(missing)
    report(done, len(file_names))
    _writer(file_size_bytes)  # the workers inherit it
    with ProcessPoolExecutor(
        n_workers, initializer=end_with_parent, initargs=(os.getpid(),)
    ) as pool:
        tasks = {
            pool.submit(
                generate_files,
                folder,
                [file_names[i] for i in ids],
                ids,
                file_size_bytes,
                write_in,
            ): len(ids)
            for ids in parts_for_workers(missing, n_workers, _FILES_PER_TASK)
        }
        try:
            for task in as_completed(tasks):
                task.result()
                done += tasks[task]
                report(done, len(file_names))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def parts_for_workers(
    items: Sequence[int], n_workers: int, most: int
) -> Iterator[Sequence[int]]:
    """Yield consecutive parts, several per worker and short enough for reports."""
    size = max(1, min(most, len(items) // (4 * n_workers)))
    for start in range(0, len(items), size):
        yield items[start : start + size]


class ProgressLine:
    """Prints the number of existing files, at most once a second and at the end."""

    def __init__(self, what: str, file_size_bytes: int, unit: str = "files"):
        self._what, self._mib, self._unit = what, file_size_bytes / 2**20, unit
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Print a line if one is due."""
        now = time.monotonic()
        if done < total and now < self._next:
            return
        self._next = now + 1
        say(
            f"{self._what}: {done} of {total} {self._unit}, "
            f"{done * self._mib:.0f} of {total * self._mib:.0f} MiB"
        )
