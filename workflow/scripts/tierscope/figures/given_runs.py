"""What a figure of runs is drawn from: the rows to show, and what spoils them."""

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
from tierscope.figures import given


class Given(given.Given):
    """The inputs and parameters of the rule of a figure of an experiment's runs."""

    def __init__(self, snakemake: Any) -> None:
        super().__init__(snakemake)
        self._snakemake = snakemake

    def drawn(self, name: str) -> pd.DataFrame:
        """Return the rows of a table of the scenarios to draw, in their order."""
        return select_scenarios(self.table(name), self.settings.scenarios)

    def shown(self, name: str) -> pd.DataFrame:
        """Return the rows of a table of the figures' scenario and epoch."""
        rows = select_scenario(self.table(name), self.settings.scenario)
        return select_epoch(rows, shown_epoch(rows, self.settings.epoch))

    @cached_property
    def origin(self) -> Origin:
        """Where the numbers come from, with what spoils them."""
        return origin_of(self._snakemake)

    @property
    def words(self) -> dict[str, Any]:
        """Where the numbers come from, and what to call datasets."""
        titles = self.settings.dataset_titles
        return {"provenance": self.origin, "dataset_titles": titles}
