"""What a launch does for the devices behind its tiers.

Real devices need nothing, emulated ones all that virtual time needs. Driver, sources
and probes call the object of a launch, and do not ask which one it is.
"""

from pathlib import Path

from tierscope.benchmark.devices.real import RealDevices
from tierscope.core.machine import Machine


def devices_of(
    system: Machine, n_osts: int, native: Path, folder: Path, launch: str
) -> RealDevices:
    """Return the devices of a launch; arguments as for `Emulation`."""
    if not system.emulated_tiers:
        return RealDevices(system)
    from tierscope.benchmark.devices.emulated import EmulatedDevices

    return EmulatedDevices(system, n_osts, native, folder, launch)
