"""Launches that the runs still need, and the file that tells that one has ended.

Snakemake removes the outputs of a failed job. So runs are no outputs: a launch moves
each finished run itself, and its only output is a marker, written after the last run.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tierscope.core.scenario import Point, Scenario
from tierscope.experiment.experiment import Experiment
from tierscope.policies import kind_of

MARKER = "launches/{scenario}/cache-{cache_rate}_rep-{repetition}/{nth}.txt"
_LATE_S = 60.0  # longest time until a shared file system shows the files of a job
_POLL_S = 0.5


@dataclass(frozen=True)
class Launch:
    """A launch with points whose runs are missing at the start.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    points : tuple of Point
        All points of the launch, which skips those that have a run.
    missing : tuple of Point
        The points without a run.
    nth : int
        One more than the launches that have ended with this first point.
    """

    scenario: Scenario
    points: tuple[Point, ...]
    missing: tuple[Point, ...]
    nth: int

    @property
    def wildcards(self) -> dict[str, str]:
        """Return what names the marker; a job finds its launch by the first point."""
        return _wildcards(self.scenario, self.points[0]) | {"nth": str(self.nth)}

    @property
    def marker(self) -> str:
        """Return the marker, relative to the folder of the results."""
        return MARKER.format(**self.wildcards)

    def leaves(self, name: str) -> bool:
        """Return whether the launch makes a file of a run, not a later job."""
        return name in kind_of(self.scenario).files


def _wildcards(scenario: Scenario, point: Point) -> dict[str, str]:
    """Return what names the markers of all launches with this first point."""
    return {
        "scenario": scenario.name,
        "cache_rate": f"{point.cache_rate_percent:03d}",
        "repetition": str(point.repetition),
    }


def run_folder(results: Path, scenario: Scenario, point: Point) -> Path:
    """Return the folder of a run."""
    return results / "runs" / scenario.name / point.path


def manifest_of(scenario: Scenario) -> str:
    """Return the manifest of a scenario's dataset, relative to the results' folder."""
    suffix = kind_of(scenario).manifest
    return f"datasets/{scenario.dataset}-{scenario.n_osts}ost{suffix}.parquet"


def listed_bytes(results: Path, scenario: Scenario) -> int | None:
    """Return the bytes of a dataset that a program reads.

    None until it is listed, and of a dataset of ours.
    """
    path = results / manifest_of(scenario)
    if not (scenario.runs_program and path.exists()):
        return None
    from tierscope.core.tables import read_table

    return int(read_table(path, "user_manifest")["size_bytes"].sum())


def missing_launches(experiment: Experiment, results: Path) -> Mapping[str, Launch]:
    """Return the launch that each missing run needs, by the folder of the run.

    Only the existence of files is asked. A run with a part of its files is missing.

    Parameters
    ----------
    experiment : Experiment
        A checked experiment whose runs are measured.
    results : Path
        The folder of its results.
    """
    launches = {}
    for scenario, points in experiment.launches:
        folders = {point: run_folder(results, scenario, point) for point in points}
        names = kind_of(scenario).files
        missing = tuple(
            point
            for point, folder in folders.items()
            if not all((folder / name).exists() for name in names)
        )
        if missing:
            nth = _number_of_next(results, scenario, points[0])
            launch = Launch(scenario, points, missing, nth)
            launches |= {str(folders[point]): launch for point in missing}
    return launches


def _number_of_next(results: Path, scenario: Scenario, first: Point) -> int:
    """Return an unused number: the marker of deleted runs would end a new launch."""
    wildcards = _wildcards(scenario, first)
    folder = (results / MARKER.format(**wildcards, nth=0)).parent
    numbers = [int(path.stem) for path in folder.glob("*.txt") if path.stem.isdecimal()]
    return max(numbers, default=0) + 1


def wait_until_seen(path: Path) -> None:
    """Wait for a file that a job on another machine has made, a minute at most.

    Listing its folder makes a shared file system ask again.
    """
    end = time.monotonic() + _LATE_S
    while not path.exists() and time.monotonic() < end:
        if path.parent.is_dir():
            os.listdir(path.parent)
        time.sleep(_POLL_S)
