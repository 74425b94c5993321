r"""Antipodal pairs in closed form, at every p.

A pair keeps two features at opposite ends of one direction: outputs :math:`\mathrm{ReLU}(a(x_1 - x_2) + b)`
and the mirror image. With the shift beta = b/a in [0, 1] the loss is a polynomial in beta once the best
scale :math:`a = E[x R]/E[R^2]` is put in, :math:`R = \mathrm{ReLU}(x_1 - x_2 + \beta)`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import elementwise

from .. import validation
from ..validation import FloatArray, Real, scalar_or_array

__all__ = ["antipodal_loss", "antipodal_optimum"]

_TINY = 5e-324  # the least double above 0


def _moments_both_on(beta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the means of u w, w², w and u over w > 0, w = u - v + beta, each in the shape of beta.

    u and v are independent and uniform on [0, 1], and beta is from 0 to 1. Values with w <= 0 count as 0.
    """
    cube = beta**3
    cross = 0.125 + beta / 3.0 + 0.25 * beta**2 - cube / 6.0 + beta * cube / 24.0
    square = ((1.0 + beta) ** 4 - 2.0 * beta * cube) / 12.0
    mean = ((1.0 + beta) ** 3 - 2.0 * cube) / 6.0
    target_square = 0.5 * (2.0 / 3.0 + beta - beta**2 + cube / 3.0)
    return cross, square, mean, target_square


def _scale_excess(beta: FloatArray, p: FloatArray, other: FloatArray) -> FloatArray:
    """Return a - 1 for the scale a that minimises E (x_1 - a R)², with R = ReLU(x_1 - x_2 + beta).

    x_1 is on with probability `p`, x_2 with probability `other`; a - 1 = E[(x_1 - R) R]/E[R²]. No digit
    cancels.
    """
    q, r = 1.0 - p, 1.0 - other
    cross, square, _, _ = _moments_both_on(beta)
    off = q * r * beta * (beta / p) + q * (other / p) * beta**3 / 3.0
    total = off + r * (1.0 / 3.0 + beta + beta**2) + other * square
    return (other * (cross - square) - r * beta * (0.5 + beta) - off) / total


def _slope_by_bias(beta: FloatArray, p: FloatArray, other: FloatArray) -> FloatArray:
    """Return dL/db / (2 p) at b = a beta and the best a, for the loss L = E (x_1 - ReLU(a (x_1 - x_2) + b))².

    x_1 is on with probability `p`, x_2 with probability `other`. The best a is 1 + `_scale_excess`(beta, p,
    other).
    """
    q, r, s = 1.0 - p, 1.0 - other, _scale_excess(beta, p, other)
    a = 1.0 + s
    _, _, mean, target_square = _moments_both_on(beta)
    off = q * r * a * (beta / p) + 0.5 * q * (other / p) * a * beta**2
    return off + r * (0.5 * s + a * beta) + other * (a * mean - target_square)


def _optimum(
    p: npt.ArrayLike, other: npt.ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return p, the other feature's p, the best beta = b/a and the best a - 1, broadcast.

    a and b minimise the loss of the output ReLU(a (x_1 - x_2) + b) to a feature x_1 that is on with
    probability `p`; x_2 is on with probability `other`, None for `p`.
    """
    on = validation.probability("p", p)
    on, beside = validation.broadcast(
        p=on, other=on if other is None else validation.probability("other", other)
    )
    # The slope is negative at 0. The best shift is 5 p²/48 as p → 0, and so close to p as p → 1 that only
    # beyond 1 the slope is safe from rounding.
    ends = 0.0 * on, np.clip(2.0 * on * beside, _TINY, 1.1)
    limits = {"xatol": _TINY, "xrtol": 1e-15, "fatol": 0.0, "frtol": 0.0}
    find_root: Any = elementwise.find_root  # its stubs know no function of several arguments
    beta = find_root(_slope_by_bias, ends, args=(on, beside), tolerances=limits, maxiter=99).x
    return on, beside, beta, _scale_excess(beta, on, beside)


@validation.finite
def antipodal_optimum(p: npt.ArrayLike, other: npt.ArrayLike | None = None) -> tuple[Real, Real]:
    """Best scale and bias of an antipodal pair, among pairs of equal norm and common bias.

    The outputs are ReLU(a (x_1 - x_2) + b) and ReLU(a (x_2 - x_1) + b). The derivative of the loss with
    respect to b is negative at b = 0; that it has one root only was checked by counting its sign changes, not
    proved.

    Parameters
    ----------
    p, other : array_like of float, the second optional
        Probability that the feature x_1 is on, p = 1 - S, and probability that x_2 is on, by default p; both
        in (0, 1]. The output of x_2 has a scale and bias of its own.

    Returns
    -------
    a, b : float or ndarray of float64
        Scale and bias; a = 1 + p/8 and b = 5 p²/48 as p → 0. Relative error of a 1e-14, of b 1e-13/p.

    Raises
    ------
    ValueError
        If a probability lies outside (0, 1].

    Examples
    --------
    >>> a, b = antipodal_optimum(0.1)
    >>> round(a, 6), round(b, 6)
    (1.011623, 0.001249)
    """
    _, _, beta, s = _optimum(p, other)
    return scalar_or_array(1.0 + s), scalar_or_array((1.0 + s) * beta)


@validation.finite
def antipodal_loss(p: npt.ArrayLike, other: npt.ArrayLike | None = None) -> Real:
    r"""Least loss per feature of an antipodal pair: two features on one dimension.

    .. math:: L \le \frac{p^2 (32 - 25 p)}{48 (4 - 3p)} \le \frac{p^2}{6},
              \qquad L = \frac{p^2}{6} - \frac{p^3}{192} + O(p^4).

    The first bound is the best loss without bias, the second the loss at unit weights without bias. `p` is
    the probability that a feature is on. If `other` is given, the second feature is on with that probability,
    and the loss returned is that of the first feature's output. The relative error is 1e-13, and errors are
    raised as by `antipodal_optimum`.

    Examples
    --------
    >>> round(antipodal_loss(0.3), 6), round(0.3**2 / 6, 6)
    (0.014655, 0.015)
    """
    on, beside, beta, s = _optimum(p, other)
    q, r, a = 1.0 - on, 1.0 - beside, 1.0 + s
    b = a * beta
    cross, square, _, _ = _moments_both_on(beta)
    # A sum of positive terms: none of both on, one, or both.
    active_loss, silent = (b**2 + b * (b + s) + (b + s) ** 2) / 3.0, a**2 * beta**3 / 3.0
    both = 1.0 / 3.0 - 2.0 * a * cross + a**2 * square
    return scalar_or_array(q * r * b**2 + on * r * active_loss + q * beside * silent + on * beside * both)
