"""How the script of a rule begins."""

import sys


def log_to(path: str) -> None:
    """Send all that a script prints, errors included, to the log of its rule.

    A line is there as soon as it is printed, so a log can be read meanwhile.
    """
    sys.stdout = sys.stderr = open(path, "w", buffering=1, encoding="utf-8")
