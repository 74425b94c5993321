r"""Ramp moments of a standard normal variable Z, and its tails, with no cancellation.

.. math:: H_n(x) = E (Z + x)_+^n / n!, \qquad H_n' = H_{n-1}, \qquad n H_n = x H_{n-1} + H_{n-2},

with :math:`H_0 = \Phi` and :math:`H_{-1} = \varphi`. The tails are :math:`T_n(x) = H_n(-x)` at x >= 0.
Their recurrence :math:`n T_n = T_{n-2} - x T_{n-1}` subtracts on the way up, and adds on the way down.
"""

import math

import numpy as np
import numpy.typing as npt

from .. import validation
from ..compile.kernels import inlined, kernel
from ..validation import FloatArray

__all__ = ["POINTS", "WEIGHTS", "all_tails", "ramp_moments", "ramps", "tails"]

# Gauss-Legendre rule with 40 points: nodes on (0, 1) of [-1, 1], and halves of their weights. Those of NumPy
# and SciPy are off by 1e-13.
_RULE = """
    0.03877241750605082 0.11608407067525521 0.1926975807013711 0.2681521850072537 0.3419940908257585
    0.413779204371605 0.4830758016861787 0.5494671250951282 0.6125538896679802 0.6719566846141796
    0.7273182551899271 0.7783056514265194 0.8246122308333117 0.8659595032122595 0.9020988069688743
    0.9328128082786765 0.9579168192137917 0.9772599499837743 0.990726238699457 0.9982377097105593
    0.0387529739892124 0.038519909082123986 0.03805518095031312 0.03736158452898413 0.03644329119790203
    0.03530582369564339 0.03395602290761695 0.03240200672830052 0.03065312124646447 0.028719884549695776
    0.02661392349196841 0.024347903817536116 0.021935454092836634 0.019391083987236008 0.016730097641273922
    0.0139685034900117 0.01112292459708348 0.008210529190953945 0.005249142265576406 0.0022606385492665955
"""
_NODES, _HALVES = np.array(_RULE.split(), np.float64).reshape(2, 20)
POINTS = np.concatenate([0.5 - 0.5 * _NODES, 0.5 + 0.5 * _NODES])
WEIGHTS = np.concatenate([_HALVES, _HALVES])
_SQRT_HALF = math.sqrt(0.5)
_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)

# Below _FRACTION_FROM the forward recurrence loses little: T_3 is still good to 1e-13. Above, the ratios
# T_n / T_(n-1) come from a continued fraction; 14 + 260 / x^2 steps converge to rounding (measured).
_FRACTION_FROM = 2.0
_VANISHED = 39.0  # from here on the normal density is below the smallest double


@inlined
def tails(x: float) -> tuple[float, float, float, float]:
    """Return T_n(x) = E (Z - x)_+^n / n!, n = 0, 1, 2, 3, at x >= 0, to about 1e-14 relative; Z is normal."""
    density = _INV_SQRT_2PI * math.exp(-0.5 * x * x)
    if x < _FRACTION_FROM:
        t0 = 0.5 * math.erfc(x * _SQRT_HALF)
        t1 = density - x * t0
        t2 = (t0 - x * t1) / 2.0
        return t0, t1, t2, (t1 - x * t2) / 3.0
    if x > _VANISHED:
        return 0.0, 0.0, 0.0, 0.0
    # r_n = T_n / T_(n-1) = 1 / (x + (n + 1) r_(n+1)) as a fraction p / q, so that no step divides,
    # started from the fixed point of one step.
    depth = 14 + int(260.0 / (x * x))
    q = 1.0
    p = (math.sqrt(x * x + 4.0 * depth) - x) / (2.0 * depth)
    for n in range(depth, 3, -1):
        p, q = q, x * q + n * p
    r3 = p / q
    r2 = 1.0 / (x + 3.0 * r3)
    r1 = 1.0 / (x + 2.0 * r2)
    t0 = density / (x + r1)
    t1 = t0 * r1
    t2 = t1 * r2
    return t0, t1, t2, t2 * r3


@inlined
def ramps(x: float) -> tuple[float, float, float, float]:
    """Return H_n(x) = E (Z + x)_+^n / n! for n = 0, 1, 2, 3 at any x; Z is normal.

    For x < 0 these are tails T_n(-x) = E (Z + x)_+^n / n!; for x > 0, a polynomial plus or minus a tail.
    """
    t0, t1, t2, t3 = tails(abs(x))
    if x <= 0.0:
        return t0, t1, t2, t3
    return 1.0 - t0, x + t1, 0.5 * (x * x + 1.0) - t2, x * (x * x + 3.0) / 6.0 + t3


@inlined
def all_tails(x: float, out: FloatArray) -> None:
    """Write T_n(x) = E (Z - x)_+^n / n!, n = 0, 1, ... (at most 30), at x >= 0 into `out`; Z is normal.

    The relative error is 3e-15 max(1, x^2).

    For x >= 1 a continued fraction gives the ratios: begun at step N, it has an error of exp(-2 x (N^(1/2) -
    n^(1/2))) at step n. For x < 1, where it would need many steps, the last two tails are integrals of v^n
    phi(v + x)/n! over v > 0, and the others follow by a recurrence without subtractions.
    """
    last = out.size - 1
    if x >= 1.0 or last == 0:
        ratio = 0.0
        for n in range(int((math.sqrt(last) + 19.0 / x) ** 2) + 24, 0, -1):
            ratio = 1.0 / (x + (n + 1) * ratio)
            if n <= last:
                out[n] = ratio
        out[0] = 0.5 * math.erfc(x * _SQRT_HALF)
        for n in range(1, out.size):
            out[n] *= out[n - 1]
        return
    reach = 8.2 + 0.8 * math.sqrt(last)
    out[last] = out[last - 1] = 0.0
    for i in range(POINTS.size):
        v = reach * POINTS[i]
        term = reach * WEIGHTS[i] * _INV_SQRT_2PI * math.exp(-0.5 * (v + x) ** 2)
        for n in range(1, last):
            term *= v / n
        out[last - 1] += term
        out[last] += term * v / last
    for n in range(last, 1, -1):
        out[n - 2] = n * out[n] + x * out[n - 1]


@kernel
def _all_ramps(x: FloatArray, out: FloatArray) -> None:
    """Write H_n(x) = E (Z + x)_+^n / n!, n = 0, 1, ..., at each x to a row of `out`; Z is normal."""
    for i in range(x.size):
        row = out[i]
        if x[i] < 0.0:
            all_tails(-x[i], row)
        else:
            row[0] = 1.0 - 0.5 * math.erfc(x[i] * _SQRT_HALF)
            previous = _INV_SQRT_2PI * math.exp(-0.5 * x[i] * x[i])
            for n in range(1, row.size):
                row[n], previous = (x[i] * row[n - 1] + previous) / n, row[n - 1]
        factorial = 1.0
        for n in range(1, row.size):
            factorial *= n
            row[n] *= factorial


def ramp_moments(x: npt.ArrayLike, order: int) -> FloatArray:
    """Moments :math:`E (Z + x)_+^k` of a standard normal variable behind a ReLU, k = 0 to `order`.

    Parameters
    ----------
    x : array_like of float
        From -1e10 to 1e10.
    order : int
        Largest power, 0 to 30.

    Returns
    -------
    ndarray of float64, shape x.shape + (order + 1,)
        The relative error is below 3e-15, for x < -1 below 3e-15 x^2, which is what a rounding of x does.
        Moments below 1e-290 may underflow.

    Examples
    --------
    >>> ramp_moments(0.0, 3).round(6)
    array([0.5     , 0.398942, 0.5     , 0.797885])
    """
    at = validation.real("x", x, -1e10, 1e10)
    order = validation.integer("order", order, 0, 30)
    out = np.empty((at.size, order + 1))
    _all_ramps(at.ravel(), out)
    return out.reshape((*at.shape, order + 1))
