"""What a figure is drawn from: the tables and settings of its rule."""

from functools import cache, cached_property
from typing import Any

import pandas as pd

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
        self.inputs, self.settings = snakemake.input, snakemake.params
        self.table = cache(self._table)  # words are made of what is drawn

    @cached_property
    def origin(self) -> Origin:
        """Where the numbers come from."""
        return Origin(self.settings.provenance)

    def _table(
        self, name: str, given_as: str = "", **options: Any
    ) -> pd.DataFrame | None:
        """Return a table, of an input of its name or another; None if there is none.

        `options` are those of `read_table`. Of several files all rows are returned.
        """
        if not (files := self.inputs[given_as or name]):
            return None
        is_one = isinstance(files, str)
        return (read_table if is_one else read_tables)(files, name, **options)
