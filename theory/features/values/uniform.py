"""Values that are uniform on [0, 1]."""

import numpy as np

from ...compile.kernels import inlined
from ...derivation import sp
from ...special.interval import posterior
from .law import Definition, Three, Values, register

__all__ = ["UNIFORM", "transform"]


@inlined
def transform(z: complex) -> Three:
    """(e^z - 1)/z and its derivatives."""
    if abs(z) > 1.5:
        growth = np.exp(z)
        first = (growth - 1.0) / z
        second = (growth - first) / z
        return first, second, (growth - 2.0 * second) / z
    a, b, c, term = 0j, 0j, 0j, 1.0 + 0j
    for k in range(24):  # the terms are z^k/k! times the moments
        a += term / (k + 1)
        b += term / (k + 2)
        c += term / (k + 3)
        term *= z / (k + 1)
    return a, b, c


def _definition() -> Definition:
    return Definition(sp.Symbol("v", positive=True), sp.Integer(1), sp.Integer(0), 1, {})


UNIFORM = Values(
    "uniform",
    support=(0.0, 1.0),
    moment=lambda k: 1 / (k + 1),
    draw=lambda rng, size: rng.random(size),
    definition=_definition,
    density=lambda v: np.ones(v.shape),
    pieces=((0.0, 1.0, (1.0,)),),
    transform=transform,
    edge=1.0,
    quantile=lambda torch, u: u,
    posterior=posterior(0.0, 1.0),
)
register(UNIFORM)
