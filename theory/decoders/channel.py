r"""The scalar channel y = x + sigma Z: the law of x given y, and rules for integrals over x and y.

A feature x is on with probability p and has then the value v, of the law `values`; sigma Z is Gaussian
interference, Z ~ N(0, 1). Where the feature is on, y has the density

.. math:: f_1(y) = E\, \varphi((y - v)/\sigma)/\sigma,

and v given y has the density of v times that of a normal law around y. For values with normal or exponential
densities that is a normal law cut off at 0; for uniform ones it is cut off at both ends. Nothing here is a
difference of numbers that are nearly equal.
"""

from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from ..features import ValueDistribution
from ..features.values.law import require
from ..special.cut import LOG_ROOT, ramps
from ..special.normal import POINTS, WEIGHTS
from ..validation import FloatArray

__all__ = ["denoised", "output_nodes", "ramps", "sums_above"]

REACH = 12.0  # standard deviations of the noise; e^-72 is 1e-32


def panels(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return points and weights, flat, of Gauss-Legendre rules on the panels between ascending `edges`.

    Points ascend, panel after panel, and all panels have equally many.
    """
    width = np.diff(edges)[:, None]
    return (edges[:-1, None] + width * POINTS).ravel(), (width * WEIGHTS).ravel()


@cache
def _tails_of_a_panel() -> FloatArray:
    """Return the matrix C of tail integrals: that of f from t_j to 1 is the sum over k of C_jk f(t_k) w_k.

    t_k and w_k are the points and weights of the Gauss-Legendre rule on [0, 1]; C has a row and a column for
    each point. The polynomial through all f(t_k) is expanded in Legendre polynomials, and their integrals are
    differences of Legendre polynomials.
    """
    size = POINTS.size
    P = np.polynomial.legendre.legvander(2.0 * POINTS - 1.0, size)
    ends = np.column_stack([1.0 - P[:, 1], P[:, :-2] - P[:, 2:]])
    return 0.5 * ends @ P[:, :-1].T


def sums_above(weights: FloatArray) -> FloatArray:
    """Return, for each point of Gauss-Legendre panels, the integral from it to the end of the last panel.

    `weights` are the integrand's values at the points of `panels` times their weights, panel after panel.
    """
    rows = weights.reshape(-1, POINTS.size)
    later = np.append(np.cumsum(rows.sum(axis=1)[::-1])[-2::-1], 0.0)
    return np.ravel(rows @ _tails_of_a_panel().T + later[:, None])


def sorted_points(low: float, high: float, *points: FloatArray) -> FloatArray:
    """Return the sorted, distinct array of `low`, `high` and all `points`, clipped to [low, high]."""
    inside = np.concatenate([[low, high], *points])
    return np.unique(np.clip(inside, low, high))


def log_odds(height: FloatArray, y: FloatArray, sigma: float, p: float) -> FloatArray:
    """Return log(P(on | y) / P(off | y)) of a feature x at y = x + sigma Z; infinity where p is 1.

    `height` is the log density of y with the feature on, which has the probability p.
    """
    if p >= 1.0:
        return np.full(y.shape, np.inf)
    even = np.log(p) - np.log1p(-p)
    return np.asarray(even + height + 0.5 * (y / sigma) ** 2 + LOG_ROOT + np.log(sigma))


def denoised(
    values: ValueDistribution, y: FloatArray, sigma: float, p: float
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of a feature x given y = x + sigma Z, arrays in the shape of y.

    The feature is on with probability p, and then has a value v of the law `values`. The variance includes
    P(on | y) P(off | y) E[v | y]^2, as y does not tell whether the feature is on.
    """
    height, mean, variance = require(values, "values", "posterior")(y, sigma)
    odds = log_odds(height, y, sigma, p)
    on, off = expit(odds), expit(-odds)
    return on * mean, on * (variance + off * mean**2)


def output_nodes(
    values: ValueDistribution, sigma: float, p: float, *edges: FloatArray
) -> npt.NDArray[np.float64]:
    """Return nodes over y = x + sigma Z, (6, n): y, weights off and on, E[v | y], Var(v | y), P(off | y).

    The feature x is on with probability p, and then has a value v of the law `values`. E g(x, y) is the sum
    over nodes of off g(0, y) + on E[g(v, y) | y], with the weights off and on.

    Panels end at `edges`, where g may jump. Each is so small that 40 points resolve the noise, the values and
    the odds of on to off.
    """
    low, high = values.reach
    first, last = values.reach_with_zero[0] - REACH * sigma, values.reach_with_zero[1] + REACH * sigma
    if values.noisy_support:
        first, last = values.noisy_support(sigma)
    # The odds are even within sqrt(2 log(1/p)) + 2 sqrt(log(1/sigma)) + 3 deviations of 0.
    turn = np.sqrt(-2.0 * np.log(p)) + 2.0 * np.sqrt(max(-np.log(sigma), 0.0)) + 3.0
    near = 0.5 * sigma * np.arange(-2.0 * (turn + REACH), 2.0 * (turn + REACH) + 1.0)
    regular = np.arange(first, last, max(0.5 * sigma, 0.5, (high - low) / 60.0))
    ends = 0.5 * sigma * np.arange(-2.0 * REACH, 2.0 * REACH + 1.0)
    points = [near, regular, low + ends, high + ends, *edges]
    if values.discrete and p < 1.0:  # the odds change within sigma^2
        crossing = 0.5 + sigma * sigma * (np.log1p(-p) - np.log(p))
        points.append(crossing + 3.0 * sigma * sigma * np.arange(-27.0, 28.0))
    y, weights = panels(sorted_points(first, last, *points))
    height, mean, variance = require(values, "values", "posterior")(y, sigma)
    with np.errstate(under="ignore"):
        off = (1.0 - p) * weights * np.exp(-0.5 * (y / sigma) ** 2 - LOG_ROOT) / sigma
        on = p * weights * np.exp(height)
    return np.stack([y, off, on, mean, variance, expit(-log_odds(height, y, sigma, p))])
