"""The source's scaling laws with constants 1, and the relative variance of the surviving weights."""

import numpy as np
import numpy.typing as npt

from .. import validation
from ..compile.kernels import kernel
from ..validation import FloatArray, number

__all__ = ["relative_variance_bounds", "scaling_law", "sums_above"]


def scaling_law(t: npt.ArrayLike, lam: float, m: int) -> tuple[FloatArray, FloatArray]:
    r"""Return number of nonzero weights and l1 norm by Lecomte et al.'s scalings, open constants set to 1.

    Parameters
    ----------
    t : array_like of float
        Flow times, not negative, any shape.
    lam, m : float and int
        Strength of the l1 force, positive, and the number of weights, at least 1.

    Returns
    -------
    nonzeros, l1_norm : ndarray of float64
        :math:`|W|_1 = \sqrt m` until :math:`1/(\lambda\sqrt m)`, then :math:`1/(\lambda t)`, then 1 from
        :math:`1/\lambda` on; and :math:`m' = |W|_1^2` (Lecomte et al. 2024, §2.4 and Fig. 2). Heuristic:
        orders of magnitude, off by a factor of 3 or more in places.

    Examples
    --------
    >>> nonzeros, l1_norm = scaling_law([0, 1e4, 1e6], lam=1e-5, m=100_000)
    >>> nonzeros.round(6)
    array([1.e+05, 1.e+02, 1.e+00])
    """
    t = validation.real("t", t, 0)
    lam = number("lam", lam, 0, brackets="()")
    m = validation.integer("m", m, 1)
    number("m", m)  # a double holds it
    with np.errstate(divide="ignore", over="ignore"):
        l1_norm = np.clip(1 / (lam * t), 1, m**0.5)
    return l1_norm**2, l1_norm


def _power_of_two_below(size: float) -> float:
    """Return the largest power of two up to `size`, 1 for 0: a unit in which squares do not overflow."""
    return float(2.0 ** np.floor(np.log2(size))) if size > 0 else 1.0


@kernel
def sums_above(v: FloatArray, norm_1: FloatArray, norm_2: FloatArray) -> None:
    """Write the sums over i <= k of v_i - v_k to norm_1[k], of (v_i - v_k)² to norm_2[k]; v descends."""
    norm_1[0] = norm_2[0] = 0.0
    for k in range(1, v.size):
        gap = v[k - 1] - v[k]
        norm_2[k] = norm_2[k - 1] + gap * (2 * norm_1[k - 1] + k * gap)
        norm_1[k] = norm_1[k - 1] + k * gap


def relative_variance_bounds(w0: npt.ArrayLike, nonzeros: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Bounds on the relative variance of the nonzero weights under the l1 force, by their number m'; exact.

    The nonzero weights are the m' largest initial sizes minus a threshold, which is between the (m'+1)-th and
    the m'-th size, times a common factor. Apart from this factor their variance is constant, and their mean
    falls as the threshold rises. See Lecomte et al. (2024), App. B and Fig. 7. Errors are those of
    `scaling_law`.

    Parameters
    ----------
    w0 : (m,) array_like of float
        Initial weights, any signs and order.
    nonzeros : array_like of int
        Numbers m' of nonzero weights, from 1 to that of `w0`; any shape.

    Returns
    -------
    lower, upper : ndarray of float64
        Relative variances just after the (m'+1)-th weight dropped (or at the beginning), and just before the
        next one drops: the first is attained, the second approached. Where all m' weights are equal both
        are 0.

    Examples
    --------
    >>> lower, upper = relative_variance_bounds([3, -2, 1], [3, 2])
    >>> lower.round(6), upper.round(6)
    (array([0.166667, 0.111111]), array([0.666667, 1.      ]))
    """
    sizes = np.sort(np.abs(validation.vector("w0", w0)))[::-1]
    sizes = np.append(sizes[sizes > 0], 0.0) / _power_of_two_below(sizes[0])
    count = validation.whole_numbers("nonzeros", nonzeros, 1, sizes.size - 1)
    norm_1, norm_2 = np.empty_like(sizes), np.empty_like(sizes)
    sums_above(sizes, norm_1, norm_2)
    last = count.astype(np.int64) - 1  # index of the smallest weight left
    mean = norm_1[last] / count
    variance = np.maximum(norm_2[last] / count - mean**2, 0.0)
    higher = mean + (sizes[last] - sizes[last + 1])
    lower, upper = (
        np.divide(variance, size**2, out=np.zeros_like(count), where=variance > 0) for size in (higher, mean)
    )
    return lower, upper
