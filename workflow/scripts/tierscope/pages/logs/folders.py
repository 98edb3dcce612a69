"""Name the folders of the pages of single jobs, and the pages beside them."""

import re
from collections.abc import Iterable

REPORT, EXPLORER = "report.html", "explorer.html"
FLEET, FOLDER, TABLES = "fleet_report.html", "jobs", "tables"  # beside each other
_MOST_LETTERS = 80


def folder_names(jobs: Iterable[str]) -> dict[str, str]:
    """Return a different, safe folder name for each job, near to its own name."""
    names: dict[str, str] = {}
    taken = set()
    for job in jobs:
        kept = re.sub(r"[^A-Za-z0-9_-]+", "-", job).strip("-")[:_MOST_LETTERS] or "job"
        name, number = kept, 1
        while name.lower() in taken:
            number += 1
            name = f"{kept}-{number}"
        taken.add(name.lower())
        names[job] = name
    return names
