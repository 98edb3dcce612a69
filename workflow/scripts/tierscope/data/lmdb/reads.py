"""The reads of a database: records that one call joins, and parts of a fault.

The loaders and the simulator of their runs use the same functions.
"""

import numpy as np

from tierscope.data.lmdb.layout import Provenance

GAP_PAGES = 4  # pages of the tree that one read may carry between two records


def is_joined(
    tiers: np.ndarray, records: np.ndarray, offsets: np.ndarray, provenance: Provenance
) -> np.ndarray:
    """Return whether the call of the preceding record also reads each record.

    Parameters
    ----------
    tiers, records, offsets : ndarray of int, shape (n_records,)
        Records of a fetch in the order of their tiers and their offsets in the file.
    provenance : Provenance
        How the file was written.

    Returns
    -------
    ndarray of bool, shape (n_records - 1,)
        Whether two records of a tier follow each other, except for pages of the tree.
    """
    gaps = offsets[1:] - offsets[:-1] - provenance.value_bytes
    return (  # values within a leaf are in descending order
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
    """Cut ranges of bytes into pieces of limited size.

    Parameters
    ----------
    starts, n_bytes : ndarray of int, shape (n_ranges,)
        The ranges, none of them empty.
    largest : int
        Largest size of a piece.
    at_multiples : bool
        Whether the cuts are at multiples of that size; otherwise they count from each
        range's start.

    Returns
    -------
    range_of, starts, n_bytes : ndarray of int, shape (n_pieces,)
        The range of each piece, and the piece, range after range.
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
