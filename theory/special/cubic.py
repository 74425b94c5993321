r"""The roots of x - x^3 = kappa, accurate also where two of them nearly meet.

Up to :math:`\kappa_c = 2/\sqrt{27}` all are real. With the distance :math:`\delta = 1 - \kappa/\kappa_c` and
:math:`\sin(\eta/2) = \sqrt{\delta/2}`,

.. math:: x_\mathrm{low} = -\tfrac{2}{\sqrt3} \cos\tfrac\eta3, \qquad
          x_\mathrm{mid}, x_\mathrm{high} = \tfrac{1}{\sqrt3} \cos\tfrac\eta3 \mp \sin\tfrac\eta3.

Beyond, :math:`\eta` and the distance of the two are imaginary. The number :math:`\kappa_c` is no double:
it is kept as a sum of two, so that :math:`\delta` has all its digits.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import validation
from ..compile.kernels import inlined, kernel
from ..validation import FloatArray

__all__ = ["CRITICAL", "CubicRoots", "cubic", "cubic_roots"]

CRITICAL = 0.3849001794597505  # 2/sqrt(27), the largest kappa with a positive root ...
_REST = -1.470724699460099e-17  # ... less its rounding
_THIRD = 1.0 / math.sqrt(3.0)


class CubicRoots(NamedTuple):
    """Roots of x - x^3 = kappa, each of the shape of kappa."""

    low: FloatArray
    """The negative root."""
    middle: npt.NDArray[np.complex128]
    """The smaller nonnegative root; for kappa > 2/sqrt(27) the root with negative imaginary part."""
    high: npt.NDArray[np.complex128]
    """The larger nonnegative root; for kappa > 2/sqrt(27) the root with positive imaginary part."""
    gap: npt.NDArray[np.complex128]
    """high - middle, without cancellation."""


@inlined
def cubic(kappa: float) -> tuple[float, complex, complex, complex]:
    """Return the low, middle and high root of x - x^3 = kappa for kappa >= 0, and high - middle.

    For kappa > 2/sqrt(27) the middle and the high root are conjugate, with negative and positive imaginary
    part.
    """
    gap = (CRITICAL - kappa) + _REST
    if gap >= 0.0:
        angle = 2.0 / 3.0 * math.asin(math.sqrt(gap / (2.0 * CRITICAL)))
        low, half = -2.0 * _THIRD * math.cos(angle), math.sin(angle)
        high = half - 0.5 * low
        return low, complex(kappa / (-low * high)), complex(high), complex(2.0 * half)
    angle = 2.0 / 3.0 * math.asinh(math.sqrt(-gap) / math.sqrt(2.0 * CRITICAL))
    low, half = -2.0 * _THIRD * math.cosh(angle), math.sinh(angle)
    if kappa > 1.0:  # the angle is large, and its rounding shows: one step of Newton's method
        low -= (kappa / low + low * low - 1.0) / (3.0 * low - 1.0 / low)
        half = math.sqrt(0.75 * low * low - 1.0)
    return low, complex(-0.5 * low, -half), complex(-0.5 * low, half), complex(0.0, 2.0 * half)


@kernel
def _all_roots(kappa: FloatArray, low: FloatArray, others: npt.NDArray[np.complex128]) -> None:
    """Write the roots of x - x^3 = kappa: low to `low`; middle, high and their distance to `others`.

    `low` is (kappa.size,), `others` is (3, kappa.size).
    """
    for i in range(kappa.size):
        low[i], others[0, i], others[1, i], others[2, i] = cubic(kappa[i])


def cubic_roots(kappa: npt.ArrayLike) -> CubicRoots:
    r"""Return the three roots of :math:`x - x^3 = \kappa`, and the distance of the upper two.

    Parameters
    ----------
    kappa : array_like of float
        At least 0.

    Returns
    -------
    CubicRoots
        Relative error below 2e-15 of each, also of `gap`; the upper two meet at 2/sqrt(27) = 0.3849.

    Raises
    ------
    ValueError
        If `kappa` is negative or not finite.

    Examples
    --------
    >>> roots = cubic_roots(0.375)
    >>> roots.low.round(6), roots.middle.round(6), roots.high.round(6)
    (-1.151388, (0.5+0j), (0.651388+0j))
    """
    at = validation.real("kappa", kappa, 0.0)
    low, others = np.empty(at.size), np.empty((3, at.size), np.complex128)
    _all_roots(at.ravel(), low, others)
    return CubicRoots(low.reshape(at.shape), *others.reshape((3, *at.shape)))
