"""Half-normal values, |N(0, 1)|."""

import math

import numpy as np

from ...compile.kernels import inlined
from ...derivation import sp
from ...special.cut import cut
from ...special.normal import POINTS, WEIGHTS
from ...validation import FloatArray
from .law import Definition, Posterior, Three, Values, register
from .normal import absolute_moment, density, given, noisy_support
from .normal import transform as whole

__all__ = ["HALF_NORMAL", "transform"]

_REACH = 46.0  # exp(-46) is below rounding, also after a factor 46^2
_HALF_MEAN = math.sqrt(2.0 / math.pi)
_TERMS = 40  # of the series up to |z| = 1; the last is below 1e-20
_SERIES = np.array([[absolute_moment(j + r) / math.gamma(j + 1) for j in range(_TERMS)] for r in range(3)])


@inlined
def transform(z: complex) -> Three:
    r"""exp(z^2/2) erfc(-z/sqrt(2)) and its derivatives.

    Near 0 by the series. Left of the imaginary axis by quadrature of the definition along a ray: turned by a
    third of the angle of -z, both exp(z v) and exp(-v^2/2) fall along it, so nothing cancels. On the right by
    reflection: the integral over all v belongs to the normal law.
    """
    a, b, c = 0j, 0j, 0j
    if abs(z) <= 1.0:
        power = 1.0 + 0j
        for j in range(_TERMS):
            a += power * _SERIES[0, j]
            b += power * _SERIES[1, j]
            c += power * _SERIES[2, j]
            power *= z
        return a, b, c
    left = z if z.real <= 0.0 else -z
    size, angle = abs(left), math.atan2(-left.imag, -left.real)
    turn = angle / 3.0
    fall, curve = math.cos(angle - turn), 0.5 * math.cos(2.0 * turn) / size**2
    length = 2.0 * _REACH / (fall + math.sqrt(fall**2 + 4.0 * curve * _REACH))
    linear = np.exp(1j * (angle - turn))
    square = 0.5 * np.exp(-2j * turn) / size**2
    for k in range(POINTS.size):
        t = length * POINTS[k]
        weight = WEIGHTS[k] * np.exp(-t * (linear + t * square))
        a += weight
        b += t * weight
        c += t * t * weight
    step = np.exp(-1j * turn) / size
    a *= _HALF_MEAN * length * step
    b *= _HALF_MEAN * length * step**2
    c *= _HALF_MEAN * length * step**3
    if z.real <= 0.0:
        return a, b, c
    both = whole(z)
    return 2.0 * both[0] - a, 2.0 * both[1] + b, 2.0 * both[2] - c


def _posterior(y: FloatArray, sigma: float) -> Posterior:
    height, mean, variance = given(y, sigma)
    share, first, second = cut(mean / np.sqrt(variance))
    return height + np.log(2.0) + share, np.sqrt(variance) * first, variance * second


def _definition() -> Definition:
    v, half = density()
    return Definition(v, 2 * half, sp.Integer(0), sp.oo, {})


HALF_NORMAL = Values(
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
    blurred=lambda sigma: (-12.0 * sigma, noisy_support(sigma)),
)
register(HALF_NORMAL)
