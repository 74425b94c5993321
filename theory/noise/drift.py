r"""One step on one encoding without interference: the loss after it, and the drift of its shape.

A step's mean points along W, so that to first order in the learning rate the length settles at
:math:`|W|^2 = 1 - \sigma^2/2` and the *shape* :math:`F = |W|_4^4 / |W|_2^4` does not move at all. How the
second order moves it, :func:`derive_fourth_norm_drift` says.
"""

import numpy as np
import numpy.typing as npt

from ..arguments import Real, finite, number, plain, vector, whole
from .derive import derive_next_step_loss
from .moments import encodings, family, noise_moments

__all__ = ["fourth_norm_drift", "next_step_loss", "random_fourth_norm_drift"]


@finite
def next_step_loss(
    w: npt.ArrayLike,
    noise: str,
    noise_std: float,
    learning_rate: float,
    *,
    excess_kurtosis: float | None = None,
) -> float:
    r"""Return :math:`E (|W'|^2 - 1 + W' \cdot \xi')^2`, the expected loss after one noisy step: exact.

    Parameters
    ----------
    w : array_like of float, shape (m,)
        The encoding before the step, of any length.
    noise, noise_std, excess_kurtosis
        As in :func:`noise_moments`; the noise is fresh in the step and in the loss after it.
    learning_rate : float
        eta, of steps W - eta times the gradient of the loss on the encoding's own input.

    Returns
    -------
    float
        Rounding only; the ReLU counts as on, which it is if |w.xi| stays below |w|^2.

    Raises
    ------
    ValueError
        If an argument is out of range, or a moment too large for a float.

    References
    ----------
    Lecomte et al. (2024), App. C.2.

    Examples
    --------
    >>> round(next_step_loss([1.0, 0.0], "bipolar", 0.1, 0.0), 12)
    0.01
    """
    weights, rate = vector("w", w), number("learning_rate", learning_rate)
    mu = noise_moments(noise, noise_std, excess_kurtosis=excess_kurtosis)
    sums = {f"p{k}": float(np.sum(weights**k)) for k in (2, 4, 6)}
    values = sums | {f"mu{2 * k}": mu[k - 1] for k in range(1, 5)} | {"eta": rate, "m": weights.size}
    if not np.all(np.isfinite([*sums.values(), *mu])):
        raise ValueError(f"`w` must have finite sixth powers, the noise moments; got {weights.max():g}.")
    loss = derive_next_step_loss()
    return float(loss.evaluate({str(s): float(values[str(s)]) for s in loss.symbols}, 20))


@finite
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
    noise, noise_std, learning_rate, excess_kurtosis
        As in :func:`next_step_loss` and :func:`noise_moments`.

    Returns
    -------
    float or ndarray of float64
        The leading term, of order eta^2 sigma^4; the next is of relative order eta. The ReLU counts as on.

    Raises
    ------
    ValueError
        If an argument is out of range or an encoding is 0.

    Examples
    --------
    >>> fourth_norm_drift([1.0, 1.0, 1.0, 1.0], "normal", 0.1, 0.01) > 0
    True
    """
    weights = encodings(w)
    s = np.sum(weights**2, axis=-1)
    if not np.all(s > 0):
        raise ValueError("`w` must not be 0: a zero encoding has no shape; got length 0.")
    _, std, ratio = family(noise, noise_std, excess_kurtosis)
    variance, kurtosis = std**2, ratio - 3
    squares = weights**2 / s[..., None]
    m, F, sixth = squares.shape[-1], np.sum(squares**2, axis=-1), np.sum(squares**3, axis=-1)
    isotropic = ((s - 1) ** 2 / s + variance) * variance * (3 - (m + 2) * F)
    shaped = 2 * kurtosis * variance**2 * (F - 4 * sixth + 3 * F**2)
    rate = number("learning_rate", learning_rate)
    return plain(np.asarray(8 * rate**2 * (isotropic + shaped)))


@finite
def random_fourth_norm_drift(
    n_hidden: npt.ArrayLike,
    noise: str,
    noise_std: float,
    learning_rate: float,
    *,
    excess_kurtosis: float | None = None,
) -> Real:
    r"""Mean of :func:`fourth_norm_drift` over random unit encodings: exact, the sign of the excess kurtosis.

    .. math:: 48 \eta^2 (\mu_4 - 3\sigma^4)\, m (m-1)/((m+2)(m+4)(m+6))

    Parameters
    ----------
    n_hidden : array_like of int
        m, at least 1.
    noise, noise_std, learning_rate, excess_kurtosis
        As in :func:`next_step_loss` and :func:`noise_moments`.

    Examples
    --------
    >>> random_fourth_norm_drift(16, "bipolar", 0.1, 0.01) < 0
    True
    """
    m = whole("n_hidden", n_hidden)
    _, std, ratio = family(noise, noise_std, excess_kurtosis)
    share = m / (m + 2) * ((m - 1) / (m + 4)) / (m + 6)
    rate = number("learning_rate", learning_rate)
    return plain(np.asarray(48 * rate**2 * (ratio - 3) * std**4 * share))
