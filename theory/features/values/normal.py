"""Standard normal values."""

import math
from typing import Any

import numpy as np

from ...compile.kernels import inlined
from ...derivation import sp
from ...special.cut import LOG_ROOT
from ...validation import FloatArray
from .law import Definition, Posterior, Three, ValueDistribution, register

__all__ = ["NORMAL", "absolute_moment", "density", "noisy_support", "posterior_of_normal", "transform"]


def absolute_moment(k: int) -> float:
    """Return E |N(0, 1)|^k."""
    return 2 ** (k / 2) * math.gamma((k + 1) / 2) / math.sqrt(math.pi)


@inlined
def transform(z: complex) -> Three:
    """Return E v^r e^(zv), r = 0, 1, 2, of N(0, 1): exp(z^2/2) and its derivatives."""
    value = np.exp(0.5 * z * z)
    return value, z * value, (1.0 + z * z) * value


def posterior_of_normal(y: FloatArray, sigma: float) -> tuple[FloatArray, FloatArray, float]:
    """Return, for v, Z ~ N(0, 1), the log density of y = v + sigma Z, and mean and variance of v given y."""
    total = 1.0 + sigma * sigma
    mean, variance = y / total, sigma * sigma / total
    return -0.5 * y * mean - LOG_ROOT - 0.5 * np.log(total), mean, variance


def _posterior(y: FloatArray, sigma: float) -> Posterior:
    """Return the log density of y, and mean and variance of v given y, for v ~ N(0, 1).

    y is v + sigma Z with standard normal Z; all three have the shape of y.
    """
    height, mean, variance = posterior_of_normal(y, sigma)
    return height, mean, np.full(y.shape, variance)


def noisy_support(sigma: float) -> float:
    """Return the bound that |v + sigma Z| exceeds only with probability e^-50, for v and Z ~ N(0, 1)."""
    return float(10.0 * np.sqrt(1.0 + sigma * sigma))


def density() -> tuple[Any, Any]:
    """Return (v, density of N(0, 1) at v) with a positive SymPy symbol v."""
    v = sp.Symbol("v", positive=True)
    return v, sp.exp(-(v**2) / 2) / sp.sqrt(2 * sp.pi)


def _definition() -> Definition:
    """Return density and atoms of v ~ N(0, 1) as SymPy expressions."""
    v, half = density()
    return Definition(v, half, half, sp.oo, {})


NORMAL = ValueDistribution(
    "normal",
    support=(-np.inf, np.inf),
    moment=lambda k: 0.0 if k % 2 else absolute_moment(k),
    draw=lambda rng, size: rng.standard_normal(size),
    definition=_definition,
    density=lambda v: np.exp(-0.5 * v * v) * np.sqrt(0.5 / np.pi),
    typical=(-10.0, 10.0),
    transform=transform,
    wedge=(0.25 * np.pi, 1.0),
    quantile=lambda torch, u: torch.special.ndtri(u.clamp(min=2.0**-54)),  # of 0 it would be infinite
    posterior=_posterior,
    noisy_support=lambda sigma: (-noisy_support(sigma), noisy_support(sigma)),
)
register(NORMAL)
