"""Half-normal values, |N(0, 1)|."""

import math

import numpy as np

from ...compile.kernels import inlined
from ...derivation import sp
from ...special.cut import cut
from ...special.normal import POINTS, WEIGHTS
from ...validation import FloatArray
from .law import Definition, Posterior, Three, ValueDistribution, register
from .normal import absolute_moment, density, noisy_support, posterior_of_normal
from .normal import transform as whole

__all__ = ["HALF_NORMAL", "transform"]

_REACH = 46.0  # exp(-46) is below rounding, also after a factor 46^2
_HALF_MEAN = math.sqrt(2.0 / math.pi)
_SCALE = 7.0  # where the coefficients fall fastest, by trial
_TERMS = 54  # the rest are 1e-15 together
_PIECES = 3  # of the quadrature
_ANGLES = 256  # coefficients of so high an order are below 1e-25
_NEAR = 23  # terms of the series up to |z| = 0.5; the last is below 1e-16
_SERIES = np.array([[absolute_moment(j + r) / math.gamma(j + 1) for j in range(_NEAR)] for r in range(3)])


def _coefficients(r: int) -> FloatArray:
    """Return a_n, n < _TERMS, of the expansion of (1 - z)^(r + 1) E v^r e^(z v) in powers of Z.

    v is |N(0, 1)|, and Z = (_SCALE + z)/(_SCALE - z) maps the half plane Re z < 0 to |Z| < 1. The a_n are
    Fourier coefficients of the values on |Z| = 1, where z is imaginary. For these values v is integrated
    along a ray at 30 degrees to the real axis, on which e^(z v) and e^(-v^2/2) both fall, so nothing cancels.
    """
    odd, unit = 2 * np.arange(_ANGLES) + 1, 0.5 * np.pi / _ANGLES  # the angles of Z are odd multiples
    w = _SCALE * np.tan(0.5 * unit * odd)[:, None]
    length = 2.0 * _REACH / (0.5 * w + np.sqrt(0.25 * w * w + _REACH))  # w t/2 + t^2/4 is _REACH at the end
    points = np.concatenate([k + POINTS for k in range(_PIECES)]) / _PIECES
    v = length * points * np.exp(1j * np.pi / 6.0)
    terms = v**r * np.exp(1j * w * v - 0.5 * v * v) @ np.tile(WEIGHTS, _PIECES) / _PIECES
    values = _HALF_MEAN * length[:, 0] * np.exp(1j * np.pi / 6.0) * terms * (1.0 - 1j * w[:, 0]) ** (r + 1)
    multiples = np.outer(odd, np.arange(_TERMS)) % (4 * _ANGLES)  # of large angles digits would be lost
    return np.asarray((values @ np.exp(-1j * unit * multiples)).real / _ANGLES)


_FIRST, _SECOND = _coefficients(1), _coefficients(2)


@inlined
def transform(z: complex) -> Three:
    """Return E v^r e^(zv), r = 0, 1, 2, of |N(0, 1)|: exp(z^2/2) erfc(-z/sqrt(2)) and its derivatives.

    Near z = 0 the power series is used. For Re z <= 0 the results for r = 1 and 2 are sums over
    `_coefficients`, and that for r = 0 follows by a recurrence in which nothing cancels. For Re z > 0
    reflection is used: the transforms at z and -z add up to twice the normal law's.
    """
    if abs(z) <= 0.5:
        a, b, c = 0j, 0j, 0j
        for n in range(_NEAR - 1, -1, -1):
            a = a * z + _SERIES[0, n]
            b = b * z + _SERIES[1, n]
            c = c * z + _SERIES[2, n]
        return a, b, c
    left = z if z.real <= 0.0 else -z
    Z = (_SCALE + left) / (_SCALE - left)
    b, odd_b, c, odd_c = 0j, 0j, 0j, 0j
    square = Z * Z
    for n in range(_TERMS - 2, -1, -2):  # odd and even terms apart: half as many steps wait for each other
        b = b * square + _FIRST[n]
        c = c * square + _SECOND[n]
        odd_b = odd_b * square + _FIRST[n + 1]
        odd_c = odd_c * square + _SECOND[n + 1]
    inverse = 1.0 / (1.0 - left)
    b = (b + Z * odd_b) * inverse * inverse
    c = (c + Z * odd_c) * inverse * inverse * inverse
    a = c - left * b
    if z.real <= 0.0:
        return a, b, c
    both = whole(z)
    return 2.0 * both[0] - a, 2.0 * both[1] + b, 2.0 * both[2] - c


def _posterior(y: FloatArray, sigma: float) -> Posterior:
    """Return the log density of y, and mean and variance of v given y, for v = |N(0, 1)|.

    y is v + sigma Z with standard normal Z; all three have the shape of y.
    """
    height, mean, variance = posterior_of_normal(y, sigma)
    share, first, second = cut(mean / np.sqrt(variance))
    return height + np.log(2.0) + share, np.sqrt(variance) * first, variance * second


def _definition() -> Definition:
    """Return density and atoms of v = |N(0, 1)| as SymPy expressions."""
    v, half = density()
    return Definition(v, 2 * half, sp.Integer(0), sp.oo, {})


HALF_NORMAL = ValueDistribution(
    "half-normal",
    support=(0.0, np.inf),
    moment=absolute_moment,
    draw=lambda rng, size: np.abs(rng.standard_normal(size)),
    definition=_definition,
    density=lambda v: np.exp(-0.5 * v * v) * np.sqrt(2.0 / np.pi),
    typical=(0.0, 10.0),
    transform=transform,
    wedge=(0.25 * np.pi, 1.0),
    quantile=lambda torch, u: math.sqrt(2) * torch.erfinv(u),
    posterior=_posterior,
    noisy_support=lambda sigma: (-12.0 * sigma, noisy_support(sigma)),
)
register(HALF_NORMAL)
