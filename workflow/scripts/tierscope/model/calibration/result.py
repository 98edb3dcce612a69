"""The result of a calibration: parameters with uncertainty, or a refusal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import TABLES
from tierscope.core.description import RunDescription
from tierscope.model.calibration.starting_values import with_values
from tierscope.storage.network import ModelError

LARGEST_ERROR = 0.2  # relative error of an identified parameter
NOTHING_KNOWN = 5.0  # error without any information, in logarithms
IN_SERIES = ("gfs.ost_bandwidth_bytes_per_s", "gfs.link_bytes_per_s")
_SUMMED = ("gfs.open_s", "gfs.close_s")
_TIED = 0.9  # correlation of parameters that the data determine only jointly
_AT_BOUND = 0.05  # relative distance to a bound below which a value is stuck


@dataclass(frozen=True)
class Parameter:
    """A key of `devices` that can be fitted, and the range of the search."""

    name: str
    unit: str
    lower: float
    upper: float


PARAMETERS = {
    one.name: one
    for one in (
        Parameter("gfs.open_s", "s", 1e-8, 0.1),
        Parameter("gfs.close_s", "s", 1e-9, 0.1),
        Parameter("gfs.metadata_latency_s", "s", 1e-7, 1.0),
        Parameter("gfs.ost_bandwidth_bytes_per_s", "B/s", 1e6, 1e13),
        Parameter("gfs.read_latency_s", "s", 1e-7, 1.0),
        Parameter("gfs.link_bytes_per_s", "B/s", 1e7, 1e14),
        Parameter("lfs.request_s", "s", 1e-8, 1.0),
        Parameter("lfs.latency_s", "s", 1e-7, 1.0),
    )
}
# Parameters of storage that has them, which the other storage lacks.
FURTHER_PARAMETERS = {
    one.name: one for one in (Parameter("gfs.request_s", "s", 1e-8, 1.0),)
}


@dataclass(frozen=True)
class Calibration:
    """Fitted devices of a system.

    Parameters
    ----------
    description : RunDescription
        The scenario's description, with the system of its file.
    parameters : tuple of Parameter
        The fitted parameters.
    values, standard_errors : ndarray of float, shape (n_parameters,)
        In the parameters' units; without information the error is at least
        `NOTHING_KNOWN` times the value.
    correlation : ndarray of float, shape (n_parameters, n_parameters)
        Correlation of the errors.
    n_observations : int
        Terms of the sum of squares.
    rms_percent : float
        Root of the mean square of its terms.
    is_ambiguous : bool
        Whether the data fit as well with the rates of OSTs and links exchanged. Two
        stations in series may need two OST counts to be distinguished.
    """

    description: RunDescription
    parameters: tuple[Parameter, ...]
    values: np.ndarray
    standard_errors: np.ndarray
    correlation: np.ndarray
    n_observations: int
    rms_percent: float
    is_ambiguous: bool = False

    @property
    def at_bound(self) -> np.ndarray:
        """Return whether a value is stuck at a bound: bool, shape (n_parameters,)."""
        lower = np.array([one.lower for one in self.parameters])
        upper = np.array([one.upper for one in self.parameters])
        near = 1 + _AT_BOUND
        return (self.values < lower * near) | (self.values > upper / near)

    def devices(self) -> dict[str, Any]:
        """Return the section `devices` of a system file with the fitted values."""
        names = [one.name for one in self.parameters]
        values = dict(zip(names, self.values, strict=True))
        system = with_values(self.description, values).system
        devices = dict(system.devices)
        for name in ("n_processes", "processes_per_node"):
            devices.pop(name, None)  # of an emulation, which sets them itself
        if "sources" in devices:
            devices["sources"] = _with_fitted(devices["sources"], names)
        return {**devices, "origin": "calibrated"}

    def check(self) -> None:
        """Refuse parameters that the data do not identify.

        Raises
        ------
        ModelError
            One line with the parameters and the missing measurements, if a standard
            error exceeds `LARGEST_ERROR` of its value or a value is at a bound.
        """
        share = self.standard_errors / self.values
        if not (flat := share > LARGEST_ERROR).any():
            if self.is_ambiguous:
                raise ModelError(
                    f"{' and '.join(IN_SERIES)}: the data fit as well with the two "
                    "values exchanged; add probes on another OST count (probed_n_osts) "
                    "or fit only one of them."
                )
            if self.at_bound.any():
                raise ModelError(self._stuck(int(np.argmax(self.at_bound))))
            return
        worst = int(np.argmax(share))
        tied = np.abs(self.correlation[worst]) > _TIED
        names = [
            one.name
            for one, is_flat, is_tied in zip(self.parameters, flat, tied, strict=True)
            if is_flat or is_tied
        ]
        error = share[worst]
        how_far = f"has a standard error of {error:.0%}"
        if error >= NOTHING_KNOWN:
            how_far = "cannot be determined"
        subject = f"{self.parameters[worst].name} " if len(names) > 1 else ""
        raise ModelError(
            f"{' and '.join(names)}: {subject}{how_far}, expected {LARGEST_ERROR:.0%} "
            f"at most: {_advice(self.parameters[worst].name, names)}."
        )

    def _stuck(self, at: int) -> str:
        """Return the message about a value at a bound."""
        one = self.parameters[at]
        return (
            f"{one.name}: got {self.values[at]:.3g} {one.unit}, expected a value "
            f"between the bounds {one.lower:g} and {one.upper:g}: these data ask "
            "for one outside; do not fit it, or check the system file's other values."
        )

    def table(self, name: str) -> pd.DataFrame:
        """Return table `calibration` under the name of the calibration."""
        frame = pd.DataFrame(
            {
                "parameter": [one.name for one in self.parameters],
                "unit": [one.unit for one in self.parameters],
                "value": self.values,
                "standard_error": self.standard_errors,
                "lower_bound": [one.lower for one in self.parameters],
                "upper_bound": [one.upper for one in self.parameters],
            }
        )
        return frame.assign(
            source=self.description.source,
            system=self.description.system.name,
            calibration=name,
            n_observations=self.n_observations,
            rms_percent=self.rms_percent,
        )[list(TABLES["calibration"])]

    def text(self) -> str:
        """Return the parameters with their uncertainty, as text for readers."""
        width = max(len(one.name) for one in self.parameters)
        lines = [
            f"{one.name:{width}}  {value:12.6g} {one.unit:3}  +- {error / value:6.1%}"
            for one, value, error in zip(
                self.parameters, self.values, self.standard_errors, strict=True
            )
        ]
        lines.append(
            f"{self.n_observations} observations, met within {self.rms_percent:.2f} % "
            "(root mean square)"
        )
        return "\n".join(lines)


def _with_fitted(
    sources: Mapping[str, Mapping[str, str]], names: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return the sources of a system's numbers after fitting some of them."""
    sources = {tier: dict(part) for tier, part in sources.items()}
    for name in names:
        tier, key = name.split(".")
        sources[tier][key] = "fitted to measurements"
    return sources


def _advice(worst: str, names: Sequence[str]) -> str:
    """Return which measurements would identify the refused parameters."""
    if worst in _SUMMED and set(names) >= set(_SUMMED):
        return (
            f"only the sum of {' and '.join(_SUMMED)} affects these data; add the "
            "probes (probed_n_osts) or fit only one of them"
        )
    if worst == "gfs.link_bytes_per_s":
        return (
            "these OSTs do not fill the link; add probes on more OSTs (probed_n_osts) "
            "or do not fit it"
        )
    if worst == "gfs.ost_bandwidth_bytes_per_s":
        return (
            "these OSTs do not limit the reads; add probes on fewer OSTs "
            "(probed_n_osts) or do not fit it"
        )
    return (
        "it affects these data too little, or they scatter too much; add the probes "
        "(probed_n_osts) or points, measure again, or do not fit it"
    )
