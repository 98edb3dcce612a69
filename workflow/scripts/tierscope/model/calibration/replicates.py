"""What a calibration is compared with: means of repeated measurements, and their error.

The terms of a fit are differences of model and measurement. The model knows which files
each repetition reads, so terms of the same cache rate and I/O class that differ in the
repetition are replicates: their scatter is *pure error*, whatever the model is. Epochs
of a run share what that run had, so they are averaged first. Where there is one
repetition, its epochs are the replicates; they do not show what a run had as a whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

SLOWEST = "slowest"  # the I/O time of the slowest process, beside the I/O classes
PROBE = -1  # cache rate of a probe
LABELS = ["rate_percent", "repetition", "epoch", "what", "n_osts", "io_class"]
_OF_REPEATS = 2.2  # degrees of freedom of the scatter of seven repeats, by its median
REPETITIONS, EPOCHS, NOTHING = "repetitions", "epochs", "nothing"


@dataclass(frozen=True)
class Block:
    """The pure error of observations that were made together: those of a cache rate.

    Parameters
    ----------
    members : ndarray of int, shape (n,)
        Their numbers.
    covariance : ndarray of float, shape (n, n)
        Covariance of their means, as estimated.
    degrees : float
        Degrees of freedom of that estimate; infinite for a known error.
    """

    members: np.ndarray
    covariance: np.ndarray
    degrees: float


@dataclass(frozen=True)
class Observations:
    """Means of the terms of a fit over replicates.

    Parameters
    ----------
    labels : DataFrame, shape (n_observations, 3)
        ``rate_percent`` (`PROBE` for a probe), ``what`` (an I/O class, `SLOWEST` or the
        name of a probe) and ``n_osts``.
    io_class : ndarray of str, shape (n_observations,)
        The class that an observation tells of, empty for the slowest process.
    terms : ndarray of float, shape (n_observations,)
        Mean differences: model minus measurement.
    jacobian : ndarray of float, shape (n_observations, n_directions)
        Their derivatives by the directions of the fit.
    of_terms : ndarray of int, shape (n_terms,)
        To which observation each term of the fit belongs.
    own : ndarray of float, shape (n_observations,)
        By how much an observation grows per logarithm of the time that it tells of: the
        part of the I/O time that a class takes, 1 for the slowest process, the weight
        of a probe.
    blocks : tuple of Block
        The pure error.
    of : {"repetitions", "epochs", "nothing"}
        What the replicates are.
    """

    labels: pd.DataFrame
    io_class: np.ndarray
    terms: np.ndarray
    jacobian: np.ndarray
    of_terms: np.ndarray
    own: np.ndarray
    blocks: tuple[Block, ...]
    of: str

    @property
    def counts(self) -> np.ndarray:
        """Return of how many terms each observation is the mean."""
        return np.bincount(self.of_terms)

    @property
    def covariance(self) -> np.ndarray:
        """Return the covariance of all observations: (n_observations,) * 2."""
        whole = np.zeros((len(self.terms), len(self.terms)))
        for block in self.blocks:
            whole[np.ix_(block.members, block.members)] += block.covariance
        return whole

    @property
    def spread(self) -> np.ndarray:
        """Return how far observations deviate if an I/O time does by 1.

        The variance of a class is in proportion to its part of the I/O time.
        """
        is_probe = (self.labels["rate_percent"] == PROBE).to_numpy()
        return np.where(is_probe, 1.0, np.sqrt(self.own))

    def gain(self, jacobian: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        """Return what errors of observations do to a fit: (n_directions, n).

        Parameters
        ----------
        jacobian : ndarray of float, shape (n_observations, n_directions)
            Derivatives of the observations.
        inverse : ndarray of float, shape (n_directions, n_directions)
            Inverse of J'J of all terms.
        """
        return -inverse @ (jacobian * self.counts[:, np.newaxis]).T


def means(values: np.ndarray, of_terms: np.ndarray) -> np.ndarray:
    """Return the means of terms, or of rows of terms, over their observations."""
    counts = np.bincount(of_terms)
    sums = np.zeros((len(counts), *values.shape[1:]))
    np.add.at(sums, of_terms, values)
    return (sums.T / counts).T


def kind_of_replicates(labels: pd.DataFrame) -> str:
    """Return what the replicates of the terms of points are."""
    points = labels[labels["rate_percent"] != PROBE]
    by_rate = points.groupby("rate_percent")
    if len(points) and (by_rate["repetition"].nunique() > 1).any():
        return REPETITIONS
    if len(points) and (by_rate["epoch"].nunique() > 1).any():
        return EPOCHS
    return NOTHING


def pure_error(
    labels: pd.DataFrame, terms: np.ndarray, floor: Sequence[float], kind: str
) -> list[Block]:
    """Return the pure error of each cache rate; members are numbers of observations.

    That of probes is `error_of_probes`.

    Parameters
    ----------
    labels : DataFrame
        ``observation``, ``rate_percent``, ``repetition`` and ``epoch`` of each term.
    terms : ndarray of float, shape (n_terms,)
        The terms.
    floor : sequence of float
        The least standard deviation of one replicate of each observation.
    kind : str
        `kind_of_replicates`.
    """
    blocks = []
    unit = "epoch" if kind == EPOCHS else "repetition"
    floor = np.asarray(floor)
    frame = labels.assign(term=terms)
    points = frame[frame["rate_percent"] != PROBE]
    for _, part in points.groupby("rate_percent"):
        values = part.pivot_table(index=unit, columns="observation", values="term")
        values = values.fillna(values.mean())  # a class that one replicate lacks
        members, n = values.columns.to_numpy(), len(values)
        least = floor[members] ** 2 / n
        if n < 2:
            blocks.append(Block(members, np.diag(least), np.inf))
            continue
        covariance = np.cov(values.to_numpy(), rowvar=False, ddof=1) / n
        covariance = np.atleast_2d(covariance)
        blocks.append(Block(members, covariance, n - 1.0))
        lacking = np.maximum(least - np.diag(covariance), 0)
        blocks.append(Block(members, np.diag(lacking), np.inf))
    return blocks


def error_of_probes(members: np.ndarray, own: np.ndarray, noise: float) -> list[Block]:
    """Return the pure error of probes: each has a block.

    The weight of a probe's term gives it the deviation `noise`, whatever its repeats
    do. How well that is known depends on which part of it comes from the repeats.

    Parameters
    ----------
    members : ndarray of int, shape (n_probes,)
        Numbers of their observations.
    own : ndarray of float, shape (n_probes,)
        Weights of their terms.
    noise : float
        Standard deviation of a weighted term.
    """
    covariance = np.array([[noise**2]])
    degrees = _OF_REPEATS / np.maximum((1 - own**2) ** 2, 1e-9)
    return [
        Block(np.array([member]), covariance, float(known))
        for member, known in zip(members, degrees, strict=True)
    ]


def observations_of(
    labels: pd.DataFrame,
    terms: np.ndarray,
    jacobian: np.ndarray,
    own: np.ndarray,
    noise: float,
) -> Observations:
    """Return the means of a fit's terms over replicates, with their pure error.

    Parameters
    ----------
    labels : DataFrame
        Columns `LABELS` of each term.
    terms, jacobian, own : ndarray
        Terms, their derivatives, and by how much they grow (`Observations.own`).
    noise : float
        The least relative deviation of a time; the deviation of a probe's term.
    """
    keys = ["rate_percent", "what", "n_osts", "io_class"]
    groups = labels.groupby(keys, sort=False)
    labels = labels.assign(observation=groups.ngroup())
    of_terms = labels["observation"].to_numpy()
    firsts = labels.drop_duplicates("observation")
    own, kind = means(own, of_terms), kind_of_replicates(labels)
    probes = np.flatnonzero(firsts["rate_percent"].to_numpy() == PROBE)
    blocks = pure_error(labels, terms, noise * own, kind)
    blocks += error_of_probes(probes, own[probes], noise)
    return Observations(
        firsts[keys[:3]].reset_index(drop=True),
        firsts["io_class"].to_numpy(),
        means(terms, of_terms),
        means(jacobian, of_terms),
        of_terms,
        own,
        tuple(blocks),
        kind,
    )
