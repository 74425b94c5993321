r"""The width law where interference is weak: L ~ 1/m, what comes above it, and the laws of frequencies.

To leading order in sigma the loss of a feature in the rug is sigma² g(p), g(p) = p (1 + t²/4) + (1 - p) 2
H_2(-t), at the shift 4 H_1(-t) = p t (`theory.rug.asymptotics`). At the capacity c it is kappa (1/c - 1) with
kappa_i = I_i v_i g(p_i), so that c_i = min(1, (kappa_i/lambda)^½) at a Lagrange multiplier lambda. While all
are below 1, the total loss is :math:`(\sum_i \kappa_i^{1/2})^2/m - \sum_i \kappa_i`. The section "The width
law" of the page "Features that differ" has more.
"""

import numpy as np
import numpy.typing as npt

from .. import validation
from ..features import Features
from ..rug.asymptotics import asymptotic_shift
from ..special import ramp_moments
from ..validation import FloatArray, Real, scalar_or_array
from .capacity import independent_uniform

__all__ = ["power_law", "tail_loss", "weak_interference"]


def power_law(alpha: float, n_features: int, number_on: float = 1.0, *, scale: float = 1.0) -> Features:
    r"""Law of independent uniform features with probabilities :math:`p_i = \min(1, A i^{-\alpha})`.

    Parameters
    ----------
    alpha : float
        From 0 to 20.
    n_features : int
    number_on, scale : float, optional
        Mean number of features that are on, the sum of the p_i, above 0 and at most n_features; it determines
        A. Values are uniform on [0, scale].

    Returns
    -------
    Features

    Examples
    --------
    >>> power_law(1.0, 4, 2.0).p.round(6), power_law(1.0, 4, 3.0).p.round(6)
    (array([0.96, 0.48, 0.32, 0.24]), array([1.      , 0.923077, 0.615385, 0.461538]))
    """
    alpha = validation.number("alpha", alpha, 0.0, 20.0)
    n = validation.integer("n_features", n_features, 1)
    validation.check_fits("n_features", n, 4.0 * min(n, 2**62))
    on = validation.number("number_on", number_on, 1e-250, n)
    p = np.arange(1.0, n + 1.0) ** -alpha
    sums = np.cumsum(p[::-1])[::-1]
    # The first k are always on: the least k at which the next one is not.
    k = int(np.argmax((on - np.arange(n)) * p <= sums))
    p *= (on - k) / sums[k]
    p[:k] = 1.0
    return Features(n, np.minimum(p, 1.0), scale=scale)


def weak_interference(law: Features, n_hidden: int) -> tuple[FloatArray, float]:
    """Return the best capacities of the outputs, and the loss, to leading order in weak interference.

    The loss is an asymptote for small standard deviations of the interference. Elsewhere it may be above the
    loss of `solvers.unequal.allocate`, as no feature is dropped, or below it. Errors are those of
    `power_law`.

    Parameters
    ----------
    law : Features
        Law of independent features with values uniform on [0, scale].
    n_hidden : int
        From 1 to n_features.

    Returns
    -------
    capacity : (n,) ndarray of float64
    loss : float
        Loss per feature: mean of importance times the loss of each.

    Examples
    --------
    >>> capacity, loss = weak_interference(power_law(1.0, 1000), 100)
    >>> int(np.sum(capacity == 1.0)), round(loss * 1e6, 3)
    (18, 2.964)
    """
    features = independent_uniform(law)
    m = validation.integer("n_hidden", n_hidden, 1, features.n_features)
    p = features.p
    shift = asymptotic_shift(p)
    growth = p * (1.0 + shift**2 / 4.0) + (1.0 - p) * ramp_moments(-shift, 2)[..., 2]
    kappa = features.importance * features.variance * growth
    root = np.sqrt(kappa)
    order = np.argsort(-root)
    rest = np.cumsum(root[order][::-1])[::-1]
    # The first k are kept: the least k at which the next one's share of m - k is at most 1.
    left = m - np.arange(root.size)
    n_represented = int(np.argmax((left * root[order] <= rest) | (left <= 0)))
    capacity = np.ones(root.size)
    tail = order[n_represented:]
    if rest[n_represented] > 0.0:
        capacity[tail] = root[tail] * (m - n_represented) / rest[n_represented]
    live = capacity[tail] > 0.0
    total = float(np.sum(kappa[tail][live] * (1.0 / capacity[tail][live] - 1.0)))
    return capacity, total / features.n_features


def tail_loss(alpha: npt.ArrayLike, n_hidden: npt.ArrayLike) -> Real:
    r"""Total loss, divided by kappa_1, of infinitely many features whose kappa falls by a power law.

    Feature i loses kappa_i (1/c_i - 1) at its capacity c_i. The first features have capacity 1.

    .. math:: \frac{\alpha}{(\alpha - 1)(2 \alpha - 1)}
              \left(\frac{\alpha - 1}{\alpha} m\right)^{1 - 2\alpha}

    Here m is `n_hidden` and kappa_i = kappa_1 i^{-2 alpha}; a factor of kappa_i that grows like log(1/p_i) is
    left out. Sums over i are replaced by integrals; otherwise the error is a few roundings. Errors are those
    of `power_law`.

    Parameters
    ----------
    alpha, n_hidden : array_like of float
        Above 1, and at least alpha/(alpha - 1); they broadcast.

    Examples
    --------
    >>> tail_loss(2.0, [10.0, 100.0]).round(9)
    array([5.333333e-03, 5.333000e-06])
    """
    power, m = validation.broadcast(
        alpha=validation.real("alpha", alpha, 1.0, 20.0, brackets="(]"),
        n_hidden=validation.real("n_hidden", n_hidden, 1.0, 1e12),
    )
    head = (power - 1.0) / power * m
    if np.any(head < 1.0 - 1e-9):
        raise ValueError(f"`n_hidden` must be at least alpha/(alpha - 1); got {m[head < 1.0].flat[0]:g}.")
    return scalar_or_array(power / ((power - 1.0) * (2.0 * power - 1.0)) * head ** (1.0 - 2.0 * power))
