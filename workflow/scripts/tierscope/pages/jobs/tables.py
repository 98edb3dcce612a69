"""Read the tables of an analysis of Darshan logs for figures and pages."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from tierscope.core.columns import TABLES
from tierscope.core.tables import read_table
from tierscope.pages.jobs.anonymous import anonymise


def read_job_tables(
    paths: Mapping[str, str | Path], *, anonymous: bool
) -> dict[str, pd.DataFrame]:
    """Return those tables of an analysis that are given, by name.

    Parameters
    ----------
    paths : mapping of str to path
        The file of each table by its name; other names, such as those of templates, are
        left out.
    anonymous : bool
        Whether to replace what identifies people and machines
        (`tierscope.pages.jobs.anonymous.anonymise`). Then give tables ``logs``,
        ``refusals``, ``tier_prefixes`` and ``jobs`` first, as the short names come from
        them, so that all figures and pages use the same ones.

    Raises
    ------
    TableError
        If a file breaks its contract.
    """
    found = {name: paths[name] for name in paths.keys() if name in TABLES}  # noqa: SIM118
    tables = {name: read_table(path, name) for name, path in found.items()}
    return anonymise(tables) if anonymous else tables
