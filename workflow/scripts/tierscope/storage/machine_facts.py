"""Facts about a machine on which the times of reads depend: processor and mounts."""

import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tierscope.core.machine import UNKNOWN
from tierscope.core.words import ranges_of
from tierscope.storage.mounts import mount_of

_CPU_FOLDER = Path("/sys/devices/system/cpu/cpufreq")
# Keys of /proc/cpuinfo that name a model; on ARM it has numbers.
_NAMES = ("model name", "cpu", "Processor", "uarch")
_NUMBERS = ("CPU implementer", "CPU part", "CPU variant")


def cpu_model(cpuinfo: str | None = None) -> str:
    """Return the model of the processor, or each of several.

    Parameters
    ----------
    cpuinfo : str, optional
        Content of ``/proc/cpuinfo``.
    """
    if cpuinfo is None:
        cpuinfo = _text_of(Path("/proc/cpuinfo"))
    pairs = [line.partition(":") for line in cpuinfo.splitlines()]
    values = [(key.strip(), value.strip()) for key, _, value in pairs]
    for name in _NAMES:
        if models := dict.fromkeys(value for key, value in values if key == name):
            return ", ".join(models)
    numbers = {f"{key} {value}": None for key, value in values if key in _NUMBERS}
    return ", ".join(numbers) or platform.machine()


def governor(folder: Path = _CPU_FOLDER) -> str:
    """Return the governor of the processor's frequency; `none` if there is none."""
    files = sorted(folder.glob("policy*/scaling_governor"))
    return ", ".join(dict.fromkeys(_text_of(file).strip() for file in files)) or "none"


def range_words(numbers: Iterable[int]) -> str:
    """Return numbers as ranges, such as ``0-3,8``."""
    ranges = ranges_of(sorted(set(numbers)))
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


def affinity() -> str:
    """Return the processors on which this process may run, such as ``0-3,8``."""
    return range_words(os.sched_getaffinity(0))


def package_versions(names: Sequence[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    versions = {}
    for name in names:
        try:
            versions[name] = version(name) or UNKNOWN
        except PackageNotFoundError:
            continue
        except Exception:  # what an installer has left half
            versions[name] = UNKNOWN
    return versions


def mount_facts(path: str | Path) -> dict[str, str]:
    """Return where, from what and how the file system of a path is mounted."""
    try:
        mount = mount_of(path)
    except (OSError, ValueError) as error:  # no launch fails for it
        return {"type": UNKNOWN, "reason": str(error)}
    return {
        "type": mount.fs_type,
        "source": mount.source,
        "point": mount.point,
        "options": mount.options,
    }


def _text_of(path: Path) -> str:
    """Return the text of a file of the kernel, empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
