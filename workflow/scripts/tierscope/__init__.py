"""Measure and analyse the I/O time of distributed training on two storage tiers.

``tierscope.analyse(logs, tiers)`` analyses Darshan logs of any jobs (docs/logs.md).
"""

import os
import sys
from importlib import import_module
from typing import Any


def _refuse_script_of_another() -> None:
    """Refuse a script that lies beside another package of this name."""
    script = getattr(sys.modules["__main__"], "__file__", None) or ""
    own = os.path.join(os.path.dirname(script), __name__, os.path.basename(__file__))
    if os.path.isfile(own) and not os.path.samefile(own, __file__):
        raise ImportError(
            f"{__file__}: was imported by {script}, expected {own}; type `pip "
            "uninstall tierscope`, or take the folder out of PYTHONPATH."
        )


_refuse_script_of_another()


def __getattr__(name: str) -> Any:
    """Load `analyse` when it is used: its libraries take a second."""
    if name == "analyse":
        # Not an import statement: what imports the package does not depend on this.
        return import_module("tierscope.logs.analyse").analyse
    raise AttributeError(f"module 'tierscope' has no attribute {name!r}")
