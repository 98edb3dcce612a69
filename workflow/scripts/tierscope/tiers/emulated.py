"""Tier kind `emulated`: the preload library that puts devices in front of directories.

The devices are the modelled machine scaled down to the processes there are
(`tierscope.tiers.scale`); all processes of one machine share their state.
"""

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tierscope.tiers import Tier, TierError
from tierscope.tiers.device import (
    DEVICES_VARIABLE,
    STATE_VARIABLE,
    Device,
    create_state,
    lateness_share,
    read_statistics,
    reset_statistics,
    write_device_config,
)
from tierscope.tiers.local_storage import LocalStorage
from tierscope.tiers.scale import (
    improve_tier,
    modelled_machine,
    scale_gfs,
    scale_lfs,
)

_SHARED_MEMORY = Path("/dev/shm")


def emulated_gfs(system: Mapping[str, Any], n_osts: int) -> Device:
    """Return the device in front of a system's GFS."""
    device = scale_gfs(
        modelled_machine(system["devices"], n_osts),
        system["n_nodes"] * system["processes_per_node"],
        system["emulation"]["speedup"],
        [str(Tier(**system["gfs"]).data_root())],
    )
    return improve_tier(device, "gfs", system.get("improvements", {}))


class Emulation:
    """The emulated devices of a launch.

    Parameters
    ----------
    devices : list of Device
        The devices, the GFS first.
    library : Path
        `libtierscope_device.so`.
    folder : Path
        Where configuration and state of the devices are kept during the launch if
        there is no shared memory directory.
    launch : str
        Name of the launch, the same for all its processes and for no other launch.
    """

    def __init__(self, devices: list[Device], library: Path, folder: Path, launch: str):
        self.devices, self.library = devices, library
        # In memory, as writing a page back to a disk would stall the devices.
        folder = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else folder
        name = f"tierscope-{os.getuid()}-{launch}"
        self._config = folder.absolute() / f"{name}.tsv"
        self._state = folder.absolute() / f"{name}.state"

    @classmethod
    def of(
        cls, description: Mapping[str, Any], native: Path, folder: Path, launch: str
    ) -> "Emulation | None":
        """Return the emulation of a scenario, None where no tier is emulated."""
        system, devices = description["system"], []
        n_osts = description["scenario"]["n_osts"]
        if system["gfs"]["kind"] == "emulated":
            devices.append(emulated_gfs(system, n_osts))
        if system["lfs"]["kind"] == "emulated":
            root = Tier(**system["lfs"]).data_root()
            servers = scale_lfs(
                modelled_machine(system["devices"], n_osts),
                system["n_nodes"] * system["processes_per_node"],
                system["emulation"]["speedup"],
                lambda ranks: _node_folders(ranks, system, root),
            )
            improvements = system.get("improvements", {})
            devices += [improve_tier(one, "lfs", improvements) for one in servers]
        library = native / "libtierscope_device.so"
        return cls(devices, library, folder, launch) if devices else None

    def environment(self) -> dict[str, str]:
        """Make the devices' files, once a machine, and return the library's variables.

        The first process wins: the state must not be replaced once it is mapped.
        """
        self._state.parent.mkdir(parents=True, exist_ok=True)
        own = self._state.with_suffix(f".{os.getpid()}")
        write_device_config(self.devices, own)
        own.replace(self._config)
        create_state(own, self.devices)
        with suppress(FileExistsError):
            os.link(own, self._state)
        own.unlink()
        return {
            DEVICES_VARIABLE: str(self._config),
            STATE_VARIABLE: str(self._state),
        }

    def join(self, processes) -> None:
        """Check that all processes wait for the same devices."""
        machines = processes.comm.allgather(platform.node())
        folders = processes.comm.allgather([one.prefixes for one in self.devices])
        if len(set(machines)) > 1 or any(one != folders[0] for one in folders):
            raise TierError(
                f"emulated tiers: got processes on {sorted(set(machines))} that see "
                f"the folders {folders[0]} and {folders[-1]}, expected one machine and "
                "the same folders."
            )

    def reset(self) -> None:
        """Set the devices' statistics to zero, when nobody waits."""
        reset_statistics(self._state)

    def lateness_percent(self) -> float:
        """Return how much of the waiting since the last reset was lateness."""
        return 100 * lateness_share(read_statistics(self._state))

    def describe(self) -> dict[str, Any]:
        """Return the devices and what they did since the last reset."""
        return {
            "devices": [asdict(device) for device in self.devices],
            "statistics": [asdict(one) for one in read_statistics(self._state)],
        }

    def remove(self) -> None:
        """Remove the devices' files."""
        self._config.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)


def _node_folders(
    ranks: range, system: Mapping[str, Any], data_root: Path
) -> list[str]:
    """Return the LFS folders of the nodes of some ranks."""
    nodes = sorted({rank // system["processes_per_node"] for rank in ranks})
    return [str(LocalStorage(data_root, node, 0).folder) for node in nodes]
