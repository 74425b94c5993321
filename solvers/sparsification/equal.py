r"""Equal weights alone: :math:`\dot x = x - x^3 - \kappa` for their length x, in closed form.

With k weights of size w left, :math:`x = \sqrt k\,w` and :math:`\kappa = \sqrt k\,\lambda`. The cubic
:math:`x^3 - x + \kappa = (x + 2m)\,((x - m)^2 - e)` with :math:`e = 1 - 3m^2` has two positive zeros
:math:`m \pm \sqrt e` where e is positive and none where it is negative. By partial fractions the time from
:math:`x_0` to x is, with :math:`y = x - m`,

.. math:: t = -\frac{1}{9m^2-e}\Big[\log\frac{x+2m}{x_0+2m} + 3m\int\frac{dy}{y^2-e}
    - \frac12\log\frac{y^2-e}{y_0^2-e}\Big].
"""

import math
from collections.abc import Callable

import numpy as np

from ...theory.special.cubic import cubic
from ...theory.validation import FloatArray

__all__ = ["equal_weights"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_Function = Callable[[FloatArray], FloatArray]


def _log_ratio(new: FloatArray, old: float, change: FloatArray) -> FloatArray:
    """Return log(new/old) for new = old + change, accurate if `change` is, even where it is small."""
    share = change / old
    return np.where(np.abs(share) < 0.5, np.log1p(share), np.log(new / old))


def _invert(
    elapsed: _Function, rate: _Function, low: FloatArray, high: FloatArray, t: FloatArray
) -> FloatArray:
    """Return z in [low, high] with elapsed(z) = t, by Newton's method; rate(z) = 1/elapsed'(z) > 0."""
    z = 0.5 * (low + high)
    for _ in range(200):
        excess = elapsed(z) - t
        low, high = np.where(excess < 0, z, low), np.where(excess < 0, high, z)
        new = z - excess * rate(z)
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        z, old = new, z
        if np.all(np.abs(z - old) <= 4e-16 * np.abs(z)):
            break
    return z


# Branches of `np.where` that are not taken, and the ends of brackets, may leave the range of doubles.
@np.errstate(all="ignore")
def equal_weights(start: float, kappa: float, t: FloatArray) -> tuple[FloatArray, float]:
    """Return (x at the times t, time at which x reaches 0) for dx/dt = x - x³ - kappa from x = `start`.

    x is the length of an encoding of equal weights. The time is inf if x never reaches 0; after it x is 0.
    """
    far = 2 * max(1.0, float(np.cbrt(kappa)))
    if start > far:
        return _equal_weights_from_far(start, far, kappa, t)
    low, *pair, discriminant = cubic(kappa)
    m, root = -low / 2, abs(discriminant) / 2
    e = -root * root if discriminant.imag else root * root
    middle, high = pair[0].real, pair[1].real
    if e >= 0.0 and start == middle:  # the unstable equilibrium itself
        return np.full_like(t, start), math.inf
    dies = e < 0.0 or start < middle
    y0 = start - m

    def elapsed(z: FloatArray) -> FloatArray:
        """Return the time in which the length falls by z, or comes nearer to its limit by the factor e^-z.

        It falls to 0 if the weights vanish, else it tends to the stable equilibrium `high`.
        """
        change = -z if dies else (start - high) * np.expm1(-z)
        x = start + change if dies else high + (start - high) * np.exp(-z)
        if e < 0.0:
            y = x - m
            integral = np.arctan2(root * change, root**2 + y0 * y) / root
            squares = np.log1p(change * (y0 + y) / (y0**2 + root**2))
        else:
            above = x - middle if dies else 2 * root + (start - high) * np.exp(-z)
            by_middle = _log_ratio(above, start - middle, change)
            by_high = _log_ratio(x - high, start - high, change) if dies else -z
            if root == 0.0:
                integral = change / ((start - m) * above)
            else:
                share = 2 * root * change / (above * (start - high))
                integral = np.where(share > -0.5, np.log1p(share), by_high - by_middle) / (2 * root)
            squares = by_middle + by_high
        third = _log_ratio(x + 2 * m, start + 2 * m, change)
        return np.asarray(-(third + 3 * m * integral - squares / 2) / (9 * m * m - e))

    if dies:
        death = float(elapsed(np.array(start)))
        time, none = np.minimum(t, death), np.zeros_like(t)
        fall = _invert(elapsed, lambda z: kappa - (start - z) + (start - z) ** 3, none, none + start, time)
        return np.where(t < death, start - fall, 0.0), death
    if start == high:
        return np.full_like(t, start), math.inf

    def length(z: FloatArray) -> FloatArray:
        """Return the length x, nearer to the stable equilibrium `high` than `start` by the factor e^-z."""
        near = start + (start - high) * np.expm1(-z)
        return np.where(z < 0.5, near, high + (start - high) * np.exp(-z))

    def rate(z: FloatArray) -> FloatArray:
        """Return dz/dt, where the length's distance from the equilibrium `high` falls as e^-z."""
        return np.asarray((length(z) + 2 * m) * (2 * root + (start - high) * np.exp(-z)))

    ends = (start + 2 * m) * (start - middle), (high + 2 * m) * (2 * root)
    z = _invert(elapsed, rate, t * min(ends), t * max(ends), t)
    return length(z), math.inf


def _equal_weights_from_far(
    start: float, far: float, kappa: float, t: FloatArray
) -> tuple[FloatArray, float]:
    """Return the `equal_weights` for a `start` beyond `far`, a length after which the closed form holds.

    With s = 1/x the time is the integral of s/(1 - s^2 + kappa s^3).
    """
    first, last = 1 / start, 1 / far  # where the integrand is so smooth that 20 nodes give all digits

    def elapsed(rise: FloatArray) -> FloatArray:
        """Return the time in which s = 1/x, x the length, rises by `rise` from its start."""
        s = first + np.multiply.outer(rise / 2, 1 + _NODES)
        return np.asarray(rise / 2 * np.sum(_WEIGHTS * s / (1 - s**2 + kappa * s**3), axis=-1))

    def rate(rise: FloatArray) -> FloatArray:
        """Return ds/dt of s = 1/x, x the length, when it has risen by `rise`."""
        s = first + rise
        return np.asarray((1 - s**2 + kappa * s**3) / s)

    arrival = float(elapsed(np.array(last - first)))
    time = np.minimum(t, arrival)
    # s^2 - first^2 lies between 1.5 and 2.25 times the time.
    low, high = (c * time / (first + np.sqrt(first**2 + c * time)) for c in (1.5, 2.25))
    x = 1 / (first + _invert(elapsed, rate, low, high, time))
    later, death = equal_weights(far, kappa, np.maximum(t - arrival, 0.0))
    return np.where(t < arrival, x, later), arrival + death
