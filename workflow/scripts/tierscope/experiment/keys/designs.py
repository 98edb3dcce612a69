"""Keys of a configuration of designs, of which its schema is made."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from tierscope.core.columns.designs import PLACEMENTS
from tierscope.core.given.keys import above, from_to, rules
from tierscope.experiment.keys.config import PARAMETERS

_SEVERAL = rules(minItems=1, maxItems=1000, uniqueItems=True)
_Time = Annotated[float, above(0, 86400)]
_Path = Annotated[str, rules(minLength=1)]
_Many = Annotated[int, from_to(1, 1_000_000)]
_Factor = Annotated[float, from_to(0.001, 1000)]
_Gib = Annotated[float, above(0, 1_000_000_000)]
_Tib = Annotated[float, from_to(0, 1_000_000_000)]
_Price = Annotated[float, from_to(0, 1e15)]
_Watts = Annotated[float, from_to(0, 1_000_000_000)]
_Units = Annotated[float, from_to(0, 1_000_000)]
# Those of a rate limit are not fitted.
_Parameter = Literal[tuple(one for one in PARAMETERS if ".limit_" not in one)]


def _choice(one: Any, words: str, step: Any = None) -> Any:
    """Return the type of a list of numbers, or of a range with both its ends."""
    numbers = TypedDict("numbers", {"from": one, "to": one, "step": step or one})
    wanted = rules(expected="a list without duplicates, or {from, to, step}")
    return Annotated[Sequence[one] | numbers, _SEVERAL, wanted, words]


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


_Accelerators = TypedDict(
    "_Accelerators",
    {
        "from": _Many,
        "to": _Many,
        "step": _Many,
        "most": Annotated[_Many, "Largest number of accelerators."],
    },
    total=False,
)


class Choices(TypedDict, total=False):
    """What may be chosen; without a key it is as in the system's file."""

    accelerators: Annotated[
        Sequence[_Many] | _Accelerators,
        _SEVERAL,
        rules(
            anyOf=[
                {"required": ["from", "to", "step"], "maxProperties": 3},
                {"required": ["most"], "maxProperties": 1},
            ],
            expected="a list without duplicates, {from, to, step}, or {most}",
        ),
        "Numbers of accelerators, or `most`: 1, 2, 4 ... are simulated, whole nodes "
        "from the second node on, and those between that find the largest number "
        "which reaches the goal. Default most: the processes of the system.",
    ]
    object_servers: _choice(_Many, "Object servers (OSTs) of the GFS.")
    links: _choice(
        _Many, "Network links of the GFS, each as fast as one of the system."
    )
    metadata_speed: _choice(
        _Factor, "Factors that divide the times of opens and closes on the GFS."
    )
    lfs_devices: _choice(
        _Many,
        "Devices of the LFS of a node, or of those that share it, each as fast as one "
        "of the system.",
    )
    lfs_gib: _choice(_Gib, "Room of such a device, in GiB.")
    placement: Annotated[
        Sequence[Literal[PLACEMENTS]],
        _SEVERAL,
        "Which files are on the LFS: `none`, `pinning` (each node has the same), "
        "`stratified-pinning`, or `adhoc` (each file on one node, which the others "
        "read over `devices.network`). Default [pinning].",
    ]
    cache_rates_percent: _choice(
        Annotated[int, from_to(0, 100)],
        "Percent of the dataset's files that the LFS holds. Default: what it has room "
        "for, by bytes.",
        Annotated[int, from_to(1, 100)],
    )


class Goal(TypedDict, total=False):
    """One quantity and the value to reach."""

    utilisation_percent: Annotated[
        float, from_to(1, 100), "Accelerator utilisation (AU), in percent."
    ]
    epoch_time_s: Annotated[_Time, "Longest time of an epoch, in seconds."]
    io_time_s: Annotated[
        _Time,
        "Longest I/O time of an epoch of the slowest process, in seconds; the whole "
        "epoch is simulated.",
    ]


class UsableTib(TypedDict):
    """What the GFS has to hold."""

    dataset: Annotated[_Tib, "The datasets, in TiB."]
    growth: Annotated[NotRequired[_Tib], "What they grow by, in TiB. Default 0."]
    checkpoints: Annotated[
        NotRequired[_Tib], "Checkpoints that are kept, in TiB. Default 0."
    ]


class Limits(TypedDict, total=False):
    """The most of each that a design may have, and the room that it needs."""

    price: Annotated[_Price, "Price, in the unit of `cost`."]
    watts: Annotated[_Watts, "Power, in watts."]
    rack_units: Annotated[_Units, "Rack units."]
    nodes: Annotated[_Many, "Nodes."]
    object_servers: Annotated[_Many, "Object servers."]
    links: Annotated[_Many, "Links of the GFS."]
    lfs_devices: Annotated[_Many, "LFS devices of a node."]
    usable_tib: Annotated[
        UsableTib,
        "What the GFS has to hold; needs `cost.object_server.usable_tib`.",
    ]


class Unit(TypedDict, total=False):
    """What one piece of hardware costs."""

    price: Annotated[_Price, "Its price."]
    watts: Annotated[_Watts, "Its power, in watts."]
    rack_units: Annotated[_Units, "Its rack units."]


class ObjectServer(Unit, total=False):
    """An object server."""

    usable_tib: Annotated[_Tib, "Its usable room, in TiB."]


class LfsDevice(Unit, total=False):
    """A device of an LFS."""

    price_per_gib: Annotated[_Price, "Price of each GiB of it."]


class Cost(TypedDict, total=False):
    """What hardware costs; what is not said counts nowhere."""

    unit: Annotated[str, rules(minLength=1, maxLength=20), "Unit of money."]
    hours: Annotated[
        float, above(0, 10_000_000), "Hours over which a purchase is written off."
    ]
    object_server: Annotated[ObjectServer, "An object server of the GFS."]
    link: Annotated[Unit, "A link of the GFS."]
    metadata_server: Annotated[
        Unit, "The metadata service; it counts `metadata_speed` times."
    ]
    lfs_device: Annotated[LfsDevice, "A device of the LFS of a node."]
    node: Annotated[Unit, "A node, with all its accelerators."]
    accelerator_hour: Annotated[_Price, "Price of an hour of an accelerator."]


class Designs(TypedDict):
    """Which designs are compared."""

    workloads: Annotated[
        Sequence[str] | Mapping[str, Annotated[float, above(0, 1_000_000)]],
        _SEVERAL,
        rules(minProperties=1, expected="a list without duplicates, or a mapping"),
        "Workloads, or a mapping of them to their parts of the hours; a list has equal "
        "parts. Each is one of `resources/workloads.yaml`, the path of a workload file "
        "of DLIO or MLPerf Storage (`.yaml`, `.yml`), or the folder of results of "
        "`tierscope sweep` or of an experiment.",
    ]
    devices: Annotated[
        NotRequired[_Path | Mapping[Literal["gfs", "lfs"], _Path] | None],
        "Path of a `devices.yaml` that target `calibrate` wrote, with its "
        "uncertainty beside it, the folder of such results, or a file "
        "with such a section `devices` and nothing else; its parts replace those "
        "of the system file. Or {gfs: PATH, lfs: PATH}, or one of them: what "
        "`fio --output-format=json` wrote of reads there. Default null.",
    ]
    compute_time_s: Annotated[
        NotRequired[Mapping[str, Annotated[float, above(0, 86400)]]],
        rules(expected="a mapping of workloads to seconds"),
        "Compute time of a step by workload, in seconds; it replaces that of the "
        "workload, and is the same for all steps. Default {}.",
    ]
    choices: Annotated[
        NotRequired[Choices], "What may be chosen. Default: accelerators."
    ]
    goal: Annotated[
        NotRequired[Goal | None],
        rules(
            maxProperties=1,
            minProperties=1,
            expected="one of utilisation_percent, epoch_time_s, io_time_s",
        ),
        "What each workload has to reach. Default null: its AU.",
    ]
    limits: Annotated[NotRequired[Limits], "What no design may exceed. Default {}."]
    cost: Annotated[NotRequired[Cost], "What the hardware costs. Default {}."]
    dataset: Annotated[
        NotRequired[Literal["grows", "fixed"]],
        "`grows`: the dataset is at least 5 times the memory of the nodes in use "
        "(`job.memory_gib_per_node`) and gives at least 500 steps an epoch, as "
        "MLPerf Storage's rules say. `fixed`: it has the workload's `n_files`, "
        "and the numbers of accelerators end where an epoch has fewer than 2 "
        "steps. Default grows.",
    ]
    steps: Annotated[
        NotRequired[int],
        from_to(2, 1_000_000),
        "Steps of an epoch that are simulated; the rest of the epoch goes on like "
        "their second half. A shorter epoch is simulated whole. Default 50.",
    ]
    repetitions: Annotated[
        NotRequired[int],
        from_to(1, 100),
        "Simulations of each design, as far as `simulations` allows, with seeds "
        "of their own, and parameters drawn within the uncertainty of a "
        "calibration, which one simulation leaves out; results are means. Default 1, "
        "or 4 if `devices` have such an uncertainty.",
    ]
    simulations: Annotated[
        NotRequired[int],
        from_to(1, 100_000),
        "Most simulations of all designs together; the search for `most` "
        "accelerators has no such end. Default 120.",
    ]
    seed: Annotated[
        NotRequired[int],
        from_to(0, 4_294_967_295),
        "Seed of all random numbers. Default 1.",
    ]
    fit: Annotated[
        NotRequired[Fit | None],
        "One parameter of the devices that is fitted first, to a utilisation that "
        "somebody has measured. Needs one workload and one storage. Default null.",
    ]


class DesignKeys(TypedDict):
    """All keys of the configuration."""

    experiment: Annotated[
        str,
        rules(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*\Z"),
        "Name of the study; its results are in `results/<experiment>`.",
    ]
    system: Annotated[
        str,
        "Name of the system of which some numbers are chosen; its file has `devices` "
        "of its own.",
    ]
    designs: Annotated[
        Designs,
        "Which designs are compared: accelerators, which are processes, on a storage.",
    ]
