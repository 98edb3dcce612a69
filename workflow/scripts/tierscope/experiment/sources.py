"""Where the numbers of an experiment come from, and what differs by that.

Real tiers, emulated ones, or a simulator: others ask the object that stands for it.
"""

import zlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from tierscope.core.machine import Machine
from tierscope.core.scenario import Point, Scenario
from tierscope.core.validation import ConfigError
from tierscope.policies import kind_of
from tierscope.storage.emulated.library import DEVICES_VERSION

Points = tuple[Point, ...]


@dataclass(frozen=True)
class Source:
    """A source of numbers; by itself that of real tiers.

    Parameters
    ----------
    name : str
        What tables and figures call it.
    is_launched : bool
        Whether runs are launched, so that they leave logs, which are audited.
    has_own_devices : bool
        Whether reads are served by real devices: of servers only what was seen is
        known, and repetitions differ by luck.
    observed : tuple of str
        Tables of a sweep that say what real devices did.
    most_reads : int
        Reads of a run, epochs times files, of which tables have a row each.
    of_launch : str
        What a launch of several points is named after, besides its scenario.
    """

    name: str = "measured"
    is_launched: bool = True
    has_own_devices: bool = True
    observed: tuple[str, ...] = ("verdicts", "drift")
    most_reads: int = 1_000_000_000
    of_launch: str = ", repetition {wildcards.repetition}"

    def words(self, devices: dict[str, Any] | None) -> str:
        """Return the source in words, for figures."""
        return self.name

    def machine(self, machine: Machine) -> Machine:
        """Return what of a machine determines the numbers."""
        return replace(machine, devices=None)

    def audited(self, files: Any) -> Any:
        """Return files that audits make of logs, and what follows, if there are any."""
        return files

    def why_no_log(self, scenario: Scenario) -> str | None:
        """Return why runs of a scenario have no log, None if they have one."""
        return None

    def calibration(self, wanted: str | None) -> str | None:
        """Return the calibration that estimates use."""
        return wanted

    def refuse_calibration(self, where: str, system: str) -> None:
        """Raise a ConfigError if there is nothing to calibrate by."""

    def fitted(self, first: Sequence[Point], swept: Sequence[Point]) -> Points:
        """Return the points of the sweep that a calibration fits, by cache rate.

        `first` are those of repetition 0: with them come all other repetitions.
        """
        rates = {one.cache_rate_percent for one in first}
        repeated = [
            one
            for one in swept
            if one.cache_rate_percent in rates and one.repetition > 0
        ]
        return tuple(sorted([*first, *repeated], key=astuple))

    def launches(self, points: Sequence[Point], together: bool) -> list[Points]:
        """Return the points of each launch, which may run several `together`.

        Each repetition has a launch of its own, as repetitions of one share its luck.
        """
        if not together:
            return [(point,) for point in points]
        return [
            tuple(point for point in points if point.repetition == repetition)
            for repetition in sorted({point.repetition for point in points})
        ]

    def in_order(self, scenario: Scenario, launch: Points, seed: int) -> Points:
        """Return the points of a launch in the order in which it runs them.

        It is random. So drift of the machine is no effect of the cache rate.
        """
        import numpy as np

        seeds = seed, launch[0].repetition, zlib.crc32(scenario.name.encode())
        order = np.random.default_rng(seeds).permutation(len(launch))
        return tuple(launch[i] for i in order)


class Emulated(Source):
    """Tiers with emulated devices: the numbers follow from seeds."""

    def machine(self, machine: Machine) -> Machine:
        """Return what of a machine determines the numbers."""
        emulation = {"devices_version": DEVICES_VERSION, **machine.emulation}
        return replace(machine, emulation=emulation)

    def fitted(self, first: Sequence[Point], swept: Sequence[Point]) -> Points:
        """Return the points that a calibration fits; the model knows their seeds."""
        return tuple(first)

    def launches(self, points: Sequence[Point], together: bool) -> list[Points]:
        """Return the points of each launch."""
        return [tuple(points)] if together else [(point,) for point in points]

    def in_order(self, scenario: Scenario, launch: Points, seed: int) -> Points:
        """Return the points of a launch as they are."""
        return launch


class Simulated(Emulated):
    """The simulator, on the devices of the system's file."""

    def words(self, devices: dict[str, Any] | None) -> str:
        """Return the source in words, for figures."""
        origin = (devices or {}).get("origin", "of the emulated devices")
        return f"{self.name}, parameters {origin}"

    def machine(self, machine: Machine) -> Machine:
        """Return what of a machine determines the numbers: all."""
        return machine

    def audited(self, files: Any) -> Any:
        """Return no files: there are no logs, and tables are there without audits."""
        return []

    def why_no_log(self, scenario: Scenario) -> str | None:
        """Return why nobody can write the log of runs, None if we can."""
        reason = kind_of(scenario).why_no_simulated_log
        return reason and reason.format(**scenario.keys)

    def calibration(self, wanted: str | None) -> str | None:
        """Return no calibration, as the devices are known."""
        return None

    def refuse_calibration(self, where: str, system: str) -> None:
        """Raise a ConfigError: there is nothing to calibrate by."""
        raise ConfigError(
            f"{where}: got simulated runs, expected measured ones: the parameters of "
            f"simulated runs are those of system {system}"
        )

    def launches(self, points: Sequence[Point], together: bool) -> list[Points]:
        """Return the points of each job."""
        return [tuple(points)]


_VIRTUAL = {
    "has_own_devices": False,
    "observed": (),
    "most_reads": 100_000_000,
    "of_launch": "",
}
SOURCES = {
    one.name: one
    for one in (
        Source(),
        Emulated("emulated", **_VIRTUAL),
        Simulated("simulated", is_launched=False, **_VIRTUAL),
    )
}
