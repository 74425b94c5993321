"""Values that are uniform on [0, 1]."""

from math import factorial

import numpy as np

from ...compile.kernels import inlined
from ...derivation import sp
from ...special.interval import posterior
from .law import Definition, Three, ValueDistribution, register

__all__ = ["UNIFORM", "transform"]


# Coefficients 1/(k! (k + 1 + r)) of z^k, the last one first, of the transform and its derivatives of order r.
_SERIES = np.array([[1.0 / (factorial(k) * (k + 1 + r)) for r in range(3)] for k in range(23, -1, -1)])


@inlined
def transform(z: complex) -> Three:
    """Return E v^r e^(zv), r = 0, 1, 2, for v uniform on [0, 1]: (e^z - 1)/z and its derivatives."""
    if abs(z) > 1.5:
        growth = np.exp(z)
        first = (growth - 1.0) / z
        second = (growth - first) / z
        return first, second, (growth - 2.0 * second) / z
    a, b, c = 0j, 0j, 0j
    for k in range(_SERIES.shape[0]):
        a = a * z + _SERIES[k, 0]
        b = b * z + _SERIES[k, 1]
        c = c * z + _SERIES[k, 2]
    return a, b, c


def _definition() -> Definition:
    """Return density and atoms of v uniform on [0, 1] as SymPy expressions."""
    return Definition(sp.Symbol("v", positive=True), sp.Integer(1), sp.Integer(0), 1, {})


UNIFORM = ValueDistribution(
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
