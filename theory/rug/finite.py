r"""First corrections to the macroscopic loss at finite n_features.

The interference :math:`\nu = \sum_j m_j x_j` of one output is Gaussian only in the limit. By Edgeworth's
expansion its third and fourth cumulants add, to first order each,

.. math:: \Delta L = \frac{a^3 \kappa_3}{6} \frac{\partial^3 L}{\partial b^3}
                   + \frac{a^4 \kappa_4}{24} \frac{\partial^4 L}{\partial b^4}, \qquad
          \kappa_k = c_k \sum_j m_j^k,

with the cumulants :math:`c_k` of x. With :math:`H_n' = H_{n-1}` the derivatives are normal densities.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import validation
from ..validation import FloatArray

__all__ = ["edgeworth_correction"]


@validation.finite
def edgeworth_correction(
    a: ArrayLike,
    b: ArrayLike,
    sigma: ArrayLike,
    p: ArrayLike,
    sum_of_cubes: ArrayLike,
    sum_of_fourths: ArrayLike,
) -> Any:
    r"""Loss at finite n_features minus the macroscopic loss, to first order in the cumulants.

    The macroscopic loss is that of infinitely many features, with normal interference.

    Parameters
    ----------
    a, b, sigma, p : array_like of float
        Scale, bias, standard deviation of the interference in units of the diagonal, here positive, and
        probability that a feature is on, as in `loss`; b includes a times the mean of the interference.
    sum_of_cubes, sum_of_fourths : array_like of float
        Sums of m_j³, with its sign, and of m_j⁴, over the off-diagonal entries m_j of the output's row, in
        units of the diagonal. The first is not Lyapunov's sum of \|m_j\|³.

    Returns
    -------
    float or ndarray of float64
        Asymptotic: the relative error is of the order of the next terms, (kappa_3/sigma³)², kappa_5/sigma⁵,
        (kappa_4/sigma⁴)². For a rug with random codes (Cowsik et al. 2024) sum_of_cubes is of order n^{-1/2}
        smaller than for rows of one sign, and the correction falls like 1/(n_features p).

    Examples
    --------
    >>> row = np.full(1000, 0.05) * np.where(np.arange(1000) % 2, 1, -1)
    >>> s = np.sqrt((0.1 / 3 - 0.1**2 / 4) * np.sum(row**2))
    >>> round(float(edgeworth_correction(1.2, -0.3, s, 0.1, np.sum(row**3), np.sum(row**4))), 7)
    2.52e-05
    """
    a, b = validation.real("a", a, 0, brackets="()"), validation.real("b", b)
    sigma, p = validation.real("sigma", sigma, 0, brackets="()"), validation.probability("p", p)
    third, fourth = cumulants(p)
    third_sum = third * validation.real("sum_of_cubes", sum_of_cubes)
    fourth_sum = fourth * validation.real("sum_of_fourths", sum_of_fourths, 0)
    return cumulant_correction(a, b, sigma, p, third_sum, fourth_sum)


def cumulants(p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the third and the fourth cumulant of a feature x, from its moments p/2, p/3, p/4, p/5.

    x is on with probability p, and then uniform on [0, 1].
    """
    return p / 4.0 - p**2 / 2.0 + p**3 / 4.0, p / 5.0 - 5.0 * p**2 / 6.0 + p**3 - 3.0 * p**4 / 8.0


def cumulant_correction(
    a: FloatArray, b: FloatArray, sigma: FloatArray, p: FloatArray, third: FloatArray, fourth: FloatArray
) -> Any:
    """Return the loss at finite n_features minus the macroscopic loss, to first order in the cumulants.

    a, b, sigma and p are scale, bias, standard deviation of the interference, and probability that a feature
    is on; `third` and `fourth` are cumulants of the interference, in units of the diagonal.
    """
    from scipy.special import ndtr

    s = a * sigma
    z = b / s
    x1 = z + 1.0 / sigma
    density, density1 = (np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi) for x in (z, x1))
    # The powers of a cancel but for those of sigma.
    # Off: 2 s² H_2(z); on: -2 s sigma H_2(x1) + 2 s sigma² (1 + a) (H_3(x1) - H_3(z)); each d/db is 1/s.
    step = 2.0 * s * sigma**2 * (1.0 + a)
    slope1 = 2.0 * s * sigma * density1
    by_third = (1.0 - p) * 2.0 * s**2 * density + p * (step * (ndtr(x1) - ndtr(z)) - slope1)
    by_fourth = -(1.0 - p) * 2.0 * s**2 * z * density + p * (step * (density1 - density) + slope1 * x1)
    return (third / sigma**3 / 6.0 * by_third + fourth / sigma**4 / 24.0 * by_fourth)[()]
