r"""Antipodal pairs and dropped features, in closed form, at every p.

A pair keeps two features at opposite ends of one direction: outputs :math:`\mathrm{ReLU}(a(x_1 - x_2) + b)`
and the mirror image. With the shift beta = b/a in [0, 1] the loss is a polynomial in beta once the best
scale :math:`a = E[x R]/E[R^2]` is put in, :math:`R = \mathrm{ReLU}(x_1 - x_2 + \beta)`.
"""

from typing import Any

import numpy.typing as npt

from .. import arguments
from ..kernels import kernel, ufunc
from ..rug import zero_ratio_loss

__all__ = ["antipodal_loss", "antipodal_optimum", "dropped_loss"]


@kernel
def _both_on(beta: float) -> tuple[float, float, float, float]:
    """E of u w, w², w and u where w = u - v + beta is positive (0 elsewhere), u and v uniform."""
    cube = beta * beta * beta
    top = 1.0 + beta
    cross = 0.5 * (
        0.25 + 2.0 * beta / 3.0 + 0.5 * beta * beta - beta * cube / 4.0 - (1.0 - beta) * cube / 3.0
    )
    square = (top**4 - 2.0 * beta * cube) / 12.0
    mean = (top**3 - 2.0 * cube) / 6.0
    own = 0.5 * (2.0 / 3.0 + beta - beta * beta + cube / 3.0)
    return cross, square, mean, own


@kernel
def _excess(beta: float, p: float) -> float:
    """Best scale less 1 at the shift beta, from the difference of both moments over p: no digit cancels."""
    q = 1.0 - p
    cross, square, _, _ = _both_on(beta)
    off = q * q * beta * (beta / p) + q * beta**3 / 3.0
    total = off + q * (1.0 / 3.0 + beta + beta * beta) + p * square
    return (p * (cross - square) - q * beta * (0.5 + beta) - off) / total


@kernel
def _slope(beta: float, p: float) -> float:
    """Half the slope of the loss by the bias at the best scale, over p."""
    q = 1.0 - p
    s = _excess(beta, p)
    a = 1.0 + s
    _, _, mean, own = _both_on(beta)
    off = q * q * a * (beta / p) + 0.5 * q * a * beta * beta
    return off + q * (0.5 * s + a * beta) + p * (a * mean - own)


@kernel
def _shift(p: float) -> float:
    """Root of `_slope`, which is negative at 0, between 0 and the shift p of the affine optimum."""
    low, high = 0.0, p
    for _ in range(110):
        middle = 0.5 * (low + high)
        if _slope(middle, p) < 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@ufunc
def _best_scale(p: float) -> float:
    """Return the best scale."""
    return float(1.0 + _excess(_shift(p), p))


@ufunc
def _best_bias(p: float) -> float:
    """Return the best bias."""
    beta = _shift(p)
    return float((1.0 + _excess(beta, p)) * beta)


@ufunc
def _least(p: float) -> float:
    """Return the least loss, a sum of positive terms."""
    beta, q = _shift(p), 1.0 - p
    s = _excess(beta, p)
    a = 1.0 + s
    b = a * beta
    cross, square, _, _ = _both_on(beta)
    alone = (b * b + b * (b + s) + (b + s) ** 2) / 3.0 + a * a * beta**3 / 3.0
    return float(q * q * b * b + p * q * alone + p * p * (1.0 / 3.0 - 2.0 * a * cross + a * a * square))


def _probability(p: npt.ArrayLike) -> Any:
    return arguments.real("p", p, 0, 1, brackets="(]", hint="For sparsity S pass p = 1 - S.")


@arguments.finite
def antipodal_optimum(p: npt.ArrayLike) -> tuple[Any, Any]:
    r"""Best scale and bias of an antipodal pair.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in (0, 1]; p = 1 - S.

    Returns
    -------
    a, b : float or ndarray of float64
        Scale and bias; a = 1 + p/8 and b = 5 p²/48 to leading order as p → 0. Relative error of a 1e-14, of b
        1e-13/p.

    Raises
    ------
    ValueError
        If `p` lies outside (0, 1].

    Notes
    -----
    The best among pairs of equal norm and common bias. The slope by the bias is negative at b = 0; that it
    has one root only was checked by counting its sign changes, not proved.

    Examples
    --------
    >>> a, b = antipodal_optimum(0.1)
    >>> round(a, 6), round(b, 6)
    (1.011623, 0.001249)
    """
    on = _probability(p)
    return _best_scale(on), _best_bias(on)


@arguments.finite
def antipodal_loss(p: npt.ArrayLike) -> Any:
    r"""Least loss per feature of an antipodal pair: two features at ratio 1/2.

    .. math:: L \le \frac{p^2 (32 - 25 p)}{48 (4 - 3p)} \le \frac{p^2}{6},
              \qquad L = \frac{p^2}{6} - \frac{p^3}{192} + O(p^4).

    The first bound is the best loss without bias, the second the loss at unit weights without bias. `p` is
    as for `antipodal_optimum`; the relative error is 1e-13.

    Examples
    --------
    >>> round(antipodal_loss(0.3), 6), round(0.3**2 / 6, 6)
    (0.014655, 0.015)
    """
    return _least(_probability(p))


def dropped_loss(p: npt.ArrayLike) -> Any:
    """Loss of a feature that is not represented, p/3 - p²/4: the best output is the constant p/2.

    `p` is as for `antipodal_optimum`.

    Examples
    --------
    >>> round(dropped_loss(0.3), 6)
    0.0775
    """
    return zero_ratio_loss(p)
