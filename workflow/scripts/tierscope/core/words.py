"""Put epochs, scenarios, times, improvements and goals into words."""

import math
from collections.abc import Iterable, Mapping

import pandas as pd

from tierscope.core.columns import IMPROVEMENTS, SCENARIO
from tierscope.core.io_class import IOClass

CACHE_RATE_LABEL = "Cache rate (% of files on the LFS)"
# The quantity of a goal, by its name in table `goals`.
GOAL_KINDS = {"io_time": "I/O time", "execution_time": "execution time"}

_OPERATION_LABELS = {
    "read": "READ",
    "meta": "META",
    "write": "WRITE",
    "write meta": "META of written files",
    "read-write meta": "META of files read and written",
}
_ORDINALS = ["first", "second", "third", "fourth", "fifth"]


def epoch_words(epoch: int) -> str:
    """Return an epoch, counted from 0, in words: 1 is the ``second epoch``."""
    if epoch < len(_ORDINALS):
        return f"{_ORDINALS[epoch]} epoch"
    return f"epoch number {epoch + 1}"


def scenario_titles(
    table: pd.DataFrame, dataset_titles: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return the scenarios of a table in the order of their rows, with a title.

    Parameters
    ----------
    table : DataFrame
        Any table with the keys of a scenario.
    dataset_titles : mapping of str to str, optional
        Title of each dataset, such as ``{"small": "128 KiB files"}``.

    Returns
    -------
    DataFrame, shape (n_scenarios, 7)
        The keys and ``title``, such as "128 KiB files, 60 OSTs", followed by the
        other keys that differ between the scenarios (policy, loader, system, source).
    """
    scenarios = table[SCENARIO].drop_duplicates(ignore_index=True)
    others = [key for key in SCENARIO if key not in ("dataset", "n_osts")]
    differing = [key for key in reversed(others) if scenarios[key].nunique() > 1]
    titles = []
    for scenario in scenarios.to_dict("records"):
        dataset = scenario["dataset"]
        words = [(dataset_titles or {}).get(dataset, f"{dataset} dataset")]
        if n_osts := scenario["n_osts"]:
            words.append(f"{n_osts} OST" if n_osts == 1 else f"{n_osts} OSTs")
        words += [str(scenario[key]) for key in differing]
        titles.append(", ".join(words))
    return scenarios.assign(title=titles)


def in_seconds(time_s: float) -> str:
    """Return a time with three digits and its unit, such as ``10.0 s``."""
    return f"{time_s:#.3g}".rstrip(".") + " s"


def improvement_words(percents: Mapping[str, int]) -> str:
    """Return an improvement in words, such as ``GFS-META +50 %``.

    `percents` has the columns of `tierscope.core.columns.IMPROVEMENTS`.
    """
    return changes_words(
        (io_class.label, percents[column])
        for io_class, column in zip(IOClass, IMPROVEMENTS, strict=True)
        if percents[column]
    )


def changes_words(changes: Iterable[tuple[str, int]]) -> str:
    """Return improvements of labelled classes in percent in words."""
    words = [f"{label} +{percent} %" for label, percent in changes]
    return ", ".join(words) or "no improvement"


def class_label(tier: str, interface: str, operation: str) -> str:
    """Return a class of any job in words, such as ``gfs META`` or ``lfs STDIO READ``.

    POSIX is not named. `operation` is one of `tierscope.core.columns.OPERATIONS`.
    """
    named = [] if interface == "POSIX" else [interface]
    return " ".join([tier, *named, _OPERATION_LABELS[operation]])


def ties_words(cheapest: pd.Series, *, minimal: bool) -> str:
    """Return how many other combinations cost as much as the cheapest, if any do.

    `cheapest` has ``n_as_cheap``. From `tierscope.analysis.search.cheapest_combination`
    it counts the minimal combinations, from
    `tierscope.analysis.whatif.cheapest_sufficient` all combinations.
    """
    n_others = int(cheapest["n_as_cheap"])
    if n_others == 0:
        return ""
    others = "other minimal one" if minimal else "other"
    if n_others == 1:
        return f"1 {others} costs as much"
    return f"{n_others} {others}s cost as much"


def goal_words(goal: pd.Series) -> str:
    """Return a goal in words, such as ``the goal of 4.00 s of I/O time``.

    Parameters
    ----------
    goal : Series
        A row of table ``goals``.
    """
    best_s = goal["best_io_time_s"] + goal["difference_s"]
    percent = 100 * goal["goal_s"] / best_s if best_s else math.inf
    how = "estimated " if goal["goal_of"] == "execution_time" else ""
    of = GOAL_KINDS[goal["goal_of"]]
    return (
        f"the goal of {in_seconds(goal['goal_s'])} of {of} "
        f"({percent:.0f} % of the best {how}without improvement)"
    )


def is_out_of_reach(goal: pd.Series) -> bool:
    """Return whether a goal of execution time leaves no I/O time at all."""
    return goal["goal_s"] < goal["difference_s"]


def goal_notes(goal: pd.Series) -> list[str]:
    """Return how a goal of execution time is compared with an I/O time.

    `goal` is a row of table ``goals``.
    """
    if goal["goal_of"] == "io_time":
        return []
    if is_out_of_reach(goal):
        return [
            f"The difference alone, {in_seconds(goal['difference_s'])}, exceeds the "
            "goal: no I/O improvement can meet it. Execution time is estimated as I/O "
            "time plus their mean difference."
        ]
    return [
        "Execution time is estimated as I/O time plus their mean difference, "
        f"{in_seconds(goal['difference_s'])}, so the goal leaves "
        f"{in_seconds(goal['goal_s'] - goal['difference_s'])} of I/O time."
    ]
