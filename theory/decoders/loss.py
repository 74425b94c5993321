"""Losses of elementwise decoders of a feature that is read through Gaussian interference.

The channel is y = x + sigma Z. A decoder D gives D(y) for x, and its loss is E (x - D(y))^2 per feature. In
the limit of many features each output of a linear projection is such a channel, and sigma is at least
`superposition.theory.rug.sigma`, in units of the diagonal.
"""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincc

from .. import validation
from ..features import ValueDistribution
from ..features.values import law_named
from ..features.values.law import require
from ..validation import FloatArray
from .channel import denoised, output_nodes, sums_above
from .line import line_losses, share_above, threshold

__all__ = [
    "active_fraction", "bayes_decoder", "bayes_loss", "jumprelu_loss", "topk_loss",
]  # fmt: skip

LEAST_P, LEAST_SIGMA, LARGEST_SIGMA = 1e-100, 1e-100, 1e3
LARGEST_K = 2**53

# Calls a function of scalars at each place of arrays that broadcast.
pointwise = partial(np.vectorize, otypes=[np.float64])


def channel(
    p: npt.ArrayLike, sigma: npt.ArrayLike, values: Any
) -> tuple[FloatArray, FloatArray, ValueDistribution]:
    """Return p and sigma as float64 arrays, each in its own shape, and the law of values, all checked.

    `values` is a `ValueDistribution` or its name. A ValueError is raised for p outside [1e-100, 1], for
    sigma, the noise's standard deviation, outside [1e-100, 1e3], and for a law without a posterior given a
    noisy value.
    """
    law = law_named("values", values)
    require(law, "values", "posterior")
    on = validation.probability("p", p, low=LEAST_P)
    return on, validation.real("sigma", sigma, LEAST_SIGMA, LARGEST_SIGMA), law


def _checked_coefficients(**coefficients: npt.ArrayLike) -> list[FloatArray]:
    """Return thresholds, scales or biases as arrays; raise a ValueError about one beyond 1e6 in size."""
    return [validation.real(name, value, -1e6, 1e6) for name, value in coefficients.items()]


@validation.finite
def bayes_decoder(
    y: npt.ArrayLike, p: npt.ArrayLike, sigma: npt.ArrayLike, *, values: str | ValueDistribution = "uniform"
) -> Any:
    r"""Posterior mean E[x | y] of a feature x at y = x + sigma Z: the function of y with the least loss.

    .. math:: E[x \mid y] = \frac{p f_1(y)}{(1 - p) f_0(y) + p f_1(y)} E[v \mid y],
              \qquad f_1(y) = E\,\varphi((y - v)/\sigma)/\sigma, \quad f_0(y) = \varphi(y/\sigma)/\sigma

    Parameters
    ----------
    y : array_like of float
        Input of the decoder: at least -12 sigma, or -12 - 12 sigma for values that may be negative, and at
        most 60 + 12 sigma.
    p : array_like of float
        Probability that a feature is on, in [1e-100, 1].
    sigma : array_like of float
        Standard deviation of the interference in units of the diagonal, from 1e-100 to 1e3.
    values : str or ValueDistribution, optional
        Law of the value of a feature that is on, at scale 1; see `superposition.theory.features.Features`.

    Returns
    -------
    float or ndarray of float64
        Broadcast shape. Relative error below 1e-10 where the odds of on to off are at least 1e-10.

    Examples
    --------
    >>> bayes_decoder([0.0, 0.3, 0.6], 0.05, 0.1).round(3)
    array([0.001, 0.163, 0.6  ])
    """
    on, s, law = channel(p, sigma, values)
    at = validation.real("y", y)
    low, high = (-12.0 if law.support[0] < 0.0 else 0.0) - 12.0 * s, 60.0 + 12.0 * s
    if np.any((at < low) | (at > high)):  # elsewhere the densities underflow
        raise ValueError(
            f"`y` must lie within 12 sigma of the values, in [{np.min(low):g}, {np.max(high):g}]; got "
            f"{at.min():g} to {at.max():g}."
        )

    def mean(y: float, p: float, sigma: float) -> float:
        """Return E[x | y] at one point of the broadcast arrays."""
        return float(denoised(law, np.array([y]), sigma, p)[0][0])

    return pointwise(mean)(at, on, s)[()]


@validation.finite
def bayes_loss(p: npt.ArrayLike, sigma: npt.ArrayLike, *, values: str | ValueDistribution = "uniform") -> Any:
    r"""Least loss per feature of any elementwise decoder, :math:`E\,\mathrm{Var}(x \mid y)`.

    `p` is the probability that a feature is on, `sigma` the standard deviation of the interference in units
    of the diagonal, and `values` the law of the feature's value when on; their ranges and errors are those of
    `bayes_decoder`. As p → 0 at a fixed ratio of neurons to features the loss is p sigma² (1 + o(1)) for
    values whose law has a density, without atoms. The relative error is below 1e-10; a loss below the
    smallest double, for binary values at sigma < 0.013, is 0.

    Examples
    --------
    >>> round(bayes_loss(0.05, 0.2), 8), round(bayes_loss(1.0, 0.2), 8)
    (0.00443846, 0.02555784)
    """
    on, s, law = channel(p, sigma, values)

    def loss(p: float, sigma: float) -> float:  # E Var(v | y) + P(off | y) E(v | y)^2, if on
        """Return the mean of Var(v | y) + P(off | y) E(v | y)^2 over y with the feature on, at one point."""
        _, _, on, mean, variance, silent = output_nodes(law, sigma, p)
        return float(on @ (variance + silent * mean**2))

    return pointwise(loss)(on, s)[()]


@validation.finite
def jumprelu_loss(
    theta: npt.ArrayLike,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    sigma: npt.ArrayLike,
    p: npt.ArrayLike,
    *,
    values: str | ValueDistribution = "uniform",
) -> Any:
    """Loss per feature of the decoder a y + b where y > theta, else 0.

    With b = -a theta the decoder is a ReLU; with a = 1, b = 0 a hard threshold; with a = 1, b = -theta a soft
    one. Where a theta + b is not negative, it is also a gated ReLU. The decoder receives y = x + sigma Z, Z
    standard normal, from a feature x that is on with probability `p`, in [1e-100, 1], and then of the law
    `values`, a `ValueDistribution` or its name; `sigma` is in [1e-100, 1e3]. Errors are those of
    `bayes_decoder`.

    Parameters
    ----------
    theta, a, b : array_like of float
        Threshold, in units of y, and scale and bias above it; from -1e6 to 1e6.

    Returns
    -------
    float or ndarray of float64
        (1 - p) E D(sigma Z)² + p E (v - D(v + sigma Z))². Relative error below 1e-10 for a in [0.1, 10] and a
        theta + b >= 0.

    Examples
    --------
    >>> round(jumprelu_loss(0.3, 1.0, 0.0, 0.1, 0.05), 8)
    0.00108889
    """
    on, s, law = channel(p, sigma, values)
    line = _checked_coefficients(theta=theta, a=a, b=b)

    def loss(theta: float, a: float, b: float, sigma: float, p: float) -> float:
        """Return the loss at one point of the broadcast arrays."""
        return sum(line_losses(law, theta, a, 1.0 - a, b, sigma, p))

    return pointwise(loss)(*line, s, on)[()]


@validation.finite
def active_fraction(
    theta: npt.ArrayLike,
    p: npt.ArrayLike,
    sigma: npt.ArrayLike,
    *,
    values: str | ValueDistribution = "uniform",
) -> Any:
    """Share P(y > theta) of the outputs above a threshold; as n_features → ∞, k/n_features for TopK.

    The outputs are y = x + sigma Z, Z standard normal, for a feature x that is on with probability `p`, and
    then of the law `values`, a `ValueDistribution` or its name; `theta` is the threshold. The arrays
    broadcast; `theta` is in [-1e6, 1e6], p in [1e-100, 1], `sigma` in [1e-100, 1e3], with the errors of
    `jumprelu_loss` and `bayes_decoder`. The relative error is below 1e-10 above 1e-290.

    Examples
    --------
    >>> round(active_fraction(0.3, 0.05, 0.1), 6)
    0.03628
    """
    on, s, law = channel(p, sigma, values)
    (at,) = _checked_coefficients(theta=theta)
    return pointwise(partial(share_above, law))(at, s, on)[()]


@validation.finite
def topk_loss(
    k: npt.ArrayLike,
    n_features: npt.ArrayLike,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    sigma: npt.ArrayLike,
    p: npt.ArrayLike,
    *,
    values: str | ValueDistribution = "uniform",
) -> Any:
    """Loss per feature of TopK: a y + b for the k largest of n_features outputs, 0 for the others.

    Given one output's y, the number of other outputs above y is binomial with the probability P(Y > y). So
    the loss is exact at every k and n_features. For n_features → ∞ it tends to `jumprelu_loss` at the
    threshold where `active_fraction` is k/n_features. `a` and `b` are scale and bias of the outputs that are
    kept. y is x + sigma Z, Z standard normal, for a feature x that is on with probability `p`, and then of
    the law `values`, a `ValueDistribution` or its name. a and b are in [-1e6, 1e6], p in [1e-100, 1], `sigma`
    in [1e-100, 1e3], with the errors of `bayes_decoder`. The relative error is below 1e-9.

    Parameters
    ----------
    k, n_features : array_like of int
        1 <= k <= n_features <= 2^53.

    Examples
    --------
    >>> round(topk_loss(4, 64, 1.0, 0.0, 0.1, 0.05), 8)      # 3.2 features are on, on average
    0.00221338
    """
    on, s, law = channel(p, sigma, values)
    n = validation.whole_numbers("n_features", n_features, 1, LARGEST_K)
    number = validation.whole_numbers("k", k, 1, LARGEST_K)
    if np.any(number > n):
        raise ValueError(f"`k` must be at most n_features; got {validation.short_repr(k)}.")
    line = _checked_coefficients(a=a, b=b)

    def loss(k: float, n: float, a: float, b: float, sigma: float, p: float) -> float:
        """Return the loss at one point of the broadcast arrays."""
        return topk_lost(topk_nodes(law, k, n, sigma, p), a, b)

    return pointwise(loss)(number, n, *line, s, on)[()]


def topk_nodes(
    values: ValueDistribution, k: float, n: float, sigma: float, p: float
) -> tuple[FloatArray, ...]:
    """Return the nodes of a quadrature over the channel's output y = x + sigma Z, for TopK's loss.

    Seven arrays: y; weights off and on, such that E g(x, y) is the sum of off g(0, y) + on E[g(v, y) | y];
    E[v | y], Var(v | y), P(off | y); and the probability that y is among the k largest of n outputs. x is on
    with probability p, with a value v of the law `values`.
    """
    if k == n:
        nodes = output_nodes(values, sigma, p)
        return (*nodes, np.ones(nodes[0].size))
    # whether y is kept changes within a few of these widths of the threshold
    theta, step = threshold(values, k / n, sigma, p), 1e-4 * sigma
    below, above = (share_above(values, theta + side * step, sigma, p) for side in (-1.0, 1.0))
    density = max((below - above) / (2.0 * step), 1e-300)
    width = min(np.sqrt(k / n * (1.0 - k / n) / n) / density, sigma)
    nodes = output_nodes(values, sigma, p, theta + width * np.arange(-15.0, 16.0))
    return (*nodes, betaincc(k, n - k, np.clip(sums_above(nodes[1] + nodes[2]), 0.0, 1.0)))


def topk_lost(nodes: tuple[FloatArray, ...], a: float, b: float) -> float:
    """Return the loss per feature of TopK, a y + b for the k largest outputs, 0 for the others.

    `nodes` are seven arrays over outputs y, from `topk_nodes`: y, its weights with the feature off and on,
    mean and variance of the feature's value v given y, P(off | y), and P(y is among the k largest).
    """
    y, off, on, mean, variance, _, power_kept = nodes
    out = a * y + b
    return float(
        off @ (power_kept * out**2)
        + on @ (variance + power_kept * (mean - out) ** 2 + (1.0 - power_kept) * mean**2)
    )
