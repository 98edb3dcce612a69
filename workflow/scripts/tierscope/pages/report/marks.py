"""Marks and numbers as the report writes them."""

import math

from tierscope.core.words import in_seconds

PASSED, FAILED, UNKNOWN, FLAG = (
    "\N{CHECK MARK}",
    "\N{MULTIPLICATION X}",
    "\N{EN DASH}",
    "\N{WARNING SIGN}",
)
_ONLY_WHOLE_S = 999.5  # three digits are whole seconds from here on


def seconds_words(time_s: float) -> str:
    """Return a time for a column in seconds: three digits, or whole seconds."""
    if math.isnan(time_s):
        return UNKNOWN
    if abs(time_s) >= _ONLY_WHOLE_S:
        return f"{time_s:.0f}"
    return in_seconds(time_s).removesuffix(" s")


def time_words(time: str) -> str:
    """Return a time of a run.json, which is in UTC, as ``2026-11-21 10:09:16``."""
    return time.removesuffix("+00:00").replace("T", " ")
