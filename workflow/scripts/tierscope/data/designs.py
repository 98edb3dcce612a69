"""Designs of a storage: accelerators on a machine of which some numbers are chosen.

An accelerator is a process. Nodes come with the accelerators, and with the nodes the
servers of the LFS and, if there are several and their number is not chosen, the links
to the GFS. All other stations of the GFS stay as they are. Of an epoch only some steps
are simulated; the files of these are a dataset of their own.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from statistics import fmean, pstdev
from typing import Any, NamedTuple, Self

from tierscope.core.description import FileSizes, RunDescription
from tierscope.core.machine import Machine
from tierscope.data.costs import (
    LFS_DEVICE,
    LINK,
    METADATA_SERVER,
    NODE,
    OBJECT_SERVER,
    ROOM,
    Cost,
)

# MLPerf Storage, Rules.md: the dataset is at least so many times the clients' memory,
# and an epoch has at least so many steps.
MEMORY_FACTOR, LEAST_STEPS = 5, 500
MOST_REQUESTS = 300_000_000  # of a simulation: about a minute, and its files in memory
_GIB = 1 << 30
NO_COPIES, POOLED = "none", "adhoc"  # placements
LFS_DEVICES = "n_devices"  # key of `devices.lfs`


@dataclass(frozen=True)
class Storage:
    """What is chosen of a storage; None: as the system has it.

    Parameters
    ----------
    object_servers, links : int or None
        Object servers and network links of the GFS, each as fast as one is today.
    metadata_speed : float
        Factor by which the metadata service is faster.
    lfs_devices : int or None
        Devices of the LFS of a node, or of the nodes that share one.
    lfs_gib : float or None
        Room of each of them.
    placement : {"none", "pinning", "stratified-pinning", "adhoc"}
        Which files are on the LFS: none, the same on each node, or each on one.
    cache_rate_percent : int or None
        Percent of the files that are; None: what there is room for.
    """

    object_servers: int | None = None
    links: int | None = None
    metadata_speed: float = 1.0
    lfs_devices: int | None = None
    lfs_gib: float | None = None
    placement: str = "pinning"
    cache_rate_percent: int | None = None


@dataclass(frozen=True)
class Goal:
    """A goal: a column of table `designs`, and its value to reach.

    Parameters
    ----------
    quantity : {"utilisation_percent", "epoch_time_s", "io_time_s"}
        The column. More is better of the first, less of times.
    value : float
        In the unit of the column.
    """

    quantity: str
    value: float

    @property
    def sign(self) -> int:
        """Return 1 if more of the quantity is better, else -1."""
        return -1 if self.quantity.endswith("_s") else 1

    def is_met(self, value: float) -> bool:
        """Return whether a value reaches the goal."""
        return self.sign * value >= self.sign * self.value


class Design(NamedTuple):
    """Accelerators on a storage."""

    n: int
    storage: Storage


@dataclass(frozen=True)
class Plan:
    """A workload on a machine, for any number of accelerators.

    Parameters
    ----------
    description : RunDescription
        The workload on the whole machine, with its own number of files.
    sizes : FileSizes or None
        How the sizes of the files vary.
    grows : bool
        Whether the dataset grows with the accelerators, by MLPerf Storage's rules.
    steps : int
        Most steps of an epoch that are simulated.
    memory_gib_per_node, lfs_gib_per_node : float or None
        Memory of a node, needed if the dataset grows, and room of its LFS.
    computed : {"measured", "declared"}
        How the time of a step is known.
    """

    description: RunDescription
    sizes: FileSizes | None
    grows: bool
    steps: int
    memory_gib_per_node: float | None = None
    lfs_gib_per_node: float | None = None
    computed: str = "declared"

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the plan from the output of `as_json`."""
        sizes = content["sizes"] and FileSizes(**content["sizes"])
        described = RunDescription.from_json(content["description"])
        return cls(**{**content, "description": described, "sizes": sizes})

    def as_json(self) -> dict[str, Any]:
        """Return the plan ready for JSON."""
        sizes = self.sizes and asdict(self.sizes)
        described = self.description.as_json()
        return {**vars(self), "description": described, "sizes": sizes}

    @property
    def machine(self) -> Machine:
        """Return the whole machine."""
        return self.description.system

    @property
    def _shared(self) -> int:
        """Return how many processes share an LFS."""
        return self.machine.devices["lfs"]["processes_per_server"]

    @property
    def mean_file_bytes(self) -> float:
        """Return the mean size of a file."""
        if self.sizes is None:
            return float(self.description.dataset.file_size_bytes)
        return _mean_and_cv2(self.sizes)[0]

    @property
    def batch_size(self) -> int:
        """Return the samples that an accelerator takes per step."""
        return self.description.dataset.batch_size

    def n_nodes(self, n: int) -> int:
        """Return the nodes of so many accelerators."""
        return -(-n // self.machine.processes_per_node)

    def whole(self, n: int) -> int:
        """Return so many accelerators or fewer: whole nodes if one is not enough."""
        per_node = self.machine.processes_per_node
        return n if n <= per_node else n // per_node * per_node

    def numbers(self, most: int) -> list[int]:
        """Return 1, 2, 4 ... accelerators, then whole nodes, and last the most.

        They end where an epoch has fewer than two steps.
        """
        if not self.grows:
            most = min(most, self.n_files(1) // (2 * self.batch_size))
        per_node = self.machine.processes_per_node
        powers = [1 << i for i in range(most.bit_length())]
        found = [n for n in powers if n < min(per_node, most)]
        found += [n * per_node for n in powers if n * per_node < most]
        return [*found, self.whole(most)] if self.whole(most) not in found else found

    def n_files(self, n: int) -> int:
        """Return the files of the dataset of so many accelerators."""
        dataset = self.description.dataset
        if not self.grows:
            return dataset.n_files
        memory_bytes = self.n_nodes(n) * self.memory_gib_per_node * _GIB
        by_memory = math.ceil(MEMORY_FACTOR * memory_bytes / self.mean_file_bytes)
        return max(LEAST_STEPS * self.batch_size * n, by_memory)

    def n_steps(self, n: int) -> int:
        """Return the whole steps of an epoch of so many accelerators."""
        return self.n_files(n) // (self.batch_size * n)

    def n_simulated_steps(self, n: int) -> int:
        """Return the steps that are simulated."""
        return min(self.steps, self.n_steps(n))

    def lfs_devices(self, storage: Storage) -> int:
        """Return the devices of each LFS."""
        return storage.lfs_devices or self.machine.devices["lfs"].get(LFS_DEVICES, 1)

    def n_lfs_devices(self, n: int, storage: Storage) -> int:
        """Return the devices of the LFS of all nodes, 0 if nothing is to be there."""
        if storage.placement == NO_COPIES or storage.cache_rate_percent == 0:
            return 0
        return self.lfs_devices(storage) * -(-n // self._shared)

    def lfs_gib(self, storage: Storage) -> float:
        """Return the room of a device of an LFS, missing if it is not known."""
        if storage.lfs_gib is not None:
            return storage.lfs_gib
        of_node = self.lfs_gib_per_node
        of_node = math.nan if of_node is None else of_node
        return of_node / self._devices_per_node(Storage())

    def _devices_per_node(self, storage: Storage) -> float:
        """Return the devices of a node, a fraction if several nodes share one."""
        return (
            self.lfs_devices(storage) * self.machine.processes_per_node / self._shared
        )

    def lfs_rate_percent(self, n: int, storage: Storage) -> float | None:
        """Return the largest cache rate that the LFS has room for.

        Each node holds all pinned files, or those whose hash says so: then the fullest
        node has more than the mean. None: the room is not known.
        """
        if math.isnan(device_gib := self.lfs_gib(storage)):
            return None
        room_gib = device_gib * self._devices_per_node(storage)
        if storage.placement == POOLED:
            room_gib = self._pooled_gib(self.n_nodes(n), room_gib)
        dataset_bytes = self.n_files(n) * self.mean_file_bytes
        return min(100.0, 100 * room_gib * _GIB / dataset_bytes)

    def _pooled_gib(self, n_nodes: int, room_gib: float) -> float:
        """Return what nodes hold together when the fullest of them is full."""
        cv2 = 0.0 if self.sizes is None else _mean_and_cv2(self.sizes)[1]
        file_gib = self.mean_file_bytes / _GIB
        # Of normal numbers the most is so many deviations above the mean, or fewer.
        deviations = math.sqrt(2 * math.log(n_nodes) * (1 + cv2))
        root = math.sqrt(deviations**2 + 4 * room_gib / file_gib) - deviations
        return n_nodes * file_gib * root**2 / 4

    def cache_rate_percent(self, n: int, storage: Storage) -> int:
        """Return the cache rate: none, the given one, or what there is room for."""
        if storage.placement == NO_COPIES:
            return 0
        if storage.cache_rate_percent is not None:
            return storage.cache_rate_percent
        return math.floor(self.lfs_rate_percent(n, storage) or 0.0)

    def hardware(self, n: int, storage: Storage) -> dict[str, float]:
        """Return how much a design has of each kind of hardware (`data.costs`)."""
        devices = self.n_lfs_devices(n, storage)
        return {
            OBJECT_SERVER: self.object_servers(storage),
            LINK: self.n_links(n, storage),
            METADATA_SERVER: storage.metadata_speed,
            LFS_DEVICE: devices,
            NODE: self.n_nodes(n),
            ROOM: devices * self.lfs_gib(storage) if devices else 0.0,
        }

    def object_servers(self, storage: Storage) -> int:
        """Return the object servers of the GFS."""
        return storage.object_servers or self.description.scenario.n_osts or 1

    def n_links(self, n: int, storage: Storage) -> int:
        """Return the links to the GFS that some accelerators use."""
        n_links = self.machine.devices.get("simulation", {}).get("gfs_links", 1)
        if storage.links is not None or n_links == 1:
            return storage.links or 1
        # Links come with the nodes: each serves as many processes as on all nodes.
        return -(-n * n_links // self.machine.n_processes)

    def n_requests(self, n: int) -> int:
        """Return the requests of a simulation, of the tier with the smaller ones."""
        devices = self.machine.devices
        request_bytes = min(devices[tier]["request_bytes"] for tier in ("gfs", "lfs"))
        if buffer_bytes := self.description.loader.buffer_bytes:
            request_bytes = min(request_bytes, buffer_bytes)
        a_file = math.ceil(self.mean_file_bytes / request_bytes)
        return self.n_simulated_steps(n) * self.batch_size * n * a_file

    def described(self, n: int, storage: Storage) -> RunDescription:
        """Return what so many accelerators read in the simulated steps."""
        system = replace(
            self.machine,
            n_nodes=self.n_nodes(n),
            processes_per_node=min(n, self.machine.processes_per_node),
            devices=self._devices(n, storage),
        )
        given = self.description
        n_files = self.n_simulated_steps(n) * self.batch_size * n
        dataset = replace(given.dataset, n_files=n_files)
        n_osts, policy = self.object_servers(storage), storage.placement
        scenario = replace(given.scenario, n_osts=n_osts, policy=policy)
        # A node serves all that ask it at a time.
        options = {"server_threads": n * max(given.loader.workers, 1)}
        parts = {"system": system, "dataset": dataset, "scenario": scenario}
        return replace(given, **parts, policy_options=options)

    def _devices(self, n: int, storage: Storage) -> dict[str, Any]:
        """Return the devices; what is not chosen stays as it is, to the digit."""
        devices = self.machine.devices
        details = devices.get("simulation", {})
        gfs, lfs = dict(devices["gfs"]), dict(devices["lfs"])
        for key in ("open_s", "close_s"):
            gfs[key] /= storage.metadata_speed
        if storage.lfs_devices is not None:
            lfs[LFS_DEVICES] = storage.lfs_devices
        if "n_osts" in gfs:
            gfs["n_osts"] = self.object_servers(storage)
        before, n_links = details.get("gfs_links", 1), self.n_links(n, storage)
        if (before, n_links) != (1, 1):
            gfs["link_bytes_per_s"] = gfs["link_bytes_per_s"] / before * n_links
            details = {**details, "gfs_links": n_links}
        return {**devices, "gfs": gfs, "lfs": lfs, "simulation": details}


@lru_cache(maxsize=32)
def _mean_and_cv2(sizes: FileSizes) -> tuple[float, float]:
    """Return the mean of sizes, and the square of their coefficient of variation."""
    mean = fmean(values := sizes.values())
    return mean, (pstdev(values) / mean) ** 2


@dataclass(frozen=True)
class Study:
    """All that is needed to simulate the designs of a study.

    Parameters
    ----------
    plans : mapping of str to Plan
        The workloads by name, on the same machine.
    shares : mapping of str to float
        Part of the hours that the storage serves each of them.
    goals : mapping of str to Goal
        The goal of each.
    storages : tuple of Storage
        The storages to choose from; the accelerators are in `accelerators` or `most`.
    accelerators : tuple of int
        Numbers of accelerators; empty if the largest number is searched.
    most : int or None
        No number above it is simulated in that search.
    repetitions : int
        Most simulations of a design; each has a seed and a draw of parameters.
    simulations : int
        Most simulations of all designs.
    draws : mapping, optional
        What a calibration wrote on its uncertainty (`Uncertainty.as_json`).
    fit : mapping, optional
        Key `fit` of the configuration.
    cost : Cost
        Prices of the hardware, as far as they are given.
    limits : mapping of str to float
        Most price, watts, rack units and pieces (`HARDWARE`) of a design, and least
        usable TiB.
    """

    plans: Mapping[str, Plan]
    shares: Mapping[str, float]
    goals: Mapping[str, Goal]
    storages: tuple[Storage, ...]
    accelerators: tuple[int, ...] = ()
    most: int | None = None
    repetitions: int = 1
    simulations: int = 120
    draws: Mapping[str, Any] | None = None
    fit: Mapping[str, Any] | None = None
    cost: Cost = field(default_factory=Cost)
    limits: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the study from the output of `as_json`."""
        plans, goals = content["plans"].items(), content["goals"].items()
        built = {
            "plans": {name: Plan.from_json(one) for name, one in plans},
            "goals": {name: Goal(**one) for name, one in goals},
            "storages": tuple(Storage(**one) for one in content["storages"]),
            "accelerators": tuple(content["accelerators"]),
            "cost": Cost.from_json(content["cost"]),
        }
        return cls(**{**content, **built})

    def as_json(self) -> dict[str, Any]:
        """Return the study ready for JSON."""
        return {
            **vars(self),
            "plans": {name: plan.as_json() for name, plan in self.plans.items()},
            "goals": {name: asdict(one) for name, one in self.goals.items()},
            "storages": [asdict(one) for one in self.storages],
            "accelerators": list(self.accelerators),
            "cost": asdict(self.cost),
        }
