"""Put names, times and bounds of logged jobs into words."""

import math
import unicodedata

# Categories of characters that are not seen, or that change how others are shown.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_ONLY_WHOLE = 999.5  # three digits are whole numbers from here on
_LEAST_PLAIN = 1e-4  # smaller numbers have an exponent


def printable(text: str) -> str:
    r"""Return a text in which every character is seen.

    Names in logs can hold any bytes. Control characters, marks of the writing direction
    and parts of invalid UTF-8 become escapes such as ``\n`` and ``\u202e``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        sign.encode("unicode_escape").decode()
        if unicodedata.category(sign) in _UNSEEN
        else sign
        for sign in text
    )


def as_utf8(text: object) -> str:
    """Return a text or a path for tables; bytes that are no UTF-8 become escapes."""
    data = str(text).encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "backslashreplace")


def number_words(number: float) -> str:
    """Return a number with three digits, or as a whole number, such as ``0.0123``."""
    if number == 0:
        return "0"
    if abs(number) >= _ONLY_WHOLE:
        return f"{number:,.0f}"
    if abs(number) < _LEAST_PLAIN:
        return f"{number:.1e}"
    return f"{number:#.3g}".rstrip(".")


def count(number: int, noun: str, ending: str = "s") -> str:
    """Return a number of things, such as ``3,072 processes``."""
    return count_words(number, noun, noun + ending)


def count_words(number: int, one: str, several: str) -> str:
    """Return what is said of one thing or of several, after their number."""
    return f"{number:,} {one if number == 1 else several}"


def bounds_words(least: float, most: float, unit: str = "s") -> str:
    """Return bounds in words: ``12.1 to 14.3 s``, ``at least 12.0 s``, ``12.1 s``.

    Parameters
    ----------
    least, most : float
        The bounds; they are equal if the number is exact. Without an upper bound,
        `most` is missing (NaN) or infinite.
    unit : str, optional
        Follows the numbers; none if empty.
    """
    low, end = number_words(least), f" {unit}" if unit else ""
    if not math.isfinite(most):
        return f"at least {low}{end}"
    high = number_words(most)
    return f"{low}{end}" if low == high else f"{low} to {high}{end}"


def shortened(text: str, most_letters: int) -> str:
    """Return a text without its middle if it is too long."""
    if len(text) <= most_letters:
        return text
    end = (most_letters - 1) // 2
    return f"{text[: most_letters - 1 - end]}\N{HORIZONTAL ELLIPSIS}{text[-end:]}"
