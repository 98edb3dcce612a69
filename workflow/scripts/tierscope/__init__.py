"""Measure and analyse the I/O time of distributed training on two storage tiers.

``tierscope.analyse(logs, tiers)`` analyses Darshan logs of any jobs (docs/logs.md).
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Load `analyse` when it is used: its libraries take a second."""
    if name == "analyse":
        # Not an import statement: what imports the package does not depend on this.
        return import_module("tierscope.jobs.analyse").analyse
    raise AttributeError(f"module 'tierscope' has no attribute {name!r}")
