"""Programs that do not load the tracer, so that what they do is in no log."""

import ctypes
import os
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tierscope.core.words import count_words

# By the number of ``enum escape`` in ``workflow/native/preload.h``.
REASONS = {
    1: "is linked statically",
    2: "runs as another user",
    3: "starts without our environment",
    4: "is of another kind of machine",
    5: "cannot reach our library",
    6: "is linked to the C library musl, and our library to glibc",
    7: "has AddressSanitizer, which stops if any library is loaded before its own",
    8: "is made by Go, whose calls do not pass through libc",
    9: "is the new root folder of a process",
}
# Nothing that such a program starts can load our library either, or it does not start.
FATAL = frozenset({2, 5, 6, 7})
# Lists the system's libraries, and reads no data: PyTorch starts it by Python's ctypes.
HARMLESS = {"/sbin/ldconfig", "/usr/sbin/ldconfig"}
_NAMED = 3  # programs that lines name


class Escape(NamedTuple):
    """A program that was executed without the tracer, and the number of the reason."""

    program: str
    reason: int

    @classmethod
    def told(cls, detail: str) -> "Escape | None":
        """Return what an event of the tracer tells, None if it is cut or harmless."""
        number, _, program = detail.partition(" ")
        return cls.of(program, int(number)) if number.isdecimal() else None

    @classmethod
    def of(cls, program: str, reason: int) -> "Escape | None":
        """Return the escape of a program, None if there is none or it is harmless."""
        is_one = program and program not in HARMLESS and reason in REASONS
        return cls(program, reason) if is_one else None

    def __str__(self) -> str:
        return f"{self.program} ({REASONS[self.reason]})"


def reason_of(program: str, library: Path) -> str:
    """Return why a program does not load a library of ours, empty if nothing says it.

    A name without a slash is looked for as the system does.
    """
    path = shutil.which(program)
    if path is None or not library.is_file():
        return ""
    return REASONS.get(escape_of(path, library), "")


def escape_of(path: str, library: Path) -> int:
    """Return the number of the reason why a file does not load a library, or 0."""
    return ctypes.CDLL(str(library)).tierscope_escape_of(os.fsencode(path))


def escape_words(escapes: Iterable[Escape]) -> list[str]:
    """Return which programs escaped, a sentence each; of many the most frequent."""
    ranking = Counter(escapes).most_common()
    lines = [
        f"{one.program} {REASONS[one.reason]}: what it did{_times(n)} is in no log."
        for one, n in ranking[:_NAMED]
    ]
    if (left := len(ranking) - _NAMED) > 0:
        lines += [f"{count_words(left, 'more program')} did not load the tracer."]
    return lines


def _times(n: int) -> str:
    return f" ({n:,} times)" if n > 1 else ""
