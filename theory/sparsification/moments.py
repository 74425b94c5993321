r"""Truncated moments of normal weights under the l1 force, and the parametric limit law.

The exact dynamics is :math:`|w_k| = A (|w_k(0)| - c)_+`, driven by :math:`Q(c) = \sum_k (|w_k(0)| - c)_+^2`.
For many weights with standard deviation s, sums become m times means over a standard normal x, at
:math:`\zeta = c/s`:

.. math:: M_k(\zeta) = E(|x| - \zeta)_+^k = 2 E(x - \zeta)_+^k.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import erfcinv

from .. import validation
from ..compile.kernels import kernel
from ..results import result
from ..special.normal import all_tails, tails
from ..validation import FloatArray

__all__ = ["ParametricLaw", "limiting_relative_variance", "parametric_law", "truncated_moments"]

LARGEST = 37.0  # beyond it the moments underflow
# Forward recursion loses digits above, the more the higher the order. The second is for orders beyond 4.
_FORWARD, _FORWARD_HIGH = 1.4, 0.35


@kernel
def moments(zeta: float, out: FloatArray) -> None:
    """Write M_k = E(|x| - zeta)_+^k to out[k], for x standard normal and k = 0, ..., out.size - 1.

    M_k is 2 k! times the tail T_k of `special.normal`.
    """
    if out.size <= 4 and (out.size < 4 or zeta < _FORWARD):
        low = tails(zeta)
        for k in range(out.size):
            out[k] = low[k]
    elif zeta < (_FORWARD if out.size == 5 else _FORWARD_HIGH):
        out[0], out[1], _, _ = tails(zeta)
        for k in range(2, out.size):
            out[k] = (out[k - 2] - zeta * out[k - 1]) / k
    else:
        all_tails(zeta, out)
    factor = 2.0
    for k in range(out.size):
        factor *= max(k, 1)
        out[k] *= factor


@kernel
def _all_moments(zeta: FloatArray, out: FloatArray) -> None:
    """Write E(|x| - zeta)_+^k, k = 0, 1, ..., x standard normal, at each zeta to a row of `out`."""
    for i in range(zeta.size):
        moments(zeta[i], out[i])


def truncated_moments(zeta: npt.ArrayLike, order: int) -> FloatArray:
    r"""Means of :math:`(|x| - \zeta)_+^k` for a standard normal x and k from 0 to `order`; exact.

    Parameters
    ----------
    zeta : array_like of float
        Thresholds in [0, 37], in standard deviations.
    order : int
        Largest power, 0 to 20.

    Returns
    -------
    ndarray of float64, shape zeta.shape + (order + 1,)
        To a relative 1e-14, for zeta > 5 to 1e-15 zeta² (what a rounding of zeta does).

    Examples
    --------
    >>> truncated_moments(0, 2).round(6)
    array([1.      , 0.797885, 1.      ])
    """
    zeta = validation.real("zeta", zeta, 0, LARGEST)
    order = validation.integer("order", order, 0, 20)
    out = np.empty((zeta.size, order + 1))
    _all_moments(zeta.ravel(), out)
    return out.reshape((*zeta.shape, order + 1))


@result
class ParametricLaw:
    """The limit law as curves in the threshold; see :func:`parametric_law`."""

    scaled_time: FloatArray
    """lam sqrt(m) t."""
    nonzero_share: FloatArray
    """m'/m."""
    scaled_l1_norm: FloatArray
    """|W|_1/sqrt(m)."""
    relative_variance: FloatArray
    """Variance of the nonzero absolute weights over their squared mean."""


def _time_integral(zeta: FloatArray) -> FloatArray:
    """Return the integral of M_2^(-1/2) from 0 to each zeta; M_2(z) is E(|x| - z)_+^2, x standard normal."""
    ends, inverse = np.unique(zeta, return_inverse=True)
    x, weights = np.polynomial.legendre.leggauss(16)
    total, start = np.zeros(ends.size), 0.0
    for k, end in enumerate(ends):
        panels = np.linspace(start, end, 2 + int((end - start) / 0.5))
        half = np.diff(panels) / 2
        nodes = (panels[:-1] + half)[:, None] + half[:, None] * x
        total[k] = np.sum(half[:, None] * weights / np.sqrt(truncated_moments(nodes, 2)[..., 2]))
        start = end
    return np.cumsum(total)[inverse].reshape(zeta.shape)


def parametric_law(zeta: npt.ArrayLike) -> ParametricLaw:
    r"""Return time, share, l1 norm and variance of the nonzero weights for m -> infinity, lam sqrt(m) -> 0.

    The balance of growth and l1 force keeps the encoding's length at 1. With the `truncated_moments`
    :math:`M_k(\zeta)` of order k,

    .. math:: \lambda\sqrt m\, t = \int_0^\zeta \frac{dz}{\sqrt{M_2(z)}}, \quad
        \frac{m'}{m} = M_0(\zeta), \quad \frac{|W|_1}{\sqrt m} = \frac{M_1}{\sqrt{M_2}}, \quad
        \frac{\mathrm{Var}}{\mathrm{mean}^2} = \frac{M_0 M_2}{M_1^2} - 1.

    The law replaces the scalings of Lecomte et al. (2024), §2.4, which leave the constants open. Errors
    are those of `truncated_moments`.

    Parameters
    ----------
    zeta : array_like of float
        Threshold in initial standard deviations, the parameter of the curves, in [0, 37].

    Returns
    -------
    ParametricLaw
        Arrays of the shape of `zeta`, good to 1e-13. Asymptotic: at finite m and lam the length takes a time
        of order 1 to reach 1, and in the end few weights are left; `limit_law` allows for both.

    Examples
    --------
    >>> law = parametric_law([0, 3])
    >>> law.nonzero_share.round(6), law.relative_variance.round(6)
    (array([1.    , 0.0027]), array([0.570796, 0.880396]))
    """
    zeta = validation.real("zeta", zeta, 0, LARGEST)
    share, first, second = np.moveaxis(truncated_moments(zeta, 2), -1, 0)
    return ParametricLaw(
        scaled_time=_time_integral(zeta),
        nonzero_share=share,
        scaled_l1_norm=first / np.sqrt(second),
        relative_variance=(share / first) * (second / first) - 1,  # their product underflows
    )


def limiting_relative_variance(share: npt.ArrayLike) -> FloatArray:
    """Relative variance of the nonzero weights among many normal ones, a function of their share m'/m; exact.

    The result rises from pi/2 - 1, if all weights are nonzero, to 1, if few of many are. This is the limit of
    Fig. 7 in Lecomte et al. (2024), App. B, whose text says "not too far from 1". Errors are those of
    `truncated_moments`.

    Parameters
    ----------
    share : array_like of float
        m'/m in (0, 1], at least 1e-290.

    Examples
    --------
    >>> limiting_relative_variance([1, 1e-2, 1e-100]).round(4)
    array([0.5708, 0.8586, 0.9957])
    """
    share = validation.real("share", share, 1e-290, 1)
    zeta = np.sqrt(2) * erfcinv(share)
    _, first, second = np.moveaxis(truncated_moments(zeta, 2), -1, 0)
    return np.asarray((share / first) * (second / first) - 1)
