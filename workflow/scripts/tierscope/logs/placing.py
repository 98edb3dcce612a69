"""Which tier each path of a log belongs to."""

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tierscope.logs.tiers import TierPrefix
from tierscope.trace.log import Names


def place_names(names: Names, tiers: Sequence[TierPrefix]) -> np.ndarray:
    """Return the tier of each name as a position in `tiers`, -1 for none.

    Of several prefixes that a path has, the longest one decides. Folders and base names
    repeat, so each distinct one is examined once.
    """
    place = np.full(len(names.ids), -1)
    folders = [folder or b"" for folder in names.folders.to_pylist()]
    folder_of = np.where(names.folder_of < 0, len(folders), names.folder_of)
    by_length = sorted(enumerate(tiers), key=lambda item: _literal_length(item[1]))
    for position, tier in by_length:  # longer prefixes overwrite shorter ones
        pattern = _pattern(tier.prefix)
        below = re.compile(rb"(?s:%s(?:/.*)?)" % pattern) if pattern else None
        inside = [below is None or bool(below.fullmatch(one)) for one in folders]
        if any(inside):
            place[np.array([*inside, False])[folder_of]] = position
        place[_is_named(names, folders, folder_of, tier.prefix)] = position
    return place


def _is_named(
    names: Names, folders: Sequence[bytes], folder_of: np.ndarray, prefix: str
) -> np.ndarray:
    """Return for each name whether the prefix is the whole path of the file."""
    parent, _, base = prefix.rpartition("/")
    is_parent = re.compile(rb"(?s:%s)" % _pattern(parent)).fullmatch
    beside = np.array([*(bool(is_parent(one)) for one in folders), False])[folder_of]
    if not beside.any():
        return beside
    is_base = re.compile(rb"(?s:%s)" % _pattern(base)).fullmatch
    bases = pa.array(names.bases).to_pylist()
    return beside & np.array([bool(is_base(one)) for one in bases])[names.base_of]


def _pattern(prefix: str) -> bytes:
    """Return the regular expression of a prefix; the root's is empty."""
    text = prefix.rstrip("/").encode("utf-8", "surrogateescape")
    return re.escape(text).replace(rb"\*", rb"[^/]*")


def _literal_length(tier: TierPrefix) -> int:
    """Return how many characters of a prefix are given."""
    return len(tier.prefix.replace("*", "").rstrip("/"))
