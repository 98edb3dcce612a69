"""Which of several prefixes each path of a log has: tiers of runs and of other jobs."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tierscope.trace.darshan.names import Names


class Prefix(NamedTuple):
    """How paths may begin: a regular expression, and how many characters are given."""

    pattern: bytes
    n_given: int


def with_wildcards(prefix: str) -> Prefix:
    """Return an absolute prefix in which ``*`` stands for text of one component."""
    text = re.escape(prefix.rstrip("/").encode("utf-8", "surrogateescape"))
    n_given = len(prefix.replace("*", "").rstrip("/"))
    return Prefix(text.replace(rb"\*", rb"[^/]*"), n_given)


def place_folders(names: Names, prefixes: Sequence[Prefix]) -> np.ndarray:
    """Return the prefix that each folder has, as a position in `prefixes`; -1 for none.

    Shape (n_folders + 1,): the last one is no folder (-1 in `Names.folder_of`). Of
    several prefixes the longest one decides. A prefix ends where a component ends.
    """
    below = []
    for position in _longest_first(prefixes).tolist():
        pattern = prefixes[position].pattern or rb".*"  # of /, which all folders have
        is_below = re.compile(rb"(?s:%s(?:/.*)?)" % pattern).fullmatch
        below.append((position, is_below))
    place = [
        next((position for position, is_below in below if is_below(folder)), -1)
        for folder in names.folders.to_pylist()
    ]
    return np.array([*place, -1])


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
    for position, prefix in enumerate(prefixes):
        is_before = precedence[position] > precedence[place]
        place[_is_named(names, prefix) & is_before] = position
    return place


def _longest_first(prefixes: Sequence[Prefix]) -> np.ndarray:
    """Return the positions of prefixes, longest first, of equal ones the last."""
    lengths = np.array([prefix.n_given for prefix in prefixes], np.int64)
    return np.argsort(lengths, kind="stable")[::-1]


def _is_named(names: Names, prefix: str) -> np.ndarray:
    """Return for each name whether the prefix is the whole path of the file."""
    parent, _, base = prefix.rpartition("/")
    is_parent = re.compile(rb"(?s:%s)" % with_wildcards(parent).pattern).fullmatch
    folders = [bool(is_parent(folder)) for folder in names.folders.to_pylist()]
    beside = np.array([*folders, False])[names.folder_of]
    if not beside.any():
        return beside
    is_base = re.compile(rb"(?s:%s)" % with_wildcards(base).pattern).fullmatch
    bases = [bool(is_base(one)) for one in names.bases.to_pylist()]
    return beside & np.array(bases)[names.base_of]
