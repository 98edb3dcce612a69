"""Checks that all files of claims share: names, and parameters of formulas."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tierscope.core.validation import ConfigError


def check_ids(claims: Sequence[Mapping[str, Any]], path: str | Path) -> list[str]:
    """Return the claims' ids; refuse an id that occurs twice."""
    ids = [claim["id"] for claim in claims]
    for number, name in enumerate(ids):
        if name in ids[:number]:
            raise ConfigError(
                f"{path}: claims.{name}.id: got it twice, expected it once"
            )
    return ids


def check_word(word: str, known: Iterable[str], where: str) -> None:
    """Refuse a word that is not known."""
    if word not in known:
        raise ConfigError(f"{where}: got {word}, expected one of {', '.join(known)}")


def check_words(words: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse words that are not known."""
    if unknown := [word for word in words if word not in known]:
        raise ConfigError(
            f"{where}: got {', '.join(unknown)}, expected some of {', '.join(known)}"
        )


def check_arguments(
    name: str,
    formula: Callable,
    n_tables: int,
    given: Iterable[str],
    where: str,
    of: str = "",
) -> None:
    """Refuse parameters that a formula does not take, and missing ones.

    The formula measures a claim from tables, and from the parameters that are `given`
    by name. `where` is the claim's key path, `of` its other arguments in words.
    """
    try:
        inspect.signature(formula).bind(*[None] * n_tables, **dict.fromkeys(given))
    except TypeError as error:
        raise ConfigError(
            f"{where}: got {of}parameters {', '.join(given) or 'none'}, expected those "
            f"of {name} ({error})"
        ) from None
