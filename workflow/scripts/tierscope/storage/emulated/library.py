"""Tier kind `emulated`: the preload library that puts devices in front of directories.

The devices are the modelled machine, scaled down to the processes of the launch
(`tierscope.storage.emulated.scale`). All processes of one machine share their state.
The devices run in virtual time (`tierscope.storage.clock`).
"""

import os
import platform
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tierscope.core.files import os_errors_as
from tierscope.core.machine import Machine, TierError
from tierscope.storage.clock import VirtualClock, create_virtual_state
from tierscope.storage.emulated.device import (
    DEVICES_VARIABLE,
    STATE_VARIABLE,
    Device,
    write_device_config,
)
from tierscope.storage.emulated.scale import (
    emulated_machine,
    scale_gfs,
    scale_lfs,
    tier_of,
)
from tierscope.storage.local_folder import node_name
from tierscope.storage.preloaded import refuse_unless_loaded

# Increase it when equal settings give other times; then older runs are refused.
DEVICES_VERSION = 3

_SHARED_MEMORY = Path("/dev/shm")


def emulated_gfs(system: Machine, n_osts: int) -> Device:
    """Return the device in front of a system's GFS."""
    device = scale_gfs(
        emulated_machine(system, n_osts),
        system.n_processes,
        [str(system.gfs.data_root())],
    )
    return tier_of(system, device, "gfs")


def emulated_lfs(system: Machine, n_osts: int) -> list[Device]:
    """Return the devices in front of the LFS of a system's nodes."""

    def folders(ranks: range) -> list[str]:
        nodes = sorted({system.node_of(rank) for rank in ranks})
        return [str(system.lfs.data_root() / node_name(node)) for node in nodes]

    machine = emulated_machine(system, n_osts)
    servers = scale_lfs(machine, system.n_processes, folders)
    return [tier_of(system, one, "lfs") for one in servers]


class Emulation:
    """The emulated devices of a launch.

    Parameters
    ----------
    system : Machine
        The system, of which both tiers are emulated.
    n_osts : int
        OSTs of the modelled GFS.
    native : Path
        Folder of our compiled libraries.
    folder : Path
        Folder for configuration and state of the devices during the launch, if no
        shared memory directory exists.
    launch : str
        Name of the launch, the same for all its processes and for no other launch.
    """

    clock: VirtualClock | None = None

    def __init__(
        self, system: Machine, n_osts: int, native: Path, folder: Path, launch: str
    ):
        self.system, self.library = system, native / "libtierscope_device.so"
        self.devices = [emulated_gfs(system, n_osts), *emulated_lfs(system, n_osts)]
        # In memory, because writing a page back to a disk would stall the devices.
        folder = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else folder
        name = f"tierscope-{os.getuid()}-{launch}"
        self._config = folder.absolute() / f"{name}.tsv"
        self._state = folder.absolute() / f"{name}.state"

    def environment(self) -> dict[str, str]:
        """Make the devices' files once per machine; return the library's variables.

        The first process makes them: a mapped state must not be replaced.
        """
        self._state.parent.mkdir(parents=True, exist_ok=True)
        own = self._state.with_suffix(f".{os.getpid()}")
        try:
            with os_errors_as(TierError, f"{own}: cannot make the emulated devices"):
                write_device_config(self.devices, own)
                own.replace(self._config)
                n_processes = self.system.n_processes
                create_virtual_state(self.library, self._config, own, n_processes)
                with suppress(FileExistsError):
                    os.link(own, self._state)
                owner = os.lstat(self._state).st_uid
            if owner != os.geteuid():
                raise TierError(
                    f"{self._state}: belongs to another user; start again with "
                    "another launch name."
                )
        finally:
            own.unlink(missing_ok=True)
        return {
            DEVICES_VARIABLE: str(self._config),
            STATE_VARIABLE: str(self._state),
        }

    def join(self, processes) -> None:
        """Check that all processes have the same devices; start virtual time.

        The devices' files are removed as soon as all processes have opened them, so
        none remain however the launch ends. Child processes cannot use them.
        """
        refuse_unless_loaded(self.library, processes)
        machines = processes.comm.allgather(platform.node())
        folders = processes.comm.allgather([one.prefixes for one in self.devices])
        if len(set(machines)) > 1 or any(one != folders[0] for one in folders):
            raise TierError(
                f"emulated tiers: got processes on {sorted(set(machines))} that see "
                f"the folders {folders[0]} and {folders[-1]}, expected one machine and "
                "the same folders."
            )
        self.clock = VirtualClock(processes)
        for name in (DEVICES_VARIABLE, STATE_VARIABLE):
            os.environ.pop(name, None)
        processes.barrier()
        if processes.rank == 0:
            self.remove()
        self.clock.stop_on_signals()
        self.clock.watch()

    def reset(self) -> None:
        """Reset the devices' clocks, queues and counts while no process waits."""
        self.clock.reset()

    def described(self) -> dict[str, Any]:
        """Return the devices."""
        return {"devices": [asdict(device) for device in self.devices]}

    def describe(self) -> dict[str, Any]:
        """Return the devices and their counts since the last reset."""
        counts = self.clock.counts(len(self.devices))
        return {**self.described(), "statistics": counts}

    def stop(self) -> None:
        """End all waits in virtual time: the launch is over, or has failed."""
        if self.clock:
            self.clock.end()

    def remove(self) -> None:
        """Remove the devices' files."""
        self._config.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)
