r"""The scalar channel y = x + sigma Z: the law of x given y, and rules for integrals over x and y.

A feature is on with probability p and has then the value v; sigma Z is Gaussian interference. Where it is on,
y has the density

.. math:: f_1(y) = E\, \varphi((y - v)/\sigma)/\sigma,

and v given y has the density of v times that of a normal law around y. For values with normal or exponential
densities that is a normal law cut off at 0; for uniform ones it is cut off at both ends. Nothing here is a
difference of numbers that are nearly equal.
"""

from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from ..arguments import FloatArray
from ..special import ramp_moments
from ..special.normal import POINTS, WEIGHTS

__all__ = ["denoised", "on_nodes", "output_nodes", "posterior", "ramps", "sums_above", "support"]

REACH = 12.0  # standard deviations of the noise; e^-72 is 1e-32
LOG_ROOT = 0.5 * np.log(2.0 * np.pi)

# From here on an interval of values is at most 17 standard deviations wide, and 40 points resolve the normal
# density in it. Below, the nearer end alone matters: the other is 8 standard deviations away.
WIDE = 0.06
# Shifts below which the ramp moments leave the range of doubles, and steps of the fraction that serves there.
DEEP, STEPS = -30.0, 24
FAR = 1e9  # from here on the noise is below rounding
SUPPORT = {
    "uniform": (0.0, 1.0),
    "binary": (0.0, 1.0),
    "half-normal": (0.0, 10.0),
    "exponential": (0.0, 60.0),
    "symmetric": (-1.0, 1.0),
    "normal": (-10.0, 10.0),
}


def support(values: str) -> tuple[float, float]:
    """Return the interval that holds the values, up to probability e^-50."""
    if values not in SUPPORT:
        raise ValueError(f"`values` must be one of {', '.join(map(repr, SUPPORT))}; got {values!r}.")
    return SUPPORT[values]


def panels(places: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of Gauss-Legendre rules between places in ascending order."""
    width = np.diff(places)[:, None]
    return (places[:-1, None] + width * POINTS).ravel(), (width * WEIGHTS).ravel()


@cache
def _tails_of_a_panel() -> FloatArray:
    """Return C with C_jk f_k WEIGHTS_k summed over k the integral of f from point j of a panel to its end.

    The polynomial through all points is expanded in Legendre's, whose integrals are differences of them.
    """
    size = POINTS.size
    P = np.polynomial.legendre.legvander(2.0 * POINTS - 1.0, size)
    ends = np.column_stack([1.0 - P[:, 1], P[:, :-2] - P[:, 2:]])
    return 0.5 * ends @ P[:, :-1].T


def sums_above(weights: FloatArray) -> FloatArray:
    """Return for each point of `panels` the sum of the weights above it, as an integral from there on."""
    rows = weights.reshape(-1, POINTS.size)
    later = np.append(np.cumsum(rows.sum(axis=1)[::-1])[-2::-1], 0.0)
    return np.ravel(rows @ _tails_of_a_panel().T + later[:, None])


def between(low: float, high: float, *places: FloatArray) -> FloatArray:
    """Return both ends and the places between them, sorted."""
    inside = np.concatenate([[low, high], *places])
    return np.unique(np.clip(inside, low, high))


def on_nodes(values: str, theta: float, sigma: float) -> tuple[FloatArray, FloatArray]:
    """Return values and their probabilities, for means of what changes within sigma at theta."""
    if values == "binary":
        return np.ones(1), np.ones(1)
    low, high = support(values)
    regular = np.linspace(low, high, 1 + int(np.ceil((high - low) / 6.0)))
    v, weights = panels(between(low, high, regular, theta + 0.5 * REACH * sigma * np.arange(-2.0, 3.0)))
    if values == "exponential":
        return v, weights * np.exp(-v)
    if values in ("normal", "half-normal"):
        return v, weights * np.exp(-0.5 * v * v) * np.sqrt((2.0 if low == 0.0 else 0.5) / np.pi)
    return v, weights / (high - low)


def ramps(x: FloatArray) -> FloatArray:
    """Return P(Z > -x), E (Z + x)_+ and E (Z + x)_+^2, at any x."""
    found = np.moveaxis(ramp_moments(np.clip(x, -FAR, FAR), 2), -1, 0)
    return np.where(x > FAR, [np.ones(x.shape), x, x * x], found)


def cut(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log P(Z > -x), and mean and variance of Z + x where that is positive."""
    at = np.maximum(x, DEEP)
    m0, m1, m2 = ramps(at)
    with np.errstate(under="ignore"):
        hazard = np.exp(-0.5 * at * at - LOG_ROOT) / m0  # the density at -x over P(Z > -x)
    log, mean = np.log(m0), m1 / m0
    variance = np.where(at > 0.0, 1.0 - hazard * mean, m2 / m0 - mean**2)
    deep = x < DEEP
    if np.any(deep):  # ratios of the moments by their continued fraction
        far = -x[deep]
        ratio = np.zeros(far.size)
        for n in range(STEPS, 1, -1):
            ratio = 1.0 / (far + n * ratio)
        mean[deep] = 1.0 / (far + 2.0 * ratio)
        log[deep] = -0.5 * far * far - LOG_ROOT - np.log(far + mean[deep])
        variance[deep] = mean[deep] * (2.0 * ratio - mean[deep])
    return log, mean, variance


def posterior(values: str, y: FloatArray, sigma: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log f_1(y), and mean and variance of the value given y, for a feature that is on."""
    if values == "binary":
        height = -0.5 * ((y - 1.0) / sigma) ** 2 - LOG_ROOT - np.log(sigma)
        return height, np.ones(y.shape), np.zeros(y.shape)
    if values in ("normal", "half-normal"):
        total = 1.0 + sigma * sigma
        mean, variance = y / total, sigma * sigma / total
        height = -0.5 * y * mean - LOG_ROOT - 0.5 * np.log(total)
        if values == "normal":
            return height, mean, np.full(y.shape, variance)
        share, first, second = cut(mean / np.sqrt(variance))
        return height + np.log(2.0) + share, np.sqrt(variance) * first, variance * second
    if values == "exponential":
        share, first, second = cut(y / sigma - sigma)
        return 0.5 * sigma * sigma - y + share, sigma * first, sigma * sigma * second
    low, high = support(values)
    if sigma < WIDE * (high - low):
        upper = y > 0.5 * (low + high)
        share, first, second = cut(np.where(upper, high - y, y - low) / sigma)
        mean = np.where(upper, high - sigma * first, low + sigma * first)
        return share - np.log(high - low), mean, sigma * sigma * second
    v = low + (high - low) * POINTS
    nearest = np.clip(y, low, high)
    distance = 0.5 * ((y - nearest) / sigma) ** 2
    weights = WEIGHTS * np.exp(distance[:, None] - 0.5 * ((y[:, None] - v) / sigma) ** 2)
    mass = weights.sum(axis=1)
    mean = weights @ v / mass
    variance = np.sum(weights * (v - mean[:, None]) ** 2, axis=1) / mass
    return np.log(mass) - distance - LOG_ROOT - np.log(sigma), mean, variance


def log_odds(height: FloatArray, y: FloatArray, sigma: float, p: float) -> FloatArray:
    """Return the logarithm of the odds of on to off given y, from log f_1(y)."""
    if p >= 1.0:
        return np.full(y.shape, np.inf)
    even = np.log(p) - np.log1p(-p)
    return np.asarray(even + height + 0.5 * (y / sigma) ** 2 + LOG_ROOT + np.log(sigma))


def denoised(values: str, y: FloatArray, sigma: float, p: float) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of x given y; the part of being off or on is P(on) P(off) E[v | y]^2."""
    height, mean, variance = posterior(values, y, sigma)
    odds = log_odds(height, y, sigma, p)
    on, off = expit(odds), expit(-odds)
    return on * mean, on * (variance + off * mean**2)


def output_nodes(values: str, sigma: float, p: float, *places: FloatArray) -> npt.NDArray[np.float64]:
    """Return y, the weights of off and on at it, mean and variance of the value if on, and P(off | y).

    E g(x, y) is the sum of off g(0, y) + on E[g(v, y) | y]. Panels end at `places`, where g may jump. Each
    panel is so small that 40 points resolve the noise, the values and the odds of on to off.
    """
    low, high = support(values)
    first, last = low - REACH * sigma, high + REACH * sigma
    if values in ("half-normal", "normal"):
        last = 10.0 * np.sqrt(1.0 + sigma * sigma)
        first = -last if values == "normal" else first
    # The odds are even within sqrt(2 log(1/p)) + 2 sqrt(log(1/sigma)) + 3 deviations of 0.
    turn = np.sqrt(-2.0 * np.log(p)) + 2.0 * np.sqrt(max(-np.log(sigma), 0.0)) + 3.0
    near = 0.5 * sigma * np.arange(-2.0 * (turn + REACH), 2.0 * (turn + REACH) + 1.0)
    regular = np.arange(first, last, max(0.5 * sigma, 1.0 if values == "exponential" else 0.5))
    ends = 0.5 * sigma * np.arange(-2.0 * REACH, 2.0 * REACH + 1.0)
    more = [near, regular, low + ends, high + ends, *places]
    if values == "binary" and p < 1.0:  # the odds change within sigma^2
        crossing = 0.5 + sigma * sigma * (np.log1p(-p) - np.log(p))
        more.append(crossing + 3.0 * sigma * sigma * np.arange(-27.0, 28.0))
    y, weights = panels(between(first, last, *more))
    height, mean, variance = posterior(values, y, sigma)
    with np.errstate(under="ignore"):
        off = (1.0 - p) * weights * np.exp(-0.5 * (y / sigma) ** 2 - LOG_ROOT) / sigma
        on = p * weights * np.exp(height)
    return np.stack([y, off, on, mean, variance, expit(-log_odds(height, y, sigma, p))])
