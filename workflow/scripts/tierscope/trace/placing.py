"""Which of several prefixes each path of a log has: tiers of runs and of other jobs."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tierscope.trace.darshan.names import Names


class Prefix(NamedTuple):
    """How paths may begin: a regular expression, and how many characters are given.

    It has a `text` if it stands for this alone.
    """

    pattern: bytes
    n_given: int
    text: bytes | None = None


def with_wildcards(prefix: str) -> Prefix:
    """Return an absolute prefix in which ``*`` stands for text of one component."""
    text = prefix.rstrip("/").encode("utf-8", "surrogateescape")
    n_given = len(prefix.replace("*", "").rstrip("/"))
    pattern = re.escape(text).replace(rb"\*", rb"[^/]*")
    return Prefix(pattern, n_given, None if b"*" in text else text)


def place_folders(names: Names, prefixes: Sequence[Prefix]) -> np.ndarray:
    """Return the prefix that each folder has, as a position in `prefixes`; -1 for none.

    Shape (n_folders + 1,): the last one is no folder (-1 in `Names.folder_of`). Of
    several prefixes the longest one decides. A prefix ends where a component ends.
    """
    folders = [folder + b"/" for folder in names.folders.to_pylist()]
    order = sorted(range(len(folders)), key=folders.__getitem__)
    folders = [folders[position] for position in order]
    place = np.full(len(folders) + 1, -1)
    for position in _longest_first(prefixes)[::-1].tolist():
        pattern, _, text = prefixes[position]
        if text:  # what is below stands one behind the other; 0 follows a slash
            first, end = (bisect_left(folders, text + one) for one in (b"/", b"0"))
            place[first:end] = position
        elif text is not None:  # of /, which all folders have
            place[:-1] = position
        else:
            is_below = re.compile(rb"(?s:%s/)" % pattern).match
            place[[i for i, one in enumerate(folders) if is_below(one)]] = position
    found = np.full_like(place, -1)
    found[order] = place[:-1]
    return found


def place_names(names: Names, prefixes: Sequence[str]) -> np.ndarray:
    """Return the prefix that each path has or is, as a position; -1 for none.

    Parameters
    ----------
    names : Names
    prefixes : sequence of str
        Absolute ones, which may have wildcards (`with_wildcards`).

    Returns
    -------
    ndarray of int, shape (n_names,)
    """
    known = [with_wildcards(prefix) for prefix in prefixes]
    place = place_folders(names, known)[names.folder_of]
    precedence = np.zeros(len(known) + 1, np.int64)  # the last one is of no prefix
    precedence[_longest_first(known)] = np.arange(len(known), 0, -1)
    folders, bases = _Texts(names.folders), _Texts(names.bases)
    for position, prefix in enumerate(prefixes):
        parent, _, base = prefix.rpartition("/")
        if (in_parent := folders.like(parent)) and (is_base := bases.like(base)):
            is_named = np.isin(names.folder_of, in_parent)
            is_named &= np.isin(names.base_of, is_base)
            is_before = precedence[position] > precedence[place]
            place[is_named & is_before] = position
    return place


def _longest_first(prefixes: Sequence[Prefix]) -> np.ndarray:
    """Return the positions of prefixes, longest first, of equal ones the last."""
    lengths = np.array([prefix.n_given for prefix in prefixes], np.int64)
    return np.argsort(lengths, kind="stable")[::-1]


class _Texts:
    """Distinct texts, to find those that a text with wildcards stands for."""

    def __init__(self, texts: pa.BinaryArray):
        self._at = {one: at for at, one in enumerate(texts.to_pylist())}

    def like(self, text: str) -> list[int]:
        """Return the positions of the texts that a text may be."""
        wanted = with_wildcards(text)
        if wanted.text is not None:
            at = self._at.get(wanted.text)
            return [] if at is None else [at]
        is_like = re.compile(rb"(?s:%s)" % wanted.pattern).fullmatch
        return [at for one, at in self._at.items() if is_like(one)]
