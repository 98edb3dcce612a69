"""The result of a calibration: parameters with uncertainty, or a refusal."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tierscope.core.columns import TABLES
from tierscope.core.description import RunDescription
from tierscope.core.tables import with_later_columns
from tierscope.model.calibration.identifiability import LARGEST_ERROR, NOTHING_KNOWN
from tierscope.model.calibration.lack_of_fit import LackOfFit
from tierscope.model.calibration.starting_values import with_values
from tierscope.model.calibration.uncertainty import Uncertainty
from tierscope.storage.queueing_network import RANDOM, ModelError

IN_SERIES = ("gfs.ost_bandwidth_bytes_per_s", "gfs.link_bytes_per_s")
_SUMMED = ("gfs.open_s", "gfs.close_s")
_TIED = 0.9  # correlation of parameters that the data determine only jointly
_WIDTH = 88  # of sentences
_ADVICE = {
    "gfs.link_bytes_per_s": "these OSTs do not fill the link; add probes on more OSTs "
    "(probed_n_osts) or do not fit it",
    "gfs.ost_bandwidth_bytes_per_s": "these OSTs do not limit the reads; add probes on "
    "fewer OSTs (probed_n_osts) or do not fit it",
}
_USUAL_ADVICE = (
    "it affects these data too little, or they scatter too much; add the probes "
    "(probed_n_osts) or points, measure again, or do not fit it"
)
_AT_BOUND = 0.05  # relative distance to a bound below which a value is stuck


@dataclass(frozen=True)
class Parameter:
    """A key of `devices` that can be fitted, and the range of the search."""

    name: str
    unit: str
    lower: float
    upper: float

    @property
    def sign(self) -> int:
        """Return 1 for a time, -1 for a rate: more of it makes the storage slower."""
        return 1 if self.unit == "s" else -1


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
    one.name: one
    for one in (
        Parameter("gfs.request_s", "s", 1e-8, 1.0),
        Parameter("gfs.limit_bytes_per_s", "B/s", 1e3, 1e13),
        Parameter("gfs.limit_credit_bytes", "B", 1.0, 1e15),
    )
}
CREDIT = "gfs.limit_credit_bytes"
LIMIT_PARAMETERS = ("gfs.limit_bytes_per_s", CREDIT)


FITTED, JOINED, BOUND, KEPT = "fitted", "joined", "bound", "kept"
LEFT_OUT = "left out"


@dataclass(frozen=True)
class Finding:
    """What a calibration made of a parameter, and why.

    Parameters
    ----------
    status : {"fitted", "joined", "bound", "kept", "left out"}
        ``fitted``: the data tell the value. ``joined``: they tell it only together
        with another parameter. ``bound``: they tell a limit of it. ``kept``: the value
        of the system file. ``left out``: the model has no such parameter.
    reason : str
        A sentence without a subject, such as ``at least 4e9 B/s: ...``.
    """

    status: str = FITTED
    reason: str = "these data determine it"


@dataclass(frozen=True)
class Calibration:
    """Fitted devices of a system.

    Parameters
    ----------
    description : RunDescription
        The scenario's description, with the system of its file.
    parameters : tuple of Parameter
        The parameters.
    values, standard_errors : ndarray of float, shape (n_parameters,)
        In the parameters' units; without information the error is at least
        `NOTHING_KNOWN` times the value. The error of a value that is not fitted is
        missing.
    n_observations : int
        Terms of the sum of squares.
    rms_percent : float
        Root of the mean square of its terms.
    findings : tuple of Finding or None
        What became of each parameter where the data chose; None for a given list, all
        of which is fitted.
    note : str
        What else a reader must know; may be empty.
    correlation : ndarray of float, shape (n_parameters, n_parameters), or None
        Correlation of the errors, for a given list.
    lack_of_fit : LackOfFit or None
        Whether the structure of the model describes the storage; None: not tested.
    uncertainty : Uncertainty or None
        How sure predictions are; None likewise.
    is_ambiguous : bool
        Whether the data fit as well with the rates of OSTs and links exchanged. Two
        stations in series may need two OST counts to be distinguished.
    left_out : mapping of str to str
        Parameters of `FURTHER_PARAMETERS` that the model does without, and why.
    """

    description: RunDescription
    parameters: tuple[Parameter, ...]
    values: np.ndarray
    standard_errors: np.ndarray
    n_observations: int
    rms_percent: float
    findings: tuple[Finding, ...] | None = None
    note: str = ""
    correlation: np.ndarray | None = None
    lack_of_fit: LackOfFit | None = None
    uncertainty: Uncertainty | None = None
    is_ambiguous: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def at_bound(self) -> np.ndarray:
        """Return whether a value is stuck at a bound: bool, shape (n_parameters,)."""
        lower = np.array([one.lower for one in self.parameters])
        upper = np.array([one.upper for one in self.parameters])
        near = 1 + _AT_BOUND
        return (self.values < lower * near) | (self.values > upper / near)

    def devices(self) -> dict[str, Any]:
        """Return the section `devices` of a system file with the fitted values."""
        values = {
            one.name: value
            for one, value, _, finding in self._rows()
            if finding.status != KEPT
        }
        system = with_values(self.description, values).system
        devices = dict(system.devices)
        for name in ("n_processes", "processes_per_node"):
            devices.pop(name, None)  # of an emulation, which sets them itself
        if self.description.servers is not None:  # those of other files are not known
            devices["gfs"] = {**devices["gfs"], "placement": RANDOM}
        if "sources" in devices:
            devices["sources"] = self._sources(devices["sources"])
        return {**devices, "origin": "calibrated"}

    def _rows(self) -> Iterator[tuple[Parameter, float, float, Finding]]:
        """Yield parameters, values, their errors and what became of them."""
        findings = self.findings or [Finding()] * len(self.parameters)
        found = (self.parameters, self.values, self.standard_errors, findings)
        yield from zip(*found, strict=True)

    def _rows_without(self) -> Iterator[tuple[Parameter, float, float, Finding]]:
        """Yield the parameters that the model does without, and why."""
        for name, reason in self.left_out.items():
            yield FURTHER_PARAMETERS[name], np.nan, np.nan, Finding(LEFT_OUT, reason)

    def _sources(
        self, sources: Mapping[str, Mapping[str, str]]
    ) -> dict[str, dict[str, str]]:
        """Return the sources of a system's numbers after the calibration."""
        sources = {tier: dict(part) for tier, part in sources.items()}
        for one, *_, finding in self._rows():
            tier, key = one.name.split(".")
            if finding.status == FITTED:
                sources[tier][key] = "fitted to measurements"
            elif finding.status != KEPT:
                sources[tier][key] = f"{finding.status}: {finding.reason}"
        return sources

    def check(self) -> None:
        """Refuse parameters of a given list that the data do not identify.

        Raises
        ------
        ModelError
            One line with the parameters and the missing measurements, if a standard
            error exceeds `LARGEST_ERROR` of its value or a value is at a bound.
        """
        if self.findings is not None:
            return  # the data chose
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
        rows = [
            {
                "parameter": one.name,
                "unit": one.unit,
                "value": value,
                "standard_error": error,
                "status": finding.status,
                "reason": finding.reason,
                "lower_bound": one.lower,
                "upper_bound": one.upper,
            }
            for one, value, error, finding in (*self._rows(), *self._rows_without())
        ]
        frame = pd.DataFrame(rows).assign(
            source=self.description.source,
            system=self.description.system.name,
            calibration=name,
            n_observations=self.n_observations,
            rms_percent=self.rms_percent,
            **self._lack_of_fit(),
        )
        return with_later_columns(frame, "calibration")[list(TABLES["calibration"])]

    def _lack_of_fit(self) -> dict[str, Any]:
        """Return the columns of table `calibration` on lack of fit."""
        if (test := self.lack_of_fit) is None:
            return {}  # columns that may be absent
        return {
            "lack_of_fit_p_value": test.p_value,
            "pure_error_percent": test.pure_error_percent,
            "lack_of_fit_percent": test.lack_of_fit_percent,
            "lack_of_fit": test.sentence(),
        }

    def text(self) -> str:
        """Return the parameters with their uncertainty, as text for readers."""
        names = [*(one.name for one in self.parameters), *self.left_out]
        width = max(map(len, names))
        lines = []
        for one, value, error, finding in self._rows():
            known = f"+- {error / value:6.1%}" if np.isfinite(error) else " " * 9
            line = f"{one.name:{width}}  {value:12.6g} {one.unit:3}  {known}"
            if finding.status != FITTED:
                line += f"  {finding.status}: {finding.reason}"
            lines.append(line)
        for one, *_, finding in self._rows_without():
            lines.append(f"{one.name:{width}}  {finding.status}: {finding.reason}")
        lines.append(
            f"{self.n_observations} observations, met within {self.rms_percent:.2f} % "
            "(root mean square)"
        )
        if self.description.servers is not None:
            lines.append(
                "Files lie on the servers on which they were observed. For other files "
                "the devices say placement random."
            )
        if self.lack_of_fit is not None:
            lines += textwrap.wrap(self.lack_of_fit.sentence(), _WIDTH)
        return "\n".join([*lines, self.note] if self.note else lines)


def _advice(worst: str, names: Sequence[str]) -> str:
    """Return which measurements would identify the refused parameters."""
    if worst in _SUMMED and set(names) >= set(_SUMMED):
        return (
            f"only the sum of {' and '.join(_SUMMED)} affects these data; add the "
            "probes (probed_n_osts) or fit only one of them"
        )
    return _ADVICE.get(worst, _USUAL_ADVICE)
