"""Which file each file of a dataset says that it is."""

import os
from collections.abc import Iterable
from pathlib import Path

from tierscope.data.tfrecord import HEADER, MAGIC

END_BYTES = HEADER.size + 4  # with the checksum behind it


def read_sample_ids(paths: Iterable[str | Path]) -> list[int]:
    """Return the file id that each file's header carries, for checks."""
    ids = []
    for path in paths:
        with open(path, "rb") as file:
            file.seek(-END_BYTES, os.SEEK_END)
            magic, file_id, _ = HEADER.unpack(file.read(HEADER.size))
        assert magic == MAGIC, path
        ids.append(file_id)
    return ids
