"""How to write a value that was refused: only what the schema accepts is proposed."""

import datetime
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False}
_WORDS |= {"off": False, "null": None, "none": None, "~": None}
_INTEGER = re.compile(r"[-+]?(0x[0-9a-f]+|0o[0-7]+|0b[01]+|[0-9]+)", re.IGNORECASE)
_WITH_UNIT = re.compile(r"([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\s*([a-z%µ/]+)", re.IGNORECASE)
_PREFIXES = ("", "k", "m", "g", "t", "p")
# {end of a key: {unit in small letters: how many of the key's unit it is}}
_UNITS: dict[str, dict[str, float]] = {
    "_bytes": {
        **{f"{prefix}b": 1000**n for n, prefix in enumerate(_PREFIXES)},
        **{f"{prefix}ib": 1024**n for n, prefix in enumerate(_PREFIXES) if n},
        "byte": 1,
        "bytes": 1,
    },
    "_percent": {"%": 1, "percent": 1},
    "_s": {"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
    | {"min": 60, "h": 3600, "d": 86400},
}
_UNITS["_bytes_per_s"] = {f"{unit}/s": n for unit, n in _UNITS["_bytes"].items()}
_UNITS["seconds"] = _UNITS["_s"]
_UNITS["_gib_per_node"] = {"gib": 1, "mib": 1 / 1024, "tib": 1024}


def hint(
    value: Any,
    key: str,
    schema: Mapping[str, Any],
    is_accepted: Callable[[Any], bool],
) -> str:
    """Return how to write a refused value, with a blank before it; empty if unknown.

    Parameters
    ----------
    value : object
        The value as YAML has read it.
    key : str
        Its key, which may end with a unit.
    schema : mapping
        The schema that refused it.
    is_accepted : callable of object
        Whether this schema accepts a value.
    """
    for proposal in _proposals(value, key, _words(schema)):
        if is_accepted(proposal):
            return f" ({_read_as(value, proposal)}write {in_yaml(proposal)})"
    return ""


def _read_as(value: Any, proposal: Any) -> str:
    """Return that YAML takes a single value for another kind than the proposed one."""
    is_text, is_wanted = isinstance(value, str), isinstance(proposal, str)
    if is_text == is_wanted or isinstance(
        value if is_wanted else proposal, list | dict
    ):
        return ""
    return "to YAML this is text: " if is_text else "to YAML this is no text: "


def in_yaml(value: Any) -> str:
    """Return a value on one line as YAML has it: null, true, [1, 2], {a: b}."""
    import yaml

    try:
        text = yaml.safe_dump(
            value, default_flow_style=True, width=math.inf, allow_unicode=True
        )
    except yaml.YAMLError:  # of a kind that Python code has put in
        return repr(value)
    return " ".join(text.removesuffix("\n").removesuffix("\n...").split("\n"))


def _words(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts that a schema lists, by their form in plain letters."""
    parts = [schema[key] for key in ("items", "then") if key in schema]
    parts += schema.get("oneOf", [])
    listed = [word for word in schema.get("enum", []) if isinstance(word, str)]
    listed += re.findall(r"^\^([a-z]+)\\Z$", schema.get("pattern", ""))
    words = {_plain(word): word for word in listed}
    return {key: word for part in parts for key, word in _words(part).items()} | words


def _plain(text: str) -> str:
    """Return a text in small letters with dashes."""
    return re.sub(r"[\s_-]+", "-", text.strip().lower())


def _proposals(value: Any, key: str, words: Mapping[str, str]) -> Iterator[Any]:
    """Yield other values that the user may have meant, the likeliest first."""
    if isinstance(value, list):
        if len(value) == 1:
            yield value[0]
            yield from _others(value[0], key, words)
        yield [next(_others(one, key, words), one) for one in value]
        return
    others = list(_others(value, key, words))
    yield from others
    for one in (value, *others):
        yield [one]
    if isinstance(value, str) and "," in value:
        parts = [part.strip() for part in value.strip("[]").split(",")]
        yield parts
        yield [next(_others(part, key, words), part) for part in parts]


def _others(value: Any, key: str, words: Mapping[str, str]) -> Iterator[Any]:
    """Yield what else a single value may mean: another kind, or a word of a list."""
    if isinstance(value, str):
        if _plain(value) in words:
            yield words[_plain(value)]
        yield from _of_text(value.strip(), key)
    elif isinstance(value, bool):
        yield "yes" if value else "no"
    elif value is None:
        yield from (word for word in words.values() if word == "none")
    elif isinstance(value, int):
        if value in (0, 1):
            yield bool(value)
        yield str(value)
    elif isinstance(value, float):
        if value.is_integer():
            yield int(value)
        yield str(value)
    elif isinstance(value, datetime.date):
        yield value.isoformat()


def _of_text(text: str, key: str) -> Iterator[Any]:
    """Yield what a text may mean: a number, a number with a unit, true, a list."""
    if _INTEGER.fullmatch(text):
        yield int(text, 10 if text.lstrip("+-").isdecimal() else 0)
    for number in filter(math.isfinite, (_number(text), _in_units_of(key, text))):
        if number.is_integer():
            yield int(number)
        yield number
    if text.lower() in _WORDS:
        yield _WORDS[text.lower()]
    if text in ("0", "1"):
        yield text == "1"
    if text.startswith(("[", "{")):
        with suppress(ValueError):
            yield json.loads(text)


def _number(text: str) -> float:
    """Return the number that a text means, NaN if it means none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _in_units_of(key: str, text: str) -> float:
    """Return a number with a unit in the unit with which a key ends, NaN if neither."""
    if not (found := _WITH_UNIT.fullmatch(text)):
        return math.nan
    for end in sorted(_UNITS, key=len, reverse=True):
        if key.endswith(end):
            factor = _UNITS[end].get(found[2].lower(), math.nan)
            return _number(f"{_number(found[1]) * factor:.12g}")
    return math.nan
