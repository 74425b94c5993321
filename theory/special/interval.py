"""A value that is uniform on an interval, given a normal variable around it."""

from collections.abc import Callable

import numpy as np

from ..validation import FloatArray
from .cut import LOG_ROOT, cut
from .normal import POINTS, WEIGHTS

__all__ = ["posterior"]

Three = tuple[FloatArray, FloatArray, FloatArray]

# From here on an interval of values is at most 17 standard deviations wide, and 40 points resolve the normal
# density in it. Below, the nearer end alone matters: the other is 8 standard deviations away.
WIDE = 0.06


def posterior(low: float, high: float) -> Callable[[FloatArray, float], Three]:
    """Return the function (y, sigma) -> (log density of y, mean of v given y, variance of v given y).

    v is uniform on [low, high] and y = v + sigma Z with standard normal Z.
    """

    def log_density_and_moments(y: FloatArray, sigma: float) -> Three:
        """Return log density of y, mean and variance of v given y."""
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

    return log_density_and_moments
