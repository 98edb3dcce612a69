"""The summary of a study of designs: the answer first, then all that it rests on."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from tierscope.analysis.designs.answer import (
    GOALS,
    SENTENCES,
    Answer,
    changing,
    fed_words,
    is_single,
    limit_words,
    quantity_words,
    value_words,
)
from tierscope.analysis.designs.choice import BY_HARDWARE, BY_HOUR, PRICE, STORAGE
from tierscope.core.columns.designs import (
    BOUND,
    MEETS,
    MISSES,
    NO_CHOICE,
    NOT_ASKED,
    UNDECIDED,
)
from tierscope.core.words import capitalised, count_words, number_words, size_words

_STATEMENTS = (
    "Simulated: a model of the whole system, no process read a file. An accelerator is "
    "a process; AU is computation over time, both without the first step (DLIO)."
)
MOST_STORAGES = 12  # in words and in a panel of the figure
_GAIN = 1.0  # points or percent: less is no help
BY_WORDS = {
    PRICE: "Price (declared)",
    "watts": "Watts (declared)",
    "rack_units": "Rack units (declared)",
    BY_HOUR: "Price of a useful accelerator-hour (declared)",
    BY_HARDWARE: "Hardware (of each kind its part of the most, mean)",
}
NULL_WORDS = {
    "linear": "linear scaling from the smallest design",
    "demand": "bandwidth over demand",
}


def summary_text(
    answer: Answer,
    fit: pd.DataFrame | None,
    sources: Mapping[str, str],
    provenance: str,
) -> str:
    """Return in words what to buy, why, and what it rests on.

    Parameters
    ----------
    answer : Answer
        The study.
    fit : DataFrame or None
        Table ``designs_fit``, of one row.
    sources : mapping of str to str
        Where the numbers of each workload come from.
    provenance : str
        Source and system, in words.
    """
    lines = [*answer.sentences(), "", f"Source: {provenance}.", statements(answer)]
    if fit is not None:
        lines.append(fit_words(fit.iloc[0]))
    lines += ["", *choice_lines(answer)]
    for name, rows in answer.table.groupby("workload", sort=False):
        lines += ["", *workload_lines(answer, rows, sources[name])]
        if fit is not None:
            lines += map(row_words, rows.to_dict("records"))
    return "\n".join(lines)


def statements(answer: Answer) -> str:
    """Return what a study is, and whether points have no interval."""
    once = f" What has no interval was simulated once{answer.left_out}."
    return _STATEMENTS + once * bool(is_single(answer.table).any())


def choice_lines(answer: Answer) -> Iterator[str]:
    """Yield what the choice stands among: the front, room, other models, inputs."""
    choice = answer.choice
    if len(answer.told) > 1:
        yield (
            f"{BY_WORDS[choice.by]} and goal (simulated): the front, what misses next "
            f"and is undecided, with {choice.need} accelerators or more:"
        )
        yield from (f"  {front_words(answer, one)}" for one in answer.told)
    yield from filter(
        None, [gib_words(answer), null_words(answer), *asked_inputs(answer)]
    )


def front_words(answer: Answer, design: int) -> str:
    """Return a line of the front."""
    found, units = answer.choice.costs.loc[design], cost_units(answer)
    sums = [
        f"{number_words(found[one])} {units[one]}".rstrip()
        for one in found.dropna().index
        if one in units
    ]
    sums = sums or [f"{100 * found[BY_HARDWARE]:.0f} % of the hardware"]
    fed, verdict = fed_words(answer.rows(design)), answer.designs["verdict"][design]
    return f"{answer.names[design]}: {', '.join(sums)}; {fed}: {verdict}"


def cost_units(answer: Answer) -> dict[str, str]:
    """Return the units of the columns of costs."""
    hour = f"{answer.cost.unit} a useful accelerator-hour".strip()
    return {
        PRICE: answer.cost.unit,
        "watts": "W",
        "rack_units": "rack units",
        BY_HOUR: hour,
    }


def gib_words(answer: Answer) -> str:
    """Return after which room of a device more does not help, with all else equal."""
    design, designs = answer.choice.chosen, answer.designs
    is_asked = design != NO_CHOICE and designs["n_lfs_devices"][design]
    if not is_asked or designs["lfs_gib"].nunique() < 2:
        return ""
    others = ["n_accelerators", *(one for one in STORAGE if one != "lfs_gib")]
    same = (designs[others] == designs.loc[design, others]).all(axis=1)
    rows = designs[same & designs["is_simulated"]].sort_values("lfs_gib")
    enough = rows[rows["margin"] >= rows["margin"].iloc[-1] - _GAIN].iloc[0]
    gib = f"{enough['lfs_gib']:,g} GiB a device"
    if enough.name == rows.index[-1]:  # the only one, too
        return f"Whether more than {gib} helps is unknown."
    unit = GOALS[answer.table["goal"].iloc[0]].missed.replace("points", "point")
    return (
        f"More than {gib} helps by less than 1 {unit} "
        f"(of {', '.join(f'{one:,g}' for one in rows['lfs_gib'])} GiB)."
    )


def null_words(answer: Answer) -> str:
    """Return what simple models choose in place of the simulator."""
    chosen = answer.choice.null.items()
    told = [
        f"{NULL_WORDS[one]}: {_chosen_words(answer, found)}" for one, found in chosen
    ]
    return SENTENCES["null"].format(models="; ".join(told)) if told else ""


def _chosen_words(answer: Answer, design: int) -> str:
    """Return what a simple model chooses, and what the simulator says of it."""
    if design in (NO_CHOICE, answer.choice.chosen):
        return "none" if design == NO_CHOICE else "the same"
    return f"{answer.names[design]} ({answer.designs['verdict'][design]})"


def asked_inputs(answer: Answer) -> Iterator[str]:
    """Yield which inputs would change the choice and to what, and which would not."""
    inputs, found = answer.inputs, changing(answer.inputs)
    for one in found.to_dict("records"):
        ends = {one["low"]: one["choice_low"], one["high"]: one["choice_high"]}
        told = [
            f"with {quantity_words(value, one['unit'])} {answer.names.get(of, 'none')}"
            for value, of in ends.items()
            if of != one["choice"]
        ]
        value = quantity_words(one["value"], one["unit"])
        yield (
            f"{one['parameter']} of {one['workload']} is {one['origin']} ({value}). "
            f"The choice would be: {'; '.join(told)}."
        )
    others = inputs[~inputs["parameter"].isin(found["parameter"])]
    named = (others["parameter"] + " (" + others["origin"] + ")").unique()
    if len(named):
        yield f"No change by {', '.join(named)}."


def workload_lines(answer: Answer, rows: pd.DataFrame, source: str) -> Iterator[str]:
    """Yield what is said of a workload, of which `rows` are."""
    first = rows.iloc[0]
    goal = GOALS[first["goal"]]
    yield (
        f"{first['workload']} on {first['system']}: "
        f"{number_words(first['compute_time_s'])} s of computation a step, goal: "
        f"{goal.name} of {first['goal_value']:g} {goal.unit}"
    )
    if rows["n_accelerators"].nunique() > 1:
        yield from (f"  {line}" for line in most_lines(answer, rows))
    yield from (f"  {line}" for line in bound_words(rows))
    yield f"  {steps_words(rows)}"
    yield f"  Workload: {source.strip().rstrip('.')}."


def most_lines(answer: Answer, rows: pd.DataFrame) -> Iterator[str]:
    """Yield for each storage how many accelerators of a workload it feeds.

    `rows` are those of the workload.
    """
    names = shown_names(answer)
    by_name = dict(list(rows.groupby(rows["design"].map(answer.names), sort=False)))
    for name in names:
        if name in by_name:
            yield f"{name}: {most_words(by_name[name])}"
    if len(names) < answer.names.nunique():
        yield f"({answer.names.nunique() - len(names)} more in table designs)"


def shown_names(answer: Answer) -> list[str]:
    """Return the storages to show: all if they are few, else those on the front."""
    names = answer.names.unique().tolist()
    if len(names) <= MOST_STORAGES:
        return names
    choice = answer.choice
    first = [choice.chosen, choice.miss, *answer.front]
    known = answer.names[[one for one in first if one in answer.names.index]]
    return known.unique().tolist()[:MOST_STORAGES]


def most_words(rows: pd.DataFrame) -> str:
    """Return how many accelerators surely reach the goal, and what limits the next."""
    rows = rows.sort_values("n_accelerators")
    open_ones = (rows["known_by"] == BOUND) & (rows["verdict"] == UNDECIDED)
    unknown, rows = rows[open_ones], rows[~open_ones]
    not_simulated = _numbers_words("Not simulated", unknown)
    if rows.empty:
        return f"{not_simulated}."
    reaches = rows["verdict"] == MEETS
    largest = rows.loc[reaches, "n_accelerators"].max() if reaches.any() else 0
    beyond = rows[rows["n_accelerators"] > largest]
    if not largest:
        least = rows.iloc[0]
        words = f"none; {least['n_accelerators']} reach {value_words(least)}"
    else:
        best = rows[rows["n_accelerators"] == largest].iloc[0]
        counted = count_words(largest, "accelerator", separator="")
        samples = number_words(best["samples_per_second"])
        words = (
            f"{counted} at {value_words(best)}, {samples} samples and "
            f"{size_words(best['throughput'])} a second"
        )
    if beyond.empty:
        steps = count_words(best["n_steps"], "step", separator="")
        words += f", the largest number that was simulated (an epoch has {steps})"
    parts = [words, _next_words(beyond)]
    parts += [_numbers_words("Undecided", rows[rows["verdict"] == UNDECIDED])]
    parts += [not_simulated, room_words(rows, largest)]
    fewer = rows[rows["n_accelerators"] < largest]
    parts += [_numbers_words("Fewer miss the goal", fewer[fewer["verdict"] == MISSES])]
    return ". ".join(filter(None, parts)) + "."


def _next_words(beyond: pd.DataFrame) -> str:
    """Return what limits the next number of accelerators, if that was asked."""
    asked = beyond[beyond["limit"] != NOT_ASKED].head(1)
    if asked.empty:
        return ""
    n = asked["n_accelerators"].item()
    words = capitalised(limit_words(asked, str(n)))
    return f"{words}: {value_words(asked.iloc[0])}"


def _numbers_words(what: str, rows: pd.DataFrame) -> str:
    """Return the numbers of accelerators of rows, if there are some."""
    return f"{what}: {', '.join(map(str, rows['n_accelerators']))}" * (not rows.empty)


def room_words(rows: pd.DataFrame, largest: int) -> str:
    """Return how many accelerators the LFS has room for, if not for all."""
    without = rows[~rows["fits_lfs"] & (rows["n_accelerators"] <= max(largest, 1))]
    if without.empty:
        return ""
    fitting = rows[rows["fits_lfs"]]["n_accelerators"].max()
    if pd.isna(fitting):
        most = rows["lfs_rate_percent"].max()
        return f"The LFS has no room for it: {most:.3g} % at most"
    return f"Of the simulated numbers, the LFS has room for it up to {fitting}"


def steps_words(rows: pd.DataFrame) -> str:
    """Return how much of the epochs was simulated."""
    parts = rows["n_simulated_steps"] < rows["n_steps"]
    steps = rows.loc[parts, "n_simulated_steps"].max() if parts.any() else 0
    if not steps:
        return "All steps of each epoch were simulated."
    ends = rows["n_steps"].min(), rows["n_steps"].max()
    of = " to ".join(map(str, sorted(set(ends))))
    most = "" if parts.all() else "At most "
    return (
        f"{most}{steps} of {of} steps of an epoch were simulated; the rest goes on "
        "like their second half."
    )


def bound_words(rows: pd.DataFrame) -> Iterator[str]:
    """Yield why designs were not simulated, if some were not."""
    bounds = rows.loc[rows["known_by"] == BOUND, "verdict"]
    if n := int((bounds == MISSES).sum()):
        counted = count_words(n, "design misses", "designs miss")
        yield f"{counted} the goal even at best (not simulated)."
    if n := int((bounds != MISSES).sum()):
        counted = count_words(n, "design was", "designs were")
        yield (
            f"{counted} not simulated: at best no better than one with as little "
            "hardware, or there were simulations enough."
        )


def row_words(row: Mapping[str, Any]) -> str:
    """Return the utilisation and the samples a second of a row, for predictions."""
    if row["known_by"] == BOUND:
        return f"  {fed_words(pd.DataFrame([row]))}"
    samples = f"{row['samples_per_second']:.2f}"
    if not math.isnan(low := row["samples_per_second_low"]):
        samples += f" ({low:.2f} to {row['samples_per_second_high']:.2f})"
    return f"  {fed_words(pd.DataFrame([row]))}; {samples} samples a second"


def fit_words(fit: pd.Series) -> str:
    """Return what was fitted, of a row of table ``designs_fit``."""
    ends = sorted((fit["value_low"], fit["value_high"]))
    low, high = (f"{end:.4g}" for end in ends)
    counted = count_words(fit["n_accelerators"], "accelerator")
    return (
        f"Fitted: {fit['parameter']} = {fit['value']:.4g} {fit['unit']} "
        f"({low} to {high}), which gives {counted} an AU of "
        f"{fit['utilisation_percent']:g} \N{PLUS-MINUS SIGN} "
        f"{fit['deviation_points']:g} %."
    )
