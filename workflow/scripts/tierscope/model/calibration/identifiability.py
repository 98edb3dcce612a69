"""What data tell about parameters: derivatives, standard errors, what to leave out.

All parameters are logarithms, so errors are relative. The functions know nothing of
storage: a residual function is any function of the parameters.
"""

from collections.abc import Callable

import numpy as np

LARGEST_ERROR = 0.2  # relative error of an identified parameter
NOTHING_KNOWN = 5.0  # error without any information, in logarithms
_STEP = 0.1  # step of derivatives in the search, in logarithms
_DISTANCES = 4  # number of distances for the standard errors


def derivatives(residuals: Callable, x: np.ndarray, step: float = _STEP) -> np.ndarray:
    """Return the derivatives of residuals, central: shape (n_terms, n_parameters)."""
    shifts = np.eye(len(x)) * step
    return np.column_stack([_half_change(residuals, x, s) / step for s in shifts])


def _half_change(residuals: Callable, x: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return half of what residuals change from one side of a place to the other."""
    return (residuals(x + shift) - residuals(x - shift)) / 2


def broad_derivatives(
    residuals: Callable, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return derivatives over the range of an acceptable error, and their noise.

    ``a h + b h^3`` is fitted to half the differences at several distances h. ``a`` is
    the derivative, and the residual is the simulator's roughness.

    Returns
    -------
    jacobian : ndarray of float, shape (n_terms, n_parameters)
    noise : ndarray of float, shape (n_parameters,)
        Sum over the terms of the squared standard error of ``a``.
    """
    if not len(x):
        return np.zeros((len(residuals(x)), 0)), np.zeros(0)
    distances = np.log1p(LARGEST_ERROR) * np.arange(1, _DISTANCES + 1) / _DISTANCES
    basis = np.column_stack([distances, distances**3])
    inverse = np.linalg.inv(basis.T @ basis)
    columns, noise = [], []
    for one in np.eye(len(x)):
        halves = np.array([_half_change(residuals, x, h * one) for h in distances])
        coefficients, *_ = np.linalg.lstsq(basis, halves, rcond=None)
        left = halves - basis @ coefficients
        columns.append(coefficients[0])
        noise.append((left**2).sum() / (_DISTANCES - 2) * inverse[0, 0])
    return np.column_stack(columns), np.array(noise)


def uncertainty(
    jacobian: np.ndarray, noise: np.ndarray, s: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return standard errors and correlations of the logarithms of the parameters.

    Noise adds to the diagonal of J'J like information, so it is subtracted twice. A
    direction without remaining information has the error `NOTHING_KNOWN`.
    """
    information = jacobian.T @ jacobian - 2 * np.diag(noise)
    eigenvalues, directions = np.linalg.eigh(information)
    scaled = directions * np.minimum(
        s / np.sqrt(np.maximum(eigenvalues, 1e-300)), NOTHING_KNOWN
    )
    covariance = scaled @ scaled.T
    errors = np.sqrt(np.diag(covariance))
    return errors, covariance / np.outer(errors, errors)


def errors_alone(jacobian: np.ndarray, noise: np.ndarray, s: float) -> np.ndarray:
    """Return each parameter's standard error if all others were known.

    It is `NOTHING_KNOWN` at most: then the data do not depend on the parameter.
    """
    information = (jacobian**2).sum(axis=0) - 2 * noise
    return np.minimum(s / np.sqrt(np.maximum(information, 1e-300)), NOTHING_KNOWN)


def advice(jacobian: np.ndarray, noise: np.ndarray, s: float) -> tuple[int, ...]:
    """Return how to fit fewer parameters: which to leave out, or which two to join.

    A parameter is left out if the data hardly depend on it. Two are joined if the data
    depend on them only together. There is none if the data tell all of them.

    Parameters
    ----------
    jacobian : ndarray of float, shape (n_terms, n_parameters)
        Derivatives of the terms of a sum of squares by logarithms of parameters.
    noise : ndarray of float, shape (n_parameters,)
        Squared standard error of each column (`broad_derivatives`).
    s : float
        Standard deviation of a term.

    Returns
    -------
    LeaveOut, Join or None
        A parameter is left out if its standard error is above `LARGEST_ERROR` though
        all others are known. If it is so only because the others are unknown, the
        parameter with the largest error is joined with the one to which it is most
        correlated.
    """
    if not jacobian.shape[1]:
        return ()
    alone = errors_alone(jacobian, noise, s)
    if alone.max() > LARGEST_ERROR:
        return (int(np.argmax(alone)),)
    errors, correlation = uncertainty(jacobian, noise, s)
    worst = int(np.argmax(errors))
    if errors[worst] <= LARGEST_ERROR:
        return ()
    others = np.abs(correlation[worst])
    others[worst] = -1.0
    return worst, int(np.argmax(others))
