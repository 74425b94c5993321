"""Parts of the loss on one-sparse inputs: feature benefit, interference, bias; dimensionality."""

import numpy as np
import numpy.typing as npt

from ..loss import checks
from ..loss.checks import LARGEST_ENTRY
from ..loss.cube import other_loss, own_loss
from ..validation import FloatArray, Real, broadcast, finite, real, scalar_or_array

__all__ = ["corner_class_loss", "feature_benefit", "feature_dimensionality", "interference"]


def _checked_real_arrays(**arguments: npt.ArrayLike) -> list[FloatArray]:
    """Return the arguments as arrays; raise a ValueError about one beyond 1e50 or unfit to broadcast."""
    arrays = {name: real(name, value, -LARGEST_ENTRY, LARGEST_ENTRY) for name, value in arguments.items()}
    broadcast(**arrays)
    return list(arrays.values())


@finite
def feature_benefit(square: npt.ArrayLike, b: npt.ArrayLike = 0.0) -> Real:
    r"""Loss on its feature that an output saves over the output 0: first term of L_1 (Elhage et al. 2022).

    .. math:: \frac13 - \int_0^1 (x - \mathrm{ReLU}(m x + b))^2\,dx, \qquad m = |W_i|^2

    Parameters
    ----------
    square, b : array_like of float
        m, which may be negative for models that are not tied, and the bias of the output; they broadcast.

    Returns
    -------
    float or ndarray of float64
        At most 1/3, for m = 1 and b = 0; 0 for a dead output; negative if the output is worse than 0. Exact;
        absolute error below 1e-15 (1 + |m| + |b|)².

    Raises
    ------
    ValueError
        If an argument is not finite or above 1e50, or their shapes do not fit each other.

    Examples
    --------
    >>> feature_benefit([0.0, 0.5, 1.0]).round(12)                    # (1 - (1 - m)²)/3 without bias
    array([0.        , 0.25      , 0.33333333])
    """
    return scalar_or_array(np.asarray(1.0 / 3.0 - own_loss(*_checked_real_arrays(square=square, b=b))))


@finite
def interference(overlap: npt.ArrayLike, b: npt.ArrayLike = 0.0) -> Real:
    r"""Mean square of an output whose feature is off while one other is on: the second term of L_1.

    .. math:: \int_0^1 \mathrm{ReLU}(c x + b)^2\,dx, \qquad c = W_j \cdot W_i

    Without bias this is ReLU(c)²/3: negative overlaps cost nothing. With a bias b < 0 overlaps up to -b cost
    nothing, and larger ones (c + b)³/(3 c). So if an overlap is positive, a negative bias lowers L_1.

    Parameters
    ----------
    overlap, b : array_like of float
        c and the bias of the output; they broadcast. Errors are those of `feature_benefit`.

    Returns
    -------
    float or ndarray of float64
        Exact; relative error below 1e-15, but for the rounding of c + b.

    Examples
    --------
    >>> interference([-0.5, 0.5, 0.5], [0.0, 0.0, -0.25]).round(12)
    array([0.        , 0.08333333, 0.01041667])
    """
    return scalar_or_array(np.asarray(other_loss(*_checked_real_arrays(overlap=overlap, b=b))))


def corner_class_loss(W: npt.ArrayLike, b: npt.ArrayLike, importance: npt.ArrayLike | None = None) -> float:
    r"""Loss on the n inputs with one feature on at the value 1, a stand-in for L_1 (Elhage et al. 2022).

    .. math:: \sum_i I_i (1 - \mathrm{ReLU}(|W_i|^2 + b_i))^2
              + \sum_{i \ne j} I_j\,\mathrm{ReLU}(W_j\cdot W_i + b_j)^2

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, one a row; entries up to 1e20.
    b, importance : (n_features,) array_like of float
        Biases of the outputs, or one for all, and weights of the features' errors, at least 0; 1 by default.

    Returns
    -------
    float
        3 L_1 without bias. With a bias the two losses have different minima. In two dimensions this one is 0
        for any number of features, at |W_i|² = 1/(1 - mu) and the bias -mu/(1 - mu), with the largest overlap
        mu of their directions.

    Examples
    --------
    >>> from superposition.theory.relu import class_loss, polygon
    >>> mu = np.cos(2 * np.pi / 5)
    >>> W, b = polygon(5) / np.sqrt(1 - mu), -mu / (1 - mu)
    >>> round(corner_class_loss(W, b), 12), round(class_loss(W, b, 1), 4)
    (0.0, 0.1592)
    """
    W = checks.encodings(W)
    n = W.shape[0]
    b = checks.biases(b, n)
    weights = checks.importances(importance, n)
    out = np.maximum(W @ W.T + b[:, np.newaxis], 0.0)  # column i is the output for feature i
    return float(weights @ ((np.eye(n) - out) ** 2).sum(axis=1))


def feature_dimensionality(W: npt.ArrayLike) -> FloatArray:
    r"""Dimensionality of each feature, its share of a hidden dimension (Elhage et al. 2022).

    .. math:: D_i = \frac{|W_i|^2}{\sum_j (\hat W_i \cdot W_j)^2}

    W, (n_features, n_hidden), has an encoding a row; errors are those of `corner_class_loss`.

    The values add up to the rank of W at most, with equality if and only if each W_i is an eigenvector of W'
    W, as in regular polytopes and tight frames: see the page "Small ReLU models".

    Returns
    -------
    (n_features,) ndarray of float64
        In [0, 1]; 0 for a row that is zero, or shorter than 1e-150 of the largest entry. The relative error
        is a few 1e-16 n_features.

    Examples
    --------
    >>> feature_dimensionality([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    array([0.5, 0.5, 1. , 0. ])
    """
    rows = checks.encodings(W)
    rows = rows / max(float(np.abs(rows).max()), float(np.finfo(np.float64).tiny))
    length = np.sqrt((rows * rows).sum(axis=1))
    unit = np.divide(rows, length[:, np.newaxis], out=np.zeros_like(rows), where=length[:, np.newaxis] > 0.0)
    spread = ((unit @ rows.T) ** 2).sum(axis=1)
    return np.asarray(np.divide(length**2, spread, out=np.zeros(length.size), where=spread > 0.0))
