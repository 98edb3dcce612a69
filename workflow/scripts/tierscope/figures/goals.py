"""Say in words what a goal is and whether it can be met."""

import math
import textwrap

import pandas as pd

from tierscope.core.words import (
    GOAL_KINDS,
    in_seconds,
)


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


def wrapped(words: str, width: int) -> str:
    """Return what `improvement_words` returns in lines that keep a class together."""
    for apart in (" +", " %", " the ", " rule", " model"):
        words = words.replace(apart, apart.replace(" ", "\N{NO-BREAK SPACE}"))
    return textwrap.fill(
        words,
        width,
        break_on_hyphens=False,
    ).replace("\N{NO-BREAK SPACE}", " ")
