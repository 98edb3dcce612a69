"""Choose the jobs that are shown first, and that get pages."""

import pandas as pd


def by_hours(fleet: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of table ``fleet``, those with the most hours first."""
    return fleet.sort_values(["io_hours", "job"], ascending=[False, True])


def jobs_with_pages(fleet: pd.DataFrame, n_pages: int) -> list[str]:
    """Return the jobs that get pages: those with the most hours, in this order."""
    return by_hours(fleet)["job"].head(n_pages).tolist()
