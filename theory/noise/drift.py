r"""Where noise alone drives one encoding without interference: drift and diffusion of its fourth norm.

A step is :math:`W' = W - 2\eta (|W|^2 - 1 + W \cdot \xi)(2W + \xi)`. Its mean points along W, so that to
first order in the learning rate the length settles at :math:`|W|^2 = 1 - \sigma^2/2` and the *shape*

.. math:: F = |W|_4^4 / |W|_2^4

does not move at all. The second order moves it, and not as the expected loss after a step suggests: noise of
negative excess kurtosis makes a random encoding flatter on average. See :func:`derive_fourth_norm_drift`.
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import FloatArray, Real, number, plain, real, whole
from .moments import family, joint_moments, noise_cumulant, power_sum

__all__ = [
    "derive_fourth_norm_drift",
    "derive_fourth_norm_step",
    "derive_random_drift",
    "fourth_norm_diffusion",
    "fourth_norm_drift",
    "random_fourth_norm_drift",
]


@cache
def derive_fourth_norm_step() -> Any:
    r"""Derive :math:`E |W'|_4^4` after one step, exactly: a polynomial of degree 4 in eta, with SymPy.

    Returns
    -------
    Expr
        In the symbols eta, m, p2 ... p8 (sums of powers of the weights), mu2 ... mu8.

    Examples
    --------
    >>> import sympy
    >>> sympy.factor(derive_fourth_norm_step().coeff("eta", 1))
    -8*p4*(mu2 + 2*p2 - 2)
    """
    import sympy

    eta, u, x, w = sympy.symbols("eta u x w")
    # W.xi = u and one entry x of the noise: their joint cumulants are those of the noise times w^a.
    moment = joint_moments(lambda a, b: noise_cumulant(a + b) * (w**a if b else power_sum(a)))
    after = sympy.Poly((w - 2 * eta * (power_sum(2) - 1 + u) * (2 * w + x)) ** 4, u, x)
    mean = sympy.Poly(sympy.expand(sum(c * moment(a, b) for (a, b), c in after.terms())), w)
    return sympy.expand(sum(c * power_sum(k) for (k,), c in mean.terms()))


@cache
def derive_fourth_norm_drift() -> dict[str, Any]:
    r"""Derive mean and variance of the change of the shape F = p4/p2^2 in one step, to order eta^2.

    Returns
    -------
    dict of str to Expr
        ``"first"``: the mean's coefficient of eta, 0 for *any* length. ``"second"``: that of eta^2.
        ``"variance"``: the variance's coefficient of eta^2. Symbols m, p2, p4, p6, p8, mu2, mu4.

    Notes
    -----
    At |W| = 1 the second is
    :math:`8 [\sigma^4 (3 - (m+2) p_4) + 2 (\mu_4 - 3\sigma^4)(p_4 - 4 p_6 + 3 p_4^2)]`.
    Its first part pulls every shape towards that of a random vector, 3/(m + 2). In the second part
    :math:`p_4 - 4p_6 + 3p_4^2` is positive for spread encodings: negative excess kurtosis *lowers* F. Bipolar
    noise does not feel a flat encoding at all: (1, 1)/sqrt(2) is where it ends at m = 2.

    References
    ----------
    Lecomte et al. (2024), §3.2, infers the opposite from the loss after a step.

    Examples
    --------
    >>> derive_fourth_norm_drift()["first"]
    0
    """
    import sympy

    p2, p4 = (power_sum(k) for k in (2, 4))
    u, v, a, w, x = sympy.symbols("u v a w x")
    # Moments of W.xi = u with v = sum_j W_j^3 xi_j, and with one entry x of the noise.
    cubes = joint_moments(lambda i, j: noise_cumulant(i + j) * power_sum(i + 3 * j))
    entry = joint_moments(lambda i, j: noise_cumulant(i + j) * (w**i if j else power_sum(i)))

    def mean(expression: Any, second: Any, table: Any) -> Any:
        terms = sympy.Poly(sympy.expand(expression), u, second).terms()
        return sympy.expand(sum(c * table(*powers) for powers, c in terms))

    def over_entries(expression: Any) -> Any:
        terms = sympy.Poly(mean(expression, x, entry), w).terms()
        return sympy.expand(sum(c * power_sum(k) for (k,), c in terms))

    error = a + u  # a = |W|^2 - 1
    # W' - W = -2 eta error (2W + xi): changes of p2 and p4, first and second order in eta.
    p4_first = mean(-8 * error * (2 * p4 + v), v, cubes)
    p2_first = mean(-4 * error * (2 * p2 + u), v, cubes)
    p4_second = over_entries(24 * error**2 * w**2 * (2 * w + x) ** 2)
    p2_second = over_entries(4 * error**2 * (2 * w + x) ** 2)
    cross = mean(32 * error**2 * (2 * p4 + v) * (2 * p2 + u), v, cubes)
    spread = mean(16 * error**2 * (2 * p2 + u) ** 2, v, cubes)
    first = p4_first / p2**2 - 2 * p4 * p2_first / p2**3
    second = p4_second / p2**2 - 2 * p4 * p2_second / p2**3 - 2 * cross / p2**3 + 3 * p4 * spread / p2**4
    variance = mean(64 * error**2 * (v - p4 * u / p2) ** 2, v, cubes) / p2**4
    at = {a: p2 - 1}
    return {
        "first": sympy.expand(first.subs(at)),
        "second": sympy.expand(second.subs(at)),
        "variance": sympy.expand(variance.subs(at)),
    }


def derive_random_drift() -> Any:
    r"""Derive the mean of the drift at |W| = 1 over all directions of W, with SymPy.

    Returns
    -------
    Expr
        :math:`48 \eta^2 (\mu_4 - 3\sigma^4) m (m-1)/((m+2)(m+4)(m+6))` over eta^2: the sign of the excess
        kurtosis, for every m above 1. Symbols m, mu2, mu4.

    Examples
    --------
    >>> derive_random_drift()
    -48*m*(m - 1)*(3*mu2**2 - mu4)/((m + 2)*(m + 4)*(m + 6))
    """
    import sympy

    m, p2, p4, p6 = (power_sum(k) for k in (0, 2, 4, 6))
    # A normal vector's moments over those of its length: |x|^(2k) has mean m (m+2) ... (m+2k-2).
    lengths = [sympy.prod([m + 2 * i for i in range(k)]) for k in (2, 3, 4)]
    means = [m * 3 / lengths[0], m * 15 / lengths[1], (m * 105 + m * (m - 1) * 9) / lengths[2]]
    drift = sympy.Poly(sympy.expand(derive_fourth_norm_drift()["second"].subs(p2, 1)), p4, p6)
    return sympy.factor(
        drift.coeff_monomial(1)
        + drift.coeff_monomial(p4) * means[0]
        + drift.coeff_monomial(p6) * means[1]
        + drift.coeff_monomial(p4**2) * means[2]
    )


# --- Numbers ----------------------------------------------------------------------------------------------


def _shape(
    w: npt.ArrayLike, noise: str, noise_std: float, excess_kurtosis: float | None
) -> tuple[FloatArray, FloatArray, FloatArray, float, float]:
    """Return squared entries of the directions, squared lengths, F, the variance and mu4/sigma^4 - 3."""
    weights = real("w", w)
    if weights.ndim == 0 or weights.shape[-1] == 0:
        raise ValueError(f"`w` must have shape (..., m) with m of at least 1; got {weights.shape}.")
    square = np.sum(weights**2, axis=-1)
    if not np.all(square > 0):
        raise ValueError("`w` must not be 0: a zero encoding has no shape; got length 0.")
    _, std, ratio = family(noise, noise_std, excess_kurtosis)
    squares = weights**2 / square[..., None]
    return squares, square, np.sum(squares**2, axis=-1), std**2, ratio - 3


def fourth_norm_drift(
    w: npt.ArrayLike,
    noise: str,
    noise_std: float,
    learning_rate: float,
    *,
    excess_kurtosis: float | None = None,
) -> Real:
    r"""Mean change of :math:`F = |W|_4^4/|W|_2^4` in one step without interference, to order eta^2.

    Parameters
    ----------
    w : array_like of float, shape (..., m)
        Encodings, one a row, of any length but 0.
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Noise on the hidden neurons.
    noise_std : float
        Its standard deviation, not negative.
    learning_rate : float
        eta, of steps W - eta times the gradient of the loss on the encoding's own input.
    excess_kurtosis : float, optional
        For ``"three-point"`` noise only.

    Returns
    -------
    float or ndarray of float64
        The leading term, of order eta^2 sigma^4; the next is of relative order eta.

    Raises
    ------
    ValueError
        If an argument is out of range or an encoding is 0.

    Notes
    -----
    The ReLU counts as on, which it is if |w.xi| stays below |w|^2.

    Examples
    --------
    >>> fourth_norm_drift([1.0, 1.0, 1.0, 1.0], "normal", 0.1, 0.01) > 0
    True
    """
    squares, s, F, variance, kurtosis = _shape(w, noise, noise_std, excess_kurtosis)
    m, sixth = squares.shape[-1], np.sum(squares**3, axis=-1)
    isotropic = ((s - 1) ** 2 / s + variance) * variance * (3 - (m + 2) * F)
    shaped = 2 * kurtosis * variance**2 * (F - 4 * sixth + 3 * F**2)
    return plain(np.asarray(8 * number("learning_rate", learning_rate) ** 2 * (isotropic + shaped)))


def fourth_norm_diffusion(
    w: npt.ArrayLike,
    noise: str,
    noise_std: float,
    learning_rate: float,
    *,
    excess_kurtosis: float | None = None,
) -> Real:
    r"""Variance of the step of :math:`F = |W|_4^4/|W|_2^4` without interference, to order eta^2.

    Parameters
    ----------
    w, noise, noise_std, learning_rate, excess_kurtosis
        As in :func:`fourth_norm_drift`.

    Returns
    -------
    float or ndarray of float64
        The leading term; 0 for a flat or one-hot encoding.

    Raises
    ------
    ValueError
        If an argument is out of range or an encoding is 0.

    Examples
    --------
    >>> fourth_norm_diffusion([0.5, 0.5, 0.5, 0.5], "bipolar", 0.1, 0.01)
    0.0
    """
    squares, s, F, variance, kurtosis = _shape(w, noise, noise_std, excess_kurtosis)
    gap = squares - F[..., None]  # sums of squares, so that nothing cancels near a flat encoding
    isotropic = ((s - 1) ** 2 / s + variance) * variance * np.sum(squares * gap**2, axis=-1)
    shaped = kurtosis * variance**2 * np.sum(squares**2 * gap**2, axis=-1)
    total = np.maximum(isotropic + shaped, 0.0)
    return plain(np.asarray(64 * number("learning_rate", learning_rate) ** 2 * total))


def random_fourth_norm_drift(
    n_hidden: npt.ArrayLike,
    noise: str,
    noise_std: float,
    learning_rate: float,
    *,
    excess_kurtosis: float | None = None,
) -> Real:
    r"""Mean of :func:`fourth_norm_drift` over random unit encodings: exact, the sign of the excess kurtosis.

    Parameters
    ----------
    n_hidden : array_like of int
        m, at least 1.
    noise, noise_std, learning_rate, excess_kurtosis
        As in :func:`fourth_norm_drift`.

    Returns
    -------
    float or ndarray of float64
        :math:`48 \eta^2 (\mu_4 - 3\sigma^4) m (m-1)/((m+2)(m+4)(m+6))`.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> random_fourth_norm_drift(16, "bipolar", 0.1, 0.01) < 0
    True
    """
    m = whole("n_hidden", n_hidden)
    _, std, ratio = family(noise, noise_std, excess_kurtosis)
    share = m * (m - 1) / ((m + 2) * (m + 4) * (m + 6))
    return plain(np.asarray(48 * number("learning_rate", learning_rate) ** 2 * (ratio - 3) * std**4 * share))
