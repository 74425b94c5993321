r"""Capacities: the share of the m dimensions of a matrix of rank m that each output takes.

Of independent features with variances v_j an output of ReLU(M x + b) has the share
:math:`c_i = M_{ii}^2 v_i/\sum_j M_{ij}^2 v_j` of its variance from its own feature, and interference of the
variance v_i (1/c_i - 1) in units of M_ii. The section "Capacities" of the page "Features that differ" proves
that those of a matrix of rank m sum to m at most, and that every allocation is attained. For features that
are alike c_i is Cowsik's ratio and the variance that of his Eq. 6.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import validation
from ..features import Features, as_features
from ..rug.finite import cumulant_correction, cumulants
from ..validation import FloatArray

__all__ = [
    "capacities", "finite_size_correction", "independent", "independent_uniform", "interference_variance",
]  # fmt: skip


def independent(law: Any, n_features: int | None = None) -> Features:
    """Return `law` as a `Features`; raise a ValueError unless its features are independent.

    With `n_features`, `law` may also be a number p, for that many uniform features.
    """
    if n_features is not None:
        law = as_features(law, n_features)
    if not isinstance(law, Features) or not law.independent:
        raise ValueError(
            f"`law` must be a Features of independent features; got {validation.short_repr(law)}."
        )
    return law


def independent_uniform(law: Any, n_features: int | None = None) -> Features:
    """Return `law` as a `Features`; ValueError unless its features are independent, with uniform values.

    With `n_features`, `law` may also be a number p, for that many features.
    """
    return uniform(independent(law, n_features))


def uniform(law: Any) -> Features:
    """Return `law`; raise a ValueError unless it is a `Features` with uniform values."""
    if not isinstance(law, Features):
        raise ValueError(f"`law` must be a Features; got {validation.short_repr(law)}.")
    if not law.values.uniform:
        raise ValueError(f"`law` must have uniform values; got {law.values!r}.")
    return law


def capacities(M: npt.ArrayLike, law: Any) -> FloatArray:
    r"""Share of its own feature in each output's variance, :math:`M_{ii}^2 v_i/\sum_j M_{ij}^2 v_j`.

    v_j are the variances of the features. The capacities sum to at most the rank of M. For features of one
    variance see Scherlis et al. (2022), Polysemanticity and capacity, arXiv 2210.01892.

    Parameters
    ----------
    M : (n, n) array_like of float
        Decoder times encoder; row i makes output i.
    law : float or Features
        Law of independent features. A number is the probability p that a feature is on.

    Returns
    -------
    (n,) ndarray of float64
        In [0, 1], a few roundings off; 0 for a row of zeros.

    Raises
    ------
    ValueError
        If an argument is out of range, or `law` is for another number of features or not independent.

    Examples
    --------
    >>> capacities([[1.0, -1.0], [-1.0, 1.0]], 0.1)      # an antipodal pair shares one dimension
    array([0.5, 0.5])
    """
    square = validation.square("M", M)
    features = independent(law, square.shape[0])
    # Rows are scaled to a largest entry of 1, so that no square leaves the doubles.
    rows = np.abs(square) * np.sqrt(features.variance)
    rows /= np.maximum(rows.max(axis=1), 1e-300)[:, None]
    diagonal_square = np.diagonal(rows) ** 2
    return np.asarray(diagonal_square / np.maximum(np.sum(rows**2, axis=1), 1e-300))


def interference_variance(capacity: npt.ArrayLike, law: Features) -> FloatArray:
    """Variance of the interference of each output in units of its diagonal, :math:`v_i (1 - c_i)/c_i`.

    `law` has independent features, of variances v_i; errors are those of `capacities`.

    Parameters
    ----------
    capacity : float or (n,) array_like of float
        In [0, 1].

    Returns
    -------
    (n,) ndarray of float64
        A few roundings off; inf where the capacity is 0, or too small for a finite one.

    Examples
    --------
    >>> interference_variance([0.25, 1.0], Features(2, 1.0, "exponential"))
    array([3., 0.])
    """
    features = independent(law)
    share = validation.real(
        "capacity", validation.numbers_or_repeat("capacity", capacity, features.n_features), 0, 1
    )
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(features.variance * (1.0 - share) / share)


@validation.finite
def finite_size_correction(M: npt.ArrayLike, b: npt.ArrayLike, law: Any) -> FloatArray:
    r"""Loss of each output minus its macroscopic loss, to first order in the third and fourth cumulants.

    The macroscopic loss is `theory.rug.loss` at the scale a = M_ii, the standard deviation sigma of the
    interference of output i, and the bias b_i plus a times the mean of the interference. The correction is
    Edgeworth's, as in `theory.rug.edgeworth_correction`. The cumulants of the interference are
    :math:`\kappa_k = \sum_{j \ne i} (M_{ij}/M_{ii})^k c_k(x_j)`, with the cumulants c_k of x_j. Errors are
    those of `capacities`.

    Parameters
    ----------
    M : (n, n) array_like of float
        Decoder times encoder, with a positive diagonal and interference in each row.
    b : float or (n,) array_like of float
        Bias of the outputs.
    law : float or Features
        Law of independent features with values uniform on [0, scale].

    Returns
    -------
    (n,) ndarray of float64
        Without importance. Asymptotic: relative error of the order of the next terms, (kappa_3/sigma³)²,
        kappa_5/sigma⁵ and (kappa_4/sigma⁴)².

    Examples
    --------
    >>> M = np.eye(200) + 0.05 * np.sign(np.sin(np.arange(200)[:, None] + 3.0 * np.arange(200)))
    >>> finite_size_correction(M, -0.1, 0.1)[:1].round(9)
    array([1.5534e-05])
    """
    square = validation.square("M", M)
    n = square.shape[0]
    features, bias = independent_uniform(law, n), validation.numbers_or_repeat("b", b, n)
    diagonal = np.diagonal(square)
    if np.any(diagonal <= 0.0):
        raise ValueError(f"`M` must have a positive diagonal; got {diagonal[diagonal <= 0.0][0]:g}.")
    # In units of each output's own scale.
    rows = square / diagonal[:, None] * (features.scale / features.scale[:, None])
    np.fill_diagonal(rows, 0.0)
    variance = rows**2 @ (features.p / 3.0 - features.p**2 / 4.0)
    if np.any(variance <= 0.0):
        k = int(np.flatnonzero(variance <= 0.0)[0])
        raise ValueError(f"`M` must have interference in each row; got none in row {k}.")
    p = features.p
    third, fourth = (rows**k @ cumulant for k, cumulant in zip((3, 4), cumulants(p), strict=True))
    mean = bias / features.scale + diagonal * (rows @ p) / 2.0
    correction = cumulant_correction(diagonal, mean, np.sqrt(variance), p, third, fourth)
    return np.asarray(correction * features.scale**2)
