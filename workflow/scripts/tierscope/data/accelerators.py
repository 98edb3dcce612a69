"""What some accelerators read on a machine: nodes, files, steps, and what they need.

An accelerator is a process. Nodes come with the accelerators, and with the nodes the
servers of the LFS and, if there are several, the links to the GFS. All other stations
of the GFS stay as they are. Of an epoch only some steps are simulated; the files of
these are a dataset of their own.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Self

from tierscope.core.description import FileSizes, RunDescription
from tierscope.core.machine import Machine

# MLPerf Storage, Rules.md: the dataset is at least so many times the clients' memory,
# and an epoch has at least so many steps.
MEMORY_FACTOR, LEAST_STEPS = 5, 500
MOST_REQUESTS = 300_000_000  # of a simulation: about a minute, and its files in memory
_GIB = 1 << 30


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
    """

    description: RunDescription
    sizes: FileSizes | None
    grows: bool
    steps: int
    memory_gib_per_node: float | None = None
    lfs_gib_per_node: float | None = None

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
    def mean_file_bytes(self) -> float:
        """Return the mean size of a file."""
        if self.sizes is None:
            return float(self.description.dataset.file_size_bytes)
        return fmean(self.sizes.values())

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
        found, n = [], 1
        while n < min(per_node, most):
            found.append(n)
            n *= 2
        n = per_node
        while n < most:
            found.append(n)
            n *= 2
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

    def lfs_rate_percent(self, n: int) -> float | None:
        """Return the largest cache rate that the LFS of a node has room for.

        Each node holds all pinned files. None: the room is not known.
        """
        if self.lfs_gib_per_node is None:
            return None
        dataset_bytes = self.n_files(n) * self.mean_file_bytes
        return min(100.0, 100 * self.lfs_gib_per_node * _GIB / dataset_bytes)

    def n_requests(self, n: int) -> int:
        """Return the requests of a simulation, of the tier with the smaller ones."""
        devices = self.machine.devices
        request_bytes = min(devices[tier]["request_bytes"] for tier in ("gfs", "lfs"))
        if buffer_bytes := self.description.loader.buffer_bytes:
            request_bytes = min(request_bytes, buffer_bytes)
        a_file = math.ceil(self.mean_file_bytes / request_bytes)
        return self.n_simulated_steps(n) * self.batch_size * n * a_file

    def described(self, n: int) -> RunDescription:
        """Return what so many accelerators read in the simulated steps."""
        per_node = self.machine.processes_per_node
        system = replace(
            self.machine,
            n_nodes=self.n_nodes(n),
            processes_per_node=min(n, per_node),
            devices=_with_links(self.machine, n),
        )
        n_files = self.n_simulated_steps(n) * self.batch_size * n
        dataset = replace(self.description.dataset, n_files=n_files)
        return replace(self.description, system=system, dataset=dataset)


def _with_links(machine: Machine, n: int) -> dict[str, Any]:
    """Return the devices with the links of so many processes."""
    devices, details = machine.devices, machine.devices.get("simulation", {})
    n_links = details.get("gfs_links", 1)
    if n_links == 1:
        return devices  # all share the one link
    # Links come with the nodes: each serves as many processes as on the whole machine.
    present = -(-n * n_links // machine.n_processes)
    link_bytes_per_s = devices["gfs"]["link_bytes_per_s"] / n_links
    return {
        **devices,
        "gfs": {**devices["gfs"], "link_bytes_per_s": link_bytes_per_s * present},
        "simulation": {**details, "gfs_links": present},
    }
