"""Equal weights alone: dx/dt = x - x^3 - kappa for their length x, in closed form.

With k weights of size w left, x = sqrt(k) w and kappa = sqrt(k) lam.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

__all__ = ["alone"]

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]

_CRITICAL = 2 / 27**0.5  # the largest kappa for which x - x^3 = kappa has a positive solution


def _roots(kappa: float) -> ComplexArray:
    """Zeros of x - x^3 - kappa, ascending if they are real, each to its own relative precision."""
    if kappa <= _CRITICAL:
        angles = math.acos(-kappa / _CRITICAL) / 3 + 2 * math.pi / 3 * np.array([1, 2, 0])
        roots: ComplexArray = (2 / 3**0.5 * np.cos(angles)).astype(np.complex128)
    else:
        roots = np.roots([1, 0, -1, kappa]).astype(np.complex128)
    for _ in range(3):
        slopes = 1 - 3 * roots**2
        far = np.abs(slopes) > 1e-5  # where two zeros all but meet, polishing would only stir them
        roots[far] -= (roots - roots**3 - kappa)[far] / slopes[far]
    return roots


def _invert(
    elapsed: Callable[[FloatArray], FloatArray],
    rate: Callable[[FloatArray], FloatArray],
    low: FloatArray,
    high: FloatArray,
    t: FloatArray,
) -> FloatArray:
    """Solve elapsed(z) = t for z in [low, high], where dz/dt = rate(z) > 0: Newton's method in a bracket."""
    z = 0.5 * (low + high)
    for _ in range(200):
        excess = elapsed(z) - t
        low, high = np.where(excess < 0, z, low), np.where(excess < 0, high, z)
        new = z - excess * rate(z)
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        done = np.all(np.abs(new - z) <= 4e-16 * np.abs(new))
        z = new
        if done:
            break
    return z


def alone(start: float, kappa: float, t: FloatArray) -> tuple[FloatArray, float]:
    """Length at the times t of equal weights that begin at t = 0 with length `start`, and when they die.

    By partial fractions t = sum over the zeros r of log((x - r)/(start - r)) / (1 - 3 r^2).
    """
    if abs(kappa / _CRITICAL - 1) < 1e-14:  # a double zero; no lam is known that well
        kappa = _CRITICAL * (1 - 1e-14)
    roots = _roots(kappa)
    slopes = 1 - 3 * roots**2

    def elapsed(change: FloatArray, which: slice = slice(None)) -> FloatArray:
        # NumPy's complex log1p is inaccurate near 0. For real x no branch of the logarithm is crossed.
        ratio = np.multiply.outer(change, 1 / (start - roots[which]))
        small = np.abs(ratio) < 0.5
        grown = np.add.outer(start + change, -roots[which]) / (start - roots[which])
        near = np.where(small, ratio, 0)
        size = np.where(
            small,
            0.5 * np.log1p(2 * near.real + near.real**2 + near.imag**2),
            np.log(np.abs(grown)),
        )
        angle = np.where(small, np.arctan2(near.imag, 1 + near.real), np.angle(grown))
        logs = size + 1j * angle
        return np.asarray(np.sum(logs / slopes[which], axis=-1).real)

    if kappa > _CRITICAL or start < roots[1].real:
        death = float(elapsed(np.array(-start)))
        fall = _invert(
            lambda z: elapsed(-z),
            lambda z: kappa - (start - z) + (start - z) ** 3,
            np.zeros_like(t),
            np.full_like(t, start),
            np.minimum(t, death),
        )
        return np.where(t < death, start - fall, 0.0), death
    low, middle, high = roots.real
    if start == middle:  # the unstable equilibrium itself
        return np.full_like(t, start), math.inf

    def length(z: FloatArray) -> FloatArray:
        return np.asarray(high - (high - start) * np.exp(-z))

    def rate(z: FloatArray) -> FloatArray:
        return np.asarray((length(z) - low) * (length(z) - middle))

    rates = (start - low) * (start - middle), (high - low) * (high - middle)
    z = _invert(
        lambda z: z / rates[1] + elapsed((start - high) * np.expm1(-z), slice(2)),
        rate,
        t * min(rates),
        t * max(rates),
        t,
    )
    return length(z), math.inf
