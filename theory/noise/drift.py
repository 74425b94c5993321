r"""The change of an encoding's shape in one step of descent, without interference.

A step's mean points along W, so that to first order in the learning rate the length settles at
:math:`|W|^2 = 1 - \sigma^2/2` and the *shape* :math:`F = |W|_4^4 / |W|_2^4` does not move at all. How the
second order moves it, :func:`derive_fourth_norm_drift` says.
"""

import numpy as np
import numpy.typing as npt

from ..validation import Real, finite, number, scalar_or_array, whole_numbers
from .moments import encodings, noise_law

__all__ = ["fourth_norm_drift", "random_fourth_norm_drift"]


@finite
def fourth_norm_drift(
    w: npt.ArrayLike,
    noise: str,
    noise_std: float,
    learning_rate: float,
    *,
    excess_kurtosis: float | None = None,
) -> Real:
    """Mean change of :math:`F = |W|_4^4/|W|_2^4` in one step without interference, to order eta^2.

    Parameters
    ----------
    w : array_like of float, shape (..., m)
        Encodings, one a row, of any length but 0.
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Noise on the hidden neurons, independent on each, fresh at each step.
    noise_std, excess_kurtosis : float, the second optional
        Standard deviation of the noise, not negative, and, for ``"three-point"`` noise only, its excess
        kurtosis.
    learning_rate : float
        eta, of steps W - eta times the gradient of the loss on the encoding's own input.

    Returns
    -------
    float or ndarray of float64
        The leading term, of order eta^2 sigma^4; the next is of relative order eta. The encoding's own output
        is taken as active.

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
    _, std, ratio = noise_law(noise, noise_std, excess_kurtosis)
    variance, kurtosis = std**2, ratio - 3
    squares = weights**2 / s[..., None]
    m, F, sixth = squares.shape[-1], np.sum(squares**2, axis=-1), np.sum(squares**3, axis=-1)
    isotropic = ((s - 1) ** 2 / s + variance) * variance * (3 - (m + 2) * F)
    shaped = 2 * kurtosis * variance**2 * (F - 4 * sixth + 3 * F**2)
    rate = number("learning_rate", learning_rate)
    return scalar_or_array(np.asarray(8 * rate**2 * (isotropic + shaped)))


@finite
def random_fourth_norm_drift(
    n_hidden: npt.ArrayLike,
    noise: str,
    noise_std: float,
    learning_rate: float,
    *,
    excess_kurtosis: float | None = None,
) -> Real:
    r"""Mean of :func:`fourth_norm_drift` over random unit encodings: exact, with the excess kurtosis's sign.

    .. math:: 48 \eta^2 (\mu_4 - 3\sigma^4)\, m (m-1)/((m+2)(m+4)(m+6))

    Parameters
    ----------
    n_hidden : array_like of int
        m, at least 1.
    noise, noise_std, learning_rate, excess_kurtosis
        Name of the noise's law, its standard deviation sigma, the learning rate eta and, for
        ``"three-point"`` noise only, the excess kurtosis, as for :func:`fourth_norm_drift`.

    Examples
    --------
    >>> random_fourth_norm_drift(16, "bipolar", 0.1, 0.01) < 0
    True
    """
    m = whole_numbers("n_hidden", n_hidden)
    _, std, ratio = noise_law(noise, noise_std, excess_kurtosis)
    share = m / (m + 2) * ((m - 1) / (m + 4)) / (m + 6)
    rate = number("learning_rate", learning_rate)
    return scalar_or_array(np.asarray(48 * rate**2 * (ratio - 3) * std**4 * share))
