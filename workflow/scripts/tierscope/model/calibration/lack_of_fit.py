"""Does the structure of the model describe this storage? Lack of fit and pure error.

The mean differences of model and measurement that a fit leaves (e) have two sources:
pure error, known from replicates, and the structure of the model. To first order a fit
turns errors of the observations d into e = M d, M = I + J A, with A what errors do to
the parameters. Without lack of fit, e'e has the mean tr(M S M'), where S is the
covariance of pure error. Classes of a run depend on each other, so the ratio

    F = e'e / tr(M S M')

is compared with an F distribution whose degrees of freedom have the same two moments:
tr(.)^2 / tr(.^2) of M S M' above, and those of the estimate of the trace below. This is
the ANOVA-type statistic of Box (Annals of Mathematical Statistics 25, 1954) and
Brunner, Dette and Munk (JASA 92, 1997), which needs no inverse of S: there are more
observations than repetitions.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from tierscope.model.calibration.replicates import (
    EPOCHS,
    NOTHING,
    PROBE,
    SLOWEST,
    Observations,
)

LEVEL_PERCENT = 5  # of false alarms: lack of fit is reported below it
_CLEARLY = 2.0  # standard errors of pure error by which a named observation differs
_MOST_NAMED = 4
_LEAST_FREE = 0.5  # observations that remain beside the parameters
_LEAST_PERCENT = 2  # difference from the model of an observation that is named
_NOUNS = {
    "gfs_read": "reads from the GFS",
    "gfs_meta": "opens and closes on the GFS",
    "lfs_read": "reads from the LFS",
    "lfs_meta": "opens and closes on the LFS",
}


@dataclass(frozen=True)
class Disagreement:
    """An observation that differs from the model by more than its pure error.

    Parameters
    ----------
    what : str
        An I/O class, `SLOWEST` or the name of a probe.
    io_class : str
        The class that it tells of; empty for the slowest process.
    rate_percent : int
        Cache rate; `PROBE` for a probe.
    n_osts : int
        OSTs.
    ratio : float
        Measured over modelled time.
    """

    what: str
    io_class: str
    rate_percent: int
    n_osts: int
    ratio: float

    @property
    def is_probe(self) -> bool:
        """Return whether it is a probe, and no point of the sweep."""
        return self.rate_percent == PROBE

    def words(self) -> str:
        """Return the observation in words, with direction and size."""
        faster = self.ratio < 1
        percent = 100 * (max(self.ratio, 1 / self.ratio) - 1)
        how = f"{percent:.0f} % {'faster' if faster else 'slower'} than modelled"
        if self.is_probe:
            return f"probe {self.what} on {self.n_osts} OSTs is {how}"
        at = f"at cache rate {self.rate_percent} %"
        if self.what == SLOWEST:
            return f"the slowest process is {how} {at}"
        return f"{_NOUNS[self.what]} are {how} {at}"


@dataclass(frozen=True)
class LackOfFit:
    """The test of a calibration's structure.

    Parameters
    ----------
    p_value : float
        Probability of differences as large as these if the structure is right; missing
        if nothing was repeated, or no observation is left to test with.
    pure_error_percent : float
        Root of the mean square of what pure error leaves in the observations.
    lack_of_fit_percent : float
        The same of what the structure adds.
    disagreements : tuple of Disagreement
        What differs most, the largest first.
    of : {"repetitions", "epochs", "nothing"}
        What the replicates are.
    """

    p_value: float
    pure_error_percent: float
    lack_of_fit_percent: float
    disagreements: tuple[Disagreement, ...]
    of: str

    @property
    def is_reported(self) -> bool:
        """Return whether the structure does not describe the storage."""
        return self.p_value < LEVEL_PERCENT / 100

    def sentence(self) -> str:
        """Return what the test says, in a sentence or two."""
        if np.isnan(self.p_value):
            return (
                "Whether the structure of the model describes this storage cannot be "
                f"tested: {_WHY_NOT[self.of == NOTHING]}."
            )
        test = f"p = {self.p_value:.2g}"
        if self.of == EPOCHS:
            test += "; tested against the epochs of one repetition"
        if not self.is_reported and self.lack_of_fit_percent > _TOO_LARGE_PERCENT:
            return (
                "These data cannot tell whether the structure of the model describes "
                f"this storage: the fit leaves {self.lack_of_fit_percent:.1f} % of the "
                f"I/O time beyond the pure error of {self.pure_error_percent:.1f} %, "
                f"which may be chance ({test})."
            )
        if not self.is_reported:
            return (
                "The structure of the model describes this storage as far as these "
                f"data tell: pure error {self.pure_error_percent:.1f} %, lack of fit "
                f"{self.lack_of_fit_percent:.1f} % of the I/O time ({test})."
            )
        named = ", ".join(one.words() for one in self.disagreements)
        hint = hint_of(self.disagreements)
        words = "; ".join(filter(None, [named, hint])) + ("" if hint else ".")
        return (
            "The structure of the model does not describe this storage"
            f"{': ' * bool(named)}{words} "
            f"Lack of fit {self.lack_of_fit_percent:.1f} %, "
            f"pure error {self.pure_error_percent:.1f} % of the I/O time ({test})."
        )


_TOO_LARGE_PERCENT = 5  # of the I/O time; a model that errs as much is not confirmed
_WHY_NOT = {
    True: "nothing was repeated; take two repetitions or more",
    False: "the fit has as many parameters as observations",
}


def hint_of(disagreements: tuple[Disagreement, ...]) -> str:
    """Return a cause that follows from what differs, as a question; may be empty."""
    for name, few_at_high_rates in (
        ("gfs_read", True),
        ("gfs_meta", True),
        ("lfs_read", False),
        ("lfs_meta", False),
    ):
        mine = [one for one in disagreements if one.io_class == name]
        runs = [one for one in mine if not one.is_probe]
        fast = [one for one in runs if one.ratio < 1]
        slow = [one for one in runs if one.ratio > 1]
        probes = [one for one in mine if one.is_probe]
        alone = [one for one in probes if one.what.endswith("latency")]
        cause = "a cache, or a rate limit whose credit is not used up"
        if fast and slow:
            order = fast[0].rate_percent > slow[0].rate_percent
            if order == few_at_high_rates:
                return f"{_NOUNS[name]} are faster when there are few of them: {cause}?"
        together = [*runs, *(one for one in probes if one not in alone)]
        if any(one.ratio < 1 for one in alone) and any(
            one.ratio > 1 for one in together
        ):
            return (
                f"{_NOUNS[name]} are faster when one process is alone: {cause}, or "
                "files that lie unequally on the servers?"
            )
        if slow and any(one.ratio < 1 for one in probes):
            return f"{_NOUNS[name]} are faster in probes than in runs: {cause}?"
        if fast and any(one.ratio > 1 for one in probes):
            return (
                f"{_NOUNS[name]} are slower in probes than in runs: are the runs "
                "served by a cache?"
            )
    if any(one.what == SLOWEST and one.ratio > 1 for one in disagreements):
        return "are files or processes served unequally?"
    return ""


def visible(observations: Observations) -> np.ndarray:
    """Return M: what errors of the observations leave in them after the fit."""
    jacobian, counts = observations.jacobian, observations.counts
    inverse = np.linalg.pinv((jacobian.T * counts) @ jacobian)
    gain = observations.gain(jacobian, inverse)
    return np.eye(len(counts)) + jacobian @ gain


def lack_of_fit(observations: Observations) -> LackOfFit:
    """Test whether a fit leaves more than pure error (see the module).

    Parameters
    ----------
    observations : Observations
        What the fit leaves.
    """
    seen, terms = visible(observations), observations.terms
    left = seen @ observations.covariance @ seen.T
    trace, n = np.trace(left), len(terms)
    p_value = np.nan
    if observations.of != NOTHING and np.trace(seen) > _LEAST_FREE and trace > 0:
        above = trace**2 / (left**2).sum()
        p_value = fdtrc(above, _degrees(observations, seen), (terms**2).sum() / trace)
    lacking = max((terms**2).sum() - trace, 0.0)
    return LackOfFit(
        float(p_value),
        float(100 * np.sqrt(trace / n)),
        float(100 * np.sqrt(lacking / n)),
        tuple(_disagreements(observations, np.sqrt(np.diag(left)))),
        observations.of,
    )


def _degrees(observations: Observations, seen: np.ndarray) -> float:
    """Return the degrees of freedom of the estimated tr(M S M')."""
    trace, variance = 0.0, 0.0
    for block in observations.blocks:
        part = seen[:, block.members]
        product = part.T @ part @ block.covariance
        trace += np.trace(product)
        variance += (product * product.T).sum() / block.degrees
    return trace**2 / variance if variance > 0 else 1e9


def _disagreements(
    observations: Observations, errors: np.ndarray
) -> list[Disagreement]:
    """Return what differs from the model by more than its pure error."""
    found, own = [], observations.own
    for i in np.argsort(-np.abs(observations.terms)):
        term, label = observations.terms[i], observations.labels.iloc[i]
        relative = term / own[i]  # a probe's term is a logarithm, weighted
        is_probe = label["rate_percent"] == PROBE
        ratio = np.exp(-relative) if is_probe else 1 / max(1 + relative, 1e-3)
        percent = 100 * (max(ratio, 1 / ratio) - 1)
        if abs(term) < _CLEARLY * errors[i] or percent < _LEAST_PERCENT:
            continue
        name, n_osts = observations.io_class[i], int(label["n_osts"])
        rate = int(label["rate_percent"])
        found.append(Disagreement(label["what"], name, rate, n_osts, float(ratio)))
    # The slowest process is named where no class says the same.
    said = {(one.rate_percent, one.ratio < 1) for one in found if one.io_class}
    return [
        one
        for one in found
        if one.what != SLOWEST or (one.rate_percent, one.ratio < 1) not in said
    ][:_MOST_NAMED]


def discrepancy(observations: Observations) -> tuple[float, float]:
    """Return by how much the model errs besides pure error.

    Every observation is thought to deviate from the model by an error of its own. Its
    size is that with which the sum of squares has the value that was found, at least 0
    (method of moments). The variance of a class is in proportion to its time.

    Returns
    -------
    tuple of float
        Standard deviation as a part of the I/O time, and the degrees of freedom from
        which it is known.
    """
    seen = visible(observations)
    pure = np.trace(seen @ observations.covariance @ seen.T)
    spread = seen * observations.spread
    spread = spread @ spread.T
    if (trace := np.trace(spread)) < _LEAST_FREE:
        return 0.0, 1.0
    excess = max((observations.terms**2).sum() - pure, 0.0)
    return float(np.sqrt(excess / trace)), float(trace**2 / (spread**2).sum())
