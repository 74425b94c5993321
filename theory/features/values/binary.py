"""Values that are always 1."""

import numpy as np

from ...compile.kernels import inlined
from ...derivation import sp
from ...special.cut import LOG_ROOT
from ...validation import FloatArray
from .law import Definition, Posterior, Three, ValueDistribution, register

__all__ = ["BINARY"]


@inlined
def _transform(z: complex) -> Three:
    """Return E v^r e^(zv), r = 0, 1, 2, of v = 1."""
    value = np.exp(z)
    return value, value, value


def _posterior(y: FloatArray, sigma: float) -> Posterior:
    """Return the log density of y, and mean and variance of v given y, for v = 1.

    y is v + sigma Z with standard normal Z; all three have the shape of y.
    """
    height = -0.5 * ((y - 1.0) / sigma) ** 2 - LOG_ROOT - np.log(sigma)
    return height, np.ones(y.shape), np.zeros(y.shape)


def _definition() -> Definition:
    """Return density and atoms of v = 1 as SymPy expressions."""
    return Definition(
        sp.Symbol("v", positive=True), sp.Integer(0), sp.Integer(0), 1, {sp.Integer(1): sp.Integer(1)}
    )


BINARY = ValueDistribution(
    "binary",
    support=(0.0, 1.0),
    moment=lambda k: 1.0,
    draw=lambda rng, size: 1.0,
    definition=_definition,
    atoms=((1.0, 1.0),),
    transform=_transform,
    quantile=lambda torch, u: torch.ones_like(u),
    posterior=_posterior,
)
register(BINARY)
