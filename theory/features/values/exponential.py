"""Exponential values with mean 1."""

import math

import numpy as np

from ...compile.kernels import inlined
from ...derivation import sp
from ...special.cut import cut
from ...validation import FloatArray
from .law import Definition, Posterior, Three, ValueDistribution, register

__all__ = ["EXPONENTIAL"]


@inlined
def _transform(z: complex) -> Three:
    """Return E v^r e^(zv), r = 0, 1, 2, of exponential v: 1/(1 - z) and its derivatives."""
    value = 1.0 / (1.0 - z)
    return value, value**2, 2.0 * value**3


def _posterior(y: FloatArray, sigma: float) -> Posterior:
    """Return the log density of y, and mean and variance of v given y, for v exponential with mean 1.

    y is v + sigma Z with standard normal Z; all three have the shape of y.
    """
    share, first, second = cut(y / sigma - sigma)
    return 0.5 * sigma * sigma - y + share, sigma * first, sigma * sigma * second


def _definition() -> Definition:
    """Return density and atoms of v exponential with mean 1 as SymPy expressions."""
    v = sp.Symbol("v", positive=True)
    return Definition(v, sp.exp(-v), sp.Integer(0), sp.oo, {})


EXPONENTIAL = ValueDistribution(
    "exponential",
    support=(0.0, np.inf),
    moment=lambda k: float(math.factorial(k)),
    draw=lambda rng, size: rng.standard_exponential(size),
    definition=_definition,
    density=lambda v: np.exp(-v),
    typical=(0.0, 60.0),
    transform=_transform,
    pole=1.0,
    wedge=(0.25 * np.pi, 1.0),
    quantile=lambda torch, u: -torch.log1p(-u),
    posterior=_posterior,
)
register(EXPONENTIAL)
