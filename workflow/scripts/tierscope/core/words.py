"""Put numbers, counts, times, sizes, names, scenarios and goals into words."""

import math
import os
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tierscope.core.io_class import IOClass

if TYPE_CHECKING:  # readers of logs need none of it
    import pandas as pd

PASSED, FAILED, UNKNOWN, FLAG = (
    "\N{CHECK MARK}",
    "\N{MULTIPLICATION X}",
    "\N{EN DASH}",
    "\N{WARNING SIGN}",
)
CACHE_RATE_LABEL = "Cache rate (% of files on the LFS)"
BYTE_RATE_LABEL = "Cache rate (% of bytes on the LFS)"  # of files of many sizes
WHOLE_RUN = "whole run"  # in place of an epoch, of a program that marks none
# The quantity of a goal, by its name in table `goals`.
GOAL_KINDS = {
    "io_time": "I/O time",
    "execution_time": "execution time",
    "utilisation": "accelerator utilisation",
}
# What a goal of utilisation is, and why the paper's rule is not asked.
UTILISATION_NOTE = (
    "Accelerator utilisation (AU) as in MLPerf Storage: computation over the time of "
    "the epoch, both without the first step; mean over the processes. The paper's rule "
    "does not tell it: it does not know which I/O the computation hides."
)

_OPERATION_LABELS = {
    "read": "READ",
    "meta": "META",
    "write": "WRITE",
    "write meta": "META of written files",
    "read-write meta": "META of files read and written",
}
_ORDINALS = ["first", "second", "third", "fourth", "fifth"]
# Categories of characters that are not seen, or that change how others are shown.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_ONLY_WHOLE = 999.5  # three digits are whole numbers from here on
_LEAST_PLAIN = 1e-4  # smaller numbers have an exponent


def number_words(number: float) -> str:
    """Return a number with three digits, or as a whole number, such as ``0.0123``."""
    if number == 0:
        return "0"
    if abs(number) < _LEAST_PLAIN:
        return f"{number:.1e}"
    return _three_digits(number, "#.3g", ",.0f")


def short_number(number: float) -> str:
    """Return a number of up to three digits, or a whole number, such as ``12``."""
    return _three_digits(number, ".3g").replace("-", "\N{MINUS SIGN}")


def seconds_words(time_s: float) -> str:
    """Return a time for a column in seconds: three digits, or whole seconds."""
    return UNKNOWN if math.isnan(time_s) else _three_digits(time_s, "#.3g")


def _three_digits(number: float, form: str, whole: str = ".0f") -> str:
    """Return a number in one form, or in another from where three digits are whole."""
    is_whole = abs(number) >= _ONLY_WHOLE
    return f"{number:{whole}}" if is_whole else f"{number:{form}}".rstrip(".")


def capitalised(words: str) -> str:
    """Return words as those that begin a sentence."""
    return words[:1].upper() + words[1:]


def count_words(
    number: int, one: str, several: str = "", *, separator: str = ","
) -> str:
    """Return what is said of one thing or of several, after their number.

    Without `several` that is `one` with an s. `separator` stands between thousands.
    """
    return f"{number:{separator}} {one if number == 1 else several or one + 's'}"


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


def size_words(n_bytes: float) -> str:
    """Return a size such as ``128 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if n_bytes < 1024 or unit == "TiB":
            break
        n_bytes /= 1024
    return f"{n_bytes:.4g} {unit}"


def time_words(time_s: float) -> str:
    """Return a time in seconds since 1970 in words, in UTC."""
    try:
        time = datetime.fromtimestamp(time_s, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_s:.0f} s after 1970"
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def iso_time_words(time: str) -> str:
    """Return a time of a run.json, which is in UTC, as ``2026-11-21 10:09:16``."""
    return time.removesuffix("+00:00").replace("T", " ")


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


def as_text(data: bytes) -> str:
    """Return bytes of a command line or path as text, whatever the locale is."""
    return data.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    """Return the bytes of which `as_text` has made a text."""
    return text.encode("utf-8", "surrogateescape")


def as_utf8(text: str | Path) -> str:
    """Return a text or a path for tables; bytes that are no UTF-8 become escapes.

    A path of this system is in the locale's encoding.
    """
    data = os.fsencode(text) if isinstance(text, Path) else as_bytes(text)
    return data.decode("utf-8", "backslashreplace")


def shortened(text: str, most_letters: int) -> str:
    """Return a text without its middle if it is too long."""
    if len(text) <= most_letters:
        return text
    end = (most_letters - 1) // 2
    return f"{text[: most_letters - 1 - end]}\N{HORIZONTAL ELLIPSIS}{text[-end:]}"


def epoch_words(epoch: int) -> str:
    """Return an epoch, counted from 0, in words: 1 is the ``second epoch``."""
    if epoch < len(_ORDINALS):
        return f"{_ORDINALS[epoch]} epoch"
    return f"epoch number {epoch + 1}"


def scenario_titles(
    table: "pd.DataFrame", dataset_titles: Mapping[str, str] | None = None
) -> "pd.DataFrame":
    """Return the scenarios of a table in the order of their rows, with a title.

    Parameters
    ----------
    table : DataFrame
        Any table with the keys of a scenario.
    dataset_titles : mapping of str to str, optional
        Title of each dataset, such as ``{"small": "128 KiB files"}``.

    Returns
    -------
    DataFrame, shape (n_scenarios, 7)
        The keys and ``title``, such as "128 KiB files, 60 OSTs", followed by the
        other keys that differ between the scenarios (policy, loader, system, source).
    """
    from tierscope.core.columns import SCENARIO  # a rank needs words only

    scenarios = table[SCENARIO].drop_duplicates(ignore_index=True)
    others = [key for key in SCENARIO if key not in ("dataset", "n_osts")]
    differing = [key for key in reversed(others) if scenarios[key].nunique() > 1]
    titles = []
    for scenario in scenarios.to_dict("records"):
        dataset = scenario["dataset"]
        words = [(dataset_titles or {}).get(dataset, f"{dataset} dataset")]
        if n_osts := scenario["n_osts"]:
            words.append(count_words(n_osts, "OST", separator=""))
        words += [str(scenario[key]) for key in differing]
        titles.append(", ".join(words))
    return scenarios.assign(title=titles)


def in_seconds(time_s: float) -> str:
    """Return a time with three digits and its unit, such as ``10.0 s``."""
    return f"{time_s:#.3g}".rstrip(".") + " s"


def improvement_words(percents: Mapping[str, int]) -> str:
    """Return an improvement in words, such as ``GFS-META +50 %``.

    `percents` has the columns of `tierscope.core.columns.IMPROVEMENTS`.
    """
    from tierscope.core.columns import IMPROVEMENTS

    return changes_words(
        (io_class.label, percents[column])
        for io_class, column in zip(IOClass, IMPROVEMENTS, strict=True)
        if percents[column]
    )


def changes_words(changes: Iterable[tuple[str, int]]) -> str:
    """Return improvements of labelled classes in percent in words."""
    words = [f"{label} +{percent} %" for label, percent in changes]
    return ", ".join(words) or "no improvement"


def class_label(tier: str, interface: str, operation: str) -> str:
    """Return a class of any job in words, such as ``gfs META`` or ``lfs STDIO READ``.

    POSIX is not named. `operation` is one of `tierscope.core.columns.OPERATIONS`.
    """
    named = [] if interface == "POSIX" else [interface]
    return " ".join([tier, *named, _OPERATION_LABELS[operation]])


def ties_words(cheapest: "pd.Series", *, minimal: bool) -> str:
    """Return how many other combinations cost as much as the cheapest, if any do.

    `cheapest` has ``n_as_cheap``. From `tierscope.analysis.search.cheapest_combination`
    it counts the minimal combinations, from
    `tierscope.analysis.whatif.cheapest_sufficient` all combinations.
    """
    n_others = int(cheapest["n_as_cheap"])
    if n_others == 0:
        return ""
    other = "other minimal one" if minimal else "other"
    counted = count_words(n_others, f"{other} costs", f"{other}s cost", separator="")
    return f"{counted} as much"


def goal_words(goal: "pd.Series") -> str:
    """Return a goal in words, such as ``the goal of 4.00 s of I/O time``.

    Parameters
    ----------
    goal : Series
        A row of table ``goals``.
    """
    if is_utilisation(goal):
        best = goal["best_utilisation_percent"]
        return (
            f"the goal of {goal['goal_percent']:g} % {GOAL_KINDS['utilisation']} "
            f"({best:.3g} % at best without improvement)"
        )
    best_s = goal["best_io_time_s"] + goal["difference_s"]
    percent = 100 * goal["goal_s"] / best_s if best_s else math.inf
    how = "estimated " if goal["goal_of"] == "execution_time" else ""
    of = GOAL_KINDS[goal["goal_of"]]
    return (
        f"the goal of {in_seconds(goal['goal_s'])} of {of} "
        f"({percent:.0f} % of the best {how}without improvement)"
    )


def is_utilisation(goal: "pd.Series") -> bool:
    """Return whether a row of table ``goals`` is a goal of utilisation."""
    return goal["goal_of"] == "utilisation"


def is_out_of_reach(goal: "pd.Series") -> bool:
    """Return whether a goal of execution time leaves no I/O time at all."""
    return goal["goal_s"] < goal["difference_s"]


def goal_notes(goal: "pd.Series") -> list[str]:
    """Return how a goal is compared with estimates, if that is not obvious.

    `goal` is a row of table ``goals``.
    """
    if is_utilisation(goal):
        return [UTILISATION_NOTE]
    if goal["goal_of"] == "io_time":
        return []
    if is_out_of_reach(goal):
        return [
            f"The difference alone, {in_seconds(goal['difference_s'])}, exceeds the "
            "goal: no I/O improvement can meet it. Execution time is estimated as I/O "
            "time plus their mean difference."
        ]
    return [
        "Execution time is estimated as I/O time plus their mean difference, "
        f"{in_seconds(goal['difference_s'])}, so the goal leaves "
        f"{in_seconds(goal['goal_s'] - goal['difference_s'])} of I/O time."
    ]


def error_words(error: BaseException) -> str:
    """Return what an error says: of a call the file and the reason, no number.

    Of a call with two files, such as a rename, the new one is named.
    """
    if isinstance(error, OSError) and error.filename is not None:
        name = error.filename if error.filename2 is None else error.filename2
        return f"{printable(os.fsdecode(name))}: {error.strerror}"
    return str(error)


def ranges_of(numbers: Iterable[int]) -> list[list[int]]:
    """Return rising whole numbers as ranges: the first and the last of each."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
