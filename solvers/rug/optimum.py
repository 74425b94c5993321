"""The optimal scale and bias of the macroscopic loss, on grids of (p, ratio)."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import elementwise

from ...theory import rug as theory
from ...theory import validation
from ...theory.compile.kernels import check_interrupt, inner, kernel
from ...theory.results import result
from ...theory.rug.closed import best_scale, profile, slope_kernel
from ...theory.validation import FloatArray

__all__ = ["Optimum", "crossover_ratio", "optimum"]

# At a shift b/(a sigma) of 9 the ReLU clips with probability 1e-19: the affine optimum is exact to rounding.
_AFFINE_FROM = 9.0
_LEAST_P = 1e-100  # below this p the squares of sigma and the tails leave the range of doubles
# Between these the slope at bias 0 changes sign from + to - for every p.
_LEAST_SIGMA, _GREATEST_SIGMA = 1e-8, 1e3


@result
class Optimum:
    """Global minimum of the macroscopic `loss` per feature over scale `a` and bias `b`; arrays, or floats.

    `sigma` is the standard deviation of the interference in units of the diagonal a (Eq. 6).
    """

    a: Any
    b: Any
    sigma: Any
    loss: Any


def optimum(p: npt.ArrayLike, ratio: npt.ArrayLike) -> Optimum:
    r"""Return the model of least loss in the random-code limit: scale a and bias b of a x + b + interference.

    In that limit the interference of an output is normal with mean 0 and standard deviation a sigma, with
    sigma from `superposition.theory.rug.sigma`. The scale is eliminated exactly (Cowsik et al. 2024, Eq. 16).
    The profile of the loss over z = b/(a sigma) has its minimum between :math:`-\sqrt{2\log(1/p)} - 3` and
    the z of the affine optimum. It is not proved that there is only one minimum; a test counts the sign
    changes of the slope. The sign of b changes along `crossover_ratio`, without a jump.

    Parameters
    ----------
    p, ratio : array_like of float
        Probability that a feature is on, in [1e-100, 1], and n_hidden / n_features, in (0, 1].

    Returns
    -------
    Optimum
        Relative error of the loss and of a below 1e-12 and 1e-8; error of b below 1e-8 a sigma. Where sigma
        is below about 1e-10, a model whose scale is rounded to a double has a larger loss than this.

    Raises
    ------
    ValueError
        If `p` or `ratio` is out of range, or if the root finder fails.

    Examples
    --------
    >>> best = optimum(0.05, 0.25)
    >>> round(best.a, 4), round(best.b, 4), round(best.loss, 6)
    (1.2548, -0.4409, 0.005789)
    """
    on = validation.probability("p", p, low=_LEAST_P)
    on, fraction = validation.broadcast(p=on, ratio=validation.real("ratio", ratio, 0, 1, brackets="(]"))
    shape, on, fraction = on.shape, on.ravel(), fraction.ravel()
    sigma = theory.sigma(on, fraction)
    # The affine optimum: a = ratio, output mean p/2. It stays where the ReLU never clips, and at ratio 1.
    a = fraction.copy()
    b = (1.0 - fraction) * on / 2.0
    loss = theory.linear_loss(on, fraction)
    with np.errstate(divide="ignore", invalid="ignore"):
        highest = b / (a * sigma)
    clipped = np.flatnonzero((sigma > 0.0) & (highest < _AFFINE_FROM))
    s, q = sigma[clipped], on[clipped]
    # Clipping only lowers the root below that of the affine model. The half added keeps the sign at the upper
    # end safe from rounding where the clipping is too rare to show.
    z, a[clipped], loss[clipped] = _minima(-np.sqrt(-2.0 * np.log(q)) - 3.0, highest[clipped] + 0.5, s, q)
    for k in np.flatnonzero(np.isnan(z)):
        at = f"p = {q[k]:g}, sigma = {s[k]:g}"
        raise ValueError(f"`p` and `ratio` must give a slope that changes sign; got {at}.")
    b[clipped] = a[clipped] * s * z
    return Optimum(*(array.reshape(shape)[()] for array in (a, b, sigma, loss)))


@inner
def _log_balance(z: float, sigma: float, p: float) -> float:
    """Return log(rise/fall), where rise - fall is the slope of the loss over z = b/(a sigma).

    `rise` is the part of the slope from features that are off, `fall` minus the part from those that are on.
    The logarithm is 0 at the optimum. a is the best scale at z, a sigma the standard deviation of the
    interference, p the probability that a feature is on.
    """
    _, _, off, on = best_scale(z, sigma, p)
    return np.log(off) - np.log(-on) if on < 0.0 and off > 0.0 else (40.0 if on >= 0.0 else -800.0)


@inner
def _best_shift(low: float, high: float, sigma: float, p: float) -> float:
    """Return the z = b/(a sigma) of least loss between `low` and `high`; nan if the slope keeps its sign.

    The root of `_log_balance` is found by Chandrupatla's method. a is the best scale at z, a sigma the
    standard deviation of the interference, p the probability that a feature is on.
    """
    a, b, c = high, low, low  # b is the last point, a the end on the other side, c the point before
    fa, fb = _log_balance(a, sigma, p), _log_balance(b, sigma, p)
    fc = fb
    if not fa * fb <= 0.0:
        return np.nan
    share = 0.5
    for _ in range(200):
        x = a + share * (b - a)
        fx = _log_balance(x, sigma, p)
        if (fx > 0.0) == (fa > 0.0):
            c, fc = a, fa
        else:
            c, fc, b, fb = b, fb, a, fa
        a, fa = x, fx
        best = a if abs(fa) < abs(fb) else b
        nearest = (1e-10 * abs(best) + 1e-10) / abs(b - a) if b != a else 1.0
        if nearest >= 0.5 or fa == 0.0 or fb == 0.0:
            return best
        # inverse quadratic interpolation where it is safe, else bisection
        fraction, across = (a - b) / (c - b), (fa - fb) / (fc - fb)
        share = 0.5
        if 1.0 - np.sqrt(1.0 - fraction) < across < np.sqrt(fraction):
            share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            if abs(share * (b - a)) < 3e-6 * (1.0 + abs(a)):  # the next step would be of its power 1.8
                return a + share * (b - a)
        share = nearest if share < nearest else 1.0 - nearest if share > 1.0 - nearest else share
    return np.nan


@kernel
def _minima(
    low: FloatArray, high: FloatArray, sigma: FloatArray, p: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return arrays (z, a, loss): for each sigma and p, the minimum with z between `low` and `high`.

    a is the scale, z = b/(a sigma), a sigma the standard deviation of the interference and p the probability
    that a feature is on. Entries are nan where there is no such minimum.
    """
    z, a, loss = np.empty(p.size), np.empty(p.size), np.empty(p.size)
    for k in range(p.size):
        check_interrupt(k % 256 == 255)
        z[k] = _best_shift(low[k], high[k], sigma[k], p[k])
        a[k], loss[k] = profile(z[k], sigma[k], p[k])
    return z, a, loss


def crossover_ratio(p: npt.ArrayLike) -> Any:
    r"""Return the ratio n_hidden/n_features at which the optimal bias is 0: b < 0 above it, b > 0 below it.

    The ratio lies in (0, 1], is about 0.592 p for small p, and 1 at p = 1. Its error is below 1e-9 p.
    `p`, a number or an array, is the probability that a feature is on, in [1e-100, 1]; the result has its
    shape. Errors are those of `optimum`.

    Examples
    --------
    >>> round(crossover_ratio(0.05), 6)
    0.032137
    """
    on = validation.probability("p", p, low=_LEAST_P)
    shape, on = on.shape, on.ravel()
    ratio = np.ones(on.size)
    # Within 3e-8 of p = 1 the bias is positive down to the least sigma tried: the crossing is at ratio 1.
    crossing = np.flatnonzero(slope_kernel(0.0, _LEAST_SIGMA, on) > 0.0)

    def slope_without_bias(log_sigma: FloatArray, *p: Any) -> FloatArray:
        """Return dL/db/(2 sigma) of the loss L at the bias b = 0 and the best scale, at this log of sigma."""
        return np.asarray(slope_kernel(0.0, np.exp(log_sigma), *p))

    ends = np.log(_LEAST_SIGMA), np.log(_GREATEST_SIGMA)
    root = elementwise.find_root(slope_without_bias, ends, args=(on[crossing],))
    if not np.all(root.success):
        k = int(np.flatnonzero(~root.success)[0])
        raise ValueError(f"`p` must give a bias that changes sign; got {on[crossing][k]:g}.")
    variance = theory.zero_ratio_loss(on[crossing])
    ratio[crossing] = variance / (variance + np.exp(2.0 * root.x))
    return ratio.reshape(shape)[()]
