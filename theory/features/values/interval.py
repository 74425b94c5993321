"""Values that are uniform on [low, 1]; with low = 1/2 and the scale 2, on [1, 2]."""

from functools import lru_cache

import numpy as np

from ... import validation
from ...compile.kernels import inlined
from ...derivation import sp
from ...special.interval import posterior
from .law import Definition, Three, ValueDistribution, register
from .symmetric import SYMMETRIC
from .uniform import UNIFORM
from .uniform import transform as uniform

__all__ = ["uniform_from"]


@inlined
def _transform(z: complex, low: float) -> Three:
    """Return E v^r e^(zv), r = 0, 1, 2, of v = low + (1 - low) u with u uniform on [0, 1]."""
    width = 1.0 - low
    a, b, c = uniform(z * width)
    growth = np.exp(z * low)
    first = low * a + width * b
    second = low * low * a + 2.0 * low * width * b + width * width * c
    return growth * a, growth * first, growth * second


def uniform_from(low: float) -> ValueDistribution:
    """Law of values uniform on [low, 1]; with the scale b of a feature they are uniform on [b low, b].

    Parameters
    ----------
    low : float
        From -1 to below 1. 0 gives "uniform" and -1 gives "symmetric". Exact losses take longer as `low`
        approaches 1: for 20 features two seconds at 0.5, minutes at 0.999.

    Returns
    -------
    ValueDistribution
        Also known as "uniform(low)".

    Examples
    --------
    Uniform on [1, 2]:

    >>> from superposition.theory.features import Features
    >>> x = Features(2, 0.1, uniform_from(0.5), scale=2)
    >>> x.mean, Features(2, 0.1, "uniform(0.5)", 2).mean
    (array([0.15, 0.15]), array([0.15, 0.15]))
    """
    return _law_on_interval(float(validation.number("low", low, -1.0, 1.0, brackets="[)")))


@lru_cache(maxsize=1024)
def _law_on_interval(low: float) -> ValueDistribution:
    """Return the law of values uniform on [low, 1], cached."""
    if low in (0.0, -1.0):
        return SYMMETRIC if low else UNIFORM
    width = 1.0 - low
    nodes, weights = np.polynomial.legendre.leggauss(80)  # exact up to the power 159

    def moment(k: int) -> float:
        """Return E v^k."""
        return float(0.5 * np.sum(weights * (low + 0.5 * width * (1.0 + nodes)) ** k))

    def definition() -> Definition:
        """Return the law's density and atoms in SymPy."""
        v, exact = sp.Symbol("v", positive=True), sp.Rational(str(low))
        density = 1 / (1 - exact)
        right = sp.Piecewise((density, v >= exact), (0, True)) if low > 0.0 else density
        left = sp.Piecewise((density, v <= -exact), (0, True)) if low < 0.0 else sp.Integer(0)
        return Definition(v, right, left, sp.Integer(1), {})

    return ValueDistribution(
        f"uniform({repr(low).removesuffix('.0')})",
        support=(low, 1.0),
        moment=moment,
        draw=lambda rng, size: rng.uniform(low, 1.0, size),
        definition=definition,
        density=lambda v: np.where((v >= low) & (v <= 1.0), 1.0 / width, 0.0),
        pieces=((low, 1.0, (1.0 / width,)),),
        transform=_transform,
        shape=low,
        edge=1.0 / width if low < 0.0 else None,  # of one sign, e^(z low) may be large beside 1
        quantile=lambda torch, u: low + width * u,
        posterior=posterior(low, 1.0),
    )


register(uniform_from, "uniform")
