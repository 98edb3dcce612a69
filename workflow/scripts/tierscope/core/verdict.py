"""A claim's number: whether it lies within its bounds, and how both are written."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tierscope.core.words import short_number

HOLDS, FAILS, UNMEASURABLE = "holds", "does not hold", "not measurable here"
UNDECIDED = "undecided"
BOUNDS = {
    "at_least": np.greater_equal,
    "at_most": np.less_equal,
    "more_than": np.greater,
}
_DIGITS = 9  # a bound counts as met if the number misses it by rounding only
_PLURAL = re.compile(r"^(file|point|standard error)s\b")  # of units


class Look(NamedTuple):
    """How a status is shown: sign in text; marker, its colour, and if it is filled."""

    sign: str
    marker: str
    colour: str
    filled: bool


# Dark colours of Paul Tol's colour-blind-safe palette, none of an I/O class.
LOOKS = {
    HOLDS: Look("\N{CHECK MARK}", "o", "#117733", True),
    FAILS: Look("\N{MULTIPLICATION X}", "X", "#882255", True),
    UNDECIDED: Look("?", "s", "#997700", False),
    UNMEASURABLE: Look("\N{EN DASH}", "D", "#666666", False),
}
FITTED = {
    "no": "",
    "target": "fitted",
    "by hand": "set by hand",
    "derived": "derived",
}


class NotMeasurable(Exception):
    """The experiment lacks data that a claim needs; the message says which."""


class Measured(NamedTuple):
    """A claim's number, its details in words, and the ends of its interval.

    `value` is None if there is no such number; then the claim does not hold. `ends` are
    None without an interval, and infinite if only some repetitions have the number.
    """

    value: float | None
    details: str
    ends: tuple[float, float] | None = None


class Undecided(Exception):
    """There is a number, but its spread allows no verdict; the message says why."""

    def __init__(self, measured: Measured, reason: str) -> None:
        super().__init__(reason)
        self.measured = measured


def with_unit(value: float, unit: str) -> str:
    """Return a number with its unit, which is given in the plural: ``1 point``."""
    number = short_number(value)
    if number == "1":
        unit = _PLURAL.sub(r"\1", unit)
    return f"{number} {unit}".rstrip()


def accept_words(accept: Mapping[str, float], unit: str) -> str:
    """Return the bounds of a claim, such as ``60 to 70 %`` or ``at least 10 %``."""
    if {"at_least", "at_most"} <= set(accept):
        least, most = (accept[name] for name in ("at_least", "at_most"))
        start = f"{short_number(least)} to " if least != most else ""
        return start + with_unit(most, unit)
    return " and ".join(
        f"{name.replace('_', ' ')} {with_unit(bound, unit)}"
        for name, bound in accept.items()
    )


def judge(
    accept: Mapping[str, float],
    value: float | None,
    ends: tuple[float, float] | None = None,
) -> str:
    """Return whether a number lies within a claim's bounds.

    With the ends of its interval, a claim holds if all of the interval and the number
    lie within the bounds, does not hold if nothing of them does, and is undecided
    otherwise.
    """
    numbers = [] if value is None else [value]
    if not (numbers := [*numbers, *(ends or ())]):
        return FAILS
    low, high = (round(float(end(numbers)), _DIGITS) for end in (min, max))
    if all(
        BOUNDS[name](end, bound)
        for name, bound in accept.items()
        for end in (low, high)
    ):
        return HOLDS
    nearest = {"at_least": high, "more_than": high, "at_most": low}
    touches = all(BOUNDS[name](nearest[name], bound) for name, bound in accept.items())
    return UNDECIDED if touches else FAILS


def ends_words(ends: tuple[float, float] | None, unit: str) -> str:
    """Return the ends of an interval, such as ``9.1 to 15 %``; nothing without one."""
    if ends is None or not np.isfinite(ends).all():
        return ""
    low, high = (round(float(end), 3) + 0.0 for end in ends)
    start = f"{short_number(low)} to "
    return with_unit(high, unit) if low == high else start + with_unit(high, unit)


def measured_words(
    measured: Measured, status: str, unit: str, unit_below_zero: str = ""
) -> str:
    """Return a claim's number with its unit, ``none``, or nothing if not measurable.

    If there is a unit for numbers below 0, such as ``% more time`` beside ``% less
    time``, these are written without their sign. Numbers below 1 have three decimals.
    """
    if measured.value is None:
        return "" if status == UNMEASURABLE else "none"
    value = measured.value
    if abs(value) < 1:
        value = round(value, 3)
    if value < 0 and unit_below_zero:
        return with_unit(-value, unit_below_zero)
    return with_unit(value + 0.0, unit)  # no negative zero
