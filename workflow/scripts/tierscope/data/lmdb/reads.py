"""What is read of a database at once: records that one call joins, parts of a fault.

Loaders read so, and the simulator of their runs asks the same.
"""

import numpy as np

from tierscope.data.lmdb.layout import Provenance

GAP_PAGES = 4  # pages of the tree that one read may carry between two records


def is_joined(
    tiers: np.ndarray, records: np.ndarray, offsets: np.ndarray, provenance: Provenance
) -> np.ndarray:
    """Return whether each record but the first is read by the call of the one before.

    Parameters
    ----------
    tiers, records, offsets : ndarray of int, shape (n_records,)
        Records of a fetch in the order of their tiers and of their places in the file.
    provenance : Provenance
        How the file was written.

    Returns
    -------
    ndarray of bool, shape (n_records - 1,)
        Whether they follow each other on a tier, with but pages of the tree between.
    """
    gaps = offsets[1:] - offsets[:-1] - provenance.value_bytes
    return (  # values within a leaf lie in descending order
        (tiers[1:] == tiers[:-1])
        & (np.abs(records[1:] - records[:-1]) == 1)
        & (gaps <= GAP_PAGES * provenance.page_bytes)
    )


def touched_pages(
    offsets: np.ndarray, provenance: Provenance
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first byte and the number of bytes of the pages that hold values."""
    page_bytes = provenance.page_bytes
    starts = offsets // page_bytes * page_bytes
    ends = -(-(offsets + provenance.value_bytes) // page_bytes) * page_bytes
    return starts, ends - starts


def cut(
    starts: np.ndarray, n_bytes: np.ndarray, largest: int, *, at_multiples: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut ranges of bytes into pieces of a largest size.

    Parameters
    ----------
    starts, n_bytes : ndarray of int, shape (n_ranges,)
        The ranges, none of them empty.
    largest : int
        Size of a piece.
    at_multiples : bool
        Whether the cuts are at the multiples of that size; else they are counted from
        each range's start.

    Returns
    -------
    range_of, starts, n_bytes : ndarray of int, shape (n_pieces,)
        The range that each piece belongs to and the piece, range after range.
    """
    phases = starts % largest if at_multiples else np.zeros_like(starts)
    n_pieces = -(-(phases + n_bytes) // largest)
    range_of = np.repeat(np.arange(len(starts)), n_pieces)
    number = np.arange(len(range_of)) - np.repeat(
        np.cumsum(n_pieces) - n_pieces, n_pieces
    )
    origin = (starts - phases)[range_of] + number * largest
    first = np.maximum(origin, starts[range_of])
    last = np.minimum(origin + largest, (starts + n_bytes)[range_of])
    return range_of, first, last - first
