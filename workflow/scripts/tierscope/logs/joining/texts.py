"""Columns of texts that repeat: each text is kept once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Texts:
    """A column of texts: entry `i` is ``words[codes[i]]``."""

    words: Sequence[str]
    codes: np.ndarray

    def series(self) -> pd.Series:
        """Return the column."""
        return pd.Series(pd.array(list(self.words), dtype="str").take(self.codes))

    def of(self, rows: np.ndarray) -> "Texts":
        """Return some rows of the column."""
        return Texts(self.words, self.codes[rows])


def coded(texts: Sequence[str]) -> Texts:
    """Return texts, each kept once."""
    number: dict[str, int] = {}
    codes = [number.setdefault(text, len(number)) for text in texts]
    return Texts(list(number), np.array(codes, np.int64))
