r"""Interference that is never positive: its loss as p → 0, and the number of dimensions it takes.

If M has unit diagonal and no positive entry beside it, then ReLU(M x), without any bias, is exact on inputs
with no or one feature on. Each pair of features that are on together costs output i

.. math:: f(c) = \int_0^1\!\!\int_0^1 (x - \mathrm{ReLU}(x - c y))^2\,dx\,dy
               = \begin{cases} c^2/3 - c^3/6 & c \le 1 \\ 1/3 - 1/(6c) & c \ge 1, \end{cases}
               \qquad c = -M_{ij},

so that the loss per feature is :math:`p^2 F + O(p^3)`, :math:`F = \frac1n \sum_{i \ne j} f(-M_{ij})`, with no
logarithm of p. A tied model represents two features a dimension at most (antipodal pairs); with
W_out ≠ W_in' three dimensions do for any number of features: `cut_polygon`.
"""

import numpy as np
import numpy.typing as npt

from .. import validation
from ..validation import FloatArray, Real, scalar_or_array

__all__ = ["collision_loss", "cut_polygon", "pair_cost", "small_p_constant"]

# Inner products that should vanish are rounded to either side.
_ROUNDING = 1e-12


def pair_cost(c: npt.ArrayLike) -> Real:
    """Loss E (x - ReLU(x - c y))² of an output while its feature x and another, y, are on, both uniform.

    Parameters
    ----------
    c : array_like of float
        Strength of the interference in units of the diagonal, at least 0.

    Returns
    -------
    float or ndarray of float64
        From 0 to 1/3, increasing, never below min(c², 1)/6. Relative error 1e-15.

    Examples
    --------
    >>> pair_cost([0.5, 1.0, 2.0])
    array([0.0625    , 0.16666667, 0.25      ])
    """
    strength = validation.real("c", c, 0)
    weak = np.minimum(strength, 1.0)
    strong = np.maximum(strength, 1.0)
    return scalar_or_array(weak**2 * (2.0 - weak) / 6.0 + (1.0 - 1.0 / strong) / 6.0)


def small_p_constant(M: npt.ArrayLike) -> float:
    """Return F of the loss F p² + O(p³) per feature of ReLU(M x) for features on with probability p.

    Parameters
    ----------
    M : (n, n) array_like of float
        Positive on the diagonal, and elsewhere not above 1e-12 (rounding) of the row's diagonal entry. Each
        row is divided by its diagonal entry.

    Returns
    -------
    float
        F, relative error 1e-14. The loss is between :math:`p^2 (1-p)^{n-2} F` and p/3.

    Raises
    ------
    ValueError
        If `M` is not such a matrix.

    Examples
    --------
    >>> small_p_constant([[1, -1], [-1, 1]])
    0.16666666666666666
    """
    square = validation.square("M", M)
    diagonal = np.diag(square)
    if np.any(diagonal <= 0.0):
        raise ValueError(f"`M` must have a positive diagonal; got {diagonal[diagonal <= 0.0][0]:g}.")
    beside = square / diagonal[:, None]
    np.fill_diagonal(beside, 0.0)
    if beside.max() > _ROUNDING:
        raise ValueError(
            f"`M` must have no positive entry beside the diagonal; got {beside.max():g} of the diagonal."
        )
    return float(np.mean(np.sum(pair_cost(np.maximum(-beside, 0.0)), axis=1)))


def cut_polygon(n_features: int) -> FloatArray:
    r"""Return an (n, n) matrix of rank 3 with unit diagonal and no positive entry elsewhere, for n >= 3.

    .. math:: M_{ij} = \frac{\cos\theta_{ij} - \cos(2\pi/n)}{1 - \cos(2\pi/n)}

    Features are the corners of a regular polygon, seen from its centre at angles theta_ij to each other.
    Hidden neurons are the two coordinates and the sum of all features. Output i reads how far a point lies
    beyond the line through the two neighbours of corner i: only corner i itself does. M is symmetric, but has
    a negative eigenvalue, so no tied model has it.

    Parameters
    ----------
    n_features : int
        n, at least 3; a ValueError otherwise.

    Returns
    -------
    (n, n) ndarray of float64

    Examples
    --------
    >>> M = cut_polygon(12)
    >>> int(np.linalg.matrix_rank(M)), round(small_p_constant(M), 6)     # ratio 1/4
    (3, 2.755983)
    """
    n = validation.integer("n_features", n_features, 3)
    validation.check_fits("n_features", n, 3 * n**2)
    j = np.arange(n)
    # 1 - cos(t) = 2 sin²(t/2) keeps large polygons accurate
    height = np.sin(np.pi / n * (j[:, None] - j)) ** 2 / np.sin(np.pi / n) ** 2
    M: FloatArray = 1.0 - height
    M[(j, np.roll(j, 1))] = M[(j, np.roll(j, -1))] = 0.0
    return M


@validation.finite
def collision_loss(p: npt.ArrayLike, n_features: npt.ArrayLike) -> Real:
    r"""Upper bound on the loss per feature of n features whose interference is never positive.

    .. math:: L \le \frac p3 \left(1 - (1 - p)^{n - 1}\right)

    With unit diagonal and no bias an output lies between 0 and its feature, and equals it where no other of
    the n features is on. If every three dimensions hold a block of n = 3/ratio features (`cut_polygon`), the
    loss is therefore at most p²/ratio, and at most :math:`\frac p3 (1 - e^{-3/c})` as p → 0 at ratio = c p.

    Parameters
    ----------
    p, n_features : array_like
        Probability that a feature is on, in (0, 1], and n, a whole number of at least 1; they broadcast. A
        ValueError is raised for other numbers.

    Returns
    -------
    float or ndarray of float64
        Per feature; relative error 1e-15.

    Examples
    --------
    >>> round(collision_loss(1e-3, 12) / 1e-6, 6)
    3.648388
    """
    on = validation.probability("p", p)
    n = validation.whole_numbers("n_features", n_features)
    others = np.where(n > 1, (n - 1.0) * np.log1p(-on), 0.0)
    return scalar_or_array(-on / 3.0 * np.expm1(others))
