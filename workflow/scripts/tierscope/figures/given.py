"""What a figure is drawn from: the tables and settings of its rule."""

from functools import cached_property
from typing import Any

import pandas as pd

from tierscope.analysis.breakdown import (
    select_epoch,
    select_scenario,
    select_scenarios,
    shown_epoch,
)
from tierscope.analysis.origin import origin_of
from tierscope.core.provenance import Origin
from tierscope.core.tables import read_table, read_tables


class Given:
    """The inputs and parameters of the rule of a figure.

    Parameters
    ----------
    snakemake : object
        The script's object.
    """

    def __init__(self, snakemake: Any) -> None:
        self._snakemake = snakemake
        self.inputs, self.settings = snakemake.input, snakemake.params

    def table(
        self, name: str, given_as: str = "", **options: Any
    ) -> pd.DataFrame | None:
        """Return a table, of an input of its name or another; None if there is none.

        `options` are those of `read_table`. Of several files all rows are returned.
        """
        if not (files := self.inputs[given_as or name]):
            return None
        is_one = isinstance(files, str)
        return (read_table if is_one else read_tables)(files, name, **options)

    def drawn(self, name: str) -> pd.DataFrame:
        """Return the rows of a table of the scenarios to draw, in their order."""
        return select_scenarios(self.table(name), self.settings.scenarios)

    def shown(self, name: str) -> pd.DataFrame:
        """Return the rows of a table of the figures' scenario and epoch."""
        rows = select_scenario(self.table(name), self.settings.scenario)
        return select_epoch(rows, shown_epoch(rows, self.settings.epoch))

    @cached_property
    def origin(self) -> Origin:
        """Where the numbers come from."""
        return origin_of(self._snakemake)

    @property
    def words(self) -> dict[str, Any]:
        """Where the numbers come from, and what to call datasets."""
        titles = self.settings.dataset_titles
        return {"provenance": self.origin, "dataset_titles": titles}
