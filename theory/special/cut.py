"""A standard normal variable plus x where that is positive: its probability, mean and variance."""

import numpy as np

from ..validation import FloatArray
from .normal import ramp_moments

__all__ = ["LOG_ROOT", "cut", "ramps"]

LOG_ROOT = 0.5 * np.log(2.0 * np.pi)

FAR = 1e9  # from here on the noise is below rounding
# Shifts below which the ramp moments leave the range of doubles, and steps of the fraction that serves there.
DEEP, STEPS = -30.0, 24


def ramps(x: FloatArray) -> FloatArray:
    """Return P(Z > -x), E (Z + x)_+ and E (Z + x)_+^2 for standard normal Z, stacked: shape (3, *x.shape)."""
    moments = np.moveaxis(ramp_moments(np.clip(x, -FAR, FAR), 2), -1, 0)
    return np.where(x > FAR, [np.ones(x.shape), x, x * x], moments)


def cut(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log P(Z > -x), and mean and variance of Z + x given that it is positive, Z standard normal."""
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
        for n in range(STEPS, 2, -1):
            ratio = 1.0 / (far + n * ratio)
        mean[deep] = 1.0 / (far + 2.0 * ratio)
        log[deep] = -0.5 * far * far - LOG_ROOT - np.log(far + mean[deep])
        variance[deep] = mean[deep] * (2.0 * ratio - mean[deep])
    return log, mean, variance
