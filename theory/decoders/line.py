r"""Moments of the decoder D(y) = a y + b where y > theta, else 0, at y = v + sigma Z.

v is the value of a feature, of the law `values` where the feature is on, which has probability p, else 0;
Z ~ N(0, 1). Given v, with d = a theta + b and x = (v - theta)/sigma, the part above the threshold is a ramp
moment,

.. math:: E (v - D)^2 = v^2 P(Z \le -x) + (v - d)^2 H_0(x) - 2 (v - d) a\sigma H_1(x) + a^2\sigma^2 H_2(x),
          \qquad H_r(x) = E (Z + x)_+^r,

the channel's kernel `theory.rug.closed.squared_error`.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from ..features import ValueDistribution
from ..rug.closed import line_errors
from ..special.cut import LOG_ROOT, ramps

__all__ = ["best_line", "line_losses", "share_above", "threshold"]


def line_losses(
    values: ValueDistribution, theta: float, a: float, shrink: float, b: float, sigma: float, p: float
) -> tuple[float, float]:
    """Return (1 - p) E D^2 and p E (v - D)^2, losses of features off and on; D = a y + b above theta, else 0.

    y is v + sigma Z for a feature that is on, with a value v of the law `values`, and sigma Z for one that is
    off. `shrink` is 1 - a, passed so that it does not cancel.
    """
    v, weights = values.nodes(theta, sigma)
    errors = line_errors(np.append(v, 0.0), theta, a, shrink, b, sigma)
    return float((1.0 - p) * errors[-1]), float(p * weights @ errors[:-1])


def _moments_above(
    values: ValueDistribution, theta: float, sigma: float, p: float
) -> tuple[float, float, float, float, float]:
    """Return E t^r for r = 0, 1, 2 and E Z t^r for r = 0, 1 over t = (x + sigma Z - theta)/sigma > 0.

    Cases with t <= 0 count as 0. x is a feature, on with probability p and then of the law `values`. With q =
    (x - theta)/sigma and the normal density phi, integration by parts gives E Z = phi(q) and E Z t = P(Z >
    -q), which is E t^0.
    """
    v, weights = values.nodes(theta, sigma)
    x = (np.append(v, 0.0) - theta) / sigma
    weights = np.append(p * weights, 1.0 - p)
    m0, m1, m2 = ramps(x) @ weights
    with np.errstate(under="ignore"):
        e0 = float(weights @ np.exp(-0.5 * x * x - LOG_ROOT))
    return m0, m1, m2, e0, m0


def best_line(
    values: ValueDistribution, theta: float, sigma: float, p: float, vanishes_at_threshold: bool
) -> tuple[float, float, float]:
    """Return a, 1 - a and b of the decoder a y + b above theta, else 0, of least loss at y = x + sigma Z.

    x is on with probability p, with a value of the law `values`. If `vanishes_at_threshold`, the line is 0 at
    theta. A line in t = (y - theta)/sigma is fitted to the noise y - x = sigma Z above the threshold, and
    subtracted from y.
    """
    m0, m1, m2, e0, e1 = _moments_above(values, theta, sigma, p)
    if vanishes_at_threshold:  # a sigma t - x = sigma (Z - theta/sigma) - (1 - a) sigma t
        shrink = (e1 - theta / sigma * m1) / m2
        return 1.0 - shrink, shrink, (shrink - 1.0) * theta
    shrink = (e1 - e0 * m1 / m0) / (m2 - m1 * m1 / m0)
    return 1.0 - shrink, shrink, shrink * theta - sigma * (e0 - shrink * m1) / m0


def share_above(values: ValueDistribution, theta: float, sigma: float, p: float) -> float:
    """Return P(y > theta) of y = x + sigma Z, the share of outputs above a threshold.

    x is on with probability p, with a value of the law `values`.
    """
    v, weights = values.nodes(theta, sigma)
    return float((1.0 - p) * ndtr(-theta / sigma) + p * (weights @ ndtr((v - theta) / sigma)))


def threshold(values: ValueDistribution, share: float, sigma: float, p: float) -> float:
    """Return the theta with P(y > theta) = share, for y = x + sigma Z.

    x is on with probability p, with a value of the law `values`; Z is standard normal.
    """
    low, high = values.reach_with_zero

    def gap(theta: float) -> float:
        """Return by how much P(y > theta) exceeds `share`, over `share`."""
        return share_above(values, theta, sigma, p) / share - 1.0

    return float(brentq(gap, low - 9.0 * sigma, high + 37.0 * sigma, xtol=1e-14 * sigma, rtol=1e-14))
