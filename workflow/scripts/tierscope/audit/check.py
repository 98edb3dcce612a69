"""A check of an audit."""

from dataclasses import dataclass
from typing import Any


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
