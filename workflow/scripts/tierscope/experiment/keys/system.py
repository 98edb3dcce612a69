"""Keys of the file of a system, of which its schema is made."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from tierscope.core.given.keys import Folder, Rate, Seconds, above, from_to, rules

_Text = Annotated[str, rules(minLength=1)]
_Words = Mapping[str, _Text]
_Many = Annotated[int, from_to(1, 1_000_000)]


class Ideal(TypedDict):
    """Where ideal runs lie."""

    root: Annotated[
        Folder,
        "Directory in memory (tmpfs or ramfs) of each node, with room for the whole "
        "dataset, that tierscope may fill and empty; `$VARIABLE` and `~` are expanded "
        "on the machine where the job runs.",
    ]


class Emulation(TypedDict):
    """Which devices are emulated."""

    model_of: Annotated[
        str, "System whose `devices` are scaled down to this system's processes."
    ]
    processes_per_lfs_server: Annotated[
        NotRequired[int],
        from_to(1, 9_999_999),
        "Processes that share one emulated LFS server: those of whole nodes, or all "
        "processes. Relative to the server of the modelled machine, its speed is "
        "scaled with the number of processes that share it. In a study of nodes the "
        "same number of nodes shares it. Default as many as in the model.",
    ]


class Simulation(TypedDict, total=False):
    """Properties of devices that only simulations use."""

    gfs_links: Annotated[
        _Many,
        "Number of links to the GFS; each serves the same number of processes. "
        "Default 1.",
    ]
    lfs_open_s: Annotated[Seconds, "LFS server time per open, in seconds. Default 0."]
    lfs_close_latency_s: Annotated[
        Seconds, "Latency of a close on the LFS, in seconds. Default 0."
    ]
    lfs_spread_percent: Annotated[
        float,
        from_to(0, 100),
        "How much the mean service times of LFS servers differ (lognormal), in "
        "percent. Default 0.",
    ]
    service_distribution: Annotated[
        Literal["deterministic", "exponential", "lognormal"],
        "How service times of metadata, object and LFS servers vary. Default "
        "deterministic.",
    ]
    service_cv: Annotated[
        float,
        above(0, 1000),
        "Coefficient of variation of service times; only with lognormal.",
    ]


class Network(TypedDict):
    """The network between the nodes."""

    latency_s: Annotated[Seconds, "Latency of a message, in seconds."]
    bandwidth_bytes_per_s: Annotated[Rate, "Rate of each link, in bytes per second."]


class Processor(TypedDict):
    """What loading takes besides calls."""

    sample_s: Annotated[
        Seconds,
        "Processor time of a sample, in seconds: after the last byte of a sample its "
        "process makes no call for this time. Default 0.",
    ]


class Sources(TypedDict, total=False):
    """Origin of the numbers, in words."""

    gfs: _Words
    lfs: _Words
    simulation: _Words
    network: _Words
    processor: _Words


class Devices(TypedDict):
    """Service times of the storage devices."""

    origin: Annotated[
        _Text,
        "Origin of the numbers, for example `measured`, `calibrated` or "
        "`reconstructed`; printed with results that are simulated with them.",
    ]
    gfs: Any
    lfs: Any
    simulation: Annotated[
        NotRequired[Simulation],
        "Properties of the devices that only simulations use, not emulations.",
    ]
    network: Annotated[
        NotRequired[Network],
        "The network between the nodes, which simulated reads from other nodes "
        "need: each node has one link out and one in.",
    ]
    processor: Annotated[
        NotRequired[Processor], "Time that the loading of data takes besides the calls."
    ]
    sources: Annotated[
        NotRequired[Sources],
        "Origin of each of these numbers, in words, for the report.",
    ]


class SystemKeys(TypedDict):
    """All keys of a system's file."""

    description: Annotated[str, "What the machine is; printed on figures."]
    n_nodes: Annotated[_Many, "Number of compute nodes."]
    processes_per_node: Annotated[int, from_to(1, 10_000), "Processes on each node."]
    virtual_nodes: Annotated[
        bool,
        "Whether all nodes are virtual nodes on one machine; consecutive ranks then "
        "share a node and its LFS directory.",
    ]
    points_per_launch: Annotated[
        Any,
        rules(oneOf=({"const": "all"}, {"const": 1})),
        "Points of a scenario that one MPI launch runs in turn, `all` or 1.",
    ]
    gfs: Any
    lfs: Any
    ideal: Annotated[
        NotRequired[Ideal], "For ideal runs on real tiers (`sweep.ideal`)."
    ]
    network_interface: Annotated[
        NotRequired[str],
        rules(
            pattern=r"^[A-Za-z0-9_.:-]{1,15}\Z",
            expected="the name of a network interface, as ib0",
        ),
        "Interface on which nodes serve files to each other under policy `adhoc`. "
        "Default: the interface that leads to the next node.",
    ]
    job: NotRequired[Any]
    emulation: Annotated[
        NotRequired[Emulation],
        "For tiers of kind `emulated`; both tiers must be of this kind. A model "
        "of queues says how long calls take, on a clock that belongs to the "
        "modelled machine; no process sleeps.",
    ]
    devices_of: Annotated[
        NotRequired[str],
        "System whose `devices` this one uses instead of its own. An LFS server "
        "is shared by the same number of nodes as in that system.",
    ]
    devices: NotRequired[Any]
