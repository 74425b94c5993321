r"""The time that hidden noise takes to sparsify, and where it ends: predictions without free constants.

Time is t = learning_rate * steps, for steps on the sum of the losses on all inputs; on their mean, steps are
n_features times as many. To first order the result depends on t alone, not on the learning rate.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from ..validation import FloatArray, Real, check_fits, finite, integer, number, real, scalar_or_array, vector
from .moments import noise_law
from .relu import relu_moments

__all__ = [
    "interference_free_l1_norm", "quartic_flow", "quartic_time", "regulariser_rate", "simplex_rate",
    "simplex_square", "sparsification_time",
]  # fmt: skip

_LATEST = 690.0  # log of the odds of the largest weight; odds are then near the largest float
_SOONEST = 1e-290  # reduced time that is taken for 0

# --- One encoding on the sphere: the flow towards larger fourth norm ----------------------------------------


def _checked_shares(w0: npt.ArrayLike) -> tuple[FloatArray, FloatArray, float]:
    """Return w0 as an array, the shares w0_j²/|w0|² and the length |w0|; ValueError if w0 is 0."""
    weights = vector("w0", w0)
    size = float(np.max(np.abs(weights)))
    if size == 0:
        raise ValueError("`w0` must not be 0, which has no direction; got length 0.")
    length = size * math.sqrt(float(np.sum((weights / size) ** 2)))
    return weights, (weights / length) ** 2, length


def _reduced_time(log_odds: float, first: FloatArray) -> float:
    """Return the time Bt at which the parameter tau of the solution of `quartic_flow` has the given value.

    W_j² is in proportion to 1/(|W|²/W_j(0)² - tau). tau is odds/((1 + odds) largest), from 0 to 1/largest,
    and `log_odds` is log(odds). `first` are the shares W_j²/|W|² at the start, `largest` is the largest of
    them.
    """
    odds = math.exp(log_odds)
    # 1 - tau x = ((1 - x/largest) odds + 1)/(1 + odds), which does not cancel near the end.
    return 0.5 * float(np.sum(np.log1p(odds) - np.log1p((1 - first / first.max()) * odds)))


def _root_in_log_odds(function: Callable[..., float], *rest: Any) -> float:
    """Return the y with function(y, *rest) = 0, the logarithm of odds, by Brent's method.

    The function must have opposite signs at -_LATEST and _LATEST, between which y lies.
    """
    return float(optimize.brentq(function, -_LATEST, _LATEST, args=rest, xtol=1e-13))


def _shares_at(odds: FloatArray, first: FloatArray) -> FloatArray:
    """Return the shares W_j²/|W|², (*odds.shape, m), of the solution of `quartic_flow` at a parameter tau.

    tau is odds/((1 + odds) largest). `first` are the shares at the start, `largest` is the largest of them.
    """
    largest = first.max()
    shares = first / (1 + (1 - first / largest) * odds[..., None])
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


@finite
def quartic_flow(w0: npt.ArrayLike, reduced_time: npt.ArrayLike) -> FloatArray:
    """Return an encoding at the times Bt, under the first-order force of noise on hidden neurons; exact.

    .. math:: dW_j/d(Bt) = W_j^3 - |W|_4^4 W_j / |W|_2^2 .

    Parameters
    ----------
    w0 : array_like of float, shape (m,)
        Encoding at the start. Its length is kept.
    reduced_time : array_like of float
        Times B t, not negative: rate B times learning rate times steps, or the integral of B if it changes.

    Returns
    -------
    ndarray of float64, shape reduced_time.shape + (m,)
        Encodings, with the weights' axis last. Relative error 1e-9 for weights above 1e-140.

    Raises
    ------
    ValueError
        If `w0` is 0 or an argument out of range.

    Examples
    --------
    >>> quartic_flow([0.8, 0.6], [0.0, 20.0]).round(6)
    array([[0.8, 0.6],
           [1. , 0. ]])
    """
    weights, first, length = _checked_shares(w0)
    times = real("reduced_time", reduced_time, 0.0) * length**2
    odds = np.zeros(times.shape)
    for at, time in np.ndenumerate(np.minimum(times, _reduced_time(_LATEST, first))):
        if time > _SOONEST:
            odds[at] = math.exp(_root_in_log_odds(lambda y, t: _reduced_time(y, first) - t, time))
    return np.asarray(np.sign(weights) * np.sqrt(_shares_at(odds, first)) * length)


def quartic_time(w0: npt.ArrayLike, fourth_norm: float) -> float:
    """Time Bt at which :math:`|W|_4^4/|W|_2^4` reaches `fourth_norm` in the flow of :func:`quartic_flow`.

    The time is 0 if the encoding starts at this value or above. It is inf if the flow never reaches the
    value, because several largest weights are equal and stay equal. Relative error 1e-9.

    Parameters
    ----------
    w0 : array_like of float, shape (m,)
        Encoding at the start.
    fourth_norm : float
        Value of :math:`|W|_4^4/|W|_2^4`, in (0, 1).

    Examples
    --------
    >>> round(quartic_time([0.8, 0.6], 0.9), 6)
    1.925291
    """
    _, first, length = _checked_shares(w0)
    level = number("fourth_norm", fourth_norm, 0.0, 1.0, brackets="()")

    def excess(y: float) -> float:
        """Return by how much |W|_4^4/|W|_2^4 at the log odds y of `_reduced_time` exceeds the level."""
        return float(np.sum(_shares_at(np.exp(np.array(y)), first) ** 2)) - level

    if excess(-_LATEST) >= 0:
        return 0.0
    return _reduced_time(_root_in_log_odds(excess), first) / length**2 if excess(_LATEST) > 0 else math.inf


# --- Many encodings ---------------------------------------------------------------------------------------


@finite
def simplex_square(n_features: int, noise_std: float) -> float:
    r"""Squared length at which a regular simplex of encodings has the least loss under normal noise.

    No encodings of equal length have a smaller loss, if n_hidden >= n_features - 1: the mean overlap of n
    encodings of squared length s is at least -s/(n-1), and the loss is convex and increasing in each.

    Parameters
    ----------
    n_features : int
        n, at least 1.
    noise_std : float
        sigma, positive.

    Returns
    -------
    float
        s, near 1 - sigma^2/2 for weak noise. Absolute error 1e-7.

    Examples
    --------
    >>> round(simplex_square(1, 0.1), 6)
    0.995
    """
    n, std = integer("n_features", n_features, 1), number("noise_std", noise_std, 0.0, 1e30, brackets="(]")

    def loss(s: float) -> float:
        """Return the loss on one input, less 1, of a regular simplex of encodings of squared length s."""
        overlaps = [s, -s / max(n - 1, 1)]
        y = relu_moments(overlaps, [math.sqrt(s)], "normal", std)
        return float(y.second[0] - 2 * y.mean[0] + (n - 1) * y.second[1])

    minimum = optimize.minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9})
    if not minimum.success:
        raise ValueError(f"`noise_std` must leave a loss that can be minimised; got {std:g}.")
    return float(minimum.x)


@finite
def simplex_rate(n_features: int, noise_std: float, excess_kurtosis: float) -> float:
    r"""Rate B at which noise sparsifies encodings in a regular simplex, the optimum under normal noise.

    B is :math:`-\frac{\kappa\sigma}{3 \sqrt s}\, n(z)` at :math:`z = -\frac{\sqrt s}{(n - 1)\sigma}`, with
    the normal density n(z) and s of :func:`simplex_square`: B is about linear in sigma and independent of n
    for (n - 1) sigma above 1, and exponentially small below. Encodings become sparser if B > 0. The formula
    is of first order in the kurtosis.

    Parameters
    ----------
    n_features, noise_std : int and float
        n, at least 2, and the noise's standard deviation sigma, as for :func:`simplex_square`.
    excess_kurtosis : float
        kappa, at least -2.

    Examples
    --------
    >>> round(simplex_rate(8, 0.15, -2.0), 4)
    0.0256
    """
    n = integer("n_features", n_features, 2)
    kurtosis = number("excess_kurtosis", excess_kurtosis, -2.0)
    length, std = math.sqrt(simplex_square(n, noise_std)), float(noise_std)
    z = -length / ((n - 1) * std)
    return -kurtosis * std / (3 * length) * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def sparsification_time(
    n_features: int, n_hidden: int, noise_std: float, excess_kurtosis: float, *, fourth_norm: float = 0.5
) -> float:
    r"""Time learning_rate * steps after which a random encoding reaches `fourth_norm`.

    The rate B is `simplex_rate`, and the encoding starts with weights at normal quantiles. So the time is
    about :math:`m/(4 B \ln m)`, and inf if noise of this kurtosis does not sparsify. The time is a scaling
    law: of first order in the kurtosis times the fourth norm, with the overlaps of the simplex from the
    start, and with encodings that turn freely while there is interference
    (:func:`interference_free_l1_norm`).

    Parameters
    ----------
    n_features, noise_std, excess_kurtosis : int, float, float
        n, and the noise's standard deviation sigma and excess kurtosis kappa, as for :func:`simplex_rate`.
    n_hidden : int
        m, at least n - 1 and 2.
    fourth_norm : float, optional
        Value of :math:`|W|_4^4/|W|_2^4` to reach, in (0, 1).

    Examples
    --------
    >>> sparsification_time(8, 16, 0.15, 0.0)
    inf
    """
    n = integer("n_features", n_features, 2)
    m = integer("n_hidden", n_hidden, max(n - 1, 2))
    check_fits("n_hidden", m, 10 * m)
    rate = simplex_rate(n, noise_std, excess_kurtosis)
    sizes = special.ndtri((np.arange(1, m + 1) / 2 + m / 2) / (m + 0.5))  # quantiles of |normal|
    length = math.sqrt(simplex_square(n, noise_std))
    time = quartic_time(sizes * (length / float(np.linalg.norm(sizes))), fourth_norm)
    return time / rate if rate > 0 else math.inf


@finite
def regulariser_rate(noise_std: float, learning_rate: float, excess_kurtosis: float) -> float:
    r"""Rate B that the implicit regulariser of Lecomte et al. (2024) would give, if encodings descended it.

    Minus the gradient of the regulariser :math:`16 \eta^2 \sigma^4 \kappa |W|_4^4` (their §3.2) is :math:`B
    W_j^3` with :math:`B = -64 \eta^2 \sigma^4 \kappa`. Encodings do not descend it
    (`theory.noise.fourth_norm_drift`); the rate is for comparison with :func:`simplex_rate`.

    Parameters
    ----------
    noise_std, learning_rate, excess_kurtosis : float
        Standard deviation sigma of the noise and learning rate eta, not negative; the noise's excess kurtosis
        kappa, at least -2.

    Examples
    --------
    >>> round(regulariser_rate(0.1, 0.01, -2.0), 12)
    1.28e-06
    """
    kurtosis = number("excess_kurtosis", excess_kurtosis, -2.0)
    std, rate = number("noise_std", noise_std, 0.0, 1e30), number("learning_rate", learning_rate, 0.0, 1e60)
    return -64 * rate**2 * std**4 * kurtosis


@finite
def interference_free_l1_norm(
    n_features: int, noise: str, noise_std: npt.ArrayLike, *, excess_kurtosis: float | None = None
) -> Real:
    r"""Largest mean :math:`|W_i|_1` without interference under bounded noise: exact, a strict bound.

    If the noise on a neuron is at most c in size, wrong outputs are never on only if :math:`W_i \cdot W_k \le
    -c |W_k|_1` for all pairs. The square of the sum of all encodings is not negative, so then :math:`(n -
    1)\, c \sum_k |W_k|_1 \le \sum_k |W_k|_2^2`. Without interference there is no force towards sparsity:
    bounded noise may leave encodings unfinished below this bound, but not above it (Lecomte et al. 2024,
    §3.2). Errors are those of :func:`simplex_square`.

    Parameters
    ----------
    n_features : int
        n, at least 2.
    noise, excess_kurtosis : str, float, the second optional
        Name of the noise's law and, for ``"three-point"`` noise only, its excess kurtosis, as for
        :func:`relu_moments`.
    noise_std : array_like of float
        The noise's standard deviation sigma, positive, below sqrt(2).

    Returns
    -------
    float or ndarray of float64
        :math:`(1 - \sigma^2/2)/((n - 1) c)`; the numerator is the squared length at which encodings without
        interference rest. 0 for unbounded noise. Where the result is below :math:`\sqrt{1 - \sigma^2/2}`, the
        least l1 norm of such an encoding, some output always receives interference.

    Examples
    --------
    >>> round(interference_free_l1_norm(4, "bipolar", 0.15), 4)
    2.1972
    """
    n = integer("n_features", n_features, 2)
    std = real("noise_std", noise_std, 0.0, math.sqrt(2), brackets="()")
    name, _, ratio = noise_law(noise, 1.0, excess_kurtosis)
    size = {"uniform": math.sqrt(3.0), "normal": math.inf, "laplace": math.inf}.get(name, math.sqrt(ratio))
    return scalar_or_array(np.asarray((1 - std**2 / 2) / ((n - 1) * size * std)))
