"""Read the names of a Darshan log: the path of each record id."""

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self

import numpy as np
import pyarrow as pa

from tierscope.trace.darshan.container import Container

_ID_BYTES = 8
_FEW_BYTES = 1 << 15  # fewer names are split one by one, which is faster
_LONGEST_BYTES = 1 << 20  # of a name: no path of a file system is as long
_PAIR = re.compile(rb".{8}[^\0]*(?:(\0)|\Z)", re.DOTALL)
# Before version 3.10, a name had its length before it instead of a zero after it.
_NAMES_WITH_LENGTH = "3.00"
_OF_NAMES = ("ids", "folder_of", "base_of")


@dataclass(frozen=True)
class Names:
    """Path of each record id; folders and base names are stored once.

    `ids` is sorted. `folder_of` and `base_of` have the same order and are positions in
    `folders` (-1: a name without folder, such as ``<STDIN>``) and `bases`.
    """

    ids: np.ndarray
    folder_of: np.ndarray
    base_of: np.ndarray
    folders: pa.BinaryArray
    bases: pa.BinaryArray

    def chosen(self, which: np.ndarray) -> Self:
        """Return the names that a mask has chosen."""
        of_names = {name: getattr(self, name)[which] for name in _OF_NAMES}
        return replace(self, **of_names)

    def positions(self, wanted: np.ndarray) -> np.ndarray:
        """Return the position in `ids` of each wanted id, if present.

        The ids are looked up in sorted order: random access misses the caches.
        """
        order = np.argsort(wanted)
        found = np.empty(len(wanted), np.int64)
        found[order] = np.searchsorted(self.ids, wanted[order])
        return np.minimum(found, max(len(self.ids) - 1, 0), out=found)

    def raw_path(self, position: int) -> bytes:
        """Return the path at a position of `ids`."""
        base = self.bases[int(self.base_of[position])].as_py()
        if self.folder_of[position] < 0:
            return base
        folder = self.folders[int(self.folder_of[position])].as_py()
        return folder + b"/" + base

    def path(self, position: int) -> str:
        """Return the path at a position of `ids` as one of this system."""
        return os.fsdecode(self.raw_path(position))


def read_names(log: Container) -> Names:
    """Read the (id, path) pairs; repeated pairs of ranks must agree, else a LogError.

    An empty path is no name: a runtime without memory for the name wrote it.
    """
    names = _sorted_names(log)
    repeats = names.ids[1:] == names.ids[:-1]
    if repeats.any():
        _refuse_contradictions(log, names, np.flatnonzero(repeats))
        names = names.chosen(np.append(True, ~repeats))
    return names


def _sorted_names(log: Container) -> Names:
    """Return all names but empty ones, sorted by id."""
    if not log.names_region.length:
        return _few_names(log, b"")
    blocks = log.blocks(log.names_region, "names")
    first = next(blocks)
    second = next(blocks, None)
    if log.version == _NAMES_WITH_LENGTH:
        return _few_names(log, b"".join([first, second or b"", *blocks]))
    if second is None and len(first) <= _FEW_BYTES:
        return _few_names(log, first)
    return _many_names(log, chain([first], [second] if second else [], blocks))


def _few_names(log: Container, data: bytes) -> Names:
    """Split pairs one by one."""
    ids, folder_of, base_of = [], [], []
    folders: dict[bytes, int] = {}
    bases: dict[bytes, int] = {}
    for id_, path in _pairs(log, data):
        if not path:
            continue
        folder, slash, base = path.rpartition(b"/")
        ids.append(id_)
        folder_of.append(folders.setdefault(folder, len(folders)) if slash else -1)
        base_of.append(bases.setdefault(base, len(bases)))
    order = np.argsort(all_ids := np.array(ids, np.uint64), kind="stable")
    return Names(
        all_ids[order],
        np.array(folder_of, np.int32)[order],
        np.array(base_of, np.int32)[order],
        _binary(list(folders)),
        _binary(list(bases)),
    )


def _binary(values: list[bytes]) -> pa.BinaryArray:
    """Return values as an array; `pyarrow.array` imports pandas, which takes longer."""
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(values), buffers)


def _pairs(log: Container, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the id and the path of each name."""
    with_length = log.version == _NAMES_WITH_LENGTH
    head = struct.Struct(log.order + ("QI" if with_length else "Q"))
    start = 0
    while start < len(data):
        path = start + head.size
        if path > len(data):
            raise log.error("corrupt in its names: the last one is cut.")
        id_, *length = head.unpack_from(data, start)
        end = path + length[0] if with_length else data.find(b"\0", path)
        if not path <= end <= len(data):
            raise log.error("corrupt in its names: the last one is cut.")
        yield id_, data[path:end]
        start = end if with_length else end + 1


def _many_names(log: Container, blocks: Iterator[bytes]) -> Names:
    """Split blocks of pairs all at once."""
    import pyarrow.compute as pc  # large, and few names do not need it

    parts = []
    rest = b""
    for block in blocks:
        block = rest + block
        starts, used_bytes = _name_starts(block)
        parts.append(_split_names(block, starts, log.order))
        rest = block[used_bytes:]
        if len(rest) > _LONGEST_BYTES:
            raise log.error(
                f"corrupt in its names: one has more than {_LONGEST_BYTES} bytes."
            )
    if rest:
        raise log.error("corrupt in its names: the last one is cut.")
    ids, folders, bases = zip(*parts, strict=True)
    del parts  # so that each of the three is gone once it is joined
    ids = np.concatenate(ids)
    folders = pa.chunked_array(folders).unify_dictionaries().combine_chunks()
    bases = pa.chunked_array(bases).unify_dictionaries().combine_chunks()
    pa.default_memory_pool().release_unused()
    order = np.argsort(ids, kind="stable")
    folder_of = folders.indices.fill_null(-1).to_numpy()[order]
    base_of = bases.indices.to_numpy()[order]
    ids = ids[order]
    empty = pc.index(bases.dictionary, pa.scalar(b"", pa.binary())).as_py()
    if empty >= 0 and (nameless := (base_of == empty) & (folder_of < 0)).any():
        ids, folder_of, base_of = (of[~nameless] for of in (ids, folder_of, base_of))
    return Names(ids, folder_of, base_of, folders.dictionary, bases.dictionary)


def _name_starts(block: bytes) -> tuple[np.ndarray, int]:
    """Return the starts of whole pairs (8 bytes of id, path, zero), and their end."""
    zeros = np.flatnonzero(np.frombuffer(block, np.uint8) == 0)
    if not len(zeros):
        return zeros, 0
    # A zero close to the previous one may be part of an id; such a zero is at most
    # eight bytes after the end of a path.
    is_end = np.diff(zeros, prepend=-1) > _ID_BYTES
    close = np.flatnonzero(~is_end)
    if len(close) > len(zeros) // 4:  # mostly empty names, or small ids
        ends = np.array([pair.end(1) for pair in _PAIR.finditer(block)], np.int64)
        ends = ends[ends > 0]  # else the last one goes on in the next block
    else:
        end = -1
        for i in close.tolist():
            if i and is_end[i - 1]:
                end = int(zeros[i - 1])
            is_end[i] = zeros[i] - end > _ID_BYTES
        ends = zeros[is_end] + 1
    starts = np.append(0, ends)
    return starts[:-1], int(starts[-1])


def _split_names(
    block: bytes, starts: np.ndarray, order: str
) -> tuple[np.ndarray, pa.DictionaryArray, pa.DictionaryArray]:
    """Return ids, folders and base names of a block of pairs."""
    data = np.frombuffer(block, np.uint8)
    ids = data[starts[:, np.newaxis] + np.arange(8)].view(f"{order}u8").ravel()
    zeros = np.append(starts[1:], 0) - 1
    if len(starts):
        zeros[-1] = block.find(0, int(starts[-1]) + 8)
    slashes = np.append(-1, np.flatnonzero(data == ord("/")))
    last_slash = slashes[np.searchsorted(slashes, zeros[: len(starts)]) - 1]
    paths, zeros = starts + 8, zeros[: len(starts)]
    has_folder = last_slash >= paths
    folder_ends = np.where(has_folder, last_slash, paths)
    folders = _slices(block, paths, folder_ends, has_folder)
    bases = _slices(block, folder_ends + has_folder, zeros, np.ones(len(zeros), bool))
    ids = ids.astype(np.uint64, copy=False)
    return ids, folders.dictionary_encode(), bases.dictionary_encode()


def _slices(
    block: bytes, starts: np.ndarray, ends: np.ndarray, is_valid: np.ndarray
) -> pa.BinaryArray:
    """Return slices of a block as an array; null where not valid."""
    # The values cover the block; every other one is a gap between slices.
    offsets = np.zeros(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2] = starts, ends
    offsets[-1] = offsets[-2] if len(starts) else 0
    values = pa.BinaryArray.from_buffers(
        pa.binary(),
        2 * len(starts),
        [None, pa.py_buffer(offsets), pa.py_buffer(block)],
    )
    return values.take(pa.array(2 * np.arange(len(starts)), mask=~is_valid))


def _refuse_contradictions(log: Container, names: Names, repeated: np.ndarray) -> None:
    """Raise a LogError if an id at these positions has another path at the next."""
    differs = (names.folder_of[repeated] != names.folder_of[repeated + 1]) | (
        names.base_of[repeated] != names.base_of[repeated + 1]
    )
    if differs.any():
        first = int(repeated[np.argmax(differs)])
        raise log.error(
            f"has one record id for {names.path(first)!r} and "
            f"{names.path(first + 1)!r}."
        )
