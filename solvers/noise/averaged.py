"""Gradient of the noise-averaged loss, fast enough for many thousand steps."""

import math
from collections.abc import Callable

import numpy as np
from scipy import special

from ...theory.arguments import FloatArray
from ...theory.noise.moments import family
from ...theory.noise.potential import averaged
from ...theory.noise.relu import few, listed, moments, points

__all__ = ["Gradient", "gradient_for"]

Gradient = Callable[[FloatArray], FloatArray]


def _normal_gradient(W: FloatArray, std: float) -> FloatArray:
    """Return the gradient for normal noise: outputs are normal, the loss a function of W.W' alone."""
    overlap = W @ W.T
    spread = std * np.sqrt(np.diagonal(overlap))
    with np.errstate(all="ignore"):
        z = np.where(spread > 0, np.clip(overlap / spread, -40.0, 40.0), np.copysign(40.0, overlap))
        density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
        on = special.ndtr(z)
        by_variance = on.sum(axis=0) - np.where(spread > 0, np.diagonal(density) / spread, 0.0)
    half_slope = overlap * on + spread * density - np.diag(np.diagonal(on))
    return np.asarray(2 * ((half_slope + half_slope.T) @ W + std**2 * by_variance[:, None] * W))


def gradient_for(noise: str, noise_std: float, excess_kurtosis: float | None, n_hidden: int) -> Gradient:
    """Check what describes the noise; return the fastest gradient there is."""
    name, std, ratio = family(noise, noise_std, excess_kurtosis)
    values, shares = points(ratio)
    if name == "normal":
        return lambda W: _normal_gradient(W, std)
    if name in ("bipolar", "three-point") and few(values, n_hidden):
        return lambda W: averaged(W, lambda g, w: listed(g, w, std * values, shares))[1]
    return lambda W: averaged(W, lambda g, w: moments(g, w, name, std, ratio, "exact"))[1]
