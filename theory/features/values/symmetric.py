"""Values that are uniform on [-1, 1]."""

import numpy as np

from ...compile.kernels import inlined
from ...derivation import sp
from ...special.interval import posterior
from .law import Definition, Three, ValueDistribution, register

__all__ = ["SYMMETRIC"]


@inlined
def _transform(z: complex) -> Three:
    """Return E v^r e^(zv), r = 0, 1, 2, for v uniform on [-1, 1]: sinh(z)/z and its derivatives."""
    if abs(z) > 2.0:
        up, down = 0.5 * np.exp(z), 0.5 * np.exp(-z)
        first = (up - down) / z
        second = (up + down - first) / z
        return first, second, (up - down - 2.0 * second) / z
    a, b, c, term = 0j, 0j, 0j, 1.0 + 0j
    for k in range(0, 28, 2):
        a += term / (k + 1)
        c += term / (k + 3)
        term *= z / (k + 1)
        b += term / (k + 3)
        term *= z / (k + 2)
    return a, b, c


def _definition() -> Definition:
    """Return density and atoms of v uniform on [-1, 1] as SymPy expressions."""
    return Definition(sp.Symbol("v", positive=True), sp.Rational(1, 2), sp.Rational(1, 2), 1, {})


SYMMETRIC = ValueDistribution(
    "symmetric",
    support=(-1.0, 1.0),
    moment=lambda k: 0.0 if k % 2 else 1 / (k + 1),
    draw=lambda rng, size: rng.uniform(-1.0, 1.0, size),
    definition=_definition,
    density=lambda v: np.full(v.shape, 0.5),
    pieces=((-1.0, 1.0, (0.5,)),),
    transform=_transform,
    edge=1.0,
    quantile=lambda torch, u: 2 * u - 1,
    posterior=posterior(-1.0, 1.0),
)
register(SYMMETRIC)
