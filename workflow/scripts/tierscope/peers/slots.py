"""Slots of a window: a file each, in the owner's order, and then the file's number."""

import struct

import numpy as np

from tierscope.policies import AdHoc

NUMBER = struct.Struct("<q")
_ALIGNED_BYTES = 64


def slot_bytes(file_size_bytes: int) -> int:
    """Return the bytes from one slot to the next."""
    return -(-(file_size_bytes + NUMBER.size) // _ALIGNED_BYTES) * _ALIGNED_BYTES


def slots_of(policy: AdHoc, n_nodes: int) -> np.ndarray:
    """Return the slot of each file in its owner's window: int, shape (n_files,).

    Slots are counted from 1 in the owner's order of files; files that are not staged
    have slot 0.
    """
    slots = np.zeros(len(policy.staged), np.int64)
    for node in range(n_nodes):
        files = policy.files_of(node)
        slots[files] = np.arange(1, len(files) + 1)
    return slots
