"""Structures that a real GFS may have, of which calibration takes what the data tell.

The plain structure has file i on server i modulo their number, and servers whose rate
never changes. A real GFS may differ in two ways:

- **Places.** A hash or an allocator chooses the server of a file, so some servers hold
  more files than others. Where the servers were observed (column `ost` of the dataset's
  manifest) they are a fact, and used without a test. Elsewhere random ones are tried.
- **A rate limit.** A server is fast until a credit is used up, and slower from then on:
  a rate that the provider limits, or a cache in front of a disk. This adds two
  parameters.

Structures are tried only if the fit without them is worse than the data's noise
(`misfits`). One is taken if the sum of squares falls by more than chance would have it,
and the data determine its parameters. Of several, the one with the best fit comes
first, and the others are tried on top of it. Emulated devices have the plain structure,
so nothing is tried there.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import fdtrc

from tierscope.core.columns import POINT
from tierscope.core.description import RunDescription
from tierscope.model.calibration.automatic import fit_what_data_tell
from tierscope.model.calibration.objective import (
    NOISE,
    Objective,
    Space,
    unsaid,
)
from tierscope.model.calibration.result import (
    FITTED,
    FURTHER_PARAMETERS,
    JOINED,
    LIMIT_PARAMETERS,
    Calibration,
    Parameter,
)
from tierscope.model.calibration.starting_values import calibrated, with_values
from tierscope.storage.queueing_network import MODULO, RANDOM, ModelError

CHANCE = 0.01  # probability of taking a structure that is not there
NOT_TRIED = "not tried, as the model without it meets these data within their noise"
_UNTOLD = "these data do not tell it from the model without it"
_UNKNOWN = "the data fit better with it, but do not determine its parameters"
_NO_LIMIT = 1e12, 1.0  # a rate that changes nothing, and a credit
_SERVERS = "gfs.ost_bandwidth_bytes_per_s"
_CREDITS, _FASTER = (1.0, 0.5, 0.25, 0.1, 0.03), (1.0, 1.5, 2.0, 4.0)  # factors


def with_observed_servers(
    description: RunDescription, manifest: pd.DataFrame
) -> RunDescription:
    """Return a description with the servers of the files, where they are known.

    Parameters
    ----------
    description : RunDescription
        As `Experiment.model_description` returns it. If its devices say that files lie
        in turn (`gfs.placement`), that holds.
    manifest : DataFrame
        Table ``manifest`` of the scenario's dataset.

    Raises
    ------
    ModelError
        If the files lie on more servers than the scenario has.
    """
    n_osts = description.scenario.n_osts
    is_in_turn = _placement(description) == MODULO
    if n_osts < 2 or is_in_turn or not _is_real(description):
        return description
    osts = manifest.sort_values("file_id")["ost"].to_numpy()
    found, servers = np.unique(osts, return_inverse=True)
    if found[0] < 0:
        return description
    if len(found) > n_osts:
        raise ModelError(
            f"manifest of {description.dataset.name}: got files on {len(found)} OSTs, "
            f"expected {n_osts} at most."
        )
    return replace(description, servers=servers)


def without_structures(description: RunDescription) -> RunDescription:
    """Return a description with file i on server i modulo their number."""
    if description.servers is None:
        return description
    return _placed(description, MODULO)


def fit_structure(
    description: RunDescription,
    io_time: pd.DataFrame,
    probes: pd.DataFrame | None,
    say: Callable[[str], None] = unsaid,
) -> Calibration:
    """Fit what the data tell, with the structure of the GFS that they tell.

    Parameters and errors are those of `tierscope.model.calibration.fit.calibrate`.
    """
    data, n_units = (io_time, probes), _n_units(io_time, probes)
    found, taken = fit_what_data_tell(description, *data, say=say), []
    reasons = dict.fromkeys(_structures_of(description), NOT_TRIED)
    while misfits(found):
        others = [one for one in reasons if one not in taken]
        reasons |= dict.fromkeys(others, _UNTOLD)
        left = {
            one: _left(one, found, *data, say)
            for one in others
            if one.parameters or _told_of_gfs(found)
        }
        better = [one for one in left if _is_told(one, found, left[one][0], n_units)]
        if not better:
            break
        best = min(better, key=lambda one: left[one][0])
        described = best.make(found.description)
        after = fit_what_data_tell(described, *data, left[best][1], say)
        if not _is_told(best, found, _sum_of_squares(after), n_units):
            break
        if not _are_known(best.parameters, after):
            reasons[best] = _UNKNOWN
            break
        found = after
        taken.append(best)
    return _explained(found, taken, reasons)


def misfits(found: Calibration) -> bool:
    """Return whether a fit is worse than the noise of its data allows."""
    n_free = found.n_observations - int(np.isfinite(found.standard_errors).sum())
    return _sum_of_squares(found) > max(n_free, 1) * NOISE**2


@dataclass(frozen=True)
class _Structure:
    """A structure that can be tried."""

    make: Callable[[RunDescription], RunDescription]
    parameters: tuple[str, ...] = ()  # that it adds
    words: str = ""  # on the files' places, if it is taken
    words_without: str = ""  # if it is left out, before the reason


def _structures_of(description: RunDescription) -> list[_Structure]:
    """Return the structures that a scenario's GFS may have."""
    structures, n_osts = [], description.scenario.n_osts
    if not _is_real(description):
        return structures
    if description.servers is not None:
        structures.append(_IN_TURN)
    elif n_osts > 1 and not _placement(description):
        structures.append(_AT_RANDOM)
    if "limit_bytes_per_s" not in description.system.devices["gfs"]:
        structures.append(_LIMITED)
    return structures


def _placed(description: RunDescription, placement: str) -> RunDescription:
    """Return a description whose devices say where files lie."""
    gfs = {**description.system.devices["gfs"], "placement": placement}
    return replace(calibrated(description, {"gfs": gfs}), servers=None)


def _limited(description: RunDescription) -> RunDescription:
    """Return a description with a rate limit, so high that it changes nothing."""
    return with_values(description, dict(zip(LIMIT_PARAMETERS, _NO_LIMIT, strict=True)))


_IN_TURN = _Structure(
    lambda one: _placed(one, MODULO),
    words="The data fit clearly better with file i on server i modulo their number "
    "than with the observed servers, so these are not used.",
)
_AT_RANDOM = _Structure(
    lambda one: _placed(one, RANDOM),
    words="The data fit clearly better with files at random servers than in turn.",
    words_without="Files at random servers",
)
_LIMITED = _Structure(_limited, LIMIT_PARAMETERS)


def _left(
    structure: _Structure,
    found: Calibration,
    io_time: pd.DataFrame,
    probes: pd.DataFrame | None,
    say: Callable[[str], None],
) -> tuple[float, dict[str, float]]:
    """Return the sum of squares with a structure, and the parameters that give it."""
    names = [one.name for one in found.parameters]
    values = dict(zip(names, found.values, strict=True))
    # Other parameters keep theirs, so this takes a fraction of a whole calibration.
    told = _told_of_gfs(found)
    added = [FURTHER_PARAMETERS[name] for name in structure.parameters]
    description = structure.make(with_values(found.description, values))
    objective = Objective(description, io_time, probes, (*told, *added), say)
    rough = objective.start()
    start = np.array([np.log(values[one.name]) for one in told])
    start = np.append(start, rough[len(told) :])
    space = Space.of(start, [[i] for i in range(len(start))], objective.signs)
    starts = [one for x in (start, rough) for one in _limits_near(objective, x)]
    least, x = objective.least(space, starts)
    return least, values | dict(zip(objective.names, np.exp(x), strict=True))


def _limits_near(objective: Objective, x: np.ndarray) -> Iterator[np.ndarray]:
    """Yield starts with smaller credits and faster servers, if there is a limit."""
    names, (osts, credit) = objective.names, (_SERVERS, LIMIT_PARAMETERS[1])
    if credit not in names:
        yield x
        return
    # No search moves an unused credit; servers fitted without a limit are too slow.
    for factors in itertools.product(_CREDITS, _FASTER if osts in names else (1.0,)):
        start = x.copy()
        start[names.index(credit)] += np.log(factors[0])
        if osts in names:
            start[names.index(osts)] += np.log(factors[1])
        yield np.clip(start, *objective.bounds)


def _told_of_gfs(found: Calibration) -> list[Parameter]:
    """Return the parameters of the GFS that the data told."""
    return [
        one
        for one, finding in zip(found.parameters, found.findings, strict=True)
        if finding.status in {FITTED, JOINED} and one.name.startswith("gfs.")
    ]


def _n_units(io_time: pd.DataFrame, probes: pd.DataFrame | None) -> int:
    """Return how many runs and probes err independently, unlike epochs of a run."""
    n_runs = len(io_time[POINT].drop_duplicates())
    if probes is None or probes.empty:
        return n_runs
    return n_runs + len(probes[["n_osts", "probe"]].drop_duplicates())


def _is_told(
    structure: _Structure, before: Calibration, after: float, n_units: int
) -> bool:
    """Return whether the squares fall by more than chance would have it: an F test."""
    n_added = max(len(structure.parameters), 1)
    n_free = n_units - int(np.isfinite(before.standard_errors).sum()) - n_added
    if n_free < 1:
        return False
    least = max(after, before.n_observations * NOISE**2)
    gain = (_sum_of_squares(before) - least) / n_added / (least / n_free)
    return bool(gain > 0 and fdtrc(n_added, n_free, gain) < CHANCE)


def _are_known(names: Sequence[str], found: Calibration) -> bool:
    """Return whether the data determine some parameters, or a factor of each."""
    findings = zip(found.parameters, found.findings, strict=True)
    status = {one.name: finding.status for one, finding in findings}
    return all(status[name] in {FITTED, JOINED} for name in names)


def _sum_of_squares(found: Calibration) -> float:
    """Return the sum of squares of a fit."""
    return found.n_observations * (found.rms_percent / 100) ** 2


def _explained(
    found: Calibration, taken: Sequence[_Structure], reasons: Mapping[_Structure, str]
) -> Calibration:
    """Return a calibration that says which structure it has, and why no other one."""
    notes, left_out = [found.note, *(one.words for one in taken)], {}
    for structure, reason in reasons.items():
        if structure in taken:
            continue
        left_out |= dict.fromkeys(structure.parameters, reason)
        if structure.words_without:
            notes.append(f"{structure.words_without}: {reason}.")
    return replace(found, note=" ".join(filter(None, notes)), left_out=left_out)


def _placement(description: RunDescription) -> str | None:
    """Return where the devices say that files lie, None if they do not."""
    return description.system.devices["gfs"].get("placement")


def _is_real(description: RunDescription) -> bool:
    """Return whether the GFS is none of the emulated devices, which are as modelled."""
    return description.system.emulation is None
