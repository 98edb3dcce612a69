"""Write a dataset: ``{tierscope,floor} FOLDER N_FILES FILE_SIZE_BYTES WORKERS``.

Prints the seconds it took, starting the worker processes included.
"""

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

from tierscope.data.tfrecord import generate_dataset


def copy_to_files(folder: Path, file_ids: range, content: bytes) -> None:
    """Write the same content to files: the least that writing them can cost."""
    for file_id in file_ids:
        path = f"{folder}/{file_id:07d}.tfrecord"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        if os.write(descriptor, content) != len(content):
            raise OSError(f"{path}: not written whole.")
        os.close(descriptor)


def copy_on_all_cores(folder: Path, n_files: int, content: bytes, workers: int) -> None:
    """Write all files in several processes at a time."""
    folder.mkdir()
    processes = [
        multiprocessing.Process(
            target=copy_to_files, args=(folder, range(i, n_files, workers), content)
        )
        for i in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode:
            raise OSError(f"{folder}: a writer ended with {process.exitcode}.")


def main() -> None:
    """Write the files and print how long it took."""
    kind, folder = sys.argv[1], Path(sys.argv[2])
    n_files, size, workers = map(int, sys.argv[3:])
    names = [f"{i:07d}.tfrecord" for i in range(n_files)]
    content = os.urandom(size)
    start = time.perf_counter()
    if kind == "tierscope":
        generate_dataset(folder, names, size, workers)
    else:
        copy_on_all_cores(folder, n_files, content, workers)
    print(json.dumps(time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    main()
