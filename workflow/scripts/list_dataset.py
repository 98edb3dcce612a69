"""List the files of a user's dataset, and write its manifest."""

import time
from pathlib import Path

import pandas as pd
from tierscope.benchmark.rank import Terminated, terminate_by_exception
from tierscope.core.files import log_to
from tierscope.core.machine import TierError
from tierscope.core.output.streams import ending_on
from tierscope.core.tables import write_table
from tierscope.core.words import count_words, printable, size_words
from tierscope.data.listing import Listing, list_files
from tierscope.data.tfrecord import DatasetError
from tierscope.policies.pinned_bytes import coarse_rates_line
from tierscope.storage.room import check_memory

_MOST_LEFT_OUT = 20  # that the log names


class Progress:
    """Prints the numbers of files and folders so far, at most once a second."""

    def __init__(self, what: str):
        self._what, self._next_s = what, time.monotonic() + 1

    def __call__(self, n_files: int, n_folders: int) -> None:
        """Print a line if one is due."""
        if (now_s := time.monotonic()) >= self._next_s:
            self._next_s = now_s + 1
            print(f"{self._what}: {_counts(n_files, n_folders)} so far")


def _counts(n_files: int, n_folders: int) -> str:
    """Return the numbers of files and folders in words."""
    return f"{count_words(n_files, 'file')} in {count_words(n_folders, 'folder')}"


def summary(what: str, listing: Listing) -> list[str]:
    """Return what a listing has found, and what it left out."""
    n_bytes, left_out = int(listing.size_bytes.sum()), listing.left_out
    lines = [
        f"{what}: {count_words(len(listing.names), 'file')}, {size_words(n_bytes)}"
    ]
    if n_again := int((listing.same_as >= 0).sum()):
        lines.append(
            f"{what}: {count_words(n_again, 'name leads', 'names lead')} to a file "
            "that has another name in the list, as links do. Cache rates count the "
            "bytes of each file once."
        )
    if left_out:
        lines.append(f"{what}: left out {count_words(len(left_out), 'name')}:")
        lines += left_out[:_MOST_LEFT_OUT]
    if len(left_out) > _MOST_LEFT_OUT:
        lines.append(f"... and {len(left_out) - _MOST_LEFT_OUT} more")
    return lines


def list_dataset(path: str, output: Path) -> Listing:
    """Write the manifest of the dataset in a folder.

    A killed listing leaves notes beside the output, and the next one goes on from them.
    """
    notes = output.with_name(f".{output.name}.notes")
    what = printable(path)
    listing = list_files(path, notes, Progress(what))
    write_table(pd.DataFrame(listing.columns()), output, "user_manifest")
    notes.unlink()
    print(*summary(what, listing), sep="\n")
    return listing


if __name__ == "__main__":
    log_to(snakemake.log[0])
    terminate_by_exception()
    with ending_on(DatasetError, TierError, Terminated):
        given = snakemake.params
        listing = list_dataset(given.path, Path(snakemake.output.manifest))
        name = snakemake.wildcards.dataset
        sizes = listing.size_bytes[listing.same_as < 0]
        if line := coarse_rates_line(
            name, sizes, given.rates, given.seed, given.repetitions
        ):
            print(line)
        if root := snakemake.resources.get("ideal_root"):
            check_memory(Path(root), int(listing.size_bytes.sum()))
