"""Options of a command that are given once, whole and not empty."""

import argparse
from pathlib import Path
from typing import Any

from tierscope.core.output.streams import Parser, say


class _Once(argparse.Action):
    """A value that is given once: a second one would replace the first unseen."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Note the value, or refuse a second one in a line."""
        given = vars(namespace).setdefault("given", {})
        if self.dest in given:
            name, several = self.option_strings[0], self.nargs == "+"
            first, second = (_words(one) for one in (given[self.dest], values))
            both = list(dict.fromkeys([*given[self.dest], *values])) if several else []
            expected = f"one list: {name} {_words(both)}" if several else "one"
            say(
                f"{parser.prog}: {name}: got {first}, then {second}, "
                f"expected {expected}."
            )
            parser.exit(2)
        given[self.dest] = values
        setattr(namespace, self.dest, values)


class OptionParser(Parser):
    """A parser whose options with values are given once, whole, and not empty."""

    def __init__(self, *words: Any, **options: Any):
        super().__init__(*words, allow_abbrev=False, **options)
        self.register("action", None, _Once)
        for kind, read in ((None, _text), (Path, _path), (int, _number)):
            self.register("type", kind, read)


def _words(value: Any) -> str:
    """Return the value of an option as it was typed."""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _text(given: str) -> str:
    """Return a text that is not empty, as that of an unset variable is."""
    if not given:
        raise argparse.ArgumentTypeError("got an empty text, expected a value")
    return given


def _path(given: str) -> Path:
    """Return a path; an empty one would be the current folder."""
    return Path(_text(given))


def _number(given: str) -> int:
    """Return an integer; a word behind it may be the first of a command."""
    try:
        return int(given)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"got {given!r}, expected an integer (a command stands behind --)"
        ) from None
