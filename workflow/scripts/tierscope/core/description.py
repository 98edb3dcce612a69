"""Descriptions of scenarios: their hash, and what differs between two of them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def description_hash(description: Mapping[str, Any]) -> str:
    """Return a short hash of a scenario's description, equal for equal content."""
    text = json.dumps(description, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def difference_words(
    old: Mapping[str, Any], new: Mapping[str, Any], most: int = 4
) -> str:
    """Return in a line what differs between two descriptions, the first of it."""
    lines = differences(old, new)
    more = [f"{len(lines) - most} more"] if len(lines) > most else []
    return "; ".join(lines[:most] + more)


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Return what differs among the keys of `new`: ``training.seed 1 (now 2)``."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return [] if old == new else [f"{path} {old!r} (now {new!r})"]
    lines = []
    for key, value in new.items():
        where = f"{path}.{key}".lstrip(".")
        if key not in old and value is not None:
            lines.append(f"{where} not there yet (now {value!r})")
        else:
            lines += differences(old.get(key), value, where)
    return lines
