"""The optimal scale and bias of the macroscopic loss, over whole grids of (p, ratio)."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import elementwise

from ...theory import arguments
from ...theory import rug as theory
from ...theory.results import result
from ...theory.rug.closed import profile_kernel, scale_kernel, slope_kernel

__all__ = ["Optimum", "crossover_ratio", "optimum"]

FloatArray = npt.NDArray[np.float64]

# At a shift b/(a sigma) of 9 the ReLU clips with probability 1e-19, and the affine optimum is exact to
# rounding.
_AFFINE_FROM = 9.0

# Grid points that one call of the root finder takes: its dozen arrays of this length fit the cache.
_CHUNK = 16384

# Below this p the squares of sigma and the tails leave the range of doubles.
_LEAST_P = 1e-100

# Between these the slope at bias 0 changes sign from + to - for every p.
_LEAST_SIGMA, _GREATEST_SIGMA = 1e-8, 1e3

_TOLERANCES: Any = {"xatol": 1e-10, "xrtol": 1e-10, "fatol": 0.0, "frtol": 0.0}


@result
class Optimum:
    """Global minimum of the macroscopic loss; arrays of one shape, or floats."""

    a: Any
    """Scale, the common diagonal."""
    b: Any
    """Bias."""
    sigma: Any
    """Standard deviation of the interference in units of the diagonal (Eq. 6)."""
    loss: Any
    """Loss per feature."""


def _probability(p: npt.ArrayLike) -> FloatArray:
    return arguments.real("p", p, _LEAST_P, 1, hint="For sparsity S pass p = 1 - S.")


def optimum(p: npt.ArrayLike, ratio: npt.ArrayLike) -> Optimum:
    r"""Minimise the macroscopic loss over scale and bias at the least interference.

    The scale is eliminated exactly (Eq. 16); what is left is the profile of the loss over the shift
    z = b/(a sigma). It has a single minimum (see Notes), which is the root of its slope between
    :math:`-\sqrt{2\log(1/p)} - 3` and the shift of the affine optimum; SciPy's bracketing root finder
    takes the whole grid at once.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in [1e-100, 1].
    ratio : array_like of float
        n_hidden / n_features, in (0, 1]. Broadcasts with `p`.

    Returns
    -------
    Optimum
        Relative error of the loss below 1e-12; of a and b below 1e-8. Where sigma is below about 1e-10, a
        model whose scale is rounded to a double has a larger loss than this.

    Raises
    ------
    ValueError
        If `p` or `ratio` is out of range, or if the root finder fails.

    Notes
    -----
    The profile falls from z = -∞ (output 0, loss p/3), passes one minimum and rises towards the
    constant output p/2 (loss p/3 - p²/4) at z = +∞. That there is only one minimum is not proved; it
    was found by counting the sign changes of the slope, and a test repeats the count. So the passage
    from the sparse regime (b < 0) to the almost affine one (b > 0) is a crossover, not a jump; it
    happens along `crossover_ratio`.

    References
    ----------
    Cowsik et al. (2024), §4.2 and App. A.

    Examples
    --------
    >>> best = optimum(0.05, 0.25)
    >>> round(best.a, 4), round(best.b, 4), round(best.loss, 6)
    (1.2548, -0.4409, 0.005789)
    """
    grid = np.broadcast_arrays(_probability(p), arguments.real("ratio", ratio, 0, 1, brackets="(]"))
    shape = grid[0].shape
    on, fraction = grid[0].ravel(), grid[1].ravel()
    sigma = theory.sigma(on, fraction)
    # The affine optimum: a = ratio, output mean p/2. It stays where the ReLU never clips, and at ratio 1.
    a = fraction.copy()
    b = (1.0 - fraction) * on / 2.0
    loss = theory.linear_loss(on, fraction)
    with np.errstate(divide="ignore", invalid="ignore"):
        highest = b / (a * sigma)
    clipped = np.flatnonzero((sigma > 0.0) & (highest < _AFFINE_FROM))
    for start in range(0, clipped.size, _CHUNK):
        some = clipped[start : start + _CHUNK]
        z = _shift(sigma[some], on[some], highest[some])
        a[some] = scale_kernel(z, sigma[some], on[some])
        b[some] = a[some] * sigma[some] * z
        loss[some] = profile_kernel(z, sigma[some], on[some])
    return Optimum(*(array.reshape(shape)[()] for array in (a, b, sigma, loss)))


def _shift(sigma: FloatArray, p: FloatArray, highest: FloatArray) -> FloatArray:
    """Root of the slope of the profile over z = b/(a sigma).

    Clipping only lowers the root below that of the affine model; the half added keeps the sign at the
    upper end safe from rounding where the clipping is too rare to show.
    """
    lowest = -np.sqrt(-2.0 * np.log(p)) - 3.0
    found = elementwise.find_root(
        slope_kernel, (lowest, highest + 0.5), args=(sigma, p), tolerances=_TOLERANCES
    )
    if not np.all(found.success):
        k = np.flatnonzero(~found.success)[0]
        raise ValueError(
            f"`p` and `ratio` must give a slope that changes sign; got p = {p[k]:g}, sigma = {sigma[k]:g} "
            f"with status {found.status[k]}."
        )
    return np.asarray(found.x, dtype=np.float64)


def _slope_without_bias(log_sigma: FloatArray, *p: Any) -> FloatArray:
    return np.asarray(slope_kernel(0.0, np.exp(log_sigma), *p), dtype=np.float64)


def crossover_ratio(p: npt.ArrayLike) -> Any:
    r"""Ratio at which the optimal bias changes sign: above it b < 0, below it b > 0.

    The root over sigma of the slope at b = 0, turned into a ratio by Eq. 6. As p → 0 the root tends to
    a constant, so the line is proportional to p.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in [1e-100, 1].

    Returns
    -------
    float or ndarray of float64
        In (0, 1]; absolute error below 1e-9 relative to p. About 0.592 p for small p, 1 at p = 1.

    Raises
    ------
    ValueError
        If `p` is out of range.

    Examples
    --------
    >>> round(crossover_ratio(0.05), 6)
    0.032137
    """
    on = _probability(p)
    shape, on = on.shape, on.ravel()
    ratio = np.ones(on.size)
    # Within 3e-8 of p = 1 the bias is positive down to the least sigma tried: the crossing is at ratio 1.
    crossing = np.flatnonzero(slope_kernel(0.0, _LEAST_SIGMA, on) > 0.0)
    found = elementwise.find_root(
        _slope_without_bias,
        (np.full(crossing.size, np.log(_LEAST_SIGMA)), np.full(crossing.size, np.log(_GREATEST_SIGMA))),
        args=(on[crossing],),
        tolerances=_TOLERANCES,
    )
    variance = on[crossing] * (4.0 - 3.0 * on[crossing]) / 12.0
    ratio[crossing] = variance / (variance + np.exp(2.0 * found.x))
    return ratio.reshape(shape)[()]
