r"""Mean numbers of encodings on one neuron, and of neurons that end with two features."""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from .. import validation
from ..validation import FloatArray, Real, scalar_or_array, whole_numbers

__all__ = ["expected_collisions", "expected_polysemantic", "polysemantic_pmf", "quoted_polysemantic"]


def count_array(name: str, value: npt.ArrayLike) -> FloatArray:
    """Return `value` as an array; ValueError about `name` unless all are whole numbers from 1 to 1e75."""
    array = whole_numbers(name, value)
    if np.any(array > 1e75):
        raise ValueError(f"`{name}` must be at most 1e75; got {array.max():g}.")
    return array


def expected_collisions(n_features: npt.ArrayLike, n_hidden: npt.ArrayLike) -> Real:
    """Mean number of pairs whose largest initial weights are on the same neuron, n (n - 1)/(2 m): exact.

    Three features on one neuron count as three pairs. See Lecomte et al. (2024), §1.1.

    Parameters
    ----------
    n_features, n_hidden : array_like of int
        Numbers n of features and m of neurons, at least 1.

    Returns
    -------
    float or ndarray of float64
        Of the broadcast shape.

    Examples
    --------
    >>> expected_collisions(256, 1024)
    31.875
    """
    n, m = count_array("n_features", n_features), count_array("n_hidden", n_hidden)
    return scalar_or_array(np.asarray(n * (n - 1) / (2 * m)))


@validation.finite
def quoted_polysemantic(n_features: npt.ArrayLike, n_hidden: npt.ArrayLike) -> Real:
    """Lecomte et al.'s number of polysemantic neurons, n^2/(4 m), §2.5: heuristic, for m much larger than n.

    Parameters
    ----------
    n_features, n_hidden : array_like of int
        Numbers n of features and m of neurons, at least 1.

    Returns
    -------
    float or ndarray of float64
        Of the broadcast shape.

    Examples
    --------
    >>> quoted_polysemantic(256, 1024)
    16.0
    """
    n, m = count_array("n_features", n_features), count_array("n_hidden", n_hidden)
    return scalar_or_array(np.asarray(n * n / (4 * m)))


def expected_polysemantic(
    n_features: npt.ArrayLike, n_hidden: npt.ArrayLike, *, exclusive: bool = True
) -> Real:
    r"""Mean number of neurons that hold two features of opposite signs, for any sizes: exact combinatorics.

    A neuron has two places, one for each sign. With `exclusive` every feature ends in a place of its own, all
    arrangements equally likely, and the mean is :math:`\frac{n (n - 1)}{2 (2 m - 1)}`, which tends to the
    source's :math:`n^2/(4 m)` (Lecomte et al. 2024, §2.5). Otherwise features choose their places
    independently, as their largest initial weights do, and the mean is :math:`m (1 - 2 (1 - 1/2m)^n + (1 -
    1/m)^n)`: 0.155 m instead of 0.25 m at n = m.

    Parameters
    ----------
    n_features, n_hidden : array_like of int
        n and m, at least 1; at most 2m features if `exclusive`.
    exclusive : bool, optional
        Whether a place holds one feature at most.

    Returns
    -------
    float or ndarray of float64
        Exact for these two rules, relative error 1e-13. As a forecast of the flow, in which every feature
        ends in a place of its own, the mean is a heuristic: counts are 0.78 to 1.18 times as large for n from
        32 to 512.

    Raises
    ------
    ValueError
        If a number is not whole or below 1, or `exclusive` and there are more than 2m features.

    Examples
    --------
    >>> round(expected_polysemantic(256, 1024), 3), round(expected_polysemantic(256, 256), 3)
    (15.945, 63.875)
    >>> round(expected_polysemantic(256, 256, exclusive=False), 2)
    39.6
    """
    n, m = count_array("n_features", n_features), count_array("n_hidden", n_hidden)
    if not validation.flag("exclusive", exclusive):
        # With x = (1-q)^n and rho = q^2/(1-q)^2 the three terms are (1-x)^2 - x^2 (1 - (1-rho)^n): both
        # parts are small where m is much larger than n, as the sum is.
        q = 1 / (2 * m)
        x_minus_1 = np.expm1(n * np.log1p(-q))
        with np.errstate(divide="ignore"):
            both = np.expm1(n * np.log1p(-np.square(q / (1 - q))))
        return scalar_or_array(
            np.asarray(m * np.maximum(x_minus_1 * x_minus_1 + np.square(1 + x_minus_1) * both, 0.0))
        )
    _check_places(n, m)
    return scalar_or_array(np.asarray(n * (n - 1) / (2 * (2 * m - 1))))


def _check_places(n: FloatArray, m: FloatArray) -> None:
    """Raise a ValueError if n > 2m: m neurons have two places each for n features."""
    bad = n > 2 * m
    if np.any(bad):
        n, m = np.broadcast_arrays(n, m)
        raise ValueError(
            f"`n_features` must be at most twice `n_hidden`, one for each neuron and sign; "
            f"got {n[bad].flat[0]:g} with {m[bad].flat[0]:g} neurons."
        )


def polysemantic_pmf(n_features: int, n_hidden: int) -> tuple[npt.NDArray[np.int64], FloatArray]:
    r"""Distribution of the number of neurons with both places taken, all arrangements equally likely: exact.

    .. math:: P(x) = \binom{m}{x} \binom{m - x}{n - 2x} 2^{n - 2x} \Big/ \binom{2m}{n}.

    A neuron has two places for features, one for each sign. `n_features` and `n_hidden` are single numbers, n
    of features and m of neurons, n at most 2m. :func:`expected_polysemantic` gives the mean. The variance is
    below Poisson's: a quarter of the mean at n = m.

    Returns
    -------
    count : ndarray of int
        All x from max(0, n - m) to n // 2.
    probability : ndarray of float64
        P(x), relative error 1e-13 times m or less (a difference of log-gamma functions).

    Examples
    --------
    >>> count, probability = polysemantic_pmf(2, 2)
    >>> count, probability.round(6)
    (array([0, 1]), array([0.666667, 0.333333]))
    """
    n = validation.integer("n_features", n_features, 1, 10**8)
    m = validation.integer("n_hidden", n_hidden, 1, 10**15)
    _check_places(np.asarray(float(n)), np.asarray(float(m)))
    x = np.arange(max(0, n - m), n // 2 + 1)
    ways = _log_binomial(m, x) + _log_binomial(m - x, n - 2 * x) + (n - 2 * x) * math.log(2)
    return x, np.exp(ways - _log_binomial(2 * m, np.asarray(n)))


def _log_binomial(n: npt.ArrayLike, k: npt.NDArray[np.int64]) -> FloatArray:
    """Return the natural logarithm of the binomial coefficient n over k, elementwise."""
    top = np.asarray(n, dtype=np.float64)
    return np.asarray(special.gammaln(top + 1) - special.gammaln(k + 1) - special.gammaln(top - k + 1))
