"""What a column of a table is: its type, unit, range and meaning."""

import math
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import NamedTuple

INTEGER, NUMBER, TEXT, FLAG = "int64", "float64", "str", "bool"
_PART = r"(\.\.[^/\x00]+|\.?[^./\x00][^/\x00]*|\.)"  # of a path, but not ..
ANY_NUMBER = -math.inf  # as the least: numbers below 0 are allowed


class Column(NamedTuple):
    """The contract of a column.

    Parameters
    ----------
    kind : str
        `INTEGER`, `NUMBER`, `TEXT` or `FLAG`.
    meaning : str
        One sentence.
    unit : str
        Such as ``s``; empty for counts, ratios and words.
    least : float
        The least number that is allowed; `ANY_NUMBER` for all.
    may_be_missing : bool
        Whether a `NUMBER` may be missing.
    words : frozenset of str
        The texts that are allowed; empty if all are.
    pattern : str
        What texts must match, as a whole; empty if they may be any.
    """

    kind: str
    meaning: str
    unit: str = ""
    least: float = 0
    may_be_missing: bool = False
    words: frozenset[str] = frozenset()
    pattern: str = ""


Columns = dict[str, Column]  # of a table, by name and in order


def count(meaning: str, least: int = 0) -> Column:
    """Return a column of whole numbers without a unit."""
    return Column(INTEGER, meaning, "", least)


def size(meaning: str) -> Column:
    """Return a column of whole bytes."""
    return Column(INTEGER, meaning, "bytes")


def whole_percent(meaning: str) -> Column:
    """Return a column of settings in percent, which are whole numbers."""
    return Column(INTEGER, meaning, "%")


def number(meaning: str, unit: str = "", least: float = 0) -> Column:
    """Return a column of numbers."""
    return Column(NUMBER, meaning, unit, least)


def seconds(meaning: str, least: float = 0) -> Column:
    """Return a column of times."""
    return Column(NUMBER, meaning, "s", least)


def hours(meaning: str) -> Column:
    """Return a column of node-hours or process-hours."""
    return Column(NUMBER, meaning, "h")


def percent(meaning: str, least: float = 0) -> Column:
    """Return a column of results in percent."""
    return Column(NUMBER, meaning, "%", least)


def points(meaning: str, least: float = 0) -> Column:
    """Return a column of results in percentage points."""
    return Column(NUMBER, meaning, "points", least)


def _if_known(make: Callable[..., Column]) -> Callable[..., Column]:
    """Return the function that makes such a column, whose numbers may be missing."""
    return lambda *told, **more: make(*told, **more)._replace(may_be_missing=True)


# The same columns, if numbers may be missing: `if_known.seconds(...)`.
if_known = SimpleNamespace(
    **{
        make.__name__: _if_known(make)
        for make in (number, seconds, hours, percent, points)
    }
)


def text(meaning: str, words: Iterable[str] = (), unit: str = "") -> Column:
    """Return a column of texts; without words any text is allowed."""
    return Column(TEXT, meaning, unit, words=frozenset(words))


def path_below(meaning: str) -> Column:
    """Return a column of paths below a folder, which they do not leave."""
    return Column(TEXT, meaning, pattern=f"{_PART}(/+{_PART})*/*")


def flag(meaning: str) -> Column:
    """Return a column that says yes or no."""
    return Column(FLAG, meaning)


def ends(name: str, of: str) -> Columns:
    """Return the columns of both ends of a confidence interval over the repetitions.

    `name` holds ``{}`` for the end, and its last word is the unit; `of` says of what
    the interval is. The upper end of a time is at least 0.
    """
    of_unit = {"percent": if_known.percent, "points": if_known.points}
    make = of_unit.get(name.split("_")[-1], if_known.seconds)
    return {
        name.format(end): make(
            f"{word} end of the 95 % confidence interval of {of}; missing if there is "
            "one repetition.",
            0 if make is if_known.seconds and end == "high" else ANY_NUMBER,
        )
        for end, word in (("low", "Lower"), ("high", "Upper"))
    }
