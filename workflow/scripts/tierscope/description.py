"""Descriptions of scenarios: their hash, and what differs between two of them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def description_hash(description: Mapping[str, Any]) -> str:
    """Return a short hash of a scenario's description, equal for equal content."""
    text = json.dumps(description, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Return what differs among the keys of `new`: ``training.seed 1 (now 2)``."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return [] if old == new else [f"{path} {old!r} (now {new!r})"]
    return [
        line
        for key in new
        for line in differences(old.get(key), new[key], f"{path}.{key}".lstrip("."))
    ]
