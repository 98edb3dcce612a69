"""The tables of one scenario, with the numbers that formulas of claims need."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from tierscope.analysis.breakdown import epoch_times, select_epoch
from tierscope.analysis.whatif import estimate, mean_over_repetitions
from tierscope.core.columns import CLASSES, SCENARIO
from tierscope.core.io_class import IOClass
from tierscope.core.verdict import NotMeasurable

_HALF_STEP_PERCENT = 2.5  # of the paper's cache rates


@dataclass(frozen=True)
class ScenarioTables:
    """The measurements of an experiment in one scenario.

    `breakdown` is of one epoch; the other tables are of all, and `epochs` may be empty.
    `whole` is the scenario that this is a single repetition of.
    """

    io_time: pd.DataFrame
    breakdown: pd.DataFrame
    epochs: pd.DataFrame
    epoch: int
    title: str
    whole: "ScenarioTables | None" = None
    repetition: int | None = None

    def key(self, name: str) -> Any:
        """Return one of the keys of the scenario, such as its ``n_osts``."""
        return self.io_time[name].iloc[0]

    @cached_property
    def file_size_bytes(self) -> float:
        """Return the mean size of the files that were read, in bytes."""
        sums = self.io_time.groupby("io_class")[["operations", "bytes"]].sum()
        opens = sums.loc[[IOClass.GFS_META, IOClass.LFS_META], "operations"].sum()
        return sums["bytes"].sum() / opens if opens else 0.0

    def is_of(self, facts: Mapping[str, Any]) -> bool:
        """Return whether keys, number of processes and files per epoch are as given."""
        by = ["cache_rate_percent", "repetition"]
        found = {name: self.key(name) for name in SCENARIO} | {
            "n_processes": self.io_time["rank"].nunique(),
            "n_files": n_opens(self.one_epoch, by).sum(axis="columns").max(),
        }
        return all(found[name] == value for name, value in facts.items())

    @cached_property
    def n_repetitions(self) -> int:
        """Return the smallest number of repetitions of a cache rate."""
        by_rate = self.io_time.groupby("cache_rate_percent")["repetition"]
        return int(by_rate.nunique().min())

    @cached_property
    def repetitions(self) -> set[int]:
        """Return the repetitions of all cache rates that were run more than once."""
        of_rates = self.io_time.groupby("cache_rate_percent")["repetition"].unique()
        several = [set(some.tolist()) for some in of_rates if len(some) > 1]
        return set.intersection(*several) if several else set()

    @cached_property
    def rates_run_once(self) -> list[int]:
        """Return the cache rates that were run once, in percent, ascending."""
        by_rate = self.io_time.groupby("cache_rate_percent")["repetition"].nunique()
        return by_rate.index[by_rate == 1].tolist()

    def of_repetition(self, repetition: int) -> "ScenarioTables":
        """Return the tables of one repetition, with all rates that were run once."""
        if repetition not in self._of_repetitions:
            self._of_repetitions[repetition] = replace(
                self,
                io_time=self._rows_of(self.io_time, repetition),
                breakdown=self._rows_of(self.breakdown, repetition),
                epochs=self._rows_of(self.epochs, repetition),
                whole=self,
                repetition=repetition,
            )
        return self._of_repetitions[repetition]

    def _rows_of(self, table: pd.DataFrame, repetition: int) -> pd.DataFrame:
        """Return the rows of a repetition, with those of rates that were run once."""
        is_once = table["cache_rate_percent"].isin(self.rates_run_once)
        return table[(table["repetition"] == repetition) | is_once]

    @cached_property
    def _of_repetitions(self) -> dict[int, "ScenarioTables"]:
        """The tables of repetitions so far: many claims ask for the same ones."""
        return {}

    @cached_property
    def _improved_s(self) -> dict[frozenset, pd.Series]:
        """The times after improvements so far."""
        return {}

    @cached_property
    def _estimated(self) -> dict[tuple, pd.DataFrame]:
        """The estimates of all repetitions so far."""
        return {}

    @cached_property
    def rates(self) -> list[int]:
        """Return the measured cache rates in percent, ascending."""
        return sorted(self.io_time["cache_rate_percent"].unique().tolist())

    def rate(self, wanted_percent: float) -> int:
        """Return the measured cache rate within half a step of the wanted one."""
        self.need_rates([wanted_percent])
        return self._nearest(wanted_percent)

    def need_rates(self, wanted_percent: Sequence[float]) -> None:
        """Raise a NotMeasurable if `rate` lacks some cache rates."""
        lacking = [
            f"{wanted:g}"
            for wanted in wanted_percent
            if abs(self._nearest(wanted) - wanted) > _HALF_STEP_PERCENT
        ]
        if lacking:
            rates = ", ".join(map(str, self.rates))
            raise NotMeasurable(
                f"cache rates are missing in {self.title} (policy "
                f"{self.key('policy')}, loader {self.key('loader')}: no run within "
                f"{_HALF_STEP_PERCENT} points of {', '.join(lacking)} %; only at "
                f"{rates} %)"
            )

    def _nearest(self, wanted_percent: float) -> int:
        """Return the measured cache rate that is nearest to the wanted one."""
        return min(self.rates, key=lambda rate: abs(rate - wanted_percent))

    @cached_property
    def one_epoch(self) -> pd.DataFrame:
        """Return the rows of ``io_time`` of the epoch."""
        return select_epoch(self.io_time, self.epoch)

    @cached_property
    def times_s(self) -> pd.Series:
        """Return the I/O time of the slowest process in seconds; index: cache rate."""
        return self.improved_times_s({})

    def improved_times_s(self, improvement_percent: Mapping[str, int]) -> pd.Series:
        """Return `times_s` after an improvement."""
        key = frozenset(improvement_percent.items())
        if key not in self._improved_s:
            points = self.points([improvement_percent], self.rates)
            by_rate = points.set_index("cache_rate_percent")
            self._improved_s[key] = by_rate["io_time_s"]
        return self._improved_s[key].copy()

    def points(
        self, improvements_percent: Iterable[Mapping[str, int]], rates: Sequence[int]
    ) -> pd.DataFrame:
        """Return the I/O time after improvements at some of the cache rates."""
        improvements_percent = list(improvements_percent)
        estimates = (self.whole or self)._estimates(improvements_percent, rates)
        if self.whole:
            estimates = self.whole._rows_of(estimates, self.repetition)
        return mean_over_repetitions(estimates)

    def _estimates(
        self, improvements_percent: Sequence[Mapping[str, int]], rates: Sequence[int]
    ) -> pd.DataFrame:
        """Return table ``estimates`` of all repetitions at some of the cache rates."""
        key = *rates, *(frozenset(one.items()) for one in improvements_percent)
        if key not in self._estimated:
            rows = self.one_epoch[self.one_epoch["cache_rate_percent"].isin(rates)]
            found = estimate(rows, improvements_percent, [self.epoch])
            self._estimated[key] = found
        return self._estimated[key]

    @cached_property
    def epoch_times(self) -> pd.DataFrame:
        """Return execution and I/O time of every epoch."""
        if self.whole:
            return self.whole._rows_of(self.whole.epoch_times, self.repetition)
        return epoch_times(self.epochs, self.io_time)

    @cached_property
    def class_times_s(self) -> pd.DataFrame:
        """Return the slowest process's seconds by cache rate (index) and I/O class."""
        by = ["cache_rate_percent", "io_class"]
        return self.breakdown.groupby(by)["time_s"].mean().unstack()[CLASSES]


def n_opens(io_time: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the number of opens by some keys (index) and metadata class."""
    opens = io_time[io_time["io_class"].isin([IOClass.GFS_META, IOClass.LFS_META])]
    sums = opens.groupby([*by, "io_class"])["operations"].sum()
    return sums.unstack("io_class")
