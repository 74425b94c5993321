"""Macroscopic loss of a statistically symmetric autoencoder, and the limits around it.

Equations and sections are those of Cowsik et al. (2024).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import validation
from .closed import loss_kernel, off_kernel, on_kernel, scale_kernel

__all__ = ["linear_loss", "loss", "off_loss", "on_loss", "optimal_scale", "sigma", "zero_ratio_loss"]

# Below b / (a sigma) = -36 the squares of the ramp moments leave the range of doubles.
_LOWEST_SHIFT = -36.0


def _checked_parameters(a: ArrayLike, b: ArrayLike, sigma: ArrayLike) -> tuple[Any, Any, Any]:
    """Return the scale a > 0, bias b and sigma >= 0 as arrays of their own shapes, or raise a ValueError."""
    scale, bias = validation.real("a", a, 0, brackets="()"), validation.real("b", b)
    return scale, bias, validation.real("sigma", sigma, 0)


def _checked_ratio(ratio: ArrayLike) -> Any:
    """Return the ratio n_hidden/n_features, in (0, 1], as an array, or raise a ValueError."""
    return validation.real("ratio", ratio, 0, 1, brackets="(]")


@validation.finite
def sigma(p: ArrayLike, ratio: ArrayLike) -> Any:
    r"""Least standard deviation of the interference nu_i = sum_{j != i} M_ij x_j / M_ii (Eqs. 6 and 21).

    .. math:: \sigma^2 = \operatorname{Var}(x) \, (1/\mathrm{ratio} - 1), \qquad
              \operatorname{Var}(x) = p/3 - p^2/4

    Equations are those of Cowsik et al. (2024). For every matrix M with unit diagonal and rank at most
    n_hidden, the mean of Var(nu_i) over i is at least sigma^2. Symmetric matrices whose nonzero eigenvalues
    are all equal attain this bound.

    Parameters
    ----------
    p, ratio : array_like of float
        Probability that a feature is on, p = 1 - S, and n_hidden / n_features, both in (0, 1]; they
        broadcast.

    Returns
    -------
    float or ndarray of float64
        0 at ratio 1. Exact to a few rounding errors.

    Examples
    --------
    >>> round(sigma(0.05, 0.25), 6)
    0.219374
    """
    fraction = _checked_ratio(ratio)
    return (np.sqrt(zero_ratio_loss(p) * (1.0 - fraction)) / np.sqrt(fraction))[()]  # 1/ratio may overflow


@validation.finite
def off_loss(a: ArrayLike, b: ArrayLike, sigma: ArrayLike) -> Any:
    r"""Loss of a feature that is off, :math:`E\,\mathrm{ReLU}(a\nu + b)^2` with nu ~ N(0, sigma²) (§4.1).

    nu is the interference; the section is that of Cowsik et al. (2024).

    Parameters
    ----------
    a : array_like of float
        Scale, the common diagonal of decoder times encoder; positive.
    b : array_like of float
        Bias, the mean of the interference included.
    sigma : array_like of float
        Standard deviation of the interference in units of the diagonal; not negative.

    Returns
    -------
    float or ndarray of float64
        Broadcast shape. Relative error below 1e-12 for a in [1e-3, 1e3], sigma in [1e-8, 1e3],
        b/(a sigma) in [-36, 40]; results below 1e-290 underflow gradually.

    Raises
    ------
    ValueError
        If `a` is not positive, `sigma` is negative, or an entry or the loss is not finite.

    Examples
    --------
    >>> round(off_loss(1.0, 0.0, 2.0), 12)      # half of the variance at zero bias
    2.0
    """
    return off_kernel(*_checked_parameters(a, b, sigma))


@validation.finite
def on_loss(a: ArrayLike, b: ArrayLike, sigma: ArrayLike) -> Any:
    r"""Loss of a feature that is on, :math:`E (u - \mathrm{ReLU}(a(u + \nu) + b))^2`, u ~ U[0, 1] (§4.1).

    a is the scale, b the bias, nu ~ N(0, sigma²) the interference; the section is that of Cowsik et al.
    (2024). Ranges, errors and relative accuracy are those of `off_loss`, also where the loss is of order
    sigma².

    Examples
    --------
    >>> on_loss(1.0, 0.0, 0.0)                  # no interference, no bias: a perfect output
    0.0
    """
    return on_kernel(*_checked_parameters(a, b, sigma))


@validation.finite
def loss(a: ArrayLike, b: ArrayLike, sigma: ArrayLike, p: ArrayLike) -> Any:
    r"""Macroscopic loss per feature, :math:`L = (1 - p) L_\mathrm{off} + p L_\mathrm{on}` (Eq. 5).

    The two losses are `off_loss` and `on_loss`, the equation that of Cowsik et al. (2024). Exact for Gaussian
    interference, which is the limit of large n_features. The accuracy and the errors raised are those of
    `off_loss`.

    Parameters
    ----------
    a, b, sigma : array_like of float
        Scale a > 0, bias, and standard deviation of the interference in units of a, at least 0.
    p : array_like of float
        Probability that a feature is on, in (0, 1].

    Returns
    -------
    float or ndarray of float64
        Of the broadcast shape.

    Examples
    --------
    >>> round(loss(1.2, -0.15, sigma(0.05, 0.25), 0.05), 6)
    0.014841
    """
    return loss_kernel(*_checked_parameters(a, b, sigma), validation.probability("p", p))


@validation.finite
def optimal_scale(beta: ArrayLike, sigma: ArrayLike, p: ArrayLike) -> Any:
    r"""Scale a that minimises the loss at a fixed ratio beta = b/a (Eqs. 9 and 16).

    .. math:: a = E[x R] / E[R^2], \qquad R = \mathrm{ReLU}(x + \nu + \beta)

    Equations are those of Cowsik et al. (2024); x + nu is a feature with its interference.

    Parameters
    ----------
    beta : array_like of float
        b/a; at least -36 sigma.
    sigma : array_like of float
        Standard deviation of nu in units of the diagonal; positive.
    p : array_like of float
        Probability that a feature is on, in (0, 1].

    Returns
    -------
    float or ndarray of float64
        Positive. Relative error below 1e-12 for sigma in [1e-8, 1e3], beta/sigma in [-36, 40].

    Raises
    ------
    ValueError
        If `sigma` is not positive, `beta` is below -36 sigma, or `p` lies outside (0, 1].

    Examples
    --------
    >>> round(optimal_scale(-0.35, sigma(0.05, 0.25), 0.05), 4)
    1.2508
    """
    deviation = validation.real("sigma", sigma, 0, brackets="()")
    shift = validation.real("beta", beta) / deviation
    low = np.min(shift, initial=0.0)
    if low < _LOWEST_SHIFT:
        raise ValueError(f"`beta` must be at least {_LOWEST_SHIFT:g} sigma; got {low:g} sigma.")
    return scale_kernel(shift, deviation, validation.probability("p", p))


def linear_loss(p: ArrayLike, ratio: ArrayLike) -> Any:
    """Least loss per feature of an affine model (no ReLU): Var(x) (1 - ratio), §2.

    The section is that of Cowsik et al. (2024). Exact at every n_features: the covariance of the data is
    Var(x) times the identity, so that any n_hidden directions serve.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in (0, 1].
    ratio : array_like of float
        n_hidden/n_features, in (0, 1].

    Returns
    -------
    float or ndarray of float64
        Of the broadcast shape.

    Examples
    --------
    >>> round(linear_loss(0.05, 0.25), 6)
    0.012031
    """
    return (zero_ratio_loss(p) * (1.0 - _checked_ratio(ratio)))[()]


def zero_ratio_loss(p: ArrayLike) -> Any:
    """Least loss of a feature of which nothing is transmitted (ratio → 0, or dropped): Var(x) = p/3 - p²/4.

    The best output is then the constant p/2. Cowsik et al. (2024), §4.3.1, print the bound p/3 - p²/9, with
    1/3 for the mean 1/2 of u.

    Parameters
    ----------
    p : array_like of float
        Probability that a feature is on, in (0, 1].

    Returns
    -------
    float or ndarray of float64
        Of the shape of `p`.

    Examples
    --------
    >>> round(zero_ratio_loss(0.5), 12)
    0.104166666667
    """
    on = validation.probability("p", p)
    return (on * (4.0 - 3.0 * on) / 12.0)[()]  # hardly any cancellation
