r"""The Thomson limit: features as points on a sphere, with a loss from positive inner products only.

With one feature on, no bias, lengths 1 and equal importances, the loss of the ReLU model is a third of

.. math:: E(W) = \sum_{i \ne j} \mathrm{ReLU}(W_i \cdot W_j)^2

(ordered pairs), up to a third for each feature of length 0.
"""

import numpy as np
import numpy.typing as npt

from ..loss import checks
from ..loss.checks import MOST
from ..validation import Real, broadcast, finite, number, real, scalar_or_array, whole_numbers

__all__ = ["code_loss", "common_norm_loss", "obtuse_pair_loss", "thomson_bound", "thomson_energy"]


@finite
def thomson_energy(W: npt.ArrayLike, bias: float = 0.0) -> float:
    r"""Energy of the generalised Thomson problem, summed over ordered pairs (Elhage et al. 2022).

    .. math:: E(W) = \sum_{i \ne j} \mathrm{ReLU}(W_i \cdot W_j + b)^2

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, one a row; not normalised. For points on the sphere pass unit vectors.
    bias : float, optional
        A bias b shared by all outputs.

    Returns
    -------
    float
        Relative error 1e-14 times n_hidden.

    Raises
    ------
    ValueError
        If `W` is not a finite matrix or `bias` not a number.

    Examples
    --------
    >>> thomson_energy([[1, 0], [0, 1], [0.6, 0.8], [-1, 0]])
    2.0
    """
    W = checks.encodings(W)
    G = W @ W.T + number("bias", bias, -checks.LARGEST_ENTRY, checks.LARGEST_ENTRY)
    np.fill_diagonal(G, 0.0)
    return float(np.sum(np.square(np.maximum(G, 0.0))))


@finite
def thomson_bound(n_features: npt.ArrayLike, n_hidden: npt.ArrayLike, bias: npt.ArrayLike = 0.0) -> Real:
    r"""Proved lower bound, in closed form, on the energy of all arrangements of unit vectors.

    .. math:: E \ge \frac{n\, (n (1 - m t) - 2 m (1 - t))^2}{m\, (n (m + 1) - 4 m)}
              \quad\text{if}\quad n (1 - m t) > 2 m (1 - t), \qquad t = -b,

    and 0 otherwise; without bias :math:`n (n - 2m)^2 / (m (n (m+1) - 4m))` for n > 2m. *No more than 2m
    points have energy 0*. For n far above 2m the bound tends to n^2/(m (m+1)), while the energy of antipodal
    sets tends to n^2/(2m): the ratio grows with m. `superposition.solvers.relu.linear_programming_bound` is
    sharper. `derive_thomson_bound` proves it; the method is Yudin's (Discrete Math. Appl. 3 (1993) 75), the
    condition with a bias is Levenshtein's second bound on spherical codes. Errors are those of
    `thomson_energy`.

    Parameters
    ----------
    n_features, n_hidden : array_like of int
        n and m, at least 1.
    bias : array_like of float, optional
        b, from -1 to 0.

    Returns
    -------
    float or ndarray of float64
        For m = 1 and even n the bound is the minimum.

    Examples
    --------
    >>> thomson_bound(5, 2), thomson_bound(4, 2)
    (0.35714285714285715, 0.0)
    """
    n, m = whole_numbers("n_features", n_features, 1, MOST), whole_numbers("n_hidden", n_hidden, 1, MOST)
    t = -real("bias", bias, -1.0, 0.0)
    broadcast(n_features=n, n_hidden=m, bias=t)
    excess = np.asarray(n * (1 - m * t) - 2 * m * (1 - t))
    excess = np.where(excess > 0, excess, 0.0)
    # Positive wherever the excess is: n > 2m there.
    below = np.where(excess > 0, m * (n * (m + 1) - 4 * m), 1.0)
    return scalar_or_array(np.asarray(n * excess**2 / below))


# --- What the model's loss makes of it: totals over features and patterns, importances 1 -------------------


def common_norm_loss(n_features: npt.ArrayLike, energy: npt.ArrayLike) -> Real:
    r"""Loss with one feature on, if all features of an arrangement have the same, best length: exact.

    .. math:: L_1 = \tfrac13 \min_s\, (n (1 - s)^2 + s^2 E) = \frac{n E}{3 (n + E)},
              \qquad s = |W_i|^2 = \frac{n}{n + E}.

    With length 1 the loss is E/3. Lengths that differ are no better if all features have the same
    interference and the matrix :math:`\mathrm{ReLU}(\hat W_i \cdot \hat W_j)^2` is positive semidefinite; for
    the decagon it is not.

    Parameters
    ----------
    n_features : array_like of int
        n, at least 1: number of features represented. Each dropped feature adds 1/3.
    energy : array_like of float
        `thomson_energy` E of the directions, the sum of ReLU(W_i.W_j)^2 over ordered pairs of unit vectors
        (without bias); not negative.

    Examples
    --------
    >>> common_norm_loss(2, 2.0)
    0.3333333333333333
    """
    n, energy = whole_numbers("n_features", n_features, 1, MOST), real("energy", energy, 0.0, 1e100)
    broadcast(n_features=n, energy=energy)
    return scalar_or_array(np.asarray(n * energy / (3 * (n + energy))))


def code_loss(n_features: npt.ArrayLike, largest: npt.ArrayLike) -> Real:
    r"""Loss with one feature on, if a bias silences all interference of an arrangement: exact.

    If no inner product of the directions exceeds mu, the bias :math:`-\mu |W_i|^2` silences all of them. With
    the best length, :math:`|W_i|^2 = (2 + \mu)/(2 (1 - \mu))`, the features' own errors add up to

    .. math:: L_1 = n\, \frac{3 \mu^2 + \mu^3}{12}.

    The loss is least for the smallest mu, that is for the best spherical code and not for the least energy.
    It bounds the least L_1 with bias from above. Each dropped feature adds 1/3.

    Parameters
    ----------
    n_features : array_like of int
        n, the number of features represented.
    largest : array_like of float
        mu, the largest inner product of two directions, in [0, 1).

    Returns
    -------
    float or ndarray of float64
        Of the broadcast shape.

    Examples
    --------
    >>> code_loss(5, 0.25)
    0.08463541666666667
    """
    n, mu = (
        whole_numbers("n_features", n_features, 1, MOST),
        real("largest", largest, 0.0, 1.0, brackets="[)"),
    )
    broadcast(n_features=n, largest=mu)
    return scalar_or_array(np.asarray(n * mu**2 * (3 + mu) / 12))


def obtuse_pair_loss(inner: npt.ArrayLike) -> Real:
    r"""Loss of an output while its feature and another one are on, at an inner product of at most 0: exact.

    .. math:: \int_0^1\!\!\int_0^1 (x - \mathrm{ReLU}(x + c y))^2\, dx\, dy = \frac{c^2}{3} + \frac{c^3}{6}

    Parameters
    ----------
    inner : array_like of float
        c, from -1 to 0, of two encodings of length 1 without bias. Errors are those of `thomson_energy`.

    Examples
    --------
    >>> obtuse_pair_loss(-1.0)
    0.16666666666666666
    """
    c = real("inner", inner, -1.0, 0.0)
    return scalar_or_array(np.asarray(c * c * (2 + c) / 6))
