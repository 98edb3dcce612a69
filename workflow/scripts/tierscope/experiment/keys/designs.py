"""Keys of a configuration of accelerators, of which its schema is made."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NotRequired, TypedDict

from tierscope.core.given.keys import above, from_to, rules
from tierscope.experiment.keys.config import PARAMETERS

_SEVERAL = rules(minItems=1, uniqueItems=True)
_Many = Annotated[int, from_to(1, 1_000_000)]
# Those of a rate limit are not fitted.
_Parameter = Literal[tuple(one for one in PARAMETERS if ".limit_" not in one)]


class Fit(TypedDict):
    """A measured utilisation, to which a parameter is fitted."""

    parameter: Annotated[
        _Parameter,
        "Key of the system's `devices` that is fitted.",
    ]
    accelerators: Annotated[_Many, "Number of accelerators that were measured."]
    utilisation_percent: Annotated[
        float, above(0, 100), "Their mean utilisation, in percent."
    ]
    deviation_points: Annotated[
        float,
        from_to(0, 100),
        "Its deviation in percentage points, which becomes that of the predictions.",
    ]


class Accelerators(TypedDict):
    """How many accelerators a storage feeds."""

    workloads: Annotated[
        Sequence[str],
        _SEVERAL,
        "Workloads of `resources/workloads.yaml`, or paths of workload files of DLIO "
        "or MLPerf Storage (`.yaml`, `.yml`), of which each workload has the name.",
    ]
    devices: NotRequired[
        Annotated[
            Annotated[str, rules(minLength=1)] | None,
            "Path of a `devices.yaml` that target `calibrate` wrote, or of a file "
            "with such a section `devices` and nothing else; its parts replace those "
            "of the system file. Default null.",
        ]
    ]
    compute_time_s: NotRequired[
        Annotated[
            Mapping[str, Annotated[float, above(0, 86400)]],
            rules(expected="a mapping of workloads to seconds"),
            "Compute time of a step by workload, in seconds; it replaces that of the "
            "workload, and is the same for all steps. Default {}.",
        ]
    ]
    most: NotRequired[
        Annotated[
            _Many | None,
            "Largest number of accelerators. 1, 2, 4 ... are simulated, whole nodes "
            "from the second node on. Default null: the processes of the system.",
        ]
    ]
    cache_rates_percent: NotRequired[
        Annotated[
            Sequence[Annotated[int, from_to(0, 100)]],
            _SEVERAL,
            "Percent of the dataset's files that the LFS of each node holds (policy "
            "`pinning`). Default [0].",
        ]
    ]
    dataset: NotRequired[
        Annotated[
            Literal["grows", "fixed"],
            "`grows`: the dataset is at least 5 times the memory of the nodes in use "
            "(`job.memory_gib_per_node`) and gives at least 500 steps an epoch, as "
            "MLPerf Storage's rules say. `fixed`: it has the workload's `n_files`, "
            "and the numbers of accelerators end where an epoch has fewer than 2 "
            "steps. Default grows.",
        ]
    ]
    steps: NotRequired[
        Annotated[
            int,
            from_to(2, 1_000_000),
            "Steps of an epoch that are simulated; the rest of the epoch goes on like "
            "their second half. A shorter epoch is simulated whole. Default 50.",
        ]
    ]
    goal_percent: NotRequired[
        Annotated[
            Annotated[float, from_to(1, 100)] | None,
            "Accelerator utilisation to reach, in percent. Default null: that of the "
            "workload.",
        ]
    ]
    repetitions: NotRequired[
        Annotated[
            int,
            from_to(1, 100),
            "Simulations of each number with seeds of their own; the AU is their "
            "mean. Default 1.",
        ]
    ]
    seed: NotRequired[
        Annotated[
            int, from_to(0, 4_294_967_295), "Seed of all random numbers. Default 1."
        ]
    ]
    fit: NotRequired[
        Annotated[
            Fit | None,
            "One parameter of the devices that is fitted first, to a utilisation that "
            "somebody has measured. Needs one workload and one cache rate. Default "
            "null.",
        ]
    ]


class AcceleratorKeys(TypedDict):
    """All keys of the configuration."""

    experiment: Annotated[
        str,
        rules(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*\Z"),
        "Name of the study; its results are in `results/<experiment>`.",
    ]
    system: Annotated[
        str,
        "Name of the system whose storage feeds the accelerators; its file has "
        "`devices` of its own.",
    ]
    accelerators: Annotated[
        Accelerators,
        "How many accelerators the storage feeds; an accelerator is a process.",
    ]
