"""Choose the jobs that get pages of their own, and the names of their folders."""

import re
from collections.abc import Iterable

import pandas as pd

from tierscope.analysis.logs.choice import jobs_with_pages

REPORT, EXPLORER = "report.html", "explorer.html"
FLEET, FOLDER = "fleet_report.html", "jobs"  # beside each other
_MOST_LETTERS = 80


def page_folders(fleet: pd.DataFrame, n_pages: int) -> dict[str, str]:
    """Return the folder of each job with pages: those with the most hours first.

    Parameters
    ----------
    fleet : DataFrame
        Table ``fleet``.
    n_pages : int
        How many jobs get pages.
    """
    return folder_names(jobs_with_pages(fleet, n_pages))


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
