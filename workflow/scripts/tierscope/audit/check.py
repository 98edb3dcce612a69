"""A check of an audit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Check:
    """A check of a run: the value got and the value expected."""

    name: str
    passed: bool
    got: str
    expected: str


def equal(name: str, got: Any, expected: Any) -> Check:
    """Return a check that two values are equal."""
    return Check(name, bool(got == expected), str(got), str(expected))


def check_consumption(
    epochs: pd.DataFrame, n_read: pd.Series, bytes_read: pd.Series, *whose: str
) -> Iterator[Check]:
    """Check that the training consumed what was read.

    `n_read` and `bytes_read` are by rank and epoch; `whose` says of samples and of
    bytes, for messages, what they must equal.
    """
    seen = epochs.set_index(["rank", "epoch"])
    for column, read, of in zip(
        ("samples", "bytes"), (n_read, bytes_read), whose, strict=True
    ):
        is_right = seen[column] == read.reindex(seen.index, fill_value=0)
        name = f"processes and epochs whose {column} equal {of}"
        yield equal(name, int(is_right.sum()), len(seen))
