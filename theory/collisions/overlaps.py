r"""Interference at the start, and the motion of overlaps of two encodings.

Flows are in the normal form, constants 4 dropped; see the package.
"""

import math

import numpy as np
import numpy.typing as npt

from .. import validation
from ..validation import FloatArray, Real, number, scalar_or_array
from .counts import count_array

__all__ = ["initial_forces", "overlap_rate", "pair_flow"]


@validation.finite
def initial_forces(
    n_features: npt.ArrayLike, n_hidden: npt.ArrayLike, std: npt.ArrayLike
) -> tuple[Real, Real]:
    r"""Mean products of an encoding W_i with its feature benefit and with its interference at the start.

    .. math:: E (1 - |W_i|^2) |W_i|^2 = m s^2 - m (m + 2) s^4, \qquad
              E \sum_{j \ne i} \mathrm{ReLU}(W_i \cdot W_j)^2 = \tfrac12 (n - 1) m s^4,

    since overlaps of independent normal weights are symmetric about 0 with variance m s^4. The benefit
    vanishes at s = 1/sqrt(m + 2). See Lecomte et al. (2024), §2.5 ("the sum has mean Theta(n/m)").

    Parameters
    ----------
    n_features, n_hidden : array_like of int
        n and m, at least 1.
    std : array_like of float
        Standard deviation s of the initial weights, not negative; 0.9/sqrt(m) in the source's Fig. 2.

    Returns
    -------
    benefit, interference : float or ndarray of float64

    Examples
    --------
    >>> initial_forces(3, 4, 0.25)
    (0.15625, 0.015625)
    """
    n, m = count_array("n_features", n_features), count_array("n_hidden", n_hidden)
    s = validation.real("std", std, 0.0)
    benefit, interference = np.broadcast_arrays(m * s**2 * (1 - (m + 2) * s**2), 0.5 * (n - 1) * m * s**4)
    return scalar_or_array(benefit.copy()), scalar_or_array(interference.copy())


def overlap_rate(square1: npt.ArrayLike, square2: npt.ArrayLike, cosine: npt.ArrayLike | None = None) -> Real:
    """Relative rate d ln x/dt of a positive overlap x of two encodings, or of their cosine, at lam = 0.

    The rate is exact for the flow without the l1 force, of strength lam. An overlap *grows* while the squared
    lengths add up to less than 1, by the feature benefit, which Lecomte et al. (2024), §2.5, leave out. Their
    rate :math:`-(|W_1|^2 + |W_2|^2)`, times 1 - c^2, is the rate of the cosine c of the angle. Errors are
    those of `initial_forces`.

    Parameters
    ----------
    square1, square2 : array_like of float
        Squared lengths of the two encodings, not negative.
    cosine : array_like of float, optional
        If given, in (0, 1], the rate of the cosine at this value is returned instead of that of the overlap.

    Examples
    --------
    >>> overlap_rate(0.81, 0.81), overlap_rate(0.81, 0.81, cosine=0.1)
    (-1.2400000000000002, -1.6038000000000001)
    """
    a, b = validation.real("square1", square1, 0.0), validation.real("square2", square2, 0.0)
    if cosine is None:
        return scalar_or_array(np.asarray(2 * (1 - a - b)))
    c = validation.real("cosine", cosine, 0.0, 1.0, brackets="(]")
    return scalar_or_array(np.asarray(-(a + b) * (1 - c * c)))


@validation.finite
def pair_flow(W0: npt.ArrayLike, t: float) -> FloatArray:
    r"""Two encodings at time t under the flow without l1 force (lam = 0), of any overlap: exact.

    The flow is that of Lecomte et al. (2024) with constants 4 dropped; its interference is the ReLU of the
    overlap. A positive overlap stays positive, and then :math:`dW/dt = (1 - W W') W`: the Gram matrix P obeys
    a matrix logistic equation and

    .. math:: W(t) = e^t (1 + (e^{2t} - 1) P_0)^{-1/2} W_0 \to P_0^{-1/2} W_0,

    the symmetric orthogonalisation. If the overlap is not positive each encoding moves alone, by the same
    formula with its own squared length. Errors are those of `initial_forces`.

    Parameters
    ----------
    W0 : (2, n_hidden) array_like of float
        Initial encodings, one a row. Not modified.
    t : float
        Time, not negative.

    Returns
    -------
    W : (2, n_hidden) ndarray of float64
        Error some 1e-15 times e^t or the condition number of the two rows, whichever is smaller. Rows that
        are parallel up to rounding are taken as parallel.

    Examples
    --------
    >>> pair_flow([[0.8, 0.3], [0.5, 0.4]], 50).round(6)
    array([[ 0.986394, -0.164399],
           [ 0.164399,  0.986394]])
    """
    W = validation.matrix("W0", W0, (2, None))
    time = number("t", t, 0.0)
    decay = math.exp(-2 * time)
    if W[0] @ W[1] <= 0:
        square = np.sum(W * W, axis=1, keepdims=True)
        return np.asarray(W * _growth(square, decay))
    U, S, V = np.linalg.svd(W, full_matrices=False)
    S[S / max(S[0], np.finfo(np.float64).tiny) < 4 * np.finfo(np.float64).eps] = 0.0  # parallel rows stay so
    return np.asarray((U * (S * _growth(S * S, decay))) @ V)


def _growth(square: FloatArray, decay: float) -> FloatArray:
    """Return e^t / sqrt(1 + (e^2t - 1) square) from decay = e^-2t without overflow; 0 where `square` is 0."""
    total = decay + (1 - decay) * square
    return np.asarray(np.divide(1.0, np.sqrt(total), out=np.zeros_like(total), where=square > 0))
