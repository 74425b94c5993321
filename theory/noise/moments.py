"""Moments of symmetric noise, and the fourth moment of the noise that reaches an output."""

import numpy as np
import numpy.typing as npt

from ..validation import FloatArray, Real, choice, finite, number, real, scalar_or_array

__all__ = ["NOISES", "excess_kurtosis", "fourth_moment", "noise_moments"]

_KURTOSIS = {"bipolar": -2.0, "uniform": -1.2, "normal": 0.0, "laplace": 3.0}
NOISES = (*_KURTOSIS, "three-point")
_LARGEST = 1e30  # eighth powers are formed
_SLACK = 1e-12  # a moment that a user computed in another order may be a few roundings lower


def excess_kurtosis(noise: str) -> float:
    r"""Excess kurtosis :math:`\mu_4/\sigma^4 - 3` of a noise: exact.

    Parameters
    ----------
    noise : {"bipolar", "uniform", "normal", "laplace"}
        Name of the noise's law. Three-point noise on (-c, 0, c) has any excess kurtosis of at least -2, with
        c^2 = sigma^2 (excess kurtosis + 3), and is no argument here.

    Returns
    -------
    float
        -2, -6/5, 0, 3: Lecomte et al. (2024), §3.2.

    Raises
    ------
    ValueError
        If the noise has another name.

    Examples
    --------
    >>> excess_kurtosis("bipolar")
    -2.0
    """
    return _KURTOSIS[choice("noise", noise, NOISES[:-1])]


@finite
def noise_moments(noise: str, noise_std: float = 1.0, *, excess_kurtosis: float | None = None) -> FloatArray:
    r"""Even moments :math:`E \xi^2, E \xi^4, E \xi^6, E \xi^8` of a noise: exact.

    Parameters
    ----------
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Distribution of the noise on one hidden neuron, symmetric about 0.
    noise_std : float, optional
        Standard deviation of the noise, not negative.
    excess_kurtosis : float, optional
        At least -2; for ``"three-point"`` noise, and for no other.

    Returns
    -------
    ndarray of float64, shape (4,)
        Relative error 1e-15.

    Raises
    ------
    ValueError
        If the noise has another name, a number is out of range, or `excess_kurtosis` is missing or not
        wanted.

    Examples
    --------
    >>> noise_moments("laplace", 2.0)
    array([4.0000e+00, 9.6000e+01, 5.7600e+03, 6.4512e+05])
    """
    name, std, ratio = noise_law(noise, noise_std, excess_kurtosis)
    k = np.arange(1.0, 5.0)
    unit = {
        "bipolar": np.ones(4),
        "uniform": 3**k / (2 * k + 1),
        "normal": np.array([1.0, 3.0, 15.0, 105.0]),
        "laplace": np.array([1.0, 6.0, 90.0, 2520.0]),
        "three-point": ratio ** (k - 1),
    }[name]
    return np.asarray(unit * std ** (2 * k))


def given_kurtosis(noise: str, excess_kurtosis: npt.ArrayLike | None) -> FloatArray:
    """Return the excess kurtosis of a noise: known by its name, or `excess_kurtosis` for three-point noise.

    A ValueError is raised if `excess_kurtosis` is missing for three-point noise, is passed for another noise,
    or is below -2.
    """
    if (noise == "three-point") != (excess_kurtosis is not None):
        raise ValueError(
            '`excess_kurtosis` must be given for "three-point" noise and for no other; '
            f"got {excess_kurtosis!r} with {noise!r}."
        )
    if excess_kurtosis is None:
        return np.asarray(_KURTOSIS[noise])
    return real("excess_kurtosis", excess_kurtosis, -2.0, hint="E x^4 >= (E x^2)^2 for every distribution.")


def noise_law(noise: str, noise_std: float, excess_kurtosis: float | None) -> tuple[str, float, float]:
    """Return the noise's name, `noise_std` and mu4/sigma^4, which is its excess kurtosis + 3, all checked.

    `excess_kurtosis` is for three-point noise alone; the law `noise` determines it otherwise.
    """
    name, std = choice("noise", noise, NOISES), number("noise_std", noise_std, 0.0, _LARGEST)
    return name, std, number("excess_kurtosis", given_kurtosis(name, excess_kurtosis)) + 3


def encodings(w: npt.ArrayLike) -> FloatArray:
    """Return encodings w as an array of shape (..., m); raise a ValueError if it has no such shape."""
    weights = real("w", w)
    if weights.ndim == 0 or weights.shape[-1] == 0:
        raise ValueError(f"`w` must have shape (..., m) with m of at least 1; got {weights.shape}.")
    return weights


@finite
def fourth_moment(w: npt.ArrayLike, sigma: npt.ArrayLike, mu4: npt.ArrayLike) -> Real:
    r"""Fourth moment of the noise that reaches an output, :math:`E (W \cdot \xi)^4`: exact.

    .. math:: E (W \cdot \xi)^4 = 3 \sigma^4 |W|_2^4 + (\mu_4 - 3 \sigma^4) |W|_4^4
              = \mu_4 \sum_j W_j^4 + 3 \sigma^4 \sum_{j \ne k} W_j^2 W_k^2.

    The first line of Lecomte et al. (2024), App. C.2, has 6 in place of 3, which is right only if each pair
    j, k is counted once.

    Parameters
    ----------
    w : array_like of float, shape (..., m)
        Encodings, one a row, of any length.
    sigma, mu4 : array_like of float
        Standard deviation and fourth moment of the noise on one hidden neuron: independent on each, symmetric
        about 0. They broadcast over the encodings.

    Returns
    -------
    float or ndarray of float64
        The moment of each encoding; no large terms cancel: relative error 1e-15 times m.

    Raises
    ------
    ValueError
        If an argument is out of range, the result too large for a float, or no distribution has these
        moments: `mu4` is at least sigma^4, as a square's mean is at least the mean's square, and 0 if sigma
        is.

    Examples
    --------
    >>> fourth_moment([1.0, 1.0], 1.0, 1.0)
    8.0
    """
    weights = encodings(w)
    std, fourth = real("sigma", sigma, 0.0), real("mu4", mu4, 0.0)
    square = std**4
    bad = (fourth < square * (1 - _SLACK)) | ((std == 0) & (fourth > 0))
    if np.any(bad):
        low, got = (np.broadcast_to(x, bad.shape)[bad].flat[0] for x in (square, fourth))
        reason = "E xi^4 >= (E xi^2)^2" if got < low else "noise without variance is 0"
        raise ValueError(f"`mu4` must be at least sigma^4 = {low:g}, since {reason}; got {got:g}.")
    squares = weights**2
    others = np.sum(squares, axis=-1, keepdims=True) - squares
    pairs = np.sum(squares * others, axis=-1)
    return scalar_or_array(np.asarray(fourth * np.sum(squares**2, axis=-1) + 3 * square * pairs))
