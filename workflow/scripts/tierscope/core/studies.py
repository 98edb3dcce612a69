"""What studies compare: scenarios and calibrations, policies and references."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tierscope.core.scenario import CalibrationPlan, Scenario, Sweep

AS_WRITTEN = "as written"
# Goals for the mean absolute percentage error of the slowest process's I/O time: for
# points like those of the calibration, and for OST counts that it has not seen. In the
# worst epoch, I/O time and execution time may err so many times as much.
GOAL_PERCENT, EXTRAPOLATION_GOAL_PERCENT = 5, 10
WORST_FACTOR = 2


@dataclass(frozen=True)
class Pair:
    """A scenario and the calibration that its prediction starts from.

    Parameters
    ----------
    calibration : str
        Its name; `AS_WRITTEN` where the parameters are those of the system file.
    scenario : mapping
        Keys of the scenario (`Scenario.keys`).
    calibrated_percent : tuple of int
        Cache rates of the scenario that the calibration was fitted to.
    goal_percent : int
        Goal: largest mean absolute percentage error.
    scaled_n_osts : int or None
        OST count whose measurements are scaled, if scaling is studied.
    """

    calibration: str
    scenario: Mapping[str, str | int]
    calibrated_percent: tuple[int, ...] = ()
    goal_percent: int = GOAL_PERCENT
    scaled_n_osts: int | None = None


def studied_pairs(
    scenarios: Sequence[Mapping[str, str | int]],
    calibrations: Mapping[str, CalibrationPlan],
    main: str | None,
) -> list[Pair]:
    """Return which scenario is predicted from which calibration.

    Parameters
    ----------
    scenarios : sequence of mappings
        Keys of the scenarios of the sweep.
    calibrations : mapping of str to CalibrationPlan
        The calibrations for which the sweep has the runs, by name.
    main : str or None
        The calibration that predicts all scenarios; it comes first. If it is none of
        `calibrations`, the first of these takes its place. Each other one
        predicts the scenarios on OST counts that it has not seen, or all scenarios if
        there are no such ones.
    """
    pairs = []
    if main not in calibrations:
        main = next(iter(calibrations), None)
    for name in sorted(calibrations, key=lambda name: name != main):
        plan = calibrations[name]
        fitted = plan.scenario.keys
        seen = {fitted["n_osts"], *plan.probed_n_osts}
        unseen = [keys for keys in scenarios if keys["n_osts"] not in seen]
        for keys in scenarios if name == main else unseen or scenarios:
            extrapolated = keys["n_osts"] not in seen
            rates = plan.calibrated_percent if keys == fitted else ()
            scaled = {**keys, "n_osts": fitted["n_osts"]}
            pairs.append(
                Pair(
                    name,
                    dict(keys),
                    rates,
                    EXTRAPOLATION_GOAL_PERCENT if extrapolated else GOAL_PERCENT,
                    fitted["n_osts"] if extrapolated and scaled in scenarios else None,
                )
            )
    return pairs


def holds_out(pair: Pair, sweep: Sweep) -> bool:
    """Return whether a pair's scenario has cache rates that were not fitted."""
    return any(
        point.cache_rate_percent not in pair.calibrated_percent
        for scenario, points in sweep.items()
        if scenario.keys == pair.scenario
        for point in points
    )


def written_pairs(scenarios: Sequence[Mapping[str, str | int]]) -> list[Pair]:
    """Return a pair of each scenario with the parameters of the system file.

    Scaling starts from the same scenario on the fewest OSTs.
    """
    pairs = []
    for keys in scenarios:
        others = [one for one in scenarios if {**one, "n_osts": keys["n_osts"]} == keys]
        fewest = min(one["n_osts"] for one in others)
        scaled = fewest if 0 < fewest < keys["n_osts"] else None
        pairs.append(Pair(AS_WRITTEN, dict(keys), scaled_n_osts=scaled))
    return pairs


def without_reference(sweep: Sweep) -> Scenario | None:
    """Return a scenario of a sweep without a reference, which reads the GFS alone."""
    references = {
        (scenario.dataset, scenario.n_osts, scenario.loader, point.repetition)
        for scenario, points in sweep.items()
        for point in points
        if point.cache_rate_percent == 0
    }
    for scenario, points in sweep.items():
        key = (scenario.dataset, scenario.n_osts, scenario.loader)
        if any((*key, point.repetition) not in references for point in points):
            return scenario
    return None


def has_policies(sweep: Sweep, scene: Mapping[str, str | int]) -> bool:
    """Return whether a sweep has policies to compare, and some files on the LFS.

    `scene` holds keys of scenarios, such as ``{"dataset": "small"}``, that must fit.
    """
    fitting = {
        scenario: points
        for scenario, points in sweep.items()
        if scene.items() <= scenario.keys.items()
    }
    rates = {
        point.cache_rate_percent for points in fitting.values() for point in points
    }
    return len({scenario.policy for scenario in fitting}) > 1 and any(rates)
