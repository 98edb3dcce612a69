"""What certifies numbers: statements on where bytes came from, and on who interfered.

A preloaded library can keep files in the page cache, or make calls of its own. So a
certificate names such libraries, and says what became of calls that drop pages.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tierscope.core.words import count_words

if TYPE_CHECKING:  # a traced command must not wait for it
    import pandas as pd

# Verdicts on where bytes came from.
DEVICE, MIXED, PAGE_CACHE, UNKNOWN = "device", "mixed", "page cache", "unknown"
WHOLE, NONE = 0.95, 0.05  # from the device: at least, at most
YES, NO, NOT_MEASURED = "yes", "no", "not measured"
BYTES, GFS_BYTES, LFS_BYTES = "bytes", "gfs bytes", "lfs bytes"
LIBRARIES, ADVICE = "libraries", "advice"
NAMES = {
    BYTES: "bytes came from devices",
    GFS_BYTES: "bytes of the GFS came from devices",
    LFS_BYTES: "bytes of the LFS came from devices",
    LIBRARIES: "no foreign preload library",
    ADVICE: "every fadvise took effect",
}
_NAMED = 3  # libraries in a sentence


class Statement(NamedTuple):
    """A statement: its name, whether it is so, and why, in sentences."""

    statement: str
    answer: str
    words: str


@dataclass(frozen=True)
class Interference:
    """Who stood between the processes of a command and libc.

    Parameters
    ----------
    n_processes : int
        Processes that told.
    preloaded : mapping of str to int
        Preload libraries of others, and in how many processes each was.
    n_unnamed : int
        Further such libraries of a process, whose names had no room.
    before, behind : mapping of str to int
        Libraries whose `posix_fadvise` stands before that of the tracer, which so
        sees no calls, or behind it, and in how many processes.
    made, failed, swallowed : int
        Calls of `posix_fadvise` that let the pages of a traced file be dropped.
    is_whole : bool
        Whether each process that loaded the tracer has told all.
    """

    n_processes: int
    preloaded: Mapping[str, int]
    n_unnamed: int = 0
    before: Mapping[str, int] = field(default_factory=dict)
    behind: Mapping[str, int] = field(default_factory=dict)
    made: int = 0
    failed: int = 0
    swallowed: int = 0
    is_whole: bool = True


def verdict_word(part: float) -> str:
    """Return the verdict for the part of the bytes that came from the device."""
    if math.isnan(part):
        return UNKNOWN
    if part >= WHOLE:
        return DEVICE
    return PAGE_CACHE if part <= NONE else MIXED


def doubted(said: Statement, reason: str = "") -> Statement:
    """Return a statement on a command of which not all calls are known."""
    if said.answer != YES:
        return said
    because = f", as {reason}" if reason else ""
    words = f"{said.words} Not all processes and calls are known{because}."
    return Statement(said.statement, NOT_MEASURED, words)


def interference_statements(seen: Interference | None, reason: str) -> list[Statement]:
    """Return what is stated of libraries and calls; the reason why nothing is known."""
    if seen is None or not seen.n_processes:
        return [Statement(one, NOT_MEASURED, reason) for one in (LIBRARIES, ADVICE)]
    return [_libraries(seen), _advice(seen)]


def _libraries(seen: Interference) -> Statement:
    """Return whether processes had preload libraries of others."""
    n_processes = count_words(seen.n_processes, "process", "processes")
    if not seen.preloaded and not seen.n_unnamed:
        words = f"{n_processes} had no preload library but tierscope's."
        return Statement(LIBRARIES, YES, words)
    found = _in_processes(seen.preloaded, seen.n_processes, seen.n_unnamed)
    return Statement(LIBRARIES, NO, f"Preload libraries of others: {found}.")


def _in_processes(
    libraries: Mapping[str, int], n_processes: int, n_unnamed: int = 0
) -> str:
    """Return libraries, and in how many processes each was, at most `_NAMED`."""
    ranking = sorted(libraries.items(), key=lambda one: (-one[1], one[0]))
    named = [f"{name} in {n:,} of {n_processes:,}" for name, n in ranking[:_NAMED]]
    if left := len(ranking) - len(named) + n_unnamed:
        named.append(f"{left:,} more")
    return f"{', '.join(named)} processes"


def _advice(seen: Interference) -> Statement:
    """Return whether all calls that drop pages did so."""
    n_calls = seen.made + seen.failed + seen.swallowed
    hidden = ""
    if seen.before:
        hidden = (
            " posix_fadvise is that of another library before it reaches the tracer "
            f"({_in_processes(seen.before, seen.n_processes)}), so calls that this "
            "library keeps are not seen."
        )
    if seen.failed or seen.swallowed:
        by = ""
        if seen.swallowed and seen.behind:
            by = f" ({_in_processes(seen.behind, seen.n_processes)})"
        return Statement(
            ADVICE,
            NO,
            f"{count_words(n_calls, 'call')} to drop pages of a traced file: "
            f"{seen.made:,} made, {seen.failed:,} failed, {seen.swallowed:,} "
            f"swallowed{by}.{hidden}",
        )
    words = "No call was to drop pages of a traced file."
    if n_calls:
        words = f"{count_words(n_calls, 'call')} to drop pages of a traced file, "
        words += "which libc made."
    return Statement(ADVICE, NOT_MEASURED if hidden else YES, f"{words}{hidden}")


def certificate_line(table: "pd.DataFrame") -> str:
    """Return in a line which answers of table ``certificate`` are not *yes*."""
    n_runs = len(table[_RUN].drop_duplicates())
    said = []
    for statement, name in NAMES.items():
        answers = table.loc[table["statement"] == statement, "answer"]
        runs = count_words(len(answers), "run") + " that read there" * (
            len(answers) < n_runs  # only of a tier
        )
        counted = ((one, answers.eq(one).sum()) for one in (NO, NOT_MEASURED))
        said += [f"{name}: {one} in {n} of {runs}" for one, n in counted if n]
    if table["answer"].eq(YES).any():
        said.append("all else is yes" if said else "all statements are yes")
    return f"certificate: {'; '.join(said)}"


_RUN = ["policy", "cache_rate_percent", "repetition"]  # of a sweep


def line_of(said: Statement) -> str:
    """Return a statement in a line."""
    line = f"certificate: {NAMES[said.statement]}: {said.answer}. {said.words}"
    return line.rstrip()
