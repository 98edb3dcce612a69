"""Devices of a study: those of the system, calibrated ones, or measured by fio."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierscope.core.validation import ConfigError, check, read_yaml
from tierscope.experiment.designs.fio import devices_of_fio
from tierscope.experiment.designs.measured import node_words, runs_of

_FILE, _BESIDE = "devices.yaml", "uncertainty.json"  # that target `calibrate` writes


@dataclass(frozen=True)
class StudiedDevices:
    """Devices, where they come from in words, and how sure a calibration is of them."""

    devices: Mapping[str, Any]
    origin: str
    uncertainty: Mapping[str, Any] | None = None


def read_devices(
    devices: Mapping[str, Any], given: str | Mapping[str, str] | None
) -> StudiedDevices:
    """Return the devices of a study.

    Parameters
    ----------
    devices : mapping
        Those of the system's file.
    given : str, mapping or None
        Key `devices` of the configuration.

    Raises
    ------
    ConfigError
        One line that names the file, if it has no devices.
    """
    if not given:
        return StudiedDevices(devices, devices["origin"])
    if isinstance(given, Mapping):
        measured = devices_of_fio(devices, given)
        return StudiedDevices(measured, measured["origin"])
    path = _file_of(given)
    content = read_yaml(path)
    check(content, "system", str(path), "devices")
    origin = ", ".join([str(path), *map(node_words, runs_of(given)[:1])])
    found = {**devices, **content["devices"]}
    return StudiedDevices(found, origin, _uncertainty_of(path))


def _file_of(given: str) -> Path:
    """Return the file of devices of a path, which may be the folder of results."""
    wanted = f"expected a file {_FILE} that target calibrate wrote"
    if Path(given).is_dir():
        found = sorted(Path(given).glob(f"model/*/{_FILE}"))
        if len(found) != 1:
            names = ", ".join(map(str, found)) or f"no model/*/{_FILE} in it"
            raise ConfigError(
                f"config: designs.devices: got {given!r} with {names}; {wanted}"
            )
        return found[0]
    if not Path(given).is_file():
        raise ConfigError(f"config: designs.devices: got {given!r}, {wanted}")
    return Path(given)


def _uncertainty_of(path: Path) -> Mapping[str, Any] | None:
    """Return what the calibration of a file wrote on its uncertainty, if it did."""
    if not (beside := path.with_name(_BESIDE)).is_file():
        return None
    try:
        content = json.loads(beside.read_text(encoding="utf-8"))
        n = len(content["parameters"])
        for source in content["sources"]:
            rows = source["covariance"]
            if [len(row) for row in rows] != [n] * n:
                raise ValueError(f"covariances of other than {n} parameters")
    except (LookupError, RecursionError, TypeError, ValueError) as why:
        raise ConfigError(
            f"{beside}: got no uncertainty of a calibration "
            f"({' '.join(str(why).split())[:80]}), expected that of target calibrate"
        ) from why
    return content
