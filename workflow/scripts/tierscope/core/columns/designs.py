"""Tables on designs of a storage: which meet a goal, and what they cost."""

from collections.abc import Callable
from functools import partial

from tierscope.core.columns.column import (
    Column,
    Columns,
    count,
    flag,
    if_known,
    number,
    percent,
    points,
    seconds,
    text,
    whole_percent,
)
from tierscope.core.columns.shared import NOT_STORAGE, TOGETHER, common
from tierscope.core.io_class import ALL_CLASSES

NOT_ASKED = "not asked"  # what limits
MEETS, MISSES, UNDECIDED = "meets", "misses", "undecided"
SIMULATED, BOUND = "simulated", "bound"
NO_CHOICE = -1  # of a design
GOALS = ("utilisation_percent", "epoch_time_s", "io_time_s")
PLACEMENTS = ("none", "pinning", "stratified-pinning", "adhoc")
ORIGINS = ("measured", "calibrated", "reconstructed", "declared", "assumed")
_WORKLOAD = text("Name of the workload, as in `workloads.yaml`.")
_NO_COST = "missing if the configuration says it of no hardware."
_NO_MEAN = "mean over the repetitions; missing if only a bound is known"


def _ends(name: str, what: str, best: str, make: Callable[..., Column]) -> Columns:
    """Return the columns of both ends of a result; `best` holds a bound, too."""
    return {
        name.format(end): make(
            f"{word} {what} of repetitions and of the ends of a fitted parameter"
            f"{', or the bound if only that is known' * (end == best)}; missing if "
            "there is one of them."
        )
        for end, word in (("low", "Least"), ("high", "Largest"))
    }


def _chosen(value: str) -> Column:
    """Return the column of the design that is chosen with a value."""
    return count(f"Design that is chosen with {value}; -1 for none.", NO_CHOICE)


_PER_S = partial(if_known.number, unit="1/s")
_RESULTS: Columns = {
    "utilisation_percent": if_known.percent(
        "Accelerator utilisation (AU) of the epoch as DLIO defines it, without the "
        f"first step: mean over the processes, {_NO_MEAN}."
    ),
    **_ends("utilisation_{}_percent", "AU", "high", if_known.percent),
    "samples_per_second": _PER_S(
        f"Samples a second of all accelerators, without the first step: {_NO_MEAN}."
    ),
    **_ends("samples_per_second_{}", "samples a second", "high", _PER_S),
    "epoch_time_s": if_known.seconds(f"Time of an epoch: {_NO_MEAN}."),
    **_ends("epoch_time_{}_s", "time of an epoch", "low", if_known.seconds),
    "io_time_s": if_known.seconds(
        f"I/O time of an epoch of the slowest process: {_NO_MEAN}, or if a part of "
        "the epoch was simulated."
    ),
    **_ends("io_time_{}_s", "I/O time", "low", if_known.seconds),
    "throughput": if_known.number(
        f"Bytes a second of all accelerators, likewise: {_NO_MEAN}.", "bytes/s"
    ),
}

_DESIGNS: Columns = {
    **common("source", "system"),
    "workload": _WORKLOAD,
    "share": number("Part of the hours that the storage serves this workload, of 1."),
    "design": count("Number of the design in the study, counted from 0."),
    "n_accelerators": count("Number of accelerators, which are processes.", 1),
    "n_nodes": count("Number of nodes that they are on.", 1),
    "object_servers": count("Object servers of the GFS: OSTs.", 1),
    "n_links": count("Network links of the GFS.", 1),
    "metadata_speed": number("Factor that divides the times of opens and closes."),
    "lfs_devices": count("Devices of the LFS of a node.", 1),
    "lfs_gib": if_known.number(
        "Room of such a device; missing if it is not known.", "GiB"
    ),
    "n_lfs_devices": count(
        "Devices of the LFS of all nodes; 0 if nothing is to be on them."
    ),
    "placement": text("Policy that says which files are on the LFS.", PLACEMENTS),
    **common("cache_rate_percent"),
    "n_files": count("Number of files of the dataset that they read.", 1),
    "n_steps": count("Steps of an epoch.", 2),
    "n_simulated_steps": count(
        "Steps that were simulated; the rest goes on like their second half.", 2
    ),
    "n_repetitions": count(
        "Number of simulations that the row rests on; 0 if only a bound is known."
    ),
    "compute_time_s": seconds("Computation of a step."),
    "goal": text("Column that the goal is of.", GOALS),
    "goal_value": number("Value to reach, in percent or seconds."),
    **_RESULTS,
    "lfs_rate_percent": if_known.percent(
        "Largest cache rate that the LFS has room for; missing if its room is not "
        "known."
    ),
    "fits_lfs": flag(
        "Whether the LFS has room for this cache rate, or its room is not known."
    ),
    "verdict": text(
        f"`{MEETS}` if both ends of the interval reach the goal, `{MISSES}` if neither "
        f"does, else `{UNDECIDED}`.",
        (MEETS, MISSES, UNDECIDED),
    ),
    "known_by": text(
        f"`{SIMULATED}`, or `{BOUND}`: even the best case misses the goal.",
        (SIMULATED, BOUND),
    ),
    "limit": text(
        "What limits an answer, or the first number beyond those that reach the goal: "
        f"an I/O class, `{TOGETHER}` or `{NOT_STORAGE}`; `{NOT_ASKED}` of all others.",
        words=(*map(str, ALL_CLASSES), TOGETHER, NOT_STORAGE, NOT_ASKED),
    ),
    "linear": if_known.number(
        "Quantity of the goal by linear scaling from the smallest simulated design; "
        "missing without one."
    ),
    "demand": if_known.number(
        "Likewise by bandwidth alone: that of the storage over what is demanded."
    ),
    "usable_tib": if_known.number(f"Usable room of the GFS; {_NO_COST}", "TiB"),
    "price": if_known.number(f"Price of the storage in the unit of cost; {_NO_COST}"),
    "watts": if_known.number(f"Power of the storage; {_NO_COST}", "W"),
    "rack_units": if_known.number(f"Rack units of the storage; {_NO_COST}"),
}

TABLES: dict[str, Columns] = {
    "designs": _DESIGNS,
    "designs_inputs": {
        "workload": _WORKLOAD,
        **common("parameter", "unit"),
        "origin": text("How the value is known.", ORIGINS),
        "value": number("Value that the study takes, in its unit."),
        "low": if_known.number("Least value that it may have."),
        "high": if_known.number("Largest value that it may have."),
        "choice": _chosen("the value"),
        "choice_low": _chosen("the least value"),
        "choice_high": _chosen("the largest value"),
    },
    "designs_fit": {
        **common("source", "system"),
        "workload": _WORKLOAD,
        "cache_rate_percent": whole_percent("Cache rate of the fit."),
        **common("parameter", "unit"),
        "value": number("Value that gives the utilisation, in its unit."),
        "value_low": number(
            "Value that gives the utilisation less its deviation, in its unit."
        ),
        "value_high": number(
            "Value that gives the utilisation and its deviation, in its unit."
        ),
        "n_accelerators": count("Number of accelerators that were measured.", 1),
        "utilisation_percent": percent("Their utilisation, to which it was fitted."),
        "deviation_points": points("Its deviation."),
    },
}
