"""Compile functions with numba, and keep the results on disk."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit

from tierscope.core.imports import digest_of_modules


def _kept(**options: Any) -> Callable:
    """Return a decorator that compiles a function, and keeps the result on disk.

    numba would take what is kept if only the function's own file is the same, even if
    it calls functions of others. Where nothing can be kept, each process compiles.
    """
    options["error_model"] = "numpy"

    def decorate(function: Callable) -> Callable:
        try:
            made = njit(cache=True, **options)(function)
        except RuntimeError:  # no folder can be written
            return njit(**options)(function)
        if made is not function:  # as it is with NUMBA_DISABLE_JIT
            file = function.__code__.co_filename
            made._cache._cache_file._source_stamp = _digest(file)
        return made

    return decorate


@cache
def _digest(file: str) -> str:
    """Return the digest of a module and of all that it imports."""
    return digest_of_modules(Path(file), Path(__file__).parents[3])


compiled = _kept()
# What is called at every event. To pass all arrays of a struct would take time, and to
# count references to them more than the event takes: none are counted (`_nrt`), so what
# is inlined makes no arrays. The loops do count, so they hand their struct on as it is:
# a part that they took out of it for a call would be counted.
inlined = _kept(forceinline=True, _nrt=False)
