"""Tables on how many accelerators a storage feeds."""

from tierscope.core.columns.column import (
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
from tierscope.core.columns.shared import (
    NOT_STORAGE,
    TOGETHER,
    common,
)
from tierscope.core.io_class import IOClass

NOT_ASKED = "not asked"  # what limits
_BAND = (
    "of the repetitions and of the ends of a fitted parameter; missing if there is one "
    "repetition and no fit."
)
_WORKLOAD = text("Name of the workload, as in `workloads.yaml`.")

_ACCELERATORS: Columns = {
    **common("source", "system"),
    "workload": _WORKLOAD,
    **common("cache_rate_percent"),
    "n_accelerators": count("Number of accelerators, which are processes.", 1),
    "n_nodes": count("Number of nodes that they are on.", 1),
    "n_files": count("Number of files of the dataset that they read.", 1),
    "n_steps": count("Steps of an epoch.", 2),
    "n_simulated_steps": count(
        "Steps that were simulated; the rest goes on like their second half.", 2
    ),
    **common("n_repetitions"),
    "compute_time_s": seconds("Computation of a step."),
    "goal_percent": percent("Accelerator utilisation to reach."),
    "utilisation_percent": percent(
        "Accelerator utilisation (AU) of the epoch as DLIO defines it, without the "
        "first step: mean over processes and repetitions."
    ),
    "utilisation_low_percent": if_known.percent(f"Least AU {_BAND}"),
    "utilisation_high_percent": if_known.percent(f"Largest AU {_BAND}"),
    "samples_per_second": number(
        "Samples a second of all accelerators, without the first step.", "1/s"
    ),
    "samples_per_second_low": if_known.number(
        f"Least samples a second {_BAND}",
        "1/s",
    ),
    "samples_per_second_high": if_known.number(
        f"Largest samples a second {_BAND}",
        "1/s",
    ),
    "throughput": number("Bytes a second of all accelerators, likewise.", "bytes/s"),
    "lfs_rate_percent": if_known.percent(
        "Largest cache rate that the LFS of a node has room for, as each node holds "
        "all pinned files; missing if its room is not known."
    ),
    "fits_lfs": flag(
        "Whether the LFS has room for this cache rate, or its room is not known."
    ),
    "limit": text(
        "What limits the first number beyond those that reach the goal: an I/O class, "
        f"`{TOGETHER}` or `{NOT_STORAGE}`; `{NOT_ASKED}` of all others.",
        words=(*map(str, IOClass), TOGETHER, NOT_STORAGE, NOT_ASKED),
    ),
}

TABLES: dict[str, Columns] = {
    "accelerators": _ACCELERATORS,
    "accelerators_fit": {
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
